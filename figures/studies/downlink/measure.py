"""Bytes up and down of DSSD, whole and with a certified answer, beside whole rows up and a shared seed; run by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from figures.studies.kit import SHELF, given, store
from validation.collection.prompts import builtin_prompts
from validation.decoding.intervals import ratio
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import Dssd, DssdCertified, FixedLength
from validation.decoding.methods.shared_seed import SharedSeed
from validation.decoding.records import GenerationRecord
from validation.models.pair import load_pair

DRAFTS, NEW_TOKENS, EVERY, SEED = 4, 48, 32, 20261127
LIMITS = (0.001, 0.01, 0.1)


def methods() -> list[Method]:
    """Return the schemes, the exact ones first."""
    return [FixedLength(DRAFTS), Dssd(DRAFTS), SharedSeed(DRAFTS), *(DssdCertified(limit, DRAFTS) for limit in LIMITS)]


def counts(records: list[GenerationRecord]) -> dict[str, Any]:
    """Return the numbers of one scheme, ratios with an interval over the prompts."""
    tokens = np.array([len(record.tokens) for record in records], dtype=np.float64)
    total = {
        name: np.array([record.total(name) for record in records], dtype=np.float64)
        for name in ("bytes", "down_bytes", "target_passes", "resampled", "risk")
    }
    found: dict[str, Any] = {"texts": len(records), "tokens": int(tokens.sum())}
    for name, above, below in (
        ("tokens_per_pass", tokens, total["target_passes"]),
        ("bytes_up_per_token", total["bytes"], tokens),
        ("bytes_down_per_token", total["down_bytes"], tokens),
        ("rejections_per_pass", total["resampled"], total["target_passes"]),
        ("distance_per_token", total["risk"], tokens),
    ):
        value = ratio(above, below)
        found[name] = [round(float(one), 6) for one in (value.value, value.low, value.high) if one is not None]
    return found


def main() -> None:
    """Decode with every scheme and store the counts."""
    given(__doc__)
    pair, prompts = load_pair("builtin"), builtin_prompts()[::EVERY]
    rows = []
    for method in methods():
        records = decode(pair, prompts, method, new_tokens=NEW_TOKENS, batch=len(prompts), seed=SEED, risk=True)
        rows.append({"method": method.name, **counts(records)})
    setting = {"prompts": len(prompts), "new_tokens": NEW_TOKENS, "drafts": DRAFTS, "seed": SEED}
    store(SHELF / "downlink" / "downlink.json", {"setting": setting, "rows": rows})


if __name__ == "__main__":
    main()
