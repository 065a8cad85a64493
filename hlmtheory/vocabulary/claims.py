"""Claims of the module, each with its proof above its record."""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays
from hlmtheory._simplex import distributions, law_overlap
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.verification import output_distribution
from hlmtheory.vocabulary.intersection import common_acceptance, on_support

# Proofs, by the last part of the id.
#
# lossless. q_A is a distribution over the target's vocabulary, and drafts are drawn from it and verified with it. So
#   the law is p as for every draft distribution (verification.unbiased). A token outside of A comes from the residual.
# target_mass. min(p, q_A) ≤ p on A, and q_A is 0 elsewhere.
# renormalised_gain. min(p, q/m) ≤ min(p, q)/m for m = q(A) ≤ 1.
# change. α is 1-Lipschitz in TV of the draft's distribution (verification.overlap), and TV(q, q_A) = 1 - q(A).


def _mass(row: Array, support: Array) -> Array:
    """Return the mass of a row on A, added token by token."""
    xp, _, inside, _, _ = on_support(row, support)
    return xp.sum(inside, axis=-1)


def _target_mass(target: Array, support: Array) -> Array:
    return _mass(target, support)


def _unnormalised(target: Array, draft: Array, support: Array) -> Array:
    """Return Σ_A min(p, q): drafts from q, of which those outside of A are rejected."""
    xp, _, p, q = distributions(target=target, draft=draft)
    return xp.sum(xp.where(support, xp.minimum(p, q), 0.0), axis=-1)


def _whole(target: Array, draft: Array) -> Array:
    xp, _, p, q = distributions(target=target, draft=draft)
    return xp.sum(xp.minimum(p, q), axis=-1)


def _law(target: Array, draft: Array, support: Array) -> Array:
    """Return the law of the emitted token; p where q has no mass on A, so that the row is a distribution."""
    xp, _, p, _ = distributions(target=target, draft=draft)
    _, _, _, mass, kept = on_support(draft, support)
    return output_distribution(p, xp.where(mass[..., None] > 0, kept, p))


def _ones(target: Array) -> Array:
    xp, p = arrays(target=target)
    return xp.ones_like(p[..., 0])


_DRAFTS = Assumption("q(A) > 0: there is a token to draft", lambda draft, support: _mass(draft, support) > 0)
_TIMOR = "timor2025heterogeneous"
_PART = Source(_TIMOR, "the token-level method, drafts on the common tokens")
# the target emits token 0 alone, and the draft is as likely to be token 1
_SURE = {"target": [1.0, 0.0], "draft": [0.5, 0.5], "support": [True, False]}
_HALF = {"target": [0.25, 0.25, 0.5], "draft": [0.25, 0.25, 0.5], "support": [True, True, False]}
_BOUND: dict[str, Any] = {"source": _PART, "relation": Relation.LE, "ceiling": 1.0}

CLAIMS = (
    Claim(
        id="vocabulary.lossless",
        source=Source(_TIMOR, "abstract: the methods preserve the target distribution; for the token-level one"),
        origin=Origin.PUBLISHED,
        statement="the law is p for drafts from q on the common tokens A, renormalised: its overlap with p is 1",
        relation=Relation.EQ,
        lhs=lambda target, draft, support: law_overlap(_law(target, draft, support), target),
        rhs=_ones,
        assumptions=(_DRAFTS,),
        attained=Attained(_HALF),
    ),
    Claim(
        id="vocabulary.target_mass",
        statement="P(accept) ≤ p(A), the target's mass on the common tokens",
        lhs=common_acceptance,
        rhs=_target_mass,
        attained=Attained(_HALF),
        **_BOUND,
    ),
    Claim(
        id="vocabulary.renormalised_gain",
        statement="q(A) P(accept) ≤ Σ_A min(p, q): renormalising multiplies it by at most 1/q(A)",
        lhs=lambda target, draft, support: _mass(draft, support) * common_acceptance(target, draft, support),
        rhs=_unnormalised,
        attained=Attained(_SURE),
        **_BOUND,
    ),
    Claim(
        id="vocabulary.change",
        source=Source("zheng2025tslt", "abstract: the acceptance rate is preserved; by how much it changes"),
        statement="|Σ_A min(p, q_A) − Σ_v min(p, q)| ≤ 1 − q(A), the mass that is cut off",
        lhs=lambda target, draft, support: abs(common_acceptance(target, draft, support) - _whole(target, draft)),
        rhs=lambda draft, support: 1.0 - _mass(draft, support),
        assumptions=(_DRAFTS,),
        attained=Attained(_SURE),
        ceiling=1.0,
        condition=lambda target, draft, support: 4.0,
    ),
)
