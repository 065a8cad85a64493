"""Figure 8 and Table X of ours: both experiments on small cases, and what they stored agrees with itself."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from hlmtheory.draft_length import acceptance_by_depth, optimal_draft_length, single_rate
from hlmtheory.verification import expected_tokens, expected_tokens_profile
from validation.plots import EXHIBITS, draw
from validation.plots.ours.acceptance_by_depth import COVERAGE, REPLAY, coverage, replay

ROOT = Path(__file__).resolve().parents[3]
EXPERIMENT = ROOT / "figures" / "experiments" / "acceptance_by_depth"

sys.path.insert(0, str(EXPERIMENT))
simulation = importlib.import_module("acceptance_coverage")
data = importlib.import_module("acceptance_replay")
engines = importlib.import_module("adaptive_engines")
sys.path.remove(str(EXPERIMENT))

K = data.MAX_LENGTH
LENGTHS = np.arange(1, K + 1)


# ------------------------------------------------------------------------------------------------- the replay


def rounds_by_hand(emitted: list[int], lengths: list[int]) -> list[tuple[int, int]]:
    at, found = 0, []
    while at < len(emitted):
        k = lengths[len(found)]
        tokens = min(emitted[at], k + 1)
        found.append((k, tokens - 1))
        at += tokens
    return found


def texts(seed: int, chance: float = 0.35) -> Any:
    rng = np.random.default_rng(seed)
    return data.Texts(tuple(rng.geometric(chance, rng.integers(40, 100)) for _ in range(8)), 100.0)


@pytest.mark.parametrize("seed", range(4))
def test_replayed_rounds_are_those_by_hand(seed: int) -> None:
    rng = np.random.default_rng(seed)
    emitted = rng.geometric(0.3, 40)
    lengths = rng.integers(1, 8, 40)
    table = data.replay(emitted, lengths)
    for (k, i), count in np.ndenumerate(table):
        assert count == rounds_by_hand(emitted.tolist(), lengths.tolist()).count((k, i))


def test_tokens_a_round_are_those_of_the_rounds() -> None:
    some = texts(1)
    for k in (1, 4, K):
        rounds, _, accepted = data.sums(data.tables(some, k))
        by_hand = [i for one in some.lengths for _, i in rounds_by_hand(one.tolist(), [k] * len(one))]
        ours = data.mean_tokens(np.ones((1, len(some.lengths))), rounds, accepted)[0]
        assert ours == pytest.approx(1 + np.mean(by_hand))


def test_random_lengths_differ_by_round_and_repeat_by_seed() -> None:
    some = texts(2)
    one, again, other = (data.tables(some, None, seed) for seed in (3, 3, 4))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert (one.sum(axis=(0, 2)) > 0).sum() > K // 2


def test_costs_are_those_of_the_source() -> None:
    """A round of no draft over a cache of 100 tokens: 5.886 ms + 21 µs + 3.9 µs, the overhead, and EAGLE's 2.1 ms."""
    some = texts(1)
    fixed, marginal = data.costs(some, "eagle")["server"]
    assert fixed == pytest.approx(5.886e-3 + 2.101e-5 + 3.926e-6 + 1.207e-3 + 2.135e-3 + 2.378e-7)
    assert marginal == pytest.approx(2.101e-5 + 8.41e-7)
    fixed, marginal = data.costs(some, "eagle")["device"]
    assert fixed == pytest.approx(5.886e-3 + 2.101e-5 + 3.926e-6 + 1.207e-3)
    assert marginal == pytest.approx(5.02101e-3)
    assert data.costs(some, "ngram")["server"][0] == pytest.approx(1.005875 * 5.910936e-3 + 1.207e-3)


