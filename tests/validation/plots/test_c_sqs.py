"""The figures of c-sqs: their counts and curves equal those of the decoded runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlmtheory.conformal import regret_bound_sharp
from hlmtheory.lattice import payload_bits
from validation.collection.prompts import Prompt
from validation.decoding.methods.quantized import BUDGET_BITS, EPSILON, LEARNING_RATE
from validation.decoding.records import GenerationRecord, Round
from validation.models.pair import Pair
from validation.plots import EXHIBITS, draw
from validation.plots.c_sqs import numbers as csqs_numbers
from validation.plots.c_sqs import pictures as csqs
from validation.plots.c_sqs import runs as csqs_runs
from validation.plots.c_sqs import tables as csqs_tables
from validation.plots.c_sqs import texts_file
from validation.plots.c_sqs.numbers import ADAPTIVE, BUDGETED, BY_SIZE, FIXED, GUARDED, MAIN, PRINTED, interval
from validation.plots.c_sqs.runs import METHODS, Cell, CSqsStudy, Scale, Times, pass_times, some_prompts
from validation.plots.common.record import plain
from validation.plots.ours import budget_table

ROOT = Path(__file__).resolve().parents[3]
KEYS = [*(("c-sqs", number) for number in "2456"), ("ours", "2"), ("ours", "III"), ("ours", "VIII")]
SCALE = Scale(prompts=3, new_tokens=5, long_tokens=9, temperatures=(0.0, 1.0))
TIMES = Times(0.001, 0.004, 0.0005)
PROMPTS = [Prompt(text, text, "test") for text in ("two and two make", "it was the best of", "what is the sum")]


@pytest.fixture(scope="module")
def found(pair: Pair) -> Iterator[CSqsStudy]:
    """Three texts by every method on the tiny pair; all figures use them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csqs_runs, "load_pair", lambda: pair)
        patch.setattr(csqs_runs, "some_prompts", lambda count: PROMPTS[:count])
        patch.setattr(csqs_runs, "pass_times", lambda pair: TIMES)
        one = csqs_runs.decode_texts(1, SCALE)
        for module in (csqs_numbers, csqs_tables, budget_table):
            patch.setattr(module, "study", lambda seed: one)
        yield one


@pytest.fixture(scope="module")
def sidecars(found: CSqsStudy, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, Any]]:
    """Every exhibit as it is written to its file."""
    folder, read = tmp_path_factory.mktemp("figures"), {}
    for key in KEYS:
        written = draw(EXHIBITS[key], None, folder, command="hlm figure", seed=1, commit="c0ffee")
        assert [path.suffix for path in written] == ([".json"] if EXHIBITS[key].paint is None else [".json", ".svg"])
        read[key] = json.loads(written[0].read_text(encoding="utf-8"))
    return read


def cell(*rows: dict[str, float], by_bytes: bool = False) -> Cell:
    """Texts of one round each."""
    texts = []
    for number, one in enumerate(rows):
        fields = dict(one)
        tokens = int(fields.pop("tokens", 1))
        texts.append(
            GenerationRecord("m", str(number), "none", 1, 1.0, 1.0, tokens=[0] * tokens, rounds=[Round(**fields)])
        )  # type: ignore[arg-type]
    return Cell(texts, np.zeros(len(rows)), by_bytes)


def shrunk(found: CSqsStudy, prompts: int) -> CSqsStudy:
    """Return the same study with fewer texts."""

    def cut(one: Cell) -> Cell:
        return replace(one, rows=one.rows[:prompts], rounding=one.rounding[:prompts])

    cells = {key: cut(one) for key, one in found.cells.items()}
    long = {name: cut(one) for name, one in found.long.items()}
    return replace(found, scale=replace(found.scale, prompts=prompts), cells=cells, long=long)


# --------------------------------------------------------------------------------------------------------- the runs


