"""Logs and means without counts, runs ranked by time, simulators' settings, and what is said before any number."""

import json

import numpy as np
import pytest

from tests.validation.acceptance.test_engines import FIRST, records_of, statistics, stored, window
from tests.validation.acceptance.test_reconcile import run
from tests.validation.acceptance.test_summary import of_places, record
from validation.acceptance.engines import read_acceptance
from validation.acceptance.means import read_means
from validation.acceptance.record import write_records
from validation.acceptance.sanity import readings, sanity
from validation.acceptance.settings import flags, law_of_mean, slowest, synthetic, variance
from validation.acceptance.summary import summarise
from validation.acceptance.sweep import Point, rank
from validation.errors import UserError

NOTHING = "INFO SpecDecoding metrics: Mean acceptance length: nan, Accepted: 0 tokens, Drafted: 0 tokens, rate: nan\n"
LOG = window(23, FIRST) + NOTHING + window(55, (38, 23, 21, 10, 7, 4, 3))


def said_of(*records):
    return " ".join(sanity(records, summarise(records)))


def test_windows_of_a_log_add_up_to_the_counts_of_a_scrape(tmp_path):
    """161 drafts of 23 steps show little; 27.3% of all drafts are 1.91 of 7."""
    docker = "".join(json.dumps({"log": line}) + "\n" for line in LOG.splitlines(keepends=True))
    for text in (LOG, docker):
        (one,) = records_of(stored(tmp_path, "server.log", text))
        assert (one.num_spec_steps, one.accepted_per_position) == (78, (55, 34, 27, 14, 10, 6, 4))
    said = said_of(*records_of(stored(tmp_path, "short.log", window(23, FIRST))))
    assert all(part in said for part in ("27.3% of all drafts, 1.91 of 7", "23 steps show little"))


def test_counts_are_found_from_rounded_rates(tmp_path):
    """Exactly where a digit is finer than a step; else up to the digit. Also where the last draft was cut short."""
    for steps, longest in ((1, 4), (7, 9), (100, 1), (499, 9), (5000, 4)):
        places = np.cumprod(np.random.default_rng(steps).random((steps, longest)) < 0.7, axis=1).sum(axis=0)
        for drafted in {steps * longest, max(steps * longest - longest + 1, int(places.sum()))}:
            (one,) = records_of(stored(tmp_path, "a.log", window(steps, places.tolist(), drafted)))
            assert one.num_spec_steps == steps
            assert np.abs(np.array(one.accepted_per_position) - places).max() <= 0.001 * steps * (steps > 499)


def test_logs_of_several_servers_and_of_parts(tmp_path):
    several = window(23, FIRST, prefix="a-1  | INFO") + window(23, FIRST, prefix="b-1  | INFO")
    assert [one.engine for one in records_of(stored(tmp_path, "a.log", several))] == ["vllm a-1", "vllm b-1"]
    said = run(tmp_path / "a.log", "--only", "b-1", "--json").stdout
    assert "b-1 of 7 drafts" in said
    assert "a-1 of" not in said
    for prefix in ("(ApiServer_1 pid=7)", "[pod/vllm-0/server]"):
        ranks = read_acceptance(stored(tmp_path, "c.log", LOG + window(23, FIRST, prefix=f"{prefix} INFO")))
        assert (ranks.records[0].num_spec_steps, "2 server processes" in ranks.notes[0]) == (101, True)
    cut = read_acceptance(stored(tmp_path, "d.log", LOG[:-60]))
    assert (cut.records[0].num_spec_steps, "cut off" in cut.left_out[0].reason) == (23, True)
    for text, said in (
        (window(23, FIRST).replace("Mean acceptance", "Other").rstrip(), "lacks Mean acceptance length, as older"),
        ("served_model_name=one,\nserved_model_name=two,\n" + LOG, r"serves 2 models \(one, two\)"),
        (LOG.replace("Accepted: 44", "Accepted: 45"), "no number of steps gives 45 accepted of 161"),
        (LOG + window(10, (5, 2)), "2 largest draft lengths"),
    ):
        with pytest.raises(UserError, match=said):
            summarise(records_of(stored(tmp_path, "e.log", text)))
    early, late = statistics("draft-mtp", 20, 60, (15, 9, 4)), statistics("draft-mtp", 50, 150, (40, 22, 9))
    (one,) = records_of(stored(tmp_path, "f.log", late + early))  # the server of llama.cpp was restarted
    assert (one.num_spec_steps, one.num_accepted_draft_tokens) == (70, 99)
    both = records_of(stored(tmp_path, "g.log", early + late + statistics("ngram-mod", 8, 24, (3, 3, 3))))
    assert [(one.counts()[3], one.copied) for one in both] == [((10, 18, 13, 9), False), ((5, 0, 0, 3), True)]


