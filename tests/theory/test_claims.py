"""Every claim holds in its scope, is as tight as recorded, and would be caught if it were false."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import hlmtheory
from hlmtheory.claims import COARSE, UNIT, Assumption, Claim, Origin, Relation, Source, Status

from .kinds import to
from .module_claims import by_id, claim_tables, mutants
from .strategies import EXACT_INSTANCES, INSTANCES

ELSEWHERE = {name for table in claim_tables().values() for name in table.strategies}
"""Claims of modules whose arguments are not distributions over a vocabulary: see ``test_claim_tables.py``."""

CLAIMS = {name: claim for name, claim in hlmtheory.all_claims().items() if name not in ELSEWHERE}
TRUE = [claim for claim in CLAIMS.values() if claim.refuted is None]
FALSE = [claim for claim in CLAIMS.values() if claim.refuted is not None]

FALSE_STANDINGS = {Origin.PUBLISHED: "refuted", Origin.MISPRINT: "misprint", Origin.IMPLIED: "false reading"}

REPAIRS = {
    "verification.unbiased_printed": "verification.unbiased",
    "verification.rejection_ratio": "skipping.mean_rejection",
    "uncertainty.printed_temperature": "uncertainty.sampled",
    "lattice.quantize_printed": "lattice.quantize",
    "conformal.telescope_printed": "conformal.telescope",
    "conformal.resampled": "conformal.kept",
    "ofdma.minmax_printed": "ofdma.minmax",
    "batching.dp_printed_value": "batching.dp",
    "batching.dp_printed_objective": "batching.dp",
    "batching.dp_printed_choice": "batching.dp",
    "batching.dp_printed_memory": "batching.dp",
    "batching.dp_printed_packing": "batching.dp",
}
"""For each misprint the claim that states what is meant."""

FLATTENED = {"target": [0.5, 0.25, 0.25], "draft": [0.5, 0.375, 0.125], "k": 1}
OUTSIDE = {
    "k < V": {"target": [0.25, 0.75], "draft": [0.5, 0.5], "k": 2},
    "r̂ exists: TV(q̂, p) > 2^-44, or nothing is rejected": FLATTENED,
    "K ≤ 4,096, where the left side is summed term by term": {"acceptance": 0.5, "draft_length": 4097},
}
"""For each assumption an instance that breaks it."""

WITHIN = {"k": 0, "draft_length": 3}
"""What brings each of them back into scope."""

STRAYS = {
    "draft": [0.5, 0.47],
    "target": [0.5, float("nan")],
    "token": 2,
    "k": 3,
    "top_k": [0, 3],
    "acceptance": 1.2,
    "acceptances": [0.5, -0.1],
    "draft_length": -1,
}
"""For each argument of a claim a value outside its domain."""

INSIDE = {
    "draft": [0.5, 0.5],
    "target": [0.25, 0.75],
    "token": 0,
    "k": 1,
    "top_k": [0, 1],
    "acceptance": 0.5,
    "acceptances": [0.5, 0.25],
    "draft_length": 3,
}
"""For each argument of a claim a value inside its domain."""


def instance_for(claim, values):
    """Return the arrays that the claim takes."""
    return {name: values[name] for name in claim.takes}


# ------------------------------------------------------------------------------------------------------- registry


def test_every_claim_has_a_strategy_and_every_strategy_a_claim():
    assert set(INSTANCES) == set(CLAIMS)


def test_ids_are_unique_and_start_with_their_module():
    modules = {module: getattr(getattr(hlmtheory, module), "CLAIMS", ()) for module in hlmtheory.MODULES}
    assert sum(len(claims) for claims in modules.values()) == len(hlmtheory.all_claims())
    assert all(claim.id.startswith(f"{module}.") for module, claims in modules.items() for claim in claims)


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=by_id)
def test_a_claim_is_either_attained_or_refuted(claim):
    assert (claim.attained is None) != (claim.refuted is None)


@pytest.mark.parametrize("claim", hlmtheory.all_claims().values(), ids=by_id)
def test_only_what_is_printed_or_implied_is_false(claim):
    assert claim.standing == ("true" if claim.refuted is None else FALSE_STANDINGS[claim.origin])


def test_every_misprint_has_its_repair():
    known = hlmtheory.all_claims()
    assert {name for name, claim in known.items() if claim.origin is Origin.MISPRINT} == set(REPAIRS)
    assert all(known[repair].standing == "true" for repair in REPAIRS.values())


@pytest.mark.parametrize("origin", Origin)
@pytest.mark.parametrize("refuted", [None, {"left": 2.0, "right": 1.0}])
def test_the_standing_of_a_claim(origin, refuted):
    claim = toy(origin=origin, refuted=refuted)
    expected = {
        (Origin.PUBLISHED, True): "refuted",
        (Origin.MISPRINT, True): "misprint",
        (Origin.IMPLIED, True): "false reading",
        (Origin.PUBLISHED, False): "true",
        (Origin.IMPLIED, False): "true",
        (Origin.CORRECTED, False): "true",
        (Origin.NEW, False): "true",
    }.get((origin, refuted is not None))
    if expected is None:
        with pytest.raises(ValueError, match=r"^origin must fit refuted: toy\.sides is"):
            _ = claim.standing
    else:
        assert claim.standing == expected


def test_every_assumption_has_an_instance_that_breaks_it():
    assert {assumption.statement for claim in CLAIMS.values() for assumption in claim.assumptions} == set(OUTSIDE)


def test_every_argument_has_a_stray():
    assert {name for claim in CLAIMS.values() for name in claim.takes} == set(STRAYS) == set(INSIDE)


# ------------------------------------------------------------------------------------------------------ true ones


@pytest.mark.parametrize("claim", TRUE, ids=by_id)
def test_holds(claim):
    in_scope = 0

    @given(INSTANCES[claim.id])
    def no_instance_violates_it(instance):
        nonlocal in_scope
        verdict = claim.check(instance)
        in_scope += verdict.in_scope
        assert verdict.count(Status.VIOLATED) == 0, verdict

    no_instance_violates_it()
    assert in_scope > 0


@pytest.mark.parametrize("claim", TRUE, ids=by_id)
def test_holds_on_exact_rows(claim):
    """On a coarse grid no instance is ill-conditioned, so every instance in scope is decided."""
    in_scope = 0

    @given(EXACT_INSTANCES[claim.id])
    def every_instance_holds(instance):
        nonlocal in_scope
        verdict = claim.check(instance)
        in_scope += verdict.in_scope
        assert verdict.count(Status.HOLDS) == verdict.in_scope, verdict

    every_instance_holds()
    assert in_scope > 0


@pytest.mark.parametrize("claim", TRUE, ids=by_id)
def test_the_recorded_ratio_is_attained(claim):
    verdict = claim.check(claim.attained.instance)
    assert verdict.holds
    assert float(verdict.lhs / verdict.rhs) == pytest.approx(claim.attained.ratio, rel=1e-9)


@pytest.mark.parametrize("claim", TRUE, ids=by_id)
def test_a_mutant_is_caught(claim):
    for mutant in mutants(claim):
        assert mutant.check(claim.attained.instance).count(Status.VIOLATED) == 1


# ----------------------------------------------------------------------------------------------------- false ones


@pytest.mark.parametrize("claim", FALSE, ids=by_id)
def test_the_counterexample_still_refutes(claim):
    verdict = claim.check(claim.refuted)
    assert verdict.count(Status.VIOLATED) == 1
    assert not verdict.holds


@pytest.mark.parametrize("claim", FALSE, ids=by_id)
def test_a_refuted_statement_holds_where_the_models_agree(claim):
    """So the refutation is not an artefact of sides that never agree: all these formulas are right for p = q."""
    verdict = claim.check({**claim.refuted, "target": claim.refuted["draft"]})
    assert verdict.holds


@pytest.mark.parametrize("claim", FALSE, ids=by_id)
def test_a_refuted_statement_can_be_checked_on_anything(claim):
    seen = 0

    @given(INSTANCES[claim.id])
    def gives_a_verdict(instance):
        nonlocal seen
        verdict = claim.check(instance)
        seen += verdict.in_scope
        assert verdict.instances == max(1, np.prod(instance["draft"].shape[:-1], dtype=int))

    gives_a_verdict()
    assert seen > 0


# ---------------------------------------------------------------------------------------------------------- scope


@pytest.mark.parametrize(
    ("claim", "assumption"),
    [(claim, assumption) for claim in CLAIMS.values() for assumption in claim.assumptions],
    ids=lambda value: value.id if isinstance(value, Claim) else value.statement.split(":")[0],
)
def test_out_of_scope_names_the_assumption(claim, assumption):
    outside = instance_for(claim, OUTSIDE[assumption.statement])
    alone = claim.check(outside)
    assert alone.status.item() is Status.OUT_OF_SCOPE
    assert alone.broken == {assumption.statement: 1}
    assert (alone.instances, alone.in_scope, alone.holds) == (1, 0, False)
    assert np.isnan([alone.lhs, alone.rhs, alone.slack]).all()
    assert not alone.vacuous


@pytest.mark.parametrize("claim", [claim for claim in TRUE if claim.assumptions], ids=by_id)
def test_one_instance_of_a_batch_is_out_of_scope(claim):
    outside = instance_for(claim, OUTSIDE[claim.assumptions[0].statement])
    inside = {**outside, **{name: WITHIN[name] for name in WITHIN if name in outside}}
    both = claim.check({name: np.stack([inside[name], outside[name]]) for name in inside})
    assert both.status.tolist() == [Status.HOLDS, Status.OUT_OF_SCOPE]
    assert both.broken == {claim.assumptions[0].statement: 1}
    assert both.holds
    assert np.isnan(both.slack).tolist() == [False, True]


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=by_id)
def test_nothing_is_claimed_of_no_instance(claim):
    instance = instance_for(claim, INSIDE)
    empty = {name: np.zeros((0, *np.shape(value)), np.asarray(value).dtype) for name, value in instance.items()}
    verdict = claim.check(empty)
    assert (verdict.instances, verdict.in_scope, verdict.holds) == (0, 0, False)


# ------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=by_id)
def test_a_missing_array_is_named(claim):
    instance = instance_for(claim, INSIDE)
    dropped = next(iter(instance))
    del instance[dropped]
    with pytest.raises(TypeError, match=rf"{claim.id} takes .*missing \['{dropped}'\], unknown \[\]"):
        claim.check(instance)


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=by_id)
def test_an_unknown_array_is_named(claim):
    with pytest.raises(TypeError, match=rf"{claim.id} takes .*missing \[\], unknown \['logits'\]"):
        claim.check({**instance_for(claim, INSIDE), "logits": [0.0, 1.0]})


@pytest.mark.parametrize(
    ("claim", "name"), [(claim, name) for claim in CLAIMS.values() for name in claim.takes], ids=lambda v: by_id(v) or v
)
def test_a_stray_is_named(claim, name):
    with pytest.raises(ValueError, match=rf"^{name} must be "):
        claim.check({**instance_for(claim, INSIDE), name: STRAYS[name]})


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS.values() if "token" in claim.takes], ids=by_id)
def test_a_negative_token_is_no_token_from_the_end(claim):
    with pytest.raises(ValueError, match=r"^token must be "):
        claim.check({**instance_for(claim, INSIDE), "token": -1})


# ------------------------------------------------------------------------------------------------------ libraries


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=by_id)
def test_torch_and_numpy_give_one_verdict(claim):
    @given(EXACT_INSTANCES[claim.id])
    def same(instance):
        ours = claim.check(instance)
        theirs = claim.check({name: to("torch", value) for name, value in instance.items()})
        assert ours.status.tolist() == theirs.status.tolist()
        assert ours.broken == theirs.broken
        at_the_ceiling = np.abs(ours.rhs - (claim.ceiling or 0.0)) < 1e-12  # there one unit of rounding decides
        assert (at_the_ceiling | (ours.vacuous == theirs.vacuous)).all()
        for side in ("lhs", "rhs", "slack"):
            np.testing.assert_allclose(getattr(ours, side), getattr(theirs, side), rtol=1e-12, atol=1e-12)

    same()


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=by_id)
def test_any_array_library_gives_the_verdict(claim):
    instance = claim.refuted or claim.attained.instance
    verdict = claim.check({name: to("strict", value) for name, value in instance.items()})
    assert verdict.status.tolist() == claim.check(instance).status.tolist()


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


# ----------------------------------------------------------------------------------- the statuses are honest ones


def toy(relation=Relation.LE, origin=Origin.NEW, **options):
    """A claim about two given numbers."""
    return Claim(
        id="toy.sides",
        source=Source("nowhere", "(0)"),
        origin=origin,
        statement="left ≤ right",
        relation=relation,
        lhs=lambda left: left,
        rhs=lambda right: right,
        **options,
    )


def outcome(claim, left, right):
    """Return the statuses by name."""
    return [status.name for status in claim.check({"left": left, "right": right}).status.flat]


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("sides", [(np.nan, 1.0), (1.0, np.nan), (np.nan, np.nan)])
def test_nan_never_holds(relation, sides):
    assert outcome(toy(relation), *sides) == ["VIOLATED"]
    assert outcome(toy(relation, error=lambda right: 0.5), *sides) == ["VIOLATED"]
    assert outcome(toy(relation, condition=lambda right: 1e12), *sides) == ["VIOLATED"]
    assert not toy(relation, ceiling=1.0).check(dict(zip(("left", "right"), sides, strict=True))).holds


def test_infinite_sides():
    left, right = [np.inf, 1.0, np.inf, -np.inf], [np.inf, np.inf, 1.0, 1.0]
    assert outcome(toy(), left, right) == ["HOLDS", "HOLDS", "VIOLATED", "HOLDS"]
    assert outcome(toy(Relation.EQ), left, right) == ["HOLDS", "VIOLATED", "VIOLATED", "VIOLATED"]


def test_rounding_is_forgiven_and_no_more():
    assert outcome(toy(), [1.0 + UNIT, 1.0 + 3 * UNIT], [1.0, 1.0]) == ["HOLDS", "VIOLATED"]
    assert outcome(toy(Relation.EQ), [1.0 - UNIT, 1.0 - 3 * UNIT], [1.0, 1.0]) == ["HOLDS", "VIOLATED"]


def test_rounding_grows_with_the_sides_and_the_condition():
    assert outcome(toy(), [1e6 + 1e6 * UNIT], [1e6]) == ["HOLDS"]
    assert outcome(toy(condition=lambda right: 100 * right), [1.0 + 50 * UNIT], [1.0]) == ["HOLDS"]


def test_an_estimated_side_that_straddles_decides_nothing():
    claim = toy(error=lambda right: 0.1 * right)
    assert outcome(claim, [0.8, 0.95, 1.05, 1.2], [1.0] * 4) == ["HOLDS", "INCONCLUSIVE", "INCONCLUSIVE", "VIOLATED"]
    assert not claim.check({"left": [0.8, 0.95], "right": [1.0, 1.0]}).holds
    assert claim.check({"left": [0.8, 0.7], "right": [1.0, 1.0]}).holds


def test_an_estimated_equality_is_at_best_undecided():
    claim = toy(Relation.EQ, error=lambda right: 0.1 * right)
    assert outcome(claim, [1.0, 0.95, 1.2], [1.0] * 3) == ["INCONCLUSIVE", "INCONCLUSIVE", "VIOLATED"]


def test_an_interval_is_asked_of_each_instance():
    claim = toy(error=lambda right: np.asarray([0.0, 0.1]))
    assert outcome(claim, [1.0, 1.0], [1.0, 1.0]) == ["HOLDS", "INCONCLUSIVE"]


@pytest.mark.parametrize("relation", Relation)
def test_a_tolerance_too_coarse_decides_nothing(relation):
    claim = toy(relation, condition=lambda right: 2 * COARSE / UNIT * right)
    assert outcome(claim, [1.0 + COARSE], [1.0]) == ["INCONCLUSIVE"]
    assert outcome(claim, [1.0 + 4 * COARSE], [1.0]) == ["VIOLATED"]
    assert outcome(toy(relation, condition=lambda right: np.inf * right), [5.0], [1.0]) == ["INCONCLUSIVE"]


def test_a_one_sided_claim_holds_with_room_to_spare_however_coarse():
    assert outcome(toy(condition=lambda right: np.inf * right), [0.5, 1.0], [1.0, 1.0]) == ["HOLDS", "HOLDS"]


def test_vacuous_is_a_flag_of_its_own():
    verdict = toy(ceiling=1.0).check({"left": [0.5, 0.5, 0.5, 2.0], "right": [0.9, 1.0, np.inf, 1.5]})
    assert verdict.vacuous.tolist() == [False, True, True, True]
    assert [status.name for status in verdict.status] == ["HOLDS", "HOLDS", "HOLDS", "VIOLATED"]
    assert not toy().check({"left": [0.5], "right": [np.inf]}).vacuous.any()


def test_vacuous_needs_scope():
    claim = toy(ceiling=1.0, assumptions=(Assumption("right is finite", lambda right: np.isfinite(right)),))
    verdict = claim.check({"left": [0.5, 0.5], "right": [np.inf, 1.0]})
    assert verdict.vacuous.tolist() == [False, True]
    assert verdict.broken == {"right is finite": 1}


def test_slack_is_the_distance_from_failing():
    assert toy().check({"left": [0.25, 1.5], "right": [1.0, 1.0]}).slack.tolist() == [0.75, -0.5]
    assert toy(Relation.EQ).check({"left": [0.75, 1.5], "right": [1.0, 1.0]}).slack.tolist() == [-0.25, -0.5]


def test_two_broken_assumptions_are_both_counted():
    assumptions = (
        Assumption("left is positive", lambda left: left > 0),
        Assumption("right is positive", lambda right: right > 0),
    )
    verdict = toy(assumptions=assumptions).check({"left": [-1.0, -1.0, 1.0], "right": [-1.0, 1.0, 1.0]})
    assert verdict.broken == {"left is positive": 2, "right is positive": 1}
    assert (verdict.instances, verdict.in_scope, verdict.holds) == (3, 1, True)


def test_sides_broadcast_to_the_batch():
    verdict = toy().check({"left": [[0.5], [2.0]], "right": [1.0, 3.0, 0.0]})
    assert verdict.status.shape == verdict.lhs.shape == verdict.rhs.shape == verdict.slack.shape == (2, 3)
    assert (verdict.count(Status.HOLDS), verdict.count(Status.VIOLATED)) == (3, 3)


# ----------------------------------------------------------------------------------------------------------- proofs


@pytest.mark.parametrize("claim", hlmtheory.all_claims().values(), ids=by_id)
def test_every_claim_says_where_its_proof_stands(claim):
    module, name = claim.id.split(".")
    proof = claim.proof
    lines = (Path(hlmtheory.__file__).parents[1] / proof.file).read_text(encoding="utf-8").splitlines()
    assert proof.file.startswith(f"hlmtheory/{module}/")
    assert re.search(rf"\b{name}\b", lines[proof.line - 1].split(". ")[0])
    assert proof.text


def test_every_proof_is_of_a_claim_and_no_claim_has_two():
    written = [
        f"{module}.{name}"
        for module in hlmtheory.MODULES
        for file in (Path(hlmtheory.__file__).parent / module).rglob("*.py")
        for names in re.findall(r"^# ([a-z]\w*(?:, [a-z]\w*)*)\. ", file.read_text(encoding="utf-8"), re.MULTILINE)
        for name in names.split(", ")
    ]
    assert sorted(written) == sorted(hlmtheory.all_claims())


def test_a_claim_without_a_proof_says_how_to_write_one():
    with pytest.raises(ValueError, match=r"^id must have a proof in hlmtheory/toy; got 'toy.claim'; add # claim"):
        _ = replace(toy(), id="toy.claim").proof
