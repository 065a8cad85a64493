"""Speeds are counts times pass times: they are equal for equal texts, whatever the load of the machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tests.validation.stored_traces import stored
from validation.cli.commands import main
from validation.decoding import pass_times
from validation.decoding.fitting import fitted_to
from validation.decoding.pass_times import Pass, Passes, measure_passes, passes_of, risk_per_token, speed
from validation.decoding.records import GenerationRecord, Round
from validation.decoding.studies import STUDIES, decode_study, likely_names
from validation.models import pair as pair_module
from validation.models.pair import Pair

TIMES = Passes(Pass(1, 0.01, 0.009, 0.012), Pass(5, 0.1, 0.09, 0.2), 64, 21, {}, "now")


def rows(load: float = 1.0) -> list[GenerationRecord]:
    """Records of two texts from a machine that took ``load`` times as long."""

    def row(prompt: str, tokens: int, draft: int, target: int, risk: float) -> GenerationRecord:
        one = Round(draft_passes=draft, target_passes=target, draft_s=draft * load, target_s=target * load, risk=risk)
        return GenerationRecord(
            "HLM", prompt, "none", 1, 1.0, 1.0, tokens=[0] * tokens, risk_computed=True, rounds=[one]
        )

    return [row("a", 10, 20, 5, 2.0), row("b", 30, 40, 1, 6.0)]


def test_a_speed_is_tokens_over_counts_times_pass_times() -> None:
    found = speed(rows(), TIMES)
    assert found.value == pytest.approx(40 / (60 * 0.01 + 6 * 0.1))
    assert found.low == pytest.approx(10 / (20 * 0.01 + 5 * 0.1))  # of two texts, both may be drawn twice
    assert found.high == pytest.approx(30 / (40 * 0.01 + 1 * 0.1))
    assert speed(rows(load=44.0), TIMES) == found
    assert speed(rows()[::-1], TIMES) == found


def test_risk_is_told_by_token_and_only_where_all_rows_were_judged() -> None:
    found = risk_per_token(rows())
    assert found.value == pytest.approx(8 / 40)
    assert (found.low, found.high) == (pytest.approx(0.2), pytest.approx(0.2))
    assert risk_per_token([rows()[0], replace(rows()[1], risk_computed=False)]).value is None


def test_a_pass_is_timed_over_what_it_says(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[str, int, int]] = []
    real = pass_times.CachedModel.read

    def watched(self: pass_times.CachedModel, text: np.ndarray, until: np.ndarray, **more: int) -> object:
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


def test_the_times_are_measured_once_a_run(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = passes_of(pair, tmp_path)
    assert 0 < first.draft.low_s <= first.draft.median_s <= first.draft.high_s
    monkeypatch.setattr(pass_times, "measure_passes", lambda pair: replace(first, date="later"))
    assert passes_of(pair, tmp_path) == first
    other = replace(pair, draft_name="another")
    assert passes_of(other, tmp_path).date == "later"
    (tmp_path / "passes.json").write_text("{")
    assert passes_of(pair, tmp_path).date == "later"


@pytest.fixture
def decoding(tmp_path: Path, folders: tuple[Path, Path]) -> Callable[..., Result]:
    """Run ``hlm decode`` in a run with a trace."""
    stored(tmp_path / "run" / "trace")
    (tmp_path / "prompts.txt").write_text("two and two\nit was the best\n")

    def decode(*more: str) -> Result:
        words = ["--run", str(tmp_path / "run"), "--draft", str(folders[0]), "--target", str(folders[1])]
        words += ["--prompts", str(tmp_path / "prompts.txt"), "--new-tokens", "4", *more]
        return CliRunner().invoke(main, ["decode", *words])

    return decode


def test_the_screen_says_the_same_twice_and_what_it_means(decoding: Callable[..., Result], tmp_path: Path) -> None:
    words = ("hlm", "--method", "HLM", "--method", "large only", "--quiet", "--json")
    first, second = decoding(*words), decoding(*words)
    assert first.exit_code == 0, first.output
    assert first.stdout == second.stdout
    plain = json.loads(first.stdout)
    times = plain["passes"]
    (target,) = (line for line in plain["methods"] if line["method"] == "large only")
    assert target["tokens_per_s"]["value"] == pytest.approx(1 / times["large"]["median_s"])
    assert target["risk_per_token"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    lines = [json.loads(line) for line in Path(plain["texts"]).read_text(encoding="utf-8").splitlines()]
    assert [(line["method"], line["id"]) for line in lines] == [
        (method, f"line-{number}") for method in ("large only", "HLM") for number in (1, 2)
    ]
    assert all(isinstance(line["text"], str) and line["tokens"] for line in lines)
    said = " ".join(decoding("hlm", "--method", "HLM").output.split())
    assert "measured counts × measured pass times" in said
    assert "risk/token: the mean over tokens of a bound on the total variation" in said
    assert "A text by HLM: two and two → " in said
    assert f"Texts: {tmp_path / 'run' / 'decoded' / 'hlm' / 'texts.jsonl'}" in said


def test_an_unknown_method_is_refused_before_anything_is_opened(
    decoding: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_module, "load_pair", None)
    for word, hint in (("foo", "choose of: small only"), ("u-hlm risk averse", "Did you mean 'U-HLM risk-averse'?")):
        result = CliRunner().invoke(main, ["decode", "hlm", "--run", "nowhere", "--method", word])
        assert result.exit_code == 2
        assert hint in result.output
    result = decoding("hlm", "--method", "CU-HLM offline (k = 1)")  # a method that another trace might have
    assert result.exit_code == 2
    assert "has no method 'CU-HLM offline (k = 1)'; choose of: " in result.output


@pytest.mark.parametrize("name", list(STUDIES))
def test_the_names_that_are_known_beforehand_are_those_of_a_fit(name: str, tmp_path: Path) -> None:
    import re

    methods = STUDIES[name].methods(fitted_to(stored(tmp_path / "trace"), tmp_path / "fitted.json"))
    known = {re.sub(r"[\d.]+", "#", one) for one in likely_names(STUDIES[name])}
    assert {re.sub(r"[\d.]+", "#", method.name) for method in methods} <= known


def test_no_texts_no_sample(pair: Pair, tmp_path: Path) -> None:
    from validation.collection.prompts import Prompt
    from validation.decoding.studies import sample_of

    prompts = [Prompt("a", "two", "sums")]
    study = decode_study(
        STUDIES["hlm"], pair, prompts, stored(tmp_path / "trace"), tmp_path / "hlm", new_tokens=2, only=["large only"]
    )
    assert sample_of(study, prompts, pair.tokenizer)[:2] == ("large only", "two")  # type: ignore[index]
    assert sample_of(replace(study, records=[]), prompts, pair.tokenizer) is None