def test_means_have_no_interval_and_the_nearest_curve_does_not_fall(tmp_path):
    golden = (
        "dataset: coding\nmodel:\n off:\n  1: 1.81\n  2: 2.47\n  3: 2.95\n  4: 3.33\n  5: 3.52\n  6: 3.49\n  7: 3.71\n"
    )
    found = read_means(stored(tmp_path, "golden.yaml", golden))
    assert [point.nearest for point in found.points][3:] == pytest.approx([3.33, 3.505, 3.505, 3.71])
    assert "falls at K = 6 (3.52 to 3.49)" in found.remarks[0]
    for text, said in ((golden.replace("2.47", "3.2"), "emits 1 to 3"), (golden.replace("1.81", "0.81"), "AL - 1")):
        with pytest.raises(UserError, match=said):
            read_means(stored(tmp_path, "c.yaml", text))
    with pytest.raises(UserError, match="means without counts"):
        read_acceptance(stored(tmp_path, "d.yaml", golden))
    assert read_means(stored(tmp_path, "e.json", {"per_position_acceptance_rates": [0.6, 0.5]})).rates == (0.6, 0.5)
    assert read_means(stored(tmp_path, "g.json", {"acceptance_rates": [True, 0.5]})) is None
    with pytest.raises(UserError, match="a log without lines of drafts"):
        read_acceptance(stored(tmp_path, "f.log", "INFO Engine 000: Avg prompt throughput: 10.1 tokens/s\n"))
    found = read_means(stored(tmp_path, "m.csv", "Model,coding,math,qa,Overall\nm,2.34,N/A,2.06,2.2\n"))
    assert [(point.name, point.length) for point in found.points][::2] == [("m coding", 2.34), ("m Overall", 2.2)]
    assert "Overall is the plain mean of categories" in found.remarks[0]
    bench = "[DT] AVERAGE: 600.00\n[ADT] AVERAGE: 240.00\n[DAR] AVERAGE: 0.44\n[AL] AVERAGE: 2.32\n"
    tables = {"draft_acceptance_rate": 0.44, "acceptance_length": 2.32}
    tables = {f"{name}_percentiles": {"p50": 0.5, "average": mean} for name, mean in tables.items()}
    for name, text in (("b.log", bench), ("b.json", json.dumps({"decoding_stats": tables}))):
        points = [(point.draft_length, point.length) for point in read_means(stored(tmp_path, name, text)).points]
        assert points == [(3, 2.32), (3, 2.2)][: 1 + (name == "b.log")]
    assert read_means(stored(tmp_path, "old.log", "[AR] AVERAGE: 2.32\n")).points[0].length == 2.32
    log = "Decode batch, #running-req: {}, #token: 257, accept len: {}, accept rate: {}, gen throughput (token/s): 9\n"
    for rates in ((0.61, 0.45), (0.71, 0.59)):  # accepted over drafts; in older versions of SGLang tokens over K + 1
        lines = log.format(1, 2.83, rates[0]) + log.format(3, 2.35, rates[1])
        (point,) = read_means(stored(tmp_path, "s.log", lines)).points
        assert (point.length, point.draft_length) == (2.47, 3)
    slow = log.format(1, 2.6, 0.32) + log.format(1, 2.5, 0.3).replace("9\n", "8\n")
    files = [stored(tmp_path, name, text) for name, text in (("three.log", lines), ("five.log", slow))]
    with pytest.raises(UserError, match="means without counts"):
        read_acceptance(stored(tmp_path, "dated.log", f"[2026-06-11 09:12:02] {lines}"))
    first = json.loads(run(*files, "--sweep", "--json").stdout)["sweep"][0]
    assert (first["label"], first["runs"], first["seconds"]) == ("five", 2, pytest.approx((1 / 9 + 1 / 8) / 2))
    repeats = [Point(label="two", seconds=2.0), Point(label="two", seconds=2.0)]
    (single, _), *_ = rank([Point(label="one", seconds=1.0, noise=0.1), *repeats], 0.95)
    assert single.noise == 0.1  # beside repeats that do not differ


