"""What a device and a server of the link need: policies, sessions, messages, and the errors of wrong bytes.

A :class:`DevicePolicy` is read from ``policy.json``, or made of a rule (:func:`threshold_rule`, or that of a plan),
what it sends of a draft, and the line that estimates a rejection. :class:`ServerPolicy` answers its messages. Sessions
number the rounds and seal the bytes: :class:`DeviceSession` with :class:`ServerSession` in rounds,
:class:`StreamedDevice` with :class:`StreamedServer` from a device that drafts on. What :func:`hlmtheory.codec.decode`
reads is one of the four messages.

Wrong bytes raise a :class:`CodecError`; the subclass says what is wrong. A refused message changes nothing.
Distributions are rows (V,) over the vocabulary.
"""

from hlmtheory.codec.envelope import AuthenticationError, ForeignError, OutOfOrderError, ReplayedError
from hlmtheory.codec.frame import (
    ChecksumError,
    CodecError,
    ExtendedError,
    MalformedError,
    MessageError,
    TruncatedError,
    UnexpectedError,
    VersionError,
)
from hlmtheory.codec.messages import LatticeMessage, MixedMessage, TokenMessage, TruncatedMessage
from hlmtheory.policy.device import DevicePolicy
from hlmtheory.policy.device_parts import (
    CertifiedAnswers,
    CertifiedRows,
    DraftProbabilities,
    Guarantee,
    LatticeRows,
    SeededTokens,
    ServerAnswer,
    StreamedTokens,
    UncertaintyLine,
    threshold_rule,
)
from hlmtheory.policy.server import ServerPolicy
from hlmtheory.policy.session import DeviceSession, ServerSession, envelope_bits
from hlmtheory.policy.streaming import StreamedDevice, StreamedServer

__all__ = [
    "AuthenticationError",
    "CertifiedAnswers",
    "CertifiedRows",
    "ChecksumError",
    "CodecError",
    "DevicePolicy",
    "DeviceSession",
    "DraftProbabilities",
    "ExtendedError",
    "ForeignError",
    "Guarantee",
    "LatticeMessage",
    "LatticeRows",
    "MalformedError",
    "MessageError",
    "MixedMessage",
    "OutOfOrderError",
    "ReplayedError",
    "SeededTokens",
    "ServerAnswer",
    "ServerPolicy",
    "ServerSession",
    "StreamedDevice",
    "StreamedServer",
    "StreamedTokens",
    "TokenMessage",
    "TruncatedError",
    "TruncatedMessage",
    "UncertaintyLine",
    "UnexpectedError",
    "VersionError",
    "envelope_bits",
    "threshold_rule",
]
