"""Which tasks to batch for the two-stage pipeline, in which order, and how many tokens to draft.

Paper: edge-sd (zhu2025edgesd) Section III-B, (28)-(33) and Algorithm 1; its rivals of Section IV; Johnson's rule for
two machines (johnson1954).

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
K          number of tasks                                 1         scalar
l          ``draft_length``                                tokens    scalar
N          decoding steps until the last batch is done     1         scalar
d, v       ``draft_times``, ``verify_times`` at one step   s         (..., M)
F, C       finish of the first and the second stage        s         (N,)
========== =============================================== ========= ===========

============================ =====================================================================
method                       what it does
============================ =====================================================================
``dp``                       Algorithm 1, its faults repaired: one state (F, C) per prefix of the tasks
``dp-printed-objective``     the same with (29) as printed: it minimises a latency without overlap
``dp-printed``               Algorithm 1 word for word: its batches overlap, see :class:`Plan`
``pareto``                   all undominated states per prefix: exact among runs of the sorted tasks, in order
``pareto+johnson``           the batches of ``pareto``, ordered by Johnson's rule anew at every step
``exact``                    all partitions and all orders, at most 12 tasks
``none``                     one task at a time
``static``                   a fixed number of tasks in a batch, in order of arrival
``max``                      as many as the memory holds of the longest task, in order of arrival
``heuristic``                batches of 2, 3, ... tasks, until the latency rises, in order of arrival
``sequential``               the plan of ``dp``, without overlap ("SD w/o pipeline")
``fixed-length``             ``dp`` with 7 drafts
``autoregressive``           no drafts: the verify model alone, batches by ``heuristic`` without the memory limit
============================ =====================================================================

Tasks carry their output lengths. The paper plans with O_max for all of them: give those tasks to :func:`plan`, and the
real ones with the plan to :func:`plan_latency`. Latencies are the inference's, (22); uploading the prompts, (15), adds
the same to every plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hlmtheory import _batching_methods as methods
from hlmtheory import _batching_search as search
from hlmtheory._array import Array
from hlmtheory._domains import COUNT, UNIT_INTERVAL, Domain, DomainError
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.serving import (
    POSITIVE_COUNT,
    SECONDS,
    Device,
    ModelShape,
    Service,
    Task,
    decoding_steps,
    inference_latency,
    numbers,
    peak_memory,
    pipeline_latency,
    stage_pair,
    stage_times,
    step_times,
)

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
    problem = _Measured(tasks, service, static_size, max_labels)
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
    return search.lower_bound(_Measured(tasks, service, 1, 1).costs(draft_length))


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


class _Measured(methods.Problem):
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
    for index, task in enumerate(tasks):
        need = float(peak_memory(service.draft, task.input_tokens, task.output_tokens, 1))
        if need > service.memory:
            raise DomainError(
                f"tasks must fit the memory one by one; task {index} with {task.input_tokens} + {task.output_tokens} "
                f"tokens needs {need:.4g} bytes of {service.memory:.4g}; shorten it, or take a smaller draft model"
            )


# --------------------------------------------------------------------------------------------- claims
#
# dp. By induction over i the table's row holds F and C of the runs chosen so far, (31) and (32), so that the value
#   Σ_n max(F + d, C) + v is (22) of those runs. It is not the least of all runs: the state kept for a prefix has the
#   least Σ_n C, but a later batch may have gained more from another state with a smaller F, or a smaller C at the steps
#   where the second stage is late.
# pareto. C' = max(F + d, C) + v and F' = F + d never fall when F or C rise. If label a is nowhere above label b, every
#   completion of b by runs is no faster than the same completion of a, so b can go.
# order. Johnson's rule gives the least makespan of two machines among all orders, at each step by itself; the sum
#   over the steps of the least is at most the sum for any order, one for all steps or not.
# contiguous. Number the batches of any partition by rising I_m, sizes b_1, ..., b_M, and give the b_1 shortest tasks to
#   batch 1, the b_2 next to batch 2, and so on. Batches 1..m together held b_1 + ... + b_m tasks no longer than I_m, so
#   the new I'_m ≤ I_m at the same size. Stage times and memory rise with I_m, and the makespan of an order with the
#   stage times; n_m is the same for all as all O_k are. Every order kept, no step takes longer.
# lower_bound. After all drafts one verification is still to be done, and before the first verification one draft:
#   C_M ≥ Σ d + v_last ≥ Σ d + min v, and C_M ≥ d_first + Σ v. A max is at least every mean. Without the tasks that
#   leave before a piece ends, batches only get shorter, and with equal O (their least) runs suffice, by ``contiguous``.
# draft_count. (33) tries them all.


_Side = Callable[..., Array]


def _cases(
    input_tokens: Array,
    output_tokens: Array,
    draft_length: Array,
    acceptance: Array,
    models: Array,
    devices: Array,
    memory: Array,
) -> tuple[tuple[int, ...], Iterator[tuple[tuple[int, ...], list[Task], Service, int]]]:
    """The batch's shape, and each instance as tasks, service and draft length."""
    inputs = numbers(POSITIVE_COUNT, "input_tokens", input_tokens)
    outputs = numbers(POSITIVE_COUNT, "output_tokens", output_tokens)
    length = numbers(POSITIVE_COUNT, "draft_length", draft_length)
    alpha, store = numbers(UNIT_INTERVAL, "acceptance", acceptance), numbers(MEMORY, "memory", memory)
    shapes, machines = numbers(POSITIVE_COUNT, "models", models), numbers(SECONDS, "devices", devices)

    def each() -> Iterator[tuple[tuple[int, ...], list[Task], Service, int]]:
        for place in np.ndindex(length.shape):
            tasks = [Task(int(i), int(o)) for i, o in zip(inputs[place], outputs[place], strict=True)]
            small, large = (ModelShape(*(int(size) for size in row)) for row in shapes[place])
            edge, cloud = (Device(*(float(c) for c in row)) for row in machines[place])
            yield (
                place,
                tasks,
                Service(small, large, edge, cloud, float(alpha[place]), float(store[place])),
                int(length[place]),
            )

    return length.shape, each()


