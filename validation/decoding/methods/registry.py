"""The registry of decoding methods: one :class:`MethodInfo` for each method, declared where the method is defined.

How to read it:

- ``METHODS`` of :mod:`validation.decoding.methods` holds every method by name, in the order of the tables.
- ``info_of(name)`` finds the entry of a name that a record, a journal or a figure stores. A stored name is a registered
  name, or a registered name and its parameters: ``info_of("CU-HLM offline (k = 30)").name == "CU-HLM offline"``.
- ``info_of(name).style.options()`` gives the keyword arguments of ``axes.plot``.
- ``info_of(name).family`` groups methods: compare it with a :class:`Family`, never the beginning of a name.
- ``info_of(name).published`` is the papers' name of the method.
- ``default_methods(fitted)`` makes each method with its default parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from validation.errors import UserError

if TYPE_CHECKING:
    from validation.decoding.methods.base import Method

    Class = TypeVar("Class", bound=type[Method])

BLACK, GREY, LIGHT_BLUE, BLUE, ORANGE, GREEN = "black", "0.45", "#6d8bb5", "#16325c", "#c2571a", "#2c7a4b"
"""The colours of methods. Printed in grey, they still differ in lightness."""

_LINES: dict[str, Any] = {"solid": "-", "dashed": (0, (4, 2)), "dotted": (0, (1, 1.5))}
_PARAMETERS = re.compile(r"(,| \(| = ).*")


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
    width: float | None = None
    order: int | None = None

    def options(self) -> dict[str, Any]:
        """The keyword arguments of ``axes.plot``, without those that are not set."""
        found: dict[str, Any] = {"color": self.color, "marker": self.marker}
        if self.line != "solid":
            found["linestyle"] = _LINES[self.line]
        if self.width is not None:
            found["linewidth"] = self.width
        if self.order is not None:
            found["zorder"] = self.order
        return found


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
    """The values from which a method computes its default parameters.

    Attributes
    ----------
    fitted : Fitted
    max_draft_length : int
        Drafts per round, for methods whose number of drafts is fixed.
    delay_s : float
        Link delay of a round in seconds, both ways, without the transmission of its bits.
    """

    fitted: Fitted
    max_draft_length: int = 4
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """A method's entry in the registry, for studies, commands and figures.

    Attributes
    ----------
    name : str
        The registered name. A stored name may add parameters after it, behind a bracket, a comma or an equals sign.
    family : Family
    style : PlotStyle
    default : callable, optional
        Function that makes the method with its default parameters from a :class:`Setup`; None if no study uses it.
    studies : collection of str, optional
        The studies that use the default; None for every study of the family.
    published : str, optional
        What the papers call the method.
    method : type of Method
        The class; :func:`register` fills it in.
    """

    name: str
    family: Family
    style: PlotStyle
    default: Callable[[Setup], Method] | None = None
    studies: Collection[str] | None = None
    published: str | None = None
    method: type[Method] | None = None


REGISTERED: dict[str, MethodInfo] = {}
"""Every entry by name, in the order in which the modules were imported."""


def register(*infos: MethodInfo) -> Callable[[Class], Class]:
    """Return a class decorator that enters a method into the registry; use it once for each variant of the method.

    Raises
    ------
    ValueError
        If a name is registered already.
    """

    def enter(method: Class) -> Class:
        for info in infos:
            if info.name in REGISTERED:
                raise ValueError(f"a method is already registered as {info.name!r}; choose another name")
            REGISTERED[info.name] = replace(info, method=method)
        return method

    return enter


def info_of(name: str) -> MethodInfo:
    """Return the entry of a stored method name, whatever its parameters.

    Raises
    ------
    UserError
        If no such method is registered.

    Examples
    --------
    >>> info_of("CU-HLM offline (k = 30)").family
    <Family.CU_HLM: 'CU-HLM'>
    """
    whole = name.rpartition(" (")[0]  # a registered name may have a comma
    found = REGISTERED.get(name) or REGISTERED.get(whole) or REGISTERED.get(_PARAMETERS.sub("", name))
    if found is None:
        raise UserError(f"No method is registered as {name!r}; add @register to its class.")
    return found
