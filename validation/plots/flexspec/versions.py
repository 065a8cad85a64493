"""Compute Table II of flexspec (li2025flexspec): the acceptance of a fixed draft while its target is tuned.

The numbers are the stored result of an experiment, ``figures/studies/aligned_draft``, on the built-in pair; this
module trains and decodes nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from validation.plots.common.record import Numbers, Table, plain
from validation.plots.common.stored import from_experiment, read
from validation.plots.flexspec.printed import ACCEPTANCE

STORED = Path(__file__).with_name("versions.json")
"""Written by ``figures/studies/aligned_draft/summary.py``."""

COUNTERPARTS = (("math", "base", "general"), ("math", "lora16", "domain"), ("code", "full", "domain"))
"""Our domain, method and set of texts beside each row of the paper."""
TEXTS = {"math": "GSM8K", "code": "HumanEval and PEP code", "general": "novels and PEPs"}
METHODS = {
    "base": "version 0",
    "lora16": "LoRA, rank 16",
    "full": "full",
}


def stored() -> dict[str, Any]:
    """Return the summary of the measurements."""
    return read(STORED)


def version(domain: str, method: str) -> dict[str, Any]:
    """Return the record of a version at its last step."""
    found: list[dict[str, Any]] = [
        one for one in stored()["versions"] if (one["of"], one["method"], one["hot"]) == (domain, method, False)
    ]
    return found[0]


def ranged(found: dict[str, Any] | None) -> str:
    """Format a value with its interval.

    >>> ranged({"value": 0.5, "low": 0.4, "high": 0.625})
    '.50 (.40 to .62)'
    """
    if found is None:
        return "–"
    value, low, high = (f"{found[key]:.2f}".replace("0.", ".", 1) for key in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


def _beside() -> dict[str, Any]:
    rows = []
    for (name, domain, rate), (ours, method, texts) in zip(ACCEPTANCE, COUNTERPARTS, strict=True):
        found = version(ours, method)[texts]
        drafts = found["drafts"]
        place = TEXTS["general" if texts == "general" else ours]
        rows.append(
            (
                f"{name}, {domain}",
                f"{rate:.2f}".replace("0.", ".", 1),
                f"{METHODS[method]}, {place}",
                ranged(drafts["plain"]["accept"]),
                ranged(drafts["plain"]["accept_version_0"]),
                ranged(drafts["aligned"]["accept"]),
                ranged(drafts.get("anew", {}).get("accept")),
                ranged(drafts["prompt lookup"]["accept"]),
                ranged(found["tv"]),
            )
        )
    heads = (
        "target in the paper, domain",
        "printed",
        "ours",
        "plain draft",
        "plain, target version 0",
        "aligned draft",
        "trained anew",
        "prompt lookup",
        "TV from version 0",
    )
    return Table("Acceptance on held-out texts of the domain, 1 − TV, printed and ours", heads, tuple(rows)).plain()


def _statistics() -> dict[str, float]:
    """Return the two parts of a plain draft's fall from general texts to a version tuned on code."""
    general = version("math", "base")["general"]["drafts"]["plain"]["accept"]["value"]
    plain_draft = version("code", "full")["domain"]["drafts"]["plain"]
    before, after = (plain_draft[key]["value"] for key in ("accept_version_0", "accept"))
    return {"of_the_texts": plain(general - before, 3), "of_the_version": plain(before - after, 3)}


def simulate(seed: int) -> Numbers:
    """Return the table; nothing is random."""
    return {
        "statistics": _statistics(),
        "tables": [_beside()],
        "basis": (
            "the built-in pair, V = 4,096; the target model is tuned further for 24 steps of 1,024 tokens, with three "
            "seeds; brackets are 95% intervals by a bootstrap over seeds and texts"
        ),
        **from_experiment("aligned_draft"),
    }
