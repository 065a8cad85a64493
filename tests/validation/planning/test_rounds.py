"""Expected counts of rounds against rounds that are played out coin by coin, and all their outcomes enumerated."""

from itertools import product

import numpy as np

from validation.planning.rounds import COUNTS, Wire, expected_counts

WIRE = Wire(header=16.0, reply=8.0, rejection=100.0)


def played(accepted, bits, length, most, coins, *, first=None, skip=None, skips=None, bonus=True):
    """The counts of one text, with a fixed outcome for each position: the independent computation."""
    found = dict.fromkeys(COUNTS, 0.0)
    found["tokens"], place = length, 0
    while place < length:
        if skips is not None and skips[place]:
            found["drafts"] += 1
            found["skipped"] += 1
            place += 1
            continue
        drafts = min(most if isinstance(most, int) else most[place], length - place)
        found["exchanges"] += 1
        found["passes"] += 1
        found["verified"] += drafts + 1
        found["drafts"] += drafts
        found["up_bits"] += WIRE.header + sum(bits[place : place + drafts])
        found["down_bits"] += WIRE.reply
        good = 0
        while good < drafts and coins[place + good]:
            good += 1
        if good < drafts:
            found["down_bits"] += WIRE.rejection
            place += good + 1
        else:
            place += good + (1 if bonus or not drafts else 0)
    return np.array([found[name] for name in COUNTS])


def test_skipping_takes_only_first_drafts():
    accepted, bits, length = np.array([0.5, 0.25, 1.0]), np.array([3.0, 1.0, 4.0]), 3
    skip, first = np.array([0.5, 0.0, 0.25]), np.array([0.25, 0.5, 0.75])
    chances = {"first": first[:, None], "skip": skip[:, None]}
    found = expected_counts(accepted[:, None], bits[:, None], np.array([3]), 1, **chances, wire=WIRE)[0]
    expected = np.zeros(len(COUNTS))
    for coins in product((False, True), repeat=length):  # with K = 1 every draft is the first of its round
        for skips in product((False, True), repeat=length):
            weight = np.prod([a if c else 1 - a for a, c in zip(first, coins, strict=True)])
            weight *= np.prod([s if c else 1 - s for s, c in zip(skip, skips, strict=True)])
            expected += weight * played(first, bits, length, 1, coins, skips=skips)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_texts_of_different_lengths_do_not_mix():
    rng = np.random.default_rng(3)
    accepted, bits = rng.random((9, 3)), rng.random((9, 3))
    length = np.array([9, 4, 1])
    both = expected_counts(accepted, bits, length, 3, wire=WIRE)
    for text, n in enumerate(length):
        alone = expected_counts(accepted[:n, [text]], bits[:n, [text]], length[[text]], 3, wire=WIRE)
        np.testing.assert_allclose(both[text], alone[0], rtol=1e-12)
