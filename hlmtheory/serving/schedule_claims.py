"""Claims on memory, random steps and schedules without a barrier, each with its proof above its record."""

from __future__ import annotations

from functools import partial

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import COUNT, UNIT_INTERVAL, DomainError
from hlmtheory._sides import Values, host_side
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.serving.costs import cached_tokens, expected_steps, memory_bytes, tokens_per_step
from hlmtheory.serving.pipeline import finish_time, in_turn, partition_bound, recurrence, stage_pair
from hlmtheory.serving.shapes import POSITIVE_COUNT, SECONDS

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


def _counted_peak(one: Values) -> float:
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


def _peak(one: Values) -> float:
    return _bytes(one, cached_tokens(one["input_tokens"], one["output_tokens"], one["draft_length"]))


def _printed_peak(one: Values) -> float:
    return _bytes(one, one["input_tokens"] + one["output_tokens"])


def _bytes(one: Values, tokens: Array) -> float:
    layers, hidden, wide = one["model"]
    return float(memory_bytes(layers, hidden, wide, tokens, one["batch_size"]))


def _printed_steps(one: Values) -> float:
    tokens = tokens_per_step(one["acceptance"], one["draft_length"])
    return float(np.ceil(one["output_tokens"].max() / tokens * (1.0 - 1e-12)))


def _slowest(one: Values) -> float:
    return expected_steps(one["output_tokens"], float(one["acceptance"]), int(one["draft_length"]))


def _schedule(one: Values) -> tuple[Array, Array, Array]:
    d, v = stage_pair("draft_times", one["draft_times"], "verify_times", one["verify_times"])
    if one["steps"].max() > len(d):
        raise DomainError(f"steps must be at most N = {len(d)}; got {one['steps'].max()}; give times for every step")
    return d, v, one["steps"]


def _free_in_turn(one: Values) -> float:
    draft, verify, last = _schedule(one)
    return finish_time(in_turn(draft, verify, last), verify)


def _with_barrier(one: Values) -> float:
    draft, verify, last = _schedule(one)
    active = np.arange(1, len(draft) + 1)[:, None] <= last
    return float(recurrence(np.where(active, draft, 0.0), np.where(active, verify, 0.0)).sum())


def _appended(one: Values) -> float:
    """Return the latency of a schedule that appends operations of batches turns[0], turns[1], ..., then all others."""
    draft, verify, last = _schedule(one)
    machines, ready, done = [0.0, 0.0], [0.0] * len(last), [0] * len(last)
    rest = [m for m in range(len(last)) for _ in range(2 * int(last[m]))]
    for m in [*(int(t) % len(last) for t in one["turns"]), *rest]:
        if done[m] < 2 * last[m]:
            n, k = divmod(done[m], 2)
            machines[k] = ready[m] = max(machines[k], ready[m]) + float((draft, verify)[k][n, m])
            done[m] += 1
    return max(ready)


_COUNTS = ("model", "input_tokens", "output_tokens", "batch_size", "draft_length", "steps")
_DOMAINS = {
    **dict.fromkeys(_COUNTS, POSITIVE_COUNT),
    **dict.fromkeys(("draft_times", "verify_times"), SECONDS),
    "turns": COUNT,
    "acceptance": UNIT_INTERVAL,
}
_memory = partial(host_side, _DOMAINS, {"model": 1})
_random = partial(host_side, _DOMAINS | {"draft_length": COUNT}, {"output_tokens": 1})
_scheduled = partial(host_side, _DOMAINS, {"draft_times": 2, "verify_times": 2, "steps": 1, "turns": 1})
_TIMES = ("draft_times", "verify_times", "steps")
_BATCH = ("output_tokens", "acceptance", "draft_length")
_PEAK = {"model": [1, 1, 1], "input_tokens": 1, "output_tokens": 1, "batch_size": 1, "draft_length": 10}
_SQUARE = {"draft_times": [[1.0, 1.0]] * 2, "verify_times": [[1.0, 1.0]] * 2, "steps": [2, 2]}

CLAIMS = (
    Claim(
        id="serving.memory_peak",
        source=Source("zhu2025edgesd", "(9), (10), (13)"),
        origin=Origin.CORRECTED,
        statement="the fullest cache of a batch, over all patterns of acceptance = 4 J h₁ (I + O + l − 2) b",
        relation=Relation.EQ,
        lhs=_memory(_counted_peak, *_COUNTS[:5]),
        rhs=_memory(_peak, *_COUNTS[:5]),
        attained=Attained(_PEAK),
    ),
    Claim(
        id="serving.memory_peak_printed",
        source=Source("zhu2025edgesd", "(10), were l drafts made at every step, (19); the text ends them at O_m"),
        origin=Origin.IMPLIED,
        statement="the fullest cache of a batch ≤ 4 J h₁ (I + O) b, also with l drafts at every step",
        lhs=_memory(_counted_peak, *_COUNTS[:5]),
        rhs=_memory(_printed_peak, *_COUNTS[:4]),
        refuted=_PEAK,
    ),
    Claim(
        id="serving.printed_steps",
        source=Source("zhu2025edgesd", "(8), read as a mean"),
        origin=Origin.IMPLIED,
        statement="⌈O_m / L⌉ = E[max_k N_k]: the decoding steps of a batch in the mean",
        relation=Relation.EQ,
        lhs=_random(_printed_steps, *_BATCH),
        rhs=_random(_slowest, *_BATCH),
        refuted={"output_tokens": [64] * 25, "acceptance": 0.8, "draft_length": 4},
    ),
    Claim(
        id="serving.free",
        source=Source("zhu2025edgesd", "(20)-(22), without the barrier"),
        statement="batches in turn without a barrier end no later than with a barrier at each step, (22)",
        lhs=_scheduled(_free_in_turn, *_TIMES),
        rhs=_scheduled(_with_barrier, *_TIMES),
        attained=Attained({"draft_times": [[1.0], [2.0]], "verify_times": [[3.0], [1.0]], "steps": [2]}),
    ),
    Claim(
        id="serving.free_schedule",
        source=Source("zhu2025edgesd", "(20)-(22), without the barrier"),
        statement="max(Σ D_m + min v, min d + Σ V_m, max_m (D_m + V_m)) ≤ T of any schedule of the two machines",
        lhs=_scheduled(lambda one: partition_bound(*_schedule(one)), *_TIMES),
        rhs=_scheduled(_appended, *_TIMES, "turns"),
        attained=Attained({**_SQUARE, "turns": [0, 0, 1, 1, 0, 0, 1, 1]}),
    ),
)