def _side(of_case: Callable[[list[Task], Service, int], float]) -> _Side:
    """A side of a claim from a function of one case."""

    def side(
        input_tokens: Array,
        output_tokens: Array,
        draft_length: Array,
        acceptance: Array,
        models: Array,
        devices: Array,
        memory: Array,
    ) -> Array:
        shape, cases = _cases(input_tokens, output_tokens, draft_length, acceptance, models, devices, memory)
        values = np.empty(shape)
        for place, tasks, service, length in cases:
            values[place] = of_case(tasks, service, length)
        return values

    return side


def _against(of_case: Callable[[list[Task], Service, int, Any], float], dtype: type = float) -> _Side:
    """A side that asks for a competitor too: ``labels`` (..., K) says in which batch each task is, in order."""

    def side(
        input_tokens: Array,
        output_tokens: Array,
        draft_length: Array,
        acceptance: Array,
        models: Array,
        devices: Array,
        memory: Array,
        labels: Array,
    ) -> Array:
        shape, cases = _cases(input_tokens, output_tokens, draft_length, acceptance, models, devices, memory)
        label = numbers(COUNT, "labels", labels)
        values: Array = np.empty(shape, dtype=dtype)
        for place, tasks, service, length in cases:
            batches = [np.flatnonzero(label[place] == batch) for batch in np.unique(label[place])]
            values[place] = of_case(tasks, service, length, batches)
        return values

    return side


def _planned(method: str, **options: Any) -> _Side:
    return _side(lambda tasks, service, length: plan(tasks, service, method, draft_lengths=[length], **options).latency)


def _costs(tasks: Sequence[Task], service: Service, length: int) -> search.Costs:
    return _Measured(tasks, service, 1, 1).costs(length)


