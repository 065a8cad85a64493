"""core-deepinfer: greedy decoding with drafts."""

from types import SimpleNamespace

from core_deepinfer.speculative import generate_speculative
from toy import DEPTH, DRAFT, DRAFTS, TARGET, V, sampler, torch


class Model:
    """A toy model behind the two functions that the package calls."""

    vocab_size = V

    def __init__(self, model):
        self.model = model

    def tokens(self, prompt):
        """Return the token ids."""
        return tuple(prompt)

    def prefill(self, text):
        """Return the logits of each token; the state is the text."""
        return SimpleNamespace(logits=self.model(torch.tensor([list(text)])).logits[0].numpy(), state=tuple(text))

    def step(self, state, token):
        """Return the logits behind one more token."""
        return self.prefill((*state, token))


def draw(prompt):
    """Return the new tokens of a text."""
    made = generate_speculative(Model(TARGET), Model(DRAFT), prompt, max_tokens=DEPTH, draft_width=DRAFTS)
    return list(made.tokens)


sample = sampler(draw)
CALLS = {"sample": ("generate_speculative", {"temperature": 0.0})}
