"""Drafts by a shared seed: the stream's bits, probabilities of a match, lists, and the rate of continuous drafting."""

import math
import re
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hlmtheory import all_claims, shared_seed
from hlmtheory.claims import Status
from hlmtheory.shared_seed import stream
from hlmtheory.shared_seed.match import match_floor
from hlmtheory.sides import shared_seed_sides as sides

from .kinds import LIBRARIES, to
from .public import theory
from .strategies import grid_pairs

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
SOURCE = Path(__file__).with_name("shared_stream.c")


def number(seed, position, token, library="numpy"):
    return float(theory.exponentials(to(library, seed), to(library, position), token + 1)[..., -1])


def test_the_generator_gives_the_known_answers_of_its_authors():
    """The test vectors of Random123, for a key and a counter of zeros, ones, and digits of π."""
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    vectors = {
        (0, (0, 0, 0, 0)): "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
        (-1, (0xFFFFFFFF,) * 4): "408f276d 41c83b0e a20bc7c6 6d5451fd",
        (0x299F31D0A4093822, pi): "d16cfe09 94fdcceb 5001e420 24126ea1",
    }
    for (key, counter), expected in vectors.items():
        words = stream._philox(np.array([key]), tuple(np.array([word]) for word in counter))
        assert " ".join(f"{int(word[0]):08x}" for word in words) == expected


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_vectors_of_the_documentation_are_those_of_every_library(library):
    lines = re.findall(r"^(\S[0-9^ +-]*?) {1,}([0-9^]+(?: \+ 5)?) +(\d+) +(0x1\S+)$", shared_seed.__doc__, re.MULTILINE)
    assert len(lines) == 5
    for seed, position, token, expected in lines:
        whole = [sum(eval(part.replace("^", "**")) for part in value.split(" + ")) for value in (seed, position)]
        assert number(*whole, int(token), library).hex() == expected


@pytest.mark.skipif(COMPILER is None, reason="no C compiler is installed")
@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_a_program_in_c_gives_the_same_bits(tmp_path, level):
    command = [COMPILER, level, "-std=c99", "-Wall", "-Werror", "-ffp-contract=off", str(SOURCE), "-o", "stream"]
    subprocess.run([word for word in command if COMPILER], cwd=tmp_path, check=True)
    rng = np.random.default_rng(5)
    places = np.stack([rng.integers(2**63, size=12), rng.integers(2 ** np.arange(1, 63, 5)[:12])], axis=-1)
    given = [(*place, token) for place in places.tolist() for token in (*range(40), 150_001)]
    lines = "\n".join(" ".join(map(str, one)) for one in given)
    done = subprocess.run([tmp_path / "stream"], input=lines, capture_output=True, text=True, check=True)
    theirs = np.array([float.fromhex(line) for line in done.stdout.split()]).reshape(12, -1)
    ours = theory.exponentials(places[:, 0], places[:, 1], 150_002)
    np.testing.assert_array_equal(theirs, ours[:, [*range(40), 150_001]])


@given(st.integers(0, 2**52 - 1))
def test_the_logarithm_is_right_to_three_units(n):
    u = (2 * n + 1) * 2.0**-53
    found = float(stream._negative_log(np, np.array([u]))[0])
    assert found == pytest.approx(-math.log(u), rel=7e-16)
    assert found > 0


def test_a_number_depends_on_its_seed_position_and_token_alone():
    one = theory.exponentials([3, 3, 4], [7, 8, 7], 9)
    assert len(np.unique(one)) == one.size
    np.testing.assert_array_equal(theory.exponentials(3, 7, 2), one[0, :2])
    np.testing.assert_array_equal(theory.exponentials(4, 7, 9), one[2])


def test_the_numbers_are_exponential_and_independent():
    values = theory.exponentials(11, np.arange(5000), 20)
    assert stats.kstest(values.ravel(), "expon").pvalue > 1e-4
    for other in (values[:, 1:], values[1:, :]):
        same = values[:, :-1] if other.shape[1] < 20 else values[:-1]
        assert abs(np.corrcoef(same.ravel(), other.ravel())[0, 1]) < 0.015


def test_prompts_have_streams_of_their_own():
    assert len({int(shared_seed.stream_key(seed, prompt)) for seed in range(20) for prompt in range(20)}) == 400
    first, second = shared_seed.stream_key(1, [3892515147486453854, 6810560883223120056])
    assert first == second  # 63 bits are finite: one of the rare pairs
    assert shared_seed.stream_key([1, 2], 3).tolist() == [int(shared_seed.stream_key(seed, 3)) for seed in (1, 2)]


def test_equal_times_go_to_the_lowest_token(monkeypatch):
    monkeypatch.setattr(stream, "_exponentials", lambda xp, *_: xp.asarray([2.0, 1.0, 1.0, 4.0]))
    assert int(shared_seed.race_winner([0.5, 0.25, 0.25, 0.0], 1, 1)) == 0
    assert shared_seed.race_list([0.25, 0.25, 0.25, 0.25], 1, 1, 4).tolist() == [1, 2, 0, 3]
    assert shared_seed.race_list([0.0, 0.5, 0.5, 0.0], 1, 1, 4).tolist() == [1, 2, 0, 3]


def test_a_row_whose_sum_is_nearly_one_is_raced_as_it_is():
    row = np.array([0.5, 0.25, 0.25])
    for off in (1 - 1e-7, 1 + 1e-7):
        np.testing.assert_array_equal(theory.race(row * off, 3, 4), theory.exponentials(3, 4, 3) / (row * off))
    assert int(shared_seed.race_winner([1.0], 5, 2**40)) == 0


