"""Define the records of figures and tables: how their numbers are measured, painted and described."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from string import Formatter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.decoding.studies import Decoded
from validation.estimates import BRACKETS, Estimate, rounded, told
from validation.plots.common.style import Canvas
from validation.printable import printable
from validation.trace.reader import Trace

MISSING = "undefined"
CHUNK_VALUES = 2**20  # probabilities held at a time in float64, 8 MiB
SPREAD_OUT = 16  # positions read for each one that is kept

Numbers = dict[str, Any]
"""``axes``, ``series`` and ``statistics`` as plain values that JSON can hold, and optionally ``tables``.

Numbers drawn from a trace add ``positions_drawn``. A simulation adds ``basis``, a clause that names its subject and
number of runs; one that is drawn from a stored experiment adds ``experiment``
(:func:`validation.plots.common.stored.from_experiment`).
"""


class Tag(StrEnum):
    """Where the numbers of an exhibit come from; an exhibit with several kinds has the last of them."""

    MEASURED = "measured"
    ASSUMED = "measured counts × assumed times"
    SIMULATED = "simulated"
    DERIVED = "derived from printed"

    @property
    def sentence(self) -> str:
        return f"{self.capitalize()}{' numbers' if self is Tag.DERIVED else ''}."


@dataclass(frozen=True, slots=True)
class Printed:
    """Hold a number whose digits stand in the paper; what follows from printed numbers is derived and not printed."""

    what: str
    value: float
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """Describe one figure or table of a paper; ``exhibits.toml`` holds its texts."""

    paper: str
    number: str
    source: str
    title: str
    tag: Tag
    message: str
    otherwise: str = ""
    """The message where a number of ``message`` is missing."""
    method: str = ""
    claims: tuple[str, ...] = ()
    printed: tuple[Printed, ...] = ()
    paint: Callable[[Numbers], Canvas] | None = None

    def sentence(self, numbers: Mapping[str, Any], *texts: str) -> str:
        """Return the message, or other texts, with statistics, pair, prompts and other fields of the numbers."""
        name = numbers.get("pair", numbers.get("experiment", {}).get("name", "").partition(" ")[2] or "builtin")
        fields = {**numbers, "pair": "the built-in pair" if name == "builtin" else f"the pair {printable(str(name))}"}
        known = r"(?<=prompts: ).*?(?=; r_max)|\d+(?= prompts a set)|(?<=a replay of ).*?(?=, \d)"
        fields["sets"] = (re.findall(known, str(numbers.get("basis"))) or [None])[0]
        fields |= numbers.get("statistics", {})
        told = [_Sentence().vformat(text, (), fields) for text in texts or (self.message, self.otherwise) if text]
        return told[-1] if MISSING in told[0] else told[0]

    def describe(self, numbers: Mapping[str, Any], basis: str) -> dict[str, str]:
        """Return title, caption and method, as a sidecar stores them; ``basis`` is what was measured or simulated."""
        name = f"{self.paper} {self.place.replace('Fig.', 'Figure')}"
        return {
            "title": self.title,
            "caption": f"{name}: {self.sentence(numbers)} {self.tag.sentence}",
            "method": " ".join(part for part in (self.method and self.sentence(numbers, self.method), basis) if part),
        }

    @property
    def place(self) -> str:
        return f"{'Fig.' if self.number[0].isdigit() else 'Table'} {self.number}"

    @property
    def stem(self) -> str:
        """Return the file name without suffix: ``cu-hlm-fig5a``, ``flexspec-tableII``."""
        return f"{self.paper}-{'fig' if self.number[0].isdigit() else 'table'}{self.number}"


class _Sentence(Formatter):
    """Fill the fields of a sentence, such as ``{gap[latency][-1]:.2f}``; what is missing or None is ``MISSING``."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        found: Any = kwargs
        for part in re.split(r"[\[\]]+", field_name.rstrip("]")):
            try:
                found = found[int(part)] if isinstance(found, Sequence) else found[part]
            except (KeyError, IndexError, TypeError, ValueError):
                return None, field_name
        return found, field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return MISSING
        text = str(format(value, format_spec))
        return text if isinstance(value, str) else text.replace("-", "−")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure(Exhibit):
    """Describe a figure that is drawn from a trace.

    ``measure`` maps (trace, seed) to the drawn numbers. ``sample`` names what it measures together with other figures,
    once for all in a process; empty if nothing is shared. ``for_deployment`` says whether it shows what a deployment
    sets or pays, such as a threshold, the probabilities sent, or bits; other figures check what a paper prints.
    """

    measure: Callable[[Trace, int], Numbers]
    sample: str = ""
    for_deployment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation(Exhibit):
    """Describe a figure that needs no run; ``simulate`` maps a seed to the drawn numbers.

    Of a stored ``experiment`` that was run on several pairs, it also takes the name of a pair or None.
    """

    simulate: Callable[..., Numbers]
    experiment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding(Exhibit):
    """Describe a figure of decoded texts.

    ``study`` names the study that is decoded for it (:data:`~validation.decoding.studies.STUDIES`); ``measure`` maps
    (studies, seed) to the drawn numbers. The first study is of the current run. The other studies, with the same name,
    are of pairs that it is compared with.
    """

    study: str
    measure: Callable[[Sequence[Decoded], int], Numbers]


