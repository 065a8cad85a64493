"""mini-infer: one round of speculative decoding; its models return a pair."""

import torch
from mini_infer.speculative.verifier import speculative_step
from toy import DRAFT, DRAFTS, TARGET, sampler


def target(ids):
    """Return logits and no cache."""
    return TARGET(ids).logits, None


def draft(ids):
    """Return logits and no cache."""
    return DRAFT(ids).logits, None


def draw(text, temperature=1.0):
    """Return the tokens of one round."""
    return speculative_step(target, draft, torch.tensor([text]), DRAFTS, temperature)[0]


sample = sampler(draw)
greedy = sampler(lambda text: draw(text, 0.0))
CALLS = {"sample": ("speculative_step", {}), "greedy": ("speculative_step", {"temperature": 0.0})}
