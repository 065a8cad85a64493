"""The cheapest certified codec of a row: against all of the menu, in the bytes that are sent, and over a text."""

import dataclasses
import math
from bisect import bisect_right
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hlmtheory import codec, wire
from hlmtheory._simplex import canonical
from hlmtheory.codec.enumerative import MOST_STEPS
from hlmtheory.codec.frame import fixed, framed, gamma, unframed
from hlmtheory.codec.menu import KIND_BITS, number_bits, steps_of_row
from hlmtheory.codec.messages import KINDS, MixedDraft
from hlmtheory.codec.mixed import message_bytes
from hlmtheory.codec.reachable import written
from hlmtheory.codec.rounding import Bounds, SortedRow, least_distance, rounding, units_of

from .strategies import rows as any_rows

TOLERANCES = st.one_of(st.sampled_from((0.01, 0.05, 0.2, 0.5, 1.0, 2.0)), st.floats(1e-3, 2.0))


def gap(q, rebuilt):
    return sum(abs(a - b) for a, b in zip(q, rebuilt, strict=True))


def compositions(total, parts):
    for bars in combinations(range(total + parts - 1), parts - 1):
        yield [b - a - 1 for a, b in pairwise((-1, *bars, total + parts - 1))]


def elias(value):
    return 2 * (len(f"{value:b}") - 1) + 1


def top_k_entry(q, k, width):
    largest = 2**width - 1
    values = [Fraction(level / largest) for level in range(largest + 1)]  # the server's floats
    sent = [values[bisect_right(values, value) - 1] for value in q[:k]]
    rest = (1 - sum(sent)) / ((len(q) - k) or len(q))
    rebuilt = [*sent, *[rest] * (len(q) - k)] if k < len(q) else [value + rest for value in sent]
    return 2 + elias(k + 1) + elias(width) + k * (width + math.ceil(math.log2(len(q)))), gap(q, rebuilt)


def lattice_entry(q, size, resolution, mixture):
    share = resolution * sum(q[size:])
    assume(share.denominator == 1 or abs(share - round(share)) > 1e-9)
    spread = math.floor(share) if mixture else 0
    others = len(q) - size
    rest = [Fraction(spread, resolution * others)] * others if others else []
    nearest = min(
        gap(q, [*(Fraction(one, resolution) for one in counts), *rest])
        for counts in compositions(resolution - spread, size)
    )
    cells = size + mixture
    states = math.comb(len(q), size) * math.comb(resolution + cells - 1, cells - 1)
    return 2 + elias(size) + elias(resolution) + math.ceil(math.log2(states)), nearest


def all_entries(q, widths, resolutions):
    size = len(q)
    for width in widths:
        yield from (("top-k", *top_k_entry(q, k, width)) for k in range(size + 1))
    for resolution in resolutions:
        yield from (("lattice", *lattice_entry(q, k, resolution, False)) for k in range(1, size + 1))
        yield from (("mixture", *lattice_entry(q, k, resolution, True)) for k in range(1, size))


@given(st.integers(2, 5).flatmap(lambda size: any_rows((), size)), TOLERANCES, st.data())
@settings(max_examples=40)
def test_no_entry_of_the_menu_is_cheaper(row, epsilon, data):
    widths, resolutions = (1, 2, 3, 6, 11), (1, 2, 3, 4, 7)
    kinds = data.draw(st.sampled_from((("top-k",), ("lattice",), ("mixture", "top-k"), KINDS)))
    menu = codec.CodecMenu(kinds=kinds, widths=widths, sizes=tuple(range(1, 6)), resolutions=resolutions)
    exact = sorted((Fraction(value) for value in canonical("draft", row).tolist()), reverse=True)
    entries = [one for one in all_entries(exact, widths, resolutions) if one[0] in kinds]
    good = [bits for _, bits, bias in entries if bias <= Fraction(epsilon) - Fraction(1, 10**9)]
    near = [bits for _, bits, bias in entries if bias <= Fraction(epsilon) + Fraction(1, 10**9)]
    if not near:
        with pytest.raises(ValueError, match=r"^bias_tolerance must be one that the menu can meet"):
            codec.cheapest_codec(row, epsilon, menu=menu)
    elif good:
        assert min(near) <= codec.cheapest_codec(row, epsilon, menu=menu).bits <= min(good)


