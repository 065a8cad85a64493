"""The best policy for given models, link and limits: which drafts are skipped, what is sent, how many, which share.

The results of all five papers are parts of one problem. A round of one user either keeps its first draft without
verification (u-hlm), or sends K drafts (flexspec), each with a message of few bits (cu-hlm, c-sqs). Several users share
a band (edge-sd), and a server. Each answer comes with a bound that no other plan exceeds.

========= =================================================================== ============ ===========
symbol    name                                                                unit         shape
========= =================================================================== ============ ===========
α_i       ``acceptances``, of draft i given that drafts 1..i-1 were accepted  1            (K_max,)
β̂         ``rejection``, estimated probability that a row's draft is rejected 1            (N,)
K         ``draft_length`` of a round that is sent; 0: the server alone       tokens
E, A      ``tokens`` and ``fixed_s``, means of a round; A without air time    tokens, s    (..., U)
c         ``band_s``, air time of a round on the whole band                   s            (..., U)
w, ω      ``shares`` of the band, and ``weights`` of the users                1            (..., U)
X         ``rate``, E/(A + c/w)                                               tokens/s     (..., U)
θ, μ      prices of a second and of a unit of risk                            tokens
z         seconds a bit takes: s/w with s of the whole band                   s
ν         price of the band
η, σ      price of the server's time, and the time of it that a round needs   1, s
========= =================================================================== ============ ===========

The risk of a decision bounds what it adds to the total variation between a token's law and the target model's: half of
the certified bias of the message at this position, and β̂ besides if the draft is skipped (``skipping.bill_joint``).
So a limit for each token, times the number of tokens, bounds the whole text (``skipping.bill_text``). It is a bound if
β̂ is right in the mean over the drafts that are sent, and right or too large in the mean over those that are skipped.
"""

from __future__ import annotations

from hlmtheory.policy.band import BandUser, SharedPlan, plan_users
from hlmtheory.policy.capacity import SharedServer, server_rates
from hlmtheory.policy.claims import CLAIMS
from hlmtheory.policy.codec_hulls import codec_hulls
from hlmtheory.policy.colocated import CapacityGain, ColocatedPlan, capacity_gain, colocated_plan
from hlmtheory.policy.costs import DeviceRule, PlanPart, StageCosts, UserPlan
from hlmtheory.policy.device import DevicePolicy
from hlmtheory.policy.device_parts import (
    CertifiedAnswers,
    CertifiedRows,
    DeviceDraft,
    DraftProbabilities,
    Guarantee,
    LatticeRows,
    SeededTokens,
    ServerAnswer,
    StreamedTokens,
    UncertaintyLine,
    threshold_rule,
)
from hlmtheory.policy.hulls import Hulls, lower_hulls
from hlmtheory.policy.queueing import QueueRates, queue_rates
from hlmtheory.policy.served import ServedPlan, plan_served
from hlmtheory.policy.server import ServerPolicy
from hlmtheory.policy.session import DeviceSession, ServerSession, envelope_bits
from hlmtheory.policy.shares import throughput_shares
from hlmtheory.policy.streaming import StreamedDevice, StreamedServer
from hlmtheory.policy.user import plan_user

__all__ = [
    "CLAIMS",
    "BandUser",
    "CapacityGain",
    "CertifiedAnswers",
    "CertifiedRows",
    "ColocatedPlan",
    "DeviceDraft",
    "DevicePolicy",
    "DeviceRule",
    "DeviceSession",
    "DraftProbabilities",
    "Guarantee",
    "Hulls",
    "LatticeRows",
    "PlanPart",
    "QueueRates",
    "SeededTokens",
    "ServedPlan",
    "ServerAnswer",
    "ServerPolicy",
    "ServerSession",
    "SharedPlan",
    "SharedServer",
    "StageCosts",
    "StreamedDevice",
    "StreamedServer",
    "StreamedTokens",
    "UncertaintyLine",
    "UserPlan",
    "capacity_gain",
    "codec_hulls",
    "colocated_plan",
    "envelope_bits",
    "lower_hulls",
    "plan_served",
    "plan_user",
    "plan_users",
    "queue_rates",
    "server_rates",
    "threshold_rule",
    "throughput_shares",
]
