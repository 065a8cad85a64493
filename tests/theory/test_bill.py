"""The bill of a position, of a round and of a text: fractions, coin by coin, over trees with two drafts and a bonus."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given

import hlmtheory
from hlmtheory.skipping import one_step_risk
from hlmtheory.skipping.bill import bill_bound, bill_bound_on_device, position_bill
from hlmtheory.skipping.rounds import replacements
from hlmtheory.verification import total_variation

from . import oracles
from .oracles import over_its_sum
from .strategies import drawn

BILL_CLAIMS = [claim for claim in hlmtheory.all_claims().values() if claim.id.startswith("skipping.bill")]
KNOWN = {claim.id: claim for claim in BILL_CLAIMS}


@given(drawn("skipping.bill"))
def test_the_bill_in_fractions(instance):
    """Draft by draft: skipped at a loss, or sent, rejected, and replaced from the wrong residual."""

    def exact(p, q, s, known):
        p, q, s = over_its_sum(p), over_its_sum(q), oracles.exact(s)
        beta, true = oracles.rejection(p, q), oracles.residual(p, q)
        total = Fraction(0)
        for d in range(len(q)):
            total += q[d] * s[d] * beta[d]
            distorted = oracles.residual(p, over_its_sum(known[d % len(known)]))
            if true is not None:
                gap = Fraction(1) if distorted is None else oracles.total_variation(true, distorted)
                total += q[d] * (1 - s[d]) * beta[d] * gap
        return float(total)

    names = ("target", "draft", "skip", "decoded")
    theirs = oracles.row_by_row(exact, *((instance[name], 2 if name == "decoded" else 1) for name in names))
    away = total_variation(instance["target"][..., None, :], instance["decoded"]).min(axis=-1)
    rounding = (away > 0) & (away < 1e-3)  # (p - q̂)⁺ is no more than that
    np.testing.assert_allclose(np.where(rounding, theirs, position_bill(**instance)), theirs, rtol=1e-9, atol=1e-14)


@given(drawn("skipping.bill"))
def test_a_message_in_full_leaves_the_loss_of_skipping_alone(instance):
    p, q, s = (instance[name] for name in ("target", "draft", "skip"))
    np.testing.assert_allclose(position_bill(p, q, s, q[..., None, :]), one_step_risk(p, q, s), atol=1e-12)
    np.testing.assert_array_equal(bill_bound(p, q, s, 0.0), one_step_risk(p, q, s))


@given(drawn("skipping.bill_largest"))
def test_the_bounds_are_ordered(instance):
    bound = bill_bound(**instance)
    t = total_variation(instance["target"], instance["draft"])
    assert np.all(bound <= t * (1 + 1e-12) + 1e-15)
    device = bill_bound_on_device(*(instance[name] for name in ("draft", "skip", "deviation")))
    assert np.all(bound <= device * (1 + 1e-12) + 1e-14)


def test_a_replacement_that_does_not_exist_is_taken_at_its_worst():
    """p = q̂: (p - q̂)⁺ is 0 everywhere, yet a draft is rejected."""
    assert float(position_bill([0.5, 0.25, 0.25], [0.5, 0.375, 0.125], 0.5, [[0.5, 0.25, 0.25]])) == 0.125
    assert float(bill_bound([0.5, 0.25, 0.25], [0.5, 0.375, 0.125], 0.5, 0.125)) == 0.125


class Tree:
    """For each prefix, place and whether the last draft was skipped: rows in fractions, every one its own."""

    def __init__(self, seed, size=3):
        self.rng, self.size, self.known = np.random.default_rng(seed), size, {}

    def row(self):
        cuts = np.sort(self.rng.integers(0, 17, self.size - 1)).tolist()
        return [Fraction(b - a, 16) for a, b in zip([0, *cuts], [*cuts, 16], strict=True)]

    def models(self, prefix):
        if prefix not in self.known:
            q = self.row()
            self.known[prefix] = (q if self.rng.random() < 0.3 else self.row(), q)
        return self.known[prefix]

    def method(self, prefix, state):
        key = (prefix, state)
        if key not in self.known:
            skip = [Fraction(int(self.rng.integers(0, 3)), 2) for _ in range(self.size)]
            self.known[key] = (skip, [self.row() for _ in range(self.size)])
        return self.known[key]


def replacement(p, q, known):
    """r̂ of one draft, or the token that q exceeds p most at, if it is 0/0."""
    found = oracles.residual(p, known)
    if found is None:
        worst = max(range(len(p)), key=lambda v: q[v] - p[v])
        return [Fraction(int(v == worst)) for v in range(len(p))]
    return found


def outcomes(tree, prefix, drafts):
    """Every way that a round goes: its probability, its new tokens, and the places it reached.

    First the drafts and whether each is skipped, then the coins of the verified ones, then the replacement.
    """
    for tokens in product(range(tree.size), repeat=drafts):
        for skipped in product((True, False), repeat=drafts):
            weight, states = Fraction(1), []
            for place in range(drafts):
                before = prefix + tokens[:place]
                _, q = tree.models(before)
                states.append((place, skipped[:place]))
                skip, _ = tree.method(before, states[-1])
                d = tokens[place]
                weight *= q[d] * (skip[d] if skipped[place] else 1 - skip[d])
            if weight:
                yield from served(tree, prefix, tokens, skipped, states, weight)


def served(tree, prefix, tokens, skipped, states, weight):
    """The server's coins: the first rejected draft is replaced, after the last kept one comes a bonus."""
    for place, token in enumerate(tokens):
        before = prefix + tokens[:place]
        p, q = tree.models(before)
        beta = Fraction(0) if skipped[place] else oracles.rejection(p, q)[token]
        if beta:
            made = replacement(p, q, tree.method(before, states[place])[1][token])
            for v in range(tree.size):
                if made[v]:
                    yield weight * beta * made[v], (*tokens[:place], v), states[: place + 1]
        weight *= 1 - beta
    p, _ = tree.models(prefix + tokens)
    for v in range(tree.size):
        if p[v]:
            yield weight * p[v], (*tokens, v), states


