"""Messages padded to a few sizes: the message, 0x80, and bytes of 0 up to the smallest size that holds both."""

from __future__ import annotations

from bisect import bisect_left

from hlmtheory._domains import DomainError
from hlmtheory.codec import MalformedError, UnexpectedError

_END = b"\x80"


def padded(message: bytes, sizes: tuple[int, ...]) -> bytes:
    """Return the message, padded to the smallest size that holds it; unpadded if ``sizes`` is empty.

    Sizes are in bytes and ascend.
    """
    if not sizes:
        return message
    place = bisect_left(sizes, len(message) + len(_END))
    if place == len(sizes):
        raise DomainError(
            f"message_sizes must hold every message and a byte of its end; got {sizes[-1]} bytes at most for a message "
            f"of {len(message)}; plan again"
        )
    return (message + _END).ljust(sizes[place], b"\0")


def unpadded(message: bytes, sizes: tuple[int, ...]) -> bytes:
    """Return the message without its pad, or raise a CodecError."""
    if not sizes:
        return message
    if len(message) not in sizes:
        raise UnexpectedError(f"{len(message)} bytes, and messages are padded to {', '.join(map(str, sizes))}")
    body = message.rstrip(b"\0")
    if not body.endswith(_END) or padded(body[: -len(_END)], sizes) != message:
        raise MalformedError("the message has no end, or a longer pad than it needs; no device sends that")
    return body[: -len(_END)]
