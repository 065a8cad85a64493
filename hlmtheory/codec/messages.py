"""Messages of the codec: batches of drafts as truncated, quantised or mixed rows or as tokens, validated when made."""

from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import arrays, to_numpy
from hlmtheory._domains import UNIT_INTERVAL, Domain, instances, number, option, size_up_to, token_of
from hlmtheory._simplex import canonical
from hlmtheory.codec.frame import MessageError
from hlmtheory.lattice.arithmetic import LARGEST_RESOLUTION
from hlmtheory.truncation.levels import levels_of

LARGEST_VOCABULARY = 2**18
LONGEST_BATCH = 2**12
MOST_BITS = 24
"""Limits of the format: today's vocabularies have up to 262,144 tokens."""

ROUNDING = 2.0**-30
"""Allowed excess over 1 of a sum of 2^18 probabilities, for rounding."""

WHOLE = Domain("whole numbers", lambda xp, value: value == value, "convert it", kind="integer")

TOP_K, LATTICE, MIXTURE = KINDS = ("top-k", "lattice", "mixture")
"""The kinds of a row in a mixed message; the place is its number in the message."""

Integers: TypeAlias = NDArray[np.int64]


class _Record:
    """A record of arrays and numbers, equal to another of its class if all fields are."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        names = (field.name for field in fields(self))  # type: ignore[arg-type]
        same = type(other) is type(self)
        return same and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)

    def _keep(self, **values: Any) -> None:
        """Store fields in their declared types."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _keep_batch(message: Any, kind: type[Any]) -> None:
    """Validate the vocabulary and the drafts of a message, and store them in their declared types."""
    size, drafts = number(WHOLE, "vocabulary", message.vocabulary), instances("drafts", message.drafts, kind)
    refuse(not 2 <= size <= LARGEST_VOCABULARY, f"vocabulary must be in 2..{LARGEST_VOCABULARY}")
    refuse(not 1 <= len(drafts) <= LONGEST_BATCH, f"drafts must be 1 to {LONGEST_BATCH}")
    message._keep(vocabulary=size, drafts=drafts)


@dataclass(frozen=True, eq=False, slots=True)
class LatticeDraft(_Record):
    """One quantised draft; raises a MessageError if the fields do not fit each other."""

    support: Integers  # (K,), the tokens kept, ascending
    counts: Integers  # (K,), their units, 0 or more; the sum is ℓ ≥ 1
    token: int  # the drawn one: of the support, with a positive count

    def __post_init__(self) -> None:
        support, counts = integers("support", self.support), integers("counts", self.counts)
        refuse(not support.size or not _ascend(support), "support must ascend from 0 on")
        refuse(counts.shape != support.shape, "counts must have an entry for each token of the support")
        fits = int(counts.min()) >= 0 and 1 <= int(counts.sum()) <= LARGEST_RESOLUTION
        refuse(not fits, f"counts must be 0 or more, with a sum in 1..{LARGEST_RESOLUTION}")
        token = number(WHOLE, "token", self.token)
        refuse(token not in support[counts > 0], "token must be one of the support with a positive count")
        self._keep(support=support, counts=counts, token=token)

    @property
    def size(self) -> int:
        """K."""
        return int(self.support.size)

    @property
    def resolution(self) -> int:
        """ℓ."""
        return int(self.counts.sum())


@dataclass(frozen=True, eq=False, slots=True)
class LatticeMessage(_Record):
    """A batch of quantised drafts over one vocabulary; raises a MessageError if a token is outside.

    Parameters
    ----------
    vocabulary : int
        V, 2 or more.
    drafts : tuple of LatticeDraft
        At least one.
    """

    vocabulary: int
    drafts: tuple[LatticeDraft, ...]

    def __post_init__(self) -> None:
        _keep_batch(self, LatticeDraft)
        outside = any(int(draft.support[-1]) >= self.vocabulary for draft in self.drafts)
        refuse(outside, "support must lie within the vocabulary")


