"""What intervals decide about a claim is what the claim says on the true distributions."""

from typing import Any

import numpy as np
import pytest

from hlmtheory import all_claims
from hlmtheory.claims import Status
from hlmtheory.verification import softmax
from validation.claims.interval_claims import SIDES, Shared, check_known, known_lists, known_rows
from validation.collection.top_k import Lists, Rounding
from validation.trace.reader import TraceChunk

V, N = 40, 60


def pair(seed: int, scale: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.normal(0, scale, (N, V))
    return softmax(z), softmax(z + rng.normal(0, 1.0, z.shape))


def listed(p: np.ndarray, q: np.ndarray, k: int, dtype: Any = np.float64) -> Lists:
    order, order_q = np.argsort(-p, axis=1)[:, :k], np.argsort(-q, axis=1)[:, :k]
    values = [np.log(np.take_along_axis(row, at, 1)).astype(dtype) for row, at in ((p, order), (q, order_q))]
    rounding = Rounding() if dtype == np.float64 else Rounding(1e-7, 2.0**-11)
    return Lists(order_q, values[1].astype(float), order, values[0].astype(float), V, rounding, rounding)


def stored_rows(p: np.ndarray, q: np.ndarray) -> tuple[TraceChunk, dict[str, Rounding]]:
    """Rows as llama.cpp stores them: 16 bits over 16 nats."""
    step = 16 / 65535
    rows = []
    for row in (q, p):
        log = np.log(row)
        floor = log.max(axis=1, keepdims=True) - 16
        rows.append(np.maximum(np.float32(floor + np.round((log - floor) / step) * step), np.float32(floor)))
    index = np.zeros(N, np.int32)
    rounding = Rounding(0.51 * step, floored=True)
    return TraceChunk(*rows, index, index, index), {"draft": rounding, "target": rounding}


CASES = [(name, "exact", k) for name in SIDES for k in (3, 12, V)]
CASES += [(name, kind, k) for name in SIDES for kind, k in (("float16", 12), ("rows", V))]


@pytest.mark.parametrize(("name", "kind", "k"), CASES)
def test_a_decision_is_that_on_the_true_rows(name, kind, k):
    for seed, scale in ((0, 1.0), (1, 3.0), (2, 8.0)):
        p, q = pair(seed, scale)
        rng = np.random.default_rng(seed)
        if kind == "rows":
            known = known_rows(*stored_rows(p, q), rng)
        else:
            known = known_lists(listed(p, q, k, np.float64 if kind == "exact" else np.float16), rng)
        claim = all_claims()[name]
        (found,) = check_known([claim], Shared(known))
        given = {"target": p, "draft": q, "k": known.k}
        true = claim.check({argument: given[argument] for argument in claim.takes})
        decided = (found.status == Status.HOLDS) | (found.status == Status.VIOLATED)
        in_scope = true.status != Status.OUT_OF_SCOPE
        assert (found.status[decided & in_scope] == true.status[decided & in_scope]).all()
        assert (found.lhs[decided] >= true.lhs[decided] - 1e-9)[found.status[decided] == Status.HOLDS].all()


@pytest.mark.parametrize("name", sorted(SIDES))
def test_something_is_decided(name):
    """Of long lists; a table that leaves everything open would pass the test above."""
    p, q = pair(1)
    (found,) = check_known([all_claims()[name]], Shared(known_lists(listed(p, q, 30), np.random.default_rng(3))))
    assert found.count(Status.HOLDS) + found.count(Status.VIOLATED) > N // 10, name


@pytest.mark.parametrize("name", ["truncation.certificate", "skipping.mean_rejection", "truncation.monotone"])
def test_a_claim_that_is_false_is_not_confirmed(name, monkeypatch):
    """The right side is shrunk a hundredfold: on lists of every token the claim must then fail."""
    p, q = pair(1)
    known = known_lists(listed(p, q, V), np.random.default_rng(3))
    sides = SIDES[name]

    def shrunk(found):
        lhs, rhs, inside = sides(found)
        return lhs, type(rhs)(0.01 * rhs.lower, 0.01 * rhs.upper), inside

    monkeypatch.setitem(SIDES, name, shrunk)
    (found,) = check_known([all_claims()[name]], Shared(known))
    assert found.count(Status.VIOLATED) > N // 4


def test_every_claim_of_the_table_exists_and_is_an_inequality():
    assert all(all_claims()[name].relation.value == "≤" for name in SIDES)
