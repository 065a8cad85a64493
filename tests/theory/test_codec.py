"""Drafts as bytes: they come back as they were, have their stated lengths, and all else is refused by name."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hlmtheory import codec, wire
from hlmtheory.codec.enumerative import index_of, rank, unrank
from hlmtheory.codec.frame import LONGEST_MESSAGE, framed, unframed, varint
from hlmtheory.codec.messages import KINDS, LatticeDraft, LatticeMessage, MixedDraft, TokenDraft

from .public import theory
from .strategies import rows as draft_rows


@st.composite
def supports(draw, vocabulary):
    size = draw(st.integers(1, min(vocabulary, draw(st.sampled_from((2, 12, 60))))))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return np.sort(rng.choice(vocabulary, size, replace=False))


@st.composite
def lattice_drafts(draw, vocabulary):
    support = draw(supports(vocabulary))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    units = draw(st.sampled_from((1, 2, 7, 100, 5000, 2**24)))
    counts = rng.multinomial(units, rng.dirichlet([draw(st.sampled_from((0.05, 1.0)))] * support.size))
    return LatticeDraft(support, counts, int(rng.choice(support[counts > 0])))


@st.composite
def lattice_messages(draw):
    vocabulary = draw(st.sampled_from((2, 3, 17, 300, 4096, 2**18)))
    return wire.LatticeMessage(vocabulary, tuple(draw(st.lists(lattice_drafts(vocabulary), min_size=1, max_size=4))))


@st.composite
def truncated_messages(draw):
    vocabulary, bits = draw(st.sampled_from((2, 3, 17, 300, 2**18))), draw(st.integers(1, 24))
    drafts = []
    for _ in range(draw(st.integers(1, 3))):
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        indices = draw(st.one_of(supports(vocabulary), st.just(np.zeros(0, dtype=np.int64))))
        token, own, largest = int(rng.integers(vocabulary)), float(rng.random()), 2**bits - 1
        shares = rng.dirichlet(np.full(indices.size, 0.5)) if indices.size else np.zeros(0)
        levels = np.floor(np.where(indices == token, shares, (1 - own) * shares) * largest).astype(np.int64)
        drafts.append(MixedDraft("top-k", indices, levels, None, bits, token, own))
    return wire.TruncatedMessage(vocabulary, tuple(drafts))


@given(lattice_messages())
def test_quantised_drafts_come_back(message):
    data = codec.encode(message)
    again = codec.decode(data)
    assert again == message
    assert codec.encode(again) == data


@given(truncated_messages())
def test_truncated_drafts_come_back(message):
    data = codec.encode(message)
    assert codec.decode(data) == message
    places = (message.vocabulary - 1).bit_length()
    sent, drafts = sum(draft.support.size for draft in message.drafts), len(message.drafts)
    bits = sent * (message.bits + places) + drafts * places  # cu-hlm (4) with k for V, and the tokens
    head = 2 + len(varint(len(data))) + len(varint(message.vocabulary)) + 1 + len(varint(len(message.drafts)))
    sizes = sum(len(varint(draft.support.size)) for draft in message.drafts)
    assert len(data) == head + sizes + math.ceil(bits / 8) + 8 * drafts + 4


@given(st.data())
def test_the_server_decodes_the_row_that_the_certificate_is_about(data):
    rows = data.draw(draft_rows((data.draw(st.integers(1, 3)),), data.draw(st.integers(2, 12))))
    k = data.draw(hnp.arrays(np.int64, len(rows), elements=st.integers(0, rows.shape[-1])))
    token = np.argmax(rows, axis=-1)
    bits = data.draw(st.integers(1, 24))
    message = codec.decode(codec.encode(codec.truncated_message(rows, top_k=k, token=token, bits=bits)))
    expected = theory.decoded_draft(rows, k, bits_per_probability=bits, token=token)
    np.testing.assert_array_equal(codec.decoded_rows(message), expected)
    own = [draft.probability for draft in message.drafts]
    np.testing.assert_allclose(own, rows[np.arange(len(rows)), token], rtol=1e-15)


def test_more_rows_than_memory_is_meant_for_are_refused(monkeypatch):
    """A message of few bytes can hold any number of rows with k = 0, and so any number of probabilities."""
    monkeypatch.setattr("hlmtheory.codec.mixed.MOST_DECODED", 8)
    message = codec.truncated_message([[0.5, 0.25, 0.25, 0.0]] * 3, top_k=0, token=[0, 1, 2], bits=1)
    words = r"^message must hold at most 8 probabilities, .*; got 3 drafts of V = 4; decode fewer .* drafts\[:2\]\)$"
    with pytest.raises(wire.MessageError, match=words):
        codec.decoded_rows(message)
    fewer = wire.TruncatedMessage(message.vocabulary, message.drafts[:2])
    assert codec.decoded_rows(fewer).tolist() == [[0.5, *[0.5 / 3] * 3], [0.25, 0.25, 0.25, 0.25]]


def test_the_server_decodes_the_rows_of_a_lattice():
    counts = np.array([[6, 0, 4, 0], [1, 2, 0, 0]])
    drafts = LatticeDraft([0, 2], [6, 4], 2), LatticeDraft([0, 1, 2], [1, 2, 0], 1)
    rows = codec.decoded_rows(codec.decode(codec.encode(wire.LatticeMessage(4, drafts))))
    np.testing.assert_array_equal(rows, counts / counts.sum(axis=-1, keepdims=True))
    with pytest.raises(ValueError, match=r"^message must be a lattice, truncated or mixed one; got"):
        codec.decoded_rows(wire.TokenMessage(4, [TokenDraft(1)]))


@given(lattice_messages())
def test_the_enumerated_batch_is_within_a_bit_of_the_formula(message):
    vary = len({draft.size for draft in message.drafts}) > 1
    formula = sum(
        theory.exact_payload_bits(message.vocabulary, draft.size, draft.resolution)
        + math.log2(np.count_nonzero(draft.counts))
        + (math.log2(message.vocabulary) if vary else 0.0)
        for draft in message.drafts
    )
    index, states = index_of(message)
    assert 0 <= index < states
    assert math.log2(states) == pytest.approx(formula, rel=1e-12)
    bits = (states - 1).bit_length()
    assert formula - 1e-6 <= bits < formula + 1
    body = unframed(codec.encode(message))[1]
    head = len(varint(message.vocabulary)) + len(varint(len(message.drafts))) + 1
    units = {draft.resolution for draft in message.drafts}
    head += 0 if vary else len(varint(message.drafts[0].size))
    listed = units if len(units) == 1 else [draft.resolution for draft in message.drafts]
    head += sum(len(varint(unit)) for unit in listed)
    assert len(body) == head + math.ceil(bits / 8)


@pytest.mark.parametrize(("vocabulary", "size"), [(2**18, 1), (2**18, 3), (150_000, 40), (5000, 1200), (900, 899)])
def test_places_of_sparse_and_of_dense_sets(vocabulary, size):
    members = np.sort(np.random.default_rng(5).choice(vocabulary, size, replace=False))
    assert unrank(rank(members), size, vocabulary).tolist() == members.tolist()
    last = math.comb(vocabulary, size) - 1
    assert unrank(last, size, vocabulary).tolist() == list(range(vocabulary - size, vocabulary))
    assert rank(np.arange(size)) == 0
    for near in range(-2, 3):  # around an index at which the largest member changes
        place = min(max(math.comb(vocabulary * 3 // 4, size) + near, 0), last)
        assert rank(unrank(place, size, vocabulary)) == place


_ROW = np.random.default_rng(0).dirichlet(np.ones(40))
_MIXED = [
    codec.coded_message(_ROW, codec.cheapest_codec(_ROW, 0.3, menu=codec.CodecMenu(kinds=(kind,))), token=5).drafts[0]
    for kind in KINDS
]
_LATTICES = (LatticeDraft([1, 5, 9, 200], [60, 30, 0, 10], 5), LatticeDraft([2, 3], [1, 99], 3))
SAMPLES = {
    "lattice": codec.encode(wire.LatticeMessage(300, _LATTICES)),
    "truncated": codec.encode(codec.truncated_message(np.full((2, 300), 1 / 300), top_k=5, token=[7, 8], bits=8)),
    "mixed": codec.encode(wire.MixedMessage(40, tuple(_MIXED))),
    "tokens": codec.encode(wire.TokenMessage(300, (TokenDraft(7), TokenDraft(299)))),
}
"""One message of each kind."""


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_cut_and_every_extension_is_refused(kind):
    for length in range(len(SAMPLES[kind])):
        with pytest.raises(wire.TruncatedError, match=r"the message was (cut|lost)"):
            codec.decode(SAMPLES[kind][:length])
    for tail in (b"\0", b"\xff", SAMPLES[kind], b"\0" * 100):
        with pytest.raises(wire.ExtendedError, match="something was appended"):
            codec.decode(SAMPLES[kind] + tail)


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_flipped_bit_is_refused(kind):
    data, found = SAMPLES[kind], set()
    for place in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        with pytest.raises(wire.CodecError) as refusal:
            codec.decode(bytes(flipped))
        found.add(type(refusal.value))
    assert found >= {wire.VersionError, wire.ChecksumError, wire.TruncatedError}


def outcome(data):
    """Return the message with exactly these bytes, or the named refusal; any other result fails the test."""
    try:
        message = codec.decode(data)
    except wire.CodecError as error:
        return error
    assert codec.encode(message) == data
    return message


@given(st.sampled_from(range(6)), st.binary(max_size=80))
def test_any_body_with_a_right_checksum_is_read_or_refused(kind, body):
    found = outcome(framed(kind, body))
    assert isinstance(found, wire.LatticeMessage | wire.MixedMessage | wire.TokenMessage | wire.MalformedError)


@pytest.mark.parametrize("kind", SAMPLES)
@given(data=st.data())
def test_a_changed_body_with_a_right_checksum_is_read_or_refused(kind, data):
    number, body = unframed(SAMPLES[kind])
    changed = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    found = outcome(framed(number, bytes(changed)))
    assert isinstance(found, wire.LatticeMessage | wire.MixedMessage | wire.TokenMessage | wire.MalformedError)


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        (0, b"", "within the vocabulary"),
        (0, varint(2**18 + 1), "the vocabulary is 262145, not a plain number in 2..262144"),
        (0, b"\x83\x00", "the vocabulary is 3, not a plain number"),
        (0, b"\xff" * 6, "the vocabulary takes more than 5 bytes"),
        (0, b"\x04\x01\x03\x02\x0a" + b"\0" * 40, "the number is not one of a batch"),
        (0, b"\x04\x01\x03\x02\x0a", "the drafts need more bits than the message has"),
        (0, b"\x04\x01\x03\x02\x0a" + b"\0" * 5000, "the number has 5000 bytes, more than 4096"),
        (0, varint(2**18) + b"\x01\x03" + varint(2**18) + b"\x01\0\0\0", "262144 support entries in 12 bytes"),
        (0, varint(2**18) + varint(2**12) + b"\x02\x01" + b"\xff" * 4000, "of a batch|more bits|support entries"),
        (2, b"\x04\x00\x01\x00", "the bits of a probability is 0"),
        (2, b"\x04\x08\x01\x01", "1 entries and 1 tokens do not take 0 bytes"),
        (2, b"\x04\x01\x01\x00" + b"\x1f" + b"\0" * 8, "other bytes when it is encoded again"),
        (2, b"\x03\x02\x01\x00" + b"\xc0" + b"\0" * 8, "support and token must lie within the vocabulary"),
        (2, b"\x03\x02\x01\x00" + b"\x00" + b"\x7f\xf8" + b"\0" * 6, r"probability must be in \[0, 1\]"),
        (4, b"", "the bytes end within the vocabulary"),
        (4, b"\x04\x02\x1b\x00", "2 tokens do not take 2 bytes"),
        (4, b"\x04\x02\x1b", "other bytes when it is encoded again"),  # the padding is not zero
        (4, b"\x03\x01\xc0", "token must lie within the vocabulary"),
        (5, b"", "there is no kind 5 of message"),
    ],
)
def test_malformed_bodies_are_named(kind, body, message):
    with pytest.raises(wire.MalformedError, match=message):
        codec.decode(framed(kind, body))


@given(lattice_messages(), st.integers(0, 3))
def test_only_the_flags_of_a_batch_are_read(message, flags):
    """The sizes and the resolutions are written as other flags require."""
    number, body = unframed(codec.encode(message))
    head = len(varint(message.vocabulary)) + len(varint(len(message.drafts)))
    changed = body[:head] + bytes((flags,)) + body[head + 1 :]
    found = outcome(framed(number, changed))
    assert (flags == body[head]) == (found == message if isinstance(found, wire.LatticeMessage) else False)


def test_frames_are_checked_from_the_outside_in():
    with pytest.raises(wire.TruncatedError, match="there are no bytes"):
        codec.decode(b"")
    with pytest.raises(wire.VersionError, match="the version is 2, and this decoder reads 1"):
        codec.decode(b"\x02" + SAMPLES["truncated"][1:])
    with pytest.raises(wire.MalformedError, match="the length is 6"):
        codec.decode(b"\x01\x00\x06")
    with pytest.raises(wire.MalformedError, match="the length is"):
        codec.decode(b"\x01\x00" + varint(LONGEST_MESSAGE + 1))
    with pytest.raises(wire.MessageError, match=r"the message would take \d+ bytes of 16777216 at most"):
        framed(0, bytes(LONGEST_MESSAGE))
    assert codec.decode(bytearray(SAMPLES["truncated"])) == codec.decode(memoryview(SAMPLES["truncated"]))


@pytest.mark.parametrize("size", [1, 120, 121, 122, 16_000, 16_376, 16_377, 16_378, 16_379])
def test_a_frame_knows_its_own_length(size):
    assert unframed(framed(1, bytes(size))) == (1, bytes(size))


def bombs():
    wide = varint(2**18)
    for units in (1, 2, 2**24):
        for size in (2**18, 2**17, 6000, 4096):
            yield 0, wide + b"\x01\x03" + varint(size) + varint(units) + b"\xff" * 60
            yield 0, wide + varint(2**12) + b"\x03" + varint(size) + varint(units) + b"\xff" * 60
    yield 2, wide + b"\x18" + varint(2**12) + varint(2**18) * 2**12


def test_no_message_takes_more_memory_than_its_length_warrants():
    for kind, body in bombs():
        data = framed(kind, body)
        outcome(data)  # tables that are made once do not count
        tracemalloc.start()
        found = outcome(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert isinstance(found, wire.LatticeMessage | wire.CodecError)
        assert peak <= 2048 * len(data) + 2**20, (kind, body[:20], peak)


def test_a_message_that_takes_long_or_much_memory_is_refused_by_both_sides():
    """2,400 tokens at resolution 7,000,000 took twelve seconds for 3.9 KB."""
    rng = np.random.default_rng(3)
    head = varint(2400) + varint(1) + b"\x03" + varint(2400) + varint(7_000_000)
    with pytest.raises(wire.MalformedError, match="take too long to decode"):
        codec.decode(framed(0, head + rng.bytes(3885)))
    many = LatticeDraft(np.arange(1200), rng.multinomial(7_000_000, np.full(1200, 1 / 1200)), 0)
    wide = np.arange(100_000)
    flat = np.sort(rng.choice(2**18, 9000, replace=False))
    counts = rng.multinomial(20_000, np.full(9000, 1 / 9000))
    short = LatticeDraft(flat[::10], counts[::10], int(flat[::10][np.argmax(counts[::10])]))
    for vocabulary, drafts, words in (
        (1200, (many,), r"too long to decode; .*lower the resolution"),
        (100_000, (LatticeDraft(wide, (wide == 0) * 1, 0),), "100000 support entries in .* remove tokens"),
        (2**18, (LatticeDraft(flat, counts, int(flat[np.argmax(counts)])),), "too long to enumerate; send fewer"),
        (2**18, (short,) * 4, "bytes, more than 4096; send fewer drafts at a time"),
    ):
        with pytest.raises(wire.MessageError, match=words):
            codec.encode(wire.LatticeMessage(vocabulary, drafts))


def test_a_number_that_fills_its_bytes_is_read():
    """256 sizes and 256 tokens: 2 bytes hold exactly as many numbers."""
    message = LatticeMessage(256, (LatticeDraft([255], [1], 255),))
    assert codec.decode(codec.encode(message)) == message
