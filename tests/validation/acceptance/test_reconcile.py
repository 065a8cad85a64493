"""Two engines on one pair: they are said to count or to accept differently, and it is true."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from tests.validation.acceptance.test_engines import scrape
from validation.acceptance.reconcile import CONVENTIONS, Side, reconcile
from validation.acceptance.record import AcceptanceRecord
from validation.acceptance.summary import summarise
from validation.cli.commands import main
from validation.errors import UserError

K = 3


def side(engine, alphas, *, requests=40, steps=25, length=K, name="", seed=1, **marks):
    """Records of requests whose drafts are accepted with the given chances, and their summary."""
    rng, records = np.random.default_rng(seed), []
    for number in range(requests):
        alive = np.cumprod(rng.random((steps, length)) < np.asarray(alphas)[:length], axis=1)
        accepted = tuple(alive.sum(axis=1).tolist())
        records.append(
            AcceptanceRecord(
                engine=engine,
                source=f"{name or engine}, line {number}",
                num_spec_steps=steps,
                num_accepted_draft_tokens=sum(accepted),
                num_draft_tokens=steps * length,
                num_spec_tokens=length,
                completion_tokens=1 + steps + sum(accepted),
                per_step_accepted=accepted,
                per_step_drafted=(length,) * steps,
                **marks,
            )
        )
    return Side(records, summarise(records))


SAME = (0.7, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5)


def rows_of(found):
    """The rows by convention."""
    return {row.key: row for row in found.rows}


def test_one_acceptance_counted_in_two_ways_agrees_counted_alike():
    """SGLang counts the prefill's token too: 1 more for 25 steps, so .04 on each of its numbers."""
    first, second = side("vllm", SAME), side("sglang", SAME, seed=2)
    found = reconcile(first, second, 0.95)
    assert found.printed == ("tokens", "answer")
    rows = rows_of(found)
    assert set(rows) == set(CONVENTIONS)
    assert all(rows[key].agree for key in ("tokens", "accepted", "rate", "first", "common"))
    for one in (rows["answer"], rows["tokens"], rows["accepted"]):
        assert one.first.low < one.first.value < one.first.high
    assert rows["answer"].second.value == pytest.approx(rows["tokens"].second.value + 0.04)
    assert rows["tokens"].second.value == pytest.approx(rows["accepted"].second.value + 1)
    assert rows["rate"].second.value == pytest.approx(rows["accepted"].second.value / K)
    assert rows["configured"].second.value == pytest.approx(rows["rate"].second.value)
    assert "the intervals do not tell them apart" in found.findings[-1]
    printed = f"sglang (B) {rows['answer'].second.value:.3f} (tokens of the answer a step, the prefill's included)"
    assert printed in found.findings[0]


def test_another_draft_length_is_removed():
    """Seven drafts give more tokens a step than three, from the same acceptance."""
    found = reconcile(side("vllm", SAME, length=7), side("llama.cpp", SAME, seed=2), 0.95)
    rows = rows_of(found)
    assert rows["tokens"].agree is False or rows["tokens"].apart < 0
    assert rows["common"].agree is True
    assert "They draft up to 7 and 3 tokens a step" in found.findings[1]
    assert "do not tell them apart" in found.findings[-1]


def test_drafts_that_were_accepted_differently_are_said_to_be():
    first = side("vllm", SAME, draft_sampling="sampled", verification="standard")
    second = side("llama.cpp", (0.4, 0.4, 0.4), draft_sampling="greedy", verification="match")
    found = reconcile(first, second, 0.95)
    assert all(rows_of(found)[key].agree is False for key in ("tokens", "accepted", "rate", "first", "common"))
    assert "drafts were accepted differently" in found.findings[-1]
    assert "Marks: drafts sampled and greedy, verification standard and match." in found.findings[-1]
    lossy = side("sglang", SAME, name="b", draft_sampling="greedy", verification="threshold")
    assert "threshold accepts more than lossless" in reconcile(second, lossy, 0.95).findings[-1]


def test_equal_marks_are_said_to_be_equal():
    first = side("vllm", SAME, draft_sampling="greedy", verification="standard")
    second = side("tensorrt-llm", (0.4,) * 3, draft_sampling="greedy", verification="standard")
    assert "The marks of both sides are equal." in reconcile(first, second, 0.95).findings[-1]


def test_equal_acceptance_is_rarely_said_to_differ():
    """10 pairs of equal engines: the intervals are wide enough that none is said to differ."""
    wrong = sum(
        rows_of(reconcile(side("vllm", SAME, seed=s), side("sglang", SAME, seed=1000 + s), 0.95))["tokens"].agree
        is False
        for s in range(10)
    )
    assert wrong == 0


