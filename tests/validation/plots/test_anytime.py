"""Table VII of ours: the stored shares of the simulation keep the error, and a trace's audits are of the risk met.

The simulation is the study ``figures/studies/anytime``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from validation.plots import EXHIBITS, draw
from validation.plots.ours import anytime
from validation.plots.ours.anytime import RATES, measure_table, stored
from validation.trace.reader import Trace, TraceWriter, open_trace

SYSTEMS, RISK, DRIVEN_ERRORS = 3, 0.02, (0.05, 0.1, 0.2)


# --------------------------------------------------------------------------------------------------- stored rows


def test_no_stored_share_is_above_the_error() -> None:
    for kind in ("false_certificates", "bounds"):
        assert len(stored()[kind]) == SYSTEMS * len(RATES)
        for one in stored()[kind]:
            assert one["runs"] == 10_000
            assert one["low"] <= one["failed"] / one["runs"] <= one["high"]
            assert one["low"] <= stored()["error"]
    for one in stored()["intervals"]:
        assert one["form"] == "constant" or one["low"] <= stored()["error"]
    driven = {(one["error"], one["form"]): one["share"] for one in stored()["driven"]}
    for error in DRIVEN_ERRORS:
        assert driven[error, "varying"] <= error < driven[error, "constant"]


# --------------------------------------------------------------------------------------------------- on a trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Two texts of a pair that often agrees."""
    rng = np.random.default_rng(0)
    positions, vocabulary = 400, 12
    draft = rng.normal(0, 3, (positions, vocabulary))
    target = draft + rng.normal(0, 0.3, draft.shape)
    folder = tmp_path_factory.mktemp("anytime") / "trace"
    with TraceWriter(folder, vocabulary, {"pair": {"name": "a pair"}}) as writer:
        at = np.arange(positions) % 200
        writer.append(draft, target, np.zeros(positions), np.arange(positions) // 200, at)
    return open_trace(folder)


def test_audits_of_the_texts_are_of_the_risk_met(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anytime, "RISK", 0.2)
    numbers = measure_table(trace, seed=1)["statistics"]
    for one in numbers["audits"]:
        assert one["sent_for_audit"] == pytest.approx(one["audit_probability"] * one["skipped"], rel=1e-3)
        assert one["bound"] > one["risk"] > 0
    certified = [one["certified"] for one in numbers["audits"] if one["threshold"] == 0.1]
    assert certified == sorted(certified)
    assert certified[-1] > 0.9
    assert all(low <= one["rate"] <= high for one in numbers["examined"] for low, high in [one["varying"]])
    served = numbers["served"]
    assert served["interval"][0] <= served["rate"] <= served["interval"][1]
    assert served["interval"][1] - served["interval"][0] <= anytime.BIAS


def test_the_table_is_drawn(trace: Trace, tmp_path: Path) -> None:
    (sidecar,) = draw(EXHIBITS["ours", "VII"], trace, tmp_path, command="hlm figure ours VII", seed=1, commit="c")
    found = json.loads(sidecar.read_text(encoding="utf-8"))
    assert len(found["tables"]) == 5
    assert found["caption"].startswith("ours Table VII: With one in ten skipped drafts audited, a median of ")
    assert found["statistics"]["simulated"]["risk"] == RISK
