"""Lower bounds on the latency of every plan, for one draft length and sorted tasks, with a barrier or without."""

import numpy as np

from hlmtheory._array import Array
from hlmtheory.batching.search import Costs

MOST_BATCHES = 16
"""Largest number of batches that :func:`free_bound` treats separately; it also stands for all larger numbers."""


def lower_bound(costs: Costs, schedule: str) -> float:
    """The larger of the bounds that hold for the schedule."""
    free = free_bound(costs)
    return max(barrier_bound(costs), free) if schedule == "barrier" else free


# ------------------------------------------------------------------------------------------ with a barrier


def barrier_bound(costs: Costs) -> float:
    """Lower bound on the latency of every plan with a barrier, whatever its order; tasks sorted by input.

    The steps are cut where tasks leave. A piece counts the tasks active to its end, so runs are no worse than others.
    """
    total, begin = 0.0, 0
    for end in _levels(costs):
        active = costs.steps >= end
        total += _piece_bound(costs, np.flatnonzero(active), begin, int(end))
        begin = int(end)
    return total


def _levels(costs: Costs) -> Array:
    """Steps at which tasks leave, at most 16 of them."""
    levels = np.unique(costs.steps)
    return levels[np.unique(np.linspace(0, len(levels) - 1, min(16, len(levels))).astype(np.int64))]


def _piece_bound(costs: Costs, tasks: Array, begin: int, end: int) -> float:
    """Lower bound on the time of steps begin + 1..end, for these tasks only.

    A step takes any mean of Σ d + min v and min d + Σ v; its least over runs is a shortest path. One batch takes Σ d +
    Σ v.
    """
    # Cost of each task and of each batch, for every choice of weights
    draft, verify = (unit[tasks, begin:end] for unit in costs.unit)
    fixed_draft, fixed_verify = costs.fixed
    count = len(tasks)
    weight = _weights(end - begin)
    other = 1.0 - weight
    slope = weight @ draft.T + other @ verify.T  # (weights, tasks)
    batch = weight.sum(axis=1) * fixed_draft + other.sum(axis=1) * fixed_verify
    answers = np.full(count, costs.outputs[tasks].min())
    first = costs.cache.earliest(costs.inputs[tasks], answers)
    waves = costs.cache.fewest_waves(costs.inputs[tasks], answers)
    # Shortest path over the starts of the last batch
    path = np.full((len(weight), count + 1), np.inf)
    path[:, 0] = weight @ (verify[0] + fixed_verify) + other @ (draft[0] + fixed_draft)  # no batch is shorter
    path[:, 0] *= waves
    for i in range(count):
        starts = np.arange(max(first[i], i == count - 1), i + 1)
        if len(starts):
            path[:, i + 1] = (path[:, starts] + slope[:, i : i + 1] * (i + 1.0 - starts)).min(axis=1) + batch
    bound = float(path[:, count].max())
    if first[-1] > 0:
        return bound
    return min(bound, float((count * (draft[-1] + verify[-1]) + fixed_draft + fixed_verify).sum()))


def _weights(steps: int) -> Array:
    """Weights λ per step, shape (23, steps): constant, or 0 before a step and 1 from it on, or the reverse."""
    even = np.repeat(np.linspace(0.0, 1.0, 9)[:, None], steps, axis=1)
    switch = np.arange(steps) >= np.linspace(0, steps, 9)[1:-1, None]
    return np.concatenate([even, switch, ~switch]).astype(np.float64)


# --------------------------------------------------------------------------------------- any schedule


def free_bound(costs: Costs) -> float:
    """Lower bound on the latency of every partition and schedule, with or without a barrier; tasks sorted by input.

    It is any mean of Σ D_m + min v, min d + Σ V_m and Σ s_m (D_m + V_m), with s_m the share of the memory that a batch
    holds, least over runs by a shortest path; and the longest chain D_m + V_m.
    """
    loads = _least_loads(costs)
    chains = np.asarray([_longest_chain(costs, batches) for batches in range(1, len(loads) + 1)])
    return float(np.maximum(loads, chains).min())


def _least_loads(costs: Costs) -> Array:
    """For M = 1, 2, ... batches: the largest mean of the three bounds, shape (M,); the last covers all larger M."""
    weight = _mixtures(costs.cache.shared and np.isfinite(costs.cache.capacity))
    last = np.asarray([unit[np.arange(len(costs.steps)), costs.steps - 1].min() for unit in costs.unit])
    ends = weight[:, 0] * (last[1] + costs.fixed[1])
    ends += weight[:, 1] * (costs.unit[0][:, 0].min() + costs.fixed[0])
    total, begin = np.zeros((len(weight), 1)), 0
    levels = _levels(costs)
    for end in levels:
        tasks = np.flatnonzero(costs.steps >= end)
        most = min(MOST_BATCHES, len(tasks)) if len(levels) == 1 else 1
        total = total + _piece_loads(costs, weight, tasks, (begin, int(end)), most)
        begin = int(end)
    return np.asarray((total + ends[:, None]).max(axis=0))


def _piece_loads(costs: Costs, weight: Array, tasks: Array, piece: tuple[int, int], most: int) -> Array:
    """Smallest means on steps begin + 1..end with these tasks only, for 1..``most`` batches; shape (weights, most)."""
    steps, count = piece[1] - piece[0], len(tasks)
    per_task = [unit[tasks, piece[0] : piece[1]].sum(axis=1) for unit in costs.unit]
    fixed = [steps * value for value in costs.fixed]
    prompts, answers = costs.inputs[tasks], np.full(count, costs.outputs[tasks].min())
    first = costs.cache.earliest(prompts, answers)
    path = np.full((len(weight), most + 1, count + 1), np.inf)
    path[:, 0, 0] = 0.0
    for i in range(count):
        starts = np.arange(first[i], i + 1)
        if not len(starts):
            continue
        sizes = i + 1.0 - starts
        draft, verify = (sizes * slope[i] + base for slope, base in zip(per_task, fixed, strict=True))
        share = costs.cache.bytes(prompts[i], answers[i], sizes) / costs.cache.capacity
        cost = weight @ np.stack([draft, verify, share * (draft + verify)])
        reached = path[:, :, starts] + cost[:, None, :]
        path[:, 1:, i + 1] = reached[:, :-1].min(axis=2)
        path[:, most, i + 1] = np.minimum(path[:, most, i + 1], reached[:, most].min(axis=1))
    return path[:, 1:, count]


def _mixtures(with_memory: bool) -> Array:
    """Weights of the three bounds, shape (n, 3); each row sums to 1."""
    grid = np.linspace(0.0, 1.0, 9)
    rows = [(a, b, 1.0 - a - b) for a in grid for b in grid if a + b <= 1.0 and (with_memory or a + b == 1.0)]
    return np.asarray(rows)


def _longest_chain(costs: Costs, batches: int) -> float:
    """Lower bound on the longest chain of M batches: some batch holds ⌈K/M⌉ tasks, some the longest one alone."""
    count, steps = len(costs.inputs), np.arange(costs.horizon)
    active = steps < costs.steps[:, None]
    single = sum((unit * active).sum(axis=1) + fixed * costs.steps for unit, fixed in _sides(costs))
    longest = float(np.max(single))
    if not costs.equal_steps or batches == MOST_BATCHES:
        return longest
    size = -(-count // batches)
    return max(longest, float(sum((size * unit[size - 1] + fixed).sum() for unit, fixed in _sides(costs))))


def _sides(costs: Costs) -> list[tuple[Array, float]]:
    return list(zip(costs.unit, costs.fixed, strict=True))
