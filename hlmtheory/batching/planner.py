"""Choose batches, their order and the draft length for a set of tasks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hlmtheory._domains import COUNT, DomainError, flag, number, option
from hlmtheory.batching import methods, refusals
from hlmtheory.batching.memory import RULES
from hlmtheory.serving import Service, Task
from hlmtheory.serving.shapes import POSITIVE_COUNT

METHODS = tuple(methods.METHODS)
"""The methods of :func:`plan`, by name."""

SCHEDULES = ("barrier", "free")
"""With "barrier", a batch waits for all others at the end of each decoding step, (22). With "free", it does not."""

FIXED_LENGTH = 7
"""The draft length of ``fixed-length``: edge-sd Section IV-A."""

OWN_LENGTH = {"fixed-length": FIXED_LENGTH, "autoregressive": 0}
"""The draft length of each method that uses a single fixed one."""

ORDERS = ("given", "johnson", "sequential", "longest")
"""Orders in which a plan's batches pass the two stages."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Batches of tasks, how they run, and their latency."""

    method: str
    batches: tuple[tuple[int, ...], ...]  # indices of the tasks, batch by batch
    order: str  # one of :data:`ORDERS`
    draft_length: int  # l; 0 for autoregressive decoding
    latency: float  # T_inf in seconds, by :func:`plan_latency`
    lower_bound: float  # of the latency of all plans with these lengths, rule and schedule
    complete: bool = True  # False where ``pareto`` reached its limit on labels
    schedule: str = "barrier"
    memory_rule: str = "together"
    waves: tuple[int, ...] = ()  # batches of each wave; the next one begins when all of them are done

    @property
    def gap(self) -> float:
        """Upper bound on how far the latency exceeds the optimum: latency / lower bound - 1."""
        return max(self.latency / self.lower_bound - 1.0, 0.0) if self.lower_bound > 0 else 0.0


def plan(
    tasks: Sequence[Task],
    service: Service,
    method: str = "improved",
    *,
    schedule: str = "barrier",
    memory_rule: str = "together",
    draft_lengths: Iterable[int] = range(1, 11),
    max_labels: int = 100,
) -> Plan:
    """Batches and draft length for a set of tasks: edge-sd (28) for every draft length, then (33) by enumeration.

    Parameters
    ----------
    tasks : sequence of Task
        At least one. Their output lengths may differ; the paper plans with O_max for all.
    service : Service
    method : str, default "improved"
        "dp": Algorithm 1, repaired; "dp-printed-objective": with (29) as printed; "dp-printed": as printed, its batches
        overlap; "pareto": the best runs if ``complete``; "improved": ``dp`` by prompt or output in Johnson's order,
        after moves of tasks, with a closer bound; "exact": all plans of few tasks. Baselines of the paper: "none",
        "static", "max", "heuristic", "sequential" (no overlap), "fixed-length" (7), "autoregressive". "balanced": even
        waves and batches.
    schedule : str, default "barrier"
        "barrier": each step begins when all batches have ended the one before, edge-sd (22). "free": a batch drafts
        when its own last drafts are verified. All methods but ``balanced`` choose batches for the barrier.
    memory_rule : str, default "together"
        "together": Γ_p + Σ_m Γ_kv,m ≤ Γ_s for batches that run at the same time; others run in waves. "each": edge-sd
        (24b) with (10) as printed, which can exceed the memory (``batching.memory_each``). "ignored": no limit.
    draft_lengths : iterable of int, default 1..10
        Each 1 or more. A length at which a task does not fit the memory is left out.
    max_labels : int, default 100
        Largest number of states that ``pareto`` keeps per prefix; with more it is not ``complete``.

    Returns
    -------
    Plan
        The plan with the smallest latency over all draft lengths; among equals, the plan with the shortest drafts.

    Raises
    ------
    ValueError
        If there are no tasks, one alone exceeds the memory, a draft length is below 1, an option is unknown, or the
        method cannot take the tasks or the options.

    Examples
    --------
    >>> from hlmtheory.serving import Device, ModelShape
    >>> draft, verify = ModelShape(2, 768, 3072), ModelShape(32, 4096, 11008)
    >>> edge, cloud = Device(4.11e-13, 5.6e-4), Device(2.08e-14, 1.28e-2)
    >>> service = Service(draft, verify, edge, cloud, acceptance=0.8, memory=16e9)
    >>> best = plan([Task(100, 256), Task(400, 256), Task(120, 256)], service, "exact")
    >>> best.batches, best.waves, best.draft_length, round(best.latency, 2), best.gap
    (((0, 2, 1),), (1,), 6, 1.63, 0.0)
    """
    for name, value, known in (
        ("method", method, METHODS),
        ("schedule", schedule, SCHEDULES),
        ("memory_rule", memory_rule, RULES),
    ):
        option(name, value, known)
    lengths = refusals.checked_lengths(draft_lengths)
    if method in OWN_LENGTH:
        lengths = [OWN_LENGTH[method]]
    options = methods.Options(
        schedule,
        "ignored" if method == "autoregressive" else memory_rule,
        number(POSITIVE_COUNT, "max_labels", max_labels),
    )
    lengths = refusals.fitting_lengths(tasks, service, lengths, options.rule)
    problem = methods.Problem(tasks, service, options)
    refusals.refuse_method(problem, method, lengths)
    best = methods.METHODS[method](problem, lengths)
    if method == "improved":
        bound = problem.close_bound(lengths, best.latency)
    else:
        bound = max(best.bound, min(problem.bound(length) for length in lengths))
    return Plan(
        method,
        best.batches,
        best.order,
        best.draft_length,
        best.latency,
        min(bound, best.latency),
        best.complete,
        schedule,
        options.rule,
        best.waves,
    )