def printed_words(about: Mapping[str, Any]) -> str:
    """Return the printed numbers of a sidecar as a sentence; empty if there are none."""
    each = [f"{one['what']} {one['value']:g} ({one['place']})" for one in about["printed"]]
    return f"Printed: {'; '.join(each)}." if each else ""


def claims_words(about: Mapping[str, Any]) -> str:
    """Return the claims behind a sidecar as a sentence; empty if it names none."""
    return f"Claims (hlm claims ID): {', '.join(about['claims'])}." if about.get("claims") else ""


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> dict[str, Any]:
    return {"title": title, "heads": list(heads), "rows": [list(row) for row in rows]}


def table_of(title: str, columns: Mapping[str, str | Callable[[Any], str]], rows: Iterable[Any]) -> dict[str, Any]:
    """Return a table of records: each column has a head, and a format string or a function of the record.

    >>> table_of("t", {"k": "{k:,}", "share": lambda one: "all"}, [{"k": 1000}])["rows"]
    [['1,000', 'all']]
    """
    forms = columns.values()
    cells = [[form.format_map(row) if isinstance(form, str) else form(row) for form in forms] for row in rows]
    return table(title, tuple(columns), cells)


def sampled_positions(trace: Trace, count: int, seed: int) -> NDArray[np.int64]:
    """Return the positions that :func:`sampled` takes, in the order of the trace."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.choice(trace.positions, min(count, trace.positions), replace=False))


def sampled(
    trace: Trace, count: int, seed: int, *, per_position: int = 1
) -> Iterator[tuple[NDArray[np.float16], NDArray[np.float16]]]:
    """Yield draft and target logits of ``count`` random positions in chunks, in the order of the trace."""
    chosen = sampled_positions(trace, count, seed)
    start = 0
    spread_out = max(1, min(SPREAD_OUT, trace.positions // count))
    for chunk in trace.chunks(spread_out * max(1, CHUNK_VALUES // (trace.vocabulary * per_position))):
        first, last = np.searchsorted(chosen, [start, start + len(chunk.tokens)])
        rows = chosen[first:last] - start
        start += len(chunk.tokens)
        if rows.size:
            yield chunk.draft_logits[rows], chunk.target_logits[rows]


def spread(last: int, count: int) -> NDArray[np.int64]:
    """Return at most ``count`` integers from 1 to ``last``, evenly spaced on a logarithmic axis."""
    return np.unique(np.round(np.geomspace(1, last, count)).astype(np.int64))


def plain(values: Any, digits: int = 9) -> Any:
    """Round values to ``digits`` significant digits in nested lists: short, and equal on every machine; NaN is None.

    >>> plain([1 / 3, 2.0], digits=3)
    [0.333, 2.0]
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim == 0:
        return rounded(float(values), digits)
    return [plain(value, digits) for value in values]


def curve(name: str, x: Any, each: Sequence[Estimate | None], **more: Any) -> dict[str, Any]:
    ends = [kept(one) for one in each]
    band = {key: [one[end] for one in ends] for key, end in (("mean", "value"), ("low", "low"), ("high", "high"))}
    return {"name": name, **more, "x": plain(x), **band}


def kept(found: Estimate | None) -> dict[str, Any]:
    """Return an estimate for a sidecar; a missing one has three nulls."""
    return (found or Estimate(None)).plain(digits=9)


def cell(found: Estimate | Mapping[str, Any] | None, form: str = ".4f", ends: str = BRACKETS) -> str:
    """Return an estimate, or one that a sidecar stores, as text; a dash if there is none.

    >>> cell({"value": 0.5, "low": 0.25, "high": 0.75}, ".2f"), cell({"value": 0.5, "low": None, "high": None}, ".2f")
    ('0.50 [0.25, 0.75]', '0.50')
    >>> cell(Estimate(0.5, 0.5, 0.5), ".2f")
    '0.50'
    """
    if not isinstance(found, Estimate):
        found = Estimate(*(found[end] for end in ("value", "low", "high"))) if found else Estimate(None)
    exact = told(found.low, form) == told(found.value, form) == told(found.high, form)  # no interval, as it is printed
    return told(found.value, form) if exact else found.text(form, ends)
