"""The record of a claim: its standing, its proof, its scope, and statuses that are honest about rounding."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hlmtheory
from hlmtheory import claims
from hlmtheory._notation import BOUND, base, symbols, used

from .kinds import to

CLAIMS = hlmtheory.all_claims()

FALSE_STANDINGS = {
    claims.Origin.PRINTED: "refuted",
    claims.Origin.MISPRINT: "misprint",
    claims.Origin.IMPLIED: "false reading",
}


def test_ids_standings_and_repairs_of_what_is_misprinted():
    assert {name.partition(".")[0] for name in CLAIMS} <= set(hlmtheory.MODULES)
    assert all(claim.id == name for name, claim in CLAIMS.items())
    assert all(claim.standing and (claim.attained is None) != (claim.refuted is None) for claim in CLAIMS.values())
    for claim in CLAIMS.values():
        instead = re.findall(r"[a-z_]+\.\w+", claim.proof.text.partition("Instead: ")[2])
        assert claim.standing in ("true", "false reading") or instead, claim.id
        assert {CLAIMS[name].standing for name in instead} <= {"true"}, claim.id


def test_every_symbol_of_a_statement_has_a_meaning():
    for claim in CLAIMS.values():
        said = "; ".join((claim.statement, *(one.statement for one in claim.assumptions)))
        known = {base(name) for head in symbols(claim, said) for name in head.split(", ")}
        assert used(said).keys() - known <= BOUND, claim.id


@pytest.mark.parametrize("origin", claims.Origin)
@pytest.mark.parametrize("refuted", [None, {"left": 2.0, "right": 1.0}])
def test_the_standing_of_a_claim(origin, refuted):
    claim, true = toy(origin=origin, refuted=refuted), refuted is None
    if (origin is claims.Origin.MISPRINT) if true else (origin not in FALSE_STANDINGS):
        with pytest.raises(ValueError, match=r"^origin must fit refuted: toy\.sides is"):
            _ = claim.standing
    else:
        assert claim.standing == ("true" if true else FALSE_STANDINGS[origin])


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_narrow_rows_are_judged_in_float64(library, dtype):
    """The caller rounded a narrow softmax; after division by their sums, the rows violate nothing."""
    if (library, dtype) == ("numpy", "bfloat16"):
        pytest.skip("numpy has no bfloat16")
    weights = np.random.default_rng(1).gamma(0.3, size=(2, 50, 30))
    target, draft = (to(library, row / row.sum(-1, keepdims=True), dtype) for row in weights)
    verdict = CLAIMS["verification.unbiased"].check({"target": target, "draft": draft})
    assert verdict.holds
    assert verdict.lhs.dtype == np.float64


def toy(relation=claims.Relation.LE, origin=claims.Origin.NEW, **options):
    return claims.Claim(
        id="toy.sides",
        source=claims.Source("nowhere", "(0)"),
        origin=origin,
        statement="left ≤ right",
        proof=claims.Proof("toy.py", 1, "none"),
        sides=lambda left, right: claims.Sides(relation, left, right),
        **options,
    )


NAN, INF = float("nan"), float("inf")
HOLDS, VIOLATED, OPEN = "HOLDS", "VIOLATED", "INCONCLUSIVE"
EQ = {"relation": claims.Relation.EQ}
TENTH = {"error": lambda right: 0.1 * right}
COARSELY = {"condition": lambda right: 2 * claims.COARSE / claims.UNIT * right}
OUTCOMES = {
    "NaN never holds": [({}, [NAN, 1.0, NAN], [1.0, NAN, NAN], [VIOLATED] * 3)],
    "NaN never holds, however coarse": [
        ({"error": lambda right: 0.5}, [NAN, 1.0, NAN], [1.0, NAN, NAN], [VIOLATED] * 3),
        ({"condition": lambda right: 1e12}, [NAN, 1.0, NAN], [1.0, NAN, NAN], [VIOLATED] * 3),
    ],
    "infinite sides": [
        ({}, [INF, 1.0, INF, -INF], [INF, INF, 1.0, 1.0], [HOLDS, HOLDS, VIOLATED, HOLDS]),
        (EQ, [INF, 1.0, INF, -INF], [INF, INF, 1.0, 1.0], [HOLDS, VIOLATED, VIOLATED, VIOLATED]),
    ],
    "rounding is forgiven and no more": [
        ({}, [1.0 + claims.UNIT, 1.0 + 3 * claims.UNIT], [1.0, 1.0], [HOLDS, VIOLATED]),
        (EQ, [1.0 - claims.UNIT, 1.0 - 3 * claims.UNIT], [1.0, 1.0], [HOLDS, VIOLATED]),
    ],
    "rounding grows with the sides and the condition": [
        ({}, [1e6 + 1e6 * claims.UNIT], [1e6], [HOLDS]),
        ({"condition": lambda right: 100 * right}, [1.0 + 50 * claims.UNIT], [1.0], [HOLDS]),
    ],
    "an estimated side that straddles decides nothing": [
        (TENTH, [0.8, 0.95, 1.05, 1.2], [1.0] * 4, [HOLDS, OPEN, OPEN, VIOLATED]),
        (EQ | TENTH, [1.0, 0.95, 1.2], [1.0] * 3, [OPEN, OPEN, VIOLATED]),
        ({"error": lambda right: np.asarray([0.0, 0.1])}, [1.0, 1.0], [1.0, 1.0], [HOLDS, OPEN]),
    ],
    "a tolerance too coarse decides nothing": [
        (COARSELY, [1.0 + claims.COARSE, 1.0 + 4 * claims.COARSE], [1.0, 1.0], [OPEN, VIOLATED]),
        (EQ | COARSELY, [1.0 + claims.COARSE, 1.0 + 4 * claims.COARSE], [1.0, 1.0], [OPEN, VIOLATED]),
        ({"condition": lambda right: INF * right}, [5.0, 0.5, 1.0], [1.0] * 3, [OPEN, HOLDS, HOLDS]),
    ],
    "a large side is decided by its relative rounding": [
        ({}, [1e12 * (1.0 + claims.UNIT / 2), 1e12 * (1.0 + 4 * claims.UNIT)], [1e12] * 2, [HOLDS, VIOLATED]),
        (EQ, [1e12 * (1.0 + claims.UNIT / 2), 1e12 * (1.0 + 4 * claims.UNIT)], [1e12] * 2, [HOLDS, VIOLATED]),
    ],
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_statuses_are_honest(name):
    for options, left, right, expected in OUTCOMES[name]:
        verdict = toy(**options).check({"left": left, "right": right})
        assert [status.name for status in verdict.status.flat] == expected
        assert verdict.holds == (set(expected) == {HOLDS})


def test_rounding_grows_with_the_length_of_a_row():
    claim = replace(toy(), sides=lambda draft, left: claims.le(left, np.ones(draft.shape[:-1])))
    rows = np.full((3, 1024), 2.0**-10)
    for draft in (rows, rows[:1], rows[0]):  # 64 + 2 V = 33 · 64 roundings of a scale of 2
        verdict = claim.check({"draft": draft, "left": 1.0 + claims.UNIT * np.array([1.0, 65.0, 67.0])})
        assert [status.name for status in verdict.status] == ["HOLDS", "HOLDS", "VIOLATED"]


def test_vacuous_is_a_flag_of_its_own():
    verdict = toy(ceiling=1.0).check({"left": [0.5, 0.5, 0.5, 2.0], "right": [0.9, 1.0, np.inf, 1.5]})
    assert verdict.vacuous.tolist() == [False, True, True, True]
    assert [status.name for status in verdict.status] == ["HOLDS", "HOLDS", "HOLDS", "VIOLATED"]
    assert not toy().check({"left": [0.5], "right": [np.inf]}).vacuous.any()


def test_vacuous_needs_scope_and_every_broken_assumption_is_counted():
    finite = claims.Assumption("right is finite", lambda right: np.isfinite(right))
    positive = claims.Assumption("left is positive", lambda left: left > 0)
    claim = toy(ceiling=1.0, assumptions=(finite, positive))
    verdict = claim.check({"left": [0.5, 0.5, -1.0, -1.0], "right": [INF, 1.0, 1.0, INF]})
    assert verdict.vacuous.tolist() == [False, True, False, False]
    assert verdict.broken == {"right is finite": 2, "left is positive": 2}
    assert (verdict.instances, verdict.in_scope, verdict.holds) == (4, 1, True)


def test_slack_is_the_distance_from_failing():
    assert toy().check({"left": [0.25, 1.5], "right": [1.0, 1.0]}).slack.tolist() == [0.75, -0.5]
    assert toy(claims.Relation.EQ).check({"left": [0.75, 1.5], "right": [1.0, 1.0]}).slack.tolist() == [-0.25, -0.5]


def test_sides_broadcast_to_the_batch():
    verdict = toy().check({"left": [[0.5], [2.0]], "right": [1.0, 3.0, 0.0]})
    assert verdict.status.shape == verdict.lhs.shape == verdict.rhs.shape == verdict.slack.shape == (2, 3)
    assert (verdict.count(claims.Status.HOLDS), verdict.count(claims.Status.VIOLATED)) == (3, 3)


def test_every_theorem_of_the_files_is_a_claim():
    files = (Path(hlmtheory.__file__).parent / "theorems").glob("*.py")
    written = [
        name for file in files for name in re.findall(r'@theorem\(\s*"([\w.]+)"', file.read_text(encoding="utf-8"))
    ]
    assert sorted(written) == sorted(CLAIMS)
