"""rotalabs-accel: its ``rejection_sample`` sees q of the draft token alone."""

from rotalabs_accel.speculative import rejection_sample
from toy import DRAFT, TARGET, row, sampler, torch


def draw(text):
    """Return one token."""
    q = row(DRAFT, text)
    token = torch.multinomial(q, 1)[0]
    logits = TARGET(torch.tensor([text])).logits[0, -1]
    return [int(rejection_sample(logits.softmax(-1)[token], q[token], token, logits)[1])]


sample = sampler(draw)
CALLS = {"sample": ("rejection_sample", {})}
