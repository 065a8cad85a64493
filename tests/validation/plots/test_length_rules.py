"""The replay of draft-length rules on small cases, and what it stored agrees with itself and with the simulator.

The replay is an experiment outside the package, ``figures/experiments/length_rules``.
"""

from __future__ import annotations

import gzip
import importlib
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlmtheory.draft_length import AcceptanceTracker, optimal_draft_length, surrogate_draft_length

ROOT = Path(__file__).resolve().parents[3]
EXPERIMENT = ROOT / "figures" / "experiments" / "length_rules"

sys.path.insert(0, str(EXPERIMENT))
source = importlib.import_module("source_data")
rules = importlib.import_module("length_rules")
speedups = importlib.import_module("simulator_speedups")
sys.path.remove(str(EXPERIMENT))

STORED = json.loads((EXPERIMENT / "length_rules.json").read_text(encoding="utf-8"))
SPEEDUPS = json.loads((EXPERIMENT / "simulator_speedups.json").read_text(encoding="utf-8"))
OUTPUT = json.loads((EXPERIMENT / "simulator_output.json").read_text(encoding="utf-8"))
TIMES = source.RoundTimes(0.03, 1e-6, 0.005)


def request(seed: int, tokens: int = 60, chance: float = 0.3) -> Any:
    """A request with lengths that are not consistent from one token to the next."""
    rng = np.random.default_rng(seed)
    return source.Request(int(rng.integers(5, 50)), tuple(rng.geometric(chance, tokens).tolist()))


# ------------------------------------------------------------------------------------------------------ the replay


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("length", [1, 4, 15])
def test_a_fixed_length_is_replayed_by_hand(seed, length):
    one = request(seed)
    place, rounds, cached = 0, 0, 0
    while place + 1 < len(one.emitted):
        rounds, cached = rounds + 1, cached + one.prompt + 1 + place
        place += min(one.emitted[place], 1 + length)
    assert rules.replay(one, lambda *_: length) == (rounds, cached, rounds * length)
    assert rules.fixed_sums([one])[length - 1, 0].tolist() == [rounds, cached, rounds * length]
    assert rules.counts(one, length).sum() == rounds


@pytest.mark.parametrize(("fixed", "marginal"), [(0.03, 0.005), (0.1, 0.02), (0.01, 2e-5), (0.004, 0.005)])
def test_lengths_by_threshold_are_those_of_the_theory(fixed, marginal):
    rates = np.random.default_rng(1).random(300)
    for choose in (optimal_draft_length, surrogate_draft_length):
        ends = rules.thresholds(lambda g, choose=choose: choose(g, fixed, marginal, rules.MAX_LENGTH))
        ours = [1 + rules.bisect_right(ends, g) for g in rates]
        assert ours == np.asarray(choose(rates, fixed, marginal, rules.MAX_LENGTH)).tolist()


@pytest.mark.parametrize(
    ("rule", "method", "choose"),
    [
        ("flexspec as printed", "ema_printed", surrogate_draft_length),
        ("printed average, K*", "ema_printed", optimal_draft_length),
        ("moving average, K*", "consistent", optimal_draft_length),
    ],
)
def test_the_averages_are_those_of_the_tracker(rule, method, choose):
    """Every length of a request, by AcceptanceTracker and the public function."""
    fixed, marginal = 0.03, 0.005
    one, seen = request(4, 200), []
    inner = rules.causal_rules(fixed, marginal)[rule]()
    rules.replay(one, lambda *last: seen.append(inner(*last)) or seen[-1])
    tracker, place, expected = AcceptanceTracker(step=rules.STEP, method=method), 0, []
    while place + 1 < len(one.emitted):
        length = int(choose(tracker.estimate, fixed, marginal, rules.MAX_LENGTH))
        tokens = min(one.emitted[place], length + 1)
        tracker, place = tracker.update(tokens - 1, length), place + tokens
        expected.append(length)
    assert seen == expected
    assert len(set(seen)) > 1


def test_the_stepwise_rule():
    choose = rules.stepwise()
    assert [choose(0, 0), choose(5, 5), choose(7, 2), choose(6, 6), choose(8, 0)] == [5, 7, 6, 8, 7]
    assert (choose(1, 0), choose(15, 15)) == (1, 15)


@pytest.mark.parametrize("seed", range(5))
def test_the_least_time_is_that_of_all_sequences(seed, monkeypatch):
    monkeypatch.setattr(rules, "MAX_LENGTH", 3)
    one = request(seed, 7, 0.4)

    def all_times(at: int) -> list[float]:
        if at + 1 >= len(one.emitted):
            return [0.0]
        found = []
        for k in range(4):
            here = TIMES.base + TIMES.cached * (one.prompt + at + 1) + TIMES.draft * k
            found += [here + rest for rest in all_times(at + min(one.emitted[at], k + 1))]
        return found

    assert rules.least_seconds(one, TIMES) == pytest.approx(min(all_times(0)), rel=1e-12)
    clairvoyant = float(rules.seconds(np.array(rules.oracle(one), dtype=float), TIMES))
    assert rules.least_seconds(one, TIMES) <= clairvoyant + 1e-15


def test_accepting_all_that_fits_is_not_always_fastest():
    """Two of three drafts lead to a token from where three more are accepted; all three lead to one without any."""
    one = source.Request(1, (3, 4, 1, 1, 1, 1))
    clairvoyant = float(rules.seconds(np.array(rules.oracle(one), dtype=float), TIMES))
    assert rules.least_seconds(one, TIMES) < 0.8 * clairvoyant


