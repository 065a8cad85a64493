"""Figures and tables of decoded texts: their numbers equal those of the records, timed on each link one by one."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from validation.plots.common.skipping.printed import CU, U, value

from validation.collection.prompts import Prompt
from validation.decoding.links import FadingLink
from validation.decoding.loop import PAPER_TIMES, decode
from validation.decoding.methods.registry import Fitted
from validation.decoding.methods.single_draft import CuHlmOffline
from validation.decoding.metrics import compare, summarize
from validation.decoding.records import GenerationRecord
from validation.decoding.retiming import fading_links, retime, uhlm_link
from validation.decoding.scoring import score_key
from validation.decoding.studies import STUDIES, Decoded
from validation.errors import UserError
from validation.models.pair import Pair
from validation.plots import EXHIBITS, Decoding, draw
from validation.plots.common.decoded import captions, numbers, printed, tables
from validation.plots.common.decoded import timed_texts as times

PROMPTS = [
    Prompt("b", "two and two", "Alpaca"),
    Prompt("a", "what is the sum", "Alpaca"),
    Prompt("c", "it was the best", "others"),
    Prompt("d", "three apples", "others"),
]
FITTED = Fitted(0.5, 0.05, 0.4, 0.1, 0.95, 0.94, 20)
KINDS = {"median": "tokens_per_s_text_median", "total": "tokens_per_s", "round_mean": "tokens_per_s_round_mean"}
SETTINGS: dict[str, Any] = {"resamples": times.RESAMPLES, "seed": 1}
LIMITS, SIZES = (0, 0.6, 0.8, 0.9, 1), (1, 30, 4096)
EVERY = [key for key, one in EXHIBITS.items() if isinstance(one, Decoding) and key[0] in (CU, U)]


@pytest.fixture(scope="module")
def bare(pair: Pair) -> dict[str, Decoded]:
    """Both studies, without scores."""

    def run(name: str) -> Decoded:
        made = STUDIES[name].methods(FITTED)
        kept = {"large only", *(f"U-HLM, u_th = {limit:g}" for limit in LIMITS)}
        kept |= {f"CU-HLM offline (k = {k})" for k in SIZES}
        chosen = [one for one in made if name == "hlm" or one.name in kept]
        settings: dict[str, Any] = {"new_tokens": 8, "batch": 4, "seed": 3, "times": PAPER_TIMES, "risk": True}
        rows = [row for method in chosen for row in decode(pair, PROMPTS, method, **settings)]
        about = {
            "pair": pair.describe(),
            "new_tokens": 8,
            "seed": 3,
            "fitted": asdict(FITTED),
            "methods": [method.name for method in chosen],
            "prompts": [{"id": prompt.id, "source": prompt.source} for prompt in PROMPTS],
        }
        return Decoded(name, about, rows, {})

    return {name: run(name) for name in ("hlm", "design")}


@pytest.fixture(autouse=True)
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use few samples for the results of the paper's own numbers."""
    monkeypatch.setattr(captions, "gain_by_totals", partial(printed.gain_by_totals, samples=3))
    monkeypatch.setattr(captions, "u_gain_by_totals", partial(printed.u_gain_by_totals, samples=3))


@pytest.fixture(scope="module")
def studies(bare: dict[str, Decoded]) -> dict[str, Decoded]:
    """The studies with scores; one prompt set has reference answers."""
    return {name: scored(found) for name, found in bare.items()}


def scored(decoded: Decoded) -> Decoded:
    """The study with scores that depend on the text."""
    rng = np.random.default_rng(5)
    scores = {}
    for row in decoded.records:
        found = {"similarity_large": float(rng.uniform(0.2, 0.9)), "nats_total": 2.0 * len(row.tokens) + rng.uniform()}
        if row.prompt in "ab":
            found["similarity_reference"] = float(rng.uniform(0.2, 0.9))
        scores[score_key(row)] = found
    return replace(decoded, scores=scores)


def only(decoded: Decoded, *kept: str) -> Decoded:
    """Some of the methods."""
    rows = [row for row in decoded.records if row.method in kept]
    return replace(decoded, records=rows, about={**decoded.about, "methods": list(kept)})


