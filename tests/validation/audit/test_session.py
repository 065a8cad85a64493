"""The audit of toy laws: it acquits the law itself, finds another one, and stops early."""

import numpy as np
import pytest
from scipy import stats

from tests.validation.audit.test_repeats import drawn
from tests.validation.tiny_texts import distance, exact_law
from validation.audit import KEPT, NOT_KEPT, UNDECIDED, Audit, Processors, TableLaw, audit_sampler
from validation.errors import UserError

V, D = 3, 3
NODES = sum(V**t for t in range(D))


def table(seed: int, size: int = V) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(size), sum(size**t for t in range(D)))


def sampler_of(rows: np.ndarray):
    def sample(prompts, n, seed):
        rng = np.random.default_rng(seed)
        return [drawn(rows, D, n, rng) for _ in prompts]

    return sample


def test_the_law_itself_is_kept():
    rows = table(1)
    report = audit_sampler(TableLaw(rows, [[0], [1]]), sampler_of(rows), depth=D, draws=40_000, epsilon=0.1)
    assert report.verdict == KEPT
    assert 0 == report.at_least <= report.at_most <= 0.1
    wide = audit_sampler(TableLaw(table(2, 12)), sampler_of(table(2, 12)), depth=D, draws=20_000)
    assert wide.at_most_on_cells <= 0.05  # though the draws cannot bound all 12³ continuations


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_another_law_is_found_and_bounded(share):
    rows = table(1)
    other = (1 - share) * rows + share * table(2)
    report = audit_sampler(TableLaw(rows), sampler_of(other), depth=D, draws=8_000, stop_early=False)
    apart = distance(exact_law(other, D), exact_law(rows, D))
    assert (report.verdict, report.found_after < 8_000) == (NOT_KEPT, True)
    assert 0.3 * apart < report.at_least <= apart <= report.at_most


def test_an_exact_sampler_is_accused_no_more_often_than_the_level_allows():
    """150 audits at level 20%, looked at after every chunk."""
    rng, accused = np.random.default_rng(3), 0
    for _ in range(150):
        rows = rng.dirichlet(np.ones(V), NODES)
        audit = Audit(TableLaw(rows), depth=D, level=0.2, planned=400)
        audit.update(0, drawn(rows, D, 400, rng))
        accused += audit.found
    assert stats.binomtest(accused, 150, 0.2, alternative="greater").pvalue > 1e-3
    assert accused <= 30


def test_an_upper_bound_is_rarely_below_the_distance():
    """60 audits at level 20% of samplers at a distance of about 0.1."""
    rng, below = np.random.default_rng(4), 0
    for _ in range(60):
        rows = rng.dirichlet(np.ones(V), NODES)
        other = 0.9 * rows + 0.1 * rng.dirichlet(np.ones(V), NODES)
        audit = Audit(TableLaw(rows), depth=D, level=0.2, planned=1000)
        audit.update(0, drawn(other, D, 1000, rng))
        apart = distance(exact_law(other, D), exact_law(rows, D))
        assert audit.at_least <= apart
        below += audit.at_most < apart
    assert below <= 12


def test_a_sampler_that_is_right_at_depth_one_and_wrong_jointly_is_found():
    """Each token has the right marginal law, but the second one copies the first one's random number."""
    rows = np.full((NODES, V), 1 / V)

    def sample(prompts, n, seed):
        first = np.random.default_rng(seed).integers(V, size=(n, 1))
        mixed = np.where(np.random.default_rng(seed + 1).random((n, 1)) < 0.1, first, (first + 1) % V)
        rest = np.random.default_rng(seed + 2).integers(V, size=(n, 1))
        return [np.concatenate([first, np.where(rest == 0, mixed, rest), rest], axis=1)]

    report = audit_sampler(TableLaw(rows), sample, depth=D, draws=10_000, stop_early=False)
    found = {(one.depth, one.kind): one.at_least for one in report.bounds}
    assert report.verdict == NOT_KEPT
    assert found[1, "token"] == found[1, "joint"] == 0
    assert min(found[2, "joint"], found[3, "joint"], found[3, "token"]) > 0.05


def unlike(c: int, n: int, wrong: int) -> np.ndarray:
    """Draws (n, 1) of prompt c from the law (0.1, 0.9), or, for the wrong prompt, always token 0: 0.9 from it."""
    return np.zeros((n, 1), dtype=int) if c == wrong else (np.arange(n)[:, None] % 10 > 0).astype(int)


@pytest.mark.parametrize("count", [2, 10])
def test_the_lower_bound_is_that_of_the_mean_over_the_prompts(count):
    """The first prompt alone is wrong, and its draws come first: then the mean over the draws so far falls."""
    audit = Audit(TableLaw([[0.1, 0.9]], [[c] for c in range(count)]), depth=1, planned=1000 * count)
    for c in range(count):
        audit.update(c, unlike(c, 1000, wrong=0))
    assert audit.verdict() == NOT_KEPT
    assert 0.8 * 0.9 / count < audit.at_least <= 0.9 / count