def test_every_method_wrote_every_text(found: CSqsStudy):
    assert set(found.cells) == {(name, t) for name in METHODS for t in SCALE.temperatures}
    for one in found.cells.values():
        assert len(one.rows) == 3
        assert all(0 < len(row.tokens) <= 5 for row in one.rows)
    assert set(found.long) == {ADAPTIVE[0.001], PRINTED, budget_table.FROM_0, BUDGETED, GUARDED}
    assert max(len(row.tokens) for one in found.long.values() for row in one.rows) == 9


def test_every_name_is_that_of_its_method(found: CSqsStudy):
    named = (*MAIN, *BY_SIZE.values(), *ADAPTIVE.values(), *FIXED.values(), PRINTED, *csqs_numbers.BYTES)
    named = (*named, BUDGETED, GUARDED)
    assert set(named) == set(METHODS)
    for name, make in METHODS.items():
        assert make().name == name
    assert {row.method for (name, _), one in found.cells.items() for row in one.rows if name == PRINTED} == {PRINTED}


def test_rounds_stay_within_the_budget(found: CSqsStudy):
    for one in found.cells.values():
        for row in one.rows:
            for turn in row.rounds:
                assert (8 * turn.bytes if one.by_bytes else turn.bits) <= BUDGET_BITS


def test_small_passes_are_counted(found: CSqsStudy):
    for one in found.cells.values():
        passes, drafted = one.totals("draft_s"), one.totals("drafted")
        assert (passes >= drafted).all()
        assert (passes <= drafted + one.rounds).all()  # one more pass per round if a draft did not fit


def test_at_temperature_0_one_token_is_looked_at(found: CSqsStudy):
    looked = {name: found.cells[name, 0.0] for name in MAIN}
    for one in looked.values():
        count = one.totals("accepted") + one.totals("resampled")
        assert not one.totals("dropped").any()
        assert not one.totals("rounding").any()
        assert (one.rounding <= count / 4).all()
    assert looked[BY_SIZE[64]].rounding == pytest.approx(
        (looked[BY_SIZE[64]].totals("accepted") + looked[BY_SIZE[64]].totals("resampled")) / 400
    )


def test_the_published_rounding_of_a_fixed_size(found: CSqsStudy):
    one = found.cells[BY_SIZE[64], 1.0]
    count = one.totals("accepted") + one.totals("resampled")
    assert one.rounding == pytest.approx(count * 64 / 400)
    assert one.totals("bits") == pytest.approx(one.totals("drafted") * float(payload_bits(found.vocabulary, 64, 100)))
    dense = found.cells["QS dense", 1.0]
    assert dense.rounding == pytest.approx((dense.totals("accepted") + dense.totals("resampled")) * 300 / 400)


def test_the_published_rounding_is_never_below_the_sharp_one(found: CSqsStudy):
    for one in found.cells.values():
        assert (one.rounding >= one.totals("rounding") - 1e-9).all()


def test_prompts_come_from_all_sources():
    some = some_prompts(8)
    assert len({one.id for one in some}) == 8
    assert len({one.source for one in some}) == 3
    assert len(some_prompts(1)) == 1


