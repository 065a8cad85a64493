"""Write a model's own weights at 3 bits as a draft model: 8 levels between the extremes of each 32 weights.

PYTHONPATH=. python3 figures/studies/shared_seed/three_bits.py MODEL.gguf FOLDER
"""

from __future__ import annotations

import sys

import torch
from transformers import AutoModelForCausalLM

from validation.models.sources import ModelSource

GROUP, LEVELS = 32, 8


def main() -> None:
    """Read, round, and write in bfloat16 with the tokenizer."""
    source, folder = ModelSource(sys.argv[1]), sys.argv[2]
    read = source.load_model("float32")
    del read.config.quantization_config
    draft = AutoModelForCausalLM.from_config(read.config, dtype=torch.float32)
    draft.load_state_dict(read.state_dict())
    with torch.no_grad():
        for weights in draft.parameters():
            if weights.ndim == 2:
                groups = weights.reshape(-1, GROUP)
                low, high = groups.amin(1, keepdim=True), groups.amax(1, keepdim=True)
                step = (high - low).clamp_min(1e-12) / (LEVELS - 1)
                weights.copy_((low + step * ((groups - low) / step).round()).reshape(weights.shape))
    draft.to(torch.bfloat16).save_pretrained(folder)
    source.load_tokenizer().save_pretrained(folder)


if __name__ == "__main__":
    main()
