"""Messages whose drafts each have the codec that is cheapest for them: top-k, lattice, mixture, or entropy-coded.

The formats of a row are in :mod:`hlmtheory.codec.menu`. After its row each draft has its token, ⌈log₂ V⌉ bits, and, if
acceptance is by the exact q_d, that probability in 64 bits. So the bits of a draft depend on nothing else in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._domains import UNIT_INTERVAL, Domain, flag, instance, number, numbers, option, token_of
from hlmtheory._simplex import canonical
from hlmtheory.codec.frame import LONGEST_MESSAGE, varint
from hlmtheory.codec.menu import ENTROPY, KINDS, LATTICE, PROBABILITY_BITS, TOP_K
from hlmtheory.codec.messages import MOST_BITS, ROUNDING, WHOLE, Integers, integers, keep_batch, refuse
from hlmtheory.codec.rounding import SortedRow, rounding, units_of
from hlmtheory.codec.selection import VOCABULARY, CodecChoice
from hlmtheory.lattice.arithmetic import LARGEST_RESOLUTION
from hlmtheory.truncation.levels import completed, levels_of, values_of


@dataclass(frozen=True, eq=False, slots=True)
class MixedDraft:
    """One draft, in its own codec.

    Parameters
    ----------
    kind : str
        "top-k", "lattice", "mixture" or "entropy".
    support : int64 array, shape (k,)
        The tokens that are written, ascending.
    values : int64 array, shape (k,)
        Levels in 0..2^b - 1, or counts.
    rest : int or None
        Counts of all other tokens together, spread evenly over them. None: they have none, or share what the levels
        of top-k leave.
    bits : int
        b of top-k; 0 for the others, whose ℓ is the sum of the counts.
    token : int
        The drawn token d, any of the vocabulary.
    probability : float or None
        The exact q_d, or None if the server accepts by the decoded q̂_d.

    Raises
    ------
    MessageError
        If the support does not ascend, the values do not fit it, or a number is out of range.
    """

    kind: str
    support: Integers
    values: Integers
    rest: int | None
    bits: int
    token: int
    probability: float | None = None

    def __post_init__(self) -> None:
        kind = option("kind", self.kind, KINDS)
        support, values = integers("support", self.support), integers("values", self.values)
        bits, token = number(WHOLE, "bits", self.bits), number(WHOLE, "token", self.token)
        rest = None if self.rest is None else number(WHOLE, "rest", self.rest)
        own = None if self.probability is None else number(UNIT_INTERVAL, "probability", self.probability)
        refuse(bool(np.any(support[:1] < 0)) or bool(np.any(np.diff(support) <= 0)), "support must ascend from 0 on")
        refuse(values.shape != support.shape, "values must have an entry for each token of the support")
        refuse(bool(np.any(values < 0)) or token < 0, "values and token must be 0 or more")
        if kind == TOP_K:
            refuse(rest is not None or not 1 <= bits <= MOST_BITS, f"bits must be in 1..{MOST_BITS}, and rest None")
            refuse(bool(np.any(values >= 2**bits)), f"values must be below 2^{bits}")
            refuse(int(values.sum()) / (2**bits - 1) > 1.0 + ROUNDING, "values must come to at most 1")
        else:
            refuse(bits != 0 or not support.size, "bits must be 0 and the support not empty for a lattice")
            refuse((rest is None) != (kind == LATTICE) and kind != ENTROPY, "rest must be None for a lattice only")
            refuse(rest is not None and rest < 0, "rest must be 0 or more")
            units = int(values.sum()) + (rest or 0)
            refuse(not 1 <= units <= LARGEST_RESOLUTION, f"values and rest must sum to 1..{LARGEST_RESOLUTION}")
        for name, value in (
            ("support", support),
            ("values", values),
            ("rest", rest),
            ("bits", bits),
            ("token", token),
            ("probability", own),
        ):
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MixedDraft) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in type(self).__slots__
        )

    @property
    def resolution(self) -> int:
        """ℓ of a lattice; 0 for top-k."""
        return 0 if self.kind == TOP_K else int(self.values.sum()) + (self.rest or 0)


@dataclass(frozen=True, slots=True)
class MixedMessage:
    """A batch of drafts over one vocabulary, each in its own codec.

    Parameters
    ----------
    vocabulary : int
        V, 2 or more.
    drafts : tuple of MixedDraft
        At least one; all with a probability, or none.

    Raises
    ------
    MessageError
        If V is out of range, there are no drafts or too many, a token is outside the vocabulary, there is no token for
        the rest, or only some drafts have a probability.
    """

    vocabulary: int
    drafts: tuple[MixedDraft, ...]

    def __post_init__(self) -> None:
        keep_batch(self, MixedDraft)
        for draft in self.drafts:
            inside = bool(np.all(draft.support < self.vocabulary)) and draft.token < self.vocabulary
            refuse(not inside, "support and token must lie within the vocabulary")
            refuse(draft.rest is not None and draft.support.size == self.vocabulary, "rest must have a token left")
        known = {draft.probability is None for draft in self.drafts}
        refuse(len(known) > 1, "drafts must all have a probability, or none")


WHOLE_BITS = Domain(
    f"whole numbers in 1..{8 * LONGEST_MESSAGE:,}",
    lambda xp, value: (value >= 1) & (value <= 8 * LONGEST_MESSAGE),
    "give the bits of each row",
    kind="integer",
)


def message_bytes(vocabulary: int, bits: Array, *, probability: bool = True) -> int:
    """The length of the message of a batch, in bytes, before it is encoded.

    Parameters
    ----------
    vocabulary : int
        V.
    bits : integer array, shape (L,)
        Of the rows, as :func:`cheapest_codec` gives.
    probability : bool
        Whether each draft's own q_d is sent, in 64 bits.

    Returns
    -------
    int
        The frame and the head of the batch, 9 to 18 bytes, and the bits of all rows, tokens and probabilities together,
        rounded up to whole bytes. ``encode`` of :func:`coded_message` has this length.

    Raises
    ------
    ValueError
        If V or a number of bits is not a positive whole number, or the message would be longer than the format allows.

    Examples
    --------
    >>> message_bytes(32_000, [19, 23])
    37
    """
    size = number(VOCABULARY, "vocabulary", vocabulary)
    each = numbers(WHOLE_BITS, "bits", bits).ravel()
    own = (size - 1).bit_length() + PROBABILITY_BITS * flag("probability", probability)
    body = len(varint(size)) + len(varint(each.size)) + 1 + -(-(int(each.sum()) + own * each.size) // 8)
    bare: int = 2 + body + 4
    total = next(bare + width for width in range(1, 6) if len(varint(bare + width)) == width)
    refuse(total > LONGEST_MESSAGE, f"bits must come to a message of at most {LONGEST_MESSAGE} bytes, not {total}")
    return total


def coded_message(draft: Any, choice: CodecChoice, *, token: Any, probability: bool = True) -> MixedMessage:
    """The message of each row in its chosen codec, with the drawn tokens.

    Parameters
    ----------
    draft : array, shape (L, V) or (V,)
        The distributions that the codecs were chosen for.
    choice : CodecChoice
        From :func:`cheapest_codec`, of shape (L,) or ().
    token : integer array, shape (L,) or ()
        The drawn tokens.
    probability : bool
        Whether q_d is sent too, so that acceptance is exact. Without it the server accepts by the decoded q̂_d; the
        certified bias is the same, the acceptance rate is lower by at most half of it.

    Returns
    -------
    MixedMessage
        Its length in bytes is :func:`message_bytes` of the choice's bits.

    Raises
    ------
    ValueError
        If a row is not a distribution, a token is out of range, or the shapes do not fit.

    Examples
    --------
    >>> from hlmtheory.codec import cheapest_codec, decode, encode, message_bytes
    >>> row = [0.5, 0.25, 0.125, 0.125]
    >>> choice = cheapest_codec(row, 0.3)
    >>> message = coded_message(row, choice, token=2)
    >>> decode(encode(message)) == message, len(encode(message)) == message_bytes(4, [choice.bits])
    (True, True)
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
    """Whether the fields of a choice can be those of a menu; nobody but the search needs to make one."""
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


def mixed_row(draft: MixedDraft, vocabulary: int) -> NDArray[np.float64]:
    """The distribution q̂ that the server decodes, (V,); with the exact q_d in a row of top-k, if it is known."""
    value, sent = np.zeros(vocabulary), np.zeros(vocabulary, dtype=np.bool_)
    sent[draft.support] = True
    others = np.ones(vocabulary, dtype=np.bool_)
    if draft.kind == TOP_K:
        value[draft.support] = values_of(draft.values, draft.bits)
        if draft.probability is not None:
            value[draft.token], sent[draft.token], others[draft.token] = draft.probability, True, False
        return completed(value, sent, others)
    value[draft.support] = draft.values / draft.resolution
    if draft.rest is not None:
        value[~sent] = draft.rest / draft.resolution / (vocabulary - draft.support.size)
    return value