def test_passes_are_timed(pair: Pair, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(csqs_runs, "REPEATS", 2)
    monkeypatch.setattr(csqs_runs, "PREFIX", 8)
    monkeypatch.setattr(csqs_runs, "WIDTHS", (1, 4))
    times = pass_times(pair)
    assert times.draft_s > 0
    assert times.target_s + times.token_s > 0


def test_stored_texts_give_the_same_figures(found: CSqsStudy, monkeypatch: pytest.MonkeyPatch):
    """Every number that is drawn is the same to the last digit, though the file holds sums over the rounds alone."""
    again = texts_file.read(json.loads(texts_file.text(found)))
    numbers = {key: EXHIBITS[key].simulate(1) for key in KEYS}  # type: ignore[attr-defined]
    for module in (csqs_numbers, csqs_tables, budget_table):
        monkeypatch.setattr(module, "study", lambda seed: again)
    assert {key: EXHIBITS[key].simulate(1) for key in KEYS} == numbers  # type: ignore[attr-defined]


def test_texts_are_decoded_where_none_are_stored(found: CSqsStudy, monkeypatch: pytest.MonkeyPatch):
    value = json.loads(texts_file.text(found))
    texts_file.study.cache_clear()
    monkeypatch.setattr(texts_file, "records", dict)
    monkeypatch.setattr(texts_file, "decode_texts", lambda seed: ("decoded", seed))
    assert texts_file.study(3) == ("decoded", 3)
    texts_file.study.cache_clear()
    monkeypatch.setattr(texts_file, "records", lambda: {"c_sqs": {}})
    monkeypatch.setattr(texts_file, "stored", lambda name: (value, {"experiment": {"name": name}}))
    assert texts_file.study(3).record == {"experiment": {"name": "c_sqs"}}
    texts_file.study.cache_clear()


def test_a_kept_text_is_not_decoded_again(found: CSqsStudy):
    kept: list[str] = []

    def keep(key: str, decode: Any) -> Any:
        kept.append(key)
        return "a method", Cell([], np.zeros(0), by_bytes=False)

    csqs_runs.decode_texts(1, SCALE, keep=keep)
    assert len(set(kept)) == len(kept) == len(found.cells) + len(found.long)


# ------------------------------------------------------------------------------------------------------- the numbers


def test_seconds_add_up():
    rounds = {"draft_s": 3.0, "drafted": 2, "bits": 1000.0, "bytes": 50}
    assert cell(rounds).seconds(Times(0.1, 1.0, 0.01), 1e4) == pytest.approx([0.3 + 1.0 + 0.03 + 0.1])
    assert cell(rounds, by_bytes=True).seconds(Times(0.1, 1.0, 0.01), 1e4) == pytest.approx([0.3 + 1.0 + 0.03 + 0.04])


def test_intervals_of_a_mean_are_about_students():
    from scipy.stats import ttest_1samp

    values = np.random.default_rng(3).normal(5.0, 1.0, 40)
    found, known = interval([(values, np.ones(40))]), ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert found.value == pytest.approx(values.mean())
    assert found.ends == pytest.approx((known.low, known.high), abs=0.1 * float(known.high - known.low))


def test_intervals_of_a_ratio_hold_it_as_often_as_they_say():
    rng, held = np.random.default_rng(5), 0
    for _ in range(300):
        below = rng.gamma(4.0, size=32)
        above = 0.5 * below + rng.gamma(2.0, 0.5, size=32)  # E above = 0.5 · 4 + 1
        low, high = interval([(above, below)]).ends
        held += low <= 3.0 / 4.0 <= high
    assert 0.92 * 300 <= held <= 0.985 * 300


def test_a_difference_is_taken_prompt_by_prompt():
    values = np.array([1.0, 4.0, 2.0, 2.5, 7.0])
    one = interval([(values + 1.0, np.ones(5)), (values, np.ones(5))])
    assert (one.value, *one.ends) == pytest.approx((1.0, 1.0, 1.0))
    assert one.sign == 1
    assert interval([(values, np.ones(5)), (values + 1.0, np.ones(5))]).sign == -1
    assert interval([(values, np.ones(5)), (values[::-1], np.ones(5))]).sign == 0


def test_one_text_has_no_interval(found: CSqsStudy, monkeypatch: pytest.MonkeyPatch):
    one = interval([(np.array([3.0]), np.array([2.0]))])
    assert (one.plain(), one.sign, one.ends, one.told("g")) == ([1.5, None, None], 0, (1.5, 1.5), "1.5")
    for module in (csqs_numbers, csqs_tables, budget_table):
        monkeypatch.setattr(module, "study", lambda seed: shrunk(found, 1))
    for key in KEYS:
        numbers = EXHIBITS[key].simulate(1)  # type: ignore[attr-defined]
        assert "nan" not in EXHIBITS[key].describe(numbers, "")["findings"]
        json.dumps(numbers, allow_nan=False)


def test_crossings_are_told_apart():
    """One number for each K, τ₁ and end; only the latency differs."""
    scale = replace(SCALE, prompts=2)
    quick, slow = ({"bits": bits, "resampled": r} for bits, r in ((1000.0, 0), (2000.0, 1)))

    def build(by_size: tuple[Any, Any], by_mass: tuple[Any, Any]) -> CSqsStudy:
        cells = {}
        for names, ends in ((BY_SIZE, by_size), (ADAPTIVE, by_mass)):
            cells |= {(name, t): cell(e, e) for name in names.values() for t, e in zip((0.0, 1.0), ends, strict=True)}
        return CSqsStudy("a pair", 300, scale, Times(0.0, 0.0, 0.0), cells)

    cases = {
        "crossing": ((quick, slow), (slow, quick)),
        "reverse": ((slow, quick), (quick, slow)),
        "k": ((quick, quick), (slow, slow)),
        "c": ((slow, slow), (quick, quick)),
    }
    for kind, (by_size, by_mass) in cases.items():
        for line in csqs_numbers.crossovers(build(by_size, by_mass)):
            assert line[kind] == 9
            assert sum(line[other] for other in cases) == 9
            assert line["clear"] == len(line["which"]) == (9 if kind == "crossing" else 0)
    equal = csqs_numbers.crossovers(build((quick, quick), (quick, quick)))
    assert all(line[kind] == 0 for line in equal for kind in cases)


def test_curves_are_ratios_of_totals(found: CSqsStudy, sidecars: dict[Any, Any]):
    for one in sidecars["c-sqs", "2"]["series"]:
        for k, temperature in enumerate(SCALE.temperatures):
            rows = found.cells[one["name"], temperature].rows
            rate = sum(row.total("resampled") for row in rows) / sum(len(row.rounds) for row in rows)
            if one["metric"] == "resampling":
                assert one["mean"][k] == pytest.approx(rate)
            assert one["low"][k] <= one["mean"][k] <= one["high"][k]


def test_the_mended_controller_keeps_the_sharp_bound(found: CSqsStudy, sidecars: dict[Any, Any]):
    about = sidecars["ours", "2"]
    assert about["statistics"]["above_sharp"][0] == 0
    for threshold, name in ADAPTIVE.items():
        texts = csqs_numbers.paths(found.cells[name, 1.0])
        for text in texts + (csqs_numbers.paths(found.long[name]) if name in found.long else []):
            bounds = regret_bound_sharp(EPSILON, LEARNING_RATE, threshold, np.array(text["x"]))
            assert (np.array(text["mean"]) <= bounds + 1e-9).all()


def test_the_budget_is_kept_in_every_text(found: CSqsStudy):
    cells = [one for (name, _), one in found.cells.items() if name in (BUDGETED, GUARDED)]
    for one in (*cells, found.long[BUDGETED], found.long[GUARDED]):
        for text in csqs_numbers.paths(one):
            assert (np.array(text["mean"]) <= EPSILON * (1 + 1e-9)).all()


def test_the_budget_is_compared_prompt_by_prompt(found: CSqsStudy, sidecars: dict[Any, Any]):
    about = sidecars["ours", "VIII"]
    places = len(SCALE.temperatures) + 1
    assert [len(table["rows"]) for table in about["tables"]] == [3 * places + 1, 2 * places + 1]
    for one in about["statistics"]["gaps"]:
        cells = (
            found.long if "," in one["where"] else {name: found.cells[name, float(one["where"])] for name in METHODS}
        )
        masses, shares = ([], [])
        for name in (one["method"], ADAPTIVE[0.001]):
            rows = cells[name].rows
            verified = sum(row.total("accepted") + row.total("resampled") for row in rows)
            masses.append(sum(row.total("dropped") for row in rows) / verified)
            shares.append(sum(row.total("resampled") for row in rows) / verified)
        assert one["dropped"][0] == pytest.approx(masses[0] - masses[1], rel=1e-3, abs=1e-9)
        assert one["rejected"][0] == pytest.approx(shares[0] - shares[1], rel=1e-3, abs=1e-9)


def test_what_differs_beyond_its_interval_is_named():
    none, more, less = [0.0, -1.0, 1.0], [1.0, 0.5, 2.0], [-1.0, -2.0, -0.5]
    lines = [{"method": name, "dropped": [0.1, 0.1, 0.1]} for name in (ADAPTIVE[0.001], BUDGETED)]
    for values, told in (
        ((none, none), "latency is not shown to differ, its share of rejected drafts not shown to differ."),
        ((more, none), "latency is higher, its share of rejected drafts not shown to differ."),
        ((less, more), "latency is lower, its share of rejected drafts higher."),
    ):
        gap = {"method": BUDGETED} | dict(zip(("latency", "rejected"), values, strict=True))
        numbers = {"statistics": {"epsilon": 0.5, "values": lines, "gaps": [gap]}}
        assert budget_table.message(numbers).endswith(told)


def test_a_path_above_the_bound_is_counted():
    text = {"x": [1.0, 3.0], "mean": [0.2, 0.9], "threshold": []}
    assert csqs_numbers._above([text, text], [0.5, 0.5, 0.5]) == 2
    assert csqs_numbers._above([text], [0.5, 0.5, 1.0]) == 0


def test_the_table_holds_theorem_1(found: CSqsStudy, sidecars: dict[Any, Any]):
    about = sidecars["ours", "III"]
    assert [len(table["rows"]) for table in about["tables"]] == [10, 18, 4, 11]
    for one in about["statistics"]["theorem"]:
        rows = found.cells[one["method"], one["temperature"]].rows
        assert one["rejected"][0] == pytest.approx(np.mean([row.total("resampled") for row in rows]), rel=1e-3)
        assert one["mismatch"] == pytest.approx(np.mean([row.total("mismatch") for row in rows]), rel=1e-3, abs=1e-9)
        assert one["rejected"][0] <= one["positions"]
    for line in about["statistics"]["line_12"]:
        assert line["mended"]["dropped"][0] <= line["mended"]["sharp"] <= line["mended"]["published"]


# ---------------------------------------------------------------------------------------------------------- captions


@pytest.mark.parametrize("key", KEYS)
def test_the_sidecar_is_whole(key: tuple[str, str], sidecars: dict[Any, Any]):
    about = sidecars[key]
    long = key == ("ours", "2")
    assert about["kind"] == ("measured" if long or key == ("ours", "III") else "measured counts × assumed times")
    assert f"3 prompts of {9 if long else 5} new tokens" in about["basis"]
    assert about["source"]["key"] in (ROOT / "validation" / "references.bib").read_text(encoding="utf-8")
    assert "nan" not in about["findings"]
    assert all(axes[side]["label"] for axes in about.get("axes", []) for side in "xy")


def test_a_crossing_is_named():
    line = {"metric": "latency", "times": "as measured", "rate_bps": 1e6, "reverse": 0, "k": 1, "c": 2, "which": []}
    numbers = {"statistics": {"crossovers": [line | {"crossing": 3, "clear": 1}]}}
    assert "3 (1) over 1 Mbit/s with passes as measured." in csqs._crossing(numbers, "latency")
    numbers = {"statistics": {"crossovers": [line | {"crossing": 0, "clear": 0}]}}
    assert "no pair of K and τ₁ crosses as in the paper" in csqs._crossing(numbers, "latency")


def test_adaptation_is_compared_prompt_by_prompt(found: CSqsStudy, sidecars: dict[Any, Any]):
    for one in sidecars["c-sqs", "5"]["statistics"]["adaptive_less_fixed"]:
        rates = []
        for names in (ADAPTIVE, FIXED):
            rows = found.cells[names[one["threshold"]], 1.0].rows
            rates.append(sum(row.total("resampled") for row in rows) / sum(len(row.rounds) for row in rows))
        assert one["resampling"][0] == plain(rates[0] - rates[1], 4)


def test_every_method_has_a_look_of_its_own():
    names = [*MAIN, *FIXED.values(), *BY_SIZE.values(), *ADAPTIVE.values(), PRINTED, BUDGETED, *csqs_numbers.BYTES]
    looks = {name: tuple(sorted(csqs._look(name).items())) for name in names}
    assert len(set(looks.values())) == len(looks)
