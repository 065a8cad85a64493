"""specstream: its generation over a model of transformers that has no layers to replace."""

from types import SimpleNamespace

import torch
from specstream.speculative_streaming import SpeculativeStreaming, SpeculativeStreamingConfig
from toy import DEPTH, TARGET, sampler

TARGET.config, TARGET.model = SimpleNamespace(hidden_size=4), SimpleNamespace(layers=[])
engine = SpeculativeStreaming(TARGET, SpeculativeStreamingConfig(gamma=2, max_speculation_depth=2))


def draw(prompt):
    """Return the new tokens of a text."""
    return engine.generate_speculative(torch.tensor([prompt]), SimpleNamespace(eos_token_id=-1), DEPTH)["generated_tokens"]


sample = sampler(draw)
CALLS = {"sample": ("SpeculativeStreaming.generate_speculative", {})}
