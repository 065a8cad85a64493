"""Every claim of a module's table holds, is as tight as recorded, is caught if it is false, and names wrong values."""

from __future__ import annotations

import pytest

from .module_claims import (
    check_attained,
    check_holds,
    check_libraries,
    check_refuted,
    check_scope,
    check_strays,
    claim_tables,
)

TABLES = claim_tables()
CASES = [(claim, table) for table in TABLES.values() for claim in table.claims]
TRUE = [(claim, table) for claim, table in CASES if claim.refuted is None]
FALSE = [(claim, table) for claim, table in CASES if claim.refuted is not None]
ASSUMED = [(claim, table, one.statement) for claim, table in CASES for one in claim.assumptions]


def each(cases, names="claim, table"):
    """One test for each case, named by the claim."""
    return pytest.mark.parametrize(names, cases, ids=[case[0].id for case in cases])


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_table_has_an_entry_for_each_claim_and_no_other(table):
    assert set(table.strategies) == {claim.id for claim in table.claims}
    assert set(table.agrees) == {claim.id for claim in table.claims if claim.refuted is not None}
    if not callable(table.outside):
        assert set(table.outside) == {one.statement for claim in table.claims for one in claim.assumptions}


@each(TRUE)
def test_holds(claim, table):
    check_holds(claim, table.strategies[claim.id])


@each(TRUE)
def test_attained_and_its_mutant(claim, table):
    check_attained(claim)


@each(FALSE)
def test_refuted(claim, table):
    check_refuted(claim, table.strategies[claim.id], table.agrees[claim.id])


@each(CASES)
def test_libraries(claim, table):
    check_libraries(claim)


@each(CASES)
def test_bad_input_is_named(claim, table):
    check_strays(claim, table.strays_of(claim))


@each(ASSUMED, "claim, table, statement")
def test_a_broken_assumption_is_named(claim, table, statement):
    check_scope(claim, statement, table.outside_of(claim, statement))
