"""The command ``hlm acceptance``."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner

from validation.acceptance.engines import read_acceptance
from validation.acceptance.published import PUBLISHED
from validation.cli.commands import main

TIMES = ("--verify-ms", "30", "--draft-ms", "5", "--rtt-ms", "5")


@pytest.fixture
def answers(tmp_path):
    """Three answers of vLLM, with the draft length of each step."""
    path = tmp_path / "answers.jsonl"
    one = {
        "num_spec_steps": 10,
        "num_accepted_draft_tokens": 8,
        "num_draft_tokens": 20,
        "acceptance_histogram_by_draft_length": {"2": [5, 2, 3]},
    }
    path.write_text("\n".join(json.dumps({"metrics": {"speculative_decoding": one}}) for _ in range(3)))
    return path


def run(*words):
    """The command's result."""
    return CliRunner().invoke(main, ["acceptance", *map(str, words)])


def test_no_drafts_are_named_where_they_are_best(answers):
    """Over a round trip of 20 ms two drafts give 30 tokens/s, and the target alone 33.3."""
    result = run(answers, *TIMES[:-1], "20")
    assert "Best draft length for these times: 0. Drafting does not pay: 33.33 tokens/s" in result.output


def test_copied_drafts_are_counted_by_splitting_rounds(tmp_path):
    """12 rounds of 7 drafts, a quarter of which accept all; the depths would say 1.25 tokens at one draft."""
    path = tmp_path / "sglang.json"
    meta = {
        "spec_verify_ct": 12,
        "spec_num_correct_drafts": 21,
        "spec_correct_drafts_histogram": [9, 0, 0, 0, 0, 0, 0, 3],
    }
    path.write_text(json.dumps({"meta_info": meta}))
    words = (path, "--draft-length", "7", "--verify-ms", "30", "--draft-ms", "5")
    unmarked, copied = run(*words), run(*words, "--drafts", "copied")
    assert "If drafts copy passages it is 3: give --drafts copied." in unmarked.output
    assert "for these times: 7 (33.33" in unmarked.output
    assert "Drafts: copied from the text" in copied.output
    assert "for these times: 3 (33.33" in copied.output
    lengths = json.loads(run(*words, "--drafts", "copied", "--json").stdout)["lengths"]
    assert lengths[2]["tokens_per_second"] == pytest.approx(33 / (9 + 3 * 2) / 0.045)
    figure = tmp_path / "tokens.svg"
    assert run(*words, "--drafts", "copied", "--figure", figure).exit_code == 0


def test_two_engines_name_only(answers):
    with answers.open("a") as file:
        file.write("\n" + json.dumps({"meta_info": {"spec_verify_ct": 2, "spec_accepted_drafts": 2}}))
    result = run(answers)
    assert (result.exit_code, "Choose one with --only: sglang; vllm." in result.output) == (2, True)
    assert run(answers, "--only", "sglang").exit_code == 0


def test_the_schedule_is_written_for_vllm(answers, tmp_path):
    file = tmp_path / "schedule.json"
    times = ("--verify-ms", "20", "--draft-ms", "3", "--verify-us-per-token", "2000", "--batch", "40")
    assert run(answers, *times, "--schedule", file).exit_code == 0
    found = json.loads(file.read_text())
    ranges = found["num_speculative_tokens_per_batch_size"]
    assert found["num_speculative_tokens"] == max(length for _, _, length in ranges)
    assert ranges[0][0] == 1
    assert ranges[-1][1] == 40
    assert all(after[0] == before[1] + 1 for before, after in pairwise(ranges))
    assert [length for _, _, length in ranges] == sorted({length for _, _, length in ranges}, reverse=True)
    assert len(ranges) > 1
    assert "needs the times of a round" in run(answers, "--schedule", file).output
    dear = ("--verify-ms", "20", "--draft-ms", "3000", "--schedule", file)
    assert "Drafting does not pay for any batch size" in run(answers, *dear).output


def test_marks_are_shown_and_stored(answers, tmp_path):
    words = ("--drafts", "greedy", "--verification", "threshold")
    result = run(answers, *words, "--records", tmp_path / "a.jsonl", "--profile", tmp_path / "p.json")
    assert result.exit_code == 0, result.output
    assert "not 1 - TV(q, p)" in result.output
    assert "Verification: threshold, lossy." in result.output
    assert json.loads((tmp_path / "p.json").read_text())["verification_method"] == "threshold"
    found = json.loads(run(tmp_path / "a.jsonl", "--json").stdout)
    assert (found["draft_sampling"], found["verification"], found["lossless"]) == ("greedy", "threshold", False)


