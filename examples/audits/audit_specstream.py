"""specstream: its generation over a model of transformers that has no layers to replace."""

from types import SimpleNamespace

import torch
from specstream.speculative_streaming import SpeculativeStreaming, SpeculativeStreamingConfig
from toy import DEPTH, TARGET, sampler

TARGET.config, TARGET.model = SimpleNamespace(hidden_size=4), SimpleNamespace(layers=[])
engine = SpeculativeStreaming(TARGET, SpeculativeStreamingConfig(gamma=2, max_speculation_depth=2))
ends = SimpleNamespace(eos_token_id=-1)
sample = sampler(lambda text: engine.generate_speculative(torch.tensor([text]), ends, DEPTH)["generated_tokens"])
CALLS = {"sample": ("SpeculativeStreaming.generate_speculative", {})}
