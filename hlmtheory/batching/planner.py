"""Batches, their order and the draft length for a set of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import COUNT, Domain, DomainError
from hlmtheory.batching import methods, search
from hlmtheory.serving import (
    Service,
    Task,
    decoding_steps,
    inference_latency,
    peak_memory,
    stage_times,
    step_times,
)
from hlmtheory.serving.pipeline import stage_pair
from hlmtheory.serving.shapes import numbers

EXACT_TASKS = 12
"""How many tasks ``exact`` takes."""

METHODS = tuple(methods.METHODS)
"""The methods of :func:`plan`, by name."""

FIXED_LENGTH = 7
"""The draft length of ``fixed-length``: edge-sd Section IV-A."""

ORDERS = ("given", "johnson", "sequential")
"""How a plan's batches pass the two stages."""


MEMORY = Domain("above 0", lambda xp, value: value > 0, "give the bytes, infinite if the memory never binds")


@dataclass(frozen=True, slots=True)
class Plan:
    """Batches, how they are run, and what that takes.

    Attributes
    ----------
    method : str
    batches : tuple of tuple of int
        Indices of the tasks, batch by batch.
    order : str
        "given": pipelined as listed; "johnson": pipelined, ordered by Johnson's rule anew at every decoding step;
        "sequential": every batch is drafted and verified before the next is drafted.
    draft_length : int
        l; 0 for autoregressive decoding.
    latency : float
        T_inf in seconds, by :func:`plan_latency`.
    lower_bound : float
        No draft length that was allowed, partition and order takes less (s); the latency itself for ``exact``.
    complete : bool
        Whether the method searched all of what it promises: False where ``pareto`` reached its cap on labels.
    """

    method: str
    batches: tuple[tuple[int, ...], ...]
    order: str
    draft_length: int
    latency: float
    lower_bound: float
    complete: bool = True

    @property
    def gap(self) -> float:
        """By how much, relative to the bound, the latency can at most be improved."""
        return max(self.latency / self.lower_bound - 1.0, 0.0) if self.lower_bound > 0 else 0.0

    @property
    def is_partition(self) -> bool:
        """Whether every task is in exactly one batch, (24c): not so for ``dp-printed``."""
        tasks = sorted(task for batch in self.batches for task in batch)
        return tasks == list(range(len(tasks)))


def plan(
    tasks: Sequence[Task],
    service: Service,
    method: str = "dp",
    *,
    draft_lengths: Iterable[int] = range(1, 11),
    static_size: int = 4,
    max_labels: int = 1000,
) -> Plan:
    """Batches and draft length for a set of tasks: edge-sd (28) for every draft length, then (33) by enumeration.

    Parameters
    ----------
    tasks : sequence of Task
        At least one. Equal output lengths are the paper's simplification; unequal ones let batches leave early.
    service : Service
    method : str, default "dp"
        One of :data:`METHODS`.
    draft_lengths : iterable of int, default 1..10
        The lengths tried, each 1 or more. ``fixed-length`` and ``autoregressive`` have their own.
    static_size : int, default 4
        Tasks per batch of ``static``; the paper names none.
    max_labels : int, default 1000
        How many states ``pareto`` keeps per prefix before it cuts.

    Returns
    -------
    Plan
        With the least latency over the draft lengths, the shortest of equals.

    Raises
    ------
    ValueError
        If there are no tasks, one alone exceeds the memory, a draft length is below 1, the method is unknown or
        cannot take so many tasks.

    Examples
    --------
    >>> from hlmtheory.serving import Device, ModelShape
    >>> small, large = ModelShape(2, 768, 3072), ModelShape(32, 4096, 11008)
    >>> edge, cloud = Device(4.11e-13, 5.6e-4), Device(2.08e-14, 1.28e-2)
    >>> service = Service(small, large, edge, cloud, acceptance=0.8, memory=16e9)
    >>> best = plan([Task(100, 256), Task(400, 256), Task(120, 256)], service, "exact")
    >>> best.batches, best.draft_length, round(best.latency, 2), best.gap
    (((0, 2, 1),), 6, 1.63, 0.0)
    """
    if method not in METHODS:
        raise DomainError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    lengths = [FIXED_LENGTH] if method == "fixed-length" else [0] if method == "autoregressive" else list(draft_lengths)
    _refuse(tasks, service, method, lengths, static_size, max_labels)
    if method == "autoregressive":
        service = replace(service, memory=np.inf)
    problem = Measured(tasks, service, static_size, max_labels)
    best = methods.METHODS[method](problem, lengths)
    bound = best.latency if method == "exact" else min(search.lower_bound(problem.costs(k)) for k in lengths)
    return Plan(
        method, best.batches, best.order, best.draft_length, best.latency, min(bound, best.latency), best.complete
    )


