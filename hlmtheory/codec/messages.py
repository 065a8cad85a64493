"""Messages of the codec: batches of quantised or truncated drafts, validated when they are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import arrays, to_numpy
from hlmtheory._domains import UNIT_INTERVAL, Domain, instances, number, numbers, size_up_to, token_of
from hlmtheory._simplex import canonical
from hlmtheory.codec.frame import MessageError
from hlmtheory.lattice.arithmetic import LARGEST_RESOLUTION
from hlmtheory.truncation.levels import levels_of

LARGEST_VOCABULARY = 2**18
LONGEST_BATCH = 2**12
MOST_BITS = 24
"""Limits of the format: today's vocabularies have up to 262,144 tokens."""

MOST_DECODED = 2**26
"""The most probabilities decoded at once, drafts times V: half a gigabyte, from a message of a few kilobytes."""

ROUNDING = 2.0**-30
"""Allowed excess over 1 of a sum of 2^18 probabilities, for rounding."""

WHOLE = Domain("whole numbers", lambda xp, value: value == value, "convert it", kind="integer")

Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class LatticeDraft:
    """One quantised draft.

    Parameters
    ----------
    support : int64 array, shape (K,)
        The tokens kept, ascending.
    counts : int64 array, shape (K,)
        Their units, 0 or more; the sum is ℓ ≥ 1.
    token : int
        The drawn token: one of the support with a positive count.

    Raises
    ------
    MessageError
        If the support does not ascend, the counts do not fit it, or the token has no count.
    """

    support: Integers
    counts: Integers
    token: int

    def __post_init__(self) -> None:
        support, counts = integers("support", self.support), integers("counts", self.counts)
        ascends = support.size > 0 and support[0] >= 0 and bool(np.all(support[1:] > support[:-1]))
        refuse(not ascends, "support must ascend from 0 on")
        refuse(counts.shape != support.shape, "counts must have an entry for each token of the support")
        fits = int(counts.min()) >= 0 and 1 <= int(counts.sum()) <= LARGEST_RESOLUTION
        refuse(not fits, f"counts must be 0 or more, with a sum in 1..{LARGEST_RESOLUTION}")
        token = number(WHOLE, "token", self.token)
        place = int(np.searchsorted(support, token))
        drawn = place < support.size and support[place] == token and counts[place] > 0
        refuse(not drawn, "token must be one of the support with a positive count")
        object.__setattr__(self, "support", support)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "token", token)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LatticeDraft) and same(self, other)

    @property
    def size(self) -> int:
        """K."""
        return int(self.support.size)

    @property
    def resolution(self) -> int:
        """ℓ."""
        return int(self.counts.sum())


@dataclass(frozen=True, slots=True)
class LatticeMessage:
    """A batch of quantised drafts over one vocabulary.

    Parameters
    ----------
    vocabulary : int
        V, 2 or more.
    drafts : tuple of LatticeDraft
        At least one.

    Raises
    ------
    MessageError
        If V is out of range, there are no drafts or too many, or a token is outside the vocabulary.
    """

    vocabulary: int
    drafts: tuple[LatticeDraft, ...]

    def __post_init__(self) -> None:
        keep_batch(self, LatticeDraft)
        refuse(
            any(int(draft.support[-1]) >= self.vocabulary for draft in self.drafts),
            "support must lie within the vocabulary",
        )


