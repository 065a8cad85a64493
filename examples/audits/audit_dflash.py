"""dflash: the rule by which it verifies a block."""

import torch
from dflash.model import _rejection_sample
from toy import drafted, sampler


def draw(text):
    drafts, q, p = drafted(text)
    kept, last = _rejection_sample(torch.tensor([drafts]), p[None], q[None])
    return [*drafts[:kept], int(last)]


sample = sampler(draw)
CALLS = {"sample": ("_rejection_sample", {})}