def test_a_study_of_a_small_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "RESAMPLES", 20)
    monkeypatch.setattr(data, "RANDOM_RUNS", 2)
    for number, name in enumerate(data.DATASETS):
        with gzip.open(tmp_path / f"combined_{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            for one in texts(5 + number, 0.1).lengths:
                record: dict[str, Any] = {f"acc_{draft}": {"acc_len": one.tolist()} for draft in data.DRAFTS}
                file.write(json.dumps(record | {"prompt_token_ids": [1], "generated_token_ids": [2, 3]}) + "\n")
    out = tmp_path / "out.json"
    monkeypatch.setattr(sys, "argv", ["acceptance_replay.py", str(tmp_path), "--out", str(out)])
    data.main()
    found = json.loads(out.read_text(encoding="utf-8"))
    assert set(found) == set(replay())
    assert found["data"]["EAGLE-3, gsm8k"]["tokens"] == found["data"]["n-gram, gsm8k"]["tokens"]
    assert found["data"]["EAGLE-3, gsm8k"].keys() == replay()["data"]["EAGLE-3, gsm8k"].keys()
    assert str(tmp_path) not in out.read_text(encoding="utf-8")


# ----------------------------------------------------------------------------------------------- what is stored


@pytest.mark.parametrize("name", replay()["data"])
def test_stored_numbers_agree_with_each_other(name: str) -> None:
    one = replay()["data"][name]
    true, depths = np.array(one["tokens"]["true"]), one["acceptance"]
    examined, accepted = np.array(depths["examined"]), np.array(depths["accepted"])
    assert examined[1:].tolist() == accepted[:-1].tolist()  # rounds of 15 drafts: every accepted draft has a next one
    np.testing.assert_allclose(depths["alpha"], accepted / examined, rtol=1e-3)
    assert float(expected_tokens_profile(accepted / examined)) == pytest.approx(true[-1], rel=1e-4)
    table = np.zeros((K + 1, K + 1), dtype=np.int64)
    table[K] = -np.diff([examined[0], *accepted, 0])
    exact = acceptance_by_depth(table)
    np.testing.assert_allclose(np.transpose(depths["exact_interval"]), [exact.low, exact.high], atol=1e-4)
    for at in data.FITTED_AT:
        rate = float(single_rate(true[at - 1] - 1, at))
        assert rate == pytest.approx(one["fits"][f"rate at {at}"], abs=1e-4)
        told = np.asarray(expected_tokens(rate, LENGTHS)) / true - 1
        np.testing.assert_allclose(one["errors"][f"rate at {at}"]["relative"], told, atol=2e-4)
    profile = 1 + np.cumsum(np.cumprod(accepted / examined))
    np.testing.assert_allclose(one["errors"]["profile at 15"]["relative"], profile / true - 1, atol=2e-4)
    split = np.asarray(data.by_split(table[K].astype(float)))
    np.testing.assert_allclose(one["errors"]["split"]["relative"], split / true - 1, atol=2e-4)


@pytest.mark.parametrize("name", replay()["data"])
def test_stored_choices_are_those_of_the_stored_rates(name: str) -> None:
    one = replay()["data"][name]
    for speed in one["speeds"].values():
        rate = np.array(one["tokens"]["true"]) / (speed["fixed_s"] + speed["marginal_s"] * LENGTHS)
        assert speed["tokens_per_s"] == pytest.approx(rate.max(), rel=1e-3)
        for kind, chosen in speed["chosen"].items():
            assert 1 - rate[chosen - 1] / rate.max() == pytest.approx(speed["loss"][kind], abs=1e-3)
            if kind in one["fits"]:
                best = int(optimal_draft_length(one["fits"][kind], speed["fixed_s"], speed["marginal_s"], K))
                assert abs(best - chosen) <= 1  # the stored numbers are rounded


def test_stored_files_are_aggregates_and_say_how_they_came_about() -> None:
    for path in (COVERAGE, REPLAY):
        found = json.loads(path.read_text(encoding="utf-8"))
        assert {"command", "commit", "seed", "seconds"} <= set(found)
        assert (ROOT / found["command"].split()[1]).exists()
    text = REPLAY.read_text(encoding="utf-8")
    assert "token_ids" not in text
    assert max(len(str(line)) for line in text.splitlines()) < 300
    assert replay()["sha256"]["combined_gsm8k.jsonl.gz"].startswith("c9dbb885")


# --------------------------------------------------------------------------------------------- the simulation


@pytest.mark.parametrize("number", [0, 7, 9, 10, 13, 15])
def test_fewer_repetitions_give_the_stored_coverage(number: int) -> None:
    setting = list(simulation.settings())[number]
    stored = coverage()["rows"][number]
    found = simulation.coverage(setting, np.random.default_rng(99), 500)
    assert (found["rounds_drawn"], found["lengths"], found["true_tokens"]) == (
        stored["rounds_drawn"],
        stored["lengths"],
        stored["true_tokens"],
    )
    for name, share in stored["coverage"].items():
        error = np.sqrt(share * (1 - share) / 500)
        assert found["coverage"][name] == pytest.approx(share, abs=5 * error + 0.01)


def test_by_depth_simulation_gives_the_law_of_a_round() -> None:
    """Counts of many rounds against P(k = k', L = i)."""
    rng = np.random.default_rng(1)
    table = simulation.by_depth(rng, np.array([400_000]), simulation.FALLING, simulation.UNIFORM)[0]
    chances = np.concatenate([[1.0], np.cumprod(simulation.FALLING)])
    longer = np.append(simulation.UNIFORM, 0.0)
    for d in range(1, simulation.DEPTH + 1):
        full = (longer[d - 1] - longer[d]) * chances[d]
        rejected = longer[d - 1] * (chances[d - 1] - chances[d])
        assert table[d, d] / 400_000 == pytest.approx(full, abs=0.004)
        assert table[simulation.DEPTH, d - 1] / 400_000 == pytest.approx(rejected, abs=0.004) or d == simulation.DEPTH


def test_the_truth_of_mixed_requests_is_a_mean_over_requests() -> None:
    rng = np.random.default_rng(2)
    chances = np.cumprod(simulation.shifted(simulation.FALLING, simulation.SPREAD * rng.normal(size=400_000)), axis=-1)
    mean = chances.mean(axis=0)
    told = simulation.mixed_truth(simulation.FALLING)
    np.testing.assert_allclose(told, mean / np.concatenate([[1.0], mean[:-1]]), atol=3e-3)


# --------------------------------------------------------------------------------------------- the exhibits


@pytest.mark.parametrize("number", ["8", "X"])
def test_an_exhibit_repeats_what_is_stored(number: str, tmp_path: Path) -> None:
    paths = draw(EXHIBITS["ours", number], None, tmp_path, command="hlm figure", seed=1, commit="c")
    found = json.loads(paths[0].read_text(encoding="utf-8"))
    assert found["kind"] == ("measured" if number == "8" else "measured counts × assumed times")
    if number == "8":
        for one in found["series"]:
            stored = replay()["data"][one["name"]]
            assert one["y"] == stored["acceptance"]["alpha"][: len(one["y"])]
            assert min(stored["acceptance"]["examined"][: len(one["y"])]) >= 50
            assert one["rate at 1"] == stored["errors"]["rate at 1"]["relative"]
        assert paths[1].stat().st_size > 1_000
    else:
        assert [len(table["rows"]) for table in found["tables"]] == [6, 24, 16, 10]
        assert all(len(row) == len(table["heads"]) for table in found["tables"] for row in table["rows"])
        stats = found["statistics"]["coverage"]
        assert stats["band_least"] >= 0.95
        assert stats["exact_least"] >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / 10_000)


