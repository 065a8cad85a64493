"""What no link, cell or set of tasks can be: refused at the door of every function that takes it, with a remedy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hlmtheory
from hlmtheory import Device, ModelShape, Rayleigh, Rician, Service, Task

SERVICE = Service(
    ModelShape(2, 768, 3072), ModelShape(32, 4096, 11008), Device(4.11e-13, 5.6e-4), Device(2.08e-14, 0.0128), 0.8, 1e9
)
CELL = {"bits": [100.0, 100.0], "spectral_efficiency": [1.0, 4.0]}
BAD = [0.0, -1.0, math.inf, math.nan]


@pytest.mark.parametrize("method", hlmtheory.METHODS)
def test_no_method_plans_nothing(method):
    with pytest.raises(ValueError, match=r"^tasks must hold at least one task; got none; wait for a request"):
        hlmtheory.plan([], SERVICE, method)


@pytest.mark.parametrize("method", sorted(set(hlmtheory.METHODS) - {"autoregressive"}))
def test_no_method_plans_a_task_beyond_the_memory(method):
    message = r"^tasks must fit the memory one by one; task 1 with 900000 \+ 1 tokens needs .* bytes of 1e\+09; shorten"
    with pytest.raises(ValueError, match=message):
        hlmtheory.plan([Task(1, 1), Task(900_000, 1)], SERVICE, method)


@pytest.mark.parametrize("count", [13, 100])
def test_the_exact_method_names_the_one_to_use_instead(count):
    message = rf"^tasks must be at most 12 for method 'exact'; got {count}; take 'pareto\+johnson'"
    with pytest.raises(ValueError, match=message):
        hlmtheory.plan([Task(1, 1)] * count, SERVICE, "exact")
    assert "pareto+johnson" in hlmtheory.METHODS


@pytest.mark.parametrize("lengths", [[], [0], [-3], [1, 2, 0]])
def test_no_draft_length_below_one(lengths):
    with pytest.raises(ValueError, match=r"^draft_lengths? must "):
        hlmtheory.plan([Task(1, 1)], SERVICE, draft_lengths=lengths)


@pytest.mark.parametrize("value", BAD)
def test_no_gain_that_is_none(value):
    with pytest.raises(ValueError, match=r"^reference_gain must be positive and finite; got .*; give the gain at the"):
        hlmtheory.log_distance_gain(10.0, reference_gain=value, exponent=2.0)
    with pytest.raises(ValueError, match=r"^distance_m must be positive and finite"):
        hlmtheory.log_distance_gain(value, reference_gain=1e-3, exponent=2.0)


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize(
    "call",
    [
        lambda snr: hlmtheory.shannon_latency(1.0, 1.0, snr),
        lambda snr: hlmtheory.shannon_latency(1.0, 1.0, [1.0, snr]),
        lambda snr: Rayleigh(snr),
        lambda snr: Rician(snr, 1.0),
    ],
)
def test_no_dead_or_noiseless_link(call, value):
    with pytest.raises(ValueError, match=r"^(mean_)?snr must be positive and finite; got .*; give the ratio, not dB"):
        call(value)


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize(
    "call",
    [
        lambda band: hlmtheory.shannon_latency(1.0, band, 1.0),
        lambda band: hlmtheory.minmax_latency(**CELL, bandwidth_hz=band),
        lambda band: hlmtheory.sum_latency(**CELL, bandwidth_hz=band),
        lambda band: hlmtheory.finish_times(**CELL, shares=[0.5, 0.5], bandwidth_hz=band),
        lambda band: Rayleigh(1.0).latency_quantile(0.5, 1.0, band),
        lambda band: Rayleigh(1.0).mean_latency(1.0, band, outage=0.1),
    ],
)
def test_no_band_of_no_width(call, value):
    with pytest.raises(ValueError, match=r"^bandwidth_hz must be positive and finite; got "):
        call(value)


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("name", ["bits", "spectral_efficiency"])
@pytest.mark.parametrize("function", ["minmax_shares", "sum_shares", "uniform_gain"])
def test_no_user_without_bits_or_link(function, name, value):
    with pytest.raises(ValueError, match=rf"^{name} must be positive and finite; got .* at index \(1,\); "):
        getattr(hlmtheory, function)(**{**CELL, name: [1.0, value]})


@pytest.mark.parametrize("value", BAD)
def test_no_link_of_no_rate(value):
    with pytest.raises(ValueError, match=r"^rate_bps must be positive and finite"):
        hlmtheory.round_costs(value, bits_per_token=16)
    with pytest.raises(ValueError, match=r"^rate_bps must be positive and finite"):
        hlmtheory.synchronisation_time(3.2e9, value)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf])
@pytest.mark.parametrize("function", ["optimal_draft_length", "surrogate_draft_length"])
def test_no_acceptance_outside_the_unit_interval(function, value):
    with pytest.raises(ValueError, match=r"^acceptance must be in \[0, 1\]; got "):
        getattr(hlmtheory, function)(value, 1.0, 0.1, 8)
    with pytest.raises(ValueError, match=r"^acceptance must be in \[0, 1\]; got "):
        hlmtheory.draft_length_regret(value, 0.5, 1.0, 0.1, 8)
    with pytest.raises(ValueError, match=r"^believed must be in \[0, 1\]; got "):
        hlmtheory.draft_length_regret(0.5, value, 1.0, 0.1, 8)


@pytest.mark.parametrize("longest", [0, -1, 2.5])
@pytest.mark.parametrize("function", ["optimal_draft_length", "surrogate_draft_length"])
def test_no_longest_draft_below_one(function, longest):
    with pytest.raises(ValueError, match=r"^max_length must be a whole number, 1 or more; got "):
        getattr(hlmtheory, function)(0.8, 1.0, 0.1, longest)


def test_acceptances_of_none_and_of_all_are_no_error():
    """γ = 0 and γ = 1 are links as good as any: finite, and at the ends of what can be chosen."""
    gamma = np.array([0.0, 1.0])
    assert hlmtheory.optimal_draft_length(gamma, 1.0, 0.1, 8).tolist() == [1, 8]
    assert hlmtheory.optimal_draft_length(gamma, 1.0, 0.1, 8, min_length=0).tolist() == [0, 8]
    assert hlmtheory.optimal_draft_length(1.0, 0.1, 1.0, 8) == 1  # a draft that costs more than a round
    assert hlmtheory.surrogate_draft_length(gamma, 1.0, 0.1, 8).tolist() == [1, 8]
    assert hlmtheory.etgr(gamma, 8, 1.0, 0.125).tolist() == [0.5, 4.5]
    assert hlmtheory.draft_length_regret(gamma, gamma[::-1], 1.0, 0.1, 8).min() > 0
    assert hlmtheory.stationary_draft_length(gamma, 1.0, 0.1).tolist() == [-1.0, math.inf]
    for one, steps in ((0.0, 9), (1.0, 2)):
        assert hlmtheory.decoding_steps(9, one, 5) == steps
        ready = Service(SERVICE.draft, SERVICE.verify, SERVICE.draft_device, SERVICE.verify_device, one, SERVICE.memory)
        assert math.isfinite(hlmtheory.plan([Task(8, 8)] * 3, ready).latency)
