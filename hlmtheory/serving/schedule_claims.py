"""Claims on memory, random steps and schedules without a barrier, each with its proof above its record."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hlmtheory._array import Array, to_numpy
from hlmtheory._domains import COUNT, UNIT_INTERVAL, DomainError, numbers
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.serving.costs import cached_tokens, memory_bytes, tokens_per_step
from hlmtheory.serving.free import finish_time, in_turn, partition_bound
from hlmtheory.serving.pipeline import recurrence, stage_pair
from hlmtheory.serving.random_steps import expected_steps
from hlmtheory.serving.shapes import POSITIVE_COUNT

# Proofs, by the last part of the id.
#
# memory_peak. Before pass i of a step the cache holds all tokens but the last, and i - 1 drafts, (13); each pass adds
#   one: I + g + l - 1 after l passes, g the tokens made before the step. A further step is needed while g ≤ O - 1, and
#   steps of one token each reach g = O - 1.
# memory_peak_printed. No proof: I = O = 1 and l = 10 caches 10 tokens in the first step. The text above (10) says that
#   answer and drafts together do not exceed O_m tokens, with which (10) holds; (19) charges l passes at every step.
# printed_steps. No proof: for one sequence ⌈O/L⌉ can exceed the mean; for a batch it is below the slowest one's mean.
# free. By induction over the operations: each begins when its machine and its batch are free, and with the barrier it
#   waits for these two and for all other batches.
# free_schedule. The draft stage works Σ D_m, and its last batch is still to be verified; the verify stage begins after
#   one first draft; a batch does its own operations one after another.


def _counted_peak(
    model: Array, input_tokens: Array, output_tokens: Array, batch_size: Array, draft_length: Array
) -> Array:
    """Return the weights plus the fullest cache over all patterns of acceptance, in bytes, counted pass by pass."""
    shape = numbers(POSITIVE_COUNT, "model", model)
    values = np.broadcast_arrays(
        numbers(POSITIVE_COUNT, "input_tokens", input_tokens),
        numbers(POSITIVE_COUNT, "output_tokens", output_tokens),
        numbers(POSITIVE_COUNT, "batch_size", batch_size),
        numbers(POSITIVE_COUNT, "draft_length", draft_length),
    )
    bytes_ = np.empty(values[0].shape)
    for place in np.ndindex(bytes_.shape):
        prompt, answer, size, length = (int(value[place]) for value in values)
        layers, hidden, wide = (int(value) for value in shape[place])
        most = max(_after_passes(prompt, made, length) for made in _made_before_a_step(answer, length))
        weights = 2 * layers * (4 * hidden * hidden + 2 * hidden * wide)
        bytes_[place] = weights + 2 * layers * 2 * hidden * most * size
    return bytes_


def _made_before_a_step(answer: int, length: int) -> set[int]:
    """Return the possible numbers of answer tokens made before a step begins."""
    reached, border = {0}, {0}
    while border:
        border = {made + more for made in border for more in range(1, length + 2) if made + more < answer} - reached
        reached |= border
    return reached


def _after_passes(prompt: int, made: int, length: int) -> int:
    """Return the number of cached tokens after the passes of a step."""
    cached = prompt + made - 1  # all but the last token, which is the next input
    for _ in range(length):
        cached += 1
    return cached


def _peak(model: Array, input_tokens: Array, output_tokens: Array, batch_size: Array, draft_length: Array) -> Array:
    tokens = cached_tokens(
        numbers(POSITIVE_COUNT, "input_tokens", input_tokens),
        numbers(POSITIVE_COUNT, "output_tokens", output_tokens),
        numbers(POSITIVE_COUNT, "draft_length", draft_length),
    )
    return _bytes(model, tokens, batch_size)


def _printed_peak(model: Array, input_tokens: Array, output_tokens: Array, batch_size: Array) -> Array:
    """Return the peak memory as printed, (9) + (10)."""
    inputs = numbers(POSITIVE_COUNT, "input_tokens", input_tokens)
    return _bytes(model, inputs + numbers(POSITIVE_COUNT, "output_tokens", output_tokens), batch_size)


def _bytes(model: Array, tokens: Array, batch_size: Array) -> Array:
    shape, size = numbers(POSITIVE_COUNT, "model", model), numbers(POSITIVE_COUNT, "batch_size", batch_size)
    return memory_bytes(shape[..., 0], shape[..., 1], shape[..., 2], tokens, size)


# ---------------------------------------------------------------------------------------------------- random steps


def _each_batch(
    output_tokens: Array, acceptance: Array, draft_length: Array, of_one: Callable[[Array, float, int], float]
) -> Array:
    outputs = numbers(POSITIVE_COUNT, "output_tokens", output_tokens)
    alpha = numbers(UNIT_INTERVAL, "acceptance", acceptance)
    length = numbers(COUNT, "draft_length", draft_length)
    values = np.empty(alpha.shape)
    for place in np.ndindex(values.shape):
        values[place] = of_one(outputs[place], float(alpha[place]), int(length[place]))
    return values


def _mean_field(output_tokens: Array, acceptance: Array, draft_length: Array) -> Array:
    """Return O_m / L."""
    outputs = numbers(POSITIVE_COUNT, "output_tokens", output_tokens)
    return outputs.max(axis=-1) / tokens_per_step(acceptance, draft_length)


def _slowest(output_tokens: Array, acceptance: Array, draft_length: Array) -> Array:
    return _each_batch(output_tokens, acceptance, draft_length, expected_steps)


def _printed_steps(output_tokens: Array, acceptance: Array, draft_length: Array) -> Array:
    """Return the printed number of steps, (8)."""
    return np.ceil(_mean_field(output_tokens, acceptance, draft_length) * (1.0 - 1e-12))


# ------------------------------------------------------------------------------------------------------- schedules


def _schedules(draft_times: Array, verify_times: Array, steps: Array) -> Iterator[tuple[tuple[int, ...], Array]]:
    d, v = stage_pair("draft_times", draft_times, "verify_times", verify_times)
    last = numbers(POSITIVE_COUNT, "steps", steps)
    if (last > d.shape[-2]).any():
        raise DomainError(f"steps must be at most N = {d.shape[-2]}; got {last.max()}; give times for every step")
    for place in np.ndindex(d.shape[:-2]):
        yield place, (d[place], v[place], last[place])


def _over_schedules(
    draft_times: Array, verify_times: Array, steps: Array, of_one: Callable[[Array, Array, Array], float]
) -> Array:
    values = np.empty(to_numpy(steps).shape[:-1])
    for place, times in _schedules(draft_times, verify_times, steps):
        values[place] = of_one(*times)
    return values


def _free_in_turn(draft_times: Array, verify_times: Array, steps: Array) -> Array:
    return _over_schedules(draft_times, verify_times, steps, lambda d, v, n: finish_time(in_turn(d, v, n), v))


def _with_barrier(draft_times: Array, verify_times: Array, steps: Array) -> Array:
    """Return the latency (22), with a barrier after each step."""

    def latency(draft: Array, verify: Array, last: Array) -> float:
        active = np.arange(1, len(draft) + 1)[:, None] <= last
        return float(recurrence(np.where(active, draft, 0.0), np.where(active, verify, 0.0)).sum())

    return _over_schedules(draft_times, verify_times, steps, latency)


def _bound(draft_times: Array, verify_times: Array, steps: Array) -> Array:
    return _over_schedules(draft_times, verify_times, steps, partition_bound)


def _appended(draft_times: Array, verify_times: Array, steps: Array, turns: Array) -> Array:
    """Return the latency of a schedule that appends operations of batches turns[0], turns[1], ..., then all others."""
    turn = numbers(COUNT, "turns", turns)
    values = np.empty(to_numpy(steps).shape[:-1])
    for place, (draft, verify, last) in _schedules(draft_times, verify_times, steps):
        machines, ready, done = [0.0, 0.0], [0.0] * len(last), [0] * len(last)
        rest = [m for m in range(len(last)) for _ in range(2 * int(last[m]))]
        for m in [*(int(t) % len(last) for t in turn[place]), *rest]:
            if done[m] < 2 * last[m]:
                n, k = divmod(done[m], 2)
                machines[k] = ready[m] = max(machines[k], ready[m]) + float((draft, verify)[k][n, m])
                done[m] += 1
        values[place] = max(ready)
    return values


_PEAK = {"model": [1, 1, 1], "input_tokens": 1, "output_tokens": 1, "batch_size": 1, "draft_length": 10}
_SQUARE = {"draft_times": [[1.0, 1.0]] * 2, "verify_times": [[1.0, 1.0]] * 2, "steps": [2, 2]}

CLAIMS = (
    Claim(
        id="serving.memory_peak",
        source=Source("zhu2025edgesd", "(9), (10), (13)"),
        origin=Origin.CORRECTED,
        statement="the fullest cache of a batch, over all patterns of acceptance = 4 J h₁ (I + O + l − 2) b",
        relation=Relation.EQ,
        lhs=_counted_peak,
        rhs=_peak,
        attained=Attained(_PEAK),
    ),
    Claim(
        id="serving.memory_peak_printed",
        source=Source("zhu2025edgesd", "(10), were l drafts made at every step, (19); the text ends them at O_m"),
        origin=Origin.IMPLIED,
        statement="the fullest cache of a batch ≤ 4 J h₁ (I + O) b, also with l drafts at every step",
        lhs=_counted_peak,
        rhs=_printed_peak,
        refuted=_PEAK,
    ),
    Claim(
        id="serving.printed_steps",
        source=Source("zhu2025edgesd", "(8), read as a mean"),
        origin=Origin.IMPLIED,
        statement="⌈O_m / L⌉ = E[max_k N_k]: the decoding steps of a batch in the mean",
        relation=Relation.EQ,
        lhs=_printed_steps,
        rhs=_slowest,
        refuted={"output_tokens": [64] * 25, "acceptance": 0.8, "draft_length": 4},
    ),
    Claim(
        id="serving.free",
        source=Source("zhu2025edgesd", "(20)-(22), without the barrier"),
        statement="batches in turn without a barrier end no later than with a barrier at each step, (22)",
        lhs=_free_in_turn,
        rhs=_with_barrier,
        attained=Attained({"draft_times": [[1.0], [2.0]], "verify_times": [[3.0], [1.0]], "steps": [2]}),
    ),
    Claim(
        id="serving.free_schedule",
        source=Source("zhu2025edgesd", "(20)-(22), without the barrier"),
        statement="max(Σ D_m + min v, min d + Σ V_m, max_m (D_m + V_m)) ≤ T of any schedule of the two machines",
        lhs=_bound,
        rhs=_appended,
        attained=Attained({**_SQUARE, "turns": [0, 0, 1, 1, 0, 0, 1, 1]}),
    ),
)
