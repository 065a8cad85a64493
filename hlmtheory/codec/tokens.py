"""Messages of tokens alone: ⌈log₂ V⌉ bits for each draft. A shared seed needs no more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hlmtheory._domains import number
from hlmtheory.codec.bitfields import BitReader, columns
from hlmtheory.codec.frame import MalformedError, Reader, varint
from hlmtheory.codec.limits import Limits
from hlmtheory.codec.messages import LARGEST_VOCABULARY, LONGEST_BATCH, WHOLE, keep_batch, refuse


@dataclass(frozen=True, slots=True)
class TokenDraft:
    """One draft of which the token alone is sent.

    Parameters
    ----------
    token : int
        0 or more.

    Raises
    ------
    MessageError
        If the token is negative.
    """

    token: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "token", number(WHOLE, "token", self.token))
        refuse(self.token < 0, "token must be 0 or more")


@dataclass(frozen=True, slots=True)
class TokenMessage:
    """A batch of tokens over one vocabulary.

    Parameters
    ----------
    vocabulary : int
        V, 2 or more.
    drafts : tuple of TokenDraft
        At least one.

    Raises
    ------
    MessageError
        If V is out of range, there are no drafts or too many, or a token is outside the vocabulary.

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
        keep_batch(self, TokenDraft)
        refuse(any(draft.token >= self.vocabulary for draft in self.drafts), "token must lie within the vocabulary")


def encode_tokens(message: TokenMessage) -> bytes:
    """The body of a message of tokens: vocabulary, number of drafts, then the tokens."""
    tokens = np.array([draft.token for draft in message.drafts], dtype=np.int64)
    head = varint(message.vocabulary) + varint(len(message.drafts))
    return head + np.packbits(columns(tokens, (message.vocabulary - 1).bit_length())).tobytes()


def decode_tokens(body: bytes, limits: Limits | None = None) -> TokenMessage:
    """The batch of a body that :func:`encode_tokens` made."""
    reader = Reader(body)
    vocabulary = reader.varint("the vocabulary", 2, LARGEST_VOCABULARY)
    count = reader.varint("the number of drafts", 1, LONGEST_BATCH)
    if limits is not None:
        limits.check_head(vocabulary, count)
    data, width = reader.rest(), (vocabulary - 1).bit_length()
    if len(data) != -(-count * width // 8):
        raise MalformedError(f"{count} tokens do not take {len(data)} bytes; no encoder writes that")
    tokens = BitReader(data).columns(count, width)
    return TokenMessage(vocabulary, tuple(TokenDraft(token) for token in tokens.tolist()))
