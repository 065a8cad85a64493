"""Models, devices and tasks, and the service that they form."""

import math
from dataclasses import dataclass
from typing import Any

from hlmtheory._array import Array
from hlmtheory._domains import UNIT_INTERVAL, Domain, instance, number

BYTES = 2
"""Bytes of a parameter or of a cached number: FP16."""


def _finite(xp: Any, value: Array) -> Array:
    return xp.isfinite(value) & (value >= 0)


POSITIVE_COUNT = Domain("a whole number, 1 or more", lambda xp, v: v >= 1, "give a positive integer", kind="integer")
SECONDS = Domain("finite and 0 or more", _finite, "give a time, or a coefficient of one")
LENGTH = Domain("finite and 0 or more", _finite, "give a number of tokens (or operations)")
MEMORY = Domain("above 0", lambda xp, v: v > 0, "give the bytes, or leave it out: infinite if it never binds")


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder-only model: J blocks of hidden size h₁ with a feed-forward layer of size h₂.

    Parameters
    ----------
    layers, hidden, feed_forward : int
        J, h₁, h₂, each 1 or more; edge-sd Table I.

    Raises
    ------
    ValueError
        If a value is not a positive integer.
    """

    layers: int
    hidden: int
    feed_forward: int

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "feed_forward"):
            object.__setattr__(self, name, number(POSITIVE_COUNT, name, getattr(self, name)))

    @property
    def sizes(self) -> tuple[int, int, int]:
        """J, h₁, h₂."""
        return self.layers, self.hidden, self.feed_forward


@dataclass(frozen=True, slots=True)
class Device:
    """A machine on which a forward pass of b tasks takes c₁ F b + c₂ seconds, F operations each.

    Parameters
    ----------
    c1 : float
        Seconds per operation, 0 or more.
    c2 : float
        Seconds per pass, 0 or more; edge-sd Table II.

    Raises
    ------
    ValueError
        If one is negative or not finite.
    """

    c1: float
    c2: float

    def __post_init__(self) -> None:
        for name in ("c1", "c2"):
            object.__setattr__(self, name, number(SECONDS, name, getattr(self, name)))


@dataclass(frozen=True, slots=True)
class Task:
    """One request: the lengths of its prompt and of its answer.

    Parameters
    ----------
    input_tokens, output_tokens : int
        I_k and O_k, each 1 or more. Where the answer's length is not known, give the longest allowed, O_max.

    Raises
    ------
    ValueError
        If a value is not a positive integer.
    """

    input_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        for name in ("input_tokens", "output_tokens"):
            object.__setattr__(self, name, number(POSITIVE_COUNT, name, getattr(self, name)))


@dataclass(frozen=True, slots=True)
class Service:
    """The two models, their machines, the acceptance rate, and the draft machine's memory.

    Parameters
    ----------
    draft, verify : ModelShape
    draft_device, verify_device : Device
    acceptance : float
        α in [0, 1].
    memory : float
        Γ_s, bytes of the machine that drafts; above 0, infinite if it never binds.

    Raises
    ------
    ValueError
        If the acceptance is outside [0, 1] or the memory is not positive.
    """

    draft: ModelShape
    verify: ModelShape
    draft_device: Device
    verify_device: Device
    acceptance: float
    memory: float = math.inf

    def __post_init__(self) -> None:
        instance("draft", self.draft, ModelShape)
        instance("verify", self.verify, ModelShape)
        instance("draft_device", self.draft_device, Device)
        instance("verify_device", self.verify_device, Device)
        object.__setattr__(self, "acceptance", number(UNIT_INTERVAL, "acceptance", self.acceptance))
        object.__setattr__(self, "memory", number(MEMORY, "memory", self.memory))