@dataclass(frozen=True, eq=False, slots=True)
class MixedDraft(_Record):
    """One draft, in its own codec; raises a MessageError if the fields do not fit each other.

    ``rest`` counts all other tokens together, spread evenly over them. None: they have none, or share what the levels
    of top-k leave.
    """

    kind: str  # "top-k", "lattice" or "mixture"
    support: Integers  # (k,), the tokens that are written, ascending
    values: Integers  # (k,), their levels in 0..2^b - 1, or counts
    rest: int | None
    bits: int  # b of top-k; 0 for the others, whose ℓ is the sum of the counts
    token: int  # the drawn token d, any of the vocabulary
    probability: float | None = None  # the exact q_d, or None if the server accepts by the decoded q̂_d

    def __post_init__(self) -> None:
        kind = option("kind", self.kind, KINDS)
        support, values = integers("support", self.support), integers("values", self.values)
        bits, token = number(WHOLE, "bits", self.bits), number(WHOLE, "token", self.token)
        rest = None if self.rest is None else number(WHOLE, "rest", self.rest)
        own = None if self.probability is None else number(UNIT_INTERVAL, "probability", self.probability)
        refuse(not _ascend(support), "support must ascend from 0 on")
        refuse(values.shape != support.shape, "values must have an entry for each token of the support")
        refuse(bool(np.any(values < 0)) or token < 0, "values and token must be 0 or more")
        if kind == TOP_K:
            refuse(rest is not None or not 1 <= bits <= MOST_BITS, f"bits must be in 1..{MOST_BITS}, and rest None")
            refuse(bool(np.any(values >= 2**bits)), f"values must be below 2^{bits}")
            refuse(int(values.sum()) / (2**bits - 1) > 1.0 + ROUNDING, "values must come to at most 1")
        else:
            refuse(bits != 0 or not support.size, "bits must be 0 and the support not empty for a lattice")
            refuse((rest is None) != (kind == LATTICE), "rest must be None for a lattice only")
            refuse(rest is not None and rest < 0, "rest must be 0 or more")
            units = int(values.sum()) + (rest or 0)
            refuse(not 1 <= units <= LARGEST_RESOLUTION, f"values and rest must sum to 1..{LARGEST_RESOLUTION}")
        self._keep(kind=kind, support=support, values=values, rest=rest, bits=bits, token=token, probability=own)

    @property
    def counts(self) -> Integers:
        """The counts of a lattice or mixture, with that of all other tokens last if it has one."""
        return self.values if self.rest is None else np.append(self.values, self.rest)

    @property
    def resolution(self) -> int:
        """ℓ of a lattice; 0 for top-k."""
        return 0 if self.kind == TOP_K else int(self.counts.sum())


@dataclass(frozen=True, eq=False, slots=True)
class MixedMessage(_Record):
    """A batch of drafts over one vocabulary, each in its own codec.

    Raises a MessageError if a token is outside the vocabulary, or no token is left for the rest.

    Parameters
    ----------
    vocabulary : int
        V, 2 or more.
    drafts : tuple of MixedDraft
        At least one; all with a probability, or none.
    """

    vocabulary: int
    drafts: tuple[MixedDraft, ...]

    def __post_init__(self) -> None:
        _keep_batch(self, MixedDraft)
        for draft in self.drafts:
            inside = bool(np.all(draft.support < self.vocabulary)) and draft.token < self.vocabulary
            refuse(not inside, "support and token must lie within the vocabulary")
            refuse(draft.rest is not None and draft.support.size == self.vocabulary, "rest must have a token left")
        known = {draft.probability is None for draft in self.drafts}
        refuse(len(known) > 1, "drafts must all have a probability, or none")


@dataclass(frozen=True, eq=False, slots=True)
class TruncatedMessage(MixedMessage):
    """A batch of truncated rows of cu-hlm: top-k with levels of one b, and q_d, which acceptance needs (cu-hlm IV-B).

    Raises a MessageError also if the probabilities of a draft come to more than 1.

    Parameters
    ----------
    vocabulary : int
        V, 2 or more.
    drafts : tuple of MixedDraft
        At least one.
    """

    def __post_init__(self) -> None:
        MixedMessage.__post_init__(self)
        for draft in self.drafts:
            refuse(draft.kind != TOP_K or draft.bits != self.bits, "drafts must be top-k with levels of as many bits")
            others = int(draft.values[draft.support != draft.token].sum())
            refuse(draft.probability is None, "drafts must have a probability")
            total = others / (2**self.bits - 1) + (draft.probability or 0.0)
            refuse(total > 1.0 + ROUNDING, "values and probability must come to at most 1")

    @property
    def bits(self) -> int:
        """B."""
        return self.drafts[0].bits


