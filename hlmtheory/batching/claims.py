"""Claims of the module, each with its proof above its record."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from hlmtheory._array import Array, to_numpy
from hlmtheory._domains import COUNT, DomainError, numbers
from hlmtheory.batching import methods, search, wave_claims
from hlmtheory.batching.planner import lower_bound, plan, plan_latency
from hlmtheory.batching.sides import against, fits_each, planned, side
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.serving import Service, Task
from hlmtheory.serving.pipeline import recurrence, stage_pair

# Proofs, by the last part of the id.
#
# dp. By induction over i the table's row holds F and C of the runs chosen so far, (31) and (32), so that the value
#   Σ_n max(F + d, C) + v is (22) of those runs. It is not the minimum over all runs: the state kept for a prefix has
#   the smallest Σ_n C, but another state with a smaller F, or a smaller C at the steps where the second stage is late,
#   may be better for a later batch.
# dp_gap. False: the counterexample. The table keeps one state for each prefix of the tasks; see ``dp``.
# dp_printed_value, dp_printed_objective. False: (29) adds T^d to the finish time of the verify stage. By (31) and (32)
#   it belongs to that of the draft stage.
# dp_printed_choice. False: line 18 leaves S[i] at 0 if the best batch starts at task 1.
# dp_printed_memory. False: if j = 1 is skipped because of its memory, Υ[i,0,0] keeps its initial 0, and no later j has
#   a smaller value.
# dp_printed_packing. False: lines 24-26 pack from S[i] to i for every i, not only for the ends of batches, so tasks are
#   packed more than once.
# pareto. C' = max(F + d, C) + v and F' = F + d never fall when F or C rise. If label a is no larger than label b in any
#   entry, every completion of b by runs is no faster than the same completion of a, so b can be removed.
# order. At each step, Johnson's rule gives the smallest makespan of two machines among all orders. So the sum of these
#   minima is at most the sum for any choice of orders, the same at all steps or not.
# exact. All partitions are tried, or excluded by a lower bound; each step is in Johnson's order.
# lower_bound. At least one verification comes after all drafts, and at least one draft before all verifications:
#   C_M ≥ Σ d + v_last ≥ Σ d + min v, and C_M ≥ d_first + Σ v. A maximum is at least every mean. If the tasks
#   that leave before a piece ends are removed, batches only get shorter. If all O are set to their minimum, runs
#   suffice: in the order of the longest prompts, runs of the same sizes have no longer prompts.
# draft_count. (33) tries all draft lengths.


def _costs(tasks: Sequence[Task], service: Service, length: int) -> search.Costs:
    return methods.Problem(tasks, service, methods.Options(rule="each")).costs(length)


def _printed_value(tasks: Sequence[Task], service: Service, length: int) -> float:
    return float(search.printed_program(_costs(tasks, service, length)).value[-1])


def _printed_runs(tasks: Sequence[Task], service: Service, length: int) -> float:
    """Return (22) of the runs that the printed table chose, with the backtrack repaired."""
    costs = _costs(tasks, service, length)
    choice = np.maximum(search.printed_program(costs).choice, 1) - 1
    return costs.latency(search.runs(choice))


def _packed(tasks: Sequence[Task], service: Service, length: int) -> float:
    """Return Σ_k Σ_m x_k^m of the printed backtrack."""
    return float(sum(stop - start for start, stop in search.printed_program(_costs(tasks, service, length)).packs))


def _worth(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> float:
    """Return the latency of the competitor's batches in the best order at each step; (24b) is an assumption."""
    return plan_latency(tasks, service, batches, length, "johnson", memory_rule="ignored")


def _as_given(tasks: list[Task], service: Service, length: int, batches: Sequence[Sequence[int]]) -> float:
    return plan_latency(tasks, service, batches, length, memory_rule="ignored")


def _johnson_total(draft_times: Array, verify_times: Array) -> Array:
    return search.johnson_latency(*stage_pair("draft_times", draft_times, "verify_times", verify_times)).sum(axis=-1)


def _ordered_total(draft_times: Array, verify_times: Array, order: Array) -> Array:
    d, v = stage_pair("draft_times", draft_times, "verify_times", verify_times)
    place = numbers(COUNT, "order", order)
    if not (np.sort(place, axis=-1) == np.arange(d.shape[-1])).all():
        raise DomainError(f"order must name every batch once; got {place.tolist()}; give a permutation of 0..M - 1")
    place = np.broadcast_to(place[..., None, :], d.shape)
    return recurrence(*(np.take_along_axis(times, place, axis=-1) for times in (d, v))).sum(axis=-1)


def _are_runs(input_tokens: Array, labels: Array) -> Array:
    by_input = np.argsort(to_numpy(input_tokens), axis=-1, kind="stable")
    return (np.diff(np.take_along_axis(to_numpy(labels), by_input, axis=-1), axis=-1) >= 0).all(axis=-1)


_FITS = Assumption("every batch of the competitor is within the memory", against(fits_each, bool))
_RUNS = Assumption("the competitor's batches are runs of the sorted tasks, in order", _are_runs)

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
_TABLE = Source("zhu2025edgesd", "Algorithm 1, (29)-(32)")