@pytest.mark.parametrize("seed", range(4))
def test_the_law_with_skips_is_that_of_the_stream(seed):
    rng, draws = np.random.default_rng(seed), 40_000
    p, q, skip = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4)), rng.random(4)
    numbers_of = theory.exponentials(5 + seed, np.arange(draws), 4)
    drafted, own = (numbers_of / q).argmin(axis=-1), (numbers_of / p).argmin(axis=-1)
    kept = rng.random(draws) < skip[drafted]
    error = 4 * math.sqrt(0.25 / draws)
    assert np.mean(kept & (drafted != own)) == pytest.approx(float(shared_seed.skip_mismatch(p, q, skip)), abs=error)
    law = np.bincount(np.where(kept, drafted, own), minlength=4) / draws
    far = float(sides.skipped_distance(p, q, skip))
    assert 0.5 * np.abs(law - p).sum() == pytest.approx(far, abs=4 * error)


def exact_match(p, q):
    tokens = [v for v in range(len(p)) if p[v] > 0 and q[v] > 0]
    return sum(1 / sum(max(y / q[v], x / p[v]) for x, y in zip(p, q, strict=True)) for v in tokens)


@given(grid_pairs())
def test_the_match_is_that_of_fractions(instance):
    found = np.asarray(shared_seed.match_probability(**instance)).reshape(-1)
    size = instance["draft"].shape[-1]
    flat = [instance[name].reshape(-1, size) for name in ("target", "draft")]
    for value, p, q in zip(found, *flat, strict=True):
        exact = [[Fraction(x) for x in row.tolist()] for row in (p, q)]
        assert value == pytest.approx(float(exact_match(*exact)), abs=1e-12)


def test_matches_at_the_edges():
    assert float(shared_seed.match_probability([1.0], [1.0])) == 1.0
    assert float(shared_seed.match_probability([1.0, 0.0], [0.0, 1.0])) == 0.0
    assert float(shared_seed.match_probability([0.5, 0.5, 0.0], [0.0, 0.5, 0.5])) == pytest.approx(1 / 3)
    tiny = [1.0, 5e-324, 1e-310]
    assert float(shared_seed.match_probability(tiny, tiny)) == 1.0
    assert float(shared_seed.match_probability(tiny, [5e-324, 1.0, 0.0])) == pytest.approx(0.0, abs=1e-300)


def test_matches_of_a_wide_vocabulary_are_exact():
    p, q = np.random.default_rng(4).gamma(0.1, size=(2, 3000)) + 1e-12
    p, q = p / math.fsum(p), q / math.fsum(q)
    least = np.minimum(p, q)
    slow = [least[v] / math.fsum(np.maximum(q * (least[v] / q[v]), p * (least[v] / p[v]))) for v in range(3000)]
    assert float(shared_seed.match_probability(p, q)) == pytest.approx(math.fsum(slow), abs=1e-12)


def test_matches_and_lists_are_those_of_the_stream():
    p, q = np.array([0.5, 0.25, 0.15, 0.1]), np.array([0.2, 0.4, 0.1, 0.3])
    draws = np.arange(40_000)
    winners = shared_seed.race_winner(p, 3, draws)
    candidates = shared_seed.race_list(q, 3, draws, 3)
    for size in (1, 2, 3):
        mean = float(theory.list_match_probability(p, q, size))
        seen = np.count_nonzero((candidates[:, :size] == winners[:, None]).any(axis=-1))
        assert stats.binomtest(int(seen), len(draws), mean).pvalue > 1e-4
    assert float(theory.list_match_probability(p, q, 1)) == pytest.approx(
        float(shared_seed.match_probability(p, q)), abs=1e-13
    )
    assert float(theory.list_match_probability(p, q, 4)) == pytest.approx(1.0, abs=1e-13)


def test_the_rules_of_engines():
    rules = theory.match_rules([[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]], [[0.25, 0.5, 0.25], [0.5, 0.5, 0.0]])
    np.testing.assert_allclose(rules.greedy_draft, [0.25, 0.5])
    np.testing.assert_allclose(rules.apart, [0.3125, 0.5])
    np.testing.assert_allclose(rules.both_greedy, [0.0, 1.0])
    np.testing.assert_allclose(rules.shared_seed, [0.7, 1.0])
    np.testing.assert_allclose(rules.rejection, [0.75, 1.0])


def test_times_in_milliseconds_have_the_rate_of_the_simulation():
    """Quotients of small whole numbers among them, such as 30 and 12 ms, which no binary number is exactly."""
    draft, verify = (row.ravel() / 1000 for row in np.meshgrid(np.arange(1, 55), np.arange(10, 101, 10)))
    values = {"acceptance": 0.675, "draft_time": draft, "round_trip": 0.02, "verify_time": verify}
    assert all_claims()["shared_seed.streamed"].check(values).count(Status.HOLDS) == 540


def test_the_floor_of_equal_laws_is_one():
    assert float(match_floor(0.0)) == 1.0


@pytest.mark.parametrize(("draft", "verify"), [(0.012, 0.03), (0.01, 0.03), (0.02, 0.03), (0.007, 0.049)])
def test_the_rate_at_a_jump_is_the_lower_side(draft, verify):
    faster, there, slower = (
        float(shared_seed.streamed_rate(0.675, time, 0.02, verify).rate)
        for time in (draft - 1e-12, draft, draft + 1e-12)
    )
    assert there == pytest.approx(slower, rel=1e-9)
    assert faster > 1.005 * there