@dataclass(frozen=True, eq=False, slots=True)
class TokenDraft(_Record):
    """One draft of which the token alone is sent; raises a MessageError if it is negative.

    Parameters
    ----------
    token : int
        0 or more.
    """

    token: int

    def __post_init__(self) -> None:
        self._keep(token=number(WHOLE, "token", self.token))
        refuse(self.token < 0, "token must be 0 or more")


@dataclass(frozen=True, eq=False, slots=True)
class TokenMessage(_Record):
    """A batch of tokens over one vocabulary; raises a MessageError if one is outside.

    Parameters
    ----------
    vocabulary : int
        V, 2 or more.
    drafts : tuple of TokenDraft
        At least one.

    Examples
    --------
    >>> from hlmtheory.codec import decode, encode
    >>> message = TokenMessage(4096, (TokenDraft(7), TokenDraft(4095)))
    >>> len(encode(message)), decode(encode(message)) == message
    (13, True)
    """

    vocabulary: int
    drafts: tuple[TokenDraft, ...]

    def __post_init__(self) -> None:
        _keep_batch(self, TokenDraft)
        refuse(any(draft.token >= self.vocabulary for draft in self.drafts), "token must lie within the vocabulary")


Message: TypeAlias = LatticeMessage | TruncatedMessage | MixedMessage | TokenMessage


def truncated_message(draft: Any, *, top_k: Any, token: Any, bits: int) -> TruncatedMessage:
    """A message with the k largest probabilities of each row, rounded down to b bits, and the drawn token's, unrounded.

    The levels are those of :func:`hlmtheory.truncation.certified_size` with ``bits_per_probability``, whatever the
    library, type, order in memory or batch. So the Bias of a server that uses :func:`decoded_rows` is at most the
    tolerance of that function (claim ``codec.certificate``).

    Parameters
    ----------
    draft : array, shape (L, V) or (V,)
        Distributions over the vocabulary.
    top_k : integer array, shape (L,) or ()
        k, how many are sent, 0..V; of equal entries, those with the lowest index.
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
    >>> message = truncated_message([0.5, 0.125, 0.375], top_k=2, token=1, bits=3)
    >>> sent = message.drafts[0]
    >>> sent.support.tolist(), sent.values.tolist(), sent.token, sent.probability
    ([0, 2], [3, 2], 1, 0.125)
    """
    rows = np.atleast_2d(canonical("draft", draft))
    refuse(rows.ndim != 2, "draft must be (L, V) or (V,)")
    vocabulary = rows.shape[-1]
    sizes = np.atleast_1d(size_up_to(vocabulary).check(np, "top_k", on_host("top_k", top_k)))
    refuse(sizes.shape not in ((1,), rows.shape[:1]), "top_k must be one number, or one number per row")
    drawn = np.atleast_1d(token_of(vocabulary).check(np, "token", on_host("token", token)))
    refuse(drawn.shape != rows.shape[:1], "token must be one number per row")
    bits = number(WHOLE, "bits", bits)
    refuse(not 1 <= bits <= MOST_BITS, f"bits must be in 1..{MOST_BITS}")
    levels = levels_of(rows, bits).astype(np.int64)
    order = np.argsort(-rows, axis=-1, kind="stable")
    chosen = (np.sort(row[:size]) for row, size in zip(order, np.broadcast_to(sizes, len(rows)), strict=True))
    drafts = (
        MixedDraft(TOP_K, i, level[i], None, bits, int(t), float(row[t]))
        for i, level, t, row in zip(chosen, levels, drawn, rows, strict=True)
    )
    return TruncatedMessage(vocabulary, tuple(drafts))


def on_host(name: str, value: Any) -> NDArray[Any]:
    """One argument as an array on the host."""
    return to_numpy(arrays(**{name: value})[1])


def refuse(wrong: bool, sentence: str) -> None:
    """Refuse a message for the reason in the sentence."""
    if wrong:
        raise MessageError(f"{sentence}; make a new message from counts, support and token")


def integers(name: str, value: Any) -> Integers:
    """A row of whole numbers."""
    array = on_host(name, value)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise MessageError(
            f"{name} must be a row of whole numbers; got {array.dtype} of shape {array.shape}; convert it"
        )
    return array.astype(np.int64)


def _ascend(tokens: Integers) -> bool:
    return not (np.any(tokens[:1] < 0) or np.any(np.diff(tokens) <= 0))
