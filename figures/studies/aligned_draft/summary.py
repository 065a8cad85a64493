"""Summarise the rows of measure.py by version, with intervals over texts and seeds, and draw acceptance over drift."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from figures.studies.kit import given, legend, picture, read, record
from validation.decoding.intervals import counts_of, divide, draw_texts, estimate
from validation.plots.common.record import plain
from validation.plots.common.style import PAGE, axis, name_axes
from validation.plots.flexspec.computed import STORED
from validation.provenance import commit_of_code

RESAMPLES, CONFIDENCE = 4000, 0.95
CONTROL = "distilled for version 0"
SETS = ("own", "domain", "general")
DOMAINS = {"math": "GSM8K", "code": "code", "chat": "Alpaca"}
COLOURS = {"plain": "#222222", "aligned": "#0072B2", "anew": "#D55E00"}
MARKS = {"plain": "o", "aligned": "x", "anew": "^"}

Row = NDArray[np.float64]


def interval(above: list[list[float]], below: list[list[float]]) -> dict[str, Any]:
    """Return Σ above/Σ below over seeds and texts, with its interval; both are (seeds, texts)."""
    a, b = np.asarray(above, dtype=float), np.asarray(below, dtype=float)
    texts = counts_of(draw_texts(a.shape[1], RESAMPLES, 1), a.shape[1])
    seeds = counts_of(draw_texts(a.shape[0], RESAMPLES, 2), a.shape[0])
    draws = divide(*(((seeds @ part) * texts).sum(axis=1) for part in (a, b)))
    found = estimate(divide(a.sum(), b.sum()), draws, CONFIDENCE)
    return {name: None if one is None else plain(one, 4) for name, one in asdict(found).items()}


def difference(first: list[list[float]], second: list[list[float]], below: list[list[float]]) -> dict[str, Any]:
    """Return the interval of the difference of two means over the same positions."""
    return interval((np.asarray(first) - np.asarray(second)).tolist(), below)


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one record for each version at its last step, pooled over seeds, and the settings."""
    groups: dict[tuple[str, str, int, bool], list[dict[str, Any]]] = {}
    for row in rows:
        if "own" in row:
            key = (row["of"], row["method"], row["step"], row["name"].endswith("-hot"))
            groups.setdefault(key, []).append(row)
    found = []
    for (domain, method, step, hot), members in groups.items():
        members.sort(key=lambda row: row["seed"])
        record: dict[str, Any] = {"of": domain, "method": method, "step": step, "hot": hot, "seeds": len(members)}
        record |= {name: _set(members, name) for name in SETS} | {"rounds": _rounds(members)}
        if "keeps_the_anchor" in members[0]:
            record |= {key: members[0][key] for key in ("keeps_the_anchor", "own_parameters", "rate")}
        found.append(record)
    return {"versions": found, "resamples": RESAMPLES, "confidence": CONFIDENCE}


def _set(members: list[dict[str, Any]], name: str) -> dict[str, Any]:
    below = [row[name]["positions"] for row in members]
    found: dict[str, Any] = {"positions": int(np.sum(below)), "texts": len(below[0])}
    tv = [row[name]["tv"] for row in members]
    found |= {"tv": interval(tv, below), "kl": interval([row[name]["kl"] for row in members], below), "drafts": {}}
    for draft in members[0][name]["accept"]:
        if not all(draft in row[name]["accept"] for row in members):
            continue
        now, before = ([row[name][key][draft] for row in members] for key in ("accept", "accept_base"))
        told = {"accept": interval(now, below), "accept_version_0": interval(before, below)}
        told["loss"] = difference(before, now, below)
        if np.sum(tv):
            told["loss_over_tv"] = interval((np.asarray(before) - np.asarray(now)).tolist(), tv)
        found["drafts"][draft] = told
    for rival in ("plain", CONTROL):
        if rival in found["drafts"] and np.sum(tv):
            saved = np.subtract(_lost(members, name, rival), _lost(members, name, "aligned"))
            found[f"aligned_saves_over_{rival}"] = interval(saved.tolist(), below)
    return found


def _lost(members: list[dict[str, Any]], name: str, draft: str) -> Row:
    """Return the acceptance that a draft loses in each text, (seeds, texts)."""
    return np.array([np.subtract(row[name]["accept_base"][draft], row[name]["accept"][draft]) for row in members])


def _rounds(members: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the acceptance of verified drafts and the tokens of a round, from decoded texts."""
    found = {}
    for draft in members[0]["rounds"]:
        if all(draft in row["rounds"] for row in members):
            parts = {key: [row["rounds"][draft][key] for row in members] for key in members[0]["rounds"][draft]}
            found[draft] = {
                "accept": interval(parts["accepted"], parts["verified"]),
                "tokens_a_round": interval(parts["tokens"], parts["rounds"]),
            }
    return found


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw acceptance over the drift on held-out texts of the version's domain, a point a version."""
    with picture(path, (PAGE[0], 2.6), len(DOMAINS)) as (figure, panels):
        for panel, (domain, title) in zip(panels, DOMAINS.items(), strict=True):
            own = [row for row in rows if row["of"] == domain]
            far = 0.0
            for draft, colour in COLOURS.items():
                known = [row["domain"] for row in own if draft in row["domain"]["accept"]]
                sizes = [sum(one["positions"]) for one in known]
                x = np.array([sum(one["tv"]) for one in known]) / sizes
                y = np.array([sum(one["accept"][draft]) for one in known]) / sizes
                look = {"marker": MARKS[draft], "markersize": 2.8, "markerfacecolor": "none", "markeredgewidth": 0.7}
                label = "draft trained anew" if draft == "anew" else f"{draft} draft"
                panel.plot(x, y, linestyle="none", color=colour, label=label, **look)
                far = max(far, float(x.max(initial=0.0)))
            base = next(row["domain"] for row in own if row["method"] == "base")
            for draft, line in (("plain", "dashed"), ("aligned", "dotted")):
                start = sum(base["accept"][draft]) / sum(base["positions"])
                look = {"color": COLOURS[draft], "linewidth": 0.8, "linestyle": line}
                panel.plot([0, far], [start, start - far], label=f"bound, {draft} draft", **look)
            panel.set(title=title, ylim=(0, 0.8))
            name_axes(panel, {"x": axis("TV from version 0"), "y": axis("acceptance, 1 − TV")})
        for panel in panels[1:]:
            panel.set_ylabel("")
        legend(figure, panels, 5)


def main() -> None:
    """Write the summary that Table II of flexspec reads, its record, and the picture."""
    asked = given(__doc__, "rows")
    rows = read(asked.rows)
    found = summarise(rows)
    lines = ",\n".join(json.dumps(one) for one in found.pop("versions"))
    STORED.write_text(f'{json.dumps(found)[:-1]}, "versions": [\n{lines}\n]}}\n', encoding="utf-8")
    record(
        "aligned_draft",
        STORED,
        command="python3 figures/studies/aligned_draft/summary.py builtin.json",
        models="the built-in pair; its aligned draft and 57 tuned versions of its target model, trained here and "
        "not stored",
        data="GSM8K, HumanEval, Alpaca, PEPs, novels",
        commit=str(commit_of_code()),
    )
    draw(rows, asked.rows)


if __name__ == "__main__":
    main()
