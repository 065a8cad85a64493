"""DSSD's certified answers in a plan: their bytes, what is promised of them, and the policy of such a plan."""

from dataclasses import replace

import numpy as np
import pytest

from hlmtheory.channel import Rayleigh
from hlmtheory.policy.answers import cut_answer
from hlmtheory.wire import CertifiedAnswers, DevicePolicy
from tests.validation.stored_traces import LENGTH, VOCABULARY
from validation.decoding.intervals import DEFAULT_RESAMPLES, DEFAULT_SEED, counts_of, draw_texts
from validation.decoding.methods.rows import CERTIFIED, FIXED, FLEXSPEC
from validation.planning.aims import aims_of, described
from validation.planning.certified import LIMITS, answer_bits, answer_options
from validation.planning.deploy import policy_of
from validation.planning.planners import planner_of_trace
from validation.planning.profile import DRAFT_LENGTHS, rejection_bits, reply_bits
from validation.planning.request import Request
from validation.planning.result import make
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting, constant_link, fading_link

SLOW_DOWN = Setting(constant_link(1e6, 0.02, 60e3), 0.012, 0.03, server_draft_s=0.04)


def row_of(planner, family, setting=SLOW_DOWN):
    aim = aims_of(planner, setting).asked
    return next((described(planner, aim, one) for one in aim.rows if one.family == family), None)


@pytest.fixture(scope="module")
def planner(trace):
    return planner_of_trace(trace.path, SLOW_DOWN, shared_seed=False)[0]


def test_an_answer_grows_as_its_limit_falls_and_is_counted_at_each_rejection(trace, profile):
    bits = answer_bits(trace, profile)
    assert list(bits) == list(LIMITS)
    assert all(a > b for a, b in zip(bits.values(), list(bits.values())[1:], strict=False))
    least = 8 * len(cut_answer(np.eye(VOCABULARY)[0], 1, 0.1))
    assert least <= bits[0.1] < bits[0.0005] <= 8 * (24 + VOCABULARY * 29 // 8 + 8)
    found = {one.label: one for one in answer_options(profile, bits)}
    down, exchanges = COUNTS.index("down_bits"), COUNTS.index("exchanges")
    for k, exact in zip(DRAFT_LENGTHS, profile.split, strict=True):
        option = found[f"ε = 0.01, K = {k}"]
        rejected = (exact[:, down] - exact[:, exchanges] * reply_bits(VOCABULARY)) / rejection_bits(VOCABULARY)
        saved = rejected * (32.0 * VOCABULARY - bits[0.01])
        np.testing.assert_allclose(option.counts[:, down], exact[:, down] - saved, rtol=1e-9)
        np.testing.assert_array_equal(np.delete(option.counts, down, axis=1), np.delete(exact, down, axis=1))
        assert set(option.token_loss) == {0.01}
        assert set(option.loss) == {LENGTH * 0.01}


def test_the_row_needs_a_limit_on_the_risk_and_says_what_is_proved(planner):
    assert row_of(planner, CERTIFIED) is None
    for kind, most in (("token", 0.05), ("text", 0.005)):
        setting = replace(SLOW_DOWN, risk_kind=kind, risk_limit=0.05)
        row, exact = (row_of(planner, family, setting) for family in (CERTIFIED, FLEXSPEC))
        assert row.option.startswith(f"ε = {most:g}, ")
        assert (row.token_risk.value, row.token_risk.basis) == (most, "proved")
        assert (row.text_risk.value, row.text_risk.basis) == (pytest.approx(LENGTH * most), "proved")
        assert row.breaks == ()
        assert row.tokens_per_s_median.value > exact.tokens_per_s_median.value
        assert aims_of(planner, setting).asked.rival.family != CERTIFIED
        assert planner.ours(setting).family == CERTIFIED
        assert planner.least_limit(planner.ours(setting), kind) == row.plain()[f"{kind}_risk"]["value"]


def test_the_plan_is_written_as_a_policy_with_what_is_proved(planner):
    link = replace(SLOW_DOWN.link, round_trip_s=5e-3, down_bps=1e4)
    setting = replace(SLOW_DOWN, link=link, risk_kind="token", risk_limit=0.02, draft_s=0.018, verify_s=0.05)
    planner = replace(planner, setting=setting)
    option = planner.ours(planner.setting)
    policy = policy_of(option, planner, VOCABULARY, None)
    assert DevicePolicy.from_json(policy.to_json()) == policy
    assert policy.messages == CertifiedAnswers(0.02)
    assert policy.rule.draft_length == option.draft_length
    token, text, speed = policy.guarantees
    assert (token.quantity, token.value) == ("total variation of a token, given those before it", 0.02)
    assert (text.quantity, text.value) == (f"total variation of a text of at most {LENGTH} tokens", LENGTH * 0.02)
    assert (token.basis, text.basis, speed.basis) == ("proved", "proved", "measured")
    planner = replace(planner, options=[one for one in planner.options if one.family != FIXED])
    found = make(planner, Request(server_draft_s=0.04))
    assert found.asked.best.family == CERTIFIED
    assert "FlexSpec" in found.answer[3]
    assert "(lossless)" in found.answer[3]
    assert found.guarantee.startswith("the law of each token, given those before it, is within 0.02 of")
    assert found.gap is None


def test_the_interval_of_a_mean_over_time_is_that_of_resampled_texts(planner):
    link = fading_link(1e6, Rayleigh(10.0), 10.0, 0.02, None, "fading")
    setting = replace(SLOW_DOWN, link=link)
    aim = aims_of(planner, setting).one_user
    rival = described(planner, aim, aim.rival).tokens_per_s_mean.value
    for listed in aim.rows:
        row = described(planner, aim, listed)
        found = row.tokens_per_s_mean
        counts = planner.split.sums(listed.option.counts, planner.split.test)
        parts = setting.mean_seconds(counts)  # a little more of a text changes the mean speed as it changes the ratio
        less, more = (np.mean(setting.speeds(counts.sum(axis=0) + e * counts), axis=-1) for e in (-1e-4, 1e-4))
        slopes = counts[:, 0] / counts[:, 0].sum() - parts / parts.sum()
        np.testing.assert_allclose((more - less) / 2e-4 / found.value, slopes, atol=1e-9)
        drawn = counts_of(draw_texts(len(counts), DEFAULT_RESAMPLES, DEFAULT_SEED), len(counts)) @ counts
        ends = np.quantile(np.mean(setting.speeds(drawn), axis=-1), [0.025, 0.975])
        assert found.value == pytest.approx(np.mean(setting.speeds(counts.sum(axis=0))), rel=1e-9)
        assert (found.low, found.high) == pytest.approx(tuple(ends), rel=2e-3), listed.name
        assert row.gain.value == pytest.approx(found.value / rival, rel=1e-9)
