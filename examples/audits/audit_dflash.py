"""dflash: the rule by which it verifies a block."""

import torch
from dflash.model import _rejection_sample
from toy import drafted, sampler, targets


def draw(text):
    """Return the tokens of one round."""
    drafts, rows = drafted(text)
    kept, last = _rejection_sample(torch.tensor([drafts]), targets(text, drafts)[None], torch.stack(rows)[None])
    return [*drafts[:kept], int(last)]


sample = sampler(draw)
CALLS = {"sample": ("_rejection_sample", {})}