def named(decoded: Decoded, pair: str) -> Decoded:
    """Return the study under another pair's name."""
    return replace(decoded, about={**decoded.about, "pair": {**decoded.about["pair"], "name": pair}})


def rows_of(decoded: Decoded, method: str) -> list[GenerationRecord]:
    """Return the records of one method."""
    return decoded.by_method[method, "none"]


def measure(number: str, *studies: Decoded, paper: str = CU, seed: int = 1) -> dict[str, Any]:
    """Return the numbers of one figure."""
    one = EXHIBITS[paper, number]
    assert isinstance(one, Decoding)
    return one.measure(studies, seed)


# ----------------------------------------------------------------------------------------------------- times


@pytest.mark.parametrize("k_factor_db", [None, 10.0])
def test_many_links_at_once_are_each_link_alone(studies: dict[str, Decoded], k_factor_db: float | None) -> None:
    decoded, snr_db = studies["hlm"], (-20.0, 10.0)
    texts = times.read_study(decoded)
    fading = times.draw_fading(texts, 3, k_factor_db)
    assert set(texts) == set(decoded.about["methods"])
    for name, one in texts.items():
        found = times.speeds(one, fading, snr_db, seed=1)
        for place, link in enumerate(fading_links(snr_db, k_factor_db=k_factor_db)):
            there = summarize(retime(rows_of(decoded, name), link, decoded.methods, times=PAPER_TIMES), **SETTINGS)
            for word, metric in KINDS.items():
                np.testing.assert_allclose(found[word].value[place], there[metric].value, rtol=1e-9)
                np.testing.assert_allclose(found[word].drawn[:, place], there.draws[metric], rtol=1e-9)
                (mine, wanted) = found[word].estimates()[place], there[metric]
                assert (mine.low, mine.high) == (pytest.approx(wanted.low), pytest.approx(wanted.high))


def test_other_times_another_width_and_no_fading(studies: dict[str, Decoded]) -> None:
    decoded = only(studies["hlm"], "HLM", "U-HLM risk-prone", "small only")
    texts = times.read_study(decoded)
    link = FadingLink("still", 1e6, 0.5)
    for name, one in texts.items():
        settings: dict[str, Any] = {"times": (0.064, 0.2), "bandwidth_hz": 1e6}
        found = times.speeds(one, times.still(texts), [10 * np.log10(0.5)], seed=1, **settings)
        there = summarize(retime(rows_of(decoded, name), link, decoded.methods, times=(0.064, 0.2)), **SETTINGS)
        assert found["total"].value[0] == pytest.approx(there["tokens_per_s"].value)
    formula = times.speeds(texts["HLM"], times.still(texts), [0.0], seed=1, formula=True)["total"].value[0]
    per_token = sum(PAPER_TIMES) + printed.row_bits(300) / 1e7  # log₂(1 + 1) = 1
    assert formula == pytest.approx(1 / per_token)


