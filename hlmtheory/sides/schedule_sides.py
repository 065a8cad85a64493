"""Sides of the theorems on memory, random steps and schedules without a barrier."""

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import DomainError, numbers
from hlmtheory.serving.costs import cached_tokens, expected_steps, memory_bytes, tokens_per_step
from hlmtheory.serving.pipeline import finish_time, in_turn, recurrence, stage_pair
from hlmtheory.serving.shapes import POSITIVE_COUNT
from hlmtheory.sides.host import Values


def counted_peak(one: Values) -> float:
    """Return the weights plus the fullest cache over all patterns of acceptance, in bytes, counted pass by pass."""
    layers, hidden, wide = (int(value) for value in one["model"])
    prompt, size, length = (int(one[name]) for name in ("input_tokens", "batch_size", "draft_length"))
    reached, border = {0}, {0}  # answer tokens that may be there before a step
    while border:
        more = {made + count for made in border for count in range(1, length + 2)}
        border = {made for made in more if made < one["output_tokens"]} - reached
        reached |= border
    most = 0
    for made in reached:
        cached = prompt + made - 1  # all but the last token, which is the next input
        for _ in range(length):
            cached += 1
        most = max(most, cached)
    return 2 * layers * (4 * hidden * hidden + 2 * hidden * wide) + 2 * layers * 2 * hidden * most * size


def peak(one: Values) -> float:
    return _bytes(one, cached_tokens(one["input_tokens"], one["output_tokens"], one["draft_length"]))


def printed_peak(one: Values) -> float:
    return _bytes(one, one["input_tokens"] + one["output_tokens"])


def _bytes(one: Values, tokens: Array) -> float:
    layers, hidden, wide = one["model"]
    return float(memory_bytes(layers, hidden, wide, tokens, one["batch_size"]))


def printed_steps_side(one: Values) -> float:
    tokens = tokens_per_step(one["acceptance"], one["draft_length"])
    return float(np.ceil(one["output_tokens"].max() / tokens * (1.0 - 1e-12)))


def slowest_side(one: Values) -> float:
    return expected_steps(one["output_tokens"], float(one["acceptance"]), int(one["draft_length"]))


def schedule_side(one: Values) -> tuple[Array, Array, Array]:
    d, v = stage_pair("draft_times", one["draft_times"], "verify_times", one["verify_times"])
    if one["steps"].max() > len(d):
        raise DomainError(f"steps must be at most N = {len(d)}; got {one['steps'].max()}; give times for every step")
    return d, v, one["steps"]


def free_in_turn(one: Values) -> float:
    draft, verify, last = schedule_side(one)
    return finish_time(in_turn(draft, verify, last), verify)


def with_barrier(one: Values) -> float:
    draft, verify, last = schedule_side(one)
    active = np.arange(1, len(draft) + 1)[:, None] <= last
    return float(recurrence(np.where(active, draft, 0.0), np.where(active, verify, 0.0)).sum())


def appended(one: Values) -> float:
    """Return the latency of a schedule that appends operations of batches turns[0], turns[1], ..., then all others."""
    draft, verify, last = schedule_side(one)
    machines, ready, done = [0.0, 0.0], [0.0] * len(last), [0] * len(last)
    rest = [m for m in range(len(last)) for _ in range(2 * int(last[m]))]
    for m in [*(int(t) % len(last) for t in one["turns"]), *rest]:
        if done[m] < 2 * last[m]:
            n, k = divmod(done[m], 2)
            machines[k] = ready[m] = max(machines[k], ready[m]) + float((draft, verify)[k][n, m])
            done[m] += 1
    return max(ready)


def product_side(rows: Array, inner: Array, columns: Array) -> Array:
    return 2.0 * rows * inner * columns


def model_side(model: Array) -> tuple[Array, Array, Array]:
    shape = numbers(POSITIVE_COUNT, "model", model)
    return shape[..., 0], shape[..., 1], shape[..., 2]
