"""Trees in a plan: acceptance along texts against rules of the theory, rounds against decoded texts, and the rows."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from hlmtheory.shared_seed import list_match_bound, list_match_probability
from hlmtheory.verification import top_draft_optimum
from tests.validation.command_line import run
from tests.validation.stored_traces import stored
from tests.validation.tiny_texts import nodes, table_pair
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.shared_seed import SharedSeedTree
from validation.decoding.methods.trees import SureTreeSd
from validation.planning.menu import OWN_TREE, SEED_TREE
from validation.planning.positions import MOST_CHILDREN, race_matches, sure_drafts
from validation.planning.rounds import COUNTS, expected_counts
from validation.planning.several import nodes_of

RNG = np.random.default_rng(4)
P, Q = RNG.dirichlet(np.full(6, 0.5), (2, 20))


def test_the_mean_over_tokens_is_the_acceptance_of_the_best_rule():
    likeliest = np.argsort(-Q, axis=1)[:, : MOST_CHILDREN - 1]
    each = np.stack([sure_drafts(P, Q, likeliest, np.full(len(P), y)) for y in range(6)])
    unknown = sure_drafts(P, Q, likeliest, np.full(len(P), -1))
    for n in range(1, MOST_CHILDREN + 1):
        best = top_draft_optimum(P, Q, n)
        np.testing.assert_allclose((P.T * each[..., n - 1]).sum(axis=0), best, rtol=1e-12)
        np.testing.assert_allclose(unknown[:, n - 1], best, rtol=1e-12)


def test_the_floor_of_a_list_is_that_of_the_theory_and_below_its_probability():
    shares = np.stack([race_matches(P, Q, np.full(len(P), y))[0][:, y] / P[:, y] for y in range(6)])
    for n in (2, 3, 4):
        mean = (P.T * (1.0 - (1.0 - shares) ** n)).sum(axis=0)
        np.testing.assert_allclose(mean, list_match_bound(P, Q, n), rtol=1e-9)
        assert (mean <= list_match_probability(P, Q, n) + 1e-12).all()


def test_rounds_of_trees_against_a_recursion():
    length, widths = 5, (2, 3, 1)
    chances = RNG.random((len(widths), length))
    read = 1.0 + nodes_of(widths)[np.minimum(np.arange(length, 0, -1), len(widths))]
    assert read.tolist() == [15, 15, 15, 9, 3]
    found = expected_counts(
        chances[0][:, None],
        np.zeros((length, 1)),
        np.array([length]),
        len(widths),
        by_depth=chances[..., None],
        read=read[:, None],
    )

    @cache
    def rest(place: int) -> tuple[float, float]:
        """Return expected passes and read tokens from a place on."""
        if place >= length:
            return 0.0, 0.0
        total, alive = np.array([1.0, read[place]]), 1.0
        depth = min(len(widths), length - place)
        for j in range(depth):
            total += alive * (1.0 - chances[j, place + j]) * np.array(rest(place + j + 1))
            alive *= chances[j, place + j]
        total += alive * np.array(rest(place + depth + 1))
        return float(total[0]), float(total[1])

    assert found[0, [COUNTS.index("passes"), COUNTS.index("verified")]] == pytest.approx(rest(0), rel=1e-12)


def decoded(method: Any, draft: Any, target: Any, count: int) -> list[Any]:
    prompts = [Prompt(str(n), "0", "test") for n in range(count)]
    return decode(table_pair(draft, target), prompts, method, new_tokens=4, batch=64, seed=3)


def along(draft: Any, target: Any, records: list[Any]) -> tuple[Any, Any, Any]:
    """Return the rows of both models along the texts, (texts, 4, V), and the tokens."""
    tokens = np.array([record.tokens for record in records])
    place, places = np.zeros(len(tokens), dtype=int), []
    for token in tokens.T:
        places.append(place)
        place = place * 4 + token + 1
    at = np.stack(places, axis=1)
    return draft[at], target[at], tokens


@pytest.mark.parametrize("make", [SureTreeSd, SharedSeedTree])
def test_expected_rounds_of_texts_are_those_that_were_decoded(make):
    rng, widths = np.random.default_rng(8), (2, 2, 1)
    draft, target = rng.dirichlet(np.full(4, 0.7), (2, nodes(4, 4)))
    records = decoded(make(widths), draft, target, 400)
    q, p, tokens = along(draft, target, records)
    shape = tokens.shape
    flat_p, flat_q, y = p.reshape(-1, 4), q.reshape(-1, 4), tokens.reshape(-1)
    if make is SureTreeSd:
        sure = sure_drafts(flat_p, flat_q, np.argsort(-flat_q, axis=1, kind="stable")[:, :3], y).reshape(*shape, -1)
        chances = [sure[..., n - 1].T for n in widths]
    else:
        at = np.arange(len(y))
        match = race_matches(flat_p, flat_q, y)[0][at, y] / flat_p[at, y]
        chances = [1.0 - (1.0 - match.reshape(shape).T) ** n for n in widths]
    counts = expected_counts(chances[0], np.zeros((4, 400)), np.full(400, 4), 3, by_depth=chances)
    rounds = np.array([len(record.rounds) for record in records])
    off = rounds - counts[:, COUNTS.index("passes")]
    error = 3.5 * off.std() / 20.0
    assert off.mean() <= error  # lists: the expected rounds are at least those of their floor
    assert make is SharedSeedTree or off.mean() >= -error


def test_the_rows_are_in_a_plan_that_knows_the_width_of_a_pass(tmp_path):
    stored(tmp_path / "trace", noise=0.5)

    def planned(*more: str) -> dict[str, Any]:
        found = json.loads(run("plan", "--trace", tmp_path / "trace", *more, "--json").stdout)["rows"]
        return {row["policy"]: row for row in found}

    assert not {OWN_TREE, SEED_TREE} & set(planned())
    narrow, wide = planned("--verify-us-per-token", "1"), planned("--verify-us-per-token", "20000")
    assert {OWN_TREE, SEED_TREE} <= set(narrow)
    assert SEED_TREE not in planned("--verify-us-per-token", "1", "--no-shared-seed")
    passes, verified = COUNTS[2], COUNTS[4]
    for name in (OWN_TREE, SEED_TREE):
        width = [rows[name]["counts"][verified] / rows[name]["counts"][passes] for rows in (narrow, wide)]
        assert width[0] > 2 * width[1]  # a pass over more tokens takes longer, so the tree is smaller
        assert narrow[name]["text_risk"] == {"value": 0, "basis": "proved", "prompts": None, "low": 0, "high": 0}
    best = narrow[OWN_TREE]["tokens_per_s_median"]["value"]
    assert best > narrow["server with its own draft"]["tokens_per_s_median"]["value"]
    assert next(iter(narrow)) == OWN_TREE  # the strongest rival stands first