def test_runs_are_ranked_by_the_time_of_a_token(tmp_path):
    """Rates of .70, .41 and .21 by budget; then drafts that stop by confidence: 1.97 tokens a step, but 6.2 ms each."""
    names, files = ("completion_tokens", "spec_verify_ct", "spec_num_correct_drafts", "spec_num_proposed_drafts"), []
    for name, *row in (("b4", 257, 83, 174, 249), ("b8", 257, 66, 191, 462), ("b16", 256, 61, 195, 915)):
        files.append(stored(tmp_path, f"{name}.json", {"meta_info": dict(zip(names, row, strict=True))}))
    found = json.loads(run(*files, "--sweep", "--step-time", "40ms,44ms,61ms", "--json").stdout)
    assert [point["label"] for point in found["sweep"]] == ["b8", "b4", "b16"]
    assert [1e3 * point["seconds"] for point in found["sweep"]] == pytest.approx([11.3, 12.9, 14.5], abs=0.06)
    assert (found["best"], "rates are not compared" in found["findings"][-1]) == (None, True)  # 66 steps do not decide
    assert json.loads(run(*files, "--sweep", "--json").stdout)["sweep"][0]["fastest"] is None  # no times
    assert "for each of the 3 files" in run(*files, "--sweep", "--step-time", "40ms,44ms").output
    assert "--speed 50 has no unit" in run(*files, "--sweep", "--speed", "50,60,70").output
    speeds = json.loads(run(*files, "--sweep", "--speed", "50/s,40/s,80/s", "--json").stdout)["sweep"]
    assert [point["seconds"] for point in speeds] == pytest.approx([1 / 80, 1 / 50, 1 / 40])
    names, files = ("predicted_n", "predicted_ms", "draft_n", "draft_n_accepted"), []
    for row in ((64, 910.0, 171, 51), (64, 398.0, 33, 31)):
        files.append(stored(tmp_path, f"{row[2]}.json", {"timings": dict(zip(names, row, strict=True))}))
    assert [x["tokens"] for x in json.loads(run(*files, "--sweep", "--json").stdout)["sweep"]] == [63 / 32, 5.25]
    said = run(files[0], "--reconcile", files[1]).output
    assert all(part in said for part in ("Acceptance rates are not compared", "14.2 ms with A and 6.22 with B"))


