"""Uncertainties, lines, texts and prompts as they may occur: random instances for the claims of uncertainty, skipping.

All simulated, where a trace offers no such arrays. Logits as a draft model's, a few entries ahead of a broad crowd; a
target model that differs from it by noise; lines and Δ about the printed ones of cu-hlm Section III and u-hlm
Section IV.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hlmtheory.claims import Instance
from hlmtheory.uncertainty import vocabulary_uncertainty
from hlmtheory.verification import rejection_probability, softmax

Rng = np.random.Generator
Row = np.ndarray[Any, Any]

COUNT = 500
"""Instances in a batch of numbers; a tenth of it in a batch of rows."""

VOCABULARY, TOKENS, PROMPTS = 64, 200, 120
DRAWS = 20


# ---------------------------------------------------------------------------------------------------- uncertainty


def _logits(rng: Rng, count: int) -> Row:
    """A crowd, a few entries ahead of it by 1 to 100, ties now and then: in steps of 2^-7, as float16 stores them."""
    crowd = rng.normal(0.0, 2.5, (count, VOCABULARY))
    ahead = rng.exponential(10.0 ** rng.uniform(0.0, 2.0, (count, 1)), (count, 4))
    crowd[:, :4] += ahead * (rng.random((count, 4)) < 0.5)
    tied = rng.random(count) < 0.1
    crowd[tied, 1] = crowd[tied, 0]
    rounded: Row = np.round(128 * crowd) / 128
    return rounded


def _drawn(rng: Rng, logits: Row) -> Row:
    """A token of each row, from its softmax."""
    below = np.cumsum(softmax(logits), axis=-1) < rng.random((*logits.shape[:-1], 1))
    token: Row = np.minimum(np.count_nonzero(below, axis=-1), VOCABULARY - 1)
    return token


def _perturbed(rng: Rng) -> Instance:
    logits = _logits(rng, COUNT // 10)
    return {
        "logits": logits,
        "token": _drawn(rng, logits),
        "temperatures": 2.0 * (1.0 - rng.random((len(logits), DRAWS))),
    }


def _one_token(rng: Rng) -> Instance:
    logits = _logits(rng, COUNT // 10)
    return {"logits": logits, "token": _drawn(rng, logits)}


def _decision(rng: Rng) -> Instance:
    return {
        "expected": rng.random(COUNT),
        "threshold": rng.integers(-1, DRAWS + 2, COUNT) / DRAWS,
        "draws": rng.integers(1, 3 * DRAWS, COUNT),
    }


def _wanted(rng: Rng) -> Instance:
    """A threshold between the points, and an expectation 0.02 or more beside it."""
    threshold = (rng.integers(0, DRAWS, COUNT) + 0.5) / DRAWS
    beside = rng.uniform(0.02, 0.5, COUNT) * rng.choice([-1.0, 1.0], COUNT)
    expected = np.where((threshold + beside < 0) | (threshold + beside > 1), threshold - beside, threshold + beside)
    return {"expected": expected, "threshold": threshold, "error": 10.0 ** rng.uniform(-9.0, -0.5, COUNT)}


def _tokens(rng: Rng) -> dict[str, Row]:
    """Uncertainty and β of the drafts of two models that differ by noise."""
    shape = (COUNT // 100, TOKENS)
    logits = _logits(rng, shape[0] * shape[1])
    draft = softmax(logits)
    target = softmax(logits + rng.normal(0.0, 1.0, logits.shape))
    token = _drawn(rng, logits)[:, None]
    u = np.take_along_axis(vocabulary_uncertainty(logits), token, axis=-1)
    beta = np.take_along_axis(rejection_probability(target, draft), token, axis=-1)
    return {"uncertainty": u.reshape(shape), "rejection_by_token": beta.reshape(shape)}


def _printed_fit(rng: Rng) -> Instance:
    """The printed pair."""
    return {"correlation": np.array(0.7106), "r_squared": np.array(0.9774)}


# ------------------------------------------------------------------------------------------------------- skipping


def _line(rng: Rng, count: int = COUNT) -> dict[str, Row]:
    """About the printed a = .815, b = -.066, Δ = .5956 and a = .82, b = -.06, Δ = .301."""
    return {
        "slope": rng.uniform(0.2, 1.5, count),
        "intercept": rng.uniform(-0.3, 0.2, count),
        "non_acceptance": rng.random(count),
    }


def _law(name: str, exponent: bool) -> Callable[[Rng], Instance]:
    """A line and a law of the uncertainty on 20 cells or 21 points: most of it near 0, some at 1."""

    def scenario(rng: Rng) -> Instance:
        count = COUNT // 10
        size = DRAWS + (name == "mass")
        weights = np.exp(-0.3 * np.arange(size)) + 0.3 * (np.arange(size) == size - 1)
        mass = rng.dirichlet(weights, count)
        exponents = rng.choice([1.0, 1.5, 2.0, 4.0, np.inf], count)
        return {name: mass, **_line(rng, count), **({"exponent": exponents} if exponent else {})}

    return scenario


def _tokens_and_line(rng: Rng) -> Instance:
    return {**_tokens(rng), **_line(rng, COUNT // 100)}


def _chain(rng: Rng) -> Instance:
    """Four tokens, a row of both models after each; they agree after some."""
    shape = (COUNT // 10, 4, 4)
    target, draft = rng.dirichlet(np.full(4, 0.5), (2, *shape[:2]))
    alike = rng.random((*shape[:2], 1)) < 0.3
    skip = rng.random(shape) * (rng.random(shape) < 0.7)
    return {"target_chain": target, "draft_chain": np.where(alike, target, draft), "skip_chain": skip}


def _losses(rng: Rng) -> Instance:
    """Prompts of 20 tokens of one difficulty each: the mean loss of a prompt at 20 thresholds."""
    shape = (COUNT // 100, PROMPTS, 20)
    difficulty = rng.beta(0.5, 3.0, (*shape[:2], 1))
    u = np.clip(difficulty + rng.normal(0.0, 0.2, shape), 0.0, 1.0)
    beta = rng.random(shape) * u
    skipped = u[..., None, :] <= np.arange(1, 21)[:, None] / 20
    losses = np.sum(skipped * beta[..., None, :], axis=-1) / shape[-1]
    return {
        "losses": np.maximum.accumulate(losses, axis=-1),
        "risk": rng.uniform(0.01, 0.1, shape[0]),
        "bound": np.ones(shape[0]),
    }


def _hidden_sampler(rng: np.random.Generator) -> Instance:
    """One-hot targets, and two draft distributions: the law of the output is the target whatever is drawn from."""
    draft, actual_draft = rng.dirichlet(np.ones(4), size=(2, 100))
    return {"target": np.eye(4)[rng.integers(0, 4, 100)], "draft": draft, "actual_draft": actual_draft}


INSTANCES: dict[str, Callable[[Rng], Instance]] = {
    "uncertainty.sampled": _perturbed,
    "uncertainty.printed_temperature": _perturbed,
    "uncertainty.expected": _one_token,
    "uncertainty.quick_rule": _one_token,
    "uncertainty.stated_error": _one_token,
    "uncertainty.vocabulary": _one_token,
    "uncertainty.noise": _decision,
    "uncertainty.draws": _wanted,
    "uncertainty.linear": _tokens,
    "uncertainty.printed_fit": _printed_fit,
    "skipping.threshold": _line,
    "skipping.averse_threshold": _line,
    "skipping.holder": _law("density", exponent=False),
    "skipping.holder_exponent": _law("density", exponent=True),
    "skipping.holder_discrete": _law("mass", exponent=True),
    "skipping.holder_unsaid": _law("mass", exponent=False),
    "skipping.best_holder": _law("density", exponent=True),
    "skipping.surrogate": _tokens,
    "skipping.surrogate_gap": _tokens_and_line,
    "skipping.sequence": _chain,
    "skipping.sequence_system": _chain,
    "skipping.overlap": _chain,
    "skipping.overlap_sum": _chain,
    "skipping.overlap_mean": _chain,
    "skipping.sequence_draft": _chain,
    "skipping.calibrated": _losses,
    "verification.misdeclared_converse": _hidden_sampler,
}
"""By claim id, what makes a batch of instances."""