def decoded_texts(tree, length, drafts):
    law, total, open_texts = {}, 0.0, {(): Fraction(1)}
    while open_texts:
        following = {}
        for prefix, reach in open_texts.items():
            for weight, tokens, states in outcomes(tree, prefix, drafts):
                for place, state in enumerate(states):
                    before = prefix + tokens[:place]
                    if len(before) < length:  # positions that are cut off cost nothing
                        given = (*tree.models(before), *tree.method(before, state))
                        total += float(reach * weight) * float(
                            position_bill(*(np.array(part, dtype=float) for part in given))
                        )
                text = (prefix + tokens)[:length]
                book = law if len(text) == length else following
                book[text] = book.get(text, Fraction(0)) + reach * weight
        open_texts = following
    return law, total


def target_text(tree, text):
    weight = Fraction(1)
    for place, token in enumerate(text):
        weight *= tree.models(text[:place])[0][token]
    return weight


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("size", "length"), [(2, 3), (3, 2)])
def test_whole_texts_of_a_tree_by_their_coins(seed, size, length):
    """Two drafts and a bonus; skipping and messages depend on the prefix, the place and what was skipped before."""
    tree = Tree(seed, size)
    law, total = decoded_texts(tree, length, 2)
    assert sum(law.values()) == 1
    texts = list(product(range(size), repeat=length))
    distance = sum(abs(law.get(text, Fraction(0)) - target_text(tree, text)) for text in texts) / 2
    assert float(distance) <= total + 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_a_chain_by_its_coins(seed):
    """The law and the sum of the claim are those of the coins, on a chain with one q̂ for each draft."""

    class Chain(Tree):
        def models(self, prefix):
            return super().models(prefix[-1:] or (0,))

        def method(self, prefix, state):
            return super().method(prefix[-1:] or (0,), "any place")

    chain = Chain(np.random.default_rng(seed).integers(1 << 30), 2)
    law, total = decoded_texts(chain, 3, 2)
    texts = list(product(range(2), repeat=3))
    distance = sum(abs(law.get(text, Fraction(0)) - target_text(chain, text)) for text in texts) / 2
    states = [(token,) for token in range(2)]
    instance = {
        "target_chain": [chain.models(state)[0] for state in states],
        "draft_chain": [chain.models(state)[1] for state in states],
        "skip_chain": [chain.method(state, None)[0] for state in states],
        "decoded_chain": [chain.method(state, None)[1] for state in states],
    }
    instance = {name: np.array(value, dtype=float) for name, value in instance.items()}
    verdict = KNOWN["skipping.bill_text"].check(instance)
    assert float(verdict.lhs) == pytest.approx(float(distance), rel=1e-9, abs=1e-14)
    assert float(verdict.rhs) == pytest.approx(total, rel=1e-9, abs=1e-14)


def test_the_bonus_costs_nothing():
    """p = (1/2, 1/2), q = (1, 0), all skipped: of three tokens two are billed 1/2, and the third is right."""
    rows_of = {"target_chain": np.full((2, 2), 0.5), "draft_chain": np.array([[1.0, 0.0]] * 2)}
    verdict = KNOWN["skipping.bill_text"].check(
        {**rows_of, "skip_chain": np.ones((2, 2)), "decoded_chain": rows_of["draft_chain"][:, None, :]}
    )
    assert float(verdict.rhs) == 1.0
    assert float(verdict.lhs) == 0.75  # the text's first two tokens are 0, and the third is a fair coin


def test_where_no_residual_is_left_the_token_that_q_exceeds_p_most_at_replaces():
    p, q = np.array([0.25, 0.25, 0.5]), np.array([0.5, 0.25, 0.25])
    assert replacements(np, p, q, p[None]).tolist() == [[1.0, 0.0, 0.0]]
