"""The objectives of ``hlm plan`` by hand, for rounds without skips."""

from __future__ import annotations

import numpy as np
import pytest

from hlmtheory import channel
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting, constant_link, fading_link

BITS, LENGTH, ALPHA = 24_000.0, 2, [0.75, 0.5]
TOKENS = 1.0 + ALPHA[0] + ALPHA[0] * ALPHA[1]


def counts() -> np.ndarray:
    """Return the mean counts of a round of two drafts."""
    known = {"tokens": TOKENS, "drafts": LENGTH, "passes": 1, "exchanges": 1, "verified": LENGTH}
    known["up_bits"] = LENGTH * BITS
    return np.array([float(known.get(name, 0.0)) for name in COUNTS])


@pytest.mark.parametrize("fading", [False, True])
def test_the_cost_of_a_token_is_its_seconds_and_those_of_the_server(fading):
    link = fading_link(1e7, channel.Rician(10.0, 4.0), 10.0, 0.02) if fading else constant_link(1e7, 0.02)
    setting = Setting(link, 0.012, 0.03, verify_token_s=0.001, server_price=2.0, time_price=0.3, objective="cost")
    air = LENGTH * BITS * float(np.mean(1.0 / link.rates))
    seconds, server = LENGTH * 0.012 + 0.02 + 0.03 + LENGTH * 0.001 + air, 0.03 + LENGTH * 0.001
    assert 1.0 / setting.value(counts()) == pytest.approx((0.3 * seconds + 2.0 * server) / TOKENS, rel=1e-9)


def test_goodput_counts_the_blocks_in_which_a_round_is_in_time():
    link = fading_link(1e6 * np.log2(11.0), channel.Rayleigh(10.0), 10.0, 0.02)
    setting = Setting(link, 0.012, 0.03, latency_s=0.11, objective="goodput")
    seconds = LENGTH * 0.012 + 0.02 + 0.03 + LENGTH * BITS / np.asarray(link.rates)
    in_time = seconds <= 0.11
    assert 0.1 < in_time.mean() < 0.9
    assert float(setting.value(counts())) == pytest.approx(float(np.mean(in_time * TOKENS / seconds)), rel=1e-9)
