"""What plans promise, against the exact law of what they do and against a linear program over all plans."""

import numpy as np
import pytest

from hlmtheory import codec, policy, wire
from hlmtheory.policy import StageCosts, lower_hulls, plan_user
from hlmtheory.policy.costs import PlanPart

from . import policy_program, policy_worlds


def safe_and_doubtful():
    """A position whose likely draft is safe; the others lose a quarter of their mass."""
    q = np.r_[0.9, np.full(24, 0.003), np.full(28, 0.001)]
    q /= q.sum()
    p, mean = q.copy(), q[1:].mean()
    p[25:] = mean
    need = (mean - q[25]) * 28
    whole = int(need // q[1])
    p[1 : 1 + whole] = 0.0
    p[1 + whole] -= need - whole * q[1]
    return p, q


def test_skipping_safe_drafts_does_not_hide_the_deviation_of_a_message():
    """A rejected draft is replaced from the residual of the coarse message, and all rejected drafts are sent."""
    p, q = safe_and_doubtful()
    menu = codec.CodecMenu(kinds=("top-k",), widths=(16,), sizes=(1,))
    world = policy_worlds.world_of(p[None], q[None], menu)
    costs = StageCosts(0.01, 0.03, 1e-4, round_trip_s=0.02)
    with pytest.raises(ValueError, match="risk_limit must be at least"):
        policy_worlds.planned(world, costs, 1, 0.0018, draft_lengths=[1])
    for limit in (0.02, 0.03):
        case = policy_worlds.planned(world, costs, 1, limit, draft_lengths=[1])
        assert 0.5 * limit < case.distance <= case.plan.risk <= limit
    rows = np.maximum(0.0, 1.0 - p / q) == 0.0  # 0.0258 by the law, if these are skipped and the others sent
    hulls, every = world.hulls, world.hulls.start[1:] - 1
    part = PlanPart(1.0, 1, wire.threshold_rule(1), rows, every, np.zeros((0, len(q)), dtype=int), 1.0, 0.0)
    place = policy.plan_law._round(world, part, costs, bonus=True)
    assert place.distance > 0.02 > 25 * float(q[~rows].sum()) * hulls.risk[every[0]]


def test_the_exact_law_of_random_plans_is_within_what_they_state():
    cases = [policy_worlds.draw(np.random.default_rng((1, n))) for n in range(60)]
    cases = [case for case in cases if case is not None]
    assert sum(case.skips_some for case in cases) >= 5
    assert sum(bool(case.plan.mixture) for case in cases) >= 10
    for case in cases:
        assert case.distance <= case.plan.risk * (1.0 + 1e-9) + 1e-12
        assert case.plan.risk <= case.limit
        assert case.law.tokens / case.law.seconds == pytest.approx(case.plan.rate, rel=1e-9)


def test_rows_with_equal_hulls_share_their_messages():
    """They may be the drafts of one position, for which one message must stand whether they are skipped or sent."""
    rng = np.random.default_rng(8)
    for _ in range(20):
        bits, risk = np.exp(rng.uniform(3.0, 9.0, (2, 3))), rng.beta(0.5, 2.0, (2, 3))
        hulls = lower_hulls(np.repeat(bits, 3, axis=0), np.repeat(risk, 3, axis=0))
        costs = StageCosts(0.01, 0.05, 1e-5)
        options = {"rejection": rng.beta(0.5, 1.0, 6), "weight": rng.dirichlet(np.ones(6)), "risk_limit": 0.1}
        for part in plan_user(hulls, costs, [0.8] * 3, **options).parts:
            for corners in [part.first, *part.later][: part.draft_length]:
                assert (np.ptp(hulls.risk[corners].reshape(2, 3), axis=1) == 0.0).all()


def test_no_mixture_of_messages_by_place_and_of_lengths_beats_the_bound():
    found = [policy_program.compare(policy_program.draw(np.random.default_rng((5, n)))) for n in range(40)]
    planned = [row for row in found if row is not None]
    assert len(planned) >= 20
    for row in planned:
        assert "refused" not in row
        assert row["bound"] >= row["most"] * (1.0 - 1e-7)
        assert row["best"] * 0.96 <= row["rate"] <= row["best"] * (1.0 + 1e-6)


def test_lengths_are_mixed_where_that_is_faster():
    hulls, costs = lower_hulls([[1000.0]], [[0.0625]]), StageCosts(0.001, 0.1, seconds_per_bit=1e-6)
    options = {"risk_limit": 0.03, "draft_lengths": [0, 4], "skipping": False}
    plan, alone = (plan_user(hulls, costs, [0.75] * 4, **options, mixing=mixing) for mixing in (True, False))
    assert alone.rate == pytest.approx(10.0)
    assert alone.upper_bound == pytest.approx(plan.upper_bound)
    assert sorted(part.draft_length for part in plan.mixture) == [0, 4]
    assert sum(part.share for part in plan.mixture) == pytest.approx(1.0, abs=1e-12)
    tokens, lost = 3.05078125, 0.0625 * 2.734375  # of a round of four drafts
    share = 0.03 / (lost - 0.03 * (tokens - 1.0))  # share · lost = 0.03 (1 + share (tokens - 1))
    rate = (1.0 + share * (tokens - 1.0)) / ((1.0 - share) * 0.1 + share * 0.108)
    assert (plan.rate, plan.upper_bound) == (pytest.approx(rate), pytest.approx(rate))


@pytest.mark.parametrize("seed", range(3))
def test_no_shares_and_mixtures_of_two_users_beat_the_bound(seed):
    rng = np.random.default_rng((9, seed))
    cases = []
    while len(cases) < 2:
        case = policy_program.draw(rng)
        if policy_program.fastest(case, charged=False):
            cases.append(case)
    found = policy.plan_users([policy.BandUser(**case.arguments()) for case in cases])
    for share in (0.1, 0.3, float(found.shares[0]), 0.6, 0.9):
        rates = [
            policy_program.fastest(case.over(w), charged=False)
            for case, w in zip(cases, (share, 1.0 - share), strict=True)
        ]
        assert sum(rates) <= found.upper_bound * (1.0 + 1e-7)


def test_without_a_bonus_a_round_has_no_token_after_its_drafts():
    hulls, costs = lower_hulls([[100.0]], [[0.0]]), StageCosts(0.01, 0.05, 1e-6)
    plans = [plan_user(hulls, costs, [0.9] * 2, draft_lengths=[k], skipping=False, bonus=False) for k in (1, 2)]
    assert [plan.tokens for plan in plans] == [1.0, pytest.approx(1.9)]
