"""The bytes of a server's answer: how many drafts are accepted, then a token, or p at the rejected draft.

The policy and the count tell what follows the count. p takes V float32 numbers, which moves a law by 2^-24 at most.
"""

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import DomainError
from hlmtheory._simplex import canonical
from hlmtheory.codec import decode, decoded_rows, encode, truncated_message
from hlmtheory.codec.frame import BitReader, MalformedError, fixed
from hlmtheory.codec.messages import TruncatedMessage
from hlmtheory.policy.costs import Integers, Numbers
from hlmtheory.policy.device import ANSWER_BITS, DevicePolicy
from hlmtheory.policy.device_parts import CertifiedAnswers, DraftProbabilities, ServerAnswer
from hlmtheory.truncation import certified_size

_NUMBER = np.dtype(">f4")
_HEAD = 32
"""More bytes than the frame, the head and the whole probability of a certified answer take."""


def cut_answer(target: Array, token: int, limit: float) -> bytes:
    """Return the bytes of the fewest probabilities of p (V,) with TV(p, p̂) ≤ ``limit``.

    That of ``token``, the rejected one, is sent whole.
    """
    row: Numbers = canonical("target", target)
    return coded_answer(row, token, int(answer_size(row, limit)))


def answer_size(target: Array, limit: float) -> Integers:
    """Return the fewest probabilities of p (..., V) with TV(p, p̂) ≤ ``limit``."""
    return np.asarray(certified_size(target, 2.0 * limit, bits_per_probability=ANSWER_BITS))


def coded_answer(target: Array, token: int, size: int) -> bytes:
    """Return the bytes of the ``size`` largest probabilities of p (V,), and of that of ``token``."""
    return encode(truncated_message(target, top_k=size, token=token, bits=ANSWER_BITS))


def received_answer(data: bytes, vocabulary: int) -> Numbers:
    """Return p̂ (V,) from the bytes of :func:`cut_answer`, or refuse them."""
    message = decode(data)
    if not isinstance(message, TruncatedMessage) or len(message.drafts) != 1:
        raise MalformedError("the answer is not one truncated distribution; no server writes that")
    if (message.vocabulary, message.bits) != (vocabulary, ANSWER_BITS):
        raise MalformedError(
            f"the answer has V = {message.vocabulary} and {message.bits} bits a probability; no server of V = "
            f"{vocabulary} writes that"
        )
    return np.asarray(decoded_rows(message)[0])


def longest_cut(vocabulary: int) -> int:
    """Return the most bytes of :func:`cut_answer`."""
    return _HEAD + -(-(vocabulary + 1) * ((vocabulary - 1).bit_length() + ANSWER_BITS) // 8)


def answer_length(policy: DevicePolicy, drafts: int) -> int:
    """Return the most bytes of an answer to a message, by its number of drafts."""
    if policy.message_sizes:
        drafts = policy.rule.draft_length
    short = -(-(drafts.bit_length() + (policy.vocabulary - 1).bit_length()) // 8)
    if not isinstance(policy.messages, DraftProbabilities) or not drafts:
        return short
    cut = isinstance(policy.messages, CertifiedAnswers)
    row = longest_cut(policy.vocabulary) if cut else _NUMBER.itemsize * policy.vocabulary
    return max(short, -(-drafts.bit_length() // 8) + row)


def answer_bytes(policy: DevicePolicy, answer: ServerAnswer, drafts: int) -> bytes:
    """Return the bytes of the answer to a message, by its number of drafts."""
    parts = [fixed(answer.accepted, drafts.bit_length())] if drafts else []
    if answer.token is not None:
        parts.append(fixed(answer.token, (policy.vocabulary - 1).bit_length()))
    head = np.packbits(np.concatenate(parts)).tobytes()
    if policy.message_sizes:
        return head.ljust(answer_length(policy, drafts), b"\0")
    if answer.target is None:
        return head
    cut = isinstance(policy.messages, CertifiedAnswers)
    return head + (answer.coded if cut else answer.target.astype(_NUMBER).tobytes())


def answer_of(policy: DevicePolicy, data: bytes, drafts: int) -> ServerAnswer:
    """Return the answer of these bytes, or refuse them."""
    if not data:
        raise MalformedError("the answer has no bytes; no server writes that")
    bits = BitReader(data[: answer_length(policy, 0) + 2])
    accepted = bits.fixed(drafts.bit_length()) if drafts else 0
    if accepted > drafts:
        raise MalformedError(f"{accepted} of {drafts} drafts are accepted; no server writes that")
    if isinstance(policy.messages, DraftProbabilities) and accepted < drafts:
        row = data[-(-drafts.bit_length() // 8) :]
        if isinstance(policy.messages, CertifiedAnswers):
            again = ServerAnswer(accepted, None, received_answer(row, policy.vocabulary), row)
        else:
            again = ServerAnswer(accepted, None, _target(policy.vocabulary, row))
    elif accepted < drafts or policy.bonus or not drafts:
        again = ServerAnswer(accepted, bits.fixed((policy.vocabulary - 1).bit_length()))
    else:
        again = ServerAnswer(accepted, None)
    if answer_bytes(policy, again, drafts) != data or (again.token or 0) >= policy.vocabulary:
        raise MalformedError("the answer is not one to these drafts; no server writes that")
    return again


def _target(vocabulary: int, data: bytes) -> np.ndarray:
    if len(data) != _NUMBER.itemsize * vocabulary:
        raise MalformedError(f"{len(data)} bytes are not {vocabulary} probabilities; no server writes that")
    row = np.frombuffer(data, dtype=_NUMBER).astype(np.float32)
    try:
        canonical("target", row)
    except DomainError as error:
        raise MalformedError(f"{error}; no server writes that") from error
    return row
