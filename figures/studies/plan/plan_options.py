"""The decoding methods that play the options of a plan."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import Dssd, FixedLength
from validation.decoding.methods.planned import Planned
from validation.decoding.methods.quantized import CSqs, KSqs
from validation.decoding.methods.rows import CERTIFIED, CU_HLM, FIXED, FLEXSPEC, HLM, OURS, SQS, STREAMED, U_HLM
from validation.decoding.methods.single_draft import CuHlmCertified, CuHlmOffline, CuHlmOnline, Hlm, UHlm
from validation.planning.deploy import policy_of
from validation.planning.option import Line, Option
from validation.planning.plan import Planner

Array = NDArray[Any]


def vocabulary_of(planner: Planner) -> int:
    """Return V, which HLM sends whole."""
    return int(next(one.top_k[0] for one in planner.options if one.family == HLM))


def method_of(option: Option, planner: Planner) -> Method:
    """Return the decoding method of an option."""
    if option.family in (OURS, CERTIFIED, STREAMED):
        return Planned(policy_of(option, planner, vocabulary_of(planner), None))
    if option.family == FIXED:
        return FixedLength(int(option.draft_length))
    if option.family == HLM:
        return Hlm()
    if option.family == U_HLM:
        return UHlm(option.threshold, f"U-HLM {option.label}")
    if option.family == CU_HLM:
        return _truncated(option, planner.line)
    if option.family == FLEXSPEC:
        return Dssd(int(option.draft_length))
    if option.family == SQS:
        return _sqs(option)
    raise ValueError(f"{option.family} has no drafts")


def _truncated(option: Option, line: Line | None) -> Method:
    kind, threshold = option.message, option.threshold
    name = f"CU-HLM {option.label}"
    if kind.startswith("offline"):
        return CuHlmOffline(threshold, int(kind.rsplit("= ", 1)[1]), name=name)
    if kind == "online" and line is not None:
        return CuHlmOnline(threshold, slope=line.slope, intercept=line.intercept, name=name)
    bias = float(kind.rsplit("≤ ", 1)[1])
    made = CuHlmCertified(threshold, bias_tolerance=bias, draws=20)
    made.name = name
    return made


def _sqs(option: Option) -> Method:
    """K drafts, or as many until their bits exceed a budget; the last of them is sent."""
    lattice = option.lattice
    assert lattice is not None, option.label
    budget = 1e12 if option.budget_bits is None else option.budget_bits
    shared: dict[str, Any] = {"resolution": lattice.resolution, "budget_bits": budget, "sends_last": True}
    made = (
        KSqs(lattice.k, **shared)
        if lattice.k is not None
        else CSqs(lattice.threshold or 0.0, learning_rate=0.0, **shared)
    )
    if option.budget_bits is None:
        length = int(option.draft_length)
        made.lengths = lambda sequences, rates: np.full(len(sequences), length)  # type: ignore[method-assign]
    made.name = f"SQS {option.label}"
    return made


def twin_of(option: Option, options: Sequence[Option]) -> int:
    """Return the place of the device's option with the same rounds as a server with its own draft."""
    wanted = (FLEXSPEC, option.draft_length)
    return next(place for place, one in enumerate(options) if (one.family, one.draft_length) == wanted)
