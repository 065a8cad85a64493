"""Simulated instances for the claims of uncertainty and skipping that a trace cannot serve.

Draft logits have a few large entries above a broad bulk. The target model's logits differ from them by noise. Lines and
Δ are near the printed ones of cu-hlm Section III and u-hlm Section IV.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hlmtheory.claims import Instance
from hlmtheory.skipping.audit_claims import NODES
from hlmtheory.uncertainty import vocabulary_uncertainty
from hlmtheory.verification import rejection_probability, softmax

Rng = np.random.Generator
Row = np.ndarray[Any, Any]

COUNT = 500
"""Instances in a batch of scalars; a batch of vectors has a tenth of them."""

VOCABULARY, TOKENS, PROMPTS = 64, 200, 120
DRAWS = 20


# ---------------------------------------------------------------------------------------------------- uncertainty


def _logits(rng: Rng, count: int) -> Row:
    """Return logits with a broad bulk, a few larger entries and some ties, rounded to 2^-7 as in float16."""
    crowd = rng.normal(0.0, 2.5, (count, VOCABULARY))
    ahead = rng.exponential(10.0 ** rng.uniform(0.0, 2.0, (count, 1)), (count, 4))
    crowd[:, :4] += ahead * (rng.random((count, 4)) < 0.5)
    tied = rng.random(count) < 0.1
    crowd[tied, 1] = crowd[tied, 0]
    rounded: Row = np.round(128 * crowd) / 128
    return rounded


def _drawn(rng: Rng, logits: Row) -> Row:
    """Return one token per row of logits, drawn from its softmax."""
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
    """Return thresholds between grid points, and expectations at least 0.02 away from them."""
    threshold = (rng.integers(0, DRAWS, COUNT) + 0.5) / DRAWS
    beside = rng.uniform(0.02, 0.5, COUNT) * rng.choice([-1.0, 1.0], COUNT)
    expected = np.where((threshold + beside < 0) | (threshold + beside > 1), threshold - beside, threshold + beside)
    return {"expected": expected, "threshold": threshold, "error": 10.0 ** rng.uniform(-9.0, -0.5, COUNT)}


def _tokens(rng: Rng) -> dict[str, Row]:
    """Return uncertainty and β of the draft tokens of two models that differ by noise."""
    shape = (COUNT // 100, TOKENS)
    logits = _logits(rng, shape[0] * shape[1])
    draft = softmax(logits)
    target = softmax(logits + rng.normal(0.0, 1.0, logits.shape))
    token = _drawn(rng, logits)[:, None]
    u = np.take_along_axis(vocabulary_uncertainty(logits), token, axis=-1)
    beta = np.take_along_axis(rejection_probability(target, draft), token, axis=-1)
    return {"uncertainty": u.reshape(shape), "rejection_by_token": beta.reshape(shape)}


def _printed_fit(rng: Rng) -> Instance:
    """Return the printed correlation and R²."""
    return {"correlation": np.array(0.7106), "r_squared": np.array(0.9774)}


# ------------------------------------------------------------------------------------------------------- skipping


def _line(rng: Rng, count: int = COUNT) -> dict[str, Row]:
    """Return lines and Δ near the printed a = .815, b = -.066, Δ = .5956 and a = .82, b = -.06, Δ = .301."""
    return {
        "slope": rng.uniform(0.2, 1.5, count),
        "intercept": rng.uniform(-0.3, 0.2, count),
        "non_acceptance": rng.random(count),
    }


def _law(name: str, exponent: bool) -> Callable[[Rng], Instance]:
    """Return a scenario of lines and distributions of the uncertainty, mostly near 0, on 20 cells or 21 points."""

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
    """Return Markov chains on four tokens for both models; after some tokens the two distributions are equal."""
    shape = (COUNT // 10, 4, 4)
    target, draft = rng.dirichlet(np.full(4, 0.5), (2, *shape[:2]))
    alike = rng.random((*shape[:2], 1)) < 0.3
    skip = rng.random(shape) * (rng.random(shape) < 0.7)
    return {"target_chain": target, "draft_chain": np.where(alike, target, draft), "skip_chain": skip}


def _decoded(rng: Rng, draft: Row, each: bool) -> Row:
    """Return what the server decodes, near the draft distribution: one for each draft, or one for all."""
    shape = (*draft.shape[:-1], draft.shape[-1] if each else 1, draft.shape[-1])
    share = rng.random((*shape[:-1], 1)) ** 3
    mixed: Row = (1.0 - share) * draft[..., None, :] + share * rng.dirichlet(np.ones(shape[-1]), shape[:-1])
    return mixed


def _bill(each: bool = True, skipped: bool = True) -> Callable[[Rng], Instance]:
    """Return a scenario of positions with skip probabilities and decoded distributions."""

    def scenario(rng: Rng) -> Instance:
        shape = (COUNT // 10, 8)
        target, draft = rng.dirichlet(np.full(8, 0.5), (2, shape[0]))
        skip = rng.random(shape) * (rng.random(shape) < 0.5) if skipped else np.zeros(shape)
        return {"target": target, "draft": draft, "skip": skip, "decoded": _decoded(rng, draft, each)}

    return scenario


def _bill_by_deviation(rng: Rng) -> Instance:
    instance = dict(_bill()(rng))
    del instance["decoded"]
    return {**instance, "deviation": rng.random(instance["draft"].shape) ** 3}


def _bill_of_rounds(rng: Rng) -> Instance:
    return {"bills": rng.random((COUNT, 4)) ** 2, "kept": rng.random((COUNT, 4))}


def _bill_of_texts(rng: Rng) -> Instance:
    chain = _chain(rng)
    return {**chain, "decoded_chain": _decoded(rng, chain["draft_chain"], True)}


def _losses(rng: Rng) -> Instance:
    """Return the mean loss of each prompt at 20 thresholds; the 20 tokens of a prompt share one difficulty."""
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


def _loss_law(rng: Rng) -> Instance:
    """Return laws of a loss that is 0, 1/2 or 1, and the error of an interval."""
    return {"mass": rng.dirichlet(np.full(3, 0.5), COUNT), "error": 10.0 ** rng.uniform(-4.0, -0.5, COUNT)}


def _hidden_sampler(rng: np.random.Generator) -> Instance:
    """Return one-hot targets and two draft distributions; the output then follows the target for any sampler."""
    draft, actual_draft = rng.dirichlet(np.ones(4), size=(2, 100))
    return {"target": np.eye(4)[rng.integers(0, 4, 100)], "draft": draft, "actual_draft": actual_draft}


def _audit(rng: Rng) -> dict[str, Row]:
    """Return settings of an audit, one for each of COUNT/10 instances."""
    count = COUNT // 10
    return {
        "audit_probability": rng.choice([0.05, 0.1, 0.2, 0.5, 1.0], count),
        "risk": rng.uniform(0.01, 0.3, count),
        "error": rng.uniform(0.05, 0.9, count),
        "bet": rng.uniform(0.1, 0.99, count),
    }


def _audited_row(*names: str) -> Callable[[Rng], Instance]:
    """Return a scenario of rows of which the more probable drafts may be skipped, with settings of an audit."""

    def scenario(rng: Rng) -> Instance:
        settings = _audit(rng)
        target, draft = rng.dirichlet(np.full(VOCABULARY, 0.1), (2, COUNT // 10))
        skip = rng.random(draft.shape) * (draft > 0.05)
        return {"target": target, "draft": draft, "skip": skip, **{name: settings[name] for name in names}}

    return scenario


def _audited_run(*names: str, rule: str = "any") -> Callable[[Rng], Instance]:
    """Return a scenario of risks that depend on the past: any, at the limit ε, or at least ε."""

    def scenario(rng: Rng) -> Instance:
        settings = _audit(rng)
        level = settings["risk"][:, None]
        risks = rng.beta(0.3, 1.0, (len(level), NODES))
        mixed = np.where(rng.random((len(level), 1)) < 0.5, level, risks)
        bets = {"bet_by_past": rng.uniform(0.05, 0.99, risks.shape)} if "bet_by_past" in names else {}
        kept = {name: settings[name] for name in names if name in settings}
        return {"risks": np.maximum(mixed, level) if rule == "every" else mixed, **kept, **bets}

    return scenario


def _confident(rng: Rng) -> Instance:
    """Return kinds of prompts with losses at two thresholds; risks near the mean loss of one of them."""
    count, kinds = COUNT // 10, 3
    losses = rng.beta(0.5, 1.0, (count, kinds, 2)).cumsum(axis=-1) / 2.0
    mass = rng.dirichlet(np.ones(kinds), count)
    risk = np.clip((mass[..., None] * losses).sum(axis=1)[:, 0] * rng.uniform(0.5, 1.5, count), 0.01, 0.99)
    return {
        "mass": mass,
        "losses": losses,
        "risk": risk,
        "error": rng.uniform(0.05, 0.9, count),
        "bet": rng.uniform(0.1, 0.99, count),
    }


_RUN = ("audit_probability", "risk", "error")


def _constant_rate(rng: Rng) -> Instance:
    """Return acceptance rates and errors of their intervals."""
    return {"acceptance": rng.uniform(0.05, 0.95, COUNT // 10), "error": rng.uniform(0.05, 0.9, COUNT // 10)}


def _interval_errors(rng: Rng) -> Instance:
    """Return errors of intervals, few because each takes a dynamic programme."""
    return {"error": rng.uniform(0.05, 0.9, 5)}


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
    "skipping.text_risk": _loss_law,
    "skipping.sequence_draft": _chain,
    "skipping.bill": _bill(),
    "skipping.bill_exact": _bill(each=False, skipped=False),
    "skipping.bill_half": _bill(each=False),
    "skipping.bill_converse": _bill(),
    "skipping.bill_deviation": _bill(),
    "skipping.bill_largest": _bill_by_deviation,
    "skipping.bill_device": _bill(),
    "skipping.bill_joint": _bill(),
    "skipping.bill_mean": _bill(),
    "skipping.bill_plain": _bill(),
    "skipping.bill_round": _bill_of_rounds,
    "skipping.bill_text": _bill_of_texts,
    "skipping.calibrated": _losses,
    "skipping.audit_step": _audited_row("audit_probability", "risk", "bet"),
    "skipping.audit_every": _audited_run(*_RUN, "bet_by_past", rule="every"),
    "skipping.audit_mean": _audited_run(*_RUN, "bet"),
    "skipping.audit_weighted": _audited_run(*_RUN, "bet_by_past"),
    "skipping.audit_predictable": _audited_run(*_RUN, "bet_by_past"),
    "skipping.audit_bound": _audited_run("audit_probability", "error", "bet"),
    "skipping.audit_fewest": _audit,
    "skipping.confident": _confident,
    "skipping.audit_law": _audited_row("audit_probability"),
    "verification.interval_constant": _constant_rate,
    "verification.interval_varying": _interval_errors,
    "verification.interval_running": _interval_errors,
    "verification.misdeclared_converse": _hidden_sampler,
}
"""Generator of a batch of instances, by claim id."""
