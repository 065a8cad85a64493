"""The laws of mechanisms are distributions, and the name is that of the law that fits the draws.

``tests/validation/decoding/test_defects.py`` compares the laws with those of the loop.
"""

import functools
import itertools
import math
import os
from random import Random

import numpy as np
import pytest

from tests.validation.audit.test_repeats import drawn
from validation.audit import NOT_KEPT, Processors, TableLaw, audit_sampler
from validation.audit.mechanisms import _Parts, local_likelihoods
from validation.audit.naming import EXCLUDED, Naming

V, D = 4, 3
ROWS = sum(V**t for t in range(D + 2))
TEXTS = np.array(list(itertools.product(range(V + 1), repeat=D)))


def tables(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    target = rng.dirichlet(np.ones(V), ROWS)
    return target, 0.5 * target + 0.5 * rng.dirichlet(np.ones(V), ROWS)


@pytest.mark.parametrize("ends", [(), (0,)])
@pytest.mark.parametrize("made", [Processors(), Processors(0.7), Processors(top_p=0.8), Processors(min_p=0.3)])
def test_each_mechanism_gives_a_distribution_of_texts(ends, made):
    target, draft = (TableLaw(rows, [[0]], ends, made) for rows in tables(1))
    tails = [[token for token in text[list(text).index(0) + 1 :] if token < V] if 0 in text else [] for text in TEXTS]
    canonical = np.array([not tail or not ends or any(tail) for tail in tails])  # end tokens behind one are "nothing"
    canonical &= ((TEXTS[:, :-1] < V) | (TEXTS[:, 1:] == V)).all(axis=1)  # and nothing follows "nothing"
    for key, likelihood in local_likelihoods(target, draft, 0, TEXTS, D):
        assert likelihood[canonical].sum() == pytest.approx(1.0), key
        assert likelihood.min() >= 0


def of(table):
    """Rows of a table, as a function of the text and of the last tokens of its rounds."""
    rows = np.asarray(table).tolist()
    return lambda text, ends: rows[functools.reduce(lambda node, token: node * V + token + 1, text, 0)]


def rounds(fault, q, p, n, seed, bonus=None, told=None, most=2):
    """Texts of rounds of drafts by the exact rule, but for one fault; the server knows ``told`` for q."""
    random, texts = Random(seed), []
    for _ in range(n):
        text, ends, late = [], [], 0
        while len(text) < D:
            drafts = []
            for _ in range(most):
                drafts += random.choices(range(V), q(text + drafts, ends))
            made, i = drafts, 0
            for i, x in enumerate(drafts):
                here = p(text + drafts[: 0 if fault == "stale target" else i], ends)
                known, top = (told or q)(text + drafts[:i], ends), here.index(max(here))
                unverified = fault == "draft_unverified" or (fault == "first_draft_unverified" and i == 0)
                by_rule = x == top if fault == "verified_by_argmax" else random.random() * known[x] < here[x]
                if not unverified and not by_rule:
                    left = [max(a - b, 0.0) for a, b in zip(here, known, strict=True)]
                    (other,) = random.choices(range(V), left if any(left) and fault != "replaced_from_target" else here)
                    kept = {"rejected_draft_kept": x, "verified_by_argmax": top, "replaced_by_argmax": top}
                    drafts = [*drafts[:i], kept.get(fault, other)]
                    break
            else:
                drafts, i = drafts + random.choices(range(V), (bonus or p)(text + drafts, ends)), most
            if fault == "late_rejection":
                drafts, late = made[:late] + random.choices(range(V), p(text + made[:late], ends)), i
            text, ends = text + drafts, [*ends, drafts[-1]]
        texts.append(text[:D])
    return texts


FAULTS = ("draft_unverified", "first_draft_unverified", "rejected_draft_kept", "verified_by_argmax")
FAULTS += ("replaced_by_argmax", "replaced_from_target", "q_of_other_row", "penalty_of_last_token", "late_rejection")


def test_a_draft_without_mass_under_the_target_and_in_its_message_is_never_kept():
    p = told = np.array([[[0.0, 1.0, 0.0]]])
    drawn, x, here = np.array([[[0.5, 0.0, 0.5]]]), np.array([[[0]]]), np.array([[True]])
    assert _Parts("", p, drawn, told, x).likelihood(1, here, ~here) == 0.0
    assert _Parts("draft_unverified", p, drawn, told, x).likelihood(1, here, ~here) == 0.5


@pytest.mark.parametrize("fault", ["", *FAULTS])
def test_a_fault_of_the_rounds_is_named_and_a_sound_sampler_is_not(fault):
    """Two prompts in a call; with a penalty of what was drawn, where the fault is about penalties."""
    p, q = (np.stack(pair) for pair in zip(tables(8), tables(9), strict=True))
    penalty = 1.5 if fault in ("", "penalty_of_last_token") else 0.0
    target = TableLaw(p, [[0], [1]], (), Processors(frequency_penalty=penalty))
    draft, told = TableLaw(q, [[0], [1]]), q[::-1] if fault == "q_of_other_row" else q

    def penalised(text, ends, law):
        seen = ends if fault == "penalty_of_last_token" else text
        weights = [mass * math.exp(-penalty * seen.count(v)) for v, mass in enumerate(law(text, ends))]
        return [weight / sum(weights) for weight in weights]

    rows = [functools.partial(penalised, law=of(p[c])) if penalty else of(p[c]) for c in range(2)]

    def sample(prompts, n, seed):
        return [rounds(fault, of(q[c]), rows[c], n, seed + c, told=of(told[c])) for c in range(2)]

    report = audit_sampler(target, sample, draws=8_000 if fault else 2_000, depth=D, draft=draft)
    assert (report.verdict == NOT_KEPT) == bool(fault)
    assert [fit.name for fit in report.mechanisms or ()][:1] == [fault] * bool(fault)


@pytest.mark.parametrize(("with_draft", "bonus_too"), [(False, True), (True, True), (True, False)])
@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ({"temperature": 0.4}, "temperature_dropped"),
        ({"top_k": 2}, "top_k_dropped"),
        ({"top_p": 0.6}, "top_p_dropped"),
        ({"presence_penalty": 2.0}, "penalty_dropped"),
        ({"min_tokens": 2}, "min_tokens_dropped"),
        ({"logit_bias": ((1, 2.0),)}, "bias_dropped"),
    ],
)
def test_a_setting_that_the_engine_ignores_is_named(setting, name, with_draft, bonus_too):
    """In verification, or for all tokens; then without a draft model too."""
    tables_of_both = tables(12)
    law, draft = (TableLaw(rows, [[0]], (3,), Processors(**setting)) for rows in tables_of_both)
    verified, bonus = of(tables_of_both[0]), of(tables_of_both[0] if bonus_too else law.table[0])

    def sample(prompts, n, seed):
        texts = rounds("", of(draft.table[0]), verified, n, seed, bonus=bonus)
        return [[text[: text.index(3) + 1] if 3 in text else text for text in texts]]

    report = audit_sampler(law, sample, draws=6_000, depth=D, draft=draft if with_draft else None)
    assert report.verdict == NOT_KEPT
    assert [fit.name for fit in report.mechanisms][:1] == [name]


