"""specdec: its class without the loading of models."""

import torch
from specdec import SpecDecoder
from toy import DRAFT, DRAFTS, TARGET, sampler

decoder = object.__new__(SpecDecoder)
decoder.device, decoder.small_model, decoder.big_model = "cpu", DRAFT, TARGET


def draw(text):
    ids = torch.tensor([text])
    return decoder.verify(ids, *decoder.generate_small(ids, DRAFTS))


sample = sampler(draw)
CALLS = {"sample": ("SpecDecoder.verify", {})}
