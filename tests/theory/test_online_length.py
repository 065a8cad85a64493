"""A draft length that is learnt on line: the bound, the rule by hand, and rounds that are played."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlmtheory.draft_length import etgr, online_regret_bound, optimistic_draft_length
from hlmtheory.sides.online_sides import played


def radius(n, error, means):
    return math.sqrt(math.log(2 * means * n * (n + 1) / error) / (2 * n)) if n else 1.0


@given(
    st.lists(st.tuples(st.integers(0, 50), st.floats(0.0, 1.0)), min_size=1, max_size=5),
    st.floats(0.01, 5.0),
    st.floats(0.01, 0.99),
)
def test_the_choice_is_that_of_the_best_upper_end(depths, fixed, error):
    examined = [n for n, _ in depths]
    accepted = [int(n * share) for n, share in depths]
    rates, tokens = [1.0 / fixed], 1.0
    for length, (n, kept) in enumerate(zip(examined, accepted, strict=True), 1):
        tokens += min(1.0, (kept / n if n else 1.0) + radius(n, error, len(depths) + 1))
        rates.append(tokens / (fixed + 0.25 * length))
    found = int(optimistic_draft_length(examined, accepted, fixed, 0.25, error=error))
    assert rates[found] == pytest.approx(max(rates), rel=1e-12)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=4), st.floats(0.01, 0.99), st.floats(0.0, 9.0))
def test_the_bound_is_the_sum_of_the_widths_and_grows_like_a_root(examined, error, tokens):
    rounds, means = max(examined), len(examined) + 1
    terms = [sum(min(1.0, 2 * radius(n, error, means)) for n in range(most)) for most in [*examined, rounds]]
    bound = float(online_regret_bound(examined, error=error, rounds=rounds, range_tokens=tokens))
    assert bound == pytest.approx(sum(terms[:-1]) + tokens * terms[-1])
    if rounds:
        level = math.log(2 * means * rounds * (rounds + 1) / error)
        drafts = len(examined) * sum(examined)
        assert sum(terms[:-1]) <= len(examined) + 2 * math.sqrt(2 * level * drafts) + 1e-9


def test_it_finds_the_best_length_and_loses_less_than_the_bound():
    rng, fixed, marginal, acceptance = np.random.default_rng(2), 0.1, 0.03, 0.7
    rates = [float(etgr(acceptance, length, fixed, marginal)) for length in range(7)]
    best = int(np.argmax(rates))
    (examined, accepted), lost, chosen = np.zeros((2, 6), dtype=int), 0.0, []
    for _ in range(3000):
        length = int(optimistic_draft_length(examined, accepted, fixed, marginal, error=0.05))
        lost += (rates[best] - rates[length]) * (fixed + length * marginal)
        run = int(np.argmin([*(rng.random(length) < acceptance), False]))
        examined[:length] += 1
        accepted[:run] += 1
        chosen.append(length)
    assert lost < float(online_regret_bound(examined, error=0.05))
    assert abs(np.median(chosen[-500:]) - best) <= 1
    assert chosen[0] == 6


@pytest.mark.parametrize(
    ("hopeful", "second", "luck", "lost", "examined"),
    [
        # K = 2 is best and chosen first; its drafts fail, so that K = 0 is chosen twice and loses 7/5 - 1 each time
        (False, 0.5, [[0.9, 0.9], [0.1, 0.9], [0.1, 0.9]], 0.8, [1, 1]),
        # K = 1 is best; K = 2, chosen first, loses 4/3 · 5/4 - 3/2; its first draft is accepted, so that K = 1 follows
        (False, 0.0, [[0.1, 0.9], [0.1, 0.9], [0.1, 0.9]], 1 / 6, [3, 1]),
        (True, 0.0, [[0.1, 0.9], [0.1, 0.9], [0.1, 0.9]], 3 / 6, [3, 3]),  # every upper end is 1
    ],
)
def test_the_rounds_that_a_theorem_plays_by_hand(hopeful, second, luck, lost, examined):
    """T(K) = 1 + K/8 seconds: a pass of 1/2 s, a mean delay of 1/2 s, drafts of 1/8 s."""
    scalars = {"verify_s": 0.5, "draft_s": 0.125, "rise": 3.0, "expected": 0.5, "error": 0.5}
    arrays = {"acceptances": [0.5, second], "luck": luck, "waits": [0.5, 0.5, 0.5]}
    tokens, seen, held = played(hopeful, {name: np.array(value) for name, value in (scalars | arrays).items()})
    assert (tokens, seen.tolist(), held) == (pytest.approx(lost, abs=1e-12), examined, True)


@pytest.mark.parametrize(("share", "inside"), [(-0.1, True), (0.1, False)])
def test_a_mean_wait_at_the_edge_of_its_interval_decides_whether_all_held(share, inside):
    """20 equal waits that exceed the mean by r(19) and a little less or more; the draft is always accepted."""
    wait = 0.125 + radius(19, 0.5, 2) + share / 19
    scalars = {"verify_s": 0.5, "draft_s": 0.125, "rise": 1.0, "expected": 0.125, "error": 0.5}
    arrays = {"acceptances": [1.0], "luck": np.zeros((20, 1)), "waits": np.full(20, wait)}
    for hopeful in (False, True):
        assert played(hopeful, {name: np.array(value) for name, value in (scalars | arrays).items()})[2] == inside