@pytest.mark.parametrize("seed", [4, 5])
def test_a_defect_that_is_not_in_the_list_is_given_no_name(seed):
    """A stale row of the target; the temperature after top-p in place of before."""
    rows = np.random.default_rng(seed).dirichlet(np.ones(V), sum(V**t for t in range(D + 4)))
    other = 0.5 * rows + 0.5 * np.random.default_rng(seed + 9).dirichlet(np.ones(V), len(rows))

    def stale(prompts, n, seed):
        return [rounds("stale target", of(other), of(rows), n, seed)]

    made = Processors(temperature=0.6, top_p=0.8)
    late = TableLaw(rows, processors=Processors(0.6, top_p=0.8, order="llama.cpp"))

    def late_temperature(prompts, n, seed):
        return [drawn(late.table[0], D, n, np.random.default_rng(seed))]

    for sample, processors in ((stale, Processors()), (late_temperature, made)):
        laws = [TableLaw(one, processors=processors) for one in (rows, other)]
        report = audit_sampler(laws[0], sample, draws=30_000, depth=D, draft=laws[1])
        assert report.verdict == NOT_KEPT
        assert report.mechanisms == ()
        assert "None of the known mechanisms explains the draws." in report.sentences()


def test_the_laws_of_the_cells_are_those_of_the_texts():
    rows = tables(6)
    target, draft = (TableLaw(one, [[0]], (0,), Processors(top_p=0.8)) for one in rows)
    naming = Naming(target, draft, D)
    cells, part = naming._of_cells(0), naming._partitions[0]
    nodes = part.walk(TEXTS)[:, -1]
    for key, likelihood in local_likelihoods(target, draft, 0, TEXTS, D):
        if key in cells and key[0] != "end_passed_over":  # other texts are read as the same one
            expected = np.bincount(nodes, weights=likelihood, minlength=len(part.mass))
            own = part.cells(D)
            np.testing.assert_allclose(cells[key][own], expected[own], atol=1e-12, err_msg=str(key))