def test_totals_do_not_decide_and_say_what_is_missing():
    records = [AcceptanceRecord(engine="llama.cpp", source="t", num_spec_steps=100, num_accepted_draft_tokens=120)]
    found = reconcile(side("vllm", SAME), Side(records, summarise(records)), 0.95)
    assert "not decided: the K of B is not recorded; give --draft-length" in found.findings[-1]
    assert {row.agree for row in found.rows} == {None}


@pytest.mark.parametrize("rule", ["synthetic", "typical"])
def test_a_rule_that_may_accept_fewer_is_not_said_to_accept_more(rule):
    """A prescribed rate may lie below the lossless one; a threshold on p refuses improbable tokens for good."""
    first, second = side("vllm", SAME), side("sglang", (0.2, 0.2, 0.2), seed=2, verification=rule)
    assert f"{rule} accepts more or fewer drafts than lossless" in reconcile(first, second, 0.95).findings[-1]


def test_one_lossy_rule_of_both_sides_is_named_once():
    first, second = (
        side(name, alphas, verification="threshold", name=name, draft_sampling="greedy")
        for name, alphas in (("vllm", SAME), ("sglang", (0.2, 0.2, 0.2)))
    )
    assert reconcile(first, second, 0.95).findings[-1].count("threshold accepts more than lossless") == 1


def test_answers_of_no_tokens_have_no_number_of_their_own():
    """A step emits a token. So steps with an answer of 0 tokens are a defect, not an acceptance length of 0."""
    empty = AcceptanceRecord(
        engine="sglang",
        source="empty",
        num_spec_steps=5,
        num_accepted_draft_tokens=0,
        num_draft_tokens=15,
        num_spec_tokens=K,
        completion_tokens=0,
    )
    found = reconcile(Side([empty], summarise([empty])), side("vllm", SAME), 0.95)
    assert rows_of(found)["answer"].first is None
    assert "sglang (A) 1.000 (tokens a step" in found.findings[0]


def test_one_file_twice_is_refused():
    with pytest.raises(UserError, match="are of the same file"):
        reconcile(side("vllm", SAME), side("vllm", SAME), 0.95)


def test_requests_of_other_lengths_move_the_mean_over_requests():
    """Long requests that accept little: the mean over requests is above the mean over steps."""
    short, long = side("vllm", (0.9,) * 3, requests=10), side("vllm", (0.2,) * 3, requests=10, steps=200, name="c")
    both = [*short.records, *long.records]
    row = rows_of(reconcile(Side(both, summarise(both)), side("specdec_bench", SAME), 0.95))["requests"]
    each = np.mean([1 + one.num_accepted_draft_tokens / one.num_spec_steps for one in both])
    assert row.first.value == pytest.approx(each)
    assert row.first.value > summarise(both).mean_acceptance_length + 0.5


@pytest.fixture
def files(tmp_path):
    """Two scrapes of vLLM and the answers of SGLang."""
    places = [tmp_path / name for name in ("a.txt", "b.txt", "s.jsonl")]
    places[0].write_text(scrape(10, 30, [8, 4, 2]))
    places[1].write_text(scrape(1010, 3030, [738, 474, 302]))
    meta = {"completion_tokens": 51, "spec_verify_ct": 25, "spec_num_correct_drafts": 25}
    meta["spec_correct_drafts_histogram"] = [10, 8, 4, 3]
    places[2].write_text("\n".join([json.dumps({"meta_info": meta})] * 30))
    return places


def run(*words):
    """The command's result."""
    return CliRunner().invoke(main, ["acceptance", *map(str, words)])


def test_the_command_shows_both_sides(files):
    result = run(*files[:2], "--reconcile", files[2], "--draft-length", "3")
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "A: vllm B: sglang B over A verdict" in said
    assert "* as the engine prints its acceptance length." in said
    assert "vllm (A) 2.500" in said
    assert "sglang (B) 2.040" in said
    assert "drafts were accepted differently" in said
    found = json.loads(run(*files[:2], "--reconcile", files[2], "--draft-length", "3", "--json").stdout)
    table = {row["convention"]: row for row in found["reconciliation"]["conventions"]}
    assert table["tokens"]["agree"] is False
    assert table["answer"]["second"]["value"] == pytest.approx(51 / 25)


def test_what_the_command_refuses(files, tmp_path):
    both = tmp_path / "both.jsonl"
    both.write_text(files[2].read_text() + '\n{"timings": {"predicted_n": 9, "draft_n": 4, "draft_n_accepted": 3}}\n')
    result = run(*files[:2], "--reconcile", both)
    assert (result.exit_code, "records of 2 engines" in " ".join(result.output.split())) == (2, True)
