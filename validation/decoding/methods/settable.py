"""The numbers of a method that a command may set, by name: the papers' thresholds and sizes, with their ranges.

The names are those of the classes. The number of drafts of a round is no such number where it is fixed: it is
``--draft-length``.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from validation.decoding.methods.base import Method
from validation.decoding.methods.catalogue import METHODS
from validation.decoding.methods.multi_draft import FLEXSPEC_DRAFT_S, FlexSpec
from validation.decoding.methods.quantized import FINEST, short_form
from validation.errors import UserError, nearest


@dataclass(frozen=True, slots=True)
class Range:
    """Values of a number: from ``least`` to ``most``, whole ones only, or those above ``least`` and below ``most``."""

    least: float = -math.inf
    most: float = math.inf
    whole: bool = False
    inside: bool = False

    def __str__(self) -> str:
        least, most = (f"{end:,.7g}" for end in (self.least, self.most))
        words = f"{least} to {most}" if self.most < math.inf else f"{least} or more"
        if self.inside:
            words = f"above {least}" + (f" and below {most}" if self.most < math.inf else "")
        return "any" if self.least == -math.inf else ("whole, " if self.whole else "") + words

    def read(self, text: str) -> float:
        value = int(text) if self.whole else float(text)
        ends = self.least < value < self.most if self.inside else self.least <= value <= self.most
        if not (ends and math.isfinite(value)):  # a whole number may be too large for isfinite
            raise ValueError(text)
        return value


UNIT, OPEN_UNIT, POSITIVE, ANY = Range(0, 1), Range(0, 1, inside=True), Range(0, inside=True), Range()
COUNT, SECONDS = Range(1, 2**20, whole=True), Range(0, 3600)
SKIPS = {"threshold": UNIT, "draws": Range(1, 1000, whole=True)}
ROWS = {"budget_bits": POSITIVE, "resolution": Range(1, FINEST, whole=True)}
LENGTHS = {
    "max_draft_length": Range(1, 64, whole=True),
    "step": Range(0, 1),
    **dict.fromkeys(("propagation_s", "downlink_s", "cloud_base_s", "cloud_slope_s", "edge_slope_s"), SECONDS),
}

SETTABLE: dict[str, Mapping[str, Range]] = {
    "Rand-HLM": {"share": UNIT},
    "U-HLM": SKIPS,
    "CU-HLM offline": SKIPS | {"k": COUNT},
    "CU-HLM online": SKIPS
    | {"slope": ANY, "intercept": ANY, "distortion_tolerance": Range(0), "sharpness": Range(1e-6)},
    "CU-HLM certified": SKIPS | {"bias_tolerance": OPEN_UNIT},
    "QS dense": ROWS,
    "K-SQS": {"k": COUNT, **ROWS},
    "C-SQS": {"threshold": UNIT, "learning_rate": UNIT, "epsilon": OPEN_UNIT, **ROWS},
    "Budgeted SQS": {"epsilon": OPEN_UNIT, **ROWS},
    "Budgeted C-SQS": {"threshold": UNIT, "learning_rate": POSITIVE, "epsilon": OPEN_UNIT, **ROWS},
    "SQS allocated": {"draft_bits": Range(64), **ROWS},
    **dict.fromkeys((name for name in METHODS if name.startswith("flexspec")), LENGTHS),
    "DSSD certified": {"limit": OPEN_UNIT},
    "prompt lookup": {"ngram": Range(1, 64, whole=True)},
}
"""The ranges of the numbers of each method that has such, by its registered name."""


def maker_of(name: str) -> Callable[..., Method]:
    """Return what makes a method from its numbers; flexspec with the paper's time of a draft unless one is given."""
    if not name.startswith("flexspec"):
        return METHODS[name].method or Method

    def make(*, max_draft_length: int = 8, step: float = 0.1, **costs: float) -> FlexSpec:
        options: dict[str, Any] = {"max_draft_length": max_draft_length, "step": step}
        costs = {"edge_slope_s": FLEXSPEC_DRAFT_S} | costs
        return FlexSpec(name.split()[1].strip(","), printed_acceptance="printed" in name, costs=costs, **options)

    return make


def method_with(name: str, given: Iterable[str]) -> Method:
    """Return the method of a registered name with numbers ``NAME=VALUE``; its stored name holds them."""
    if name not in SETTABLE:
        near = nearest(name, SETTABLE) or list(SETTABLE)
        raise UserError(f"The method {name!r} has no numbers to set; these have some: {'; '.join(near)}.")
    ranges = SETTABLE[name]
    values: dict[str, float] = {}
    for pair in given:
        word, equals, text = pair.partition("=")
        if not equals or word in values or word not in ranges:
            what = f"{pair!r} is no NAME=VALUE" if not equals else f"{name} has no number {word!r}"
            raise UserError(f"{f'{word} is given twice' if word in values else what}; {_told(ranges)}.")
        try:
            values[word] = ranges[word].read(text)
        except ValueError as error:
            raise UserError(f"{word} of {name} is {text!r}; it must be a number ({ranges[word]}).") from error
    if missing := [word for word in needed(name) if word not in values]:
        raise UserError(f"{name} needs --set {missing[0]}=VALUE; {_told(ranges)}.")
    method = maker_of(name)(**values)
    shown = [f"{word} = {short_form(values[word])}" for word in ranges if word in values]
    method.name = f"{name} ({', '.join(shown)})" if shown else method.name
    return method


def needed(name: str) -> list[str]:
    arguments = inspect.signature(maker_of(name)).parameters
    return [word for word in SETTABLE[name] if word in arguments and arguments[word].default is inspect.Parameter.empty]


def _told(ranges: Mapping[str, Range]) -> str:
    return "it takes " + ", ".join(f"{word} ({values})" for word, values in ranges.items())
