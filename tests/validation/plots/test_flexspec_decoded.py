"""flexspec's figures on decoded texts: table models through the real loop, and arithmetic by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.validation.tiny_texts import nodes, table_pair
from validation.collection.prompts import Prompt
from validation.decoding.intervals import IntervalEstimate
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import FixedLength, FlexSpec
from validation.decoding.methods.registry import Fitted
from validation.decoding.methods.single_draft import Hlm
from validation.decoding.records import GenerationRecord
from validation.decoding.studies import STUDIES, Decoded, flexspec_links
from validation.errors import UserError
from validation.models.pair import Pair
from validation.plots import EXHIBITS, draw
from validation.plots.common.record import Decoding
from validation.plots.flexspec import implied_energy as energy
from validation.plots.flexspec import texts_captions as captions
from validation.plots.flexspec import texts_latency as shown
from validation.plots.flexspec import texts_lengths as lengths
from validation.plots.flexspec import texts_lines as lines

FITTED = Fitted(0.5, 0.0, 0.5, 0.1, 0.9, 0.5, 3)
NEW_TOKENS, DEPTH = 14, 8
NUMBERS = ("III-length-rule", "IV-length-rule")
USED = ("cloud only", "HLM", "fixed", "DSSD", "flexspec", "prompt lookup", "Lookahead")


def tables(seed: int, *, end_tokens: tuple[int, ...] = ()) -> Pair:
    """A draft model that agrees with the target model at most prefixes."""
    rng = np.random.default_rng(seed)
    target = rng.dirichlet(np.full(3, 0.6), nodes(3, DEPTH))
    if end_tokens:
        target[:, list(end_tokens)] *= 0.15
        target /= target.sum(axis=1, keepdims=True)
    draft = 0.7 * target + 0.3 * rng.dirichlet(np.full(3, 0.6), len(target))
    return table_pair(draft, target, end_tokens=end_tokens)


def prompts_of(count: int, source: str = "GSM8K") -> list[Prompt]:
    return [Prompt(f"{source}-{i:03}", "0", source) for i in range(count)]


def study_of(
    name: str, pair: Pair, prompts: list[Prompt], *, keep: Callable[[str], bool] = lambda name: name.startswith(USED)
) -> Decoded:
    """Return a study of these methods."""
    study, rows = STUDIES[name], []
    settings: dict[str, Any] = {"temperature": study.temperature, "top_p": study.top_p, "new_tokens": NEW_TOKENS}
    settings |= {"batch": 64, "risk": True, "times": (1.0, 2.0)}
    for method in study.methods(FITTED):
        if keep(method.name) and not method.follows_rate:
            rows += decode(pair, prompts, method, **settings)
    for link in flexspec_links():
        for method in study.methods(FITTED, delay_s=2.0 * link.way.propagation_s):
            if keep(method.name) and method.follows_rate:
                rows += decode(pair, prompts, method, link=link, **settings)
    about = {
        "study": name,
        "pair": {"name": "tables", "vocabulary": pair.vocabulary},
        "new_tokens": NEW_TOKENS,
        "temperature": study.temperature,
        "top_p": study.top_p,
        "fitted": asdict(FITTED),
        "methods": sorted({row.method for row in rows}),
        "prompts": [{"id": prompt.id, "source": prompt.source} for prompt in prompts],
    }
    return Decoded(name, about, rows, {})


@pytest.fixture(scope="module")
def studies() -> dict[str, Decoded]:
    """Both studies on eight prompts of the paper's set and two of another."""
    prompts = prompts_of(8) + prompts_of(2, "other")
    return {name: study_of(name, tables(1), prompts) for name in ("greedy", "nucleus")}


