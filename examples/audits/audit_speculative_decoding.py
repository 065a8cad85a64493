"""speculative-decoding: whole texts of its two models."""

import toy
import torch
from speculative_decoding.speculative_decoding import Decoder, base_decoding, speculative_decoding

torch.manual_seed(1)
target, draft = (Decoder(num_tokens=toy.V, dim=8, depth=1, heads=2, dim_head=8).eval() for _ in range(2))
for model in (target, draft):
    model.token_emb.weight.data *= 3
TABLES = {"target": toy.table(target), "draft": toy.table(draft), "prompts": toy.PROMPTS}


def rounds(decode, **more):
    """Return a sampler of whole texts, without a filter of tokens."""

    def sample(prompts, n, seed):
        torch.manual_seed(seed)
        found = []
        for prompt in prompts:
            texts = torch.tensor([prompt]).repeat(more.get("batch", n), 1)
            found.append([])
            while len(found[-1]) < n:
                found[-1] += decode(texts, len(prompt) + toy.DEPTH).tolist()
        return [texts[:n] for texts in found]

    return sample


def drafts(texts, length):
    """Return new tokens with drafts."""
    return speculative_decoding(target, draft, texts, length, gamma=toy.DRAFTS, filter_thres=0.0)[0]


one = rounds(drafts, batch=1)
batch = rounds(drafts)
alone = rounds(lambda texts, length: base_decoding(target, texts, length, filter_thres=0.0))
CALLS = {
    "one": ("speculative_decoding, one text", {}),
    "batch": ("speculative_decoding, a batch", {}),
    "alone": ("base_decoding", {}),
}
