"""Store every claim's id, standing and tight ratio, and the verdicts on drawn instances; or compare with the stored.

    .venv/bin/python tests/goldens/claims.py --store    # writes claims.json
    .venv/bin/python tests/goldens/claims.py            # prints what differs, and ends with 1 if anything does

Ids, standings and ratios must stay equal. Instances may change: each claim must have one in scope, and a claim that
held must hold. Measured claims need a trace, so only their first three entries are stored.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import hlmtheory
from hlmtheory.claims import Status
from validation.claims.instances import scenario_rng, scenarios

STORED = Path(__file__).with_suffix(".json")
BATCHES = 3


def ratio_of(claim) -> str | None:
    """Return lhs/rhs of the attained instance, re-evaluated; None for a false claim."""
    if claim.attained is None:
        return None
    verdict = claim.check(claim.attained.instance)
    with np.errstate(invalid="ignore", divide="ignore"):
        return repr(float(verdict.lhs / verdict.rhs))


def golden(claim, draw) -> list:
    """Return standing, ratio, and for a simulated claim the instances, those in scope, and the violated ones."""
    counts = [0, 0, 0]
    for batch in range(BATCHES) if draw else ():
        verdict = claim.check(draw(scenario_rng(1, claim.id, batch)))
        counts = [a + b for a, b in zip(counts, (verdict.instances, verdict.in_scope, violated(verdict)), strict=True)]
    return [claim.standing, ratio_of(claim), *(counts if draw else ())]


def violated(verdict) -> int:
    """Return the number of violated instances."""
    return verdict.count(Status.VIOLATED)


def differences(stored: dict, now: dict) -> list[str]:
    """Return what must not differ between two sets."""
    lines = [f"{name}: in one set only" for name in stored.keys() ^ now.keys()]
    for name in stored.keys() & now.keys():
        before, after = stored[name], now[name]
        if before[:2] != after[:2]:
            lines.append(f"{name}: {before[:2]} was stored, now {after[:2]}")
        if len(after) > 2 and after[3] == 0:
            lines.append(f"{name}: none of {after[2]} instances is in scope")
        if len(after) > 2 and before[0] == "true" and after[4]:
            lines.append(f"{name}: {after[4]} of {after[3]} instances violate it")
    return sorted(lines)


def main() -> int:
    """Store or compare; return the exit code."""
    draws, started = scenarios(), set(sys.argv[1:])
    claims = hlmtheory.all_claims()
    named = {name: claim for name, claim in claims.items() if name.split(".")[0] in started} or claims
    now = {name: golden(claim, draws.get(name)) for name, claim in named.items()}
    if "--store" in started:
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in now.items())
        STORED.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
        return 0
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    stored = {name: one for name, one in stored.items() if name in named or named is claims}
    lines = differences(stored, now)
    print("\n".join(lines) or f"{len(now)} claims: ids, standings and ratios are equal; each has instances in scope")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
