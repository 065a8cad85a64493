"""Simulated instances for the claims of lattice, codec and conformal: c-sqs's settings on realistic distributions.

c-sqs (bhattacharjee2025csqs), Section 4: a budget of 5,000 bits per batch, ℓ = 100, η = .001, ε = .0005.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hlmtheory.lattice import payload_bits

VOCABULARY = 256
SIZE = 8
"""Size of the vocabulary, and instances in a batch."""

RESOLUTION, BUDGET, RATE, TARGET = 100, 5000.0, 0.001, 0.0005

Instance = dict[str, Any]


def _rows(rng: np.random.Generator, *shape: int, vocabulary: int = VOCABULARY) -> np.ndarray[Any, Any]:
    """Return positive distributions, from nearly one-hot to nearly uniform."""
    flatness = rng.choice([0.02, 0.1, 1.0], size=(*shape, 1))
    weights = rng.gamma(flatness, size=(*shape, vocabulary)) + 1e-12
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _sizes(rng: np.random.Generator, vocabulary: int = VOCABULARY) -> np.ndarray[Any, Any]:
    """Return K, log-uniform on 1..V."""
    return np.floor((vocabulary + 1.0) ** rng.random(SIZE)).astype(np.int64)


def _resolutions(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    return np.where(rng.random(SIZE) < 0.25, RESOLUTION, np.floor(10.0 ** (4 * rng.random(SIZE)))).astype(np.int64)


def _quantised(rng: np.random.Generator) -> Instance:
    return {"draft": _rows(rng, SIZE), "k": _sizes(rng), "resolution": _resolutions(rng)}


def _pair(rng: np.random.Generator) -> Instance:
    """Return target and draft distributions on a vocabulary where K may exceed 4ℓ."""
    rows = {name: _rows(rng, SIZE, vocabulary=16 * RESOLUTION) for name in ("target", "draft")}
    return {**rows, "k": _sizes(rng, 16 * RESOLUTION)}


def _competing(rng: np.random.Generator) -> Instance:
    """Return competing counts on the K largest entries, sampled as by a Monte Carlo quantiser."""
    draft, k = _rows(rng, SIZE), _sizes(rng)
    rank = np.argsort(np.argsort(-draft, axis=-1), axis=-1)
    kept = np.where(rank < k[:, None], draft, 0.0)
    return {"draft": draft, "k": k, "counts": rng.multinomial(RESOLUTION, kept / kept.sum(axis=-1, keepdims=True))}


def _payload(rng: np.random.Generator) -> Instance:
    vocabulary = np.floor(10.0 ** rng.uniform(1, 5.2, SIZE)).astype(np.int64)
    k = np.minimum(vocabulary, np.floor(2000.0 ** rng.random(SIZE)).astype(np.int64))
    return {"vocabulary": vocabulary, "k": k, "resolution": _resolutions(rng)}


def _tree(rng: np.random.Generator) -> Instance:
    """Return distributions at all nodes of the tree of sequences of four tokens over three symbols."""
    nodes = 1 + 3 + 9 + 27
    return {
        "targets": _rows(rng, SIZE, nodes, vocabulary=3),
        "drafts": _rows(rng, SIZE, nodes, vocabulary=3),
        "k": rng.integers(1, 4, SIZE),
        "resolution": rng.integers(1, RESOLUTION + 1, SIZE),
        "draft_length": rng.integers(1, 5, SIZE),
    }


def _budgets(rng: np.random.Generator) -> Instance:
    """Return a share of the paper's budget for each draft token of a batch."""
    return {"draft": _rows(rng, SIZE), "budget_bits": BUDGET / rng.integers(1, 101, SIZE)}


def _allocated(rng: np.random.Generator) -> Instance:
    """Return competing K and ℓ; at least half of them fit their budget."""
    case = {**_budgets(rng), "k": _sizes(rng), "resolution": _resolutions(rng)}
    bits = payload_bits(VOCABULARY, case["k"], case["resolution"], adaptive=True) * rng.uniform(1.0, 1.5, SIZE)
    return {**case, "budget_bits": np.where(np.arange(SIZE) % 2 == 0, bits, case["budget_bits"])}


