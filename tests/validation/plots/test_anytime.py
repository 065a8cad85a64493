"""Table VII of ours: the simulated runs are those of the library's functions, and fewer runs repeat the stored rows.

The simulation is an experiment outside the package, ``figures/experiments/anytime``.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlmtheory.skipping import audit_bound, audit_wealth
from hlmtheory.verification import acceptance_interval
from validation.plots import EXHIBITS, draw
from validation.plots.ours import anytime
from validation.plots.ours.anytime import RATES, measure_table, stored
from validation.trace.reader import Trace, TraceWriter, open_trace

ROOT = Path(__file__).resolve().parents[3]
EXPERIMENT = ROOT / "figures" / "experiments" / "anytime"

sys.path.insert(0, str(EXPERIMENT))
simulate = importlib.import_module("simulate")
sys.path.remove(str(EXPERIMENT))

AUDITS = [
    simulate.Audit(0.5, simulate.RISK, drifting, spread) for drifting in (False, True) for spread in (False, True)
]
TOKENS = 10_000


def dense(audit: Any, seed: int, runs: int) -> np.ndarray:
    """The losses of each token, from the tokens with a loss."""
    at, beta = audit.losses(np.random.default_rng(seed), runs, TOKENS)
    losses = np.zeros((runs, TOKENS + 1))
    for run in range(runs):
        inside = at[run] <= TOKENS
        losses[run, at[run][inside]] = beta[run][inside]
    return losses[:, 1:]


# ------------------------------------------------------------------------------ segment by segment, token by token


@pytest.mark.parametrize("audit", AUDITS, ids=str)
def test_losses_have_the_risk_as_their_mean(audit: Any) -> None:
    losses = dense(audit, 1, 60)
    found = losses.mean(axis=0).reshape(10, -1).mean(axis=-1) / audit.rate  # by 1,000 tokens
    expected = np.diff(audit.summed(np.arange(0, TOKENS + 1, 1000))) / 1000
    np.testing.assert_allclose(found, expected, atol=5 * np.sqrt(0.04 / audit.rate / 60_000))
    assert (losses.max() < 1) == audit.spread


@pytest.mark.parametrize("audit", AUDITS, ids=str)
def test_the_first_certificate_is_that_of_the_library(audit: Any) -> None:
    low = simulate.Audit(audit.rate, 0.4 * simulate.RISK, audit.drifting, audit.spread)
    found = simulate.first_certificates(low, np.random.default_rng(2), 6, TOKENS)
    enough = audit_wealth(dense(low, 2, 6), low.rate, simulate.RISK) >= -np.log(simulate.ERROR)
    expected = np.where(enough.any(axis=-1), enough.argmax(axis=-1) + 1.0, np.inf)
    np.testing.assert_array_equal(found, expected)
    assert np.isfinite(found).any()


@pytest.mark.parametrize("audit", AUDITS, ids=str)
def test_a_bound_fails_where_that_of_the_library_does(audit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate, "ERROR", 0.7)  # so that some fail
    found = simulate.bound_fails(audit, np.random.default_rng(3), 10, TOKENS)
    tokens = np.arange(1, TOKENS + 1)
    bound = audit_bound(dense(audit, 3, 10), audit.rate, 0.7)
    np.testing.assert_array_equal(found, (audit.summed(tokens) / tokens > bound).any(axis=-1))
    assert 0 < found.sum() < 10


@pytest.mark.parametrize("form", ["constant", "varying"])
@pytest.mark.parametrize("world", simulate.WORLDS)
def test_an_interval_misses_where_that_of_the_library_does(
    world: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate, "ERROR", 0.8)
    runs, drafts = 40, 30
    found = simulate.interval_fails(world, form, np.random.default_rng(4), runs, drafts)
    rng, expected = np.random.default_rng(4), np.zeros(runs, dtype=bool)
    rates = simulate.WORLDS[world](rng, runs)
    accepted, total, depth = np.zeros(runs), np.zeros(runs), np.zeros(runs, dtype=np.int64)
    for examined in range(1, drafts + 1):
        rate = next(rates)(depth)
        taken = rng.random(runs) < rate
        accepted, total = accepted + taken, total + rate
        depth = np.array([d + 1 if a and d + 1 < simulate.LENGTH else 0 for d, a in zip(depth, taken, strict=True)])
        lower, upper = acceptance_interval(accepted, examined, 0.8, form=form)
        expected |= (total / examined < lower) | (total / examined > upper)
    np.testing.assert_array_equal(found, expected)


# --------------------------------------------------------------------------------------------------- stored rows


def test_no_stored_share_is_above_the_error() -> None:
    for kind in ("false_certificates", "bounds"):
        assert len(stored()[kind]) == len(simulate.FALSE) * len(RATES)
        for one in stored()[kind]:
            assert one["runs"] == 10_000
            assert one["low"] <= one["failed"] / one["runs"] <= one["high"]
            assert one["low"] <= stored()["error"]
    for one in stored()["intervals"]:
        assert one["form"] == "constant" or one["low"] <= stored()["error"]
    driven = {(one["error"], one["form"]): one["share"] for one in stored()["driven"]}
    for error in simulate.DRIVEN_ERRORS:
        assert driven[error, "varying"] <= error < driven[error, "constant"]


def test_fewer_runs_repeat_the_stored_rows() -> None:
    again = simulate.result(seed=5, runs=200, tokens=stored()["tokens"], drafts=50, errors=(0.2,))
    for kind in ("false_certificates", "bounds"):
        for ours, theirs in zip(again[kind], stored()[kind], strict=True):
            assert ours["system"] == theirs["system"]
            spread = np.sqrt(theirs["share"] * (1 - theirs["share"]) / 200) + 1 / 200
            assert abs(ours["share"] - theirs["share"]) < 5 * spread
    for ours, theirs in zip(again["tokens_to_certify"], stored()["tokens_to_certify"], strict=True):
        assert ours["fewest"] == theirs["fewest"] <= theirs["tenth"]
        assert theirs["tenth"] <= ours["median"] <= theirs["ninth"]
        assert ours["median"] == pytest.approx(theirs["median"], rel=0.25)
    assert again["driven"] == stored()["driven"][-2:]


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
    assert found["statistics"]["simulated"]["risk"] == simulate.RISK