def test_files_with_other_marks_are_not_mixed(answers, tmp_path):
    for name, rule in (("a.jsonl", "standard"), ("b.jsonl", "fly")):
        assert run(answers, "--verification", rule, "--records", tmp_path / name).exit_code == 0
    both = (tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    result = run(*both)
    assert result.exit_code == 2
    assert "2 rules of acceptance" in result.output
    assert run(answers, tmp_path / "a.jsonl").exit_code == 2  # one states its rule, the other does not
    result = run(*both, "--verification", "fly")
    assert (result.exit_code, "states standard; --verification fly contradicts it" in result.output) == (2, True)


def test_answers_with_several_samples_are_named(answers):
    with answers.open("a") as file:
        file.write("\n" + json.dumps({"choices": [{}, {}], "metrics": {"speculative_decoding": None}}) + "\n")
    result = run(answers)
    assert "30 steps of 3 records" in result.output
    assert "Left out: 1 answer (" in result.output
    assert "several samples (n > 1)" in result.output
    assert len(json.loads(run(answers, "--json").stdout)["left_out"]) == 1


def test_one_json_object(answers):
    result = run(answers, "--json", *TIMES)
    found = json.loads(result.stdout)
    assert (found["steps"], found["best"]) == (30, 2)
    assert [round(one["tokens"], 12) for one in found["lengths"]] == [1.5, 1.8]


def test_files_are_written(answers, tmp_path):
    files = [tmp_path / name for name in ("records.jsonl", "profile.json", "tokens.svg")]
    result = run(answers, "--records", files[0], "--profile", files[1], "--figure", files[2], *TIMES)
    assert result.exit_code == 0, result.output
    assert [record.counts() for record in read_acceptance(files[0]).records] == [{2: (5, 2, 3)}] * 3
    assert json.loads(files[1].read_text())["conditional_accept_rates"] == [0.5, 0.6]
    assert files[2].read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--draft-ms", "5"), "needs both --verify-ms and --draft-ms"),
        (("--verify-ms", "0", "--draft-ms", "5"), "takes no time"),
        (("--figure", "x.gif"), "must end in one of: .svg, .pdf, .png"),
        (("--only", "eagle"), "the engines are: vllm"),
        (("--drafts", "best"), "Invalid value"),
        (("--verification", "lossy"), "Invalid value"),
        (("--verify-ms", "-1", "--draft-ms", "5"), "Invalid value"),
        (("--confidence", "1"), "Invalid value"),
    ],
)
def test_what_is_refused(answers, words, message):
    result = run(answers, *words)
    assert result.exit_code == 2
    assert message in result.output


def test_a_file_that_is_missing(tmp_path):
    result = run(tmp_path / "none.json")
    assert result.exit_code == 2
    assert "There is no file" in result.output


def test_what_is_not_identified_is_said(tmp_path):
    path = tmp_path / "timings.json"
    path.write_text(json.dumps({"timings": {"predicted_n": 20, "draft_n": 14, "draft_n_accepted": 10}}))
    result = run(path)
    assert result.exit_code == 0
    assert "is not identified" in result.output
    assert "totals only" in result.output


# ------------------------------------------------------------------------------------------------ a table of passes


@pytest.fixture
def passes(tmp_path):
    """A table of 20 ms + 2 ms a token of the pass + 2 us a cached token, and drafts of 3.1 ms."""
    path, lines = tmp_path / "passes.csv", ["model,batch,width,context,ms"]
    for size, width, context in ((1, 1, 100), (8, 1, 100), (8, 4, 100), (32, 2, 50), (4, 2, 400)):
        lines.append(f"target,{size},{width},{context},{20 + 2 * size * width + 0.002 * size * context:g}")
        lines.append(f"draft,{size},{width},{context},3.1")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_of_passes_gives_the_schedule_and_the_crossover(answers, passes, tmp_path):
    """One draft makes 1.5 tokens in 23.1 + 4B ms against 20 + 2B, two 1.8 in 26.2 + 6B: they pay below 6.9 and 4.1."""
    file = tmp_path / "schedule.json"
    result = run(answers, "--passes", passes, "--context", "0", "--schedule", file)
    assert result.exit_code == 0, result.output
    assert "5 measured, interpolated. Beyond them 20 ms + 2000 us a token + 2 us a cached token" in result.output
    assert "drafting loses from a batch of 7 on (" in result.output
    ranges = json.loads(file.read_text())["num_speculative_tokens_per_batch_size"]
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
    assert (found["best"], found["alone_per_second"]) == (0, pytest.approx(1 / 0.051))
    seconds = [one["tokens"] / one["tokens_per_second"] for one in found["lengths"]]
    assert seconds == pytest.approx([0.107, 0.157, 0.195, 0.233])
    assert found["perfect_gain"] == pytest.approx(5 / 0.233 * 0.051)
    assert found["crossover"]["loses_from"] == 1
    refused = run(counts, "--passes", passes, "--draft-length", "7")
    assert (refused.exit_code, "contradicts --draft-length 7: its num_spec_tokens" in refused.output) == (2, True)


def test_a_crossover_is_that_of_the_measured_passes(answers, tmp_path):
    """The last measured batch is slower for wide passes than the plane says: there no draft pays."""
    path = tmp_path / "passes.csv"
    lines = [f"{b},{w},{20 + 0.1 * b * w + 60 * (b == 32) * (w > 1):g}" for b in (1, 8, 16, 32) for w in (1, 2, 3)]
    path.write_text("\n".join(["batch,width,ms", *lines]) + "\n")
    found = json.loads(run(answers, "--passes", path, "--draft-ms", "1", "--json").stdout)
    assert found["schedule"][-1][1:] == [32, 0]
    assert found["crossover"]["loses_from"] == found["schedule"][-1][0]