@given(st.data())
@settings(max_examples=20)
def test_the_bytes_are_as_many_as_promised_and_hold_the_certificate(data):
    count, size = data.draw(st.integers(1, 4)), data.draw(st.sampled_from((2, 3, 7, 40, 300)))
    rows = data.draw(any_rows((count,), size))
    menu = data.draw(st.sampled_from((None, *(codec.CodecMenu(kinds=(kind,)) for kind in KINDS))))
    epsilon = data.draw(st.sampled_from((0.02, 0.1, 0.7)))
    found = codec.cheapest_codec(rows, epsilon, menu=menu)
    token = data.draw(hnp.arrays(np.int64, count, elements=st.integers(0, size - 1)))
    for known in (True, False):
        message = codec.coded_message(rows, found, token=token, probability=known)
        sent = codec.encode(message)
        assert len(sent) == message_bytes(size, found.bits, probability=known)
        back = codec.decode(sent)
        assert back == message
        assert [draft.token for draft in back.drafts] == token.tolist()
        decoded = codec.decoded_rows(back)
        for row, rebuilt, bias in zip(rows, decoded, found.bias.tolist(), strict=True):
            q = [Fraction(value) for value in row.tolist()]
            hat = [Fraction(value) for value in rebuilt.tolist()]
            mass, sent_mass = sum(q), sum(hat)
            assert gap([value / mass for value in q], [value / sent_mass for value in hat]) <= Fraction(bias)
            assert bias <= epsilon
            assert min(hat) >= 0
    np.testing.assert_allclose(np.abs(decoded - rows).sum(-1), found.bias, atol=2e-7)  # attained without q_d


@given(any_rows((), 40), st.integers(1, 40), st.integers(1, 3000), st.booleans())
def test_lower_bounds_are_below_the_distance(row, size, resolution, mixture):
    mixture = mixture and size < 40
    sorted_row = SortedRow.of(canonical("draft", row))
    found = rounding(sorted_row, size, resolution, mixture=mixture)
    one = np.asarray([size]), np.asarray([resolution]), np.asarray([mixture])
    assert least_distance(sorted_row, *one)[0] <= found.distance
    assert Bounds(sorted_row).distances(*one)[0] <= found.distance
    units = units_of(found, size)
    assert units.min() >= 0
    assert units.sum() + found.spread == resolution
    rest = np.full(40 - size, found.spread / resolution / max(40 - size, 1)) if mixture else np.zeros(40 - size)
    rebuilt = np.concatenate([units / resolution, rest])
    assert 0.5 * np.abs(sorted_row.values - rebuilt).sum() == pytest.approx(found.distance, abs=1e-12)


def wide_rows(count, size, scale, seed=0):
    logits = scale * np.random.default_rng(seed).standard_normal((count, size))
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def test_a_certain_row_is_sent_at_a_tolerance_of_zero():
    found = codec.cheapest_codec([0.0, 1.0, 0.0, 0.0], 0.0)
    assert (KINDS[found.kind], int(found.k), int(found.parameter), float(found.bias)) == ("lattice", 1, 1, 0.0)
    assert int(found.bits) == 2 + 1 + 1 + 2
    with pytest.raises(ValueError, match=r"^bias_tolerance must be one that the menu can meet; got 0 at row 1"):
        codec.cheapest_codec([[1.0, 0.0], [0.75, 0.25]], 0.0)


def test_what_no_encoder_writes_is_refused():
    kind, body = unframed(codec.encode(wire.MixedMessage(4, a_small_message().drafts)))
    with pytest.raises(wire.MalformedError, match="there are bytes after the last draft"):
        codec.decode(framed(kind, body + b"\0"))
    with pytest.raises(wire.MalformedError, match="the bits end within a draft"):
        codec.decode(framed(kind, body[:-1]))
    head, bits = body[:3], np.unpackbits(np.frombuffer(body[3:], dtype=np.uint8))
    lattice = np.concatenate([fixed(KINDS.index("lattice"), KIND_BITS), gamma(5), bits])
    with pytest.raises(wire.MalformedError, match="a support has 5 tokens of 4"):
        codec.decode(framed(kind, head + np.packbits(lattice).tobytes()))
    states = math.comb(4, 3) * math.comb(5 + 2, 2)
    wrong = np.concatenate([fixed(1, KIND_BITS), gamma(3), gamma(5), fixed(states, number_bits(4, 3, 3, 5)), bits])
    with pytest.raises(wire.MalformedError, match="a number is not that of a row"):
        codec.decode(framed(kind, head + np.packbits(wrong).tobytes()))


