"""The bound after an update on measured versions: the script on small cases, and what it stored agrees with itself.

The measurement is an experiment outside the package, ``figures/experiments/update_bound``.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hlmtheory.verification import largest_distance

EXPERIMENT = Path(__file__).resolve().parents[3] / "figures" / "experiments" / "update_bound"

sys.path.insert(0, str(EXPERIMENT))
bound = importlib.import_module("bound")
sys.path.remove(str(EXPERIMENT))


def row(name: str, method: str, *, tv: float, kl: float, before: float, after: float, step: int = 24) -> dict[str, Any]:
    """Return a record of two texts of 10 and 30 positions with the same means."""

    def sums(mean: float) -> list[float]:
        return [10 * mean, 30 * mean]

    part = {"positions": [10, 30], "tv": sums(tv), "kl": sums(kl)}
    part |= {
        "accept_base": dict.fromkeys(bound.DRAFTS, sums(before)),
        "accept": dict.fromkeys(bound.DRAFTS, sums(after)),
    }
    return {"name": name, "of": "math", "method": method, "step": step, "seed": 1} | dict.fromkeys(
        ("domain", "general", "own"), part
    )


def rows() -> list[dict[str, Any]]:
    """Return version 0 and three versions: the bound is attained, not used up, and says nothing."""
    return [
        row("math-base", "base", tv=0.0, kl=0.0, before=0.5, after=0.5, step=0),
        row("math-a-s1", "a", tv=0.25, kl=0.2, before=0.5, after=0.25),
        row("math-b-s1", "b", tv=0.25, kl=0.2, before=0.5, after=0.45, step=12),
        row("math-b-s1", "b", tv=0.5, kl=0.8, before=0.5, after=0.45),
    ]


def test_means_and_checks_of_a_small_case() -> None:
    found = bound.summarise(rows())
    assert found["versions"] == 3
    for which in bound.SETS:
        for draft in bound.DRAFTS:
            assert found["checks"][which][draft] == {"texts": 6, "holds": 6, "says": 4}
    assert [(one["method"], one["step"]) for one in found["means"]] == [("a", 24), ("b", 24)]  # the last step of each
    first, second = (one["domain"] for one in found["means"])
    assert first["plain"] == {"before": 0.5, "after": 0.25, "share_of_tv": 1.0}
    assert second["plain"]["share_of_tv"] == pytest.approx(0.1)
    assert first["largest_tv"] == pytest.approx(float(largest_distance(0.2)), rel=1e-3)
    assert {(one["lost"], one["tv"]) for one in found["own_texts"]} == {(0.25, 0.25), (0.05, 0.25), (0.05, 0.5)}


def test_a_loss_beyond_the_distance_is_counted() -> None:
    wrong = [*rows(), row("math-c-s1", "c", tv=0.1, kl=0.1, before=0.5, after=0.3)]
    assert bound.summarise(wrong)["checks"]["domain"]["plain"]["holds"] == 6


def test_the_picture_and_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.json").write_text(json.dumps(rows()))
    names = [str(tmp_path / name) for name in ("bound.json", "bound.svg", "rows.json")]
    monkeypatch.setattr(sys, "argv", ["bound.py", *names])
    bound.main()
    assert json.loads((tmp_path / "bound.json").read_text()) == bound.summarise(rows())
    assert (tmp_path / "bound.svg").stat().st_size > 1_000


def test_the_stored_numbers_agree_with_each_other() -> None:
    found = json.loads((EXPERIMENT / "bound.json").read_text(encoding="utf-8"))
    for which in bound.SETS:
        for draft in bound.DRAFTS:
            counts = found["checks"][which][draft]
            assert counts["holds"] == counts["texts"] >= 10 * found["versions"]
            assert counts["says"] <= counts["texts"]
    for one in found["means"]:
        for which in bound.SETS:
            own = one[which]
            assert own["tv"] <= own["largest_tv"] <= (own["kl"] / 2) ** 0.5 * 1.001
            for draft in bound.DRAFTS:
                lost = own[draft]["before"] - own[draft]["after"]
                assert lost == pytest.approx(own[draft]["share_of_tv"] * own["tv"], abs=3e-4)
                assert abs(lost) <= own["tv"]
