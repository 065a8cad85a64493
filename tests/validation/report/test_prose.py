"""Every number of a page of findings is one that a stored file holds, whatever the sentence around it says.

The numbers of a section are compared with the values at its places in stored files, see ``PLACES``. A section without
places is compared with all values of the figures, tables and studies that it links to. A value v backs a number if v,
or for a percentage 100 v, 100 (1 - v) or 100 (v - 1), rounds to it at the digits that are printed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/results/new.md"
LONGEST = 12
"""Numbers in a list that is longer are the points of a curve, which no sentence quotes."""

LINK = re.compile(r"\]\(([^()\s]+)\)")
EXHIBIT = re.compile(r"^([\w-]+)\.md#(figure|table)-([\w-]+)$")
STUDY = re.compile(r"figures/studies/(\w+)/")
NUMBER = re.compile(r"(?<![\w,.^])[−-]?(?:\d[\d,]*\d|\d)?(?:\.\d+)?(?:e-?\d+)?[%×]?(?![\w%])")
IN_TEXT = re.compile(r"(?<![\w.,])(\d[\d,]*\.?\d*(?:e-?\d+)?|\.\d+)(%?)")
SETTINGS = re.compile(
    r"`[^`]*`|\[[^\]]*\]\([^()\s]*\)|\([\d, to()]+\)"  # code, links, numbers of equations
    r"|\b[A-Za-z]+-\d\.\d\S*|\brank [\d, ]*\d|\d+ (ms|requests|steps)\b"
    r"|\b(Figures?|Tables?|Algorithm|Section|FIXED|version) [\dIVXabc, to]+"
    r"|[\w₁′(){}^−+ ]* ?[=<≤≥] ?[−\d.,]*\d%?( (to|and|or) [\d.,]*\d%?)?"  # a setting stands as name = value
)
"""What is no result in a sentence: names, places, and the settings of a run."""

PLACES: dict[str, tuple[str, ...]] = {
    "A server that drafts for itself": (
        "studies/plan/builtin:downlink as*/lossless/policies/server with its own draft/ours_over_it/median",
    ),
    "A certificate before sending": ("ours-fig3:*",),
    "The cheapest certified message": (
        "ours-tableV:tables/0/rows/0/2 ÷ ours-tableV:tables/0/rows/8/2",
        "ours-tableV:tables/0/rows/0/2",
        "ours-tableV:tables/0/rows/8/0",  # top-k of 24 bits
        "ours-tableV:tables/0/rows/14/2",  # C-SQS, best ℓ
        "ours-tableV:statistics/epsilon/*",
    ),
    "The risk of skipping": ("ours-tableVII:tables/*",),
    "No mean latency under fading": (
        "studies/shared_seed/gain_over_hlm:CU-HLM offline, k = 30/*",
        "cu-hlm-fig10a:printed/*",
    ),
    "How many tokens to draft": ("ours-fig8:statistics/*",),
    "Audits of a sampler": ("studies/audit_controls/controls:defects/*/found_after",),
    "Batches": ("studies/edge_sd_plans/plans:many_tasks/*",),
}
"""Where the numbers of a section are stored: a file of ``figures`` without its ending, and a pattern of its keys."""


def sections() -> dict[str, str]:
    """The text under each heading, without generated tables."""
    page = re.sub(r"<!-- begin.*?<!-- end.*?-->", "", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    parts = re.split(r"^#+ (.*)$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def linked(text: str) -> Iterator[str]:
    """The stored files that a section's links name."""
    for link in LINK.findall(text):
        if study := STUDY.search(link):
            yield from map(str, (ROOT / "figures/studies" / study[1]).rglob("*.json"))
        elif exhibit := EXHIBIT.match(link.split("/")[-1]):
            paper, kind, number = exhibit.groups()
            stem = re.compile(f"{paper}-{'fig' if kind == 'figure' else 'table'}{number}(-texts)?", re.IGNORECASE)
            yield from (str(path) for path in (ROOT / "figures").rglob(f"{paper}-*.json") if stem.fullmatch(path.stem))


