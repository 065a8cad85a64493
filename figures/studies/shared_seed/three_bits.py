"""Write a model's own weights at 3 bits as a draft model: 8 levels between the extremes of each 32 weights.

PYTHONPATH=. python3 figures/studies/shared_seed/three_bits.py MODEL.gguf FOLDER
"""

from __future__ import annotations

import sys

import torch
from transformers import AutoModelForCausalLM

from validation.models.rounding import round_weights
from validation.models.sources import ModelSource


def main() -> None:
    """Read, round, and write in bfloat16 with the tokenizer."""
    source, folder = ModelSource(sys.argv[1]), sys.argv[2]
    read = source.load_model("float32")
    del read.config.quantization_config
    draft = AutoModelForCausalLM.from_config(read.config, dtype=torch.float32)
    draft.load_state_dict(read.state_dict())
    round_weights(draft)
    draft.to(torch.bfloat16).save_pretrained(folder)
    source.load_tokenizer().save_pretrained(folder)


if __name__ == "__main__":
    main()
