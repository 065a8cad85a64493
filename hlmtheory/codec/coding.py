"""Messages to bytes and back: the frame, and the coder of each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from hlmtheory._array import brief
from hlmtheory._domains import DomainError, instance
from hlmtheory.codec.entropy import decode_entropy, encode_entropy
from hlmtheory.codec.enumerative import decode_lattice, encode_lattice
from hlmtheory.codec.frame import MalformedError, MessageError, TruncatedError, framed, unframed
from hlmtheory.codec.messages import LatticeMessage, TruncatedMessage
from hlmtheory.codec.mixed import MixedMessage
from hlmtheory.codec.mixed_coding import decode_mixed, encode_mixed
from hlmtheory.codec.truncated import decode_truncated, encode_truncated

Message: TypeAlias = LatticeMessage | TruncatedMessage | MixedMessage

_LATTICE, _ENTROPY, _TRUNCATED, _MIXED = range(4)
_CODERS = {"enumerative": (_LATTICE, encode_lattice), "entropy": (_ENTROPY, encode_entropy)}
_DECODERS: dict[int, Callable[[bytes], Message]] = {
    _LATTICE: decode_lattice,
    _ENTROPY: decode_entropy,
    _TRUNCATED: decode_truncated,
    _MIXED: decode_mixed,
}
_NAMES = {_LATTICE: "enumerative", _ENTROPY: "entropy", _TRUNCATED: "enumerative", _MIXED: "enumerative"}
"""A truncated or mixed message has one form, whatever the coder."""


def encode(message: Message, *, coder: str = "enumerative") -> bytes:
    """The bytes of a batch of drafts.

    Parameters
    ----------
    message : LatticeMessage, TruncatedMessage or MixedMessage
    coder : str
        For a lattice message: ``"enumerative"``, within one bit of c-sqs (1) and the tokens, or ``"entropy"``, which is
        faster and often shorter for wide supports, and needs the extra ``codec``. A truncated or mixed message has one
        form and ignores it.

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
        return framed(_TRUNCATED, encode_truncated(message))
    if isinstance(message, MixedMessage):
        return framed(_MIXED, encode_mixed(message))
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
    LatticeMessage, TruncatedMessage or MixedMessage

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
    data = bytes(data)
    kind, body = unframed(data)
    if kind not in _DECODERS:
        raise MalformedError(f"there is no kind {kind} of message; no encoder writes that")
    try:
        message = _DECODERS[kind](body)
        again = encode(message, coder=_NAMES[kind])
    except (DomainError, MessageError, TruncatedError) as error:  # the check is right, but the body is not a message
        raise MalformedError(f"{error}; no encoder writes that") from error
    if again != data:
        raise MalformedError("the message has other bytes when it is encoded again; no encoder writes that")
    return message
