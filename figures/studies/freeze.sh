#!/usr/bin/env bash
# Write SHA256SUMS: the checksum of each result and picture of the studies, and of each result in validation/plots.
# Run it after a study was run again, from any folder. READMEs and scripts may change without it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
git ls-files figures/studies/*/ 'validation/plots/*/*.json' | grep -v '\.\(md\|py\|sh\)$' | LC_ALL=C sort \
    | xargs -d '\n' sha256sum > figures/studies/SHA256SUMS
