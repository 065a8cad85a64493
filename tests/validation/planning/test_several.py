"""Trees in a plan: acceptance along texts against rules of the theory, rounds against decoded texts, and the rows."""

import json
from typing import Any

import numpy as np

from hlmtheory.shared_seed.lists import list_match_bound, list_match_probability
from hlmtheory.verification.multi_draft import top_draft_optimum
from tests.validation.command_line import run
from tests.validation.stored_traces import stored
from validation.decoding.methods.rows import OWN_TREE, SEED_TREE
from validation.planning.positions import MOST_CHILDREN, race_matches, sure_drafts
from validation.planning.rounds import COUNTS

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


def test_the_rows_are_in_a_plan_that_knows_the_width_of_a_pass(tmp_path):
    stored(tmp_path / "trace", noise=0.5)

    def planned(*more: str) -> dict[str, Any]:
        found = json.loads(run("plan", "--trace", tmp_path / "trace", *more, "--json").stdout)["rows"]
        return {row["policy"]: row for row in found}

    assert not {OWN_TREE, SEED_TREE} & set(planned())
    narrow, wide = planned("--verify-token-time", "1us"), planned("--verify-token-time", "20000us")
    assert {OWN_TREE, SEED_TREE} <= set(narrow)
    assert SEED_TREE not in planned("--verify-token-time", "1us", "--no-shared-seed")
    passes, verified = COUNTS[2], COUNTS[4]
    for name in (OWN_TREE, SEED_TREE):
        width = [rows[name]["counts"][verified] / rows[name]["counts"][passes] for rows in (narrow, wide)]
        assert width[0] > 2 * width[1]  # a pass over more tokens takes longer, so the tree is smaller
        assert narrow[name]["text_risk"] == {"value": 0, "basis": "proved", "prompts": None, "low": 0, "high": 0}
    best = narrow[OWN_TREE]["tokens_per_s_median"]["value"]
    assert best > narrow["server with its own draft"]["tokens_per_s_median"]["value"]
    assert next(iter(narrow)) == "server with its own draft"  # the strongest rival that an engine is known to run
