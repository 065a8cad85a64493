"""What a limit on the bits of a round costs a plan: tokens per second on held-out prompts.

PYTHONPATH=. python3 figures/studies/leak/plans.py TRACE WORK plans.json

TRACE is that of ``python3 hlm validate``. Every plan has the times of the command's defaults, 12 and 30 ms, and a round
trip of 20 ms.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

from validation.planning.aims import aim_of, row_of
from validation.planning.measure import planner_of_trace
from validation.planning.menu import OURS
from validation.planning.request import Request
from validation.plots.common.record import plain

RATES = (1e5, 1e6)
LIMITS = {True: (None, 0.0), False: (None, 2.0, 1.0, 0.0)}
"""With a shared seed, whose messages have one size from the start, and without."""


def main() -> None:
    """Plan, and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for seeded, limits in LIMITS.items():
        for bits in limits:
            request = Request(leak_bits=bits)
            planner, about = planner_of_trace(given.trace, request.setting(), cache=given.work, shared_seed=seeded)
            for rate in RATES:
                request = Request(leak_bits=bits, rate_bps=rate).with_server_draft(about["evidence"]["parameter_ratio"])
                planner.setting = setting = request.setting()
                option, _ = planner.ours(setting)
                rival = aim_of(planner, setting).rival.option
                rows.append(
                    {
                        "shared_seed": seeded,
                        "limit_bits": bits,
                        "rate_bps": rate,
                        "plan": f"{option.family} {option.label}".removeprefix(f"{OURS} "),
                        "message_bytes": list(option.sizes),
                        "told_bits": plain(option.leak_bits, 3) if bits is not None else None,
                        "tokens_per_s": plain(float(row_of(planner, OURS).tokens_per_s_median.value), 4),
                        "strongest_rival": f"{rival.family} {rival.label}",
                        "rival_tokens_per_s": plain(float(row_of(planner, rival.family).tokens_per_s_median.value), 4),
                    }
                )
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    about = {
        "command": "PYTHONPATH=. python3 figures/studies/leak/plans.py runs/builtin/trace WORK figures/studies/leak/plans.json",
        "commit": commit,
        "prompts": planner.split.prompts,
    }
    given.out.write_text(json.dumps(about | {"rows": rows}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