def values_of(stored: Any, curves: bool, place: str = "") -> Iterator[tuple[str, float, bool]]:
    """The place of each number of a stored value, the number, and whether it is a percentage."""
    if isinstance(stored, dict):
        for name, value in stored.items():
            yield from values_of(value, curves, f"{place}/{name}")
    elif isinstance(stored, list):
        if curves or len(stored) <= LONGEST or not all(isinstance(one, int | float) for one in stored):
            for index, value in enumerate(stored):
                yield from values_of(value, curves, f"{place}/{index}")
    elif isinstance(stored, str):
        for number, percent in IN_TEXT.findall(stored):
            yield place[1:], float(number.replace(",", "")), bool(percent)
    elif isinstance(stored, int | float) and not isinstance(stored, bool):
        yield place[1:], float(stored), False


@cache
def held(path: str, curves: bool) -> tuple[tuple[str, float, bool], ...]:
    return tuple(values_of(json.loads(Path(path).read_text(encoding="utf-8")), curves))


def chosen(place: str) -> list[tuple[float, bool]]:
    """The numbers at a place; ``A ÷ B`` is the quotient of the first numbers at two places."""
    if " ÷ " in place:
        above, below = (chosen(one)[0][0] for one in place.split(" ÷ "))
        return [(above / below, False)]
    file, pattern = place.split(":")
    values = held(str(ROOT / f"figures/{file}.json"), curves=True)
    found = [(value, percent) for at, value, percent in values if fnmatchcase(at, pattern)]
    assert found, f"{place} names no number; the stored file has changed"
    return found


@cache
def pool(heading: str) -> tuple[frozenset[float], frozenset[float]]:
    """The plain numbers and the percentages that back a section."""
    found: list[tuple[float, bool]] = []
    if heading in PLACES:
        for place in PLACES[heading]:
            found += chosen(place)
    else:
        for path in dict.fromkeys(linked(sections()[heading])):
            found += [(value, percent) for _, value, percent in held(path, curves=False)]
    plain = frozenset(abs(value) for value, _ in found)
    shares = {abs(100 * one) for value, percent in found if not percent for one in (value, 1 - value)}
    return plain, frozenset(shares | {abs(value) for value, _ in found})


def numbers(text: str) -> list[str]:
    """Results in digits: a fraction, a percentage, a ratio, or a count from 10 on."""
    text = re.sub(r"([\d.]+) (to|and) ([\d.]+)%", r"\1% \2 \3%", re.sub(r"\s+", " ", text))
    found = NUMBER.findall(SETTINGS.sub(" ", text))
    return [one for one in found if re.search(r"\d.*[.%×]|\.\d|\d\D*\d", one)]


def backed(number: str, heading: str) -> bool:
    """Whether a value of the section's pool is this number after rounding to its digits."""
    digits, _, power = number.strip("−-×%").replace(",", "").partition("e")
    half = 0.5 * 10.0 ** (int(power or 0) - len(digits.partition(".")[2])) * (1 + 1e-9)
    value = float(f"{digits}e{power or 0}")
    return any(abs(one - value) <= half for one in pool(heading)[number.endswith("%")])


def without_source(text: str, heading: str) -> list[str]:
    """The numbers of a section that no stored value backs."""
    return [number for number in numbers(text) if not backed(number, heading)]


@pytest.mark.parametrize("heading", [heading for heading, text in sections().items() if numbers(text)])
def test_every_number_is_stored(heading: str):
    """Where one is not: link the figure or study that holds it, or name its place in PLACES."""
    assert without_source(sections()[heading], heading) == []


@pytest.mark.parametrize("heading", PLACES)
def test_places_belong_to_a_section(heading: str):
    assert heading in sections()
    assert pool(heading)[0]


def changed(number: str) -> Iterator[str]:
    """The number with one digit changed, in every way."""
    for place, digit in enumerate(number):
        if digit.isdigit() and not number[:place].endswith("e-"):
            yield from (number[:place] + other + number[place + 1 :] for other in "0123456789" if other != digit)


def test_a_changed_digit_is_noticed():
    """Values lie close together in some files, so not every change shows; two thirds do, over all sections."""
    found = [
        backed(other, heading)
        for heading in PLACES
        for number in numbers(sections()[heading])
        for other in changed(number)
    ]
    assert sum(found) / len(found) < 0.4


def test_a_new_number_is_noticed():
    assert without_source("Of 4,711 texts 7.53% are new, in 20 ms with k = 99.", "Audits of a sampler") == [
        "4,711",
        "7.53%",
    ]
