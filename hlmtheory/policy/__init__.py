"""The best policy for given models, link and limits: which drafts are skipped, what is sent, how many, which share.

A round keeps its first draft unverified (u-hlm), or sends K drafts (flexspec) with short messages (cu-hlm, c-sqs);
users share a band (edge-sd) and a server. The risk of a decision bounds what it adds to the TV of a token's law.
"""

from __future__ import annotations

from hlmtheory.policy.band import BandUser, plan_users
from hlmtheory.policy.capacity import SharedServer, server_rates, throughput_shares
from hlmtheory.policy.codec_hulls import codec_hulls
from hlmtheory.policy.colocated import capacity_gain, colocated_plan
from hlmtheory.policy.costs import DeviceRule, StageCosts
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
from hlmtheory.policy.streaming import StreamedDevice, StreamedServer
from hlmtheory.policy.user import plan_user

__all__ = [
    "BandUser",
    "CertifiedAnswers",
    "CertifiedRows",
    "DeviceDraft",
    "DevicePolicy",
    "DeviceRule",
    "DeviceSession",
    "DraftProbabilities",
    "Guarantee",
    "Hulls",
    "LatticeRows",
    "QueueRates",
    "SeededTokens",
    "ServedPlan",
    "ServerAnswer",
    "ServerPolicy",
    "ServerSession",
    "SharedServer",
    "StageCosts",
    "StreamedDevice",
    "StreamedServer",
    "StreamedTokens",
    "UncertaintyLine",
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
