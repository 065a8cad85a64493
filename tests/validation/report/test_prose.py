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
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from scipy.optimize import brentq

from hlmtheory.lattice.payload import exact_payload_bits
from hlmtheory.verification import acceptance_interval, largest_distance
from hlmtheory.verification.intervals import FORMS

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

CODECS = tuple(
    f"ours-tableV:tables/0/rows/{above} ÷ ours-tableV:tables/0/rows/{below}"
    for above, below in (("0/2", "8/2"), ("1/2", "0/2"), ("5/1", "0/1"))  # cheapest, one budget, entropy coding
)
PLANS = tuple(
    f"studies/edge_sd_plans/plans:{above} ÷ studies/edge_sd_plans/plans:{below}"
    for above, below in (
        *((f"few_tasks/{i}/lower_bound", f"few_tasks/{i}/optimum") for i in (3, 4, 5, 9, 10, 11)),
        *((f"many_tasks/{i}/latency", f"many_tasks/{i + 6}/latency") for i in (1, 3)),
    )
)
"""Quotients of two stored values."""

PLACES: dict[str, tuple[str, ...]] = {
    "Any codec of a row": ("ours-tableV:tables/0/rows/*", "ours-tableV:statistics/epsilon/*", *CODECS),
    "Top-k log-probabilities": ("ours-tableIX:statistics/lists/*", "ours-tableIX:tables/1/rows/0/*"),
    "A quantised draft": (
        "studies/gguf/builtin:cost/*",
        "studies/gguf/builtin:routes/*/transformers, same file/*",
        "studies/gguf/builtin:routes/draft*/acceptance, difference/*",
    ),
    "A bound for whole texts": (
        "ours-tableIV:tables/0/rows/*",
        "ours-tableIV:statistics/calibrating",
        "ours-tableIV:statistics/longest",
        "ours-fig6:findings",
        "studies/text_enumeration/builtin:texts/5/*",
        "studies/text_enumeration/builtin:prompts",
        "studies/text_enumeration/builtin:thresholds/*",
    ),
    "A limit with confidence": (
        "studies/plan/splits_builtin:splits",
        "studies/plan/splits_builtin:limits/text .3/*",
    ),
    "Auditing the risk of skipping": ("ours-tableVII:tables/1/*", "ours-tableVII:tables/3/rows/*"),
    "Thresholds that skip everything": (
        "instructed/u-hlm-fig4-texts:statistics/thresholds/*",
        "instructed/cu-hlm-tableI:tables/0/rows/7/10 ÷ instructed/cu-hlm-tableI:tables/0/rows/1/10",
        "instructed/cu-hlm-tableI:tables/0/rows/9/0",
        "instructed/u-hlm-fig6-texts:bars/*/transmission/value",
    ),
    "Similarity above the target's own": ("studies/similarity/builtin:laws/*calibrated/*",),
    "An interval for the acceptance rate": ("ours-tableVII:findings",),
    "Updates of the target": (
        "studies/update_bound/bound:means/*/domain/*",
        "studies/update_bound/bound:means/*/general/*",
        "flexspec-tableII:printed/*",
    ),
    "A budget of dropped mass": (
        "ours-fig9:findings",
        "ours-fig9:statistics/bits/*",
        "ours-fig9:statistics/bits/C-SQS (τ₁ = 0) ÷ ours-fig9:statistics/bits/Budgeted SQS",
    ),
    "Counts of accepted drafts": ("ours-tableX:tables/2/rows/*",),
    "A single rate on real drafts": ("ours-fig8:statistics/*", "ours-fig8:findings", "ours-tableX:findings"),
    "Draft-length rules on real drafts": (
        "studies/length_rules/length_rules:data/*/rules/flexspec as printed/regret",
        "studies/length_rules/length_rules:data/*/rules/* K[*]/regret",
        "studies/length_rules/length_rules:data/*/rules/clairvoyant/regret",
    ),
    "The linear surrogate never adapts": tuple(
        f"flexspec-table{table}-length-rule:{place}"
        for table in ("III", "IV")
        for place in ("findings", "tables/[012]/rows/*/4")
    ),
    "flexspec's order of the methods": (
        "flexspec-tableIII:statistics/speed_ups/*",
        "flexspec-tableIII:statistics/acceptance/*",
        "flexspec-tableIII:tables/5/rows/*",
        "flexspec-tableIII:tables/4/rows/*",
        "flexspec-tableIII:tables/9/*",
        "flexspec-tableIV:tables/1/rows/*",
        "flexspec-tableV:tables/0/rows/*",
    ),
    "flexspec's Table II": (
        "flexspec-tableII:statistics/*",
        "flexspec-tableII:tables/[01]/rows/*",
        "studies/update_bound/bound:means/*/domain/*/*",
        "studies/aligned_draft/regime:*/loss_over_tv",
        "../validation/pairs/builtin/aligned/training:held_out_acceptance/*",
    ),
    "No mean latency under fading": ("cu-hlm-fig10a:findings", "cu-hlm-fig10a:printed/*"),
    "edge-sd's printed savings": ("../validation/plots/edge_sd/settings:groups/batching/nearest_by_changes/2/*",),
    "Batches within a percent": ("studies/edge_sd_plans/plans:many_tasks/*", *PLANS),
}
"""Where the numbers of a section are stored: a file of ``figures`` without its ending, and a pattern of its keys."""


def computed(heading: str) -> list[float]:
    """Numbers that follow from a formula or from two stored values."""
    if heading == "A bound for whole texts":
        return [ceil(tokens / 0.05 - 1e-9) - 1 for tokens in (1, 200)] + [5.0, 200.0]  # prompts for a risk of 5%
    if heading == "Draft-length rules on real drafts":
        data = json.loads((ROOT / "figures/studies/length_rules/length_rules.json").read_text())["data"].values()
        rules = [setting["rules"] for drafts in data for setting in drafts["settings"].values()]
        speeds = [(one["least time"]["tokens_per_s"], one["clairvoyant"]["tokens_per_s"]) for one in rules]
        requests = sum(drafts["requests"] for drafts in data) / 2  # each with two drafters
        return [requests, 0.0003, max(best / other - 1 for best, other in speeds)]
    if heading == "Testing a sampler by its draws":
        return [0.001, 200, 1 - (1 - 0.001) ** 200]
    if heading == "Updates of the target":
        return [brentq(lambda kl: float(largest_distance(kl)) - 0.72, 0.1, 3.0)]
    if heading == "An interval for the acceptance rate":  # where the interval for a constant rate is no narrower
        drafts = [10**power for power in range(3, 10)]
        ends = [acceptance_interval([0.7 * n for n in drafts], drafts, 0.05, form=form) for form in FORMS]
        constant, varying = (end.upper - end.lower for end in ends)
        return [1000.0] if (constant >= varying).all() else []
    if heading == "Batches within a percent":
        return [10.0, 100.0, 0.3]  # tasks; the largest distance from the optimum, .22%, rounded up
    if heading == "A budget of dropped mass":
        return [1500, *(exact_payload_bits(4096, k, 100, adaptive=True) for k in (4096, 1500))]
    return []


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
    found = [(value, False) for value in computed(heading)]
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
    assert without_source("Of 4,711 texts 7.53% are new, in 20 ms with k = 99.", "A limit with confidence") == [
        "4,711",
        "7.53%",
    ]
