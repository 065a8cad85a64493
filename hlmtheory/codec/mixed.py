"""A batch of rows, each in the codec that was chosen for it, and the rows that the server decodes from a message.

The formats of a row are in :mod:`hlmtheory.codec.menu`. After its row each draft has its token, ⌈log₂ V⌉ bits, and, if
acceptance is by the exact q_d, that probability in 64 bits. So the bits of a draft depend on nothing else in the batch.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import Array, arrays, brief, to_numpy
from hlmtheory._domains import Domain, DomainError, flag, instance, number, numbers, token_of
from hlmtheory._simplex import canonical
from hlmtheory.codec.frame import LONGEST_MESSAGE, MessageError, frame_length, varint
from hlmtheory.codec.menu import PROBABILITY_BITS
from hlmtheory.codec.messages import (
    KINDS,
    MOST_BITS,
    TOP_K,
    LatticeDraft,
    LatticeMessage,
    MixedDraft,
    MixedMessage,
    refuse,
)
from hlmtheory.codec.rounding import SortedRow, rounding, units_of
from hlmtheory.codec.selection import VOCABULARY, CodecChoice
from hlmtheory.lattice.arithmetic import LARGEST_RESOLUTION
from hlmtheory.truncation.levels import completed, levels_of, values_of

MOST_DECODED = 2**26
"""The most probabilities decoded at once, drafts times V: half a gigabyte, from a message of a few kilobytes."""

WHOLE_BITS = Domain(
    f"whole numbers in 1..{8 * LONGEST_MESSAGE:,}",
    lambda xp, value: (value >= 1) & (value <= 8 * LONGEST_MESSAGE),
    "give the bits of each row",
    kind="integer",
)


def message_bytes(vocabulary: int, bits: Array, *, probability: bool = True) -> int:
    """The bytes of ``encode`` of :func:`coded_message`, before it is encoded, from the bits of its rows (L,).

    The frame and the head of the batch take 9 to 18 bytes; the bits of all rows, tokens and probabilities together are
    rounded up to whole bytes.
    """
    size = number(VOCABULARY, "vocabulary", vocabulary)
    each = numbers(WHOLE_BITS, "bits", bits).ravel()
    own = (size - 1).bit_length() + PROBABILITY_BITS * flag("probability", probability)
    body = len(varint(size)) + len(varint(each.size)) + 1 + -(-(int(each.sum()) + own * each.size) // 8)
    total = frame_length(body)
    refuse(total > LONGEST_MESSAGE, f"bits must come to a message of at most {LONGEST_MESSAGE} bytes, not {total}")
    return total


def coded_message(draft: Any, choice: CodecChoice, *, token: Any, probability: bool = True) -> MixedMessage:
    """The message of each row (L, V) in the codec that :func:`cheapest_codec` chose for it, with the drawn tokens (L,).

    With ``probability`` q_d is sent too, so that acceptance is exact. Without it the server accepts by the decoded
    q̂_d; the certified bias is the same, the acceptance rate is lower by at most half of it.

    Parameters
    ----------
    draft : array, shape (L, V) or (V,)
        Distributions over the vocabulary.
    choice : CodecChoice
        Of :func:`cheapest_codec`, for the same rows.
    token : integer array, shape (L,) or ()
        The drawn tokens.
    probability : bool
        Whether q_d is sent, in 64 bits.

    Returns
    -------
    MixedMessage

    Raises
    ------
    ValueError
        If a row is not a distribution, a token is outside the vocabulary, or the choice is for other rows.
    """
    rows = np.atleast_2d(canonical("draft", draft))
    choice = instance("choice", choice, CodecChoice)
    refuse(rows.ndim != 2, "draft must be (L, V) or (V,)")
    drawn = np.atleast_1d(token_of(rows.shape[-1]).check(np, "token", to_numpy(arrays(token=token)[1])))
    chosen = [np.atleast_1d(to_numpy(value)) for value in (choice.kind, choice.k, choice.parameter, choice.mixture)]
    refuse(any(value.shape != rows.shape[:1] for value in (drawn, *chosen)), "token and choice must be one a row")
    refuse(not _is_choice(rows.shape[1], *chosen), "choice must hold a kind, k, parameter and mixture of the menu")
    known = flag("probability", probability)
    drafts = (
        _coded(row, KINDS[int(kind)], int(k), int(parameter), bool(mixture), int(d), float(row[d]) if known else None)
        for row, d, kind, k, parameter, mixture in zip(rows, drawn, *chosen, strict=True)
    )
    return MixedMessage(rows.shape[1], tuple(drafts))


def _is_choice(vocabulary: int, kind: Any, k: Any, parameter: Any, mixture: Any) -> bool:
    """Whether the fields of a choice can be those of a menu."""
    whole = all(np.issubdtype(value.dtype, np.integer) for value in (kind, k, parameter)) and mixture.dtype == np.bool_
    if not whole or not ((kind >= 0) & (kind < len(KINDS))).all():
        return False
    most = np.where(kind == KINDS.index(TOP_K), MOST_BITS, LARGEST_RESOLUTION)
    return bool(((k >= 0) & (k <= vocabulary) & (parameter >= 1) & (parameter <= most)).all())


def _coded(
    row: NDArray[np.float64], kind: str, k: int, parameter: int, mixture: bool, token: int, own: float | None
) -> MixedDraft:
    """One row in its codec: of equal entries, those with the lowest index are kept."""
    order = np.argsort(-row, kind="stable")[:k]
    if kind == TOP_K:
        support = np.sort(order)
        levels = levels_of(row[support], parameter).astype(np.int64)
        return MixedDraft(kind, support, levels, None, parameter, token, own)
    found = rounding(SortedRow.of(row), k, parameter, mixture=mixture)
    places = np.argsort(order)
    values = units_of(found, k)[places]
    return MixedDraft(kind, order[places], values, found.spread if mixture else None, 0, token, own)


def decoded_rows(message: LatticeMessage | MixedMessage) -> NDArray[np.float64]:
    """Return the distributions q̂ that the server decodes from a message.

    Those of a truncated message equal :func:`hlmtheory.truncation.message.decoded_draft` with the draft token d. The
    remaining mass is spread evenly over the tokens that were not sent; if all were sent, over all tokens except d. The
    rows of a lattice message are its counts over their sum. A mixed message has rows of both kinds.

    Parameters
    ----------
    message : LatticeMessage, TruncatedMessage or MixedMessage
        L V must be at most 2^26, since the result takes 8 L V bytes, even for a short message.

    Returns
    -------
    float64 array, shape (L, V)
        Distributions over the vocabulary.

    Raises
    ------
    ValueError
        If L V exceeds 2^26, or the message has no rows, as one of tokens alone.

    Examples
    --------
    >>> from hlmtheory.codec import decode, encode, truncated_message
    >>> message = truncated_message([0.5, 0.25, 0.125, 0.125], top_k=2, token=2, bits=1)
    >>> decoded_rows(decode(encode(message))).tolist()
    [[0.0, 0.0, 0.125, 0.875]]
    """
    if not isinstance(message, LatticeMessage | MixedMessage):
        raise DomainError(f"message must be a lattice, truncated or mixed one; got {brief(message)}; decode its bytes")
    drafts: tuple[LatticeDraft | MixedDraft, ...] = message.drafts
    count, vocabulary = len(drafts), message.vocabulary
    if count * vocabulary > MOST_DECODED:
        raise MessageError(
            f"message must hold at most {MOST_DECODED:,} probabilities, drafts times V; got {count} drafts of V = "
            f"{vocabulary}; decode fewer at a time, as {type(message).__name__}(vocabulary, "
            f"drafts[:{MOST_DECODED // vocabulary}])"
        )
    rows = np.empty((count, vocabulary))  # one row at a time, so that masks and sums need little memory
    for n, draft in enumerate(drafts):
        rows[n] = _row(draft, vocabulary)
    return rows


def _row(draft: LatticeDraft | MixedDraft, vocabulary: int) -> NDArray[np.float64]:
    counts, rest = (draft.counts, 0) if isinstance(draft, LatticeDraft) else (draft.values, draft.rest or 0)
    if isinstance(draft, LatticeDraft) or draft.kind != TOP_K:
        row = np.full(vocabulary, rest / draft.resolution / max(vocabulary - draft.support.size, 1))
        row[draft.support] = counts / draft.resolution
        return row
    value, sent = np.zeros(vocabulary), np.zeros(vocabulary, dtype=np.bool_)
    others = ~sent
    value[draft.support], sent[draft.support] = values_of(counts, draft.bits), True
    if draft.probability is not None:
        value[draft.token], sent[draft.token], others[draft.token] = draft.probability, True, False
    return completed(value, sent, others)
