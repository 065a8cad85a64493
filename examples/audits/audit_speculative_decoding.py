"""speculative-decoding: whole texts of its two models, alone and in a batch."""

import torch
import toy
from speculative_decoding.speculative_decoding import Decoder, speculative_decoding

torch.manual_seed(1)
target, draft = (Decoder(num_tokens=toy.V, dim=8, depth=1, heads=2, dim_head=8).eval() for _ in range(2))
for model in (target, draft):
    model.token_emb.weight.data *= 3
TABLES = toy.tables(target, draft)
settings = {"gamma": toy.DRAFTS, "filter_thres": 0.0}


def batches(prompts, n, seed):
    torch.manual_seed(seed)
    asked = [torch.tensor([prompt]).repeat(n, 1) for prompt in prompts]
    return [speculative_decoding(target, draft, x, x.shape[1] + toy.DEPTH, **settings)[0].tolist() for x in asked]


def single(prompts, n, seed):
    torch.manual_seed(seed)
    return [[batches([prompt], 1, int(torch.randint(2**31, ())))[0][0] for _ in range(n)] for prompt in prompts]


CALLS = {"single": ("speculative_decoding, one text", {}), "batches": ("speculative_decoding, a batch", {})}
