"""Compare what a draft loses on an updated target with the bound TV(p_0, p_v)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from figures.studies.kit import given, picture, read, store
from hlmtheory.verification import acceptance_after_update
from hlmtheory.verification.updates import largest_distance
from validation.plots.common.record import plain
from validation.plots.common.style import PAGE, axis, name_axes

if TYPE_CHECKING:
    pass

DRAFTS = {"plain": "#222222", "aligned": "#0072B2"}
MARKS = {"plain": "o", "aligned": "x"}
SETS = {"domain": "held-out texts of the version's domain", "general": "held-out novels and PEPs"}
ROUNDING = 1e-4  # of the stored sums, which have five digits, and of rows in float32


def versions(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of updated versions, without those of version 0."""
    return [row for row in rows if row["method"] != "base"]


def checked(row: dict[str, Any], which: str) -> dict[str, dict[str, int]]:
    """Return for each draft on how many texts the bound holds, and is above 0."""
    part, found = row[which], {}
    count = np.asarray(part["positions"], dtype=float)
    moved = np.asarray(part["tv"]) / count
    for draft in DRAFTS:
        before, after = (np.asarray(part[key][draft]) / count for key in ("accept_base", "accept"))
        lower, upper = acceptance_after_update(before.clip(0, 1), moved.clip(0, 1))
        holds = (after >= lower - ROUNDING) & (after <= upper + ROUNDING)
        found[draft] = {"texts": len(count), "holds": int(holds.sum()), "says": int((lower > 0).sum())}
    return found


def pooled(rows: list[dict[str, Any]], which: str) -> dict[str, Any]:
    """Return the means of a version over its seeds and texts: distances, and for each draft what it lost."""
    total = sum(sum(row[which]["positions"]) for row in rows)
    moved, nats = (sum(sum(row[which][key]) for row in rows) / total for key in ("tv", "kl"))
    found: dict[str, Any] = {"tv": moved, "kl": nats, "largest_tv": float(largest_distance(max(nats, 0.0)))}
    for draft in DRAFTS:
        before, after = (sum(sum(row[which][key][draft]) for row in rows) / total for key in ("accept_base", "accept"))
        lost = {"before": before, "after": after, "share_of_tv": (before - after) / moved}
        found[draft] = {key: plain(value, 4) for key, value in lost.items()}
    return {key: value if isinstance(value, dict) else plain(value, 4) for key, value in found.items()}


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the checks by draft, and the means by version and set of texts."""
    made = versions(rows)
    checks: dict[str, dict[str, dict[str, int]]] = {}
    for which in SETS:
        each = [checked(row, which) for row in made]
        checks[which] = {
            draft: {key: sum(one[draft][key] for one in each) for key in ("texts", "holds", "says")} for draft in DRAFTS
        }
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in made:
        groups.setdefault((row["of"], row["method"] + hot(row), row["step"]), []).append(row)
    last = {key[:2]: max(step for of, method, step in groups if (of, method) == key[:2]) for key in groups}
    means = [
        {"of": of, "method": method, "step": step, "seeds": len(own), **{name: pooled(own, name) for name in SETS}}
        for (of, method, step), own in sorted(groups.items())
        if step == last[of, method]
    ]
    return {"versions": len(made), "checks": checks, "own_texts": own_texts(rows), "means": means}


def hot(row: dict[str, Any]) -> str:
    """Return the mark of a version that was trained at a higher rate, to drift farther."""
    return " hot" if row["name"].endswith("-hot") else ""


def own_texts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what each draft lost if each version's rate is taken on its own texts, beside the mean TV there."""
    first = {row["of"]: row["own"] for row in rows if row["method"] == "base"}
    found = []
    for row in versions(rows):
        if "own" not in row or row["of"] not in first:
            continue
        own, base = row["own"], first[row["of"]]
        sizes = [float(sum(part["positions"])) for part in (base, own)]
        for draft in DRAFTS:
            before, after = (sum(part["accept"][draft]) / n for part, n in zip((base, own), sizes, strict=True))
            moved = sum(own["tv"]) / sizes[1]
            found.append(
                {"name": row["name"], "step": row["step"], "draft": draft, "lost": before - after, "tv": moved}
            )
    return [{key: plain(v, 4) if isinstance(v, float) else v for key, v in one.items()} for one in found]


def draw(rows: list[dict[str, Any]], stored: Path) -> None:
    """Draw what was lost over the distance, for each version and seed, with the bound."""
    with picture(stored, PAGE, len(SETS)) as (_, panels):
        for panel, (which, title) in zip(panels, SETS.items(), strict=True):
            far = 0.0
            for draft, colour in DRAFTS.items():
                own = [pooled([row], which) for row in versions(rows)]
                points = [(one["tv"], one[draft]["share_of_tv"] * one["tv"]) for one in own]
                far = max(far, *(one["tv"] for one in own))
                look = {"marker": MARKS[draft], "markersize": 3, "markerfacecolor": "none", "markeredgewidth": 0.7}
                panel.plot(*zip(*points, strict=True), linestyle="none", color=colour, label=f"{draft} draft", **look)
            panel.plot([0, far], [0, far], color="#777777", linestyle="dashed", label="bound")
            panel.set_title(title)
            name_axes(panel, {"x": axis("mean TV from version 0"), "y": axis("acceptance lost")})
        panels[0].legend()


def main() -> None:
    """Write the summary and the picture."""
    asked = given(__doc__, "out", "rows*")
    rows = [row for name in asked.rows for row in read(name)]
    store(asked.out, summarise(rows))
    draw(rows, asked.out)


if __name__ == "__main__":
    main()
