"""The metrics of decoding methods: by hand on tiny records, by identities on decoded records, and their intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import bootstrap

from hlmtheory.channel import throughput
from hlmtheory.channel.latency import mean_round_throughput, round_throughput
from validation.collection.prompts import Prompt
from validation.decoding.columns import Powers
from validation.decoding.intervals import IntervalEstimate, draw_texts, ratio
from validation.decoding.links import FadingLink
from validation.decoding.loop import PAPER_TIMES, decode
from validation.decoding.methods.multi_draft import FixedLength, PromptLookup
from validation.decoding.methods.quantized import KSqs
from validation.decoding.methods.single_draft import CloudOnly, CuHlmOffline, DraftOnly, Hlm, RandHlm, TargetOnly, UHlm
from validation.decoding.metrics import MEDIANS, METRICS, compare, summaries, summarize, summary
from validation.decoding.records import GenerationRecord, Round, energy
from validation.errors import UserError
from validation.models.pair import Pair

PROMPTS = [
    Prompt("c", "two and two make", "test"),
    Prompt("a", "what is", "test"),
    Prompt("b", "the times", "test"),
    Prompt("d", "three apples and four apples", "test"),
]
METHODS = [
    Hlm(),
    UHlm(0.95),
    CuHlmOffline(0.95, 5),
    RandHlm(0.5),
    FixedLength(3),
    KSqs(8, budget_bits=300.0),
    PromptLookup(2, 2),
    DraftOnly(),
    TargetOnly(),
    CloudOnly(),
]
LINK = FadingLink("near", 1e6, 1.0)
SETTINGS: dict[str, Any] = {"new_tokens": 16, "times": PAPER_TIMES, "risk": True, "link": LINK}


@pytest.fixture(scope="module")
def rows(pair: Pair) -> dict[str, list[GenerationRecord]]:
    """Decoded records by method."""
    return {method.name: decode(pair, PROMPTS, method, **SETTINGS) for method in METHODS}


def row(prompt: str, *rounds: Round, last: Round | None = None) -> GenerationRecord:
    """Return the record of a text with those rounds."""
    last = last or Round()
    count = sum(one.accepted + one.resampled + one.bonus + one.skipped for one in (*rounds, last))
    return GenerationRecord(
        "by hand", prompt, "none", 1, 1.0, 1.0, list(range(count)), risk_computed=True, rounds=list(rounds), last=last
    )


BY_HAND = [
    row(
        "one",
        Round(
            drafted=3,
            accepted=1,
            resampled=1,
            skipped=2,
            bits=50.0,
            bytes=10,
            down_bytes=2,
            draft_s=5.0,
            draft_passes=5,
            target_s=2.0,
            link_s=1.0,
            mismatch=0.3,
            risk=0.75,
            skip_risk=0.5,
        ),
        Round(
            drafted=2, accepted=2, bonus=1, bits=30.0, bytes=6, draft_s=2.0, draft_passes=2, target_s=2.0, link_s=4.0
        ),
        last=Round(skipped=1, draft_s=1.0, draft_passes=1, skip_risk=0.25, risk=0.25),
    ),
    row("two", Round(drafted=1, resampled=1, bits=20.0, bytes=4, draft_s=1.0, draft_passes=1, target_s=2.0)),
]


def test_every_word_by_hand() -> None:
    (line,) = summary(BY_HAND, device_w=1.0, transmit_w=2.0, server_w=3.0)
    turns = [1.0, 1.0, 2.0 / 6.0, 3.0 / 8.0, 1.0, 1.0 / 3.0]  # two skipped, a round, a round, one skipped; a round
    assert line.pop("method") == "by hand"
    assert line.pop("link") == "none"
    expected = {
        "texts": 2,
        "tokens": 9,
        "tokens_per_s": 9 / 20,
        "tokens_per_s_text_mean": (8 / 17 + 1 / 3) / 2,
        "tokens_per_s_round_mean": sum(turns) / 6,
        "seconds_per_text": 20 / 2,
        "device_s_per_token": 9 / 9,
        "link_s_per_token": 5 / 9,
        "server_s_per_token": 6 / 9,
        "transmission_rate": 3 / 6,
        "share_skipped": 3 / 9,
        "true_skip_rate": 1 - 0.75 / 3,
        "resampling_rate": 2 / 3,
        "acceptance": 3 / 6,
        "acceptance_looked_at": 3 / 5,
        "accepted_length": 3 / 3,
        "drafts_per_round": 6 / 3,
        "tokens_per_round": 9 / 3,
        "bits_per_token": 100 / 9,
        "bits_per_message": 100 / 3,
        "bytes_per_token": 20 / 9,
        "down_bytes_per_token": 2 / 9,
        "joules_per_token": (9 + 2 * 5 + 3 * 6) / 9,
        "risk": 1.0 / 2,
        "risk_error": 0.5,
        "tokens_per_s_text_median": (8 / 17 + 1 / 3) / 2,
        "seconds_per_token_text_median": (17 / 8 + 3) / 2,
        "link_s_per_token_text_median": (5 / 8 + 0) / 2,
    }
    assert line == pytest.approx(expected)
    assert list(line) == ["texts", "tokens", *(m.name for m in METRICS), *MEDIANS, "risk_error"]


def test_each_word_is_defined_once() -> None:
    """No two metrics share a name, a meaning or a pair of totals; scores of texts have other names."""
    names = [metric.name for metric in METRICS] + list(MEDIANS) + ["nats", "similarity_reference", "similarity_large"]
    assert len(set(names)) == len(names)
    assert len({metric.definition for metric in METRICS}) == len(METRICS)
    assert len({(metric.above, metric.below) for metric in METRICS}) == len(METRICS)
    said = {metric.name: metric.definition for metric in METRICS}
    assert "ratio of totals" in said["tokens_per_s"]
    assert said["tokens_per_s_round_mean"].startswith("mean of ratios over rounds")
    assert not [name for name, words in said.items() if "average" in words]  # "average" would not say of what


def test_acceptance_by_position_by_hand() -> None:
    places = summarize(BY_HAND).positions
    assert places.offered.tolist() == [3, 2, 1]
    assert places.reached.tolist() == [3, 2, 0]
    assert places.passed.tolist() == [2, 1, 0]
    assert [one.value for one in places.conditional] == [2 / 3, 1 / 2, None]
    assert [one.value for one in places.joint] == [2 / 3, 1 / 2, 0.0]
    assert [one.value for one in places.survival] == [2 / 3, 1 / 3, 0.0]
    assert (places.conditional[0].low, places.conditional[0].high) == (0.0, 1.0)  # text two alone, text one alone


def test_the_words_agree_with_each_other_on_decoded_rows(rows: dict[str, list[GenerationRecord]]) -> None:
    for name, mine in rows.items():
        one = summarize(mine)
        word = {key: found.value for key, found in one.estimates.items()}
        total = {
            key: sum(r.total(key) for r in mine) for key in ("accepted", "resampled", "bonus", "skipped", "drafted")
        }
        assert one.tokens == total["accepted"] + total["resampled"] + total["bonus"] + total["skipped"]
        parts = word["device_s_per_token"] + word["link_s_per_token"] + word["server_s_per_token"]
        assert parts == pytest.approx(1 / word["tokens_per_s"])
        places = one.positions
        assert places.offered.sum() == total["drafted"]
        assert places.reached.sum() == total["accepted"] + total["resampled"]
        assert places.passed.sum() == total["accepted"]
        if word["accepted_length"] is not None:
            assert sum(p.value for p in places.survival) == pytest.approx(word["accepted_length"])
            rounds = sum(len(r.rounds) for r in mine)
            new = word["accepted_length"] + word["resampling_rate"] + total["bonus"] / rounds
            assert new + total["skipped"] / rounds == pytest.approx(word["tokens_per_round"])
        for reached, offered, other in zip(places.conditional, places.joint, places.survival, strict=True):
            assert reached.value is None or other.value <= offered.value <= reached.value
        several = name.startswith(("fixed", "K-SQS", "prompt"))  # tokens a round
        assert several or word["tokens_per_s_round_mean"] >= word["tokens_per_s"] * (1 - 1e-12)


def test_the_joint_is_the_product_where_all_rounds_are_of_one_length() -> None:
    lengths = [4, 0, 2, 4, 1, 3, 4, 2, 2]
    made = [Round(drafted=4, accepted=n, resampled=int(n < 4), bonus=int(n == 4)) for n in lengths]
    places = summarize([row("all", *made)]).positions
    product = np.cumprod([one.value for one in places.conditional])
    assert [one.value for one in places.joint] == pytest.approx(product.tolist())
    assert [one.value for one in places.joint] == [one.value for one in places.survival]


def test_what_the_papers_say_of_the_extremes(rows: dict[str, list[GenerationRecord]]) -> None:
    found = {name: {k: e.value for k, e in summarize(mine).estimates.items()} for name, mine in rows.items()}
    assert found["HLM"]["transmission_rate"] == 1.0  # "in standard HLM, this defaults to 1"
    assert found["HLM"]["true_skip_rate"] is None
    assert found["HLM"]["risk"] == 0.0
    assert found["small only"]["transmission_rate"] == 0.0
    assert found["small only"]["share_skipped"] == 1.0
    assert found["large only"]["transmission_rate"] == 0.0  # where the user is: nothing is sent
    assert found["cloud only"]["transmission_rate"] == 1.0
    assert found["small only"]["resampling_rate"] is None
    rand = found["Rand-HLM (0.5)"]
    assert rand["transmission_rate"] == pytest.approx(1 - rand["share_skipped"])
    for name in ("U-HLM", "Rand-HLM (0.5)", "small only", "CU-HLM offline (k = 5)"):
        assert 0.0 < found[name]["true_skip_rate"] < 1.0
        pooled = [r.total("skipped") - r.total("skip_risk") for r in rows[name] if r.total("skipped")]
        skipped = sum(r.total("skipped") for r in rows[name])
        assert found[name]["true_skip_rate"] == pytest.approx(sum(pooled) / skipped)
    assert found["small only"]["tokens_per_s_round_mean"] == pytest.approx(1 / PAPER_TIMES[0])


def test_the_true_skip_rate_is_the_large_models_acceptance_of_what_is_skipped(pair: Pair) -> None:
    """A method that skips all drafts, and one that sends all: the same drafts have the same acceptance."""
    prompts = [replace(PROMPTS[i % 4], id=str(i)) for i in range(200)]
    settings: dict[str, Any] = {"new_tokens": 1, "times": PAPER_TIMES, "batch": 100}
    skipping = summarize(decode(pair, prompts, DraftOnly(), risk=True, **settings))["true_skip_rate"]
    sent = summarize(decode(pair, prompts, Hlm(), **settings))["acceptance"]
    assert sent.low < skipping.value < sent.high
    assert skipping.high - skipping.low < sent.high - sent.low  # an expectation varies less than a drawn value


def test_without_risk_there_is_no_true_skip_rate(pair: Pair) -> None:
    found = summarize(decode(pair, PROMPTS, DraftOnly(), **(SETTINGS | {"risk": False})))
    assert found["true_skip_rate"] == IntervalEstimate(None)
    assert found["risk"] == IntervalEstimate(None)
    assert found["acceptance"].value is None


def test_the_averages_are_those_of_the_theory(rows: dict[str, list[GenerationRecord]]) -> None:
    word = summarize(rows["HLM"])
    times = [one.draft_s + one.link_s + one.target_s for r in rows["HLM"] for one in r.rounds]
    assert word["tokens_per_s"].value == pytest.approx(float(throughput(times)))
    assert word["tokens_per_s_round_mean"].value == pytest.approx(float(mean_round_throughput(times)))
    speeds = []
    for r in rows["U-HLM"]:
        for one in (*r.rounds, r.last):
            speeds += [float(round_throughput(PAPER_TIMES[0], 0.0, 0.0, sent=False))] * one.skipped
        speeds += [float(round_throughput(PAPER_TIMES[0], one.link_s, PAPER_TIMES[1])) for one in r.rounds]
    assert summarize(rows["U-HLM"])["tokens_per_s_round_mean"].value == pytest.approx(np.mean(speeds))


def test_joules_are_those_of_the_record(rows: dict[str, list[GenerationRecord]]) -> None:
    powers = {"device_w": 1.5, "transmit_w": 0.2, "server_w": 300.0}
    mine = rows["CU-HLM offline (k = 5)"]
    total = sum(energy(r, **powers) for r in mine)
    found = summarize(mine, powers=Powers(**powers))
    assert found["joules_per_token"].value == pytest.approx(total / found.tokens)


# ------------------------------------------------------------------------------------------------- intervals


def test_the_interval_is_scipys(rows: dict[str, list[GenerationRecord]]) -> None:
    mine = sorted(rows["U-HLM"], key=lambda r: r.prompt)
    tokens, seconds = np.array([[len(r.tokens), r.seconds] for r in mine]).T

    def ratio(chosen: np.ndarray, axis: int) -> Any:
        return tokens[chosen].sum(axis=axis) / seconds[chosen].sum(axis=axis)

    theirs = bootstrap(
        (np.arange(len(mine)),),
        ratio,
        n_resamples=500,
        vectorized=True,
        method="percentile",
        confidence_level=0.9,
        rng=np.random.default_rng(3),
    )
    ours = summarize(mine, confidence=0.9, resamples=500, seed=3)["tokens_per_s"]
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval))


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for trial in range(100):
        count = rng.integers(1, 40, 60)
        seconds = count * rng.gamma(4.0, 0.25, 60)  # 1 s a token
        texts = [
            replace(row(f"{i:02}", Round(accepted=int(n), drafted=int(n), target_s=float(s))), prompt=f"{i:02}")
            for i, (n, s) in enumerate(zip(count, seconds, strict=True))
        ]
        found = summarize(texts, resamples=300, seed=trial)["tokens_per_s"]
        covered += found.low <= 1.0 <= found.high
    assert (
        covered / 100 >= 0.87
    )  # 0.95 wanted; the standard error is 0.022, and percentiles of 60 texts cover a little less


def test_intervals_do_not_depend_on_the_order_and_do_on_the_seed(rows: dict[str, list[GenerationRecord]]) -> None:
    mine = rows["U-HLM"]
    assert summarize(mine) == summarize(mine[::-1])
    assert summarize(mine) != summarize(mine, seed=2)
    assert summarize(mine).prompts == ("a", "b", "c", "d")
    wide, narrow = (summarize(mine, confidence=c)["tokens_per_s"] for c in (0.99, 0.5))
    assert wide.low <= narrow.low <= narrow.value <= narrow.high <= wide.high


def test_methods_are_paired(rows: dict[str, list[GenerationRecord]]) -> None:
    found = {one.method: one for one in summaries(r for mine in rows.values() for r in mine)}
    assert list(found) == list(rows)
    hlm, other = found["HLM"], found["U-HLM"]
    assert compare(hlm, hlm, "tokens_per_s") == IntervalEstimate(1.0, 1.0, 1.0)
    times = compare(other, hlm, "tokens_per_s")
    assert times.value == pytest.approx(other["tokens_per_s"].value / hlm["tokens_per_s"].value)
    slow = [replace(r, method="slow", rounds=[replace(o, target_s=2 * o.target_s) for o in r.rounds]) for r in BY_HAND]
    one, two = summarize(BY_HAND), summarize(slow)
    assert one["server_s_per_token"].high > 1.5 * one["server_s_per_token"].low  # both vary, their quotient does not
    assert compare(two, one, "server_s_per_token") == IntervalEstimate(2.0, 2.0, 2.0)
    assert compare(other, hlm, "true_skip_rate") == IntervalEstimate(None)
    for name, others in (("prompts", rows["HLM"][:3]), ("settings", rows["HLM"])):
        with pytest.raises(UserError, match=f"differ in their {name}"):
            compare(hlm, summarize(others, seed=5 if name == "settings" else 1), "tokens_per_s")
    with pytest.raises(UserError, match="differ in their confidence"):
        compare(hlm, summarize(rows["HLM"], confidence=0.5), "tokens_per_s")


def test_a_word_without_a_value_in_some_draws_has_an_interval_of_the_others() -> None:
    only = row("one", Round(skipped=2, draft_s=2.0, draft_passes=2, skip_risk=0.5, risk=0.5, mismatch=1.0))
    found = summarize([only, row("two", Round(resampled=1, drafted=1, draft_s=1.0, draft_passes=1, target_s=1.0))])
    assert found["true_skip_rate"] == IntervalEstimate(0.75, 0.75, 0.75)


def test_texts_without_tokens_or_time() -> None:
    found = summarize([row("empty")])
    assert all(one.value is None for key, one in found.estimates.items() if key not in ("seconds_per_text", "risk"))
    assert found["seconds_per_text"] == found["risk"] == IntervalEstimate(0.0, 0.0, 0.0)
    assert found.positions.conditional == ()
    free = summarize([row("free", Round(drafted=1, accepted=1))])
    assert free["tokens_per_s"] == IntervalEstimate(None)
    assert free["tokens_per_s_round_mean"] == IntervalEstimate(None)
    assert free["acceptance"] == IntervalEstimate(1.0, 1.0, 1.0)


def test_a_value_whose_every_draw_lacks_one_stands_alone() -> None:
    from validation.decoding.intervals import estimate

    assert estimate(1.0, np.full(3, np.nan), 0.95) == IntervalEstimate(1.0)


def test_a_ratio_of_other_numbers_has_the_same_draws(rows: dict[str, list[GenerationRecord]]) -> None:
    mine = sorted(rows["fixed K = 3"], key=lambda r: r.prompt)
    accepted, drafted = np.array([[r.total("accepted"), r.total("drafted")] for r in mine]).T
    word, other = summarize(mine)["acceptance"], ratio(accepted, drafted)
    assert (other.value, other.low, other.high) == pytest.approx((word.value, word.low, word.high))


def test_draws_are_with_replacement() -> None:
    drawn = draw_texts(5, 1000, 1)
    assert drawn.shape == (1000, 5)
    assert set(np.unique(drawn)) == set(range(5))
    assert len({tuple(one) for one in drawn.tolist()}) > 700


def test_bad_input_is_refused(rows: dict[str, list[GenerationRecord]]) -> None:
    mine = rows["HLM"]
    with pytest.raises(UserError, match="got none"):
        summarize([])
    with pytest.raises(UserError, match="'HLM' over 'near', 'U-HLM' over 'near'"):
        summarize([*mine, *rows["U-HLM"]])
    with pytest.raises(UserError, match="Two records are of the prompt 'a'"):
        summarize([*mine, mine[1]])
    with pytest.raises(UserError, match=r"confidence is 1\.0"):
        summarize(mine, confidence=1.0)
    with pytest.raises(UserError, match="resamples is 0"):
        summarize(mine, resamples=0)
    with pytest.raises(UserError, match="no texts to take a mean of"):
        ratio(np.zeros(0), np.zeros(0))
    with pytest.raises(UserError, match="transmit_w is -1"):
        summary(mine, transmit_w=-1)


def test_one_text_has_no_standard_error(rows: dict[str, list[GenerationRecord]]) -> None:
    (line,) = summary(rows["HLM"][:1])
    assert line["risk_error"] is None
