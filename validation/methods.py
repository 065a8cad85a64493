"""Every decoding method, as a small object that makes the decisions with functions of :mod:`hlmtheory`."""

from __future__ import annotations

from validation.decoding.method import Method
from validation.decoding.several import Dssd, FixedLength, FlexSpec, Lookahead, PromptLookup
from validation.decoding.single import (
    CloudOnly,
    CuHlm,
    CuHlmCertified,
    CuHlmOffline,
    CuHlmOnline,
    Hlm,
    LargeOnly,
    RandHlm,
    SmallOnly,
    UHlm,
)
from validation.decoding.sqs import AllocatedSqs, CSqs, DenseQs, KSqs, Sqs

__all__ = [
    "AllocatedSqs",
    "CSqs",
    "CloudOnly",
    "CuHlm",
    "CuHlmCertified",
    "CuHlmOffline",
    "CuHlmOnline",
    "DenseQs",
    "Dssd",
    "FixedLength",
    "FlexSpec",
    "Hlm",
    "KSqs",
    "LargeOnly",
    "Lookahead",
    "Method",
    "PromptLookup",
    "RandHlm",
    "SmallOnly",
    "Sqs",
    "UHlm",
]
