"""The check over a trace: what it builds, counts, refuses and repeats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hlmtheory
from validation.check import LONGEST_DRAFT, Results, Tally, check_trace, instance_arrays, load_results
from validation.errors import UserError
from validation.traces import Trace, TraceWriter, open_trace

VOCABULARY = 50


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """600 positions in texts of 40, the target near the draft."""
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("check") / "trace"
    with TraceWriter(path, VOCABULARY) as writer:
        for text in range(15):
            draft = rng.normal(scale=3, size=(40, VOCABULARY))
            target = draft + rng.normal(size=draft.shape)
            writer.append(draft, target, rng.integers(0, VOCABULARY, 40), np.full(40, text), np.arange(40))
    return open_trace(path)


@pytest.fixture(scope="module")
def results(trace: Trace) -> Results:
    return check_trace(trace)


def test_every_claim_is_checked_in_scope(results: Results) -> None:
    assert set(results.tallies) == set(hlmtheory.all_claims())
    assert all(tally.in_scope for tally in results.tallies.values())


def test_what_is_true_holds_and_what_is_refuted_fails(results: Results) -> None:
    for name, claim in hlmtheory.all_claims().items():
        tally = results.tallies[name]
        if claim.refuted is None:
            assert tally.outcome == "holds", tally
            assert tally.holds == tally.in_scope
        else:
            assert tally.outcome == "refuted"
            assert tally.violated, f"{name} never fails on this trace"


def test_a_false_claim_is_found(trace: Trace) -> None:
    claim = hlmtheory.all_claims()["truncation.certificate"]
    false = replace(claim, rhs=lambda draft, k: 0.5 * claim.rhs(draft=draft, k=k))
    tally = check_trace(trace, claims={claim.id: false}).tallies[claim.id]
    assert tally.outcome == "violated"
    assert tally.worst_slack < 0


def test_a_run_repeats(trace: Trace, results: Results) -> None:
    again = check_trace(trace)
    assert again.tallies == results.tallies
    assert again.summary == results.summary


def test_another_seed_draws_otherwise(trace: Trace, results: Results) -> None:
    name = "truncation.tvd_sharp"
    other = check_trace(trace, seed=2, claims={name: hlmtheory.all_claims()[name]})
    assert other.tallies[name] != results.tallies[name]


def test_progress_ends_at_all_positions(trace: Trace) -> None:
    calls = []
    name = "verification.overlap"
    check_trace(
        trace,
        claims={name: hlmtheory.all_claims()[name]},
        progress=lambda done, total, text: calls.append((done, total, text)),
    )
    assert calls[-1] == (600, 600, "checking the claims")


def test_instances_are_what_they_say(trace: Trace) -> None:
    chunk = next(trace.chunks(100))
    arrays = instance_arrays(chunk, np.random.default_rng(1))
    assert arrays["k"].min() >= 0
    assert arrays["k"].max() <= VOCABULARY
    assert (arrays["draft"][np.arange(100), arrays["token"]] > 0).all()
    expected = [
        arrays["acceptance"][start : start + LONGEST_DRAFT]
        for start in range(100 - LONGEST_DRAFT + 1)
        if chunk.prompt_index[start] == chunk.prompt_index[start + LONGEST_DRAFT - 1]
    ]
    np.testing.assert_array_equal(arrays["acceptances"], expected)


def test_every_k_has_its_chance() -> None:
    rows = np.zeros((20_000, 3))
    k = instance_arrays(_Chunk(rows), np.random.default_rng(1))["k"]
    assert np.unique(k).tolist() == [0, 1, 2, 3]


def test_drawn_tokens_follow_the_draft() -> None:
    rows = np.log(np.tile([0.5, 0.3, 0.2], (20_000, 1)))
    drawn = instance_arrays(_Chunk(rows), np.random.default_rng(1))["token"]
    np.testing.assert_allclose(np.bincount(drawn) / 20_000, [0.5, 0.3, 0.2], atol=0.02)


def test_a_trace_too_short_for_a_claim_is_refused(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "short", VOCABULARY) as writer:
        logits = np.zeros((3, VOCABULARY))
        writer.append(logits, logits, np.zeros(3), np.zeros(3), np.arange(3))
    name = "verification.tokens"
    with pytest.raises(UserError, match=r"in the scope of verification\.tokens; collect a longer trace"):
        check_trace(open_trace(tmp_path / "short"), claims={name: hlmtheory.all_claims()[name]})


def test_a_claim_no_trace_can_serve_is_named(trace: Trace) -> None:
    claim = hlmtheory.all_claims()["truncation.certificate"]
    strange = replace(claim, lhs=lambda target, draft, k, bandwidth: bandwidth)
    with pytest.raises(UserError, match=r"offers no bandwidth for truncation\.certificate"):
        check_trace(trace, claims={claim.id: strange})


def test_results_survive_writing_and_reading(results: Results, tmp_path: Path) -> None:
    results.tallies["none"] = Tally("none")
    try:
        (tmp_path / "claims.json").write_text(results.to_json())
        assert load_results(tmp_path / "claims.json") == results
    finally:
        del results.tallies["none"]


def test_missing_results_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run `hlm validate` first"):
        load_results(tmp_path / "claims.json")


class _Chunk:
    """A chunk from logits alone."""

    def __init__(self, logits: np.ndarray) -> None:
        self.draft_logits = self.target_logits = logits
        self.tokens = self.prompt_index = np.zeros(len(logits), dtype=np.int32)
        self.position = np.arange(len(logits), dtype=np.int32)