@dataclass(frozen=True, eq=False, slots=True)
class TruncatedDraft:
    """One truncated row of cu-hlm: k levels in 0..2^b - 1 with their tokens, and the drawn token's probability.

    Parameters
    ----------
    indices : int64 array, shape (k,)
        The tokens sent, ascending; empty for k = 0.
    levels : int64 array, shape (k,)
        Their probabilities times 2^b - 1, rounded down.
    token : int
        The drawn token d.
    probability : float
        q_d, unrounded. It is always sent (cu-hlm IV-B), also if d is among the k, since acceptance must be exact.

    Raises
    ------
    MessageError
        If the indices do not ascend, the levels do not fit them, or q_d is outside [0, 1].
    """

    indices: Integers
    levels: Integers
    token: int
    probability: float

    def __post_init__(self) -> None:
        indices, levels = integers("indices", self.indices), integers("levels", self.levels)
        token, probability = number(WHOLE, "token", self.token), number(UNIT_INTERVAL, "probability", self.probability)
        refuse(bool(np.any(indices[:1] < 0)) or bool(np.any(np.diff(indices) <= 0)), "indices must ascend from 0 on")
        refuse(levels.shape != indices.shape, "levels must have an entry for each index")
        refuse(bool(np.any(levels < 0)) or token < 0, "levels and token must be 0 or more")
        object.__setattr__(self, "indices", indices)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "token", token)
        object.__setattr__(self, "probability", probability)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TruncatedDraft) and same(self, other)


@dataclass(frozen=True, slots=True)
class TruncatedMessage:
    """A batch of truncated drafts over one vocabulary.

    Parameters
    ----------
    vocabulary : int
        V, 2 or more.
    bits : int
        b, bits of a probability, 1..24.
    drafts : tuple of TruncatedDraft
        At least one.

    Raises
    ------
    MessageError
        If V or b is out of range, there are no drafts or too many, a token or a level is out of range, or the
        probabilities of a draft come to more than 1.
    """

    vocabulary: int
    bits: int
    drafts: tuple[TruncatedDraft, ...]

    def __post_init__(self) -> None:
        keep_batch(self, TruncatedDraft)
        object.__setattr__(self, "bits", number(WHOLE, "bits", self.bits))
        refuse(not 1 <= self.bits <= MOST_BITS, f"bits must be in 1..{MOST_BITS}")
        for draft in self.drafts:
            tokens, others = np.append(draft.indices, draft.token), draft.levels[draft.indices != draft.token]
            refuse(bool(np.any(tokens >= self.vocabulary)), "indices and token must lie within the vocabulary")
            refuse(bool(np.any(draft.levels >= 2**self.bits)), f"levels must be below 2^{self.bits}")
            total = int(others.sum()) / (2**self.bits - 1) + draft.probability
            refuse(total > 1.0 + ROUNDING, "levels and probability must come to at most 1")


def lattice_message(counts: Any, *, support: Any, token: Any) -> LatticeMessage:
    """A message of the rows that :func:`hlmtheory.lattice.quantize` gives.

    Parameters
    ----------
    counts : int64 array, shape (L, V) or (V,)
        Units of each draft, 0 outside the support.
    support : bool array, of the same shape
        Which tokens are kept.
    token : integer array, shape (L,) or ()
        The drawn tokens.

    Returns
    -------
    LatticeMessage

    Raises
    ------
    MessageError
        If the shapes do not fit or a draft is not a quantised row.

    Examples
    --------
    >>> message = lattice_message([[6, 0, 4, 0]], support=[[True, False, True, False]], token=[2])
    >>> message.drafts[0].support.tolist(), message.drafts[0].counts.tolist()
    ([0, 2], [6, 4])
    """
    rows, kept = np.atleast_2d(numbers(WHOLE, "counts", counts)), np.atleast_2d(_host("support", support))
    drawn = np.atleast_1d(numbers(WHOLE, "token", token))
    refuse(
        rows.ndim != 2 or rows.shape != kept.shape or drawn.shape != rows.shape[:1],
        "counts, support and token must be (L, V), (L, V) and (L,)",
    )
    refuse(kept.dtype != np.bool_, "support must be a mask of booleans")
    refuse(bool(np.any((rows != 0) & ~kept)), "support must hold every token that has a count")
    drafts = (LatticeDraft(np.flatnonzero(s), r[s], int(t)) for r, s, t in zip(rows, kept, drawn, strict=True))
    return LatticeMessage(rows.shape[1], tuple(drafts))