def test_the_cache_of_a_long_context_moves_the_crossover(answers, passes):
    """At 5,000 tokens a sequence's cache takes 10 ms a pass, and one draft saves 0.5 of it: it pays at every batch."""
    result = run(answers, "--passes", passes, "--context", "5000")
    assert "drafting pays at every large batch" in result.output


def test_draft_times_of_the_options_go_with_a_table_of_the_target(answers, tmp_path):
    path = tmp_path / "passes.csv"
    path.write_text("batch,width,ms\n1,1,22\n1,3,26\n4,2,36\n")
    assert "give --draft-ms (0 for n-grams)" in run(answers, "--passes", path).output
    result = run(answers, "--passes", path, "--draft-ms", "3.1", "--batch", "8")
    assert "drafting loses from a batch of 7 on" in result.output
    assert "[[1, 1, 2], [2, 6, 1], [7, 8, 0]]" in result.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batch,width\n1,1\n", "has no column ms"),
        ("", "has no column batch"),
        ("batch,width,ms\n1,1.5,3\n", "line 2: width is '1.5'; give a whole number, 1 to 1,000,000."),
        ("batch,width,ms\n1" + "0" * 30 + ",1,3\n", "give a whole number, 1 to 1,000,000."),
        ("batch,width,ms\n1,1,0\n", "line 2: ms is '0'; give a number above 0."),
        ("batch,width,context,ms\n1,1,-4,2\n", "line 2: context is '-4'; give 0 or more."),
        ("batch,width,ms\n1,1\n", "line 2: ms is ''; give a number above 0."),
        ("batch,width,ms,model\n1,1,2,small\n", "line 2: the model is 'small'; write target or draft."),
        ("batch,width,ms,model\n1,1,2,draft\n2,1,3,draft\n4,1,5,draft\n", "has no pass of the target model"),
        (
            "batch,width,ms\n1,1,2\n1,1,2\n1,1,2\n",
            "passes of the target model: batch_size, width and context must vary",
        ),
    ],
)
def test_a_table_that_is_none_is_refused(answers, tmp_path, text, said):
    path = tmp_path / "passes.csv"
    path.write_text(text)
    result = run(answers, "--passes", path, "--draft-ms", "1")
    assert (result.exit_code, said in " ".join(result.output.split())) == (2, True), result.output


def test_a_table_in_another_encoding_is_refused(answers, tmp_path):
    path = tmp_path / "passes.csv"
    path.write_bytes(b"batch,width,ms\n1,1,\xff\n")
    result = run(answers, "--passes", path, "--draft-ms", "1")
    assert (result.exit_code, "no CSV file in UTF-8" in result.output) == (2, True), result.output


def test_a_published_fit_gives_the_times_and_says_whose_they_are(answers):
    """1.5 tokens with one draft: a long cache is read once for both, so drafts pay at more batches."""
    short, long = (run(answers, "--passes", "h100-llama-3.1-8b", "--context", str(c)) for c in (0, 20_000))
    assert "A pass of the target model: 7.093 ms + 21.01 us a token + 0.03926 us a cached token" in short.output
    assert "fitted by the authors of SpecDecode-Bench/simulator" in " ".join(short.output.split())
    assert "drafting loses from a batch of" in short.output
    assert "drafting pays at every large batch" in long.output
    a, b, _ = PUBLISHED["h100-llama-3.1-8b"].target
    drafts = PUBLISHED["h100-llama-3.1-8b"]
    end = (0.5 * a - drafts.drafting_s - drafts.draft[0]) / (0.5 * b)  # 1.5 (a + bB) = a + 2 b B + drafts
    found = json.loads(run(answers, "--passes", "h100-llama-3.1-8b", "--context", "0", "--json").stdout)["crossover"]
    assert found["loses_from"] == np.ceil(max(end, ends_of_two(drafts)))


def ends_of_two(drafts):
    """Return where rounds of two drafts with 1.8 tokens lose."""
    a, b, _ = drafts.target
    return (0.8 * a - drafts.drafting_s - 2 * drafts.draft[0]) / (1.2 * b)


def test_the_cache_of_the_drafts_is_paid_once_a_round():
    times = PUBLISHED["h100-llama-3.1-8b"].times(20_000.0, 0.01)
    drafts = PUBLISHED["h100-llama-3.1-8b"]
    a, b, c = drafts.target
    assert times.alone(4) == pytest.approx(a + 4 * (b + 20_000 * c))
    whole = a + drafts.drafting_s + 0.01 + 4 * (20_000 * (c + drafts.draft[1]) + 4 * b) + 3 * drafts.draft[0]
    assert times.rounds(4, np.array([3]))[0] == pytest.approx(whole)
