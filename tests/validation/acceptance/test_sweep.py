"""Runs ranked by time and not by rate, what a simulator's setting keeps, and what is said before any number."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from tests.validation.acceptance.test_summary import of_places, record
from validation.acceptance.sanity import readings, sanity
from validation.acceptance.settings import ENGINES, flags, law_of_mean, slowest, synthetic, variance
from validation.acceptance.summary import summarise
from validation.acceptance.sweep import Point, rank
from validation.cli.commands import main


def run(*words):
    return CliRunner().invoke(main, ["acceptance", *map(str, words)])


def files_of(folder, contents):
    paths = [folder / name for name in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        path.write_text(json.dumps(content))
    return paths


def test_budgets_are_ranked_by_the_time_of_a_token(tmp_path):
    """Rates of .70, .41 and .21 by a budget of 4, 8 and 16; steps of 40, 44 and 61 ms."""
    names = ("completion_tokens", "spec_verify_ct", "spec_num_correct_drafts", "spec_num_proposed_drafts")
    counts = {"b4": (257, 83, 174, 249), "b8": (257, 66, 191, 462), "b16": (256, 61, 195, 915)}
    metas = {f"{name}.json": {"meta_info": dict(zip(names, row, strict=True))} for name, row in counts.items()}
    budgets = files_of(tmp_path, metas)
    found = json.loads(run(*budgets, "--sweep", "--step-ms", "40,44,61", "--json").stdout)
    assert [point["label"] for point in found["sweep"]] == ["b8", "b4", "b16"]
    assert [1e3 * point["seconds"] for point in found["sweep"]] == pytest.approx([11.3, 12.9, 14.5], abs=0.06)
    assert found["best"] is None  # 66 steps do not decide between 11.3 and 12.9
    assert "rates are not compared" in " ".join(found["findings"])
    assert json.loads(run(*budgets, "--sweep", "--json").stdout)["sweep"][0]["fastest"] is None  # no times
    assert "for each of the 3 files" in run(*budgets, "--sweep", "--step-ms", "40,44").output
    assert "give --sweep" in run(*budgets, "--step-ms", "40,44,61").output


def test_drafts_that_stop_by_confidence_are_ranked_by_their_own_times(tmp_path):
    """31 of 33 drafts, then 51 of 171: 1.97 and 5.25 tokens a step, but 6.2 and 14.2 ms a token."""
    names = ("predicted_n", "predicted_ms", "draft_n", "draft_n_accepted")
    rows = {"a.json": (64, 910.0, 171, 51), "b.json": (64, 398.0, 33, 31)}
    files = files_of(tmp_path, {name: {"timings": dict(zip(names, row, strict=True))} for name, row in rows.items()})
    stopping, fixed = json.loads(run(*files, "--sweep", "--json").stdout)["sweep"]
    assert (fixed["tokens"], stopping["tokens"]) == pytest.approx((5.25, 63 / 32))
    assert (1e3 * fixed["seconds"], 1e3 * stopping["seconds"]) == pytest.approx((910 / 64, 398 / 64))
    said = run(files[0], "--reconcile", files[1]).output
    assert all(part in said for part in ("Acceptance rates are not compared", "14.2 ms with A and 6.22 with B"))


def test_noise_leaves_no_winner_and_repeats_decide():
    rng = np.random.default_rng(4)
    equal = [[Point(label=label, seconds=rng.normal(1, 0.1)) for label in "aabbcc"] for _ in range(200)]
    assert sum(rank(runs, 0.95)[1] is not None for runs in equal) <= 30
    assert (
        rank([Point(label=x, seconds=s) for x, s in zip("aaabbb", (1, 1.02, 1.04, 1.5, 1.5, 1.6), strict=True)], 0.95)[
            1
        ]
        == "a"
    )
    none, every = Point(label="T = .3", steps=99, drafts=3, rate=0.0), Point(label="T = 0", tokens=4, drafts=3, rate=1)
    assert "Impossible for one pair" in rank([none, every], 0.95)[2][-1]


def test_a_simulator_keeps_a_mean_but_not_the_slowest_answer():
    """A mean of 2.6 tokens at K = 3: vLLM's form has variance .24, llama.cpp's one rate, .717, has 1.54."""
    least, one_rate = law_of_mean("vllm", 1.6, 3), law_of_mean("llama.cpp", 1.6, 3)
    assert (*least, 1 - one_rate[0]) == pytest.approx((0, 0.4, 0.6, 0, 0.717), abs=5e-4)
    assert [variance(least), variance(one_rate)] == pytest.approx([0.24, 1.54], abs=0.005)
    assert [slowest(least), slowest(one_rate)] == pytest.approx([24.7, 26.9], abs=0.05)
    ends = np.cumsum(1 + np.random.default_rng(0).choice(4, (3000, 8, 60), p=one_rate), axis=2) < 60
    assert (ends.sum(axis=2).max(axis=1) + 1).mean() == pytest.approx(slowest(one_rate), abs=0.1)
    law = (0.2383, 0.1459, 0.1033, 0.5125)
    settings = {engine: [form["setting"] for form in synthetic(engine, 1.89, 3, law)] for engine in ENGINES}
    assert '"synthetic_acceptance_rates": [0.7617, 0.6158, 0.5125]' in settings["vllm"][0]
    assert '"synthetic_acceptance_length": 2.89' in settings["vllm"][1]
    assert "--spec-synth-rates 0.7617,0.6158,0.5125" in settings["llama.cpp"][0]
    assert settings["tensorrt-llm"] == ["TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS=1.89"]  # the others take 2.89
    assert settings["sglang"][0].startswith("SGLANG_SIMULATE_ACC_LEN=2.89 ")
    schedule = ((1, 4, 3), (5, 8, 1), (9, 16, 0))
    assert '_per_batch_size": [[1, 4, 3], [5, 8, 1], [9, 16, 0]]' in flags("vllm", 3, schedule)
    assert "draft_len_schedule: {4: 3, 8: 1}" in flags("tensorrt-llm", 3, schedule)
    assert "steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4" in flags("sglang", 3, ())
    assert "serve without" in flags("vllm", 0, ((1, 1, 0),))


def said_of(*records):
    return " ".join(sanity(records, summarise(records)))


def test_what_is_impossible_or_a_mixture_is_said():
    assert "impossible for a draft model that resembles" in said_of(of_places(129, 387, 0, 0, 0))
    assert "impossible" not in said_of(of_places(9, 27, 0, 0, 0))
    assert "a cliff" in said_of(of_places(400, 2000, 300, 220, 0, 0, 0))
    assert "a cliff" not in said_of(of_places(400, 2000, 100, 20, 4, 0, 0))
    assert "nothing is verified" in said_of(of_places(60, 120, 60, 60))
    assert "mixture of easy and hard" in said_of(of_places(9000, 27000, 4000, 3600, 3300))
    passed = np.random.default_rng(2).binomial(50, 0.6, (40, 20)).tolist()
    alike = [said_of(*(record({1: (50 - a, a)}, source=str(i)) for i, a in enumerate(row))) for row in passed]
    assert sum("mixture" in said for said in alike) <= 1  # p = .001 each
    kinds = [record({1: (45, 5)}, source="code")] * 5 + [record({1: (5, 45)}, source="prose")] * 5
    assert "the requests are a mixture: first drafts are accepted 10% to 90%" in said_of(*kinds)
    assert "over requests" in said_of(record({3: (90, 0, 0, 10)}), record({3: (1, 0, 0, 9)}))


def test_identities_of_an_engine_hold_or_are_named():
    """Ten steps and five accepted drafts: an answer of 15 tokens, or 16 with that of the prompt's pass."""
    for tokens, part in ((15, "in 1 of 1"), (16, "in 1 of 1"), (30, "15 tokens more"), (13, "was cut"), (5, "wrongly")):
        said = said_of(of_places(10, 29, 3, 1, 1, num_spec_tokens=3, completion_tokens=tokens))
        assert part in said
        assert "1 of 30 are lacking" in said


def test_a_list_of_rates_is_named_or_read_in_three_ways(tmp_path):
    """Accuracies .76, .62, .51: 1.47 as conditional rates; as marginal ones between Fréchet's bounds."""
    (path,) = files_of(tmp_path, {"rates.json": [0.76, 0.62, 0.51]})
    said = " ".join(run(path).output.split())
    assert all(part in said for part in ("1.89 as survival", "1.47 as conditional", "1.14 to 1.89 as marginal"))
    assert "so they are not survival" in readings((0.5, 0.7))[0]
    for law in np.random.default_rng(0).dirichlet(np.full(8, 0.2), 50).reshape(-1, 2, 2, 2):
        rates = [law[1].sum(), law[:, 1].sum(), law[:, :, 1].sum()]
        accepted = law[1].sum() + law[1, 1].sum() + law[1, 1, 1]
        low, high = readings(rates, 0.0)[0].split(", ")[-1].split(" as marginal")[0].split(" to ")
        assert float(low) - 0.006 <= accepted <= float(high) + 0.006  # as printed
