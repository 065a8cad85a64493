"""The command ``hlm acceptance``."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests.validation.acceptance.test_engines import stored
from tests.validation.acceptance.test_reconcile import run
from validation.acceptance.engines import read_acceptance
from validation.acceptance.passes import read_passes
from validation.cli.commands import main

ROOT = Path(__file__).parents[3]
LOG = ROOT / "examples" / "server.log"
TIMES = ("--verify-time", "30ms", "--draft-time", "5ms", "--rtt", "5ms")


@pytest.fixture
def answers(tmp_path):
    one = {"num_spec_steps": 10, "num_accepted_draft_tokens": 8, "num_draft_tokens": 20}
    one = json.dumps(
        {"metrics": {"speculative_decoding": one | {"acceptance_histogram_by_draft_length": {"2": [5, 2, 3]}}}}
    )
    return stored(tmp_path, "answers.jsonl", "\n".join([one] * 3))


def test_copied_drafts_are_counted_by_splitting_rounds(tmp_path):
    """12 rounds of 7 drafts, a quarter of which accept all; the depths would say 1.25 tokens at one draft."""
    meta = {"spec_verify_ct": 12, "spec_correct_drafts_histogram": [9, 0, 0, 0, 0, 0, 0, 3]}
    words = (
        stored(tmp_path, "a.json", {"meta_info": meta}),
        *["--draft-length", "7", "--verify-time", "30ms", "--draft-time", "5ms"],
    )
    unmarked, copied = (json.loads(run(*words, *more, "--json").stdout) for more in ((), ("--drafts", "copied")))
    assert (unmarked["best"], copied["best"]) == (7, 3)
    assert (unmarked["best_is_longest"], copied["best_is_longest"]) == (True, False)
    assert copied["not_told_apart"] is None  # the intervals are of another law
    assert copied["lengths"][2]["tokens_per_second"] == pytest.approx(33 / (9 + 3 * 2) / 0.045)


def settings_of(*words):
    found = json.loads(run(*words, "--settings", "vllm", "--json").stdout)["settings"]
    return json.loads(found.partition("'")[2].rstrip("'"))


def test_the_schedule_is_written_for_vllm():
    """Three drafts make 2.45 tokens in 39 + 1.2 B ms, two 2.18 in 36 + 0.9 B: the third pays below a batch of 7.7."""
    words = (LOG, "--verify-time", "30ms", "--draft-time", "3ms", "--verify-token-time", "300us", "--batch", "32")
    found = {"num_speculative_tokens": 3, "num_speculative_tokens_per_batch_size": [[1, 7, 3], [8, 32, 2]]}
    assert settings_of(*words) == settings_of(*words, "--drafts", "greedy") == found  # vLLM drafts greedily by default
    assert settings_of(*words, "--drafts", "sampled") == found | {"draft_sample_method": "probabilistic"}


@pytest.mark.parametrize("most", [3, 6])
def test_lengths_not_told_apart_are_those_of_each_batch_alone(most, monkeypatch):
    monkeypatch.setattr("validation.cli.acceptance._MOST_TIED", most)
    words = (LOG, "--verify-time", "30ms", "--draft-time", "3ms", "--verify-token-time", "300us", "--batch", "400")
    found, k = json.loads(run(*words, "--json").stdout), np.arange(6)
    ends = [np.array([1.0, *(one[end] for one in found["lengths"])]) for end in ("low", "high")]
    alone = [[int((end / (30 + 3 * k + 0.3 * b * (k + 1))).argmax()) for end in ends] for b in range(1, 401)]
    assert [both for first, last, *both in found["not_told_apart_by_batch"] for _ in range(first, last + 1)] == alone
    ranges = re.findall(r"(\d)\s+to\s+(\d)\s+\((?:batch\s+)?(\d+)(?:\s+to\s+(\d+))?\)", run(*words).output)
    printed = {n: [int(low), int(high)] for low, high, a, b in ranges for n in range(int(a), int(b or a) + 1)}
    tied = {n: both for n, both in enumerate(alone, start=1) if both[0] < both[1]}
    assert (len(ranges), printed.items() <= tied.items(), printed == tied) == (most, True, most == 6)


def test_files_with_other_marks_are_not_mixed(answers, tmp_path):
    for name, rule in (("a.jsonl", "standard"), ("b.jsonl", "fly")):
        assert run(answers, "--verification", rule, "--records", tmp_path / name, *TIMES).exit_code == 0
        assert [one.counts() for one in read_acceptance(tmp_path / name).records] == [{2: (5, 2, 3)}] * 3
    both = (tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    result = run(*both)
    assert result.exit_code == 2
    assert "2 rules of acceptance" in result.output
    assert run(answers, tmp_path / "a.jsonl").exit_code == 2  # one states its rule, the other does not
    result = run(*both, "--verification", "fly")
    assert (result.exit_code, "states standard; --verification fly contradicts it" in result.output) == (2, True)


@pytest.fixture
def passes(tmp_path):
    """A table of 20 ms + 2 ms a token of the pass + 2 us a cached token, and drafts of 3.1 ms."""
    path, lines = tmp_path / "passes.csv", ["model,batch,width,context,ms"]
    for size, width, context in ((1, 1, 100), (8, 1, 100), (8, 4, 100), (32, 2, 50), (4, 2, 400)):
        lines.append(f"target,{size},{width},{context},{20 + 2 * size * width + 0.002 * size * context:g}")
        lines.append(f"draft,{size},{width},{context},3.1")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_of_passes_gives_the_schedule_and_the_crossover(answers, passes):
    """One draft makes 1.5 tokens in 23.1 + 4B ms against 20 + 2B, two 1.8 in 26.2 + 6B: they pay below 6.9 and 4.1."""
    ranges = settings_of(answers, "--passes", passes, "--context", "0")["num_speculative_tokens_per_batch_size"]
    assert ranges == [[1, 1, 2], [2, 6, 1], [7, 32, 0]]  # the largest batch of the table
    found = json.loads(run(answers, "--passes", passes, "--context", "0", "--json").stdout)["crossover"]
    assert found["loses_from"] == 7
    assert 1 <= found["low"] < 7 < found["high"]


@pytest.mark.parametrize("context", [0, 200])
@pytest.mark.parametrize("drafts", [1, 2])
def test_passes_are_taken_as_measured(tmp_path, context, drafts):
    """320 of 761 drafts in 191 steps; widths 1, 2, 3, 5 take 51, 104, 151, 221 ms, so 4 takes 186: no draft pays."""
    counts, passes = tmp_path / "counts.json", tmp_path / "passes.csv"
    one = {"num_spec_steps": 191, "num_accepted_draft_tokens": 320, "num_draft_tokens": 761, "num_spec_tokens": 4}
    one["acceptance_histogram"] = [58, 48, 23, 22, 40]
    counts.write_text(json.dumps({"metrics": {"speculative_decoding": one}}))
    rows = [(1, 51, "target"), (2, 104, "target"), (3, 151, "target"), (5, 221, "target"), *[(1, 3, "draft")] * drafts]
    lines = ["batch,width,context,ms,model", *(f"1,{width},{context},{ms},{name}" for width, ms, name in rows)]
    passes.write_text("\n".join(lines) + "\n")
    result = run(counts, "--passes", passes, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["perfect"] == pytest.approx(5 * 51 / 233)  # 1.09, if every draft were accepted
    assert (found["best"], found["alone_per_second"]) == (0, pytest.approx(1 / 0.051))
    seconds = [one["tokens"] / one["tokens_per_second"] for one in found["lengths"]]
    assert seconds == pytest.approx([0.107, 0.157, 0.195, 0.233])
    assert found["crossover"]["loses_from"] == 1
    refused = run(counts, "--passes", passes, "--draft-length", "7")
    assert (refused.exit_code, "contradicts --draft-length 7: its num_spec_tokens" in refused.output) == (2, True)


def test_the_table_of_the_page_on_engines_is_enough(answers, tmp_path):
    page = (ROOT / "docs" / "engines.md").read_text()
    rows = page.partition("```csv\n")[2].partition("```")[0].splitlines(keepends=True)
    assert settings_of(answers, "--passes", stored(tmp_path, "page.csv", "".join(rows)))["num_speculative_tokens"] == 2
    draft = read_passes(tmp_path / "page.csv").draft
    assert draft.plane == pytest.approx((1.2e-3 - 1.9e-3 / 63, 1.9e-3 / 63, 0.0))  # a line through both rows
    falling = [*rows[:5], "1,1,200,3,draft\n", "64,1,200,1,draft\n"]
    assert read_passes(stored(tmp_path, "falling.csv", "".join(falling))).draft.plane == pytest.approx((2e-3, 0.0, 0.0))
    few = run(answers, "--passes", stored(tmp_path, "few.csv", "".join(rows[:3]))).output
    assert "2 passes of the target; give at least 3" in " ".join(few.split())


def test_one_time_for_all_batches_gives_no_schedule(answers):
    times = ("--verify-time", "30ms", "--draft-time", "2ms", "--batch", "16")
    found = json.loads(run(answers, *times, "--settings", "vllm", "--json").stdout)
    assert (found["best"], found["schedule"], found["crossover"]) == (2, [], None)
    assert "per_batch_size" not in found["settings"]
    found = json.loads(run(answers, *times, "--verify-token-time", "1us", "--json").stdout)
    assert found["schedule"] == [[1, 16, 2]]


def test_what_lies_beyond_the_measured_batches_is_marked(answers, passes):
    """The draft that pays below a batch of 6.9 was measured to 32, or to 4."""
    words = ("--passes", passes, "--context", "0")
    assert json.loads(run(answers, *words, "--json").stdout)["crossover"]["extrapolated"] is False
    rows = ["target,1,1,0,22", "target,2,2,0,28", "target,4,4,0,52", "draft,4,1,0,3.1"]
    passes.write_text("\n".join(["model,batch,width,context,ms", *rows, ""]))
    found = json.loads(run(answers, *words, "--batch", "9", "--json").stdout)["crossover"]
    assert (found["loses_from"], found["measured_to"], found["extrapolated"]) == (7, 4, True)
    assert "beyond the measured 4" in run(answers, *words).output
    longer = json.loads(
        run(answers, *words, "--batch", "30", "--json").stdout
    )  # the break-even is that of the schedule
    assert longer["crossover"]["loses_from"] == 7
    assert [row[0] for row in longer["schedule"] if row[2] == 0] == [7]


def test_totals_with_times_say_that_they_give_no_best_length(tmp_path):
    timings = {"predicted_n": 20, "predicted_ms": 80.0, "draft_n": 14, "draft_n_accepted": 10}
    totals = stored(tmp_path, "llama.json", {"content": "", "timings": timings})
    found = json.loads(run(totals, *TIMES, "--json").stdout)
    assert found["best"] is None
    assert "--verbosity 4" in found["no_best"]
    assert json.loads(run(totals, "--json").stdout)["no_best"] is None
    assert "--verbosity 4" in run(totals, *TIMES, "--settings", "llama.cpp").output


def test_the_answer_comes_before_the_table(tmp_path):
    """The log of the README; only engines' settings bring those of other planners."""
    words = (LOG, "--verify-time", "30ms", "--draft-time", "3ms")
    found = json.loads(run(*words, "--json").stdout)
    assert (found["steps"], found["best"], found["not_told_apart"]) == (400, 3, [2, 5])
    assert "nextn" not in run(*words).output
    speeds = [one["tokens_per_second"] for one in found["lengths"]]
    first = " ".join(run(*words).output.split())
    assert first.partition("these times: 3 (")[0].startswith("Best K")
    assert f"K = 3 gives {speeds[2] / speeds[4] - 1.0:.1%} more, but may not be better" in first
    settings = run(*words, "--settings", "vllm").output
    assert all(part in settings for part in ("nextn", "(K = 2 to 5 are not told apart)", "30 ms at every K"))
    (table := tmp_path / "passes.csv").write_text("model,batch,width,ms\ntarget,1,1,30\ntarget,1,8,30\ndraft,1,1,3\n")
    for times in ([*words[1:], "--server-draft-time", "3ms"], ["--times", table, "--draft-time", "3ms"]):
        plan = CliRunner().invoke(main, ["plan", "--acceptance", str(LOG), *map(str, times)]).output
        assert all(said in plan for said in ("draft_sample_method = probabilistic", "K = 2 to 5 are not told apart"))
        assert "Guarantee: lossless if" in plan  # neither says the rule of acceptance
    assert "--verification" in first
