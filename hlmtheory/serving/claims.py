"""Claims of the module, each with its proof above its record."""

from __future__ import annotations

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import numbers
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.serving import goodput_claims, schedule_claims
from hlmtheory.serving.costs import memory_bytes, operations
from hlmtheory.serving.pipeline import recurrence, stage_pair
from hlmtheory.serving.shapes import BYTES, LENGTH, POSITIVE_COUNT

# Proofs, by the last part of the id.
#
# cost. A product of an a×b and a b×c matrix takes 2abc operations. For t new tokens after c cached ones a block
#   makes t queries, keys and values and projects t outputs (8 t h₁²), compares t queries with c + t keys and mixes c +
#   t values (4 t (c + t) h₁), and passes t tokens through h₁ → h₂ → h₁ (4 t h₁ h₂).
# memory. Four h₁×h₁ and two h₁×h₂ matrices a block; one key and one value of size h₁ a token and block; 2 bytes each.
# pipeline. Unrolled, the recurrence takes the longest of the M paths through the two rows of the schedule: drafts
#   1..k, then verifications k..M.


def _product(rows: Array, inner: Array, columns: Array) -> Array:
    return 2.0 * rows * inner * columns


def _model(model: Array) -> tuple[Array, Array, Array]:
    shape = numbers(POSITIVE_COUNT, "model", model)
    return shape[..., 0], shape[..., 1], shape[..., 2]


def _counted_flops(model: Array, new_tokens: Array, cached_tokens: Array) -> Array:
    """Return the number of operations, counted matrix by matrix."""
    (layers, hidden, wide), t = _model(model), numbers(LENGTH, "new_tokens", new_tokens)
    context = numbers(LENGTH, "cached_tokens", cached_tokens) + t
    attention = 4 * _product(t, hidden, hidden) + _product(t, hidden, context) + _product(t, context, hidden)
    return layers * (attention + _product(t, hidden, wide) + _product(t, wide, hidden))


def _formula_flops(model: Array, new_tokens: Array, cached_tokens: Array) -> Array:
    new, cached = numbers(LENGTH, "new_tokens", new_tokens), numbers(LENGTH, "cached_tokens", cached_tokens)
    return operations(*_model(model), new, cached)


def _counted_memory(model: Array, input_tokens: Array, output_tokens: Array, batch_size: Array) -> Array:
    """Return the memory, counted matrix by matrix for the weights and token by token for the cache."""
    layers, hidden, wide = _model(model)
    tokens = numbers(POSITIVE_COUNT, "input_tokens", input_tokens) + numbers(
        POSITIVE_COUNT, "output_tokens", output_tokens
    )
    cached = 2 * hidden * tokens * numbers(POSITIVE_COUNT, "batch_size", batch_size)
    return BYTES * layers * (4 * hidden * hidden + hidden * wide + wide * hidden + cached)


def _formula_memory(model: Array, input_tokens: Array, output_tokens: Array, batch_size: Array) -> Array:
    tokens = numbers(POSITIVE_COUNT, "input_tokens", input_tokens) + numbers(
        POSITIVE_COUNT, "output_tokens", output_tokens
    )
    return memory_bytes(*_model(model), tokens, numbers(POSITIVE_COUNT, "batch_size", batch_size))


def _last_finish(draft_times: Array, verify_times: Array) -> Array:
    return recurrence(*stage_pair("draft_times", draft_times, "verify_times", verify_times))


def _longest_path(draft_times: Array, verify_times: Array) -> Array:
    d, v = stage_pair("draft_times", draft_times, "verify_times", verify_times)
    paths = np.cumsum(d, axis=-1) + np.cumsum(v[..., ::-1], axis=-1)[..., ::-1]
    return np.max(paths, axis=-1, initial=0.0)


_PAIR = {"draft_times": [2.0, 3.0], "verify_times": [4.0, 1.0]}

_COSTS = (
    Claim(
        id="serving.cost",
        source=Source("zhu2025edgesd", "(11)-(14)"),
        origin=Origin.PUBLISHED,
        statement="operations of all matrix products = 4 J h₁ t (2 h₁ + h₂ + c + t), t tokens after c cached ones",
        relation=Relation.EQ,
        lhs=_counted_flops,
        rhs=_formula_flops,
        attained=Attained({"model": [1, 2, 3], "new_tokens": 5.0, "cached_tokens": 10.0}),
    ),
    Claim(
        id="serving.memory",
        source=Source("zhu2025edgesd", "(9), (10), (24b)"),
        origin=Origin.PUBLISHED,
        statement="bytes of all matrices and of the cache = J (8 h₁² + 4 h₁ h₂) + 4 J h₁ (I + O) b",
        relation=Relation.EQ,
        lhs=_counted_memory,
        rhs=_formula_memory,
        attained=Attained({"model": [1, 2, 3], "input_tokens": 5, "output_tokens": 10, "batch_size": 2}),
    ),
    Claim(
        id="serving.pipeline",
        source=Source("zhu2025edgesd", "(20), (21)"),
        statement="C_m = max(Σ_{i≤m} d_i, C_{m−1}) + v_m gives C_M = max_k (Σ_{i≤k} d_i + Σ_{i≥k} v_i)",
        relation=Relation.EQ,
        lhs=_last_finish,
        rhs=_longest_path,
        attained=Attained(_PAIR),
    ),
)

CLAIMS = (*_COSTS, *schedule_claims.CLAIMS, *goodput_claims.CLAIMS)
