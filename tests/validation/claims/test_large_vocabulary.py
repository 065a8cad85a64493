"""The measured claims on rows like a language model's: a few large entries and many tiny ones (10⁵ with ``--deep``)."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import hlmtheory
from hlmtheory._remember import freeze, remembering
from hlmtheory.claims import Claim, Instance, Relation, Status, Verdict
from tests.scaled import scaled
from validation.claims.instances import InstanceDraws, measured, row_arrays, windows
from validation.trace.reader import TraceChunk

Array = np.ndarray
TRUE = [claim for claim in measured(hlmtheory.all_claims()).values() if claim.refuted is None]
CASES = [(4096, "float16", 0.3), (32_768, "float32", 1.0), (262_144, "bfloat16", 1.0)]


def shapes(rng: np.random.Generator, size: int) -> list[tuple[Array, Array]]:
    """Return log-probabilities of draft and target up to a constant, from one-hot to uniform, near and far."""
    rank = rng.permutation(size) + 1.0
    zipf, gauss, noise = -np.log(rank), rng.normal(size=size), rng.normal(size=size)
    top, flat = np.where(rank == 1, 0.0, -2e3), np.zeros(size)
    likely = -3.0 * np.log(rank) + 0.5 * gauss
    heavy = np.where(rank <= 5, 8.0 + gauss, 2.0 * gauss - 6.0)
    return [
        (likely, likely + 0.3 * noise),
        (zipf + gauss, zipf + gauss + 1.5 * noise),
        (heavy, 0.8 * heavy + noise),
        (likely, likely + 1e-6 * noise),
        (zipf, zipf),
        (top, likely),
        (likely, top),
        (top, np.roll(top, 1)),
        (0.2 * gauss, zipf + noise),
        (np.where(rank <= 50, zipf, -2e3), zipf + noise),
        (flat, top),
        (top, np.where(rank <= 2, 2e-4 * noise, -30.0)),
    ]


def in_type(values: Array, name: str) -> Array:
    if name != "bfloat16":
        return values.astype(name)
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)


def chunk(size: int, kind: str, temperature: float) -> TraceChunk:
    pairs = shapes(np.random.default_rng(size), size)
    draft, target = (in_type(np.stack(rows) / temperature, kind) for rows in zip(*pairs, strict=True))
    place = np.arange(len(pairs), dtype=np.int32)
    return TraceChunk(draft, target, place, np.zeros_like(place), place)


def instances(size: int, kind: str, temperature: float) -> Iterator[dict[str, Array]]:
    """Yield the instances of one position each, as the check builds them, half with few entries sent; windows last."""
    whole, rng = chunk(size, kind, temperature), np.random.default_rng(size)
    count = len(whole.position)
    draws = [InstanceDraws.of(rng, count, size) for _ in range(2)]
    draws[1] = replace(draws[1], k=np.arange(count) % 3)
    rates = []
    for row, draw in product(range(count), draws):
        arrays = row_arrays(whole[row : row + 1], draw[row : row + 1])
        rates.append(arrays["acceptance"])
        freeze(tuple(arrays.values()))
        yield arrays
    yield {"acceptances": windows(np.concatenate(rates[::2]), whole)}


def mutants(claim: Claim, verdict: Verdict) -> Iterator[Claim]:
    measured_ratio = float(verdict.lhs[0] / verdict.rhs[0])
    factors = (1 - 1e-6, 1 + 1e-6) if claim.relation is Relation.EQ else (measured_ratio * (1 - 1e-6),)
    for factor in factors:
        yield scaled(claim, factor)


def outcomes(given: Iterator[Instance]) -> tuple[dict[str, Counter[str]], dict[str, int], list[str]]:
    statuses: dict[str, Counter[str]] = {claim.id: Counter() for claim in TRUE}
    caught = dict.fromkeys(statuses, 0)
    violated = []
    for number, arrays in enumerate(given):
        with remembering():
            for claim in TRUE:
                if not set(claim.takes) <= set(arrays):
                    continue
                values = {name: arrays[name] for name in claim.takes}
                verdict = claim.check(values)
                statuses[claim.id] += Counter(status.name for status in verdict.status)
                if verdict.count(Status.VIOLATED):
                    violated.append(f"{claim.id} on instance {number}: {verdict.slack}")
                decided = verdict.status[0] is Status.HOLDS and 0 < verdict.rhs[0] < np.inf
                if decided and not caught[claim.id]:
                    caught[claim.id] += all(m.check(values).count(Status.VIOLATED) for m in mutants(claim, verdict))
    return statuses, caught, violated


@pytest.mark.parametrize(("size", "kind", "temperature"), CASES)
def test_rounding_violates_nothing_and_hides_no_millionth(size, kind, temperature):
    statuses, caught, violated = outcomes(instances(size, kind, temperature))
    print(
        size,
        kind,
        temperature,
        dict(sum(statuses.values(), Counter())),
        sum(caught.values()),
        "claims whose mutants are caught",
    )
    assert not violated
    assert not [name for name, found in statuses.items() if found["HOLDS"] and not caught[name]]
