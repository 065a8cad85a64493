"""Table VII of ours: the stored shares of the simulation keep the error, and a trace's audits are of the risk met.

The simulation is the study ``figures/studies/anytime``.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.validation.plots.conftest import Maker
from validation.plots.ours import anytime
from validation.plots.ours.anytime import RATES, measure_table, stored
from validation.trace.reader import Trace

SYSTEMS = 3


def test_no_stored_share_is_above_the_error() -> None:
    for kind in ("false_certificates", "bounds"):
        assert len(stored()[kind]) == SYSTEMS * len(RATES)
        for one in stored()[kind]:
            assert one["runs"] == 10_000
            assert one["low"] <= one["failed"] / one["runs"] <= one["high"]
            assert one["low"] <= stored()["error"]


@pytest.fixture(scope="module")
def trace(make_trace: Maker) -> Trace:
    rng = np.random.default_rng(0)
    draft = rng.normal(0, 3, (400, 12))
    return make_trace(draft=draft, target=draft + rng.normal(0, 0.3, draft.shape), texts=2)


def test_audits_of_the_texts_are_of_the_risk_met(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anytime, "RISK", 0.2)
    numbers = measure_table(trace, seed=1)["statistics"]
    for one in numbers["audits"]:
        assert one["sent_for_audit"] == pytest.approx(one["audit_probability"] * one["skipped"], rel=1e-3)
        assert one["bound"] > one["risk"] > 0
    certified = [one["certified"] for one in numbers["audits"] if one["threshold"] == 0.1]
    assert certified == sorted(certified)
    assert certified[-1] > 0.9
