"""rotalabs-accel: its ``rejection_sample`` sees q of the draft token alone."""

import torch
from rotalabs_accel.speculative import rejection_sample
from toy import drafted, sampler


def draw(text):
    (token, *_), q, p = drafted(text)
    return [int(rejection_sample(p[0, token], q[0, token], torch.tensor(token), p[0].log())[1])]


sample = sampler(draw)
CALLS = {"sample": ("rejection_sample", {})}
