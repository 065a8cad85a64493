"""The tests that every claim of a module runs through, for modules whose instances are numbers rather than rows."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hlmtheory.claims import Claim, Relation, Status

from .kinds import to
from .strategies import shapes

Instance = dict[str, Any]
Strategy = st.SearchStrategy[Any]


@dataclass(frozen=True)
class ClaimTable:
    """Test data for the claims of one module.

    A test file of a module names its table ``CLAIM_TABLE``; ``test_claim_tables.py`` finds it and runs every claim.

    Attributes
    ----------
    claims : sequence of Claim
        The module's claims, or the part of them that this table tests.
    strategies : mapping
        For each claim's id, the strategy of its instances.
    strays : mapping or function of the claim
        For each argument a value outside its domain.
    agrees : mapping
        For each false claim's id, an instance on which the statement is right, or None.
    outside : mapping or function of the claim and the assumption's statement
        For each assumption an instance that breaks it; arguments that a claim does not take are dropped.
    """

    claims: Sequence[Claim]
    strategies: Mapping[str, Strategy]
    strays: Mapping[str, Any] | Callable[[Claim], Mapping[str, Any]]
    agrees: Mapping[str, Instance | None] = field(default_factory=dict)
    outside: Mapping[str, Instance] | Callable[[Claim, str], Instance] = field(default_factory=dict)

    def strays_of(self, claim: Claim) -> Mapping[str, Any]:
        """Return values outside the domains of the claim's arguments."""
        return self.strays(claim) if callable(self.strays) else self.strays

    def outside_of(self, claim: Claim, statement: str) -> Instance:
        """Return an instance for which the claim's assumption fails."""
        found = self.outside(claim, statement) if callable(self.outside) else self.outside[statement]
        return {name: value for name, value in found.items() if name in claim.takes}


def claim_tables() -> dict[str, ClaimTable]:
    """Return the tables of all test files of this folder, by the file's name."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py"))
    modules = {name: importlib.import_module(f"{__package__}.{name}") for name in names if name not in READERS}
    return {name: module.CLAIM_TABLE for name, module in modules.items() if hasattr(module, "CLAIM_TABLE")}


READERS = ("test_claim_tables", "test_claims")
"""The test files that read the tables and have no table."""


def by_id(value):
    """Return a readable test id."""
    return value.id if isinstance(value, Claim) else None


def mutants(claim):
    """Return the claim with a right side that the attained instance no longer satisfies."""
    factors = (1 - 1e-6, 1 + 1e-6) if claim.relation is Relation.EQ else (claim.attained.ratio * (1 - 1e-4),)
    for factor in factors:
        scaled = functools.wraps(claim.rhs)(lambda factor=factor, **values: factor * claim.rhs(**values))
        yield replace(claim, rhs=scaled)


# -------------------------------------------------------------------------------------------------------- drawing


def quantity(least: float, most: float) -> Strategy:
    """A positive number: a power of 2 or of 10, so that ties occur, or any number, drawn by its logarithm."""
    low, high = np.log2(least), np.log2(most)
    tens = st.integers(int(np.ceil(np.log10(least))), int(np.floor(np.log10(most)))).map(lambda n: 10.0**n)
    twos = st.integers(int(np.ceil(low)), int(np.floor(high))).map(lambda n: 2.0**n)
    anything = st.floats(low, high).map(lambda x: min(max(2.0**x, least), most))
    return st.one_of(twos, tens, anything)


@st.composite
def batches(draw: st.DrawFn, rows: tuple[int, int] | None = None, **elements: Strategy) -> Instance:
    """A batch of instances; an argument whose name begins with ``rows_`` is a row; all rows have one length."""
    shape = draw(shapes())
    length = draw(st.integers(*rows)) if rows else 0
    instance = {}
    for name, element in elements.items():
        dtype = np.int64 if isinstance(draw(element), int) else np.float64
        full = (*shape, length) if name.startswith("rows_") else shape
        instance[name.removeprefix("rows_")] = draw(hnp.arrays(dtype, full, elements=element))
    return instance


# ------------------------------------------------------------------------------------------------------- checking


def check_holds(claim: Claim, strategy: Strategy) -> None:
    """No drawn instance violates the claim, and some instances are in scope."""
    in_scope = 0

    @given(strategy)
    def no_instance_violates_it(instance):
        nonlocal in_scope
        verdict = claim.check(instance)
        in_scope += verdict.in_scope
        assert verdict.count(Status.VIOLATED) == 0, (instance, verdict)

    no_instance_violates_it()
    assert in_scope > 0


def check_attained(claim: Claim) -> None:
    """The recorded ratio is reached, and a right side shrunk below it is caught."""
    verdict = claim.check(claim.attained.instance)
    assert verdict.holds
    assert float(verdict.lhs / verdict.rhs) == pytest.approx(claim.attained.ratio, rel=1e-6)
    assert verdict.lhs <= verdict.rhs * (1 + 1e-12)
    for mutant in mutants(claim):
        assert mutant.check(claim.attained.instance).count(Status.VIOLATED) == 1


def check_refuted(claim: Claim, strategy: Strategy, agrees: Instance | None) -> None:
    """The counterexample violates the statement; it holds on a given instance where it is right, if there is one."""
    assert claim.check(claim.refuted).count(Status.VIOLATED) == 1
    assert agrees is None or claim.check(agrees).holds
    seen = 0

    @given(strategy)
    def gives_a_verdict(instance):
        nonlocal seen
        seen += claim.check(instance).in_scope

    gives_a_verdict()
    assert seen > 0


def check_scope(claim: Claim, statement: str, outside: Instance) -> None:
    """An instance that breaks one assumption is out of scope, and the verdict says which."""
    verdict = claim.check(outside)
    assert verdict.status.item() is Status.OUT_OF_SCOPE
    assert verdict.broken == {statement: 1}
    assert np.isnan([verdict.lhs, verdict.rhs]).all()


def check_libraries(claim: Claim) -> None:
    """Numpy, torch and a strict array library give the same verdict."""
    instance = claim.refuted or claim.attained.instance
    ours = claim.check(instance)
    for library in ("torch", "strict"):
        theirs = claim.check({name: to(library, value) for name, value in instance.items()})
        assert theirs.status.tolist() == ours.status.tolist()
        np.testing.assert_allclose(theirs.lhs, ours.lhs, rtol=1e-12)
        np.testing.assert_allclose(theirs.rhs, ours.rhs, rtol=1e-12)


def check_strays(claim: Claim, strays: Instance) -> None:
    """A value outside its domain is refused, and the message names it."""
    instance = dict(claim.refuted or claim.attained.instance)
    for name in claim.takes:
        with pytest.raises(ValueError, match=rf"^{name}\b.* must "):
            claim.check({**instance, name: strays[name]})
