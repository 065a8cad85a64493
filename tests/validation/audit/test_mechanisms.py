"""The laws of mechanisms: the recursion over the round against enumeration, and the name that fits the draws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from validation.audit import MECHANISMS, NOT_KEPT, Processors, TableLaw, audit_sampler
from validation.audit.mechanisms import Scores, local_likelihoods
from validation.decoding.defect_laws import defective_law

V, D = 4, 3
ROWS = sum(V**t for t in range(D + 2))
NOT_LOCAL = {"bonus_after_rejection", "cache_off_by_one"}


def tables(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    target = rng.dirichlet(np.ones(V), ROWS)
    return target, 0.5 * target + 0.5 * rng.dirichlet(np.ones(V), ROWS)


@pytest.mark.parametrize("ends", [(), (0,)])
@pytest.mark.parametrize("made", [Processors(), Processors(temperature=0.7), Processors(top_p=0.8)])
def test_the_recursion_gives_the_enumerated_law(ends, made):
    target, draft = (TableLaw(rows, [[0]], ends, made) for rows in tables(1))
    enumerated = Scores(target, draft, D)._laws(0)
    texts = np.array(list(itertools.product(range(V + 1), repeat=D)))
    seen = set()
    for key, likelihood in local_likelihoods(target, draft, 0, texts):
        if key in enumerated and key[0] != "end_passed_over":
            np.testing.assert_allclose(likelihood, enumerated[key], atol=1e-12, err_msg=str(key))
            assert likelihood.sum() == pytest.approx(1.0)
            seen.add(key[0])
    wanted = set(MECHANISMS) - NOT_LOCAL - {"end_passed_over", "draft_before_top_p"}
    assert seen == wanted | {""} | ({"draft_before_top_p"} if made.top_p < 1 else set())


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_mechanism_is_named(name):
    """Draws from the enumerated law of each defect, from a generator that knows nothing of the audit."""
    made = {"draft_temperature": Processors(temperature=0.7)}.get(name, Processors())
    made = Processors(top_p=0.85) if name in ("draft_before_top_p", "zero_accepted") else made
    target, draft = tables(2)
    settings = {"temperature": made.temperature, "top_p": made.top_p}
    law = defective_law(name, draft, target, D, frozenset([0]), max_draft_length=2, **settings)
    texts = [list(text) for text in law]
    chances = np.array(list(law.values()))

    def sample(prompts, n, seed):
        drawn = np.random.default_rng(seed).choice(len(texts), size=n, p=chances / chances.sum())
        return [[texts[i] for i in drawn]]

    laws = [TableLaw(rows, [[0]], (0,), made) for rows in (target, draft)]
    report = audit_sampler(laws[0], sample, draws=60_000, depth=D, draft=laws[1])
    assert report.verdict == NOT_KEPT
    assert report.mechanisms[0][0] == name
    assert report.witnesses


@pytest.mark.parametrize("name", ["stale_draft", "bonus_from_draft", "greedy_draft_ratio", "residual_by_rank"])
def test_the_mechanism_is_named_without_tables(name):
    """The same where only rows are known, as of models: the laws are hidden behind another class."""
    target, draft = tables(3)
    law = defective_law(name, draft, target, D, frozenset(), max_draft_length=2)
    texts, chances = np.array(list(law)), np.array(list(law.values()))

    def sample(prompts, n, seed):
        return [texts[np.random.default_rng(seed).choice(len(texts), size=n, p=chances / chances.sum())]]

    class Hidden:
        def __init__(self, rows):
            self._law = TableLaw(rows)
            self.vocabulary, self.prompts, self.end_tokens = V, [[0]], ()

        def next_rows(self, prompt, tokens):
            return self._law.next_rows(prompt, tokens)

    report = audit_sampler(Hidden(target), sample, draws=60_000, depth=D, draft=Hidden(draft))
    assert report.verdict == NOT_KEPT
    assert report.mechanisms[0][0] == name
