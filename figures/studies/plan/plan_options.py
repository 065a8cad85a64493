"""The decoding methods that play the options of a plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import Dssd, FixedLength
from validation.decoding.methods.quantized import CSqs, KSqs, Sqs
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedSkipping, SharedSeedStreamed
from validation.decoding.methods.single_draft import CuHlmCertified, CuHlmOffline, CuHlmOnline, Hlm, UHlm
from validation.decoding.methods.split import DssdCertified
from validation.decoding.session import Draft, Message, Step
from validation.planning.menu import CERTIFIED, CU_HLM, FIXED, FLEXSPEC, HLM, OURS, SQS, STREAMED, U_HLM, Line, Option
from validation.planning.positions import LATTICES
from validation.planning.profile import SEEDED

Array = NDArray[Any]


class _Skipping:
    """Skip the first draft of a round if its expected uncertainty is at most a threshold."""

    def set(self, option: Option) -> None:
        """Take the draft length and the threshold of an option."""
        self.max_draft_length = int(option.draft_length)
        self.rule = None if option.threshold == -np.inf else UHlm(option.threshold, draws=None)

    def skip(self, step: Step, tokens: Array) -> Array:
        """Return whether u ≤ u_th for each draft."""
        if self.rule is None:
            return np.zeros(len(tokens), dtype=bool)
        return np.asarray(self.rule.uncertainty(step, tokens) <= self.rule.threshold)

    def lengths(self, sequences: Array, rates: Any) -> Array:
        """Return the same length for all."""
        return np.full(len(sequences), self.max_draft_length)


class PlannedSplit(_Skipping, Dssd):
    """K drafts with q_d up and p down, and skipping."""

    def __init__(self, option: Option) -> None:
        Dssd.__init__(self, int(option.draft_length))
        self.set(option)
        self.name = f"ours {option.label}"


def _lattice(option: Option) -> Sqs:
    """K drafts from quantised rows, and skipping."""
    lattice = LATTICES[(option.codec or 1) - 1]
    base: type[Sqs] = KSqs if lattice.k is not None else CSqs

    class Planned(_Skipping, base):  # type: ignore[valid-type, misc]
        def message(self, drafts: list[Draft]) -> Message:
            """Return the quantised rows; the formula also counts the drawn tokens and a header."""
            found = base.message(self, drafts)
            width = (self.session.vocabulary - 1).bit_length()
            return Message(found.bits + width * len(drafts) + 16.0, found.payload)

    shared = {"resolution": lattice.resolution, "budget_bits": 1e12}
    if lattice.k is not None:
        made = Planned(lattice.k, **shared)
    else:
        made = Planned(lattice.threshold, learning_rate=0.0, **shared)
    made.set(option)
    made.name = f"ours {option.label}"
    return made


def method_of(option: Option, line: Line | None) -> Method:
    """Return the decoding method of an option.

    Raises
    ------
    ValueError
        If the option has no drafts; one model alone needs no decoding.
    """
    if option.family == FIXED:
        return FixedLength(int(option.draft_length))
    if option.family == HLM:
        return Hlm()
    if option.family == U_HLM:
        return UHlm(option.threshold, f"U-HLM {option.label}")
    if option.family == CU_HLM:
        return _truncated(option, line)
    if option.family == FLEXSPEC:
        return Dssd(int(option.draft_length))
    if option.family == CERTIFIED:
        return DssdCertified(option.answer_limit, int(option.draft_length))
    if option.family == STREAMED:
        return SharedSeedStreamed()
    if option.family == OURS and option.codec == SEEDED:
        length = int(option.draft_length)
        skips = option.threshold > -np.inf
        return SharedSeedSkipping(option.threshold, length, draws=None) if skips else SharedSeed(length)
    if option.family == OURS:
        return PlannedSplit(option) if option.codec == 0 else _lattice(option)
    if option.family == SQS:
        return _sqs(option)
    raise ValueError(f"{option.family} has no drafts")


def _truncated(option: Option, line: Line | None) -> Method:
    kind, threshold = option.label.split(",")[0], option.threshold
    name = f"CU-HLM {option.label}"
    if kind.startswith("offline"):
        return CuHlmOffline(threshold, int(kind.rsplit("= ", 1)[1]), name=name)
    if kind == "online" and line is not None:
        return CuHlmOnline(threshold, slope=line.slope, intercept=line.intercept, name=name)
    bias = float(re.search(r"≤ ([\d.]+)", option.label)[1])  # type: ignore[index]
    made = CuHlmCertified(threshold, bias_tolerance=bias, draws=20)
    made.name = name
    return made


def _sqs(option: Option) -> Method:
    """K drafts, or as many until their bits exceed a budget; the last of them is sent."""
    name, rule, number = re.fullmatch(r"(.+), ([KB]) = (\d+)", option.label).groups()  # type: ignore[union-attr]
    lattice = next(one for one in LATTICES if one.name == name)
    budget = float(number) if rule == "B" else 1e12
    shared = {"resolution": lattice.resolution, "budget_bits": budget, "sends_last": True}
    made = (
        KSqs(lattice.k, **shared)
        if lattice.k is not None
        else CSqs(lattice.threshold or 0.0, learning_rate=0.0, **shared)
    )
    if rule == "K":
        made.lengths = lambda sequences, rates: np.full(len(sequences), int(number))  # type: ignore[method-assign]
    made.name = f"SQS {option.label}"
    return made


def twin_of(option: Option, options: Sequence[Option]) -> int:
    """Return the place of the device's option with the same rounds as a server with its own draft."""
    rule = re.fullmatch(r"(?:(K = \d+)(?:, )?)?(?:drafts from (.+))?", option.label)
    length, source = rule.groups()  # type: ignore[union-attr]
    wanted = (FLEXSPEC, length) if source is None else (SQS, f"{source}, {length}" if length else source)
    return next(place for place, one in enumerate(options) if (one.family, one.label) == wanted)
