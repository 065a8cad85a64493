"""CU-HLM on six tokens: the exact law of its texts with truncated distributions, against the algorithm by hand.

For each prefix, the method decides for all drafts together which are skipped and which distributions the server
decodes. This gives the law. The loop then writes every text, from the random numbers that lead to it, so that its own
law is tested too.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import hlmtheory
from hlmtheory.truncation import certified_size
from tests.validation.tiny_texts import Grid, distance, exact_law, nodes, table_pair
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.single_draft import CuHlm, CuHlmCertified, CuHlmOffline, CuHlmOnline
from validation.decoding.random_streams import ACCEPT, DRAFT, PURPOSES, REPLACE, Noise
from validation.decoding.session import Session, Step

V, POSITIONS = 6, 2
BIAS, OFFLINE = 0.09, 2
ONLINE: dict[str, Any] = {
    "slope": 0.8,
    "intercept": -0.05,
    "distortion_tolerance": 0.22,
    "sharpness": 1.0,
    "draws": None,
}
Law = dict[tuple[int, ...], float]


def tables() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    shapes = [[0.40, 0.27, 0.15, 0.10, 0.05, 0.03], [0.46, 0.22, 0.14, 0.10, 0.05, 0.03]]
    shapes += [[0.36, 0.22, 0.20, 0.13, 0.06, 0.03]]
    draft = np.array([rng.permutation(shapes[i % 3]) for i in range(nodes(V, POSITIONS))])
    target, rows, order = draft.copy(), np.arange(len(draft)), draft.argsort(axis=1)
    for rank, mass in ((-1, -0.30), (-2, -0.05), (1, -0.02), (0, 0.37)):
        target[rows, order[:, rank]] += mass
    return draft, target


def asked(method: CuHlm, q: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    rows = torch.from_numpy(np.tile(q, (V, 1)))
    none = np.zeros(V, dtype=np.int64)
    step = Step(none, none, rows.log(), rows, np.ones(V, dtype=bool))
    tokens = np.arange(V)
    skip = method.skip(step, tokens)
    known, _ = method.server_distributions(step, tokens, skip)
    return skip, [None if row is None else row.numpy() for row in known]


Branch = tuple[dict[int, float], int, float]


def branches(method: CuHlm, q: np.ndarray, p: np.ndarray) -> Iterator[Branch]:
    skip, known = asked(method, q)
    for d in range(V):
        numbers = {DRAFT: float(q[:d].sum() + q[d] / 2)}
        if skip[d]:
            yield numbers, d, float(q[d])
            continue
        accept = min(1.0, p[d] / q[d])
        yield numbers | {ACCEPT: accept / 2}, d, float(q[d] * accept)
        left = np.maximum(p - known[d], 0.0)
        left /= left.sum()
        for token in np.flatnonzero(left) if accept < 1 else ():
            middle = float(left[:token].sum() + left[token] / 2)
            weight = float(q[d] * (1 - accept) * left[token])
            yield numbers | {ACCEPT: (1 + accept) / 2, REPLACE: middle}, int(token), weight


def begun(method: CuHlm, draft: np.ndarray, target: np.ndarray) -> Any:
    pair = table_pair(draft, target)
    method.begin(Session(pair, V, Noise(0, ["0"], POSITIONS), None, 1.0, 1.0, POSITIONS))
    return pair


def law_of_tokens(method: CuHlm, q: np.ndarray, p: np.ndarray) -> np.ndarray:
    law = np.zeros(V)
    for _, token, weight in branches(method, q, p):
        law[token] += weight
    return law


def law_of_texts(method: CuHlm, draft: np.ndarray, target: np.ndarray) -> Law:
    begun(method, draft, target)
    first = law_of_tokens(method, draft[0], target[0])
    then = [law_of_tokens(method, draft[1 + token], target[1 + token]) for token in range(V)]
    return {(a, b): float(first[a] * then[a][b]) for a in range(V) for b in range(V)}


def law_and_risk(method: CuHlm, draft: np.ndarray, target: np.ndarray) -> tuple[Law, float, float]:
    pair = begun(method, draft, target)
    texts = []
    for first, a, weight in list(branches(method, draft[0], target[0])):
        for second, b, more in branches(method, draft[1 + a], target[1 + a]):
            texts.append(((first, second), (a, b), weight * more))
    table = np.full((len(texts), POSITIONS + 1, PURPOSES), 0.5)
    for i, (numbers, _, _) in enumerate(texts):
        for place, chosen in enumerate(numbers):
            for purpose, number in chosen.items():
                table[i, place, purpose] = number
    prompts = [Prompt(str(i), "0", "branch") for i in range(len(texts))]
    settings: dict[str, Any] = {"new_tokens": POSITIONS, "batch": len(texts), "risk": True}
    rows = decode(pair, prompts, method, noise=lambda seed, names, count: Grid(table), **settings)
    law: Law = {}
    for (numbers, text, weight), row in zip(texts, rows, strict=True):
        assert tuple(row.tokens) == text
        assert row.total("skipped") == sum(ACCEPT not in chosen for chosen in numbers)
        assert row.total("resampled") == sum(REPLACE in chosen for chosen in numbers)
        law[text] = law.get(text, 0.0) + weight
    assert sum(law.values()) == pytest.approx(1.0)
    means = [sum(t[2] * row.total(name) for t, row in zip(texts, rows, strict=True)) for name in ("risk", "skip_risk")]
    return law, means[0], means[1]


def cut(q: np.ndarray, k: int, levels: int | None, draft: int | None = None) -> np.ndarray:
    order = np.argsort(-q, kind="stable")
    row = np.full(V, np.nan)
    row[order[:k]] = np.floor(q[order[:k]] * levels) / levels if levels else q[order[:k]]
    if draft is not None:
        row[draft] = q[draft]
    home = np.isnan(row)
    if not home.any():
        home = np.arange(V) != (-1 if draft is None else draft)
    rest = 1.0 - np.nansum(row)
    return np.where(np.isnan(row), 0.0, row) + np.where(home, rest / home.sum(), 0.0)


def online_k(q: np.ndarray, d: int, u: float) -> int:
    beta = min(max(ONLINE["slope"] * u + ONLINE["intercept"], 0.0), 1.0)

    def softplus(z: float) -> float:
        return float(np.log1p(np.exp(ONLINE["sharpness"] * z)) / ONLINE["sharpness"])

    below = (1 - q[d]) * softplus(-1.0) + q[d] * softplus(-beta)
    return next(k for k in range(V) if np.abs(q - cut(q, k, None)).sum() / below <= ONLINE["distortion_tolerance"])


def by_hand(kind: str, threshold: float, draft: np.ndarray, target: np.ndarray) -> tuple[Law, set[int]]:
    levels, sizes = 2 ** (16 if kind == "certified" else 8) - 1, set()

    def one(q: np.ndarray, p: np.ndarray) -> np.ndarray:
        law = np.zeros(V)
        for d in range(V):
            u = float(hlmtheory.uncertainty.expected_uncertainty(np.log(q), d))
            if u <= threshold:  # (10)
                law[d] += q[d]
                continue
            certified = next(k for k in range(V + 1) if np.abs(q - cut(q, k, 2**16 - 1)).sum() <= BIAS)
            k = OFFLINE if kind == "offline" else online_k(q, d, u) if kind == "online" else certified
            sizes.add(k)
            accept = min(1.0, p[d] / q[d])
            law[d] += q[d] * accept
            left = np.maximum(p - cut(q, k, levels, d), 0.0)
            law += q[d] * (1 - accept) * left / left.sum()  # (16)
        return law

    first = one(draft[0], target[0])
    then = [one(draft[1 + token], target[1 + token]) for token in range(V)]
    return {(a, b): float(first[a] * then[a][b]) for a in range(V) for b in range(V)}, sizes


def shipped(kind: str, threshold: float) -> CuHlm:
    if kind == "certified":
        return CuHlmCertified(threshold, bias_tolerance=BIAS)
    return CuHlmOnline(threshold, **ONLINE) if kind == "online" else CuHlmOffline(threshold, OFFLINE, draws=None)


KINDS = ("certified", "online", "offline")
THRESHOLDS = (-1.0, 0.45)


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("kind", KINDS)
def test_texts_have_the_papers_law_and_its_distance_is_within_the_risk(kind, threshold):
    draft, target = tables()
    law, risk, skip_risk = law_and_risk(shipped(kind, threshold), draft, target)
    expected, sizes = by_hand(kind, threshold, draft, target)
    assert distance(law, expected) < 1e-9
    assert distance(law, law_of_texts(shipped(kind, threshold), draft, target)) < 1e-12
    assert 0 < min(sizes) <= max(sizes) < V - 1  # some entries are sent, and two or more are not
    assert kind != "online" or len(sizes) > 1
    assert 0.01 < distance(law, exact_law(target, POSITIONS)) <= risk + 1e-12
    assert (skip_risk > 0.01) == (threshold > 0)
    assert risk - skip_risk > 0.01  # truncation adds its part
    if kind == "certified":
        assert risk - skip_risk <= POSITIONS * BIAS / 2


def biases(method: CuHlm, draft: np.ndarray, target: np.ndarray) -> list[float]:
    begun(method, draft, target)
    return [float(np.abs(law_of_tokens(method, q, p) - p).sum()) for q, p in zip(draft, target, strict=True)]


def test_no_prefix_has_more_bias_than_is_certified():
    assert 0.3 * BIAS < max(biases(CuHlmCertified(-1.0, bias_tolerance=BIAS), *tables())) <= BIAS


class Doubled(CuHlmCertified):
    """A mutant that requires Δ_k ≤ ε instead of 2 Δ_k ≤ ε."""

    def choose_top_k(self, draft: torch.Tensor, tokens: torch.Tensor, uncertainty: np.ndarray) -> Any:
        return certified_size(draft, 2 * self.bias_tolerance, bits_per_probability=self.bits), self.bits


class Settled(CuHlm, ABC):
    """A mutant of the server's decoding."""

    @abstractmethod
    def decoded(self, q: np.ndarray, k: int, token: int) -> np.ndarray:
        """Return the distribution that the server decodes."""

    def server_distributions(self, step: Step, tokens: np.ndarray, skip: np.ndarray) -> Any:
        known, cuts = super().server_distributions(step, tokens, skip)
        rows = [
            None if row is None else torch.from_numpy(self.decoded(q.numpy(), cut.k, int(token)))
            for row, q, cut, token in zip(known, step.distributions, cuts, tokens, strict=True)
        ]
        return rows, cuts


class Renormalised(Settled):
    """A mutant: unsent entries are taken as 0, and the sent ones are normalised."""

    def decoded(self, q: np.ndarray, k: int, token: int) -> np.ndarray:
        row = np.where(np.argsort(np.argsort(-q, kind="stable")) < k, q, 0.0)
        row[token] = q[token]
        return np.asarray(row / row.sum())


@pytest.mark.parametrize("mutation", [None, Renormalised])
def test_without_its_factor_or_its_even_tail_the_certificate_fails(mutation):
    method = CuHlmCertified(-1.0, bias_tolerance=BIAS)
    method.__class__ = type("Mutant", (mutation, CuHlmCertified), {}) if mutation else Doubled
    assert max(biases(method, *tables())) > BIAS
