"""Options whose messages are padded, so that the sizes of a round tell at most B bits: :mod:`hlmtheory.channel.leak`.

A round's messages have at most 2^B sizes, both directions together. Ours are padded to size classes of the training
texts; the papers' policies to K drafts of the largest size, with answers of one size, unless B allows two. Skips and
budgets of bits tell more, so they are left out. Not bounded are the number of rounds and their times.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hlmtheory.channel.leak import rounds_leak, size_classes
from hlmtheory.lattice import payload_bits
from validation.arrays import Array
from validation.decoding.methods import rows
from validation.decoding.wire import index_bits
from validation.planning.message_length import longest_bytes, message_bits, most_counts
from validation.planning.option import Option
from validation.planning.profile import Profile, rejection_bits, reply_bits
from validation.planning.rounds import COUNTS, Wire, expected_counts

_UP, _DOWN, _EXCHANGES, _PASSES, _TOKENS = map(COUNTS.index, ("up_bits", "down_bits", "exchanges", "passes", "tokens"))
_HEADER, _PROBABILITY = 16, 32  # bits of the papers' rounds: see validation.planning.profile
_ROUNDING = 1e-9


def padded(options: Sequence[Option], profile: Profile, training: Array, bits: float) -> list[Option]:
    """Return the options with padded messages; rivals that tell more are marked, and trees and ours left out."""
    kept, classes = [], int(2.0**bits + _ROUNDING)
    for option in options:
        if option.family in rows.TREES:
            continue
        if option.family != rows.OURS:
            kept.append(_rival(option, profile, classes))
        elif option.lossless and option.codec:
            kept.append(_ours(option, profile, training, classes))
    return kept


def said(option: Option, lengths: Array) -> str:
    if option.family in (rows.SERVER, rows.DEVICE):
        return "Its messages have one size, so their sizes tell nothing; their number tells the tokens of a text."
    sizes = ", ".join(map(str, option.sizes))
    length = int(np.max(lengths))
    more = float(rounds_leak(length, int(option.draft_length)))
    return (
        f"Messages are padded to {sizes} bytes and answers to one size, so the sizes of a round tell at most "
        f"{option.leak_bits:.3g} bits (proved). Of a text of {length} tokens the number of rounds tells up to "
        f"{more:.3g} bits more, and times are not hidden."
    )


def _ours(option: Option, profile: Profile, training: Array, classes: int) -> Option:
    codec, most = int(option.codec or 0), int(option.draft_length)
    sizes, length = profile.counted.transpose(1, 2, 0), profile.lengths
    each = message_bits(sizes, length, most, profile.vocabulary)[:, codec] / 8.0 + 1.0  # a byte ends the message
    sent = np.arange(len(each))[:, None] < length
    trained = each[:, training][sent[:, training]]
    largest = longest_bytes(codec, most, profile.vocabulary) + 1
    tops = size_classes(np.append(trained, largest), np.append(np.ones(len(trained)), 0.0), classes).tops
    counts = option.counts.copy()
    if len(tops) == 1:
        counts[:, _UP] = 8.0 * tops[0] * counts[:, _EXCHANGES]
    else:
        header = 8.0 * tops[np.minimum(np.searchsorted(tops, each), len(tops) - 1)]
        chances, wire = profile.chances.transpose(1, 2, 0)[:, codec], Wire(header=header)
        counts[:, _UP] = expected_counts(chances, np.zeros_like(header), length, most, wire=wire)[:, _UP]
    return replace(option, counts=counts, leak_bits=math.log2(len(tops)), sizes=tuple(int(top) for top in tops))


def _rival(option: Option, profile: Profile, classes: int) -> Option:
    counts, family, most = option.counts.copy(), option.family, option.draft_length
    exchanges, width = counts[:, _EXCHANGES], index_bits(profile.vocabulary)
    if family in (rows.SERVER, rows.STREAM, rows.DEVICE, rows.HLM):
        return option
    if family in (rows.U_HLM, rows.CU_HLM) or option.budget_bits is not None or option.threshold > -math.inf:
        return replace(option, leak_bits=math.inf)
    if family in rows.OWN_DRAFTS:
        if classes > most:
            return replace(option, leak_bits=math.log2(most + 1))
        counts[:, _DOWN] = counts[:, _PASSES] * (most + 1) * profile.server[:, _DOWN] / counts[:, _TOKENS]
        return replace(option, counts=counts)
    told = 0.0
    if family == rows.FIXED:
        row = width + 32.0 * profile.vocabulary
    elif family == rows.GREEDY:
        row = float(width)
    elif option.lattice is not None:
        lattice = option.lattice
        each = np.arange(1, most_counts(lattice, profile.vocabulary) + 1)
        adaptive = lattice.k is None
        row = width + float(np.max(payload_bits(profile.vocabulary, each, lattice.resolution, adaptive=adaptive)))
    else:
        assert family == rows.FLEXSPEC, family
        row, told = width + _PROBABILITY, 1.0 if classes > 1 else 0.0
        if not told:
            answer = reply_bits(profile.vocabulary) + rejection_bits(profile.vocabulary)
            counts[:, _DOWN] = exchanges * answer
    counts[:, _UP] = exchanges * (_HEADER + most * row)
    return replace(option, counts=counts, leak_bits=told)