def _sorted_runs(tasks: Sequence[Task], batches: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
    """Batches of the same sizes in the same order, the shortest tasks in the one whose prompt was the shortest."""
    inputs = np.asarray([task.input_tokens for task in tasks])
    by_prompt = np.argsort([inputs[batch].max() for batch in batches], kind="stable")
    pieces = np.split(np.argsort(inputs, kind="stable"), np.cumsum([len(batches[m]) for m in by_prompt])[:-1])
    runs = dict(zip(by_prompt.tolist(), pieces, strict=True))
    return [runs[m] for m in range(len(batches))]


def _fastest_runs(tasks: Sequence[Task], service: Service, length: int) -> float:
    """The best of all runs of the sorted tasks, ordered anew at each step."""
    return search.exact(_costs(tasks, service, length), runs_only=True)[1]


def _printed_value(tasks: Sequence[Task], service: Service, length: int) -> float:
    return float(search.printed_program(_costs(tasks, service, length)).value[-1])


def _printed_runs(tasks: Sequence[Task], service: Service, length: int) -> float:
    """(22) of the runs that the printed table chose, with the backtrack repaired."""
    costs = _costs(tasks, service, length)
    choice = np.maximum(search.printed_program(costs).choice, 1) - 1
    return costs.latency(search.runs(choice))


def _packed(tasks: Sequence[Task], service: Service, length: int) -> float:
    """Σ_k Σ_m x_k^m of the printed backtrack."""
    return float(sum(stop - start for start, stop in search.printed_program(_costs(tasks, service, length)).packs))


def _worth(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> float:
    """The best order of the competitor's batches at each step."""
    return plan_latency(tasks, service, batches, length, "johnson")


def _johnson_total(draft_times: Array, verify_times: Array) -> Array:
    return search.johnson_latency(*stage_pair("draft_times", draft_times, "verify_times", verify_times)).sum(axis=-1)


def _ordered_total(draft_times: Array, verify_times: Array, order: Array) -> Array:
    d, v = stage_pair("draft_times", draft_times, "verify_times", verify_times)
    place = numbers(COUNT, "order", order)
    if not (np.sort(place, axis=-1) == np.arange(d.shape[-1])).all():
        raise DomainError(f"order must name every batch once; got {place.tolist()}; give a permutation of 0..M - 1")
    place = np.broadcast_to(place[..., None, :], d.shape)
    return pipeline_latency(*(np.take_along_axis(times, place, axis=-1) for times in (d, v))).sum(axis=-1)


def _fixed_total(draft_times: Array, verify_times: Array) -> Array:
    """One order for all steps: Johnson's rule on the summed times."""
    d, v = stage_pair("draft_times", draft_times, "verify_times", verify_times)
    place = np.broadcast_to(johnson_order(d.sum(axis=-2), v.sum(axis=-2))[..., None, :], d.shape)
    return pipeline_latency(*(np.take_along_axis(times, place, axis=-1) for times in (d, v))).sum(axis=-1)


def _in_memory(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> bool:
    inputs, outputs = methods.columns(tasks)
    needs = [peak_memory(service.draft, inputs[batch].max(), outputs[batch].max(), len(batch)) for batch in batches]
    return bool(max(needs) <= service.memory)


def _are_runs(input_tokens: Array, labels: Array) -> Array:
    by_input = np.argsort(np.asarray(input_tokens), axis=-1, kind="stable")
    return (np.diff(np.take_along_axis(np.asarray(labels), by_input, axis=-1), axis=-1) >= 0).all(axis=-1)


def _same_output(output_tokens: Array) -> Array:
    outputs = np.asarray(output_tokens)
    return (outputs == outputs[..., :1]).all(axis=-1)


_FITS = Assumption("every batch of the competitor is within the memory", _against(_in_memory, bool))
_RUNS = Assumption("the competitor's batches are runs of the sorted tasks, in order", _are_runs)
_SAME = Assumption("all tasks have one output length", _same_output)

_UNIT = {"acceptance": 1.0, "models": [[1, 1, 1]] * 2, "memory": np.inf}
_ONE_STEP = {**_UNIT, "input_tokens": [1, 1, 2], "output_tokens": [1, 1, 1], "draft_length": 2}
_LATE_DRAFTS = {**_ONE_STEP, "devices": [[0.5, 8.0], [0.25, 0.0]]}
_TWO = {
    **_UNIT,
    "input_tokens": [1, 1],
    "output_tokens": [1, 1],
    "draft_length": 1,
    "devices": [[0.5, 9.0], [0.25, 4.0]],
}
_UNEVEN = {
    **_UNIT,
    "input_tokens": [1, 2],
    "output_tokens": [1, 1],
    "draft_length": 2,
    "devices": [[0.5, 1.0], [0.5, 2.0]],
}
_TIGHT_MEMORY = {**_TWO, "memory": 24.0}
_LEAVING = {
    **_UNIT,
    "acceptance": 0.0,
    "input_tokens": [1, 2, 3],
    "output_tokens": [2, 1, 2],
    "draft_length": 1,
    "devices": [[0.5, 18.0], [0.0, 9.0]],
    "labels": [0, 1, 0],
}
_SWITCHING = {"draft_times": [[4.0, 2.0], [2.0, 7.0]], "verify_times": [[1.0, 4.0], [7.0, 1.0]]}
_TABLE = Source("zhu2025edgesd", "Algorithm 1, (29)-(32)")

CLAIMS = (
    Claim(
        id="batching.dp",
        source=_TABLE,
        origin=Origin.CORRECTED,
        statement="with max{Υ[j−1,n,0] + T^d, Υ[j−1,n,1]} in (29), Υ[K,0,0] is the latency (22) of the batches found",
        relation=Relation.EQ,
        lhs=_side(lambda tasks, service, length: search.dynamic_program(_costs(tasks, service, length))[1]),
        rhs=_planned("dp"),
        attained=Attained(_UNEVEN),
    ),
    Claim(
        id="batching.dp_printed_value",
        source=Source("zhu2025edgesd", "(29), Algorithm 1 line 15"),
        origin=Origin.PUBLISHED,
        statement="with max{Υ[j−1,n,0], Υ[j−1,n,1] + T^d} in (29), Υ[K,0,0] is the latency (22) of the batches found",
        relation=Relation.EQ,
        lhs=_side(_printed_value),
        rhs=_side(_printed_runs),
        refuted=_UNEVEN,
    ),
    Claim(
        id="batching.dp_printed_objective",
        source=Source("zhu2025edgesd", "(29), Algorithm 1 line 15"),
        origin=Origin.PUBLISHED,
        statement="the batches that minimise (29) as printed are no slower than any runs of the sorted tasks",
        relation=Relation.LE,
        lhs=_planned("dp-printed-objective"),
        rhs=_against(lambda tasks, service, length, batches: plan_latency(tasks, service, batches, length)),
        assumptions=(_FITS, _RUNS),
        refuted={**_TWO, "labels": [0, 1]},
    ),
    Claim(
        id="batching.dp_printed_choice",
        source=Source("zhu2025edgesd", "Algorithm 1 lines 16-18"),
        origin=Origin.PUBLISHED,
        statement="S[K] names the first task of the last batch: 1 ≤ S[K]",
        relation=Relation.LE,
        lhs=_side(lambda tasks, service, length: 1.0),
        rhs=_side(
            lambda tasks, service, length: float(search.printed_program(_costs(tasks, service, length)).choice[-1])
        ),
        refuted={**_UNEVEN, "input_tokens": [1], "output_tokens": [1]},
    ),
    Claim(
        id="batching.dp_printed_memory",
        source=Source("zhu2025edgesd", "Algorithm 1 lines 11-17"),
        origin=Origin.PUBLISHED,
        statement="Υ[K,0,0] is no less than a lower bound on the latency, also where a batch from task 1 on is skipped",
        relation=Relation.LE,
        lhs=_side(lower_bound),
        rhs=_side(_printed_value),
        refuted=_TIGHT_MEMORY,
    ),
    Claim(
        id="batching.dp_printed_packing",
        source=Source("zhu2025edgesd", "Algorithm 1 lines 24-26, (24c)"),
        origin=Origin.PUBLISHED,
        statement="Σ_k Σ_m x_k^m = K: the backtrack packs every task once",
        relation=Relation.EQ,
        lhs=_side(_packed),
        rhs=_side(lambda tasks, service, length: float(len(tasks))),
        refuted=_TWO,
    ),
    Claim(
        id="batching.dp_gap",
        source=Source("zhu2025edgesd", '(30): "the minimum inference latency"'),
        origin=Origin.PUBLISHED,
        statement="Algorithm 1, repaired, is no slower than any runs of the sorted tasks",
        relation=Relation.LE,
        lhs=_planned("dp"),
        rhs=_against(lambda tasks, service, length, batches: plan_latency(tasks, service, batches, length)),
        assumptions=(_FITS, _RUNS),
        refuted={**_LATE_DRAFTS, "labels": [0, 0, 1]},
    ),
    Claim(
        id="batching.pareto",
        source=_TABLE,
        origin=Origin.NEW,
        statement="undominated vectors (F, C) per prefix: no runs of the sorted tasks, in order, are faster",
        relation=Relation.LE,
        lhs=_planned("pareto"),
        rhs=_against(lambda tasks, service, length, batches: plan_latency(tasks, service, batches, length)),
        assumptions=(_FITS, _RUNS),
        attained=Attained({**_LATE_DRAFTS, "labels": [0, 0, 1]}),
    ),
    Claim(
        id="batching.pareto_value",
        source=_TABLE,
        origin=Origin.NEW,
        statement="Σ_n C of the last label is the latency (22) of the runs it stands for",
        relation=Relation.EQ,
        lhs=_side(lambda tasks, service, length: search.pareto(_costs(tasks, service, length))[1]),
        rhs=_planned("pareto"),
        attained=Attained(_LATE_DRAFTS),
    ),
    Claim(
        id="batching.order",
        source=Source("johnson1954", "Rule; zhu2025edgesd (20)-(22)"),
        origin=Origin.NEW,
        statement="Johnson's rule anew at every decoding step is no slower than any one order",
        relation=Relation.LE,
        lhs=_johnson_total,
        rhs=_ordered_total,
        attained=Attained({"draft_times": [[4.0, 2.0]], "verify_times": [[1.0, 4.0]], "order": [1, 0]}),
    ),
    Claim(
        id="batching.order_fixed",
        source=Source("zhu2025edgesd", "(20)-(22), one order for all steps"),
        origin=Origin.PUBLISHED,
        statement="Johnson's rule once, on the times summed over the steps, is no slower than anew at every step",
        relation=Relation.LE,
        lhs=_fixed_total,
        rhs=_johnson_total,
        refuted=_SWITCHING,
    ),
    Claim(
        id="batching.contiguous",
        source=Source("zhu2025edgesd", "Section III-B, sorting by input length"),
        origin=Origin.NEW,
        statement="runs of the sorted tasks, of the same sizes, are no slower than any partition, the order being free",
        relation=Relation.LE,
        lhs=_against(
            lambda tasks, service, length, batches: _worth(tasks, service, length, _sorted_runs(tasks, batches))
        ),
        rhs=_against(_worth),
        assumptions=(_SAME, _FITS),
        attained=Attained({**_LATE_DRAFTS, "labels": [0, 0, 1]}),
    ),
    Claim(
        id="batching.contiguous_any_output",
        source=Source("zhu2025edgesd", "Section III-B, sorting by input length"),
        origin=Origin.PUBLISHED,
        statement="the fastest runs of the sorted tasks are no slower than any partition, whatever the output lengths",
        relation=Relation.LE,
        lhs=_side(_fastest_runs),
        rhs=_against(_worth),
        assumptions=(_FITS,),
        refuted=_LEAVING,
    ),
    Claim(
        id="batching.exact",
        source=Source("zhu2025edgesd", "(28)"),
        origin=Origin.NEW,
        statement="no partition is faster, each step in its best order, whatever the output lengths",
        relation=Relation.LE,
        lhs=_planned("exact"),
        rhs=_against(_worth),
        assumptions=(_FITS,),
        attained=Attained(_LEAVING),
    ),
    Claim(
        id="batching.lower_bound",
        source=Source("zhu2025edgesd", "(20)-(22), (28)"),
        origin=Origin.NEW,
        statement="min over partitions of Σ_n max(Σ d + min v, min d + Σ v), from below, ≤ the latency of any",
        relation=Relation.LE,
        lhs=_side(lower_bound),
        rhs=_against(_worth),
        assumptions=(_FITS,),
        attained=Attained({**_UNEVEN, "input_tokens": [1], "output_tokens": [1], "labels": [0]}),
    ),
    Claim(
        id="batching.draft_count",
        source=Source("zhu2025edgesd", "(33)"),
        origin=Origin.PUBLISHED,
        statement="l by enumeration of 1..10, batches solved for each: no l in 1..10 is faster",
        relation=Relation.LE,
        lhs=_side(lambda tasks, service, length: plan(tasks, service).latency),
        rhs=_planned("dp"),
        assumptions=(Assumption("l ≤ 10", lambda draft_length: np.asarray(draft_length) <= 10),),
        attained=Attained(_TWO),
    ),
)
