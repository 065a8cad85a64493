"""Tune SmolLM2-135M-Instruct further by LoRA: versions of a target model, as in flexspec's Table II.

    python -m validation.training.smollm2_versions --domain math --rank 16 --data DATA --out VERSIONS

The domains are those of :mod:`validation.training.versions`: ``math`` is GSM8K's training split, ``code`` is HumanEval
and the literal blocks of PEPs. The adapter is in all linear layers below the last block, α = 2r, in bfloat16 autocast
over float32 weights. A step reads 4 rows of 256 tokens. The folder ``VERSIONS/DOMAIN-loraR-sSEED`` gets the adapter and
``version.json`` with recipe, seed, losses and CPU seconds. A run that was stopped goes on from its checkpoint in
``--work`` by the same command. A version is a target model for any command of ``hlm``:
``--draft smollm2@3-bit --target VERSIONS/math-lora16-s1 --base smollm2``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from validation.errors import UserError
from validation.models import smollm2
from validation.training.versions import Update, train_version

DOMAINS, RANKS = ("math", "code"), (4, 16)
STEPS, RATE = 200, 1e-3


def main() -> None:
    """Parse the command line and train one version."""
    parser = argparse.ArgumentParser(description="Tune SmolLM2-135M-Instruct by LoRA.")
    parser.add_argument("--domain", choices=DOMAINS, required=True)
    parser.add_argument("--rank", type=int, choices=RANKS, required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder with gsm8k/, humaneval/ and peps/")
    parser.add_argument("--out", type=Path, required=True, help="folder of the versions")
    parser.add_argument("--work", type=Path, default=Path(".training"), help="folder of the checkpoint")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.steps < 1 or not 0 < given.rate < 1:
        parser.error(f"--steps is {given.steps} and --rate {given.rate}; give at least 1 step, and a rate in (0, 1).")
    update = Update(
        domain=given.domain, method=f"lora{given.rank}", seed=given.seed, steps=given.steps, rate=given.rate
    )
    try:
        train_version(update, smollm2.NAME, given.data, given.out, work=given.work)
    except (UserError, FileNotFoundError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
