"""Counts × times = seconds, against clocks that add event after event."""

import numpy as np
import pytest

from hlmtheory.channel import shannon_latency
from tests.validation.tiny_texts import PROMPTS
from validation.decoding.links import FadingLink, Way
from validation.decoding.loop import PAPER_TIMES, decode
from validation.decoding.methods.catalogue import METHODS
from validation.decoding.methods.registry import Fitted, Setup
from validation.decoding.seconds import Times, seconds
from validation.planning.rounds import count_table
from validation.planning.setting import Setting, constant_link

SETUP = Setup(Fitted(0.8, -0.05, 0.5, 0.5, 0.7, 0.5, 30), 3)
TIMES = Times(0.25, 1.5, 0.125, 0.75, 64.0, 16.0)
SNR, WIDTH_HZ, WAY = 3.0, 1e5, Way(0.03, 2e5)


def test_every_event_of_random_rounds():
    rng = np.random.default_rng(3)
    for _ in range(20):
        clock, counts = 0.0, dict.fromkeys(("drafts", "passes", "verified", "exchanges", "up_bits", "down_bits"), 0)
        for drafts, up, down in rng.integers(0, 9, (int(rng.integers(0, 6)), 3)).tolist():
            events = [TIMES.draft_s] * drafts + [TIMES.round_trip_s / 2, up / TIMES.up_bps, TIMES.target_s]
            clock += sum(events + [TIMES.token_s] * (drafts + 1) + [down / TIMES.down_bps, TIMES.round_trip_s / 2])
            for name, value in zip(counts, (drafts, 1, drafts + 1, 1, up, down), strict=True):
                counts[name] += value
        assert seconds(counts, TIMES) == clock  # all times are binary fractions
        setting = Setting(constant_link(TIMES.up_bps, TIMES.round_trip_s, TIMES.down_bps), 0.25, 1.5, 0.125)
        assert setting.seconds(count_table(**counts), TIMES.up_bps) == clock


@pytest.mark.parametrize(("bits", "expected"), [(8.0, np.inf), (0.0, 1.5), (1e-10, 1.5)])
def test_bits_over_a_link_that_is_down_take_for_ever(bits, expected):
    assert seconds({"passes": 1, "up_bits": bits}, Times(target_s=1.5, up_bps=0.0)) == pytest.approx(expected)


@pytest.mark.parametrize("name", [name for name, info in METHODS.items() if info.default])
def test_the_loop_s_clock(pair, name):
    """The loop adds pass after pass and message after message; a method that drafts on overlaps them."""
    method = METHODS[name].default(SETUP)
    link = FadingLink("steady", WIDTH_HZ, SNR, WAY)
    rate = 1.0 / float(shannon_latency(1.0, WIDTH_HZ, SNR))
    for row in decode(pair, PROMPTS[:2], method, new_tokens=6, seed=3, link=link, times=PAPER_TIMES):
        sent = [one for one in row.rounds if one.bytes or one.down_bytes]
        counts = {"drafts": row.total("draft_passes"), "passes": row.total("target_passes"), "exchanges": len(sent)}
        counts |= {"up_bits": 8 * row.total("bytes") if method.real_bytes else row.total("bits")}
        counts |= {"down_bits": 8 * row.total("down_bytes")}
        times = Times(*PAPER_TIMES, round_trip_s=2 * WAY.propagation_s, up_bps=rate, down_bps=WAY.down_bps)
        assert float(seconds(counts, times)) - row.total("overlap_s") == pytest.approx(row.seconds, rel=1e-9)
