"""The best policy for given models, link and limits: which drafts are skipped, what is sent, how many, which share.

A round keeps its first draft unverified (u-hlm), or sends K drafts (flexspec) with short messages (cu-hlm, c-sqs);
users share a band (edge-sd) and a server. The risk of a decision bounds what it adds to the TV of a token's law.
"""

from hlmtheory.policy.band import BandUser, plan_users
from hlmtheory.policy.capacity import SharedServer, throughput_shares
from hlmtheory.policy.codec_hulls import codec_hulls
from hlmtheory.policy.colocated import capacity_gain, colocated_plan
from hlmtheory.policy.costs import StageCosts
from hlmtheory.policy.hulls import lower_hulls
from hlmtheory.policy.queueing import queue_rates
from hlmtheory.policy.served import plan_served
from hlmtheory.policy.user import plan_user

__all__ = [
    "BandUser",
    "SharedServer",
    "StageCosts",
    "capacity_gain",
    "codec_hulls",
    "colocated_plan",
    "lower_hulls",
    "plan_served",
    "plan_user",
    "plan_users",
    "queue_rates",
    "throughput_shares",
]
