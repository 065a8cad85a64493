"""Machine-checked theory of hybrid language models over a wireless link.

Each topic is a module, which is imported when it is first used:

>>> import hlmtheory as hlm
>>> float(hlm.verification.total_variation([0.25, 0.75], [0.5, 0.5]))
0.25

The names that most programs begin with are also here. Ten tasks, each in a few lines:

Know a round: how often a draft is accepted, and the tokens of a round of 4 drafts.

>>> target, draft = [0.625, 0.25, 0.125], [0.5, 0.25, 0.25]
>>> float(hlm.acceptance_rate(target, draft)), float(hlm.verification.expected_tokens(0.875, 4))
(0.875, 3.896728515625)

Skip verification of sure drafts: the papers' threshold, and one with a guarantee for the next prompt.

>>> u, beta = [0.0, 0.25, 0.5, 1.0], [0.0, 0.125, 0.25, 0.5]  # uncertainty and rejection probability of each token
>>> fit = hlm.uncertainty.fit_linear(u, beta)
>>> round(float(hlm.skipping.skip_thresholds(**fit.line).risk_prone), 3)
1.5
>>> hlm.calibrate([list(zip(u, beta))] * 9, limit=0.15).threshold
0.25
>>> float(hlm.non_acceptance(target, draft))  # Δ of a row; 1 - α is 0.125
0.25

Send a draft: the fewest probabilities whose bias is at most 0.25, as bytes, and what the server decodes.

>>> k = int(hlm.certified_size(draft, 0.25, bits_per_probability=8))
>>> data = hlm.encode(hlm.codec.truncated_message(draft, k=k, token=0, bits=8))
>>> k, len(data), hlm.codec.decoded_rows(hlm.decode(data)).round(2).tolist()
(1, 21, [[0.5, 0.25, 0.25]])

Adapt the support: drop a mean mass of 0.25 at most, up to every position.

>>> found = hlm.conformal.MassBudgetController(0.25).run([[1.0, 0.0, 0.0], target, draft])
>>> found.support.sum(axis=-1).tolist(), found.dropped.tolist()
([1, 1, 2], [0.0, 0.375, 0.25])

Know the link: the mean seconds of 16 kbit over a fading link of 1 MHz, if the worst 10% of the blocks are not used.

>>> link = hlm.channel.Rayleigh(10.0)
>>> round(float(link.mean_latency(16e3, 1e6, outage=0.1).value), 4)
0.0059

Choose a draft length, and know its tokens a second.

>>> fixed, marginal = hlm.draft_length.round_costs(1e6, bits_per_token=2e3, cloud_base_s=0.03, edge_slope_s=0.012)
>>> length = hlm.optimal_draft_length(0.8, fixed, marginal, 16)
>>> int(length), round(float(hlm.draft_length.etgr(0.8, length, fixed, marginal)), 1)
(2, 42.1)

Batch the tasks of a server: in which batches, how long, and how far that can be from the best.

>>> from hlmtheory.serving import Device, ModelShape, Service, Task
>>> models = ModelShape(2, 768, 3072), ModelShape(32, 4096, 11008)
>>> service = Service(*models, Device(4.11e-13, 5.6e-4), Device(2.08e-14, 1.28e-2), acceptance=0.8, memory=16e9)
>>> best = hlm.batching.plan([Task(100, 256), Task(400, 256), Task(120, 256)], service)
>>> best.batches, best.draft_length, round(best.latency, 2), best.gap
(((0, 2, 1),), 6, 1.63, 0.0)

Plan one user: what to send and how many drafts, with a bound that no other plan exceeds. Without a limit the risk is 0.

>>> hulls = hlm.policy.lower_hulls([[1000.0, 8000.0]], [[0.0625, 0.0]])  # bits and risk of two messages
>>> costs = hlm.policy.StageCosts(draft_s=0.0125, verify_s=0.03125, seconds_per_bit=1e-6, round_trip_s=0.015625)
>>> plans = [hlm.policy.plan_user(hulls, costs, [0.75] * 4, risk_limit=limit) for limit in (0.0, 0.25)]
>>> [(plan.draft_length, round(plan.rate, 1), round(plan.risk, 3)) for plan in plans]  # the second keeps all drafts
[(2, 26.3, 0.0), (4, 80.0, 0.25)]

Check a system: how far its law is from the target's at least, after 2,000 draws of a token of probability 0.5.

>>> test = hlm.lossless.LawTest(tests=1, error=0.001)
>>> test.update(outcome=[[1.0] * 2000], expected=[[0.5] * 2000])
>>> test.draws, round(test.bound, 2)
(2000, 0.45)

Share a band so that all users finish together.

>>> hlm.ofdma.minmax_shares([100.0, 100.0], snr=[1.0, 15.0]).tolist()
[0.8, 0.2]
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
    "non_acceptance": "skipping",
    "calibrate": "skipping",
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
