"""The bytes of a server's answer: how many drafts are accepted, then a token, or p at the rejected draft.

What follows the count is known from the policy and the count itself, so it is not said. The count takes as many bits as
that of the drafts, a token ⌈log₂ V⌉, both together in whole bytes; p takes V numbers in float32. Rounding p to them
moves the law of a token by 2^-24 at most. Under a policy that pads its messages every answer has the bytes of one to K
drafts.
"""

from __future__ import annotations

import numpy as np

from hlmtheory._domains import DomainError
from hlmtheory._simplex import canonical
from hlmtheory.codec import MalformedError
from hlmtheory.codec.bitfields import BitReader, fixed
from hlmtheory.policy.device import DevicePolicy
from hlmtheory.policy.device_parts import DraftProbabilities, ServerAnswer

_NUMBER = np.dtype(">f4")


def answer_length(policy: DevicePolicy, drafts: int) -> int:
    """Return the most bytes of an answer to a message, by its number of drafts."""
    if policy.message_sizes:
        drafts = policy.rule.draft_length
    short = -(-(drafts.bit_length() + (policy.vocabulary - 1).bit_length()) // 8)
    sends_p = isinstance(policy.messages, DraftProbabilities) and drafts
    return max(short, -(-drafts.bit_length() // 8) + _NUMBER.itemsize * policy.vocabulary) if sends_p else short


def answer_bytes(policy: DevicePolicy, answer: ServerAnswer, drafts: int) -> bytes:
    """Return the bytes of the answer to a message, by its number of drafts."""
    parts = [fixed(answer.accepted, drafts.bit_length())] if drafts else []
    if answer.token is not None:
        parts.append(fixed(answer.token, (policy.vocabulary - 1).bit_length()))
    head = np.packbits(np.concatenate(parts)).tobytes()
    if policy.message_sizes:
        return head.ljust(answer_length(policy, drafts), b"\0")
    return head if answer.target is None else head + answer.target.astype(_NUMBER).tobytes()


def answer_of(policy: DevicePolicy, data: bytes, drafts: int) -> ServerAnswer:
    """Return the answer of these bytes, or refuse them."""
    if not data:
        raise MalformedError("the answer has no bytes; no server writes that")
    bits = BitReader(data[: answer_length(policy, 0) + 2])
    accepted = bits.fixed(drafts.bit_length()) if drafts else 0
    if accepted > drafts:
        raise MalformedError(f"{accepted} of {drafts} drafts are accepted; no server writes that")
    if isinstance(policy.messages, DraftProbabilities) and accepted < drafts:
        target = _target(policy.vocabulary, data[-(-drafts.bit_length() // 8) :])
        again = ServerAnswer(accepted, None, target)
    elif accepted < drafts or policy.bonus or not drafts:
        again = ServerAnswer(accepted, bits.fixed((policy.vocabulary - 1).bit_length()))
    else:
        again = ServerAnswer(accepted, None)
    if answer_bytes(policy, again, drafts) != data or (again.token or 0) >= policy.vocabulary:
        raise MalformedError("the answer is not one to these drafts; no server writes that")
    return again


def _target(vocabulary: int, data: bytes) -> np.ndarray:
    """P as it was sent, (V,) float32; checked to be a distribution."""
    if len(data) != _NUMBER.itemsize * vocabulary:
        raise MalformedError(f"{len(data)} bytes are not {vocabulary} probabilities; no server writes that")
    row = np.frombuffer(data, dtype=_NUMBER).astype(np.float32)
    try:
        canonical("target", row)
    except DomainError as error:
        raise MalformedError(f"{error}; no server writes that") from error
    return row
