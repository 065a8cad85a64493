"""Speeds are counts times pass times: they are equal for equal texts, whatever the load of the machine."""

from dataclasses import replace

import pytest

from validation.decoding import pass_times
from validation.decoding.pass_times import Pass, Passes, measure_passes, passes_of, risk_per_token, speed
from validation.decoding.records import GenerationRecord, Round

TIMES = Passes(Pass(1, 0.01, 0.009, 0.012), Pass(5, 0.1, 0.09, 0.2), 64, 21, {}, "now")


def rows(load: float = 1.0) -> list[GenerationRecord]:
    def row(prompt: str, tokens: int, draft: int, target: int, risk: float) -> GenerationRecord:
        one = Round(draft_passes=draft, target_passes=target, draft_s=draft * load, target_s=target * load, risk=risk)
        return GenerationRecord(
            "HLM", prompt, "none", 1, 1.0, 1.0, tokens=[0] * tokens, risk_computed=True, rounds=[one]
        )

    return [row("a", 10, 20, 5, 2.0), row("b", 30, 40, 1, 6.0)]


def test_a_speed_is_tokens_over_counts_times_pass_times():
    found = speed(rows(), TIMES)
    assert found.value == pytest.approx(40 / (60 * 0.01 + 6 * 0.1))
    assert found.low == pytest.approx(10 / (20 * 0.01 + 5 * 0.1))  # of two texts, both may be drawn twice
    assert found.high == pytest.approx(30 / (40 * 0.01 + 1 * 0.1))
    assert speed(rows(load=44.0), TIMES) == found
    assert speed(rows()[::-1], TIMES) == found


def test_risk_is_told_by_token_and_only_where_all_rows_were_judged():
    found = risk_per_token(rows())
    assert found.value == pytest.approx(8 / 40)
    assert (found.low, found.high) == (pytest.approx(0.2), pytest.approx(0.2))
    assert risk_per_token([rows()[0], replace(rows()[1], risk_computed=False)]).value is None


def test_a_pass_is_timed_over_what_it_says(pair, monkeypatch):
    read = []
    real = pass_times.CachedModel.read

    def watched(self, text, until, **more):
        which = "draft" if self.model is pair.draft else "target"
        read.append((which, int(self.cached[0]), int(until[0])))
        found = real(self, text, until, **more)
        self.seconds = float(len(read))
        return found

    monkeypatch.setattr(pass_times.CachedModel, "read", watched)
    monkeypatch.setattr(pass_times, "WARM_UP", 1)
    found = measure_passes(pair, drafts=3, before=8, repeats=3)
    assert read == [("draft", 0, 8), *[("draft", 8, 9)] * 4, ("target", 0, 8), *[("target", 8, 12)] * 4]
    assert found.draft == Pass(1, 4.0, 3.5, 4.5)
    assert found.target == Pass(4, 9.0, 8.5, 9.5)


def test_the_times_are_measured_once_a_run(pair, tmp_path, monkeypatch):
    first = passes_of(pair, tmp_path)
    assert 0 < first.draft.low_s <= first.draft.median_s <= first.draft.high_s
    monkeypatch.setattr(pass_times, "measure_passes", lambda pair: replace(first, date="later"))
    assert passes_of(pair, tmp_path) == first
    assert passes_of(replace(pair, draft_name="another"), tmp_path).date == "later"
    (tmp_path / "passes.json").write_text("{")
    assert passes_of(pair, tmp_path).date == "later"
