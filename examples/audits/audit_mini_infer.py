"""mini-infer: one round of speculative decoding; its models return logits and a cache."""

import torch
from mini_infer.speculative.verifier import speculative_step
from toy import DRAFT, DRAFTS, TARGET, sampler

models = [lambda ids, model=model: (model(ids).logits, None) for model in (TARGET, DRAFT)]
sample = sampler(lambda text: speculative_step(*models, torch.tensor([text]), DRAFTS, 1.0)[0])
greedy = sampler(lambda text: speculative_step(*models, torch.tensor([text]), DRAFTS, 0.0)[0])
CALLS = {"sample": ("speculative_step", {}), "greedy": ("speculative_step", {"temperature": 0.0})}
