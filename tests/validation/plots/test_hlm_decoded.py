"""Figures and tables of decoded texts: their numbers equal those of the records, timed on each link one by one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.validation.plots.conftest import decoded_study
from validation.collection.prompts import Prompt
from validation.decoding.links import FadingLink, fading_links
from validation.decoding.loop import PAPER_TIMES, decode
from validation.decoding.metrics import Summary, summarize
from validation.decoding.records import GenerationRecord
from validation.decoding.scoring import score_key
from validation.decoding.studies import Decoded
from validation.models.pair import Pair
from validation.plots import EXHIBITS, Decoding
from validation.plots.common.decoded import tables
from validation.plots.common.decoded import timed_texts as times
from validation.plots.common.printed import CU, value

PROMPTS = [
    Prompt("b", "two and two", "Alpaca"),
    Prompt("a", "what is the sum", "Alpaca"),
    Prompt("c", "it was the best", "others"),
    Prompt("d", "three apples", "others"),
]
KINDS = {"median": "tokens_per_s_text_median", "total": "tokens_per_s"}
SETTINGS: dict[str, Any] = {"resamples": times.RESAMPLES, "seed": 1}
LIMITS, SIZES = (0, 0.6, 0.8, 0.9, 1), (1, 30, 4096)


@pytest.fixture(scope="module")
def bare(pair: Pair) -> dict[str, Decoded]:
    kept = {"large only", *(f"U-HLM, u_th = {limit:g}" for limit in LIMITS)}
    kept |= {f"CU-HLM offline (k = {k})" for k in SIZES}
    return {name: decoded_study(name, pair, PROMPTS, kept.__contains__, 8) for name in ("hlm", "design")}


@pytest.fixture(scope="module")
def studies(bare: dict[str, Decoded]) -> dict[str, Decoded]:
    return {name: scored(found) for name, found in bare.items()}


def scored(decoded: Decoded) -> Decoded:
    rng = np.random.default_rng(5)
    scores = {}
    for row in decoded.records:
        found = {"similarity_large": float(rng.uniform(0.2, 0.9)), "nats_total": 2.0 * len(row.tokens) + rng.uniform()}
        if row.prompt in "ab":
            found["similarity_reference"] = float(rng.uniform(0.2, 0.9))
        scores[score_key(row)] = found
    return replace(decoded, scores=scores)


def only(decoded: Decoded, *kept: str) -> Decoded:
    rows = [row for row in decoded.records if row.method in kept]
    return replace(decoded, records=rows, about={**decoded.about, "methods": list(kept)})


def named(decoded: Decoded, pair: str) -> Decoded:
    return replace(decoded, about={**decoded.about, "pair": {**decoded.about["pair"], "name": pair}})


def rows_of(decoded: Decoded, method: str) -> list[GenerationRecord]:
    return decoded.by_method[method, "none"]


def decoded_over(pair: Pair, decoded: Decoded, name: str, link: FadingLink) -> Summary:
    method = next(one for one in decoded.methods if one.name == name)
    asked: dict[str, Any] = {"new_tokens": 8, "batch": len(PROMPTS), "seed": 3, "times": PAPER_TIMES, "link": link}
    return summarize(decode(pair, PROMPTS, method, **asked), **SETTINGS)


def measure(number: str, *studies: Decoded, paper: str = CU, seed: int = 1) -> dict[str, Any]:
    one = EXHIBITS[paper, number]
    assert isinstance(one, Decoding)
    return one.measure(studies, seed)


@pytest.mark.parametrize("k_factor_db", [None, 10.0])
def test_many_links_at_once_are_each_link_alone(
    pair: Pair, studies: dict[str, Decoded], k_factor_db: float | None
) -> None:
    decoded, snr_db = studies["hlm"], (-20.0, 10.0)
    texts = times.read_study(decoded)
    fading = times.draw_fading(texts, 3, k_factor_db)
    assert set(texts) == set(decoded.about["methods"])
    for name, one in texts.items():
        found = times.speeds(one, fading, snr_db, seed=1)
        for place, link in enumerate(fading_links(snr_db, k_factor_db=k_factor_db)):
            there = decoded_over(pair, decoded, name, link)
            for word, metric in KINDS.items():
                np.testing.assert_allclose(found[word].value[place], there[metric].value, rtol=1e-9)
                np.testing.assert_allclose(found[word].drawn[:, place], there.draws[metric], rtol=1e-9)
                (mine, wanted) = found[word].estimates()[place], there[metric]
                assert (mine.low, mine.high) == (pytest.approx(wanted.low), pytest.approx(wanted.high))


def test_rates_over_the_threshold_are_the_metrics(studies: dict[str, Decoded]) -> None:
    decoded = studies["design"]
    found = {one["kind"]: one for one in measure("9a-texts", decoded)["series"]}
    assert found["transmission"]["x"] == list(LIMITS)
    for place, limit in enumerate(LIMITS):
        rows = rows_of(decoded, f"U-HLM, u_th = {limit:g}")
        there = summarize(rows, **SETTINGS)
        assert found["transmission"]["mean"][place] == pytest.approx(there["transmission_rate"].value)
        assert found["transmission"]["low"][place] == pytest.approx(there["transmission_rate"].low)
        true = there["true_skip_rate"].value
        assert found["accepted_if_skipped"]["mean"][place] == (None if true is None else pytest.approx(true))
        unseen = sum(row.total("skipped") - row.total("skip_risk") for row in rows)
        share = unseen / (unseen + sum(row.total("accepted") for row in rows))
        assert found["skipped_if_accepted"]["mean"][place] == pytest.approx(share)
        wanted = np.mean([decoded.scores[score_key(row)]["similarity_large"] for row in rows])
        assert found["similarity_large"]["mean"][place] == pytest.approx(wanted)
    assert found["transmission"]["mean"][-1] == 0  # u is at most 1
    assert found["skipped_if_accepted"]["mean"][-1] == 1


def test_payload_is_the_formula_and_the_bytes(studies: dict[str, Decoded]) -> None:
    decoded = studies["design"]
    found = {one["kind"]: one for one in measure("9b-texts", decoded)["series"]}
    assert found["formula"]["x"] == list(SIZES)
    assert found["formula"]["mean"] == [min(k, 300) * (8 + 9) for k in found["formula"]["x"]]  # V = 300
    each = [one.bytes for row in rows_of(decoded, "CU-HLM offline (k = 30)") for one in row.rounds if one.bytes]
    assert found["encoded"]["mean"][1] == pytest.approx(8 * np.mean(each))


def test_table_ii_says_where_the_time_goes(pair: Pair, studies: dict[str, Decoded]) -> None:
    decoded = studies["hlm"]
    others = [named(decoded, "distilled"), named(decoded, "larger"), named(decoded, "wide")]
    found = measure("II", decoded, *others)
    rows = found["statistics"]["rows"]
    assert [one["role"] for one in rows[::4]] == ["No KD", "KD", "7B–13B", None]
    assert [one["method"] for one in rows[:4]] == list(tables.TIMED.values())
    assert value(CU, "chosen") == tables.CHOSEN_THRESHOLD
    (link,) = fading_links([10.0])
    timed = decoded_over(pair, decoded, "U-HLM risk-prone", link)
    words = {"link_s": "link_s_per_token", "large_s": "server_s_per_token", "small_s": "device_s_per_token"}
    words |= {"tokens_per_s": "tokens_per_s", "link_s_median": "link_s_per_token_text_median"}
    for name, metric in words.items():
        for end in ("value", "low", "high"):
            assert rows[0][name][end] == pytest.approx(getattr(timed[metric], end), rel=1e-6)
    assert rows[8]["small_s"]["value"] == pytest.approx(rows[0]["small_s"]["value"] * 64 / 25.6)
    for one in rows:
        total = sum(one[name]["value"] for name in ("link_s", "large_s", "small_s"))
        assert one["tokens_per_s"]["value"] == pytest.approx(1 / total)
    (table,) = found["tables"]
    assert table["rows"][2][-1] == table["rows"][3][-1] == "38.1 μs, 30 ms, 18 (No KD)"
    assert table["rows"][-1][-1] == "–"
