"""Find and draw the reproduced figures and tables of the papers, each with a sidecar file of its numbers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hlmtheory
from validation.decoding.fitting import fit_mark, stored_fit
from validation.decoding.studies import Decoded
from validation.errors import UserError, naming
from validation.models.pair import PAIRS
from validation.plots.common.record import Decoding, Exhibit, Figure, Printed, Simulation, Tag
from validation.plots.common.stored import BUILTIN, origin, pairs_with
from validation.plots.common.style import PICTURES, Canvas, headed, house_style, save
from validation.plots.common.values import as_csv
from validation.plots.exhibits import EXHIBITS, FIGURES
from validation.provenance import commit_of_code
from validation.trace.reader import Trace, fingerprint

__all__ = ["EXHIBITS", "FIGURES", "FORMATS", "Decoding", "Exhibit", "Figure", "Printed", "Simulation", "Tag"]

FORMATS = (*PICTURES, "csv")
"""Formats of a figure's files."""


def find_exhibits(paper: str, number: str | None = None) -> list[Exhibit]:
    """Return the figure or table with a paper and number, or its parts; without a number, all exhibits of the paper."""
    found = [one for one in EXHIBITS.values() if one.paper == paper and number in (None, one.number)]
    parts = [one for one in EXHIBITS.values() if (one.paper, one.number[:-1]) == (paper, number)]
    found = found or [one for one in parts if one.number[-1].islower()]
    if not found:
        name = f"{paper} {number}" if number else paper
        numbers = [one.number for one in EXHIBITS.values() if one.paper == paper]
        known = numbers or dict.fromkeys(one.paper for one in EXHIBITS.values())
        raise UserError(f"There is no figure {name}; choose one of: {', '.join(known)}.")
    return found


def draw(
    exhibit: Exhibit,
    trace: Trace | None,
    folder: str | Path,
    *,
    command: str,
    seed: int,
    commit: str | None = None,
    decoded: Sequence[Decoded] = (),
    formats: Sequence[str] = ("svg",),
    pair: str | None = None,
) -> list[Path]:
    _refuse_another_pair(exhibit, trace, decoded, pair)
    if isinstance(exhibit, Figure) and trace is not None:
        numbers = exhibit.measure(trace, seed)
        basis = _measured_basis(exhibit, trace, numbers, pair)
    elif isinstance(exhibit, Simulation):
        numbers = exhibit.simulate(seed, **({"pair": pair} if exhibit.experiment else {}))
        made_of = origin(numbers["experiment"]) if "experiment" in numbers else ""
        words = f"{numbers.pop('basis')}{made_of}."
        derived = exhibit.tag is Tag.DERIVED  # its caption says so
        basis = {"basis": words[0].upper() + words[1:] if derived else f"{exhibit.tag.capitalize()}: {words}"}
    elif isinstance(exhibit, Decoding) and decoded:
        numbers = exhibit.measure(decoded, seed)
        basis = _decoded_basis(exhibit, decoded[0], pair)
    else:
        what = f"{exhibit.paper} {exhibit.place}"
        if isinstance(exhibit, Decoding):
            raise UserError(f"{what} is drawn from texts; decode them with `python3 hlm decode {exhibit.study}`.")
        raise UserError(f"{what} is drawn from a trace; collect one with `python3 hlm validate`.")
    sidecar = Path(folder) / f"{exhibit.stem}.json"
    sidecar.parent.mkdir(parents=True, exist_ok=True)
    written = [sidecar]
    if exhibit.paint is not None:
        with house_style():
            picture = picture_of(exhibit, numbers | basis)
            for suffix in PICTURES:
                if suffix == "svg" or suffix in formats:
                    written.append(sidecar.with_suffix(f".{suffix}"))
                    with naming(written[-1]):
                        save(picture, written[-1])
    if "csv" in formats:
        written.append(sidecar.with_suffix(".csv"))
        with naming(written[-1]):
            written[-1].write_text(as_csv(numbers), encoding="utf-8", newline="")
    about = _about(exhibit, numbers | basis, basis.pop("basis")) | basis
    run = {"command": command, "seed": seed, "commit": commit or commit_of_code(), "hlmtheory": hlmtheory.__version__}
    text = json.dumps(about | run | numbers, ensure_ascii=False, allow_nan=False) + "\n"
    with naming(sidecar):
        sidecar.write_text(text, encoding="utf-8")
    return written