def test_folds_are_fitted_on_the_others():
    """One request is easy and all others hard: its length is chosen from the hard ones."""
    easy, hard = source.Request(5, (16,) * 60), source.Request(5, (1,) * 60)
    requests = [easy, *[hard] * 9]
    sums = rules.fixed_sums(requests)
    tables = {k: np.stack([rules.counts(one, k) for one in requests]) for k in (1, 5, 15)}
    found = rules.fitted_sums(sums, tables, np.full(10, 59.0), np.arange(10), TIMES)
    for one in found.values():
        assert one[0].tolist() == sums[0, 0].tolist()


def test_a_study_of_small_files(tmp_path, monkeypatch):
    monkeypatch.setattr(rules, "RESAMPLES", 20)
    for dataset in source.DATASETS:
        with gzip.open(source.path_of(tmp_path, dataset), "wt", encoding="utf-8") as file:
            for seed in range(12):
                one = request(seed)
                accepted = {f"acc_{drafter}": {"acc_len": one.emitted} for drafter in source.DRAFTERS}
                file.write(json.dumps(accepted | {"prompt_token_ids": [1] * one.prompt}) + "\n")
    out = tmp_path / "out.json"
    monkeypatch.setattr(sys, "argv", ["length_rules.py", str(tmp_path), "--out", str(out)])
    rules.main()
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found.keys() == STORED.keys()
    assert found["data"].keys() == STORED["data"].keys()
    assert str(tmp_path) not in out.read_text(encoding="utf-8")
    assert (tmp_path / "out.svg").read_bytes().startswith(b"<?xml")


# ------------------------------------------------------------------------------------------------ what is stored


@pytest.mark.parametrize("name", STORED["data"])
def test_stored_regrets_follow_from_the_speeds(name):
    for setting in STORED["data"][name]["settings"].values():
        found = setting["rules"]
        best = found[f"fixed {setting['best']}"]
        assert best["regret"] == 0
        for one in found.values():
            assert one["regret"] == pytest.approx(1 - one["tokens_per_s"] / best["tokens_per_s"], abs=2e-4)
            low, high = one["interval"]
            assert low - 0.003 <= one["regret"] <= high + 0.003
        assert all(one["regret"] >= 0 for rule, one in found.items() if rule.startswith("fixed "))
        assert found["least time"]["regret"] <= min(one["regret"] for one in found.values())
        assert {f"fixed {k}" for k in range(1, 9)} <= found.keys()


def test_the_stored_replay_used_the_published_files():
    assert STORED["sha256"] == SPEEDUPS["sha256"]
    assert [one["requests"] for one in STORED["data"].values()] == [300, 300, 500, 500]


# ------------------------------------------------------------------------------------------------ the simulator


def test_the_stored_speedups_are_the_simulators():
    assert len(SPEEDUPS["speedups"]) == 2 * 2 * 4 * len(OUTPUT["batches"])
    for row in SPEEDUPS["speedups"]:
        told = OUTPUT["speedups"][f"{row['drafter']}, {row['dataset']}"][row["method"]][str(row["batch"])]
        assert row["simulator"] == told
        assert row["ours"] == pytest.approx(told, rel=0.01)


@pytest.mark.parametrize("batch", [1, 3])
def test_decoding_without_drafts_is_summed_step_by_step(batch):
    one = request(1, 20)
    cached, total = batch * (one.prompt + 1), speedups.target_pass(0, batch * one.prompt) + source.OVERHEAD_S
    for _ in one.emitted[1:]:
        total += speedups.target_pass(cached, batch) + source.OVERHEAD_S
        cached += batch
    assert speedups.plain_seconds(one, batch) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize(("length", "batch"), list(itertools.product([1, 5, None], [1, 4])))
def test_the_mean_of_the_matches_is_that_of_draws(length, batch):
    """The mean time over drawn matches of all copies, as the simulator draws them."""
    one, match, rng = request(2, 15, 0.6), 0.3, np.random.default_rng(3)
    drawn = []
    for _ in range(4000):
        total, at = speedups.target_pass(0, batch * one.prompt) + source.OVERHEAD_S, 0
        while at + 1 < len(one.emitted):
            accepted = one.emitted[at]
            sent = accepted if length is None else length + 1
            missed = (rng.random(batch) >= match) if accepted == 1 and length is not None else np.zeros(batch, bool)
            sizes = np.where(missed, 1, sent)
            verify = speedups.target_pass(batch * (one.prompt + at + 1), sizes.sum())
            total += verify + source.OVERHEAD_S + float(np.mean(sizes > 1)) * source.NGRAM_SHARE * verify
            at += min(accepted, sent)
        drawn.append(total)
    ours = speedups.drafted_seconds(one, "ngram", length, batch, match)
    assert ours == pytest.approx(np.mean(drawn), abs=6 * np.std(drawn) / 60 + 1e-12)


def test_one_round_of_eagle_by_hand():
    """Prompt of 100, then a round that drafts 3 and accepts 2: 3 tokens, so 4 with the prefill's."""
    one = source.Request(100, (3, 1, 1, 1))
    prefill = 5.88590713e-3 + 100 * 2.10103129e-5 + 1.20683946e-3
    verify = 5.88590713e-3 + 4 * 2.10103129e-5 + 101 * 3.92645679e-8
    drafts = 2.13526175e-3 + 4 * 8.41429603e-7 + 101 * 2.37768493e-9
    assert speedups.drafted_seconds(one, "eagle", 3, 1, 0.2) == pytest.approx(
        prefill + verify + drafts + 1.20683946e-3, rel=1e-12
    )
    times = source.round_times("eagle")
    round_3 = verify + drafts + 1.20683946e-3
    assert times.base + 101 * times.cached + 3 * times.draft == pytest.approx(round_3, rel=1e-12)
