"""Every decoding method, as a small object that makes the decisions with functions of :mod:`hlmtheory`."""

from __future__ import annotations

from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import Dssd, FixedLength, FlexSpec, Lookahead, PromptLookup
from validation.decoding.methods.quantized import AllocatedSqs, CSqs, DenseQs, KSqs, Sqs
from validation.decoding.methods.single_draft import (
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
