"""Simulated instances for the claims of truncation on several tokens jointly, or on every k.

Draft distributions are softmaxes of normal logits. The target's logits are the draft's plus noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.verification import softmax

SIZE = 4
"""Instances in a batch."""

TOKENS, VOCABULARY = 6, 32

Instance = dict[str, Any]


def _pairs(rng: np.random.Generator, *shape: int, vocabulary: int = VOCABULARY) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return target and draft distributions."""
    logits = rng.normal(scale=rng.choice([1.0, 3.0]), size=(*shape, vocabulary))
    return softmax(logits + rng.normal(scale=0.5, size=logits.shape)), softmax(logits)


def _with_tolerance(rng: np.random.Generator) -> Instance:
    target, draft = _pairs(rng, SIZE)
    return {"target": target, "draft": draft, "distortion_tolerance": rng.uniform(0.01, 0.3, SIZE)}


def _many_with_tolerance(rng: np.random.Generator) -> Instance:
    targets, drafts = _pairs(rng, SIZE, TOKENS)
    return {"targets": targets, "drafts": drafts, "distortion_tolerance": rng.uniform(0.01, 0.5, SIZE)}


def _rows_with_sizes(rng: np.random.Generator) -> Instance:
    """Return draft distributions and a competing allocation of top_k, mostly small."""
    _, drafts = _pairs(rng, SIZE, TOKENS)
    return {"drafts": drafts, "top_k": np.floor(VOCABULARY ** rng.random((SIZE, TOKENS))).astype(np.int64) - 1}


def _wide(rng: np.random.Generator) -> Instance:
    """Return draft distributions over 1,024 tokens, and k."""
    _, draft = _pairs(rng, SIZE, vocabulary=1024)
    return {"draft": draft, "k": np.floor(1024 ** rng.random(SIZE)).astype(np.int64) - 1}


def _drawn(rng: np.random.Generator) -> Instance:
    """Return a pair, a draft token among the 8 likeliest, and a k above the token's rank."""
    target, draft = _pairs(rng, SIZE, vocabulary=1024)
    rank = rng.integers(0, 8, SIZE)
    token = np.take_along_axis(np.argsort(-draft, axis=-1), rank[:, None], axis=-1)[:, 0]
    return {"target": target, "draft": draft, "token": token, "k": rank + rng.integers(1, 64, SIZE)}


def _quantised(rng: np.random.Generator) -> Instance:
    """Return a pair, and half a step of the quantiser of its log-probabilities."""
    target, draft = _pairs(rng, SIZE, vocabulary=1024)
    return {"target": target, "draft": draft, "error": rng.choice([1e-4, 1e-2, 0.1], SIZE)}


def _quantised_and_sent(rng: np.random.Generator) -> Instance:
    """Return a pair, half a step of its quantiser, and k."""
    return _quantised(rng) | {"k": np.floor(1024 ** rng.random(SIZE)).astype(np.int64) - 1}


def _quantised_draft(rng: np.random.Generator) -> Instance:
    return {name: value for name, value in _quantised_and_sent(rng).items() if name != "target"}


def _row(rng: np.random.Generator) -> Instance:
    return {"draft": _wide(rng)["draft"]}


def _reconstructed(rng: np.random.Generator) -> Instance:
    """Return a pair, and for each draft token the draft distribution with a share of another distribution."""
    target, draft = _pairs(rng, SIZE)
    _, other = _pairs(rng, SIZE, VOCABULARY)
    share = 10.0 ** rng.uniform(-4, 0, (SIZE, VOCABULARY, 1))
    return {"target": target, "draft": draft, "decoded": (1.0 - share) * draft[:, None] + share * other}


INSTANCES: dict[str, Callable[[np.random.Generator], Instance]] = {
    "truncation.exact": _with_tolerance,
    "truncation.exact_least": _with_tolerance,
    "truncation.offline": _many_with_tolerance,
    "truncation.offline_least": _many_with_tolerance,
    "truncation.any_codec": _reconstructed,
    "truncation.any_codec_mean": _reconstructed,
    "truncation.any_codec_decoded": _reconstructed,
    "truncation.dual": _rows_with_sizes,
    "truncation.dual_bound": _rows_with_sizes,
    "truncation.dual_gap": _rows_with_sizes,
    "truncation.distance_pinsker": _wide,
    "truncation.distance_bretagnolle_huber": _wide,
    "truncation.distance_wasserstein": _wide,
    "truncation.rules_top_p": _wide,
    "truncation.rules_min_p": _wide,
    "truncation.size_least": _row,
    "truncation.online_direction_worst": _drawn,
    "truncation.partial_box": _quantised,
    "truncation.partial_box_least": _quantised,
    "truncation.partial_box_attained": _quantised,
    "truncation.partial_box_deviation": _quantised_draft,
    "truncation.partial_box_deviation_least": _quantised_draft,
    "truncation.partial_box_bias": _quantised_and_sent,
    "truncation.partial_box_bias_least": _quantised_and_sent,
}
"""Generator of a batch of instances, by claim id."""
