"""Machine-checked theory of hybrid language models over a wireless link.

Each topic is a module, which is imported when it is first used:

>>> import hlmtheory as hlm
>>> float(hlm.verification.total_variation([0.25, 0.75], [0.5, 0.5]))
0.25

The names that most programs begin with are also here; what a device and a server of a link need is in ``hlm.wire``.

>>> target, draft = [0.625, 0.25, 0.125], [0.5, 0.25, 0.25]
>>> float(hlm.acceptance_rate(target, draft)), float(hlm.verification.expected_tokens(0.875, 4))
(0.875, 3.896728515625)

The fewest probabilities whose bias is at most 0.25, as bytes, and what the server decodes:

>>> k = int(hlm.certified_size(draft, 0.25, bits_per_probability=8))
>>> data = hlm.encode(hlm.codec.truncated_message(draft, top_k=k, token=0, bits=8))
>>> k, len(data), hlm.codec.decoded_rows(hlm.decode(data)).round(2).tolist()
(1, 21, [[0.5, 0.25, 0.25]])

What to send and how many drafts, with a bound that no other plan exceeds; without a limit the risk is 0:

>>> hulls = hlm.policy.lower_hulls([[1000.0, 8000.0]], [[0.0625, 0.0]])  # bits and risk of two messages
>>> costs = hlm.policy.StageCosts(draft_s=0.0125, verify_s=0.03125, seconds_per_bit=1e-6, round_trip_s=0.015625)
>>> plans = [hlm.policy.plan_user(hulls, costs, [0.75] * 4, risk_limit=limit) for limit in (0.0, 0.25)]
>>> [(plan.draft_length, round(plan.rate, 1), round(plan.risk, 3)) for plan in plans]  # the second keeps all drafts
[(2, 26.3, 0.0), (4, 80.0, 0.25)]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlmtheory.claims import Claim

__version__ = "0.4.0"

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
    "wire",
)
"""The public modules; ``__all__`` of each lists its public names."""

SHORTCUTS = {
    "softmax": "verification",
    "total_variation": "verification",
    "acceptance_rate": "verification",
    "non_acceptance": "skipping",
    "calibrate": "skipping",
    "certified_size": "truncation",
    "resampling_bias": "truncation",
    "encode": "codec",
    "decode": "codec",
    "optimal_draft_length": "draft_length",
    "open_trace": "traces",
}
"""Names that can also be imported from the package, and the module of each."""

__all__ = ["MODULES", "SHORTCUTS", "__version__", "all_claims", *MODULES, *SHORTCUTS]


def all_claims() -> dict[str, Claim]:
    """Every claim by id, in the order of :data:`MODULES`."""
    from hlmtheory.theorems import THEOREMS

    order = {module: place for place, module in enumerate(MODULES)}  # a user's own claims come last
    return dict(sorted(THEOREMS.items(), key=lambda item: order.get(item[0].partition(".")[0], len(order))))


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return import_module(f"hlmtheory.{name}")
    if name in SHORTCUTS:
        return getattr(import_module(f"hlmtheory.{SHORTCUTS[name]}"), name)
    raise AttributeError(f"module 'hlmtheory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