def truncated_message(draft: Any, *, k: Any, token: Any, bits: int) -> TruncatedMessage:
    """A message with the k largest probabilities of each row, rounded down to b bits, and the drawn token's, unrounded.

    The levels are those of :func:`hlmtheory.truncation.certified_size` with ``bits_per_probability``, whatever the
    library, type, order in memory or batch. So the Bias of a server that uses :func:`decoded_rows` is at most the
    tolerance of that function (claim ``codec.certificate``).

    Parameters
    ----------
    draft : array, shape (L, V) or (V,)
        Distributions over the vocabulary.
    k : integer array, shape (L,) or ()
        How many are sent, 0..V; of equal entries, those with the lowest index.
    token : integer array, shape (L,) or ()
        The drawn tokens.
    bits : int
        b, 1..24.

    Returns
    -------
    TruncatedMessage

    Raises
    ------
    ValueError
        If a row is not a distribution, or k, a token or b is out of range.

    Examples
    --------
    >>> message = truncated_message([0.5, 0.125, 0.375], k=2, token=1, bits=3)
    >>> sent = message.drafts[0]
    >>> sent.indices.tolist(), sent.levels.tolist(), sent.token, sent.probability
    ([0, 2], [3, 2], 1, 0.125)
    """
    rows = np.atleast_2d(canonical("draft", draft))
    refuse(rows.ndim != 2, "draft must be (L, V) or (V,)")
    vocabulary = rows.shape[-1]
    sizes = np.atleast_1d(size_up_to(vocabulary).check(np, "k", _host("k", k)))
    refuse(sizes.shape not in ((1,), rows.shape[:1]), "k must be one number, or one number per row")
    drawn = np.atleast_1d(token_of(vocabulary).check(np, "token", _host("token", token)))
    refuse(drawn.shape != rows.shape[:1], "token must be one number per row")
    bits = number(WHOLE, "bits", bits)
    refuse(not 1 <= bits <= MOST_BITS, f"bits must be in 1..{MOST_BITS}")
    levels = levels_of(rows, bits).astype(np.int64)
    order = np.argsort(-rows, axis=-1, kind="stable")
    chosen = (np.sort(row[:size]) for row, size in zip(order, np.broadcast_to(sizes, len(rows)), strict=True))
    drafts = (
        TruncatedDraft(i, level[i], int(t), float(row[t]))
        for i, level, t, row in zip(chosen, levels, drawn, rows, strict=True)
    )
    return TruncatedMessage(vocabulary, bits, tuple(drafts))


def _host(name: str, value: Any) -> NDArray[Any]:
    return to_numpy(arrays(**{name: value})[1])


def refuse(wrong: bool, sentence: str) -> None:
    """Refuse a message for the reason in the sentence."""
    if wrong:
        raise MessageError(f"{sentence}; make a new message from counts, support and token")


def integers(name: str, value: Any) -> Integers:
    """A row of whole numbers."""
    array = _host(name, value)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise MessageError(
            f"{name} must be a row of whole numbers; got {array.dtype} of shape {array.shape}; convert it"
        )
    return array.astype(np.int64)


def keep_batch(message: Any, kind: type[Any]) -> None:
    """Validate the vocabulary and the drafts of a message, and store them in their declared types."""
    object.__setattr__(message, "vocabulary", number(WHOLE, "vocabulary", message.vocabulary))
    object.__setattr__(message, "drafts", instances("drafts", message.drafts, kind))
    refuse(not 2 <= message.vocabulary <= LARGEST_VOCABULARY, f"vocabulary must be in 2..{LARGEST_VOCABULARY}")
    refuse(not 1 <= len(message.drafts) <= LONGEST_BATCH, f"drafts must be 1 to {LONGEST_BATCH}")


def same(one: Any, other: Any) -> bool:
    """Whether all fields of two records of one class are equal."""
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in type(one).__slots__)
