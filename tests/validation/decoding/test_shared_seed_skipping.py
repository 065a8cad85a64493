"""Drafts by a shared seed that may skip the server: the exact law of tiny texts, and what a skip is charged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from hlmtheory.shared_seed import skip_mismatch
from hlmtheory.skipping import one_step_risk
from tests.validation.tiny_texts import distance, exact_law, law_of, nodes, quarters, table_pair
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.shared_seed import SharedSeed
from validation.decoding.records import GenerationRecord
from validation.decoding.session import Step

Array = NDArray[Any]
Law = dict[tuple[int, ...], float]
THIRDS = np.array([[0.5, 0.5, 0.0]]), np.array([[0.5, 0.0, 0.5]])  # q, p


class SkipsToken(SharedSeed):
    """Keeps token 0 of the device, and asks the server about the others."""

    def skip(self, step: Step, tokens: Array) -> Array:
        return np.asarray(tokens) == 0


@cache
def joint(q: tuple[float, ...], p: tuple[float, ...]) -> Array:
    found = np.zeros((len(q), len(p)))
    for u, v in np.ndindex(found.shape):
        if not q[u] * p[v]:
            continue
        if u == v:
            found[u, v] = 1.0 / sum(max(q[w] / q[v], p[w] / p[v]) for w in range(len(q)))
            continue
        low, high = q[v] / p[v], q[u] / p[u] if p[u] else np.inf
        if low < high:
            value = integrate.quad(lambda s: sum(max(a, s * b) for a, b in zip(q, p, strict=True)) ** -2, low, high)
            found[u, v] = q[u] * p[v] * value[0]
    return found


def law_with_skips(draft: Array, target: Array, positions: int) -> tuple[Law, float]:
    charged = 0.0

    def go_on(text: tuple[int, ...], place: int, mass: float, bonus: bool) -> Law:
        nonlocal charged
        if len(text) == positions or not mass:
            return {text: mass} if mass else {}
        found: Law = {}
        q, p = tuple(draft[place].tolist()), tuple(target[place].tolist())
        both = joint(q, p)
        charged += 0.0 if bonus else mass * (q[0] - both[0, 0])
        for token in range(3):
            # the token's probability with another bonus token behind it, and without
            after_match, other = (0.0, p[token]) if bonus else (both[token, token] * (token > 0), 0.0)
            if not bonus:
                other = q[0] if token == 0 else 0.0
                other += sum(both[u, token] for u in range(1, 3) if u != token)
            for share, next_bonus in ((after_match, True), (other, False)):
                for key, value in go_on((*text, token), 3 * place + token + 1, mass * share, next_bonus).items():
                    found[key] = found.get(key, 0.0) + value
        return found

    return go_on((), 0, 1.0, False), charged


def decoded(draft: Array, target: Array, count: int = 4000) -> list[GenerationRecord]:
    prompts = [Prompt(f"prompt {i}", "0", "test") for i in range(count)]
    return decode(table_pair(draft, target), prompts, SkipsToken(1), new_tokens=2, batch=1000, risk=True)


def check(rows: Sequence[GenerationRecord], expected: Law, charged: float) -> None:
    seen = law_of(rows)
    assert sum(expected.values()) == pytest.approx(1.0, abs=1e-7)
    keys = [key for key, value in expected.items() if value > 1e-9]
    assert set(seen) <= set(keys)
    counts = np.array([seen.get(key, 0.0) for key in keys]) * len(rows)
    assert stats.chisquare(counts, np.array([expected[key] for key in keys]) * len(rows), sum_check=False).pvalue > 1e-4
    risks = np.array([row.total("risk") for row in rows])
    assert risks.mean() == pytest.approx(charged, abs=4 * risks.std() / np.sqrt(len(rows)) + 1e-9)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_law_of_the_texts_and_the_mean_charge_are_those_of_an_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    draft, target = (quarters(rng, nodes(3, 2)) for _ in range(2))
    expected, charged = law_with_skips(draft, target, 2)
    check(decoded(draft, target), expected, charged)
    assert distance(expected, exact_law(target, 2)) <= charged + 1e-7
    assert distance(expected, exact_law(target, 2)) > 0.05  # the test would see the target's law


def test_the_charge_of_rejection_sampling_is_too_low() -> None:
    draft, target = (np.repeat(row, nodes(3, 2), axis=0) for row in THIRDS)
    expected, charged = law_with_skips(draft, target, 2)
    rows = decoded(draft, target)
    check(rows, expected, charged)
    kept = np.array([1.0, 0.0, 0.0])
    assert float(one_step_risk(target[0], draft[0], kept)) == 0.0
    assert float(skip_mismatch(target[0], draft[0], kept)) == pytest.approx(1 / 6)
    assert distance(law_of(rows), exact_law(target, 2)) > 1 / 6 - 0.03  # four standard errors