# ------------------------------------------------------------------------------------------- engines that adapt


@pytest.mark.parametrize("kind", engines.RULES)
def test_the_anytime_interval_holds_for_engines_that_adapt(kind):
    """After every round at once; a share below 95% by chance occurs with probability 1e-6 at most."""
    found = engines.simulate(engines.RULES[kind], 200, np.random.default_rng(7))
    least = binom.ppf(1e-6, 200, 0.95) / 200
    assert found["ever"]["anytime"] >= least
    assert min(found["checkpoints"]["anytime"].values()) >= least


def test_the_exact_interval_does_not_hold_for_an_engine_that_stops_a_depth():
    rule = engines.RULES["stops a depth when its upper limit is below 1/2"]
    found = engines.simulate(rule, 200, np.random.default_rng(7))
    assert found["checkpoints"]["exact"]["1000"] < binom.ppf(1e-6, 200, 0.95) / 200


@pytest.mark.parametrize("method", ["exact", "anytime"])
def test_counts_of_an_engine_give_back_what_was_examined_and_accepted(method):
    examined, accepted = np.array([[9, 5, 2], [4, 0, 0]]), np.array([[6, 3, 2], [1, 0, 0]])
    found = acceptance_by_depth(engines.counts_of(examined, accepted), method=method)
    assert found.examined.tolist() == examined.tolist()
    assert found.accepted.tolist() == accepted.tolist()