def _refuse_another_pair(exhibit: Exhibit, trace: Trace | None, decoded: Sequence[Decoded], pair: str | None) -> None:
    what = f"{exhibit.paper} {exhibit.place}"
    if isinstance(exhibit, Simulation):
        own = pairs_with(exhibit.experiment)
        if not own and exhibit.tag in (Tag.MEASURED, Tag.ASSUMED):
            own = [BUILTIN]
        if pair not in (None, BUILTIN, *own):
            there = f"it has those of: {', '.join(own)}" if own else "no model is in it, so leave out --pair"
            raise UserError(f"{what} has no numbers of the pair {pair}; {there}.")
        return
    about = decoded[0].about if decoded else {} if trace is None else trace.manifest
    stored = about.get("pair", {}).get("name")
    if stored in PAIRS and pair not in (None, stored):
        raise UserError(f"{what} would show the pair {stored}, not {pair}; give the --trace of {pair}.")


def picture_of(exhibit: Exhibit, numbers: Mapping[str, Any]) -> Canvas:
    """Paint a figure between its message and its basis."""
    assert exhibit.paint is not None
    basis = str(numbers.get("basis", "")).partition("; numbers of the stored")[0]
    return headed(exhibit.paint(dict(numbers)), exhibit.sentence(numbers), basis)


def restate(sidecar: Path) -> Path | None:
    """Write the words and the picture of a stored figure anew from the numbers of its sidecar, without measuring.

    The sidecar keeps the version and the commit that measured, and names the version that described.
    """
    if new := new_words(sidecar):
        sidecar.write_text(json.dumps(new, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    about = json.loads(sidecar.read_text(encoding="utf-8"))
    paper, number = about["figure"].split(" ")
    exhibit = EXHIBITS[paper, number]
    if exhibit.paint is None:
        return None
    picture = sidecar.with_suffix(".svg")
    with house_style(), naming(picture):
        save(picture_of(exhibit, about), picture)
    return picture


def new_words(sidecar: Path) -> dict[str, Any]:
    """Return what a sidecar would hold with its exhibit's words of today; empty if it has them."""
    about = json.loads(sidecar.read_text(encoding="utf-8"))
    paper, number = about["figure"].split(" ")
    words = _about(EXHIBITS[paper, number], about, about["basis"])
    return {} if about | words == about else about | words | {"described_by": hlmtheory.__version__}


def _about(exhibit: Exhibit, numbers: Mapping[str, Any], basis: str) -> dict[str, Any]:
    return {
        "figure": f"{exhibit.paper} {exhibit.number}",
        **exhibit.describe(dict(numbers), basis),
        "basis": basis,
        "kind": str(exhibit.tag),
        "source": {"key": exhibit.source, "place": ("ours, " if exhibit.paper == "ours" else "") + exhibit.place},
        "printed": [asdict(printed) for printed in exhibit.printed],
        "claims": list(exhibit.claims),
    }


def _measured_basis(figure: Figure, trace: Trace, numbers: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    pair = name or trace.manifest.get("pair", {}).get("name")
    drawn, all_of_them = numbers["positions_drawn"], trace.positions
    where = f"{drawn:,} of {all_of_them:,}" if drawn < all_of_them else f"{drawn:,}"
    return {
        "basis": f"{figure.tag.capitalize()} on the pair {pair}, {where} positions, V = {trace.vocabulary:,}.",
        "pair": pair,
        "positions": trace.positions,
        "vocabulary": trace.vocabulary,
        "trace": fingerprint(trace),
        "fit": stored_fit(trace),
    }


def _decoded_basis(figure: Decoding, study: Decoded, name: str | None) -> dict[str, Any]:
    pair, about = name or study.about["pair"]["name"], study.about
    sets = ", ".join(f"{sum(p['source'] == name for p in about['prompts'])} of {name}" for name in study.sources)
    return {
        "basis": f"{figure.tag.capitalize()} on the pair {pair}; prompts: {sets}; r_max = {about['new_tokens']}.",
        "pair": pair,
        "prompts": len(about["prompts"]),
        "trace": about.get("trace"),
        "fit": fit_mark(about["fitted"]),
    }
