"""Two engines on one pair: they are said to count or to accept differently, and it is true."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from tests.validation.acceptance.test_engines import scrape
from tests.validation.acceptance.test_summary import of_places, record
from validation.acceptance.reconcile import CONVENTIONS, Side, reconcile, replay
from validation.acceptance.record import tally
from validation.acceptance.summary import summarise
from validation.cli.commands import main

K = 3


def side(engine, alphas, *, requests=40, steps=25, length=K, name="", seed=1, **marks):
    rng, records = np.random.default_rng(seed), []
    for number in range(requests):
        alive = np.cumprod(rng.random((steps, length)) < np.asarray(alphas)[:length], axis=1)
        accepted = alive.sum(axis=1).tolist()
        fields = {"num_draft_tokens": steps * length, "completion_tokens": 1 + steps + sum(accepted), **marks}
        fields |= {"engine": engine, "num_spec_tokens": length, "source": f"{name or engine}, line {number}"}
        records.append(record(tally((length, i) for i in accepted), **fields))
    return Side(records, summarise(records))


SAME = (0.7, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5)


def rows_of(found):
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


def scraped(name, steps, *places):
    one = of_places(steps, steps * len(places), *places, num_spec_tokens=len(places), source=name)
    return Side([one], summarise([one]))


@pytest.mark.parametrize(
    ("long", "short", "ends"),
    [
        ((11043, 8411, 6800, 5659, 4686, 4020, 3417, 3006, 2612), (26407, 22021), (1.7387, 1.9137)),
        ((43146, 29585, 25923, 22787, 19985, 17584, 15483, 13567, 11935), (110874, 89126), (1.7171, 1.9132)),
    ],
)
def test_first_drafts_of_steps_of_another_length_show_nothing(long, short, ends):
    """One drafter: 76.2% of first drafts accepted at K = 8, 83.4% at K = 1: long steps begin behind rejections."""
    found = reconcile(scraped("long", *long), scraped("short", *short), 0.95)
    rows = rows_of(found)
    assert rows["first"].first is rows["first"].second is None
    assert "the intervals do not tell them apart" in found.findings[-1]
    common = rows["common"].first
    assert (common.value, common.most) == pytest.approx(ends, abs=0.0005)
    assert common.low < common.value < rows["common"].second.low < common.most < common.high
    assert rows["common"].second.value == pytest.approx(1 + short[1] / short[0])
    other = reconcile(scraped("long", *long), scraped("short", short[0], short[0] // 2), 0.95)
    assert "they differ: drafts were accepted differently" in other.findings[-1]


def steps_over(bits, lengths):
    """Drafts and accepted drafts of the steps over a text; a bit says whether a token's draft is accepted."""
    at, found = 0, []
    while at < len(bits):
        drafts, run = int(lengths[len(found)]), 0
        while run < drafts and at + run < len(bits) and bits[at + run]:
            run += 1
        found.append((drafts, run))
        at += run + 1
    return found


def test_a_replay_of_every_text_is_between_the_bounds():
    """All texts of 9 tokens, and long ones of a Markov drafter; the last step is cut where it would leave the text."""
    rng, low_met, high_met = np.random.default_rng(3), 0, 0
    texts = [[(number >> place) & 1 for place in range(9)] + [0] for number in range(512)]
    for _ in range(30):
        flips = np.cumsum(rng.random(400) < rng.choice([0.1, 0.5])) % 2
        texts.append([*flips.tolist(), 0])
    for bits in texts:
        steps = steps_over(bits, rng.integers(1, 5, len(bits)) if len(bits) > 10 else [3] * len(bits))
        accepted, one = [i for _, i in steps], record(tally(steps))
        tokens = len(steps) + sum(accepted)
        for shorter in (1, 2):
            many = record({k: tuple(10**14 * n for n in row) for k, row in one.counts().items()})
            ends = replay(Side([many], None), shorter, 0.95)
            truth = tokens / len(steps_over(bits[:tokens], [shorter] * len(bits)))
            assert ends.low - 1e-6 <= truth <= ends.high + 1e-6
            low_met, high_met = low_met + (truth < ends.low + 1e-6), high_met + (truth > ends.high - 1e-6)
    assert min(low_met, high_met) > 50


def test_drafts_that_were_accepted_differently_are_said_to_be():
    first = side("vllm", SAME, draft_sampling="sampled", verification="standard")
    second = side("llama.cpp", (0.4, 0.4, 0.4), draft_sampling="greedy", verification="match")
    found = reconcile(first, second, 0.95)
    assert all(rows_of(found)[key].agree is False for key in ("tokens", "accepted", "rate", "first", "common"))
    assert "drafts were accepted differently" in found.findings[-1]
    lossy = side("sglang", SAME, name="b", draft_sampling="greedy", verification="threshold")
    assert "threshold accepts more than lossless" in reconcile(second, lossy, 0.95).findings[-1]


def test_equal_acceptance_is_rarely_said_to_differ():
    """10 pairs of equal engines: the intervals are wide enough that none is said to differ."""
    pairs = [(side("vllm", SAME, seed=s), side("sglang", SAME, seed=1000 + s)) for s in range(10)]
    assert all(rows_of(reconcile(*pair, 0.95))["tokens"].agree is not False for pair in pairs)


def run(*words):
    return CliRunner().invoke(main, ["acceptance", *map(str, words)])


def test_counts_beside_the_laws_of_a_trace_find_a_verifier_that_rejects(tmp_path, monkeypatch):
    """A pair whose greedy drafts are accepted with .282, and counts of 306 steps with 3 accepted drafts."""
    trace = tmp_path / "trace"
    q, p = np.full((400, 4), 0.1), np.full((400, 4), (1 - 0.282) / 3)
    q[:, 0], p[:, 0] = 0.7, 0.282
    tokens = np.random.default_rng(0).choice(4, size=400, p=p[0])
    words = ["import", "--text-origin", "target", "--out", str(trace)]
    arrays = {"draft": np.log(q).astype(np.float32), "target": np.log(p).astype(np.float32), "tokens": tokens}
    for name, array in (arrays | {"texts": np.repeat(np.arange(20), 20)}).items():
        np.save(tmp_path / f"{name}.npy", array)
        words += [f"--{name}", str(tmp_path / f"{name}.npy")]
    imported = CliRunner().invoke(main, words)
    assert imported.exit_code == 0, imported.output
    for places, verdict in (([1, 1, 1], "differ"), ([86, 24, 7], "agree")):
        file = tmp_path / "scrape.txt"
        file.write_text(scrape(306, 918, places))
        result = run(file, "--laws", trace, "--drafts", "greedy", "--verification", "standard")
        assert result.exit_code == 0, result.output
        said = " ".join(result.output.split())
        assert f"; {verdict}." in said
        assert ("the verifier has a defect" in said) == (verdict == "differ")
    assert "copied drafts have no law" in run(file, "--laws", trace, "--drafts", "copied").output
    meta = {"completion_tokens": 51, "spec_verify_ct": 25, "spec_num_correct_drafts": 25}
    (tmp_path / "s.jsonl").write_text("\n".join([json.dumps({"meta_info": meta})] * 30))
    found = json.loads(run(file, "--reconcile", tmp_path / "s.jsonl", "--draft-length", "3", "--json").stdout)
    table = {row["convention"]: row for row in found["reconciliation"]["conventions"]}
    assert table["answer"]["second"]["value"] == pytest.approx(51 / 25)
