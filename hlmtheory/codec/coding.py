"""Messages to bytes and back: the frame, and the coder of each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from hlmtheory._array import brief
from hlmtheory._domains import DomainError, instance
from hlmtheory.codec.entropy import decode_entropy, encode_entropy
from hlmtheory.codec.enumerative import decode_lattice, encode_lattice
from hlmtheory.codec.frame import (
    ENTROPY_ROWS,
    LATTICE_ROWS,
    MIXED_ROWS,
    TOKENS,
    TRUNCATED_ROWS,
    MalformedError,
    MessageError,
    TruncatedError,
    framed,
    unframed,
)
from hlmtheory.codec.limits import Limits
from hlmtheory.codec.messages import LatticeMessage, TruncatedMessage
from hlmtheory.codec.mixed import MixedMessage
from hlmtheory.codec.mixed_coding import decode_mixed, encode_mixed
from hlmtheory.codec.tokens import TokenMessage, decode_tokens, encode_tokens
from hlmtheory.codec.truncated import decode_truncated, encode_truncated

Message: TypeAlias = LatticeMessage | TruncatedMessage | MixedMessage | TokenMessage

_CODERS = {"enumerative": (LATTICE_ROWS, encode_lattice), "entropy": (ENTROPY_ROWS, encode_entropy)}
_LIMITED: dict[int, Callable[[bytes, Limits | None], Message]] = {
    LATTICE_ROWS: decode_lattice,
    MIXED_ROWS: decode_mixed,
    TOKENS: decode_tokens,
}
_UNLIMITED: dict[int, Callable[[bytes], Message]] = {ENTROPY_ROWS: decode_entropy, TRUNCATED_ROWS: decode_truncated}


def encode(message: Message, *, coder: str = "enumerative") -> bytes:
    """The bytes of a batch of drafts.

    Parameters
    ----------
    message : LatticeMessage, TruncatedMessage, MixedMessage or TokenMessage
    coder : str
        For a lattice message: ``"enumerative"``, within one bit of c-sqs (1) and the tokens, or ``"entropy"``, which is
        faster and often shorter for wide supports, and needs the extra ``codec``. The others have one form and
        ignore it.

    Returns
    -------
    bytes

    Raises
    ------
    MessageError
        If the batch is too long for the coder, or there is no such coder.
    MissingCoderError
        If the entropy coder's library is not installed.

    Examples
    --------
    >>> from hlmtheory.codec import lattice_message
    >>> message = lattice_message([6, 0, 4, 0], support=[True, False, True, False], token=2)
    >>> encode(message).hex(" ")
    '01 00 0d 04 01 03 02 0a 67 0e 5c 6d 7a'
    >>> decode(encode(message)) == message
    True
    """
    if isinstance(message, TruncatedMessage):
        return framed(TRUNCATED_ROWS, encode_truncated(message))
    if isinstance(message, MixedMessage):
        return framed(MIXED_ROWS, encode_mixed(message))
    if isinstance(message, TokenMessage):
        return framed(TOKENS, encode_tokens(message))
    if coder not in tuple(_CODERS):
        raise MessageError(f"coder must be one of {', '.join(_CODERS)}; got {brief(coder)}; choose one")
    instance("message", message, LatticeMessage)
    kind, body = _CODERS[coder]
    return framed(kind, body(message))


def decode(data: bytes) -> Message:
    """The message in these bytes, or an error that says what is wrong with them.

    A message has one form in bytes: encoding the answer with the same coder gives the same bytes.

    Parameters
    ----------
    data : bytes

    Returns
    -------
    LatticeMessage, TruncatedMessage, MixedMessage or TokenMessage

    Raises
    ------
    TruncatedError, ExtendedError, VersionError, ChecksumError, MalformedError
        If the bytes were cut, extended or damaged, have another version, or are not the output of an encoder.
    MissingCoderError
        If they are entropy-coded and the library is not installed.

    Examples
    --------
    >>> try:
    ...     decode(bytes.fromhex("01 00 0d 04"))
    ... except TruncatedError as error:
    ...     print(error)
    4 of 13 bytes; the message was cut
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be bytes; got {brief(data)}; give what encode returned")
    return decoded(bytes(data), None)


def decoded(data: bytes, limits: Limits | None) -> Message:
    """The message in these bytes, if it is within the limits; they exclude entropy-coded and truncated rows."""
    if limits is not None:
        limits.check_length(len(data))
    kind, body = unframed(data)
    if limits is not None:
        limits.check_kind(kind)
    if kind not in _LIMITED and kind not in _UNLIMITED:
        raise MalformedError(f"there is no kind {kind} of message; no encoder writes that")
    try:
        message = _LIMITED[kind](body, limits) if kind in _LIMITED else _UNLIMITED[kind](body)
        again = encode(message, coder="entropy" if kind == ENTROPY_ROWS else "enumerative")
    except (DomainError, MessageError, TruncatedError) as error:  # the check is right, but the body is not a message
        raise MalformedError(f"{error}; no encoder writes that") from error
    if again != data:
        raise MalformedError("the message has other bytes when it is encoded again; no encoder writes that")
    return message