def test_a_p_value_is_rarely_small_if_the_mechanism_is_right():
    """200 samplers with a defect, each looked at after every 100 draws: excluded no more often than the level says."""
    laws = [TableLaw(rows) for rows in tables(7)]
    chances = dict(local_likelihoods(*laws, 0, TEXTS, D))["stale_draft", "K = 2 "]
    naming, excluded = Naming(*laws, D), 0
    naming._cells = [naming._of_cells(0)]
    for seed in range(200):
        rng = np.random.default_rng(seed)
        naming._counts = [np.zeros(len(part.mass), dtype=np.int64) for part in naming._partitions]
        smallest = 1.0
        for _ in range(10):
            naming.count(0, TEXTS[rng.choice(len(TEXTS), size=100, p=chances / chances.sum())])
            smallest = min(smallest, float(np.exp(-naming._evidence(("stale_draft", "K = 2 ")))))
        excluded += smallest <= EXCLUDED
    assert excluded <= 8


def hostile_rows(rng, nodes, size):
    """Return rows as models and tables have them at the edges: one-hot, subnormal, of one likely token, with zeros."""
    rows = [
        rng.dirichlet(np.full(size, 1.2), nodes),
        np.eye(size)[rng.integers(size, size=nodes)],
        np.exp(rng.uniform(-740, 0, size=(nodes, size))),
        rng.dirichlet(np.ones(size), nodes) * 1e-17 + np.eye(size)[0],
        (rng.random((nodes, size)) < 0.5) + 1e-300,
    ][rng.integers(5)]
    return rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(20 if os.environ.get("DEEP") == "1" else 6))
def test_no_draft_costs_the_verdict(seed):
    """Also a draft that is the target up to rounding, and a temperature near 0: no error, no warning, no NaN."""
    rng, found = np.random.default_rng(seed), 0
    while found < 2:
        target, other = (hostile_rows(rng, ROWS, V) for _ in range(2))
        same = np.exp(np.log(np.maximum(target, 1e-320)))
        draft = (same / same.sum(axis=1, keepdims=True), other)[rng.integers(2)]
        made = Processors(
            temperature=float(rng.choice([0, 0.01, 0.02, 0.7, 1, 1e-300])), top_k=int(rng.integers(V)), top_p=0.9
        )
        laws = [TableLaw(rows, [[0]], (1,), made) for rows in (target, draft)]
        text = rng.choice([0, 2, 3], size=D)
        call = {"depth": D, "draws": 600, "draft": laws[1]}
        report = audit_sampler(laws[0], lambda prompts, n, seed, text=text: [[text] * n], **call)
        found += report.verdict == NOT_KEPT
        assert report.notes == ()
        assert (report.mechanisms is not None) == (report.verdict == NOT_KEPT)
        assert np.isfinite([report.at_least, report.at_most, *(fit.gain for fit in report.mechanisms or ())]).all()