def plan_latency(
    tasks: Sequence[Task],
    service: Service,
    batches: Sequence[Sequence[int]],
    draft_length: int,
    order: str = "given",
    *,
    schedule: str = "barrier",
    memory_rule: str = "together",
    waves: Sequence[int] | None = None,
) -> float:
    """Inference latency of given batches; the plans of all methods are measured by it.

    Parameters
    ----------
    tasks : sequence of Task
        With their real output lengths, if those are known: batches leave when their longest answer is done.
    service : Service
    batches : sequence of sequences of int
        Indices of tasks, each in exactly one batch.
    draft_length : int
        l ≥ 0; at 0 nothing is drafted, and the memory rule does not apply.
    order : str, default "given"
        One of :data:`ORDERS`.
    schedule, memory_rule : str
        See :func:`plan`. A free schedule begins each operation as early as possible, in the order.
    waves : sequence of int, optional
        Number of batches in each wave, in order. If not given, one wave holds all batches.

    Returns
    -------
    float
        T_inf in seconds: edge-sd (22), or the end of the free schedule; summed over the waves.

    Raises
    ------
    ValueError
        If there are no tasks, the batches are not a partition of them, a wave breaks the memory rule, the waves do not
        add up to the number of batches, or an option is unknown.

    Examples
    --------
    >>> from hlmtheory.serving import Device, ModelShape
    >>> model, device = ModelShape(1, 1, 1), Device(0.0, 1.0)
    >>> service = Service(model, model, device, device, acceptance=1.0)
    >>> two = [Task(1, 4)] * 2
    >>> [plan_latency(two, service, [[0], [1]], 1, order) for order in ("given", "sequential")]
    [6.0, 8.0]
    """
    for name, value, known in (
        ("order", order, ORDERS),
        ("schedule", schedule, SCHEDULES),
        ("memory_rule", memory_rule, RULES),
    ):
        option(name, value, known)
    if order == "longest" and schedule == "barrier":
        raise DomainError(
            "order must be given, johnson or sequential with a barrier; got 'longest', which is for a free schedule"
        )
    length = number(COUNT, "draft_length", draft_length)
    rule = memory_rule if length else "ignored"
    refusals.refuse_tasks(tasks, service, [length], rule)
    counts = refusals.refuse_batches(tasks, service, batches, length, rule, waves)
    return methods.measured(tasks, service, batches, counts, length, order, schedule)


def lower_bound(
    tasks: Sequence[Task],
    service: Service,
    draft_length: int,
    *,
    schedule: str = "barrier",
    memory_rule: str = "together",
    close: bool = False,
) -> float:
    """Lower bound on the latency of every partition, order and set of waves within the memory rule.

    With a barrier a step takes at least max(Σ d + min v, min d + Σ v). The free bound holds for any schedule, and also
    counts the share of the memory that each batch holds.

    Parameters
    ----------
    tasks : sequence of Task
    service : Service
    draft_length : int
        l ≥ 1.
    schedule, memory_rule : str
        See :func:`plan`.
    close : bool, default False
        Whether to compute the bound by prices, too (``batching.facility_bound``): seconds for 100 tasks.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    ValueError
        If there are no tasks, one alone exceeds the memory, the draft length is below 1, or an option is unknown.

    Examples
    --------
    >>> from hlmtheory.serving import Device, ModelShape
    >>> model, device = ModelShape(1, 1, 1), Device(0.0, 1.0)
    >>> lower_bound([Task(1, 2)] * 2, Service(model, model, device, device, acceptance=1.0), 1)
    2.0
    """
    option("schedule", schedule, SCHEDULES)
    option("memory_rule", memory_rule, RULES)
    draft_length = number(refusals.LENGTH, "draft_length", draft_length)
    refusals.refuse_tasks(tasks, service, [draft_length], memory_rule)
    problem = methods.Problem(tasks, service, methods.Options(schedule, memory_rule))
    if not flag("close", close):
        return problem.bound(draft_length)
    return problem.close_bound([draft_length], methods.METHODS["dp"](problem, [draft_length]).latency)
