"""Claims on schedules without a barrier and on the memory that batches share, each with its proof above its record."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from hlmtheory.batching import methods
from hlmtheory.batching.facilities import facility_bound
from hlmtheory.batching.memory import Cache
from hlmtheory.batching.planner import plan_latency
from hlmtheory.batching.search import Costs
from hlmtheory.batching.sides import against, fits_each, side
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Source
from hlmtheory.serving import Service, Task, decoding_steps
from hlmtheory.serving.costs import memory_bytes

# Proofs, by the last part of the id.
#
# memory_each. No proof: (24b) limits each batch, and the cache of a batch stays between two of its steps, since (13)
#   charges a later step for the new tokens only. The batches of one wave all run at every step, so all their caches
#   are there at once; two that fill the memory each need it twice.
# memory_together. The bytes cached at one time are at most the sum of the batches' largest caches.
# facility_bound. Let d_m, v_m be the times of batch m at a step of a wave, and s_m its share of the memory. The step
#   takes at least Σ d_m + min v and min d + Σ v_m. It also takes at least d_m + v_m, the drafts
#   of the batches before m, and the verifications of those after it. Weigh this by s_m and add: with S = Σ s_m, a = min
#   d/s and b = min v/s, the step times S is at least Σ s_m (d_m + v_m) + (a + b) Σ s_m s_p over all pairs, whatever the
#   order, and the pairs are (S² − Σ s_m²)/2. As S ≤ 1, and each s_m (d_m + v_m) ≥ (a + b) s_m², the step takes at least
#   Σ s_m (d_m + v_m) + (a + b) s_m (1 − s_m)/2. Over the waves, at least one of which is active at each step, and at
#   least ⌈Σ s_k⌉ over the active tasks, each of the three is a sum over batches and a constant; a sum of maxima is at
#   least the maximum of sums, and every mean of it. If c(I_m, O_m, n_m) is what m adds to the mean, and the u_k of any
#   n tasks within (I, O) add to c(I, O, n) or less, Σ_m c(m) ≥ Σ_m Σ_{k ∈ m} u_k = Σ_k u_k. The n largest u_k suffice.
#   Tasks rounded down are no slower in any plan, and need no more memory.


_CHECKED: dict[str, Any] = {"memory_rule": "ignored"}
"""The memory of the competitor is not checked here: an assumption of each claim covers it."""


def _in_waves(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the competitor's waves: batches join in order as long as they fit in memory."""
    inputs, outputs = methods.columns(tasks)
    cache = Cache(service, length, "together")
    return cache.waves([cache.of_batch(inputs[batch], outputs[batch]) for batch in batches])


def _johnson(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> float:
    waves = _in_waves(tasks, service, length, batches)
    return plan_latency(tasks, service, batches, length, "johnson", **_CHECKED, waves=waves)


def _by_facilities(schedule: str, tasks: list[Task], service: Service, length: int) -> float:
    """Return the bound alone, not capped by the latency of a plan; 0 for a task beyond the memory."""
    inputs, outputs = methods.columns(tasks)
    order = np.argsort(inputs, kind="stable")
    costs = Costs(service, length, inputs[order], outputs[order], "together")
    fits = (costs.cache.bytes(costs.inputs, costs.outputs, 1) <= costs.cache.capacity).all()
    return facility_bound(costs, schedule, np.inf) if fits else 0.0


def _fit_alone(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> bool:
    """Return whether the cache of each batch, drafts included, fits in memory on its own."""
    inputs, outputs = methods.columns(tasks)
    cache = Cache(service, length, "together")
    return all(cache.of_batch(inputs[batch], outputs[batch]) <= cache.capacity for batch in batches)


def _fit_together(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> bool:
    return len(_in_waves(tasks, service, length, batches)) == 1 and _fit_alone(tasks, service, length, batches)


def _cached_at_once(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> float:
    """Return the peak bytes of all batches together on the draft machine, counted step by step.

    Two cases are counted: all drafts accepted, and no draft accepted. Another pattern may need even more memory.
    """
    inputs, outputs = methods.columns(tasks)
    sizes, most = service.draft.sizes, 0.0
    for made in (1, length + 1):  # tokens of a step
        for n in range(1, int(decoding_steps(outputs.max(), 0.0, 1)) + 1):
            before = (n - 1) * made
            tokens = [
                len(batch) * (inputs[batch].max() + before + length - 1.0)
                for batch in batches
                if before < outputs[batch].max()
            ]
            most = max(most, float(memory_bytes(*sizes, np.sum(tokens), 1)))
    return most


def _memory(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> float:
    return service.memory


_ALONE = Assumption("every batch of the competitor, with its drafts, is within the memory", against(_fit_alone, bool))
_EACH = Assumption("every batch of the competitor is within the memory", against(fits_each, bool))
_TOGETHER = Assumption("the competitor's batches are within the memory together", against(_fit_together, bool))

_UNIT = {"acceptance": 1.0, "models": [[1, 1, 1]] * 2, "draft_length": 1}
_TWO = {
    **_UNIT,
    "input_tokens": [1, 1],
    "output_tokens": [20, 20],
    "devices": [[0.0, 1.0], [0.0, 1.0]],
    "labels": [0, 1],
}
_SHORT = {**_TWO, "output_tokens": [4, 4]}

CLAIMS = (
    Claim(
        id="batching.memory_each",
        source=Source("zhu2025edgesd", "(24b) for each batch, read as the memory constraint of all that run together"),
        origin=Origin.IMPLIED,
        statement="batches that meet (24b) one by one meet the draft machine's memory Γ_s when they run together",
        lhs=against(_cached_at_once),
        rhs=against(_memory),
        assumptions=(_EACH,),
        refuted={**_TWO, "memory": 138.0},
    ),
    Claim(
        id="batching.memory_together",
        source=Source("zhu2025edgesd", "(24b), (10)"),
        origin=Origin.CORRECTED,
        statement="if Γ_p + Σ_m Γ_kv,m ≤ Γ_s with I_m + O_m + l − 2 cached tokens a task, the caches always fit",
        lhs=against(_cached_at_once),
        rhs=against(_memory),
        assumptions=(_TOGETHER,),
        attained=Attained({**_TWO, "acceptance": 0.0, "memory": 172.0}),
    ),
    Claim(
        id="batching.facility_bound",
        source=Source("zhu2025edgesd", "(20)-(22), (28), the memory shared, any answers"),
        statement="Σ λ tails + Σ_k u_k ≤ T_inf with a barrier, if no batch costs less than the prices u_k of its tasks",
        lhs=side(partial(_by_facilities, "barrier")),
        rhs=against(_johnson),
        assumptions=(_ALONE,),
        attained=Attained({**_SHORT, "output_tokens": [2, 4], "memory": 28.0}),
    ),
)
