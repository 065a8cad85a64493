"""The metrics of decoding methods: by hand on tiny records, by identities on decoded records, and their intervals."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import bootstrap

from validation.collection.prompts import Prompt
from validation.decoding.intervals import ratio
from validation.decoding.links import FadingLink
from validation.decoding.loop import PAPER_TIMES, decode
from validation.decoding.methods.single_draft import Hlm, UHlm
from validation.decoding.metrics import MEDIANS, METRICS, summarize, summary
from validation.decoding.records import GenerationRecord, Round
from validation.errors import UserError
from validation.estimates import Estimate

PROMPTS = [
    Prompt("c", "two and two make", "test"),
    Prompt("a", "what is", "test"),
    Prompt("b", "the times", "test"),
    Prompt("d", "three apples and four apples", "test"),
]
METHODS = [Hlm(), UHlm(0.95)]
LINK = FadingLink("near", 1e6, 1.0)
SETTINGS: dict[str, Any] = {"new_tokens": 16, "times": PAPER_TIMES, "risk": True, "link": LINK}


@pytest.fixture(scope="module")
def rows(pair):
    return {method.name: decode(pair, PROMPTS, method, **SETTINGS) for method in METHODS}


def row(prompt: str, *rounds: Round, last: Round | None = None) -> GenerationRecord:
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


def test_every_word_by_hand():
    (line,) = summary(BY_HAND)
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
        "risk": 1.0 / 2,
        "risk_error": 0.5,
        "tokens_per_s_text_median": (8 / 17 + 1 / 3) / 2,
        "seconds_per_token_text_median": (17 / 8 + 3) / 2,
        "link_s_per_token_text_median": (5 / 8 + 0) / 2,
    }
    assert line == pytest.approx(expected)
    assert list(line) == ["texts", "tokens", *(m.name for m in METRICS), *MEDIANS, "risk_error"]


def test_the_interval_is_scipys(rows):
    mine = sorted(rows["U-HLM"], key=lambda r: r.prompt)
    tokens, seconds = np.array([[len(r.tokens), r.seconds] for r in mine]).T

    def ratio(chosen, axis):
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


def test_texts_without_tokens_or_time():
    found = summarize([row("empty")])
    assert all(one.value is None for key, one in found.estimates.items() if key not in ("seconds_per_text", "risk"))
    assert found["seconds_per_text"] == found["risk"] == Estimate(0.0, 0.0, 0.0)
    free = summarize([row("free", Round(drafted=1, accepted=1))])
    assert free["tokens_per_s"] == Estimate(None)
    assert free["tokens_per_s_round_mean"] == Estimate(None)
    assert free["acceptance"] == Estimate(1.0, 1.0, 1.0)


def test_bad_input_is_refused(rows):
    mine = rows["HLM"]
    for records, options, said in (
        ([], {}, "got none"),
        ([*mine, *rows["U-HLM"]], {}, "'HLM' over 'near', 'U-HLM' over 'near'"),
        ([*mine, mine[1]], {}, "Two records are of the prompt 'a'"),
        (mine, {"confidence": 1.0}, r"confidence is 1\.0"),
        (mine, {"resamples": 0}, "resamples is 0"),
    ):
        with pytest.raises(UserError, match=said):
            summarize(records, **options)
    with pytest.raises(UserError, match="no texts to take a mean of"):
        ratio(np.zeros(0), np.zeros(0))