def _settings(rng: np.random.Generator) -> Instance:
    """Return the paper's setting, and others up to four orders of magnitude away."""
    paper = rng.random(SIZE) < 0.25
    return {
        "epsilon": np.where(paper, TARGET, 10.0 ** rng.uniform(-3.5, -0.1, SIZE)),
        "learning_rate": np.where(paper, RATE, 10.0 ** rng.uniform(-3, 1, SIZE)),
        "threshold": np.where(rng.random(SIZE) < 0.5, 0.0, rng.uniform(0.0, 0.5, SIZE)),
    }


def _text(rng: np.random.Generator, steps: int = 64) -> np.ndarray[Any, Any]:
    """Return the distributions along a sequence; in its second half each is repeated four times."""
    return np.concatenate([_rows(rng, SIZE, steps // 2), np.repeat(_rows(rng, SIZE, steps // 8), 4, axis=1)], axis=1)


def _run(rng: np.random.Generator) -> Instance:
    return {"drafts": _text(rng), **_settings(rng)}


def _windows(rng: np.random.Generator) -> Instance:
    return {**_run(rng), "steps": rng.integers(1, 65, SIZE)}


def _batches(rng: np.random.Generator) -> Instance:
    """Return sixteen batches of four draft tokens."""
    drafts = _text(rng).reshape(SIZE, 16, 4, VOCABULARY)
    return {"drafts": drafts, "accepted": rng.integers(0, 5, (SIZE, 16)), **_settings(rng)}


def _scaled(rng: np.random.Generator) -> Instance:
    """Return η and ε that decrease as 1/√T from the paper's values; d < √T = 8."""
    setting = _settings(rng)
    scales = {"target_scale": 8.0 * setting["epsilon"], "learning_scale": 8.0 * setting["learning_rate"]}
    return {"drafts": _text(rng), "threshold": setting["threshold"], **scales}


def _message(rng: np.random.Generator) -> Instance:
    """Return counts of the K largest entries, and a token drawn from them."""
    draft, k = _rows(rng, SIZE), _sizes(rng)
    support = np.argsort(np.argsort(-draft, axis=-1), axis=-1) < k[:, None]
    kept = np.where(support, draft, 0.0)
    law = kept / kept.sum(axis=-1, keepdims=True)
    counts = rng.multinomial(RESOLUTION, law)
    token = np.asarray([rng.choice(VOCABULARY, p=row / RESOLUTION) for row in counts])
    return {"counts": counts, "support": support, "token": token}


def _drawn(rng: np.random.Generator) -> Instance:
    """Return draft distributions, tokens drawn from them, and K."""
    draft = _rows(rng, SIZE)
    return {"draft": draft, "token": [rng.choice(VOCABULARY, p=row) for row in draft], "k": _sizes(rng)}


def _budgeted(rng: np.random.Generator) -> Instance:
    return {"drafts": _text(rng), "epsilon": _settings(rng)["epsilon"]}


def _budgeted_windows(rng: np.random.Generator) -> Instance:
    """Return windows, and a limit of 1 to 100 times ε."""
    case = {**_budgeted(rng), "steps": rng.integers(1, 65, SIZE), "threshold": _settings(rng)["threshold"]}
    return {**case, "limit": case["epsilon"] * 10.0 ** rng.uniform(0, 2, SIZE)}


def _dropped_by_chance(rng: np.random.Generator, drafts: np.ndarray[Any, Any], most: Any) -> np.ndarray[Any, Any]:
    """Return supports that drop tokens in a random order while their mass is within ``most``; one token is kept."""
    order = np.argsort(rng.random(drafts.shape), axis=-1)
    mass = np.cumsum(np.take_along_axis(drafts, order, axis=-1), axis=-1)
    kept = (mass > np.asarray(most)[..., None]) | (np.arange(drafts.shape[-1]) == drafts.shape[-1] - 1)
    support = np.empty(drafts.shape, dtype=bool)
    np.put_along_axis(support, order, kept, axis=-1)
    return support


def _last_support(rng: np.random.Generator) -> Instance:
    """Return another support of the last distribution, which drops up to ε."""
    case = _budgeted(rng)
    return {**case, "support": _dropped_by_chance(rng, case["drafts"][:, -1], 0.99 * case["epsilon"])}


def _other_supports(rng: np.random.Generator) -> Instance:
    """Return other supports of all distributions, each of which drops up to ε."""
    case = _budgeted(rng)
    return {**case, "supports": _dropped_by_chance(rng, case["drafts"], 0.99 * case["epsilon"][:, None])}


def _priced(rng: np.random.Generator) -> Instance:
    """Return supports of a fixed threshold for half of the instances, and other ones."""
    case = _other_supports(rng)
    tau = 10.0 ** rng.uniform(-4, -1, SIZE)
    fixed = case["drafts"] >= tau[:, None, None]
    fixed |= case["drafts"] == case["drafts"].max(axis=-1, keepdims=True)
    some = (np.arange(SIZE) % 2 == 0)[:, None, None]
    return {"drafts": case["drafts"], "supports": np.where(some, fixed, case["supports"]), "threshold": tau}


def _budgeted_batches(rng: np.random.Generator) -> Instance:
    case = _batches(rng)
    return {name: case[name] for name in ("drafts", "accepted", "epsilon")}


def _within(rng: np.random.Generator) -> Instance:
    """Return draft distributions, tokens drawn from them, and tolerances of the certified bias."""
    draft = _rows(rng, SIZE)
    token = [rng.choice(VOCABULARY, p=row) for row in draft]
    return {"draft": draft, "token": token, "bias_tolerance": 10.0 ** rng.uniform(-2, 0, SIZE)}


def _competing_codecs(rng: np.random.Generator) -> Instance:
    """Return draft distributions, tolerances, and the sizes and resolutions of competing codecs."""
    numbers = {name: rng.integers(1, 17, SIZE) for name in ("k", "resolution", "width")}
    return {"draft": _rows(rng, SIZE), "bias_tolerance": 10.0 ** rng.uniform(-1, 0.3, SIZE), **numbers}


def _choices(rng: np.random.Generator) -> Instance:
    """Return four choices for each of four positions, the cheaper the more biased, and a budget for the sum."""
    bias = np.sort(10.0 ** rng.uniform(-3, 0.3, (SIZE, 4, 4)))
    bits = np.round(rng.uniform(1, 40, (SIZE, 4, 1)) / bias ** rng.uniform(0.2, 1.0, (SIZE, 4, 1)))
    least = bias.min(axis=-1).sum(axis=-1)
    return {"bits": bits, "bias": bias, "bias_budget": least * 10.0 ** rng.uniform(0, 1, SIZE) + 1e-9}


INSTANCES: dict[str, Callable[[np.random.Generator], Instance]] = {
    "lattice.quantize": _quantised,
    "lattice.quantize_printed": _quantised,
    "lattice.nearest": _competing,
    "lattice.distortion": _quantised,
    "lattice.distortion_sharp": _quantised,
    "lattice.bits": _payload,
    "lattice.informative": _pair,
    "lattice.misdeclared": _pair,
    "lattice.rejections": _tree,
    "lattice.rejections_sharp": _tree,
    "lattice.allocate": _allocated,
    "lattice.allocate_fits": _budgets,
    "codec.enumerative": _message,
    "codec.round_trip": _message,
    "codec.certificate": _drawn,
    "codec.cheapest_certificate": _within,
    "codec.message_bytes": _within,
    "codec.cheapest": _competing_codecs,
    "codec.text_bound": _choices,
    "codec.text_plan": _choices,
    "codec.text_gap": _choices,
    "conformal.update": _batches,
    "conformal.telescope": _run,
    "conformal.telescope_printed": _run,
    "conformal.resampled": _batches,
    "conformal.accepted": _batches,
    "conformal.kept": _batches,
    "conformal.regret": _run,
    "conformal.regret_proof": _run,
    "conformal.regret_small_step": _run,
    "conformal.regret_sharp": _run,
    "conformal.regret_vocabulary": _run,
    "conformal.iterates": _run,
    "conformal.iterates_upper": _run,
    "conformal.rate": _scaled,
    "conformal.clipped": _run,
    "conformal.clipped_regret": _run,
    "conformal.clipped_update": _batches,
    "conformal.clipped_kept": _batches,
    "conformal.clipped_iterates": _run,
    "conformal.window": _windows,
    "conformal.window_unclipped": _windows,
    "conformal.budget": _budgeted,
    "conformal.budget_window": _budgeted_windows,
    "conformal.budget_smallest": _last_support,
    "conformal.budget_drops": _last_support,
    "conformal.budget_total": _other_supports,
    "conformal.hindsight": _priced,
    "conformal.budget_update": _budgeted_batches,
    "conformal.budget_kept": _budgeted_batches,
}
"""Generator of a batch of instances, by claim id."""
