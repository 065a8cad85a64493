"""A device that drafts on while the server verifies: against simulated events, and against the theory's closed form."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from hlmtheory.wire import DevicePolicy, StreamedDevice, StreamedServer, StreamedTokens, threshold_rule
from validation.planning.option import SEALS
from validation.planning.rounds import COUNTS, expected_streaks
from validation.planning.setting import Setting, constant_link
from validation.planning.streamed import Streamed

TIMES = [(0.012, 0.030, 0.02), (0.030, 0.030, 0.0), (0.011, 0.025, 0.1), (0.040, 0.030, 0.02), (0.010, 0.030, 0.005)]


def events(good, draft_s, verify_s, half_s, air_s):
    """Return the seconds and passes of a text, draft by draft and pass by pass; ``good``: which drafts match."""
    clock, passes, place = 0.0, 0, 0
    while place < len(good):
        count = next((j for j in range(len(good) - place) if not good[place + j]), len(good) - place - 1)
        arrives = [clock + (j + 1) * draft_s + air_s + half_s for j in range(count + 1)]
        now, done = -np.inf, 0
        while done <= count:
            now = max(now, arrives[done])
            done = max(done + 1, sum(one < now - 1e-12 for one in arrives))  # one that comes with the start misses it
            now, passes = now + verify_s, passes + 1
        clock, place = now + half_s, place + count + 1
    return clock, passes


def of(alpha, length):
    found = expected_streaks(alpha, length)[None]
    return Streamed(found, np.array([length]), 96.0, 16.0, found.sum(axis=1)[:, None])


@pytest.mark.parametrize(("draft_s", "verify_s", "round_trip_s"), TIMES)
def test_the_time_of_a_text_is_that_of_simulated_events(draft_s, verify_s, round_trip_s):
    rng = np.random.default_rng(0)
    alpha, texts = rng.uniform(0.2, 1.0, 12), 4000
    setting = Setting(constant_link(1e5, round_trip_s, 1e18), draft_s, verify_s)
    option = of(alpha, 12).option(setting)
    found = [events(rng.random(12) < alpha, draft_s, verify_s, round_trip_s / 2, 96 / 1e5) for _ in range(texts)]
    said = float(setting.seconds(option.counts, 1e5)[0]), float(option.counts[0, COUNTS.index("passes")])
    for mine, own in zip(said, np.array(found).T, strict=True):
        assert abs(mine - np.mean(own)) < 4 * np.std(own) / np.sqrt(texts) + 1e-12


@pytest.mark.parametrize(("draft_ms", "verify_ms"), [(10, 30), (12, 30), (2, 5), (7, 21), (1, 3), (30, 30), (0.1, 0.3)])
def test_a_tie_of_drafts_and_passes_is_given_to_the_slower_side(draft_ms, verify_ms):
    """Where V/t_d is a ratio of small whole numbers a draft that is a little slower misses its pass."""
    rates = []
    for factor in (1.0, 1.0 + 1e-7, 1.0 - 1e-7):
        setting = Setting(constant_link(1e12, 0.01), draft_ms / 1e3 * factor, verify_ms / 1e3)
        rates.append(1.0 / float(setting.seconds(of(np.full(60, 0.675), 60).option(setting).counts, 1e12)[0]))
    assert rates[0] == pytest.approx(min(rates[1:]), rel=1e-6)


def test_the_row_applies_only_where_its_assumptions_hold():
    own = of(np.full(8, 0.5), 8)
    setting = Setting(constant_link(1e5, 0.02), 0.012, 0.030)
    assert own.option(setting) is not None
    slow = {"link": constant_link(7e3, 0.02)}  # 96 bits take 13.7 ms, and a draft 12
    for changed in ({"latency_s": 0.1}, {"energy_j": 1.0}, {"verify_token_s": 1e-6}, {"objective": "cost"}, slow):
        assert own.option(replace(setting, **changed)) is None


def test_the_counted_bits_are_those_of_the_sessions():
    rng, policy = np.random.default_rng(0), DevicePolicy(20, 1.0, threshold_rule(1), StreamedTokens(), bonus=False)
    known = {"session": b"text 0001", "key": b"k" * 16, "seed": 3, "position": 5}
    device, server = StreamedDevice(policy, **known), StreamedServer(policy, **known, used=set())
    message = device.draft(rng.normal(size=20))[1]
    server.receive(message)
    answer = server.verify(rng.dirichlet(np.ones(20), size=1))
    own = {"streaks": np.ones((1, 2)), "lengths": np.array([2]), "rejections": np.array([[0.25, 0.5]])}
    found = Streamed.of(SimpleNamespace(vocabulary=20, **own), SEALS["hmac"])
    assert found.message_bits == 8 * len(message)
    assert found.reply_bits - 8 <= 8 * len(answer) <= found.reply_bits  # it is counted with eight drafts
    assert found.least_cycles.tolist() == [[1.25, 1.5]]  # the last position ends the text, right or wrong


def least(good, draft_s, trip_s, verify_s):
    """The seconds of a text on the best server there is: it is always free, and reads each draft by itself."""
    clock, place = 0.0, 0
    while place < len(good):
        wrong = next((j for j in range(place, len(good)) if not good[j]), len(good) - 1)
        clock += (wrong - place + 1) * draft_s + trip_s + verify_s
        place = wrong + 1
    return clock


@pytest.mark.parametrize("draft_s", [0.005, 0.012, 0.05])
def test_no_device_that_drafts_on_is_faster_than_the_bound(draft_s):
    """Drafts that are accepted with 1 - T on a server without a queue meet it; with fewer matches, or a queue, none."""
    rng = np.random.default_rng(2)
    alpha, texts = rng.uniform(0.3, 1.0, 12), 3000
    setting = Setting(constant_link(1e6, 0.02, 1e18), draft_s, 0.030)
    cycles = np.array([1.0 + (1.0 - alpha[:-1]).sum()])
    own = Streamed(expected_streaks(0.9 * alpha, 12)[None], np.array([12]), 96.0, 16.0, cycles[:, None])
    bound = own.least_seconds(setting, np.array([0]))
    drawn = rng.random((texts, 12))
    best = np.array([least(row < alpha, draft_s, 0.02 + 88 / 1e6, 0.030) for row in drawn])
    assert abs(best.mean() - bound) < 4 * best.std() / np.sqrt(texts)
    queued = np.array([events(row < 0.9 * alpha, draft_s, 0.030, 0.01, 96 / 1e6)[0] for row in drawn])
    among = own.least_seconds(setting, np.array([0]), tokens_alone=False)
    assert bound < among < queued.mean() + 4 * queued.std() / np.sqrt(texts)
    assert among <= float(setting.seconds(own.option(setting).counts, 1e6)[0])
