"""Checks that refuse inputs which the methods of :mod:`hlmtheory.batching` cannot plan."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hlmtheory._array import brief, plain
from hlmtheory._domains import COUNT, Domain, DomainError, instance, instances, number, numbers
from hlmtheory.batching.memory import Cache
from hlmtheory.batching.methods import Problem, columns
from hlmtheory.serving import Service, Task, peak_memory
from hlmtheory.serving.shapes import POSITIVE_COUNT

EXACT_TASKS = 12
"""Most tasks of ``exact``."""


LENGTH = Domain("1 or more", lambda xp, value: value >= 1, "'autoregressive' decodes without drafts", kind="integer")
_OUTPUT = Domain(
    "at most 1,000,000 tokens long",
    lambda xp, value: value <= 1_000_000,
    "the planner computes every decoding step: cut the answer into requests",
    kind="integer",
)


def checked_lengths(draft_lengths: Iterable[int]) -> list[int]:
    """The draft lengths that a plan may take, each 1 or more."""
    rows = _rows("draft_lengths", draft_lengths, "whole numbers")
    if not rows:
        raise DomainError("draft_lengths must hold at least one length; got none; range(1, 11) is the paper's")
    return [number(LENGTH, "draft_lengths", length) for length in rows]


def _rows(name: str, value: Any, of: str) -> list[Any]:
    """The items of an iterable as a list; raise, with the name, if it is not iterable."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0:
        raise TypeError(f"{name} must be a sequence of {of}; got {brief(value)}; put them in a list")
    return list(plain(name, value) if hasattr(value, "ndim") else value)


def fitting_lengths(tasks: Sequence[Task], service: Service, lengths: Sequence[int], rule: str) -> list[int]:
    """Draft lengths at which every task fits the memory alone; longer drafts need more cache."""
    refuse_tasks(tasks, service, [min(lengths)], rule)
    inputs, outputs = columns(tasks)
    caches = [(length, Cache(service, length, rule)) for length in lengths]
    return [length for length, cache in caches if (cache.bytes(inputs, outputs, 1) <= cache.capacity).all()]


def refuse_tasks(tasks: Sequence[Task], service: Service, lengths: Sequence[int], rule: str) -> None:
    """Raise if there is no task, or one that does not fit the memory alone."""
    instance("service", service, Service)
    if not instances("tasks", tasks, Task):
        raise DomainError("tasks must hold at least one task; got none; wait for a request")
    inputs, outputs = columns(tasks)
    numbers(_OUTPUT, "output_tokens of tasks", outputs)
    for length in lengths:
        cache = Cache(service, length, rule)
        needs = cache.bytes(inputs, outputs, 1)
        if (needs > cache.capacity).any():
            index = int(np.argmax(needs > cache.capacity))
            total = needs[index] + float(peak_memory(service.draft, 0, 0, 0))
            raise DomainError(
                f"tasks must fit the memory one by one; task {index} with {inputs[index]} + {outputs[index]} tokens "
                f"needs {total:.4g} bytes of {service.memory:.4g}; shorten it, or take a smaller draft model"
            )


def refuse_method(problem: Problem, method: str, lengths: Sequence[int]) -> None:
    """Raise if the method cannot plan this problem."""
    options = problem.options
    if method == "dp-printed" and (options.rule == "together" or options.schedule == "free"):
        raise DomainError(
            "memory_rule must be each, and schedule barrier, for method 'dp-printed', Algorithm 1 word for word; got "
            f"{options.rule!r} and {options.schedule!r}"
        )
    if method != "exact":
        return
    if options.schedule == "free":
        raise DomainError("schedule must be barrier for method 'exact'; got 'free'; take 'balanced' or 'improved'")
    if len(problem.tasks) > EXACT_TASKS or any(problem.costs(length).in_waves for length in lengths):
        raise DomainError(
            f"tasks must be at most {EXACT_TASKS}, within the memory together, for method 'exact'; got "
            f"{len(problem.tasks)}; take 'improved', which returns the gap to a lower bound"
        )


def refuse_batches(
    tasks: Sequence[Task],
    service: Service,
    batches: Sequence[Sequence[int]],
    length: int,
    rule: str,
    waves: Sequence[int] | None,
) -> tuple[int, ...]:
    """Number of batches of each wave; raise if the batches are not a partition or do not fit the memory."""
    rows = [_rows("batches", batch, "indices of tasks") for batch in _rows("batches", batches, "lists of tasks")]
    if not all(rows) or not rows:
        raise DomainError(f"batches must hold at least one task each; got {rows}; leave out empty ones")
    indices = [np.array([number(COUNT, "batches", task) for task in row]) for row in rows]
    named = np.concatenate(indices)
    if named.max() >= len(tasks):
        raise DomainError(f"batches must name tasks 0..{len(tasks) - 1}; got {named.max()}; tasks count from 0")
    times = np.bincount(named, minlength=len(tasks))
    if (times != 1).any():
        task = int(np.argmax(times != 1))
        raise DomainError(f"batches must hold every task exactly once; got task {task} {times[task]} times")
    counts = (len(batches),) if waves is None else tuple(numbers(POSITIVE_COUNT, "waves", waves).ravel().tolist())
    if sum(counts) != len(batches):
        raise DomainError(f"waves must add up to the {len(batches)} batches; got {list(counts)}")
    inputs, outputs = columns(tasks)
    cache, begin = Cache(service, length, rule), 0
    for wave, count in enumerate(counts):
        needs = [cache.of_batch(inputs[batch], outputs[batch]) for batch in indices[begin : begin + count]]
        begin += count
        need = sum(needs) if cache.shared else max(needs)
        if need > cache.capacity:
            raise DomainError(
                f"batches must fit the memory; wave {wave} needs {need:.4g} bytes beside the weights of "
                f"{max(cache.capacity, 0.0):.4g}; give more waves or smaller batches, or memory_rule='ignored'"
            )
    return counts
