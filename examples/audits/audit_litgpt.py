"""litgpt: one round, and its whole ``generate``; the toy models keep the tokens at their positions."""

import torch
from litgpt.generate.speculative_decoding import generate, speculative_decoding
from toy import DEPTH, DRAFT, DRAFTS, TARGET, sampler


class Positions(torch.nn.Module):
    """A model that is called with the positions of its tokens, as GPT of litgpt."""

    max_seq_length = 32

    def __init__(self, model):
        super().__init__()
        self.model, self.text = model, torch.zeros(self.max_seq_length, dtype=torch.long)

    def forward(self, idx, input_pos, input_pos_maxp1=None):
        """Return the logits of these positions."""
        self.text[input_pos] = idx[0]
        return self.model(self.text[None, : int(input_pos[-1]) + 1]).logits[:, input_pos]


draft, target = Positions(DRAFT), Positions(TARGET)


def draw(text, **settings):
    """Return the tokens of one round."""
    place = len(text) - 1
    for model in (draft, target):
        model.text[: len(text)] = torch.tensor(text)
    last, at = torch.tensor(text[-1:]), torch.tensor([place])
    return speculative_decoding(draft, target, last, at, place + 1, DRAFTS, **{"temperature": 1.0, **settings}).tolist()


def whole(prompt):
    """Return the new tokens of ``generate``."""
    made = generate(draft, target, torch.tensor(prompt), len(prompt) + DEPTH + 2, speculative_k=DRAFTS)[0]
    return made[len(prompt) :].tolist()


sample = sampler(draw)
top_p = sampler(lambda text: draw(text, top_p=0.8))
greedy = sampler(lambda text: draw(text, temperature=0.0))
generated = sampler(whole, enumerable=False)
CALLS = {
    "sample": ("speculative_decoding", {}),
    "top_p": ("speculative_decoding", {"top_p": 0.8}),
    "greedy": ("speculative_decoding", {"temperature": 0.0}),
    "generated": ("generate", {}),
}
