"""Machine-checked theory of hybrid language models over a wireless link.

Each topic is a module, which is imported when it is first used:

>>> import hlmtheory as hlm
>>> float(hlm.verification.total_variation([0.25, 0.75], [0.5, 0.5]))
0.25

The names that most programs begin with are also here:

>>> float(hlm.acceptance_rate([0.25, 0.75], [0.5, 0.5]))
0.75
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlmtheory.claims import Claim

__version__ = "0.3.0"

MODULES = (
    "verification",
    "uncertainty",
    "skipping",
    "truncation",
    "lattice",
    "codec",
    "conformal",
    "channel",
    "ofdma",
    "draft_length",
    "serving",
    "batching",
    "policy",
    "traces",
    "lossless",
    "shared_seed",
    "vocabulary",
)
"""The public modules; ``__all__`` of each lists its public names."""

SHORTCUTS = {
    "softmax": "verification",
    "total_variation": "verification",
    "acceptance_rate": "verification",
    "certified_size": "truncation",
    "resampling_distortion": "truncation",
    "resampling_bias": "truncation",
    "encode": "codec",
    "decode": "codec",
    "optimal_draft_length": "draft_length",
    "open_trace": "traces",
}
"""Names that can also be imported from the package, and the module of each."""

__all__ = ["MODULES", "SHORTCUTS", "__version__", "all_claims", *MODULES, *SHORTCUTS]


def all_claims() -> dict[str, Claim]:
    """Every claim of every module, by id, in the order of :data:`MODULES`."""
    claims = [claim for module in MODULES for claim in getattr(import_module(f"hlmtheory.{module}"), "CLAIMS", ())]
    return {claim.id: claim for claim in claims}


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return import_module(f"hlmtheory.{name}")
    if name in SHORTCUTS:
        return getattr(import_module(f"hlmtheory.{SHORTCUTS[name]}"), name)
    raise AttributeError(f"module 'hlmtheory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
