"""Every claim holds on drawn instances, is as tight as recorded, is caught if it is false, and names wrong values.

The instances and the wrong values come from ``hlmtheory/arguments.py``.
"""

import os
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import hlmtheory
from hlmtheory.arguments import ARGUMENTS, WITHIN, argument, example, instance
from hlmtheory.claims import Claim, Relation, Status, _in_float64
from tests.scaled import scaled

from .kinds import to
from .strategies import drawn

CLAIMS = [claim for claim in hlmtheory.all_claims().values() if claim.id.startswith(os.environ.get("CLAIMS_OF", ""))]
"""All claims, or those of one module: tests/mutation/run.py tests a mutant on the claims of its module."""
TRUE = [claim for claim in CLAIMS if claim.refuted is None]
FALSE = [claim for claim in CLAIMS if claim.refuted is not None]
ASSUMED = [(claim, assumption) for claim in CLAIMS for assumption in claim.assumptions]
BATCHES = 60
"""Batches of 20 instances that are searched for one instance of a kind."""

NOWHERE = {
    "draft_length.linear_adapts": "the printed choice never adapts",
    "draft_length.update_storm_printed": "the printed table never fits",
}
"""False claims that are right on no instance, with the reason."""


def each(cases, names="claim"):
    label = {Claim: lambda value: value.id, str: str}
    return pytest.mark.parametrize(
        names, cases, ids=lambda value: label.get(type(value), lambda value: value.statement.split(":")[0])(value)
    )


def batches(claim, size=20):
    for number in range(BATCHES):
        yield instance(claim, np.random.default_rng([zlib.crc32(claim.id.encode()), number]), (size,))


def mutants(claim):
    """Yield the claim with a right side that the attained instance no longer satisfies."""
    factors = (1 - 1e-6, 1 + 1e-6) if claim.relation is Relation.EQ else (claim.attained.ratio * (1 - 1e-4),)
    for factor in factors:
        yield scaled(claim, factor)


@each(TRUE)
def test_holds(claim):
    @given(drawn(claim))
    def no_instance_violates_it(values):
        verdict = claim.check(values)
        assert verdict.count(Status.VIOLATED) == 0, (values, verdict)

    no_instance_violates_it()


@each(CLAIMS)
def test_no_claim_is_checked_on_zero_instances_in_scope(claim):
    """And an instance of a true claim is decided, unless a side is estimated."""
    values = next((values for values in batches(claim, 5) if claim.inside(values).any()), None)
    assert values, f"no drawn instance of {claim.id} is in scope"
    verdict = claim.check(values)
    assert verdict.in_scope
    assert claim.refuted is not None or claim.error is not None or verdict.count(Status.HOLDS)


@each([claim for claim in CLAIMS if "draft" in claim.takes or claim.id.startswith("verification.tokens")])
def test_nothing_is_claimed_of_no_instance(claim):
    """Of rows; claims that enumerate texts or plans take a batch of at least one."""
    verdict = claim.check(instance(claim, np.random.default_rng(1), (0,)))
    assert (verdict.instances, verdict.in_scope, verdict.holds) == (0, 0, False)


@each(TRUE)
def test_attained_and_its_mutant(claim):
    """The recorded ratio is reached where the claim says something, and a right side shrunk below it is caught."""
    verdict = claim.check(claim.attained.instance)
    assert (verdict.holds, bool(verdict.vacuous)) == (True, False)
    assert float(verdict.lhs / verdict.rhs) == pytest.approx(claim.attained.ratio, rel=1e-6)
    assert claim.relation is Relation.EQ or verdict.lhs <= verdict.rhs * (1 + 1e-12)
    for mutant in mutants(claim):
        assert mutant.check(claim.attained.instance).count(Status.VIOLATED) == 1


@each(FALSE)
def test_refuted(claim):
    """The counterexample violates the statement, which is right on other instances: the sides do not always differ."""
    verdict = claim.check(claim.refuted)
    law = claim.law and 1.0 - np.abs(claim.law(**claim.refuted) - claim.refuted["target"]).sum() / 2.0
    assert (verdict.count(Status.VIOLATED), law or verdict.lhs) == (1, pytest.approx(verdict.lhs))
    assert any(claim.check(values).count(Status.HOLDS) for values in batches(claim)) == (claim.id not in NOWHERE)


