"""The page of the exhibits on SmolLM2 says what its study stores, beside what is published of the built-in pair."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
STUDY = ROOT / "figures" / "studies" / "smollm2_exhibits"
STORED = json.loads((STUDY / "smollm2.json").read_text(encoding="utf-8"))
Read = Callable[[Mapping[str, Any]], str]


def builtin(stem: str) -> dict[str, Any]:
    """Return the published numbers of the built-in pair."""
    about: dict[str, Any] = json.loads((ROOT / "figures" / f"{stem}.json").read_text(encoding="utf-8"))
    return about


def short(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}".replace("0.", ".", 1).replace("-", "−")


def at(stem_series: int, x: float, digits: int = 3) -> Read:
    """Read a point of a curve."""
    return lambda about: short(about["series"][stem_series]["mean"][about["series"][stem_series]["x"].index(x)], digits)


def stat(*path: Any, digits: int = 3) -> Read:
    """Read a number of the statistics."""

    def read(about: Mapping[str, Any]) -> str:
        value: Any = about["statistics"]
        for part in path:
            value = value[part]
        return short(value, digits) if digits else f"{value:,.0f}"

    return read


def said(pattern: str) -> Read:
    """Read a number of the findings."""
    return lambda about: re.search(pattern, about["findings"])[1]  # type: ignore[index]


def thresholds(about: Mapping[str, Any]) -> str:
    return " and ".join(short(one) for one in about["statistics"]["bins"]["thresholds"])


ROWS: tuple[tuple[str, str, str, Read], ...] = (
    ("cu-hlm 2, u-hlm 3", "correlation of u and rejection, tokens", "cu-hlm-fig2",
     stat("pearson_r", "temperature perturbation")),
    ("cu-hlm 4a, u-hlm 5", "R² of the line, 21 means", "cu-hlm-fig4a", stat("bins", "line", "r_squared")),
    ("", "R² of the line, single tokens", "cu-hlm-fig4a", stat("tokens", "line", "r_squared")),
    ("", "risk-averse and risk-prone threshold", "cu-hlm-fig4a", thresholds),
    ("", "share of drafts that can be rejected", "cu-hlm-fig4a", stat("non_acceptance", "value")),
    ("cu-hlm 4b", "share of drafts with u = 1", "cu-hlm-fig4b", stat("share_at_1")),
    ("cu-hlm 5a", "mean largest probability of q", "cu-hlm-fig5a", stat("mean_of_largest")),
    ("cu-hlm 6", "correlation of Bias and TV(r, r̂), all points", "cu-hlm-fig6", stat("pearson_r")),
    ("cu-hlm 8", "certificate over Bias at its k", "cu-hlm-fig8", stat("certificate_over_bias_at_k", digits=2)),
    ("cu-hlm 9a", "transmission rate at 0.8", "cu-hlm-fig9a", at(0, 0.8)),
    ("", "P(accepted, given skipped) at 0.8", "cu-hlm-fig9a", at(1, 0.8)),
    ("cu-hlm 9b, ours 3", "entries of the offline rule", "cu-hlm-fig9b", stat("mean_k", "offline (21)", digits=0)),
    ("", "the same, share of the full payload", "cu-hlm-fig9b", said(r"entries, ([\d.]+%) of the full payload")),
    ("", "entries of the certified rule, mean", "cu-hlm-fig9b", stat("mean_k", "certified", digits=0)),
    ("u-hlm 4", "transmission rate at 0.6", "u-hlm-fig4", at(0, 0.6)),
    ("u-hlm 6", "transmission rate, risk-prone", "u-hlm-fig6",
     lambda about: short(about["series"][0]["transmission"]["value"])),
    ("ours 4", "positions and k where (23) fails, at most", "ours-fig4", said(r"at up to ([\d.]+%) of the positions")),
    ("ours 7", "bits of the cheapest codec at ε = 0.05", "ours-fig7", said(r"cheapest codec takes ([\d,]+) bits")),
    ("ours 9", "largest dropped mass of C-SQS over ε", "ours-fig9", said(r"drops [\d.]+ to (\d+) times")),
    ("ours IX", "drafts decided by the top 20", "ours-tableIX", said(r"decide ([\d.]+%) of the drafts")),
)  # fmt: skip


def table() -> list[str]:
    """Return the lines of the table."""
    return [
        f"| {name} | {what} | {read(builtin(stem))} | {read(STORED['exhibits'][stem])} |"
        for name, what, stem, read in ROWS
    ]


@pytest.fixture(scope="module")
def page() -> str:
    return (STUDY / "README.md").read_text(encoding="utf-8")


def test_the_table_is_what_is_stored(page: str) -> None:
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    assert lines[1:] == table()


def test_the_text_is_what_is_stored(page: str) -> None:
    run, summary = STORED["run"], STORED["summary"]
    assert f"{run['positions']:,} positions" in page
    assert f"V = {run['vocabulary']:,}" in page
    assert f"{STORED['claims']['measured']} claims" in page
    published = json.loads((ROOT / "figures" / "claims.json").read_text(encoding="utf-8"))["results"]
    assert f"{short(summary['acceptance'])} for {short(published['summary']['acceptance'])}" in page
    violated = {name for name, tally in published["tallies"].items() if tally["violated"]}
    newer = set(STORED["claims"]["fail at some position"]) - set(published["tallies"])
    assert set(STORED["claims"]["fail at some position"]) - newer <= violated  # none fails on SmolLM2 alone
    assert all(one in page for one in re.findall(r"[0-9a-f]{8}", run["commit"])[:1])


def test_exhibits_of_two_runs_are_refused(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("numbers_of", STUDY / "numbers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    marks = dict.fromkeys(module.RUN, 1)
    about = marks | {"title": "T", "findings": "F", "series": [0.0] * 4_000, "statistics": {}}
    (tmp_path / "figures").mkdir()
    (tmp_path / "claims.json").write_text(json.dumps({"summary": {}, "tallies": {"a": {"violated": 1}}}))
    for name in "ab":
        (tmp_path / "figures" / f"{name}.json").write_text(json.dumps(about))
    found = module.numbers(tmp_path)
    assert found["exhibits"]["a"] == {"title": "T", "findings": "F"}  # long curves and empty values are left out
    assert found["claims"] == {"measured": 1, "fail at some position": ["a"]}
    (tmp_path / "figures" / "b.json").write_text(json.dumps(about | {"trace": 2}))
    with pytest.raises(SystemExit, match=r"b\.json is of another run"):
        module.numbers(tmp_path)