def test_a_law_is_not_kept_by_the_draws_of_one_prompt_alone():
    rng = np.random.default_rng(8)
    audit = Audit(TableLaw([[0.5, 0.5]], [[0], [1]]), depth=1, planned=100_000)
    audit.update(0, rng.integers(2, size=(32_000, 1)))
    assert audit.at_most == 1.0
    audit.update(1, (rng.random((2000, 1)) >= 0.6).astype(int))
    audit.close()  # the distances are 0 and 0.1, with the shares 16/17 and 1/17
    assert 0.1 / 17 <= audit.at_most <= 0.04


def test_an_upper_bound_of_other_shares_of_the_prompts_is_widened():
    rng = np.random.default_rng(9)
    audit = Audit(TableLaw([[0.5, 0.5]], [[0], [1]]), depth=1, planned=40_000)
    for c in range(2):
        audit.update(c, rng.integers(2, size=(20_000, 1)))
    before = audit.at_most
    audit.update(1, (rng.random((60_000, 1)) >= 0.5).astype(int))  # now 1/5 and 4/5 of the draws
    assert audit.at_most == pytest.approx(1.6 * before)


class OneRow:
    """A law whose tokens are independent, each from the same row."""

    def __init__(self, row):
        self.row, self.vocabulary, self.prompts, self.end_tokens = row, len(row), [[0]], ()

    def next_rows(self, prompt, tokens):
        return np.broadcast_to(self.row, (*tokens.shape, self.vocabulary))


def test_zeros_of_the_law_are_proved_kept():
    """Top-k leaves 3 of 400 tokens: every continuation of two tokens has a cell, or no probability."""
    rows = np.random.default_rng(1).dirichlet(np.ones(400), 401)
    law = TableLaw(rows, processors=Processors(top_k=3))

    def sample(prompts, n, seed):
        return [drawn(law.table[0], 2, n, np.random.default_rng(seed))]

    report = audit_sampler(law, sample, depth=2, draws=20_000, epsilon=0.1)
    assert (report.verdict, report.shared) == (KEPT, (0.0, 0.0))


def always(*text):
    return lambda prompts, n, seed: [[list(text)] * n for _ in prompts]


@pytest.mark.parametrize("depth", [1, 30])
def test_a_deterministic_law_is_decided_by_few_draws(depth):
    law = OneRow(np.eye(5)[3])
    report = audit_sampler(law, always(*[3] * depth), depth=depth, draws=200)
    assert (report.verdict, report.draws, report.shared[-1]) == (KEPT, 200, 0)
    audit = Audit(law, depth=depth)
    audit.update(0, [[3] * depth] * 9 + [[3] * (depth - 1) + [2]])
    assert audit.verdict() == NOT_KEPT


def test_a_law_of_two_equal_logits_does_not_accuse_the_other_choice():
    """Greedy decoding within rounding of a tie: an engine that always takes the other token is no copy of itself."""
    made = Processors(temperature=0.0, rounding=1e-5)
    law = OneRow(np.zeros(4))
    law.uncertain_rows = lambda prompt, tokens: tuple(
        np.broadcast_to(one, (*tokens.shape, *one.shape))
        for one in (each[0] for each in made.uncertain_rows(np.array([[3.0, 3.0 + 1e-6, 1.0, -np.inf]]), [()]))
    )
    report = audit_sampler(law, always(0, 0), depth=2, draws=2_000)
    assert (report.verdict, report.at_least, report.repeats, report.at_most) == (UNDECIDED, 0, 0, 1)
    assert audit_sampler(law, always(0, 2), depth=2, draws=200).verdict == UNDECIDED  # nothing is known behind a tie


@pytest.mark.parametrize("wrong", [{"epsilon": 0.0}, {"epsilon": -0.5}, {"level": 0.0}, {"level": 1.0}, {"depth": 0}])
def test_an_audit_of_no_level_is_refused(wrong):
    with pytest.raises(UserError, match="level must be in"):
        Audit(TableLaw(np.full((1, 1, 2), 0.5)), **{"depth": 1, "level": 0.1, "epsilon": 0.1, **wrong})


def test_a_smaller_distance_takes_more_draws():
    law = TableLaw(np.full((1, 1, 2), 0.5))
    needed = [Audit(law, depth=1, level=0.1, epsilon=epsilon)._draws_to_keep() for epsilon in (0.3, 0.1)]
    assert 0 < needed[0] < needed[1]


def test_the_mass_of_shared_cells_takes_its_part_of_the_distance_if_it_leaves_any():
    audit = Audit(TableLaw(np.repeat([0.07, 0.0075], [10, 40])[None, None]), depth=1, level=0.1, planned=100)
    rest, needed = audit._shared(1), []
    assert 0.1 < rest < 0.3
    for audit.epsilon in (0.1, 0.1 + rest):  # 0.1 is left for the cells: of less than the rest, all of it
        needed.append(audit._draws_to_keep())
    assert needed[0] == needed[1] > 500
