"""The registry of decoding methods: one :class:`MethodInfo` for each method, declared where the method is defined.

``METHODS`` of ``catalogue`` holds every method by name, in the order of the tables. A record, a journal or a figure
stores a registered name, or one followed by its parameters; ``info_of`` finds its entry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from validation.decoding.methods.rows import Law

if TYPE_CHECKING:
    from validation.decoding.methods.base import Method

    Class = TypeVar("Class", bound=type[Method])

COLORS = {"ours": "#16325c", "ours light": "#6d8bb5", "rival": "0.45", "rival light": "0.65"}
COLORS |= {"paper": "#c2571a", "paper light": "#d6a33a", "paper dark": "#6b2a0b"}
"""One hue a role in every picture: ours blue, what a paper proposes warm, its baselines grey."""

_LINES: dict[str, Any] = {"solid": "-", "dashed": (0, (4, 2)), "dotted": (0, (1, 1.5))}
PLAIN, BY_LENGTH = "plain", "by length"
"""Defaults of methods without parameters, and of those with a number of drafts alone; a tuple names fitted values."""


class Family(StrEnum):
    """Methods that are compared with each other."""

    ONE_MODEL = "one model"
    CLOUD = "cloud only"
    HLM = "HLM"
    RAND_HLM = "Rand-HLM"
    U_HLM = "U-HLM"
    CU_HLM = "CU-HLM"
    SQS = "SQS"
    SPECULATIVE = "speculative decoding"
    SHARED_SEED = "shared seed"
    PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class PlotStyle:
    """How a method is drawn: colour, marker, line (``solid``, ``dashed`` or ``dotted``), width and drawing order."""

    color: str
    marker: str
    line: str = "solid"
    width: float | None = field(default=None, kw_only=True)
    order: int | None = field(default=None, kw_only=True)

    def options(self) -> dict[str, Any]:
        line = None if self.line == "solid" else _LINES[self.line]
        every = {"color": self.color, "marker": self.marker, "linestyle": line, "linewidth": self.width}
        every |= {"zorder": self.order, "markerfacecolor": "white" if self.line == "dotted" else None}
        return {name: value for name, value in every.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Fitted:
    """Parameters fitted to a trace by :func:`validation.decoding.fitting.fit`."""

    slope: float
    intercept: float
    non_acceptance: float  # Δ = P(p_d < q_d)
    risk_averse: float  # thresholds of the uncertainty
    risk_prone: float
    calibrated: float  # -inf if nothing may be skipped
    offline_k: int


@dataclass(frozen=True, slots=True)
class Setup:
    """The values from which a method computes its default parameters; the delay of the link is that of both ways."""

    fitted: Fitted
    max_draft_length: int = 4
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """A method's entry in the registry, for studies, commands and figures."""

    name: str
    family: Family
    style: PlotStyle
    default: Callable[[Setup], Method] | None = None
    studies: Collection[str] | None = None
    printed: bool = False  # whether its rule is a paper's that loses the law, where that of its class keeps it
    method: type[Method] | None = None

    @property
    def law(self) -> Law:
        return Law.LOST if self.printed or self.method is None else self.method.law


def entry(
    name: str, family: Family, role: str, *style: str, width: float | None = None, order: int | None = None, **more: Any
) -> MethodInfo:
    return MethodInfo(name, family, PlotStyle(COLORS[role], *style, width=width, order=order), **more)


REGISTERED: dict[str, MethodInfo] = {}  # every entry by name, in the order in which the modules were imported


def _from_fit(make: Callable[..., Method], names: tuple[str, ...]) -> Callable[[Setup], Method]:
    return lambda setup: make(*(getattr(setup.fitted, name) for name in names))


def register(*infos: MethodInfo) -> Callable[[Class], Class]:
    """Return a class decorator that enters a method into the registry; use it once for each variant of the method."""

    def enter(method: Class) -> Class:
        make: Any = method
        short = {PLAIN: lambda _: make(), BY_LENGTH: lambda setup: make(max_draft_length=setup.max_draft_length)}
        for info in infos:
            if info.name in REGISTERED:
                raise ValueError(f"a method is already registered as {info.name!r}; choose another name")
            default: Any = info.default  # of an entry, it may be one of the short forms
            if isinstance(default, str):
                default = short[default]
            elif isinstance(default, tuple):
                default = _from_fit(make, default)
            REGISTERED[info.name] = replace(info, method=method, default=default)
        return method

    return enter
