"""Strategies for property tests: rows and batches of rows with ties, zeros, one-hot rows and subnormal entries."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hlmtheory import _samplers, all_claims
from hlmtheory.arguments import instance
from hlmtheory.claims import Claim

Instance = dict[str, Any]
Strategy = st.SearchStrategy[Any]

SHAPES = ((), (1,), (3,), (2, 2))
"""Leading dimensions of a batch."""


def shapes() -> Strategy:
    return st.sampled_from(SHAPES)


def vocabularies(least: int = 1) -> Strategy:
    """V: mostly small, so that every coincidence occurs; sometimes wide."""
    return st.one_of(st.integers(least, 3), st.integers(least, 12), st.integers(least, 12), st.just(200))


def seeded(make: Callable[[np.random.Generator], Any]) -> Strategy:
    return st.integers(0, 2**32 - 1).map(lambda seed: make(np.random.default_rng(seed)))


def grid_rows(shape: tuple[int, ...], size: int) -> Strategy:
    """Multiples of 1/4, 1/16 or 1/64: exact in every type, with ties, zeros and one-hot rows."""
    return seeded(lambda rng: _samplers.grid(rng, (*shape, size)))


def rows(shape: tuple[int, ...], size: int) -> Strategy:
    return seeded(lambda rng: _samplers.rows(rng, (*shape, size)))


@st.composite
def pairs(draw: st.DrawFn) -> Instance:
    """A batch of target and draft rows: any two, equal, disjoint, nearly equal, or flattened."""
    draft = draw(rows(draw(shapes()), draw(vocabularies())))
    return {"target": draw(seeded(lambda rng: _samplers.near(rng, draft))), "draft": draft}


@st.composite
def grid_pairs(draw: st.DrawFn) -> Instance:
    """A batch of pairs on a coarse grid: their arithmetic is exact, so that 0 is 0 in every library."""
    shape, size = draw(shapes()), draw(st.integers(1, 8))
    draft = draw(grid_rows(shape, size))
    target = draft if draw(st.integers(0, 4)) == 0 else draw(grid_rows(shape, size))
    return {"target": target, "draft": draft}


def _integers(draw: st.DrawFn, shape: tuple[int, ...], largest: int) -> np.ndarray:
    return draw(hnp.arrays(np.int64, shape, elements=st.integers(0, largest)))


@st.composite
def with_size(draw: st.DrawFn, source: Strategy) -> Instance:
    instance = draw(source)
    draft = instance["draft"]
    return {**instance, "k": _integers(draw, draft.shape[:-1], draft.shape[-1])}


@st.composite
def with_sizes(draw: st.DrawFn, source: Strategy) -> Instance:
    instance = draw(source)
    draft = instance["draft"]
    if draft.shape[-1] > 12:
        return {**instance, "top_k": np.argsort(draft, axis=-1)}
    return {**instance, "top_k": _integers(draw, draft.shape, draft.shape[-1])}


def acceptances() -> Strategy:
    edges = st.sampled_from((0.0, 5e-324, 1e-12, 0.5, 1 - 1e-12, 1 - 2**-53, 1.0))
    return st.one_of(edges, st.integers(0, 8).map(lambda n: n / 8), st.floats(0.0, 1.0))


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


def drawn(claim: Claim | str) -> Strategy:
    record = all_claims()[claim] if isinstance(claim, str) else claim
    few = (3,) if record.id.startswith(("policy", "batching", "verification.interval")) else (20,)
    return st.builds(
        lambda seed, batch: instance(record, np.random.default_rng(seed), batch),
        st.integers(0, 2**32 - 1),
        st.sampled_from(((), (1,), (3,), (2, 2), few)),
    )
