"""core-deepinfer: greedy decoding with drafts."""

from types import SimpleNamespace

from core_deepinfer.speculative import generate_speculative
from toy import DEPTH, DRAFT, DRAFTS, TARGET, V, rows, sampler


def model(of):
    """Return a toy model behind the functions that the package calls; its state is the text."""
    made = SimpleNamespace(vocab_size=V, tokens=tuple)
    made.prefill = lambda text: SimpleNamespace(logits=rows(of, text, len(text)).numpy(), state=tuple(text))
    made.step = lambda state, token: made.prefill((*state, token))
    return made


target, draft = model(TARGET), model(DRAFT)
settings = {"max_tokens": DEPTH, "draft_width": DRAFTS}
sample = sampler(lambda text: list(generate_speculative(target, draft, text, **settings).tokens))
CALLS = {"sample": ("generate_speculative", {"temperature": 0.0})}