def test_noise_leaves_no_winner_and_repeats_decide():
    rng = np.random.default_rng(4)
    equal = [[Point(label=label, seconds=rng.normal(1, 0.1)) for label in "aabbcc"] for _ in range(200)]
    assert sum(rank(runs, 0.95)[1] is not None for runs in equal) <= 30
    apart = [Point(label=label, seconds=s) for label, s in (("a", 1), ("a", 1.03), ("a", 1.01), ("b", 1.5), ("b", 1.6))]
    assert rank(apart, 0.95)[1] == "a"
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
    law, schedule = (0.2383, 0.1459, 0.1033, 0.5125), ((1, 4, 3), (5, 8, 1), (9, 16, 0))
    parts = {
        "vllm": (
            'rates": [0.7617, 0.6158, 0.5125]',
            '"synthetic_acceptance_length": 2.89',
            "[[1, 4, 3], [5, 8, 1], [9, 16",
        ),
        "sglang": (
            "SGLANG_SIMULATE_ACC_LEN=2.89 ",
            "steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
        ),
        "llama.cpp": ("--spec-synth-rates 0.7617,0.6158,0.5125", "--spec-draft-n-max 3"),
        "tensorrt-llm": ("FORCE_NUM_ACCEPTED_TOKENS=1.89", "draft_len_schedule: {4: 3, 8: 1}"),
    }
    for engine, wanted in parts.items():
        written = [form["setting"] for form in synthetic(engine, 1.89, 3, law)]
        assert all(part in " ".join([*written, flags(engine, 3, schedule)]) for part in wanted)


def test_what_is_impossible_or_a_mixture_is_said(tmp_path):
    assert "impossible for a draft model that resembles" in said_of(of_places(129, 387, 0, 0, 0))
    assert "impossible" in said_of(of_places(306, 918, 1, 1, 1))
    assert "impossible" not in said_of(of_places(9, 27, 0, 0, 0)) + said_of(of_places(306, 918, 1, 1, 1, copied=True))
    assert "a cliff" in said_of(of_places(400, 2000, 300, 220, 0, 0, 0))
    assert "a cliff, or chance: of 4 drafts at depth 6" in said_of(of_places(65, 520, 39, 25, 14, 7, 4, 0, 0, 0))
    assert "a cliff" not in said_of(of_places(400, 2000, 100, 20, 4, 0, 0))
    assert "nothing is verified" in said_of(of_places(60, 120, 60, 60))
    assert "mixture of easy and hard" in said_of(of_places(9000, 27000, 4000, 3600, 3300))
    passed = np.random.default_rng(2).binomial(50, 0.6, (40, 20)).tolist()
    assert sum("mixture" in said_of(*(record({1: (50 - a, a)}) for a in row)) for row in passed) <= 1  # p = .001 each
    kinds = [record({1: (45, 5)})] * 5 + [record({1: (5, 45)})] * 5
    assert "the requests are a mixture: first drafts are accepted 10% to 90%" in said_of(*kinds)
    assert "over requests" in said_of(record({3: (90, 0, 0, 10)}), record({3: (1, 0, 0, 9)}))
    each = [
        record({1: (10, a)}, category=kind) for kind, row in (("math", (40, 38, 45)), ("prose", (5, 7, 4))) for a in row
    ]
    assert "categories are a mixture: first drafts are accepted 80% (math), 35% (prose)" in said_of(*each * 4)
    write_records(each, tmp_path / "each.jsonl")
    assert "153 steps of 3 records" in run(tmp_path / "each.jsonl", "--only", "math").output
    assert "differ no more than requests do" in said_of(*each)  # six requests show no more
    for tokens, part in ((15, "in 1 of 1"), (16, "in 1 of 1"), (30, "up to 15 more"), (13, "was cut"), (5, "wrongly")):
        said = said_of(of_places(10, 29, 3, 1, 1, num_spec_tokens=3, completion_tokens=tokens))
        assert (part in said, "1 of 30 are lacking" in said) == (True, True)


def test_a_list_of_rates_is_named_or_read_in_three_ways(tmp_path):
    """Accuracies .76, .62, .51: 1.47 as conditional rates; as marginal ones between Fréchet's bounds."""
    said = " ".join(run(stored(tmp_path, "rates.json", [0.76, 0.62, 0.51])).output.split())
    assert all(part in said for part in ("1.89 as survival", "1.47 as conditional", "1.14 to 1.89 as marginal"))
    assert "so they are not survival" in readings((0.5, 0.7))[0]
    assert ["exactly 0 from depth 3" in said for said in readings((0.6, 0.4, 0.0, 0.0))] == [False, True]
