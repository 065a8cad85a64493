"""Every method of the registry: the law of its texts, counts and edges; a text does not depend on its batch."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from hlmtheory.channel import Rayleigh
from tests.validation import tiny_texts
from validation.collection.prompts import Prompt
from validation.decoding.links import FadingLink
from validation.decoding.loop import PAPER_TIMES, DecodingError, decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.catalogue import METHODS
from validation.decoding.methods.multi_draft import Dssd, FixedLength, FlexSpec, GreedyDrafts, Lookahead, PromptLookup
from validation.decoding.methods.quantized import AllocatedSqs, BudgetedCSqs, BudgetedSqs, CSqs, DenseQs, KSqs
from validation.decoding.methods.registry import Fitted, Setup
from validation.decoding.methods.rows import Law
from validation.decoding.methods.single_draft import CloudOnly, Hlm, RandHlm, TargetOnly
from validation.decoding.random_streams import ACCEPT, DRAFT, REPLACE
from validation.errors import UserError
from validation.models.pair import Pair

SETUP = Setup(Fitted(0.8, -0.05, 0.5, 0.5, 0.7, 0.5, 30), 3)
LARGE = {name: info.default for name, info in METHODS.items() if info.default}
"""Every method that needs no file, with its default parameters."""
TINY = LARGE | {"K-SQS": lambda _: KSqs(2), "K-SQS of bytes": lambda _: KSqs(2, by_bytes=True)}
"""The same for three tokens."""
PROMPTS = tiny_texts.PROMPTS[:3]
LOSSY = {name for name, info in METHODS.items() if info.law in (Law.LOST, Law.TOKEN)}


def any_rows(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.dirichlet(np.ones(3), count)


def with_tails(rows: np.ndarray) -> np.ndarray:
    none = rows == 0
    count = none.sum(axis=1, keepdims=True)
    return np.where(count > 0, 0.92 * rows + 0.08 * none / np.maximum(count, 1), rows)


ROWS: tuple[Any, ...] = (tiny_texts.halves, tiny_texts.quarters, tiny_texts.SAMPLED, "0", 2)
COARSE: tuple[Any, ...] = (any_rows, tiny_texts.halves, {DRAFT: 2, ACCEPT: 2, REPLACE: 2}, "0", 2)
SURE: tuple[Any, ...] = (any_rows, tiny_texts.halves, {ACCEPT: 2, REPLACE: 2}, "0 1 2 0 1", 3)
LATTICE: dict[str, Any] = {"resolution": 2, "budget_bits": 12.0}
STEERED: dict[str, Any] = {"learning_rate": 0.2, "epsilon": 0.2, **LATTICE}
EXACT: dict[str, tuple[str, Callable[[], Method], tuple[Any, ...]]] = {
    f"{name} {number}": (name, make, where)
    for number, (name, make, where) in enumerate(
        [
            ("fixed K", lambda: FixedLength(2), (*ROWS[:4], 3)),
            ("fixed K", lambda: FixedLength(1), ROWS),
            ("fixed K", lambda: FixedLength(3), ROWS),
            ("HLM", Hlm, ROWS),
            ("Rand-HLM", lambda: RandHlm(0.0), ROWS),
            ("DSSD", lambda: Dssd(2), ROWS),
            ("flexspec exact", lambda: FlexSpec("exact", max_draft_length=2), ROWS),
            ("flexspec linear", lambda: FlexSpec("linear", max_draft_length=2), ROWS),
            ("large only", TargetOnly, SURE),
            ("cloud only", CloudOnly, SURE),
            ("prompt lookup", lambda: PromptLookup(2, 2), SURE),
            ("greedy drafts", lambda: GreedyDrafts(2), SURE),
            ("Lookahead", lambda: Lookahead(2), SURE),
            ("QS dense", lambda: DenseQs(**LATTICE), COARSE),
            ("K-SQS", lambda: KSqs(2, **LATTICE), COARSE),
            ("K-SQS", lambda: KSqs(2, resolution=2, budget_bits=3.0), COARSE),  # the first draft never fits
            ("K-SQS", lambda: KSqs(2, resolution=2, budget_bits=120.0, by_bytes=True), COARSE),
            ("C-SQS", lambda: CSqs(0.3, **STEERED), COARSE),
            ("C-SQS (τ₁ = 0, as printed)", lambda: CSqs(0.3, printed=True, **STEERED), COARSE),
            ("C-SQS (τ = 0.001, fixed)", lambda: CSqs(0.3, learning_rate=0.0, **LATTICE), COARSE),
            ("Budgeted SQS", lambda: BudgetedSqs(epsilon=0.2, **LATTICE), COARSE),
            ("Budgeted C-SQS", lambda: BudgetedCSqs(0.3, **STEERED), COARSE),
            # 6 bits are enough for two or three tokens in quarters
            (
                "SQS allocated",
                lambda: AllocatedSqs(6.0, budget_bits=12.0),
                (any_rows, tiny_texts.halves, dict.fromkeys(tiny_texts.SAMPLED, 12), "0", 1),
            ),
        ]
    )
}
ELSEWHERE = {
    *("block verification", "shared seed", "shared seed streamed", "shared seed tree", "Planned"),
    *("draft tree", "draft tree, sure", "n-gram Lookahead", "Medusa-1", "EAGLE-2"),
}
"""Lossless methods whose laws have tests of their own."""


def test_every_method_is_lossless_and_its_law_is_tested_or_known_to_be_lossy():
    tested = {name for name, _, _ in EXACT.values()}
    assert tested | ELSEWHERE | LOSSY == set(METHODS)
    assert not (tested & LOSSY) - {"Rand-HLM"}


@pytest.mark.parametrize(
    ("ends", "top_p"),
    [((), 1.0), ((2,), 0.9), *(pytest.param(*both, marks=pytest.mark.deep) for both in (((), 0.9), ((2,), 1.0)))],
)
@pytest.mark.parametrize("case", EXACT)
def test_every_text_has_the_probability_that_the_target_model_gives_it(case, top_p, ends):
    _, make, (of_draft, of_target, cells, prompt, positions) = EXACT[case]
    rng = np.random.default_rng(6 if positions == 1 else 3 + len(ends))
    draft, target = (kind(rng, tiny_texts.nodes(3, positions)) for kind in (of_draft, of_target))
    told = draft if of_draft is any_rows or top_p == 1 else with_tails(draft)
    pair = tiny_texts.table_pair(told, with_tails(target) if top_p < 1 else target, end_tokens=ends, prompt=prompt)
    law = tiny_texts.law_of(tiny_texts.all_texts(pair, make(), positions, cells, prompt=prompt, top_p=top_p))
    assert tiny_texts.distance(law, tiny_texts.exact_law(target, positions, ends)) < 1e-12
    assert tiny_texts.distance(law, tiny_texts.exact_law(draft, positions, ends)) > 0.05  # so the test can fail
    if top_p < 1:
        assert tiny_texts.distance(law, tiny_texts.exact_law(with_tails(target), positions, ends)) > 0.03


@pytest.fixture(scope="module")
def of_the_target(pair):
    return [row.tokens for row in decode(pair, PROMPTS, TargetOnly(), new_tokens=6, temperature=0.0)]


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("settings", [{"temperature": 0.0}, {}, {"top_p": 0.9}], ids=["greedy", "sampled", "top-p"])
def test_texts_are_counted_and_do_not_depend_on_the_batch(pair, of_the_target, name, settings):
    method, link = LARGE[name](SETUP), FadingLink("radio", 1e6, Rayleigh(10.0))
    given = {"new_tokens": 6, "seed": 4, "link": link, "times": PAPER_TIMES} | settings
    greedy, given["risk"] = "temperature" in settings, not method.tree_nodes
    rows = decode(pair, PROMPTS, method, batch=2, **given)
    alone = rows if greedy else decode(pair, PROMPTS[::-1], method, batch=1, **given)[::-1]  # greedy: of_the_target
    for row, one in zip(rows, alone, strict=True):
        assert (row.prompt, row.tokens, row.ended) == (one.prompt, one.tokens, one.ended)
        assert row.seconds == pytest.approx(one.seconds)
        assert [r.bytes for r in row.rounds] == [r.bytes for r in one.rounds]
        sums = {word: row.total(word) for word in ("accepted", "resampled", "bonus", "skipped", "drafted", "bytes")}
        assert sum(list(sums.values())[:4]) == len(row.tokens) == (6 if not row.ended else len(row.tokens))
        assert sums["accepted"] + sums["resampled"] <= max(sums["drafted"], sums["accepted"])
        assert (row.total("link_s") > 0) == (sums["bytes"] > 0)
        assert 0 <= row.total("risk") == pytest.approx(one.total("risk"), rel=1e-3, abs=1e-4)
        assert row.total("draft_s") == pytest.approx(PAPER_TIMES[0] * row.total("draft_passes"))
        assert row.total("target_s") == pytest.approx(PAPER_TIMES[1] * len(row.rounds))
        assert [r.position for r in row.rounds] == sorted({r.position for r in row.rounds})
    if not settings:
        again = decode(pair, PROMPTS, method, **(given | {"seed": 5}))
        assert [row.tokens for row in again] != [row.tokens for row in rows]
    if greedy and name not in LOSSY - {n for n in LOSSY if "printed" in n or "DSSD" in n}:
        assert [row.tokens for row in rows] == of_the_target


@pytest.mark.parametrize("name", LARGE)
def test_only_a_method_that_follows_the_rate_writes_other_texts_over_another_link(pair, name):
    method = LARGE[name](SETUP)
    found = [
        [[one.drafted for one in row.rounds] for row in decode(pair, PROMPTS[:1], method, new_tokens=5, link=link)]
        for link in (FadingLink("fast", 1e9, 1.0), FadingLink("slow", 1e2, 1.0))
    ]
    if name == "flexspec exact":
        assert found[0] != found[1]
    elif not method.streamed and not method.follows_rate:  # the linear rule may choose one length for both
        assert found[0] == found[1]


def any_pair(vocabulary: int = 3, **options: Any) -> Pair:
    rng = np.random.default_rng(4)
    return tiny_texts.table_pair(
        *(rng.dirichlet(np.ones(vocabulary), tiny_texts.nodes(vocabulary, 5)) for _ in range(2)), **options
    )


@pytest.mark.parametrize("name", TINY)
def test_every_method_may_write_nothing_end_at_once_and_fill_the_context(name):
    method, asked = TINY[name](SETUP), [Prompt(each, "1 2 1", "test") for each in "abc"]
    always = np.tile([0.0, 0.0, 1.0], (tiny_texts.nodes(3, 5), 1))
    ended = tiny_texts.table_pair(always, always, end_tokens=(2,), prompt="1 2 1", context=4096)
    for row in decode(ended, asked, method, new_tokens=4, risk=not method.tree_nodes):
        assert (row.tokens, row.ended) == ([2], True)
        assert sum(row.total(word) for word in ("accepted", "resampled", "bonus", "skipped")) == 1
    for row in decode(ended, asked, method, new_tokens=0):
        assert (row.tokens, row.ended, row.rounds, row.total("draft_passes")) == ([], False, [], 0)
    pair = any_pair(prompt="1 2", context=7)
    prompts = [Prompt(each, "1 2", "test") for each in "abcd"]
    assert {len(row.tokens) for row in decode(pair, prompts, method, new_tokens=5)} == {5}
    with pytest.raises(UserError, match="'a' of test is 2 tokens long, but only 1 fit"):
        decode(pair, prompts, method, new_tokens=6)


@pytest.mark.parametrize("name", TINY)
def test_no_method_writes_an_id_that_no_token_has_or_that_is_masked(name):
    method, prompts = TINY[name](SETUP), [Prompt(str(i), "0", "test") for i in range(20)]
    pair = replace(any_pair(5), vocabulary=3)
    for model in (pair.draft, pair.target):
        model.table[:, 3:] += 5.0
        model.table[:, 1] = -torch.inf
    rows = decode(pair, prompts, method, new_tokens=4, risk=not method.tree_nodes)
    assert {token for row in rows for token in row.tokens} == {0, 2}
    assert all(np.isfinite(row.total("risk")) for row in rows)


@pytest.mark.parametrize("broken", ["draft", "target"])
@pytest.mark.parametrize("name", TINY)
def test_every_method_stops_at_a_nan_and_keeps_what_is_finished(name, broken):
    method = TINY[name](SETUP)
    if not getattr(method, f"runs_{broken}"):
        return
    prompts = [Prompt(each, "0", "test") for each in "abcdefghijkl"]
    settings = {"new_tokens": 5, "batch": 4}
    whole = decode(any_pair(end_tokens=(2,)), prompts, method, **settings)
    pair, finished = any_pair(end_tokens=(2,)), []
    model = getattr(pair, broken)

    def call(self, *args, **options):
        output = type(model).__base__.forward(self, *args, **options)
        if len(finished) >= 5:  # in the second batch or the third
            output.logits[..., 1] = torch.nan
        return output

    model.__class__ = type("Broken", (type(model),), {"__call__": call})
    words = rf"The {broken} model \(tables/{broken}\) gives logits that are not finite, at prompt '[e-l]', new token \d"
    with pytest.raises(DecodingError, match=words) as caught:
        decode(pair, prompts, method, on_finished=finished.append, **settings)
    kept = caught.value.records
    assert len(kept) >= 5
    assert [row.tokens for row in kept] == [whole["abcdefghijkl".index(row.prompt)].tokens for row in kept]
    assert sorted(row.prompt for row in kept) == sorted(row.prompt for row in finished)