_BARRIER = (
    Claim(
        id="batching.dp",
        source=_TABLE,
        origin=Origin.CORRECTED,
        statement="with max{Υ[j−1,n,0] + T^d, Υ[j−1,n,1]} in (29), Υ[K,0,0] is the latency (22) of the batches found",
        relation=Relation.EQ,
        lhs=side(lambda tasks, service, length: search.dynamic_program(_costs(tasks, service, length))[1]),
        rhs=planned("dp"),
        attained=Attained(_UNEVEN),
    ),
    Claim(
        id="batching.dp_printed_value",
        source=Source("zhu2025edgesd", "(29), Algorithm 1 line 15"),
        origin=Origin.MISPRINT,
        statement="with max{Υ[j−1,n,0], Υ[j−1,n,1] + T^d} in (29), Υ[K,0,0] is the latency (22) of the batches found",
        relation=Relation.EQ,
        lhs=side(_printed_value),
        rhs=side(_printed_runs),
        refuted=_UNEVEN,
    ),
    Claim(
        id="batching.dp_printed_objective",
        source=Source("zhu2025edgesd", "(29), Algorithm 1 line 15"),
        origin=Origin.MISPRINT,
        statement="minimising (29) as printed gives the fastest batches of consecutive sorted tasks",
        lhs=planned("dp-printed-objective"),
        rhs=against(_as_given),
        assumptions=(_FITS, _RUNS),
        refuted={**_TWO, "labels": [0, 1]},
    ),
    Claim(
        id="batching.dp_printed_choice",
        source=Source("zhu2025edgesd", "Algorithm 1 lines 16-18"),
        origin=Origin.MISPRINT,
        statement="S[K] names the first task of the last batch: 1 ≤ S[K]",
        lhs=side(lambda tasks, service, length: 1.0),
        rhs=side(
            lambda tasks, service, length: float(search.printed_program(_costs(tasks, service, length)).choice[-1])
        ),
        refuted={**_UNEVEN, "input_tokens": [1], "output_tokens": [1]},
    ),
    Claim(
        id="batching.dp_printed_memory",
        source=Source("zhu2025edgesd", "Algorithm 1 lines 11-17"),
        origin=Origin.MISPRINT,
        statement=(
            "Υ[K,0,0] is at least a lower bound on the latency, also where a batch that starts at task 1 is skipped"
        ),
        lhs=side(partial(lower_bound, memory_rule="each")),
        rhs=side(_printed_value),
        refuted=_TIGHT_MEMORY,
    ),
    Claim(
        id="batching.dp_printed_packing",
        source=Source("zhu2025edgesd", "Algorithm 1 lines 24-26, (24c)"),
        origin=Origin.MISPRINT,
        statement="Σ_k Σ_m x_k^m = K: the backtrack packs every task once",
        relation=Relation.EQ,
        lhs=side(_packed),
        rhs=side(lambda tasks, service, length: float(len(tasks))),
        refuted=_TWO,
    ),
    Claim(
        id="batching.dp_gap",
        source=Source("zhu2025edgesd", 'Algorithm 1, line 27: "Optimal batching decisions"; (30)'),
        origin=Origin.PUBLISHED,
        statement="Algorithm 1, repaired, gives the fastest batches of consecutive sorted tasks",
        lhs=planned("dp"),
        rhs=against(_as_given),
        assumptions=(_FITS, _RUNS),
        refuted={**_LATE_DRAFTS, "labels": [0, 0, 1]},
    ),
    Claim(
        id="batching.pareto",
        source=_TABLE,
        statement=(
            "the search over undominated (F, C) gives the fastest batches of consecutive sorted tasks, run in order"
        ),
        lhs=planned("pareto"),
        rhs=against(_as_given),
        assumptions=(_FITS, _RUNS),
        attained=Attained({**_LATE_DRAFTS, "labels": [0, 0, 1]}),
    ),
    Claim(
        id="batching.order",
        source=Source("johnson1954", "Rule; zhu2025edgesd (20)-(22)"),
        statement="Johnson's rule at every decoding step is no slower than any fixed order",
        lhs=_johnson_total,
        rhs=_ordered_total,
        attained=Attained({"draft_times": [[4.0, 2.0]], "verify_times": [[1.0, 4.0]], "order": [1, 0]}),
    ),
    Claim(
        id="batching.exact",
        source=Source("zhu2025edgesd", "(28)"),
        statement="for any output lengths, the search gives the fastest partition, each step in its best order",
        lhs=planned("exact"),
        rhs=against(_worth),
        assumptions=(_FITS,),
        attained=Attained(_LEAVING),
    ),
    Claim(
        id="batching.lower_bound",
        source=Source("zhu2025edgesd", "(20)-(22), (28)"),
        statement=(
            "a lower bound on min over partitions of Σ_n max(Σ d + min v, min d + Σ v) ≤ the latency of any partition"
        ),
        lhs=side(partial(lower_bound, memory_rule="each")),
        rhs=against(_worth),
        assumptions=(_FITS,),
        attained=Attained({**_UNEVEN, "input_tokens": [1], "output_tokens": [1], "labels": [0]}),
    ),
    Claim(
        id="batching.draft_count",
        source=Source("zhu2025edgesd", "(33), (33a) with l_max = 10 of Table II"),
        origin=Origin.PUBLISHED,
        statement="enumeration gives the fastest draft count l in 1..10, each l with its best batches",
        lhs=side(lambda tasks, service, length: plan(tasks, service, "dp", memory_rule="each").latency),
        rhs=planned("dp"),
        assumptions=(Assumption("l ≤ 10", lambda draft_length: to_numpy(draft_length) <= 10),),
        attained=Attained(_TWO),
    ),
)

CLAIMS = (*_BARRIER, *wave_claims.CLAIMS)