@pytest.fixture(scope="module")
def sidecars(studies: dict[str, Decoded], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Every exhibit, drawn once."""
    folder, found = tmp_path_factory.mktemp("figures"), {}
    for number in NUMBERS:
        one = EXHIBITS["flexspec", number]
        assert isinstance(one, Decoding)
        paths = draw(one, None, folder, command="hlm figure", seed=1, commit="c0ffee", decoded=[studies[one.study]])
        assert [path.suffix for path in paths] == ([".json"] if one.paint is None else [".json", ".svg"])
        found[number] = json.loads(paths[0].read_text(encoding="utf-8"))
    return found


def line(sidecar: dict[str, Any], network: str, name: str) -> dict[str, Any]:
    series = next(one for one in sidecar["series"] if one["name"] == network)
    return next(one for one in series["lines"] if one["name"] == name)


# ------------------------------------------------------------------------------------------------------- sidecars


@pytest.mark.parametrize("number", NUMBERS)
def test_the_sidecar_is_whole(number: str, sidecars: dict[str, dict[str, Any]]) -> None:
    found = sidecars[number]
    assert found["source"]["key"] == "li2025flexspec"
    one = EXHIBITS["flexspec", number]
    message = one.message(found)
    assert (
        found["caption"] == f"flexspec {one.place.replace('Fig.', 'Figure')}: {message} {one.shows} {one.tag.sentence}"
    )
    assert found["findings"] == f"{message} {one.caption(found)}"
    for table in found["tables"]:
        assert {len(row) for row in table["rows"]} == {len(table["heads"])}
        assert all(isinstance(cell, str) and "nan" not in cell for row in table["rows"] for cell in row)


def test_the_same_texts_give_the_same_bytes(studies: dict[str, Decoded], tmp_path: Path) -> None:
    for number in ("III-length-rule",):
        first, again = (
            draw(
                EXHIBITS["flexspec", number],
                None,
                tmp_path / name,
                command="hlm figure",
                seed=1,
                commit="c0ffee",
                decoded=[studies["greedy"]],
            )
            for name in ("first", "again")
        )
        assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


# ------------------------------------------------------------------------------------------------------ latencies


def test_latency_is_the_time_of_all_texts_over_their_tokens(
    studies: dict[str, Decoded], sidecars: dict[str, dict[str, Any]]
) -> None:
    study = studies["nucleus"].of_source("GSM8K")
    for name, method in lines.methods_of(study).items():
        link = flexspec_links()[2]
        rows = study.by_method[method.name, link.name if method.follows_rate else "none"]
        seconds = 0.0
        for one in (now for row in rows for now in row.rounds):
            up = 8.0 * one.bytes if method.real_bytes else one.bits
            seconds += 0.0085 * one.draft_passes + 0.1046 * one.target_passes + up / 10e6 + (1.220 - 0.1046)
        found = line(sidecars["IV-length-rule"], "WiFi", name)
        assert found["ms"][0] == pytest.approx(1e3 * seconds / sum(len(row.tokens) for row in rows), rel=1e-5)
        assert found["ms"][1] <= found["ms"][0] <= found["ms"][2]


def test_cloud_only_takes_as_long_as_printed_and_the_others_are_measured_against_it(
    sidecars: dict[str, dict[str, Any]],
) -> None:
    for network, printed in (("5G", 432.0), ("4G", 595.0), ("WiFi", 1220.0)):
        cloud = line(sidecars["III-length-rule"], network, lines.CLOUD)
        assert cloud["ms"][0] == pytest.approx(printed, abs=0.01)
        own = line(sidecars["III-length-rule"], network, lines.PRINTED)
        assert own["speed_up"][0] == pytest.approx(cloud["ms"][0] / own["ms"][0], rel=1e-4)


def test_what_the_paper_prints_stands_beside(sidecars: dict[str, dict[str, Any]]) -> None:
    assert line(sidecars["III-length-rule"], "4G", lines.STANDARD)["printed_ms"] == 805.0
    assert line(sidecars["III-length-rule"], "4G", lines.STANDARD)["printed_speed_up"] == 0.74
    assert line(sidecars["IV-length-rule"], "WiFi", "EAGLE-2") == {
        "name": "EAGLE-2",
        "run": False,
        "printed_ms": 1680.0,
        "printed_speed_up": 0.73,
    }
    assert "printed_ms" not in line(sidecars["IV-length-rule"], "WiFi", lines.EXACT)
    rows = sidecars["III-length-rule"]["tables"][0]["rows"]
    assert [row[2] for row in rows if row[0] in ("Medusa-1", "EAGLE-2")] == ["not run", "not run"]


def test_other_prompt_sets_are_in_a_table_of_their_own(sidecars: dict[str, dict[str, Any]]) -> None:
    (table,) = (one for one in sidecars["III-length-rule"]["tables"] if one["heads"][0] == "prompts")
    assert {row[0] for row in table["rows"]} == {"other"}
    assert all("(" not in cell for row in table["rows"] for cell in row[2:])
    others = "NQ (QA), NQ (RAG), MT-Bench, WMT14, CNN/DM"
    said = f"Not run: Medusa-1; EAGLE-2; with this pair, the prompts of {others}."
    assert sidecars["III-length-rule"]["findings"].endswith(said)


def test_the_papers_other_sets_stand_beside_what_is_printed_of_them(studies: dict[str, Decoded]) -> None:
    study = studies["greedy"]
    names = {"other": "WMT14"}
    prompts = [one | {"source": names.get(one["source"], one["source"])} for one in study.about["prompts"]]
    numbers = shown.measure("III", [replace(study, about=study.about | {"prompts": prompts})], 1)
    (table,) = (one for one in numbers["tables"] if one["heads"][0] == "prompts")
    rows = {row[1]: row[2:] for row in table["rows"]}
    assert list(rows["Medusa-1"]) == ["not run (2.14)", "not run (1.29)", "not run (0.85)"]
    assert [cell.split(" ")[-1] for cell in rows[lines.PRINTED]] == ["(2.01)", "(1.90)", "(2.00)"]
    assert all("(" not in cell for cell in rows[lines.EXACT])
    own = numbers["statistics"]["other_sets"]["WMT14"][lines.PRINTED]
    assert rows[lines.PRINTED][2].startswith(f"{own['WiFi']:.2f} [")
    said = captions.caption("III", numbers)
    values = sorted(own.values())
    assert f"GSM8K. On WMT14, over all networks: {lines.PRINTED} {values[0]:.2f}× to {values[-1]:.2f}×" in said
    assert "(printed 1.90× to 2.01×); standard SD" in said
    assert "with this pair, the prompts of NQ (QA), NQ (RAG), MT-Bench, CNN/DM." in said
    cloud = [row for row in study.records if row.method == "cloud only" and row.prompt.startswith("other")]
    kept = sum(len(row.tokens) for row in cloud if not row.ended) / sum(len(row.tokens) for row in cloud)
    assert numbers["statistics"]["other_unended"] == pytest.approx(kept, rel=1e-3)


def test_without_the_papers_set_all_texts_are_taken_and_it_is_said(studies: dict[str, Decoded]) -> None:
    other = studies["greedy"].of_source("other")
    numbers = shown.measure("III", [other], 1)
    assert numbers["statistics"]["prompts"] == 2
    assert "Prompts: other, as there are none of GSM8K." in captions.caption("IV", numbers)


def test_a_study_without_cloud_only_is_refused(studies: dict[str, Decoded]) -> None:
    study = studies["greedy"]
    without = replace(study, about=study.about | {"methods": ["HLM"]})
    with pytest.raises(UserError, match="no texts of 'Cloud-Only'"):
        shown.measure("III", [without], 1)


# ------------------------------------------------------------------------------------------- the law of the texts


def test_the_printed_acceptance_is_lossless_at_temperature_0_alone(sidecars: dict[str, dict[str, Any]]) -> None:
    greedy, sampled = (sidecars[number]["statistics"] for number in ("III-length-rule", "IV-length-rule"))
    assert set(greedy["equal_texts"].values()) == {1.0}
    assert all(risk["text"] == 0.0 for risk in greedy["risk"].values())
    lossy = {name for name, risk in sampled["risk"].items() if risk["token"] > 0}
    assert lossy == {lines.PRINTED, lines.EXACT_PRINTED}
    assert "does not preserve p" in sidecars["IV-length-rule"]["findings"]
    assert "does not preserve p" not in sidecars["III-length-rule"]["findings"]


def test_texts_that_were_not_judged_have_no_bound(studies: dict[str, Decoded]) -> None:
    study = studies["nucleus"]
    unjudged = replace(study, records=[replace(row, risk_computed=False) for row in study.records])
    numbers = shown.measure("IV", [unjudged], 1)
    assert numbers["statistics"]["risk"] == {}
    assert "total variation is" not in captions.caption("IV", numbers)


def test_the_bound_of_a_token_is_that_of_the_texts_over_their_tokens(
    studies: dict[str, Decoded], sidecars: dict[str, dict[str, Any]]
) -> None:
    study = studies["nucleus"].of_source("GSM8K")
    bounds = []
    for link in flexspec_links():
        rows = study.by_method["flexspec linear, printed acceptance", link.name]
        bounds.append(sum(row.total("risk") for row in rows) / sum(len(row.tokens) for row in rows))
    found = sidecars["IV-length-rule"]["statistics"]["risk"][lines.PRINTED]["token"]
    assert found == pytest.approx(max(bounds), rel=1e-3)


# -------------------------------------------------------------------------------------------------- draft lengths


def test_the_printed_rule_is_bang_bang_and_the_exact_one_is_not(sidecars: dict[str, dict[str, Any]]) -> None:
    chosen = sidecars["IV-length-rule"]["statistics"]["choices"]
    assert all(one["longest"] == 1.0 for one in chosen[lines.PRINTED].values())
    assert any(one["longest"] < 1.0 for one in chosen[lines.EXACT].values())


@pytest.mark.parametrize("end_tokens", [(), (2,)])
@pytest.mark.parametrize("length", [1, 3, 5])
def test_a_replay_at_temperature_0_is_the_decoding_itself(end_tokens: tuple[int, ...], length: int) -> None:
    for seed in range(6):
        pair = tables(seed, end_tokens=end_tokens)
        hlm, fixed = (
            decode(pair, prompts_of(1), method, temperature=0.0, new_tokens=NEW_TOKENS)
            for method in (Hlm(), FixedLength(length))
        )
        (fate,) = lines.fates(_bare(hlm)) or []
        found = [(one.drafted, one.accepted) for one in fixed[0].rounds]
        played = lines.replay(fate, length)
        assert [kept for _, kept in played] == [kept for _, kept in found]
        if not end_tokens:  # after a rejected draft, an end of text may be drafted, and nothing after that end
            assert played == found


def _bare(rows: list[GenerationRecord]) -> Decoded:
    """Return a study that holds only these records of HLM."""
    ids = [{"id": row.prompt, "source": "GSM8K"} for row in rows]
    about = {"methods": ["HLM"], "fitted": asdict(FITTED), "prompts": ids, "new_tokens": NEW_TOKENS}
    return Decoded("nucleus", about, rows, {})


def test_a_replay_of_samples_has_the_law_of_the_decoding() -> None:
    pair, many = tables(3), prompts_of(600)
    settings: dict[str, Any] = {"temperature": 1.0, "new_tokens": 8, "batch": 600}
    fates = lines.fates(_bare(decode(pair, many, Hlm(), seed=1, **settings)))
    assert fates is not None
    fates = [replace(fate, most=8) for fate in fates]
    for length in (2, 4):
        rows = decode(pair, many, FixedLength(length), seed=2, **settings)
        found = np.array([len(row.rounds) for row in rows])
        played = np.array([len(lines.replay(fate, length)) for fate in fates])
        error = np.sqrt((found.var() + played.var()) / len(many))
        assert abs(found.mean() - played.mean()) < 4.0 * error
        kept = np.array([row.rounds[0].accepted for row in rows])
        other = np.array([lines.replay(fate, length)[0][1] for fate in fates])
        assert abs(kept.mean() - other.mean()) < 4.0 * np.sqrt((kept.var() + other.var()) / len(many))
    wrong = np.array([len(lines.replay(replace(fate, runs=[0] * len(fate.runs)), 4)) for fate in fates])
    assert abs(found.mean() - wrong.mean()) > 4.0 * error  # a replay that accepts nothing would be seen


def test_replayed_seconds_are_those_of_the_decoded_texts(studies: dict[str, Decoded]) -> None:
    """At temperature 0 the decoded fixed length takes exactly the time of its replay."""
    study = studies["greedy"].of_source("GSM8K")
    check = shown.measure("III", [study], 1)["statistics"]["lengths"]["check"]
    assert check["same_rounds"] == 1.0
    method = lines.methods_of(study)[lines.STANDARD]
    fates = lines.fates(study)
    assert fates is not None
    counts = [
        np.array([float(drafted) for drafted, _ in lines.replay(fate, method.max_draft_length)]) for fate in fates
    ]
    for link in flexspec_links():
        timed = lines.time_all(study, link, 1)[lines.STANDARD].columns[0]
        played = lines.replayed_seconds(counts, link, vocabulary=3, bits_per_draft=0)
        np.testing.assert_allclose(played, timed, rtol=1e-12)


def test_rows_of_the_small_model_make_a_fixed_length_shorter_and_slower(sidecars: dict[str, dict[str, Any]]) -> None:
    found = sidecars["IV-length-rule"]["statistics"]["lengths"]
    ours, llama, chances = (
        found[name]["best"]["WiFi"] for name in (lengths.ROWS, f"{lengths.ROWS} of 32,000", lengths.CHANCES)
    )
    assert llama[1] > ours[1]
    assert llama[0] <= chances[0]
    assert set(sidecars["III-length-rule"]["statistics"]["lengths"]) == {"check", lengths.ALONE}


def test_without_hlm_nothing_is_replayed_and_nothing_is_said_of_it(studies: dict[str, Decoded]) -> None:
    for name, table in (("greedy", "III"), ("nucleus", "IV")):
        study = studies[name]
        names = [one for one in study.about["methods"] if one != "HLM"]
        numbers = shown.measure(table, [replace(study, about=study.about | {"methods": names})], 1)
        assert numbers["statistics"]["lengths"] == {}
        assert not any("fixed K" in one["title"] for one in numbers["tables"])
        assert all("in hindsight" not in captions.caption(number, numbers) for number in (table,))


def test_a_study_without_flexspec_is_drawn_all_the_same(studies: dict[str, Decoded], tmp_path: Path) -> None:
    for name, number in (("greedy", "III-length-rule"), ("nucleus", "IV-length-rule")):
        study = studies[name]
        names = ["cloud only", "HLM"]
        own = replace(
            study, about=study.about | {"methods": names}, records=[r for r in study.records if r.method in names]
        )
        path, *_ = draw(
            EXHIBITS["flexspec", number], None, tmp_path, command="x", seed=1, commit="c0ffee", decoded=[own]
        )
        assert "bang-bang" not in path.read_text(encoding="utf-8")


def test_the_words_on_draft_lengths_follow_the_numbers() -> None:
    always = {"longest": 1.0, "one": 0.0, "rounds": 50}
    same = captions._rule({"5G": always, "4G": always, "WiFi": always}, 16)
    assert "K_max = 16 is ours, none is printed." in same
    assert same.endswith("in 100% of the rounds over 5G, 4G and WiFi alike.")
    mixed = {"longest": 0.9, "one": 0.1, "rounds": 50}
    assert captions._rule({"5G": always, "WiFi": mixed}, 16).endswith("in 100% (5G), 90% (WiFi) of the rounds.")
    between = captions._rule({"5G": always, "WiFi": mixed | {"one": 0.0}}, 16)
    assert between.endswith(
        "90% (WiFi) of the rounds. It drafts fewer, because of a drafted end of text, in 0% (5G), 10% (WiFi) of the "
        "rounds."
    )
    assert "drafted end of text" not in same
    nothing = {"longest": 0.0, "one": 0.0, "rounds": 0}
    assert "in none of the rounds" in captions._rule({"5G": nothing}, 16)
    assert captions._rule({"5G": nothing, "WiFi": always}, 16).endswith("in 100% of the rounds over WiFi.")


def test_the_words_on_greedy_texts_follow_the_numbers() -> None:
    same = captions._greedy({"equal_texts": {lines.CLOUD: 1.0, lines.PRINTED: 1.0}})
    assert "all texts are Cloud-Only's, token by token" in same
    assert "rounds" not in same
    other = captions._greedy({"equal_texts": {lines.CLOUD: 1.0, lines.PRINTED: 0.996, "DSSD": 0.5}})
    assert "not all texts are Cloud-Only's: FlexSpec, as printed 99.6%, DSSD 50%; all others are" in other
    assert "differently from a pass over a single token" in other
    assert captions.percent(1 - 1e-16) == "99.99999999999999%"


def test_the_verdict_is_by_the_interval() -> None:
    found = {"5G": (0.9, 0.8, 0.99), "4G": (1.2, 1.01, 1.3), "WiFi": (1.0, None, None)}
    assert captions.verdict(found) == "faster over 5G, slower over 4G, and not shown to differ over WiFi"
    assert captions.verdict(dict.fromkeys(("4G", "WiFi"), found["4G"])) == "slower over 4G and WiFi"


def test_cells_without_a_value_or_an_interval() -> None:
    assert lengths.with_interval(IntervalEstimate(None), ".0f") == "–"
    assert lengths.with_interval(IntervalEstimate(2.0), ".0f") == "2"
    assert lengths.ends(IntervalEstimate(None)) == [None, None, None]


def test_a_quotient_on_the_same_texts_is_paired() -> None:
    seconds, tokens = np.array([1.0, 5.0, 2.0]), np.array([2.0, 3.0, 4.0])
    found = lines.quotient((2.0 * seconds, tokens), (seconds, tokens), 1)
    assert (found.value, found.low, found.high) == (2.0, 2.0, 2.0)


# --------------------------------------------------------------------------------------------------------- energy


def test_the_printed_energies_imply_a_round_and_powers() -> None:
    assert pytest.approx(0.915) == energy.COMPUTE_J
    own = energy.implied("4G")
    assert (own.table, own.token_s) == ("V", pytest.approx(0.595 / 1.93))
    assert own.drafting_s == pytest.approx(4.5 / 1.2 * 0.595 / 1.93 - 0.595)
    assert own.device_w * own.drafting_s == pytest.approx(0.915 * 3.75)
    said = energy.implied("4G", "III")
    assert said.round_s == pytest.approx(4.5 / 1.2 * 0.325)
    assert said.drafting_s == pytest.approx(0.62375)
    assert said.drafts == pytest.approx(0.62375 / 0.0105)
    assert said.device_w * said.drafting_s == pytest.approx(0.915 * 3.75)
    assert said.radio_w * (0.595 - 0.1046) == pytest.approx(4.5)


def test_every_line_that_is_run_is_a_method_of_the_study(studies: dict[str, Decoded]) -> None:
    found = lines.methods_of(studies["greedy"])
    assert set(found) == {one.name for one in lines.LINES if one.chosen is not None}
    assert {type(found[name]) for name in (lines.PRINTED, lines.LINEAR, lines.EXACT_PRINTED, lines.EXACT)} == {FlexSpec}
