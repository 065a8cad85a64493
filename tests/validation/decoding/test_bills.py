"""The bill of decoded texts: the mean of the recorded risks over all random numbers, and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hlmtheory.skipping import position_bill
from tests.validation.tiny_texts import (
    Grid,
    all_texts,
    distance,
    exact_law,
    grid,
    halves,
    law_of,
    nodes,
    quarters,
    table_pair,
)
from validation.collection.prompts import Prompt
from validation.decoding.bills import TextBill, billed_positions, bills_of
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import FixedLength, FlexSpec, PromptLookup
from validation.decoding.methods.shared_seed import SharedSeed
from validation.decoding.methods.single_draft import DraftOnly, Hlm, RandHlm
from validation.decoding.random_streams import ACCEPT, DRAFT, REPLACE, SKIP
from validation.decoding.records import GenerationRecord, Round
from validation.errors import UserError

POSITIONS, PARTS = 2, 12  # every loss is a multiple of 1/12 of the whole


class Flat(Hlm):
    """Skips draft 0, and tells the server an even distribution of whatever is not the draft."""

    name, truncates = "flat", True

    def skip(self, step, tokens):
        return np.asarray(tokens) == 0

    def server_distributions(self, step, tokens, skip):
        import torch

        rows = step.distributions.double().clone()
        for i, token in enumerate(tokens):
            share = rows[i, token].item()
            rows[i] = (1.0 - share) / (rows.shape[1] - 1)
            rows[i, token] = share
        return list(torch.unbind(rows)), None


def texts_and_bills(pair, method, cells):
    records = all_texts(pair, method, POSITIONS, cells, risk=True)
    prompts = [Prompt(str(i), "0", "grid") for i in range(len(records))]
    numbers = Grid(grid(POSITIONS, cells))
    return records, bills_of(
        pair, prompts, method, records, new_tokens=POSITIONS, drafts=PARTS, noise=numbers, seed=len(records)
    )


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("make", "cells"),
    [
        (DraftOnly, {DRAFT: 2}),
        (lambda: RandHlm(0.5), {DRAFT: 2, ACCEPT: 2, SKIP: 2}),
        (Hlm, {DRAFT: 2, ACCEPT: 2, REPLACE: 4}),
        (lambda: FixedLength(2), {DRAFT: 2, ACCEPT: 2, REPLACE: 4}),
        (lambda: FlexSpec("linear", printed_acceptance=True, max_draft_length=2), {DRAFT: 2, REPLACE: 4}),
        (Flat, {DRAFT: 2, ACCEPT: 2, REPLACE: 4}),
    ],
    ids=["small only", "Rand-HLM", "HLM", "fixed K", "flexspec printed", "distorted"],
)
def test_the_mean_of_the_recorded_risks_is_the_bill_and_bounds_the_texts(make, cells, seed):
    """Over all random numbers: E[Σ risk] = E[Σ bill] ≥ TV(law of the texts, target model's)."""
    rng = np.random.default_rng(seed)
    draft, target = halves(rng, nodes(3, POSITIONS)), quarters(rng, nodes(3, POSITIONS))
    pair = table_pair(draft, target)
    records, bills = texts_and_bills(pair, make(), cells)
    risk, bill = np.mean([one.total("risk") for one in records]), np.mean([one.bill for one in bills])
    assert risk == pytest.approx(bill, rel=1e-9, abs=1e-12)
    assert all(one.bill <= one.bound + 1e-12 for one in bills)
    if make().name in ("small only", "HLM", "fixed K = 2"):  # elsewhere the cells give the exact risks, but not the law
        assert distance(law_of(records), exact_law(target, POSITIONS)) <= bill + 1e-9


def test_the_risk_of_a_single_text_is_no_bound_of_its_bill():
    """p = (0, 1/2, 1/2), q = (1/2, 1/2, 0): one half of the skipped drafts are at no risk, the others at β = 1."""
    pair = table_pair(np.array([[0.5, 0.5, 0.0]] * 4), np.array([[0.0, 0.5, 0.5]] * 4))
    records, bills = texts_and_bills(pair, DraftOnly(), {DRAFT: 2})
    assert sorted({one.total("risk") for one in records}) == pytest.approx([0.0, 1.0, 2.0])
    assert {round(one.bill, 9) for one in bills} == {1.0}


@pytest.mark.parametrize(
    ("q", "p", "bill"),
    [
        ((0.5, 0.25, 0.25), (0.0, 0.25, 0.75), 0.5),  # only draft 0 is ever at risk, and it is skipped
        ((0.5, 0.5, 0.0), (0.0, 0.0, 1.0), 0.5),  # so is draft 1, which is sent: r̂ = r
        ((0.25, 0.75, 0.0), (0.25, 0.25, 0.5), 0.125),  # draft 1 is sent, and r̂ has token 0 as well
    ],
)
def test_the_bill_of_a_distorting_method_is_that_of_the_theory(q, p, bill):
    """One position, every draft: the estimate by drafts in proportion to q β is the exact sum."""
    pair = table_pair(np.tile(q, (4, 1)), np.tile(p, (4, 1)))
    _, bills = texts_and_bills(pair, Flat(), {DRAFT: 4})
    decoded = np.full((3, 3), (1.0 - np.array(q))[:, None] / 2)
    np.fill_diagonal(decoded, q)
    exact = float(position_bill(p, q, [1.0, 0.0, 0.0], decoded))
    assert {round(one.bill, 9) for one in bills} == {round(exact * POSITIONS, 9)}
    assert exact == bill


def test_a_bonus_token_is_not_billed():
    record = GenerationRecord("m", "p", "none", 1, 1.0, 1.0, tokens=[0] * 9)
    record.rounds = [
        Round(position=0, drafted=2, accepted=2, bonus=1),
        Round(position=3, drafted=2, accepted=0, resampled=1),
        Round(position=4, drafted=1, accepted=1, skipped=1),
        Round(position=6, drafted=0, bonus=1),
    ]
    record.last = Round(position=7, skipped=2)
    assert billed_positions(record).tolist() == [0, 1, 3, 4, 5, 7, 8]


def test_a_method_without_a_draft_model_has_no_bill():
    pair = table_pair(np.eye(3)[[0]], np.eye(3)[[0]])
    record = GenerationRecord("m", "p", "none", 1, 1.0, 1.0, tokens=[0])
    with pytest.raises(UserError, match=r"^prompt lookup .* drafts no token"):
        bills_of(pair, [Prompt("p", "0", "t")], PromptLookup(), [record], new_tokens=1)


def test_drafts_by_a_shared_seed_have_another_bill():
    pair = table_pair(np.eye(3)[[0]], np.eye(3)[[0]])
    record = GenerationRecord("m", "p", "none", 1, 1.0, 1.0, tokens=[0])
    with pytest.raises(UserError, match=r"^shared seed \(K = 2\) replaces no token from a residual"):
        bills_of(pair, [Prompt("p", "0", "t")], SharedSeed(2), [record], new_tokens=1)


def test_a_text_without_a_drafted_token_costs_nothing():
    pair = table_pair(np.eye(3)[[0]], np.eye(3)[[0]])
    record = GenerationRecord("m", "p", "none", 1, 1.0, 1.0, tokens=[0], rounds=[Round(bonus=1)])
    record.last = Round(position=1)
    assert bills_of(pair, [Prompt("p", "0", "t")], Method(), [record], new_tokens=1) == [TextBill(1, 0, 0.0, 0.0)]