def test_gains_are_paired(studies: dict[str, Decoded]) -> None:
    decoded = studies["hlm"]
    found = measure("10a", decoded)["statistics"]
    (link,) = fading_links([-20.0])
    one, whole = (
        summarize(retime(rows_of(decoded, name), link, decoded.methods, times=PAPER_TIMES), **SETTINGS)
        for name in ("CU-HLM online", "HLM")
    )
    for word, metric in KINDS.items():
        wanted = compare(one, whole, metric)
        for end in ("value", "low", "high"):
            assert found["gains"]["CU-HLM online"][word][end] == pytest.approx(getattr(wanted, end), rel=1e-6)
    assert found["gains_at_snr_db"] == -20
    assert found["gains"]["HLM"]["total"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert found["message_bits"]["HLM"]["formula"] == 300 * (8 + 9)
    assert found["message_bits"]["small only"] == {"encoded": None, "formula": None}
    assert found["gains_by_formula"]["U-HLM risk-prone"] != found["gains"]["U-HLM risk-prone"]


def test_fig_10_draws_every_method_and_word(studies: dict[str, Decoded]) -> None:
    rayleigh, rician = (measure(number, studies["hlm"]) for number in ("10a", "10b"))
    for found in (rayleigh, rician):
        drawn = [(one["name"], one["word"]) for one in found["series"]]
        assert drawn == [(name, kind) for name in studies["hlm"].about["methods"] for kind in KINDS]
        assert all(one["x"] == [-20, -15, -10, -5, 0, 5, 10] for one in found["series"])
    assert rayleigh["series"] != rician["series"]
    small = [one for one in rayleigh["series"] if one["name"] == "small only"]
    assert all(speed == pytest.approx(1 / PAPER_TIMES[0]) for one in small for speed in one["mean"])


def test_the_link_of_u_hlm(studies: dict[str, Decoded]) -> None:
    decoded = studies["hlm"]
    found = measure("6-texts", decoded, paper=U)
    assert found["statistics"]["link_snr_db"] == pytest.approx(-8.9176, abs=1e-4)
    series = next(one for one in found["series"] if (one["name"], one["word"]) == ("U-HLM risk-prone", "median"))
    place = series["x"].index(found["statistics"]["link_snr_db"])
    timed = retime(rows_of(decoded, "U-HLM risk-prone"), uhlm_link(), decoded.methods, times=printed.U_TIMES)
    there = summarize(timed, **SETTINGS)
    assert series["mean"][place] == pytest.approx(there["tokens_per_s_text_median"].value, rel=1e-4)  # SNR of 4 digits
    assert [one["name"].split()[0] for one in found["bars"]] == [
        "Rand-HLM",
        *2 * ["U-HLM"],
        *3 * ["CU-HLM"],
        "U-HLM",
        "CU-HLM",
    ]
    assert numbers.axis("a")["scale"] == "linear"


# ---------------------------------------------------------------------------------------------------- accuracy


def test_fig_1_puts_accuracy_over_speed(studies: dict[str, Decoded]) -> None:
    decoded = studies["hlm"]
    found = measure("1", decoded)
    assert [one["name"] for one in found["series"]] == decoded.about["methods"]
    for one in found["series"]:
        rows = rows_of(decoded, one["name"])
        for name in numbers.ACCURACIES:
            values = [score[name] for row in rows if name in (score := decoded.scores[score_key(row)])]
            assert one["accuracy"][name]["value"] == pytest.approx(np.mean(values))
            assert one["accuracy"][name]["low"] <= np.mean(values) <= one["accuracy"][name]["high"]
        nats = sum(decoded.score(rows, "nats_total"))
        assert one["perplexity"]["value"] == pytest.approx(np.exp(nats / sum(len(row.tokens) for row in rows)))
    caption = EXHIBITS[CU, "1"].caption(found)
    assert "CU-HLM certified" in caption
    assert "Not drawn" not in caption


def test_the_share_of_right_answers_has_its_own_column_and_its_own_words(studies: dict[str, Decoded]) -> None:
    scores = {
        key: {**one, "right": float(number % 2)} for number, (key, one) in enumerate(studies["hlm"].scores.items())
    }
    decoded = replace(studies["hlm"], scores=scores)
    found = measure("I", decoded)
    titles = [table["title"] for table in found["tables"]]
    assert titles[:2] == ["Mean share of right answers", "Mean cosine similarity to the reference answer"]
    assert found["statistics"]["absent"] == []
    assert "share of right answers kept" in EXHIBITS[CU, "I"].caption(found)
    assert "right" not in measure("I", studies["hlm"])["statistics"]["shares"]
    both = measure("1", decoded)
    assert [one["y"]["label"] for one in both["axes"]] == ["share of right answers", *["mean cosine similarity"] * 2]
    assert EXHIBITS[CU, "1"].paint(both) is not None
    lines = measure(
        "9a-texts", replace(studies["design"], scores={k: {"right": 1.0} for k in studies["design"].scores})
    )
    assert [one["name"] for one in lines["series"]][-1] == "share of right answers"
    assert lines["axes"][1]["y"]["label"] == "share of right answers"


def test_what_was_not_scored_is_said(bare: dict[str, Decoded], studies: dict[str, Decoded]) -> None:
    for paper, number in EVERY:
        one = EXHIBITS[paper, number]
        assert isinstance(one, Decoding)
        found = one.measure([bare[one.study]], 1)
        if "absent" not in found["statistics"]:
            continue
        assert found["statistics"]["absent"] == list(numbers.ACCURACIES.values())
        assert "no text has this score: similarity to the reference" in one.caption(found)
    large = {key: {"similarity_large": score["similarity_large"]} for key, score in studies["hlm"].scores.items()}
    found = measure("1", replace(studies["hlm"], scores=large))
    assert found["statistics"]["accuracies"] == ["similarity_large"]
    assert found["statistics"]["absent"] == ["similarity to the reference answer"]
    assert all(one["perplexity"]["value"] is None for one in found["series"])


def test_table_i_has_a_column_a_set_and_the_printed_beside(studies: dict[str, Decoded]) -> None:
    decoded = studies["hlm"]
    reference, large, perplexity, paper = measure("I", decoded)["tables"]
    assert reference["heads"] == ["method", "Alpaca", "Alpaca, printed"]  # no answers for the others
    assert large["heads"] == ["method", "Alpaca", "others", "all sets"]
    assert perplexity["heads"] == ["method", "Alpaca", "others", "all sets"]
    cells = {row[0]: row[1:] for row in reference["rows"]}
    assert cells["large only"][1] == "0.7782 / 0.7758"
    assert cells["CU-HLM online"][1] == "0.7623 / 0.7622"
    assert cells["CU-HLM certified (bias 0.1)"][1] == "–"
    alpaca = decoded.of_source("Alpaca")
    mean = np.mean(alpaca.score(rows_of(alpaca, "HLM"), "similarity_reference"))
    assert cells["HLM"][0].startswith(f"{mean:.3f} [")
    assert len(paper["rows"]) == 14
    theirs = measure("I", decoded, paper=U)["tables"]
    assert {row[0]: row[2] for row in theirs[0]["rows"]}["U-HLM risk-prone"] == "0.5585"
    assert not any(row[0].startswith("CU-HLM") for table in theirs for row in table["rows"])


def test_shares_are_of_the_same_texts(studies: dict[str, Decoded]) -> None:
    decoded = studies["hlm"]
    found = measure("I", decoded)["statistics"]["shares"]["similarity_large"]["CU-HLM online"]["HLM"]
    one, whole = (
        np.mean(decoded.score(rows_of(decoded, name), "similarity_large")) for name in ("CU-HLM online", "HLM")
    )
    assert found["value"] == pytest.approx(one / whole)
    parts = [decoded.of_source(source) for source in decoded.sources]
    each = [
        np.mean(part.score(rows_of(part, "CU-HLM online"), "similarity_large"))
        / np.mean(part.score(rows_of(part, "HLM"), "similarity_large"))
        for part in parts
    ]
    assert found["mean_over_sets"] == pytest.approx(np.mean(each))
    reference = measure("I", decoded)["statistics"]["shares"]["similarity_reference"]["CU-HLM online"]["HLM"]
    assert reference["mean_over_sets"] is None  # there is one set
    caption = EXHIBITS[CU, "I"].caption(measure("I", decoded))
    assert f"CU-HLM online {100 * found['value']:.1f} [" in caption
    assert "96.91% (offline)" in caption
    assert numbers.share_of(decoded, rows_of(decoded, "HLM"), [], "similarity_large", 1) is None


def test_a_study_without_hlm_or_sets_in_common(studies: dict[str, Decoded]) -> None:
    decoded = only(studies["hlm"], "small only", "CU-HLM online")
    assert "no HLM" in EXHIBITS[CU, "10a"].caption(measure("10a", decoded))
    assert "no HLM" in EXHIBITS[U, "6-texts"].caption(measure("6-texts", decoded, paper=U))
    others = {**decoded.about, "prompts": [{**one, "source": "others"} for one in decoded.about["prompts"]]}
    found = measure("I", replace(decoded, about=others))
    assert "None of its sets is among ours." in EXHIBITS[CU, "I"].caption(found)
    assert found["tables"][0]["heads"] == ["method", "others"]
    assert found["statistics"]["shares"]["similarity_large"]["CU-HLM online"] == {}


# --------------------------------------------------------------------------------------------- thresholds, sizes


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
        wanted = np.mean(decoded.score(rows, "similarity_large"))
        assert found["similarity_large"]["mean"][place] == pytest.approx(wanted)
    assert found["transmission"]["mean"][-1] == 0  # u is at most 1
    assert found["skipped_if_accepted"]["mean"][-1] == 1


def test_u_hlms_true_skip_rate_has_no_value_unless_all_texts_are_judged(studies: dict[str, Decoded]) -> None:
    name = "U-HLM, u_th = 0.6"
    rows = rows_of(studies["design"], name)
    assert numbers.skipped_of_accepted(rows, 1).value is not None
    for unjudged in (rows[:1], rows):
        some = [replace(row, risk_computed=False) if row in unjudged else row for row in rows]
        assert numbers.skipped_of_accepted(some, 1) == numbers.IntervalEstimate(None)
        assert summarize(some, **SETTINGS)["true_skip_rate"].value is None
    blind = replace(studies["design"], records=[replace(row, risk_computed=False) for row in studies["design"].records])
    found = measure("9a-texts", blind)
    assert next(one for one in found["series"] if one["kind"] == "skipped_if_accepted")["mean"] == [None] * len(LIMITS)
    assert "P(skipped | accepted) undefined" in EXHIBITS[U, "4-texts"].caption(found)


def test_captions_stand_at_the_papers_thresholds(studies: dict[str, Decoded]) -> None:
    found = measure("9a-texts", studies["design"])
    caption = EXHIBITS[CU, "9a-texts"].caption(found)
    assert caption.startswith("At the threshold 0.8: transmission rate ")
    assert "0.252 by the printed 74.8% skipped" in caption
    assert "0.1000 and 0.9500 for this pair, 0.081 and 0.8117 in the paper" in caption
    assert EXHIBITS[U, "4-texts"].caption(found).startswith("At the threshold 0.6: ")
    nothing = measure("9a-texts", only(studies["design"], "large only"))
    assert EXHIBITS[CU, "9a-texts"].caption(nothing) == "The study has no thresholds."
    assert EXHIBITS[CU, "9b-texts"].caption(measure("9b-texts", only(studies["design"]))) == "The study has no sizes."
    endless = {**studies["design"].about["fitted"], "calibrated": float("-inf")}
    about = {**studies["design"].about, "fitted": endless}
    assert measure("9a-texts", replace(studies["design"], about=about))["statistics"]["calibrated"] is None


def test_payload_is_the_formula_and_the_bytes(studies: dict[str, Decoded]) -> None:
    decoded = studies["design"]
    found = {one["kind"]: one for one in measure("9b-texts", decoded)["series"]}
    assert found["formula"]["x"] == list(SIZES)
    assert found["formula"]["mean"] == [min(k, 300) * (8 + 9) for k in found["formula"]["x"]]  # V = 300
    rows = rows_of(decoded, "CU-HLM offline (k = 30)")
    each = [one.bytes for row in rows for one in row.rounds if one.bytes]
    assert found["encoded"]["mean"][1] == pytest.approx(8 * np.mean(each))
    caption = EXHIBITS[CU, "9b-texts"].caption(measure("9b-texts", decoded))
    assert "510 [510, 510] by formula" in caption
    assert "All at this pair's risk-prone threshold 0.950, where" in caption


def test_sizes_are_taken_where_anything_is_sent(bare: dict[str, Decoded], pair: Pair) -> None:
    """At the paper's threshold if the pair's own exceeds 1; a study that sends nothing is drawn, too."""
    design = STUDIES["design"]
    (beyond, *_) = (one for one in design.methods(replace(FITTED, risk_prone=1.2)) if isinstance(one, CuHlmOffline))
    assert (beyond.threshold, beyond.name) == (0.8, "CU-HLM offline (k = 1) at 0.8")
    rows = decode(pair, PROMPTS, beyond, new_tokens=8, seed=3, times=PAPER_TIMES)
    about = bare["design"].about | {"fitted": asdict(replace(FITTED, risk_prone=1.2)), "methods": [beyond.name]}
    caption = EXHIBITS[CU, "9b-texts"].caption(measure("9b-texts", Decoded("design", about, rows, {})))
    assert "All at the paper's threshold 0.8, where" in caption
    assert "This pair's risk-prone threshold, 1.200, skips everything." in caption
    silent = CuHlmOffline(1.0, 1)
    rows = decode(pair, PROMPTS, silent, new_tokens=8, seed=3, times=PAPER_TIMES)
    about |= {"fitted": asdict(FITTED), "methods": [silent.name]}
    found = measure("9b-texts", Decoded("design", about, rows, {}))
    assert found["axes"][1]["y"]["scale"] == "linear"
    EXHIBITS[CU, "9b-texts"].paint(found)


# ------------------------------------------------------------------------------------------------------ Table II


def test_table_ii_says_where_the_time_goes(studies: dict[str, Decoded]) -> None:
    decoded = studies["hlm"]
    others = [named(decoded, "distilled"), named(decoded, "larger"), named(decoded, "wide")]
    found = measure("II", decoded, *others)
    rows = found["statistics"]["rows"]
    assert [one["role"] for one in rows[::4]] == ["No KD", "KD", "7B–13B", None]
    assert [one["method"] for one in rows[:4]] == list(tables.TIMED.values())
    assert value(CU, "chosen") == tables.CHOSEN_THRESHOLD
    (link,) = fading_links([10.0])
    rows_there = retime(rows_of(decoded, "U-HLM risk-prone"), link, decoded.methods, times=PAPER_TIMES)
    timed = summarize(rows_there, **SETTINGS)
    words = {"link_s": "link_s_per_token", "large_s": "server_s_per_token", "small_s": "device_s_per_token"}
    words |= {"tokens_per_s": "tokens_per_s", "link_s_median": "link_s_per_token_text_median"}
    for name, metric in words.items():
        for end in ("value", "low", "high"):
            assert rows[0][name][end] == pytest.approx(getattr(timed[metric], end), rel=1e-6)
    assert rows[8]["small_s"]["value"] == pytest.approx(rows[0]["small_s"]["value"] * 64 / 25.6)
    for one in rows:
        total = sum(one[name]["value"] for name in ("link_s", "large_s", "small_s"))
        assert one["tokens_per_s"]["value"] == pytest.approx(1 / total)
    times_table, acceptance, implied = found["tables"]
    assert times_table["rows"][2][-1] == times_table["rows"][3][-1] == "38.1 μs, 30 ms, 18 (No KD)"
    assert times_table["rows"][-1][-1] == "–"
    assert acceptance["rows"][1][2] == "1.000 [1.000, 1.000]"
    assert len(implied["rows"]) == 6
    caption = EXHIBITS[CU, "II"].caption(found)
    assert "distilled 1.000 [1.000, 1.000] times, larger" in caption
    assert "of 300 entries a message on average" in caption
    assert "nothing" not in caption
    found["statistics"]["threshold"] = 1.2
    assert "verify no draft" in EXHIBITS[CU, "II"].caption(found)


def test_table_ii_of_what_there_is(studies: dict[str, Decoded]) -> None:
    alone = only(studies["hlm"], "U-HLM risk-prone")
    found = measure("II", alone)
    assert len(found["tables"][0]["rows"]) == 1
    assert found["tables"][1]["rows"][0][1:3] == ["–", "–"]
    caption = EXHIBITS[CU, "II"].caption(found)
    assert "Only the run's own pair was decoded" in caption
    assert "entries a message on average" not in caption
    half = replace(studies["hlm"], records=[row for row in studies["hlm"].records if row.prompt in "ab"])
    gains = measure("II", studies["hlm"], named(half, "distilled"))["statistics"]["acceptance_gains"]
    assert gains["distilled"]["value"] is None  # not the same prompts


# ------------------------------------------------------------------------------------------------- what is printed


def test_table_ii_is_printed_without_fading() -> None:
    cells = [cell for method in printed.LATENCIES.values() for cell in method.items()]
    for name, (link, large, speed) in cells:
        small = 64.0 if name == "7B–13B" else 25.6
        assert speed == pytest.approx(1e3 / (link + large + small), abs=0.06)
    whole = 1e3 * printed.at_mean_snr(printed.row_bits(), 10.0)
    assert printed.row_bits() == 736_000
    for link, large, _ in printed.LATENCIES["U-HLM"].values():
        assert link == pytest.approx(large / 104.6 * whole, abs=0.05)
    for link, large, _ in printed.LATENCIES["CU-HLM (Online)"].values():
        assert pytest.approx(32_000 * link / (large / 104.6 * whole), rel=0.01) == 200
    assert [row[-1].split(": ")[1] for row in printed.implied().rows[3:5]] == 2 * ["200 entries"]
    assert f"{31.1 / 104.6:.3f}" in printed.remarks()


def test_printed_shares_follow_from_the_printed_tables() -> None:
    large, small = printed.ACCURACY.values()
    assert large["CU-HLM (Offline)"][0] / large["HLM"][0] == pytest.approx(0.9691, abs=1e-4)
    assert large["CU-HLM (Online)"][0] / large["HLM"][0] == pytest.approx(0.9742, abs=1e-4)
    assert small["SLM"][1:] == large["SLM"][1:]
    (cells,) = printed.LIKENESS.values()
    own = np.array(cells["U-HLM"])
    assert np.mean(own / cells["LLM"]) == pytest.approx(0.9754, abs=1e-4)
    assert np.mean(own / cells["HLM"]) == pytest.approx(1.0005, abs=1e-4)
    assert "97.54%" in printed.shares(U)


def test_the_printed_gains_are_one_samples() -> None:
    steady, middle, low, high = printed.gain_by_totals(30.0, samples=20)
    sent = 1 - value(CU, "skipped")
    one = 1 / (1e7 * np.log2(1.01))
    wanted = (0.1302 + 736_000 * one) / (0.0256 + sent * (0.1046 + 690 * one))
    assert steady == pytest.approx(wanted)
    assert steady < low < 1014.1 < high
    assert low < middle < high
    assert printed.gain_by_rounds(30.0) < 1014.1 / 5
    assert printed.gain_by_rounds(30.0) > printed.gain_by_rounds(832.0)


def test_u_hlms_printed_gain_is_bounded_on_average_and_not_in_a_sample() -> None:
    snr_db, sent = -8.9176, 1 - value(U, "skipped")
    middle, low, high, reached = printed.u_gain_by_totals(snr_db, samples=60)
    assert low < 1 / sent < 2.54 < high
    assert low < middle < high
    assert 0 < reached < 0.5
    rng = np.random.default_rng(2)
    link = rng.pareto(1.0, 6)  # any fading: over all sets of three sent rows, the mean total is at least half of HLM's
    small_s, large_s = printed.U_TIMES
    chosen = [sum(large_s + link[list(one)]) + 6 * small_s for one in combinations(range(6), 3)]
    whole = sum(small_s + large_s + link)
    assert np.mean(chosen) >= whole / 2
    assert min(chosen) < whole / 2  # by chance


def test_u_hlms_printed_gain_is_no_mean_over_rounds() -> None:
    least, (small_s, large_s) = printed.u_gain_by_rounds(), printed.U_TIMES
    assert least > 2.54
    sent = 1 - value(U, "skipped")
    for link in (np.zeros(5), np.array([0.0, 0.1, 3.0]), np.full(4, 1e6)):
        whole = np.mean(1 / (small_s + large_s + link))
        found = (sent * whole + (1 - sent) / small_s) / whole
        assert found >= least * (1 - 1e-12)
    assert (sent + (1 - sent) / (small_s / (small_s + large_s))) == pytest.approx(least)


def test_the_caption_keeps_both_definitions_apart(studies: dict[str, Decoded]) -> None:
    found = measure("6-texts", studies["hlm"], paper=U)
    caption = EXHIBITS[U, "6-texts"].caption(found)
    own, theirs = caption.split("The paper prints 2.54×")
    totals, rounds = own.split("As means over rounds of (4)")
    gain = found["statistics"]["gains"]["U-HLM risk-prone"]
    assert f"U-HLM risk-prone {gain['total']['value']:.2f} [" in totals
    assert f"U-HLM risk-prone {gain['round_mean']['value']:.2f} [" in rounds
    assert "the gain is at most 1.85×" in theirs
    assert "it is 2.95× or more at every SNR" in theirs
    assert "on average over the fading" not in caption
    assert "no U-HLM" in captions._own_gains({"gains": {"HLM": {}}})


def test_a_message_is_of_a_method_that_verifies_drafts(studies: dict[str, Decoded]) -> None:
    """The draft model alone is no gain of a method; the findings name the methods that are it."""
    found = measure("10a", studies["hlm"])
    gains = found["statistics"]["gains"]
    (fast, *others) = (name for name in gains if name.startswith("CU-HLM"))
    gains[fast] = gains["small only"]
    assert fast not in EXHIBITS[CU, "10a"].message(found)
    assert f"Equal to the draft model alone, as no draft is verified: {fast}" in EXHIBITS[CU, "10a"].caption(found)
    gains |= dict.fromkeys(others, gains["small only"])  # all of them: the message has nothing else to say
    assert "CU-HLM" in EXHIBITS[CU, "10a"].message(found)


def test_one_text_may_raise_a_ratio_of_totals(studies: dict[str, Decoded]) -> None:
    """So a ratio that tends to 0 need not fall with each text."""
    decoded = only(studies["hlm"], "HLM")
    texts = times.read_study(decoded)["HLM"]
    link = times.sum_by(texts, times.link_seconds(texts, times.draw_fading({"HLM": texts}, 3), -20.0))
    order = np.argsort(-link / texts.tokens)  # the slowest first
    found = np.cumsum(texts.tokens[order]) / np.cumsum(link[order])
    assert np.all(np.diff(found) > 0)


# ---------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(("paper", "number"), EVERY)
def test_every_exhibit_is_drawn(
    paper: str, number: str, studies: dict[str, Decoded], bare: dict[str, Decoded], tmp_path: Path
) -> None:
    one = EXHIBITS[paper, number]
    assert isinstance(one, Decoding)
    settings: dict[str, Any] = {"command": "hlm figure", "seed": 1, "commit": "c0ffee"}
    kinds = {"first": studies, "bare": bare} | ({"again": studies} if number == "9a-texts" else {})
    files = {
        name: draw(one, None, tmp_path / name, decoded=[kind[one.study]], **settings) for name, kind in kinds.items()
    }
    if "again" in files:
        assert [path.read_bytes() for path in files["first"]] == [path.read_bytes() for path in files["again"]]
    for written in (files["first"], files["bare"]):
        assert [path.suffix for path in written] == ([".json"] if one.paint is None else [".json", ".svg"])
        found = json.loads(written[0].read_text(encoding="utf-8"))
        assert "r_max = 8" in found["basis"]
        assert not any(word in found["findings"] for word in ("nan", "None", "inf,", "  "))
        assert all(axes[side]["label"] for axes in found["axes"] for side in "xy")
        heads = [table["heads"] for table in found.get("tables", [])]
        for table, columns in zip(found.get("tables", []), heads, strict=True):
            assert all(len(row) == len(columns) for row in table["rows"])


def test_another_seed_moves_the_intervals_alone(studies: dict[str, Decoded]) -> None:
    one, other = (measure("9a-texts", studies["design"], seed=seed)["series"] for seed in (1, 2))
    assert [series["mean"] for series in one] == [series["mean"] for series in other]
    assert [series["low"] for series in one] != [series["low"] for series in other]


def test_words_of_a_number_without_a_value() -> None:
    nothing: dict[str, float | None] = {"value": None, "low": None, "high": None}
    assert captions.said(nothing) == captions.said(None) == "undefined"
    assert captions.said(nothing | {"value": 0.5}) == "0.500"
    assert tables.cell(None) == "–"
    assert tables.cell(numbers.IntervalEstimate(0.25), ".2f") == "0.25"
    assert tables.role("wide", first=False) is None


def test_without_texts_one_is_told_how_to_decode() -> None:
    with pytest.raises(UserError, match="hlm decode design"):
        draw(EXHIBITS[CU, "9a-texts"], None, Path("unused"), command="", seed=1)
