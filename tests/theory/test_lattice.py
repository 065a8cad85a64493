"""Quantised drafts: exact counts, bounds that are reached, bits, budgets, and output with the target model's law."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hlmtheory
from hlmtheory import codec, lattice, wire
from hlmtheory._domains import tree_levels
from hlmtheory.lattice.arithmetic import LARGEST_RESOLUTION
from hlmtheory.verification import total_variation

from .public import theory
from .strategies import pairs, shapes, with_size

RESOLUTIONS = st.one_of(st.integers(1, 8), st.integers(1, 200), st.just(2**24))


@st.composite
def drafts(draw, **more):
    instance = draw(with_size(pairs()))
    del instance["target"]
    batch = instance["draft"].shape[:-1]
    return instance | {
        name: draw(hnp.arrays(np.float64 if name == "budget_bits" else np.int64, batch, elements=element))
        for name, element in more.items()
    }


@st.composite
def payloads(draw):
    shape = draw(shapes())
    size = draw(hnp.arrays(np.int64, shape, elements=st.one_of(st.integers(1, 40), st.integers(1, 150_000))))
    share = draw(hnp.arrays(np.float64, shape, elements=st.floats(0.0, 1.0)))
    k = np.minimum(1 + np.floor(share * size), np.minimum(size, 2000)).astype(np.int64)
    return {"vocabulary": size, "k": k, "resolution": draw(hnp.arrays(np.int64, shape, elements=RESOLUTIONS))}


TREE = {"targets": [[0.5, 0.5]], "drafts": [[1.0, 0.0]], "k": 2, "resolution": 3, "draft_length": 1}


def algorithm_2(row, resolution):
    """Alg. 2 of c-sqs on a renormalised row, line by line; ties by index."""
    b = [math.floor(resolution * x + 0.5) for x in row]
    zeta = [count - resolution * x for count, x in zip(b, row, strict=True)]
    extra = sum(b) - resolution
    order = sorted(range(len(row)), key=lambda i: zeta[i])
    for i in order[len(row) - extra :] if extra > 0 else order[: -extra or None] if extra < 0 else []:
        b[i] -= 1 if extra > 0 else -1
    return b


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 60))
def test_the_counts_are_those_of_algorithm_2(seed, size, resolution):
    row = np.random.default_rng(seed).dirichlet([0.5] * size) * 0.999 + 0.001 / size
    row /= row.sum()
    ours = lattice.quantize(row, support=row > 0, resolution=resolution)
    theirs = algorithm_2(row.tolist(), resolution)
    assert ours.sum() == sum(theirs) == resolution
    apart = np.abs(ours / resolution - row).sum() - np.abs(np.array(theirs) / resolution - row).sum()
    assert apart == pytest.approx(0.0, abs=1e-12)


@given(drafts(resolution=RESOLUTIONS))
def test_the_counts_sum_to_the_resolution(instance):
    draft, k, resolution = instance["draft"], instance["k"], instance["resolution"]
    k = np.clip(k, 1, np.count_nonzero(draft > 0, axis=-1))
    support = lattice.top_support(draft, k)
    counts = lattice.quantize(draft, support=support, resolution=resolution)
    assert counts.dtype == np.int64
    assert (counts.sum(-1) == resolution).all()
    assert (support.sum(-1) == k).all()
    assert ((counts >= 0) & (support | (counts == 0))).all()
    dropped = theory.dropped_mass(draft, support=support)
    np.testing.assert_allclose(dropped, np.where(support, 0.0, draft).sum(-1), atol=1e-15)


def test_ties_go_to_the_lowest_index():
    assert lattice.top_support([0.25] * 4, 2).tolist() == [True, True, False, False]
    assert lattice.quantize([0.25] * 4, support=[True] * 4, resolution=2).tolist() == [1, 1, 0, 0]
    assert lattice.quantize([0.25] * 4, support=[False, True, True, True], resolution=4).tolist() == [0, 2, 1, 1]


def test_the_sharp_bound_is_attained_for_every_size_and_resolution():
    for size, resolution in itertools.product(range(1, 12), range(1, 15)):
        up = min(resolution, size // 2)
        draft = np.full(size, up / size / resolution)
        draft[0] += (resolution - up) / resolution
        if up == 0:
            assert float(theory.distortion_bound_sharp(size, resolution)) == 0.0
            continue
        counts = lattice.quantize(draft, support=draft > 0, resolution=resolution)
        apart = float(total_variation(counts / resolution, draft))
        assert apart == pytest.approx(float(theory.distortion_bound_sharp(size, resolution)), rel=1e-12)
        assert apart < 1.0


@given(payloads(), st.booleans())
def test_the_bits_are_exact_to_a_billionth(instance, adaptive):
    bits = lattice.payload_bits(*instance.values(), adaptive=adaptive)
    host = np.broadcast_arrays(*instance.values())
    exact = np.vectorize(lambda v, k, n: theory.exact_payload_bits(int(v), int(k), int(n), adaptive=adaptive))(*host)
    np.testing.assert_allclose(bits, exact, rtol=0, atol=1e-9)


def test_bits_are_exact_up_to_a_length_and_refused_beyond():
    """Up to this length the binomials take less than a second for any V and K; K = V = 2^62 is short."""
    assert theory.exact_payload_bits(2**62, 2**62, 1) == 62.0
    assert theory.exact_payload_bits(262_000, 131_000, 1) == pytest.approx(
        float(lattice.payload_bits(262_000, 131_000, 1)), abs=1e-9
    )
    message = (
        r"^top_k must give a payload of at most 262,144 bits; got 262144, .* with 1\.9.*e\+06 bits; take payload_bits"
    )
    with pytest.raises(ValueError, match=message):
        theory.exact_payload_bits(2**18, 2**18, 2**24)


def brute_force(draft, budget, adaptive):
    best = math.inf
    ordered = sorted(draft, reverse=True)
    size_bits = (len(draft) - 1).bit_length() if adaptive else 0
    for k in range(1, sum(x > 0 for x in draft) + 1):
        for resolution in range(1, 2 if k == 1 else 2**12):
            points = math.comb(len(draft), k) * math.comb(resolution + k - 1, k - 1)
            if math.log2(points) + size_bits > budget + 1e-9:
                break
            up = min(resolution, k // 2)
            best = min(best, sum(ordered[k:]) + up * (k - up) / (k * resolution))
    return best


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 20), st.booleans())
def test_nothing_within_the_budget_is_better(seed, size, quarters, adaptive):
    draft = np.random.default_rng(seed).dirichlet([0.4] * size)
    found = lattice.allocate(draft, quarters / 4 + 6, adaptive=adaptive)
    best = brute_force(draft.tolist(), quarters / 4 + 6, adaptive)
    assert float(found.distortion) == pytest.approx(best, abs=1e-12)
    assert float(found.bits) <= quarters / 4 + 6 + 1e-9
    support = lattice.top_support(draft, found.k)
    q_hat = lattice.quantize(draft, support=support, resolution=found.resolution) / float(found.resolution)
    assert float(total_variation(draft, q_hat)) <= float(found.distortion) + 1e-12


def test_a_tree_that_is_not_whole_is_refused():
    claim = next(claim for claim in hlmtheory.all_claims().values() if claim.id == "lattice.rejections")
    with pytest.raises(ValueError, match=r"targets must be a whole tree of rows; got shape \(2, 2\); give 1 \+ V"):
        claim.check(TREE | {"targets": [[0.5, 0.5]] * 2, "drafts": [[0.5, 0.5]] * 2})
    with pytest.raises(ValueError, match=r"targets must be a whole tree of rows; got shape \(2,\); give 1 \+ V"):
        tree_levels("targets", np.array([0.5, 0.5]))


@pytest.mark.parametrize("budget", [60.0, 500.0, 5000.0])
@pytest.mark.parametrize("draft", [[0.63, 0.37], [0.5, 0.3, 0.2], [1.0]])
def test_what_is_allocated_can_be_sent(draft, budget):
    """Two tokens of 32,000 with 500 bits once got ℓ = 2^31 - 1, which the codec refuses."""
    row = np.concatenate([draft, np.zeros(32_000 - len(draft))])
    found = lattice.allocate(row, budget)
    assert 1 <= int(found.resolution) <= LARGEST_RESOLUTION
    support = lattice.top_support(row, found.k)
    counts = lattice.quantize(row, support=support, resolution=found.resolution)
    message = wire.LatticeMessage(32_000, (theory.LatticeDraft(np.flatnonzero(support), counts[support], 0),))
    assert codec.decode(codec.encode(message)) == message
    assert total_variation(counts / found.resolution, row) <= found.distortion