def plan_latency(
    tasks: Sequence[Task],
    service: Service,
    batches: Sequence[Sequence[int]],
    draft_length: int,
    order: str = "given",
) -> float:
    """Inference latency of given batches: every method's plan is measured by this.

    Parameters
    ----------
    tasks : sequence of Task
        With their real output lengths, if those are known: batches leave when their longest answer is done.
    service : Service
    batches : sequence of sequences of int
        Indices of tasks.
    draft_length : int
        l ≥ 0.
    order : str, default "given"
        One of "given", "johnson", "sequential"; see :class:`Plan`.

    Returns
    -------
    float
        T_inf in seconds: edge-sd (22).

    Raises
    ------
    ValueError
        If there are no tasks or no batches, a batch is empty or names no task, or the order is unknown.

    Examples
    --------
    >>> from hlmtheory.serving import Device, ModelShape
    >>> model, device = ModelShape(1, 1, 1), Device(0.0, 1.0)
    >>> service = Service(model, model, device, device, acceptance=1.0)
    >>> [plan_latency([Task(1, 2)] * 2, service, [[0], [1]], 1, order) for order in ("given", "sequential")]
    [3.0, 4.0]
    """
    _refuse(tasks, service, "", [], 1, 1)
    if order not in ORDERS:
        raise DomainError(f"order must be one of {', '.join(ORDERS)}; got {order!r}")
    if not len(batches) or not all(len(batch) for batch in batches):
        raise DomainError(
            f"batches must hold at least one task each; got {list(map(list, batches))}; leave out empty ones"
        )
    indices = [numbers(COUNT, "batches", np.asarray(batch)) for batch in batches]
    if max(int(batch.max()) for batch in indices) >= len(tasks):
        raise DomainError(f"batches must name tasks 0..{len(tasks) - 1}; got {max(int(b.max()) for b in indices)}")
    inputs, outputs = methods.columns(tasks)
    steps = decoding_steps([outputs[batch].max() for batch in indices], service.acceptance, draft_length)
    prompts, sizes = [inputs[batch].max() for batch in indices], [len(batch) for batch in indices]
    draft, verify = stage_times(service, draft_length, prompts, sizes)
    if order == "given":
        return float(inference_latency(draft, verify, steps))
    n = np.arange(1, steps.max() + 1)[:, None]
    times = [np.where(n <= steps, step_times(stage, n), 0.0) for stage in (draft, verify)]
    if order == "sequential":
        return float(np.sum(times))
    return float(search.johnson_latency(*times).sum())


def lower_bound(tasks: Sequence[Task], service: Service, draft_length: int) -> float:
    """A latency that no partition within the memory falls below, in any order, even one anew at every step.

    At one step the second stage has a batch to do after all drafts, and the first one before all verifications: it
    takes at least max(Σ d + min v, min d + Σ v). The sum over the steps is minimised over the partitions from below.

    Parameters
    ----------
    tasks : sequence of Task
    service : Service
    draft_length : int
        l ≥ 1.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    ValueError
        If there are no tasks, one alone exceeds the memory, or the draft length is below 1.

    Examples
    --------
    >>> from hlmtheory.serving import Device, ModelShape
    >>> model, device = ModelShape(1, 1, 1), Device(0.0, 1.0)
    >>> lower_bound([Task(1, 2)] * 2, Service(model, model, device, device, acceptance=1.0), 1)
    2.0
    """
    _refuse(tasks, service, "", [draft_length], 1, 1)
    return search.lower_bound(Measured(tasks, service, 1, 1).costs(draft_length))


def johnson_order(draft_times: Array, verify_times: Array) -> Array:
    """Order in which batches finish the two stages soonest: Johnson's rule.

    First the batches with d < v, the shortest draft first; then the others, the longest verification first.

    Parameters
    ----------
    draft_times, verify_times : array, shape (..., M)
        Seconds, 0 or more; leading dimensions are separate problems, such as decoding steps.

    Returns
    -------
    integer array, shape (..., M)
        Indices of the batches, first to last; ties by index.

    Raises
    ------
    ValueError
        If a time is negative or not finite, or the shapes do not agree.

    Examples
    --------
    >>> johnson_order([3.0, 1.0, 4.0], [2.0, 5.0, 3.0]).tolist()
    [1, 2, 0]
    """
    return search.johnson_order(*stage_pair("draft_times", draft_times, "verify_times", verify_times))


class Measured(methods.Problem):
    """Tasks whose candidates are measured by :func:`plan_latency`."""

    def measure(self, batches: methods.Batches, length: int, order: str) -> float:
        """T_inf."""
        return plan_latency(self.tasks, self.service, batches, length, order)


def _refuse(
    tasks: Sequence[Task], service: Service, method: str, lengths: list[int], static_size: int, max_labels: int
) -> None:
    """What no method can plan."""
    if not len(tasks):
        raise DomainError("tasks must hold at least one task; got none; wait for a request")
    for name, value in (("static_size", static_size), ("max_labels", max_labels)):
        if value < 1:
            raise DomainError(f"{name} must be 1 or more; got {value!r}")
    if not lengths and method:
        raise DomainError("draft_lengths must hold at least one length; got none; range(1, 11) is the paper's")
    for length in lengths:
        if length < 1 and method != "autoregressive":
            raise DomainError(
                f"draft_length must be 1 or more; got {length!r}; 'autoregressive' decodes without drafts"
            )
    if method == "exact" and len(tasks) > EXACT_TASKS:
        raise DomainError(
            f"tasks must be at most {EXACT_TASKS} for method 'exact'; got {len(tasks)}; take 'pareto+johnson', which "
            "returns the gap to a lower bound"
        )
    if method == "autoregressive":
        return
    inputs, outputs = (np.array([getattr(task, name) for task in tasks]) for name in ("input_tokens", "output_tokens"))
    needs = np.asarray(peak_memory(service.draft, inputs, outputs, 1))
    if (needs > service.memory).any():
        index = int(np.argmax(needs > service.memory))
        raise DomainError(
            f"tasks must fit the memory one by one; task {index} with {inputs[index]} + {outputs[index]} tokens needs "
            f"{needs[index]:.4g} bytes of {service.memory:.4g}; shorten it, or take a smaller draft model"
        )
