"""The percentiles of a link: the exact quantile of its law, or of its recording."""

import math

import numpy as np
import pytest

from hlmtheory.channel import Rayleigh, Rician, TraceLink
from validation.decoding.methods.rows import OURS
from validation.planning.option import Option
from validation.planning.plan import Planner
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting, fading_link, recorded_link
from validation.planning.split import split_prompts

SHARES = [0.001, 0.05, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.999999]


@pytest.mark.parametrize("law", [Rayleigh(10.0), Rayleigh(0.5), Rician(10.0, 10.0), Rician(100.0, 0.3)], ids=repr)
@pytest.mark.parametrize("share", SHARES)
def test_a_fading_link_is_slower_than_its_percentile_in_exactly_the_rest_of_the_time(law, share):
    mean = float(law.mean_snr)
    rate = fading_link(5e6, law, mean, 0.02).quantile(share)
    snr = math.expm1(rate / 5e6 * math.log1p(mean))
    assert float(law.distribution(snr)) == pytest.approx(1.0 - share, rel=1e-8)


@pytest.mark.parametrize(
    ("share", "rate"),
    [(0.05, 9.0), (0.25, 9.0), (0.26, 5.0), (0.5, 5.0), (0.9, 5.0), (0.91, 1.0), (0.999, 1.0), (0.9991, 0.0)],
)
def test_a_recorded_rate_is_held_in_at_least_the_share(share, rate):
    """A tenth of 1% of the time at 0, 9.9% at 1, 65% at 5, and a quarter at 9."""
    link = TraceLink(np.cumsum([0.0, 650.0, 1.0, 250.0, 49.5]), [5.0, 0.0, 9.0, 1.0, 1.0])
    assert recorded_link(link, 0.02).quantile(share) == rate


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99, 0.999, 0.9999])
@pytest.mark.parametrize("more", [0.99, 1.01])
def test_a_limit_of_latency_is_kept_in_the_share_that_it_names(share, more):
    """The limit is the time of a round at a rate below which the link is in ``more`` times the rest of the time."""
    law, bits = Rayleigh(10.0), 24_000.0
    known = {"tokens": 2.0, "drafts": 2.0, "passes": 1.0, "exchanges": 1.0, "verified": 3.0, "up_bits": bits}
    counts = np.tile([known.get(name, 0.0) for name in COUNTS], (9, 1))
    option = Option(OURS, "", counts, 2, -np.inf, np.zeros(9), np.zeros(9), (1, 1), 0)
    rate = 5e6 * math.log1p(float(law.quantile(more * (1.0 - share)))) / math.log1p(10.0)
    limit = 2 * 0.012 + 0.03 + 0.02 + bits / rate
    link = fading_link(5e6, law, 10.0, 0.02)
    setting = Setting(link, 0.012, 0.03, latency_share=share, latency_s=limit)
    broken = Planner([option], setting, split_prompts(np.arange(9))).pool(setting).breaks(0)
    assert broken == (("latency",) if more > 1 else ())
