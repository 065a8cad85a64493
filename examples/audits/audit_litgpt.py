"""litgpt: one round, and its whole ``generate``."""

import torch
from litgpt.generate.speculative_decoding import generate, speculative_decoding
from toy import DEPTH, DRAFT, DRAFTS, TARGET, sampler


class Positions(torch.nn.Module):
    """A toy model that keeps the tokens at their positions, as GPT of litgpt does its keys."""

    max_seq_length = 32

    def __init__(self, model):
        super().__init__()
        self.model, self.text = model, torch.zeros(self.max_seq_length, dtype=torch.long)

    def forward(self, idx, input_pos, input_pos_maxp1=None):
        self.text[input_pos] = idx[0]
        return self.model(self.text[None, : int(input_pos[-1]) + 1]).logits[:, input_pos]


draft, target = Positions(DRAFT), Positions(TARGET)


def draw(text, temperature=1.0, **more):
    draft.text[: len(text)] = target.text[: len(text)] = torch.tensor(text)
    last = torch.tensor(text[-1:]), torch.tensor([len(text) - 1]), len(text)
    return speculative_decoding(draft, target, *last, DRAFTS, temperature=temperature, **more).tolist()


def whole(text):
    made = generate(draft, target, torch.tensor(text), len(text) + DEPTH + 2, speculative_k=DRAFTS)[0]
    return made[len(text) :].tolist()


sample = sampler(draw)
top_p = sampler(lambda text: draw(text, top_p=0.7))
greedy = sampler(lambda text: draw(text, temperature=0.0))
generated = sampler(whole, enumerable=False)
CALLS = {
    "sample": ("speculative_decoding", {}),
    "top_p": ("speculative_decoding", {"top_p": 0.7}),
    "greedy": ("speculative_decoding", {"temperature": 0.0}),
    "generated": ("generate", {}),
}
