"""Messages, draft length and batches together: edge-sd's two-stage pipeline whose drafts are sent as a plan says.

Each draft of a batch adds the air time of its message to the draft stage. Every draft is verified, so that edge-sd's
decoding steps hold, and no draft is skipped. Then the product of messages and batches falls apart for each l: the
tokens of a step depend on l alone, and every latency rises with the air time of a draft. So the messages with the least
bits within the limit on risk are the best for all batches, and the batches need no second pass. The lowest of the lower
bounds over l is below every choice of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hlmtheory import batching
from hlmtheory._array import Array
from hlmtheory._domains import DomainError, instance, number, option
from hlmtheory._quantities import not_negative, positive
from hlmtheory.batching.memory import RULES
from hlmtheory.batching.planner import OWN_LENGTH, SCHEDULES
from hlmtheory.batching.refusals import checked_lengths, fitting_lengths
from hlmtheory.policy.costs import Integers, StageCosts, UserPlan
from hlmtheory.policy.hulls import Hulls
from hlmtheory.policy.user import as_list, plan_user
from hlmtheory.serving import Device, Service, Task

METHODS = tuple(name for name in batching.METHODS if name not in OWN_LENGTH)
_SLOW = positive("give 1/rate with the rate in bit/s")
_BITS = not_negative("give bits")
_MOST_DRAFTS = 1000


@dataclass(frozen=True, slots=True)
class BatchedPlan:
    """Messages and batches, their latency, and a bound below which no others are.

    Attributes
    ----------
    batches : batching.Plan
        The batches and the draft length; the air time is in its draft stage. Its bound holds for these messages.
    first, later : int64 arrays, shapes (N,) and (l - 1, N)
        The corner of the hulls that each row is sent with, as the first draft of a step and at each later place.
    bits, risk : float
        Mean bits of a draft, and the risk for each emitted token.
    latency : float
        T_inf in seconds.
    lower_bound : float
        No messages by row and place within the limit on risk, or mixtures of them, and no draft length that all steps
        have, batches and order have a lower latency; rounded down.
    """

    batches: batching.Plan
    first: Integers
    later: Integers
    bits: float
    risk: float
    latency: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """How much longer than another plan this one can take, relative to it."""
        return max(self.latency / self.lower_bound - 1.0, 0.0)


def plan_batched(
    hulls: Hulls,
    tasks: Sequence[Task],
    service: Service,
    seconds_per_bit: float,
    *,
    weight: Array | None = None,
    risk_limit: float = 0.0,
    header_bits: float = 0.0,
    token_bits: float = 0.0,
    draft_lengths: Iterable[int] = range(1, 11),
    method: str = "improved",
    schedule: str = "barrier",
    memory_rule: str = "together",
) -> BatchedPlan:
    """Return messages, a draft length and batches with a low latency, and a bound below which no others are.

    Parameters
    ----------
    hulls : Hulls
        The messages that each of N rows may be sent with.
    tasks, service
        See :func:`hlmtheory.batching.plan`. ``service.acceptance`` is α of every draft.
    seconds_per_bit : float
        1/rate of a task's link. The tasks of a batch send at the same time, each over its own link.
    weight, risk_limit, header_bits, token_bits
        See :func:`plan_user` and :class:`StageCosts`.
    draft_lengths, method, schedule, memory_rule
        See :func:`hlmtheory.batching.plan`; methods with a draft length of their own are left out.

    Returns
    -------
    BatchedPlan

    Raises
    ------
    ValueError
        If a value is out of range, no message keeps the limit on risk, or :func:`hlmtheory.batching.plan` refuses.

    Examples
    --------
    >>> from hlmtheory.policy import lower_hulls
    >>> from hlmtheory.serving import ModelShape
    >>> draft, verify = ModelShape(2, 768, 3072), ModelShape(32, 4096, 11008)
    >>> service = Service(draft, verify, Device(4.11e-13, 5.6e-4), Device(2.08e-14, 1.28e-2), acceptance=0.8)
    >>> hulls = lower_hulls([[1000.0, 8000.0]], [[0.0625, 0.0]])
    >>> tasks = [Task(100, 256), Task(400, 256), Task(120, 256)]
    >>> found = plan_batched(hulls, tasks, service, 1e-6, risk_limit=0.125, method="exact")
    >>> found.batches.batches, found.batches.draft_length, round(found.latency, 2), found.gap < 0.01
    (((0, 2, 1),), 4, 2.0, True)
    """
    slow = number(_SLOW, "seconds_per_bit", seconds_per_bit)
    header, token = number(_BITS, "header_bits", header_bits), number(_BITS, "token_bits", token_bits)
    for name, value, known in (
        ("method", method, METHODS),
        ("schedule", schedule, SCHEDULES),
        ("memory_rule", memory_rule, RULES),
    ):
        option(name, value, known)
    instance("service", service, Service)
    lengths = checked_lengths(as_list(draft_lengths))
    if max(lengths) > _MOST_DRAFTS:
        raise DomainError(f"draft_lengths must be at most {_MOST_DRAFTS}; got {max(lengths)}; give shorter drafts")
    lengths = fitting_lengths(tasks, service, lengths, memory_rule)
    best: BatchedPlan | None = None
    bound, refused = np.inf, DomainError("")
    for length in lengths:
        unit = StageCosts(1.0, 1.0, 1.0, header_bits=header, token_bits=token)  # a bit counts as a second
        alpha = np.full(length, service.acceptance)
        try:
            options = {"draft_lengths": [length], "skipping": False, "mixing": False}
            made = plan_user(hulls, unit, alpha, weight=weight, risk_limit=risk_limit, **options)  # type: ignore[arg-type]
        except DomainError as error:
            if not str(error).startswith("risk_limit"):
                raise
            refused = error
            continue
        least = max(made.tokens / made.upper_bound - unit.fixed_time(length), 0.0)
        options = {"draft_lengths": [length], "schedule": schedule, "memory_rule": memory_rule}
        found = batching.plan(tasks, _with_air(service, slow * made.band_s / length), method, **options)  # type: ignore[arg-type]
        easier = _with_air(service, slow * least / length)
        if method == "exact":
            below = batching.plan(tasks, easier, method, **options).latency  # type: ignore[arg-type]
        else:
            below = batching.lower_bound(tasks, easier, length, schedule=schedule, memory_rule=memory_rule)
        bound = min(bound, below)
        if best is None or found.latency < best.latency:
            best = _answer(found, made)
    if best is None:
        raise refused
    return replace(best, lower_bound=min(bound, best.latency))


def _with_air(service: Service, seconds: float) -> Service:
    """The service, each of whose drafts also takes the air time of its message."""
    edge = service.draft_device
    return replace(service, draft_device=Device(edge.c1, edge.c2 + seconds))


def _answer(found: batching.Plan, made: UserPlan) -> BatchedPlan:
    bits = made.band_s / found.draft_length
    return BatchedPlan(found, made.first, made.later, bits, made.risk, found.latency, found.lower_bound)