def a_small_message():
    row = [0.5, 0.5, 0.0, 0.0]
    return codec.coded_message(row, codec.cheapest_codec(row, 0.1), token=0)


@pytest.mark.parametrize(
    "field",
    [
        *({"kind": kind} for kind in (3, -1, 0.5, np.nan)),
        *({"k": k} for k in (3, -1, "2", None)),
        *({"parameter": parameter} for parameter in (0, 2**40)),
        {"mixture": 2},
    ],
    ids=str,
)
def test_a_choice_that_no_search_made_is_refused(field):
    choice = dataclasses.replace(codec.cheapest_codec([0.5, 0.5], 0.1), **{n: np.array(v) for n, v in field.items()})
    with pytest.raises(wire.MessageError, match="choice must hold"):
        codec.coded_message([0.5, 0.5], choice, token=0)


def test_a_message_that_the_format_cannot_hold_is_refused():
    (draft,) = a_small_message().drafts
    bare = MixedDraft("mixture", [0, 1], [1, 1], 1, 0, 0, None)
    with pytest.raises(wire.MessageError, match="drafts must all have a probability, or none"):
        wire.MixedMessage(4, (draft, bare))
    with pytest.raises(wire.MessageError, match="rest must have a token left"):
        wire.MixedMessage(2, (bare,))
    with pytest.raises(wire.MessageError, match="support and token must lie within the vocabulary"):
        wire.MixedMessage(2, (MixedDraft("lattice", [0, 2], [1, 1], None, 0, 0, None),))
    with pytest.raises(wire.MessageError, match="token and choice must be one a row"):
        codec.coded_message([[0.5, 0.5]], codec.cheapest_codec([0.5, 0.5], 0.1), token=[0, 1])
    wide = codec.coded_message(
        wide_rows(1, 4096, 1.0), codec.cheapest_codec(wide_rows(1, 4096, 1.0), 0.2), token=[0]
    ).drafts[0]
    effort = steps_of_row(4096, wide.support.size, wide.support.size + 1, wide.resolution)
    with pytest.raises(wire.MessageError, match="the batch takes too long to decode; send fewer drafts"):
        codec.encode(wire.MixedMessage(4096, (wide,) * (MOST_STEPS // effort + 1)))


def test_a_text_under_one_budget_beats_one_tolerance_for_all_rows():
    rows = np.concatenate([wide_rows(5, 300, 1.0), wide_rows(15, 300, 6.0)])
    found = codec.cheapest_codec(rows[:, None], np.geomspace(0.01, 2.0, 12))
    same = codec.cheapest_codec(rows, 0.1)
    plan = codec.optimal_codecs(found.bits, found.bias, 0.1 * len(rows))
    assert plan.bias <= 0.1 * len(rows)
    assert plan.lower_bound <= plan.bits <= plan.lower_bound + 0.02 * plan.bits
    assert plan.bits < 0.9 * same.bits.sum()
    assert plan.bits == found.bits[np.arange(len(rows)), plan.index].sum()
    assert plan.gap == plan.bits - plan.lower_bound


def test_budgets_at_the_ends():
    bits, bias = [[9.0, 5.0, 1.0], [7.0, 7.0, 2.0]], [[0.0, 0.25, 1.0], [0.0, 0.0, 0.5]]
    assert codec.optimal_codecs(bits, bias, 0.0).bits == 16.0
    free = codec.optimal_codecs(bits, bias, 9.0)
    assert (free.bits, free.lower_bound, free.gap) == (3.0, 3.0, 0.0)
    with pytest.raises(ValueError, match=r"^bias_budget must be at least 0\.5002"):
        codec.optimal_codecs([[1.0], [1.0]], [[0.25], [0.25]], 0.4)
    with pytest.raises(ValueError, match=r"^bits and bias must have one shape \(T, J\)"):
        codec.optimal_codecs([[1.0]], [[0.25, 0.5]], 0.4)


def test_a_row_whose_tokens_cannot_have_all_mass_was_never_written():
    """A token of 1/2 and a drawn one of 1/4 leave 1/4: another token may have it, but not nobody."""
    draft = MixedDraft("top-k", np.asarray([0]), np.asarray([128]), None, 8, 1, 0.25)
    assert not written(draft, 2)
    assert written(draft, 3)