@each(CLAIMS)
def test_libraries(claim):
    """Numpy and a strict array library give the same verdict; torch does on drawn instances, below."""
    ours = claim.check(example(claim))
    theirs = claim.check({name: to("strict", value) for name, value in example(claim).items()})
    assert theirs.status.tolist() == ours.status.tolist()
    np.testing.assert_allclose([theirs.lhs, theirs.rhs], [ours.lhs, ours.rhs], rtol=1e-12)


@each(CLAIMS)
def test_libraries_agree_on_drawn_instances(claim):
    """Torch gives every verdict of numpy, and both sides within the rounding that the claim states."""
    values = next(batches(claim, 10))
    ours, theirs = (
        claim.check({name: to(library, value) for name, value in values.items()}) for library in ("numpy", "torch")
    )
    assert theirs.status.tolist() == ours.status.tolist()
    wide = {name: _in_float64(name, value) for name, value in values.items()}
    condition = 1.0 if claim.condition is None else claim._apply(claim.condition, wide)
    for one, other in ((ours.lhs, theirs.lhs), (ours.rhs, theirs.rhs)):
        with np.errstate(invalid="ignore"):
            near = np.abs(one - other) <= 1e-12 * (np.maximum(np.abs(one), np.abs(other)) + condition)
        assert np.all(near | (one == other) | (np.isnan(one) & np.isnan(other)))


@each(ASSUMED, "claim, assumption")
def test_a_broken_assumption_is_named(claim, assumption):
    """An instance that breaks one assumption alone is out of scope, and the verdict says which."""
    others = replace(claim, assumptions=tuple(one for one in claim.assumptions if one != assumption))
    alone = replace(claim, assumptions=(assumption,))
    for values in batches(claim):
        outside = others.inside(values) & ~alone.inside(values)
        if outside.any():
            place = int(np.argmax(np.broadcast_to(outside, (20,))))
            verdict = claim.check({name: value[place] for name, value in values.items()})
            assert verdict.status.item() is Status.OUT_OF_SCOPE
            assert verdict.broken == {assumption.statement: 1}
            assert np.isnan([verdict.lhs, verdict.rhs, verdict.slack]).all()
            assert not verdict.vacuous
            return
    pytest.fail(f"no drawn instance breaks {assumption.statement!r} alone")


@each(CLAIMS)
def test_a_missing_or_unknown_array_is_named(claim):
    values = dict(example(claim))
    with pytest.raises(TypeError, match=rf"{claim.id} takes .*missing \[\], unknown \['made_up'\]"):
        claim.check({**values, "made_up": [0.0, 1.0]})
    dropped = next(iter(claim.takes))
    del values[dropped]
    with pytest.raises(TypeError, match=rf"{claim.id} takes .*missing \['{dropped}'\], unknown \[\]"):
        claim.check(values)


def test_the_vocabulary_holds_the_arguments_of_the_claims_and_no_other():
    taken = [(claim, name) for claim in hlmtheory.all_claims().values() for name in claim.takes]
    assert set(ARGUMENTS) == {name for _, name in taken}
    for prefix, table in WITHIN.items():
        meant = [(claim, name) for claim, name in taken if claim.id.startswith(prefix) and name in table]
        assert {name for _, name in meant} == set(table), prefix
        assert any(argument(claim, name) is table[name] for claim, name in meant), prefix


def test_edge_cases_are_drawn():
    """One token, one-hot rows, ties, zeros, subnormal entries, equal rows, disjoint supports, residuals of 0/0."""
    claim = hlmtheory.all_claims()["truncation.certificate"]
    seen = set()
    for values in batches(claim):
        p, q, k = values["target"], values["draft"], values["k"]
        seen |= {f"V = {q.shape[-1]}"} & {"V = 1", "V = 2"}
        facts = {
            "one-hot": (q == 1.0).any(-1),
            "ties": (np.diff(np.sort(q, axis=-1), axis=-1) == 0).any(-1),
            "subnormal": ((q > 0) & (q < 2.0**-1022)).any(-1),
            "equal": (p == q).all(-1),
            "disjoint": ((p == 0) | (q == 0)).all(-1),
            "nothing sent": k == 0,
            "all sent": k == q.shape[-1],
        }
        seen |= {name for name, met in facts.items() if met.any()}
    assert seen == {"V = 1", "V = 2", *facts}
