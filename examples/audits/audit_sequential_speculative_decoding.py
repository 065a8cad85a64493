"""sequential-speculative-decoding: its three verifiers, one round after another."""

import torch
from seqspecdecod.capped_hsd import capped_hsd_step
from seqspecdecod.naive_hsd import naive_hsd_step
from seqspecdecod.standard_sd import standard_speculative_step
from toy import DRAFT, DRAFTS, TARGET, sampler


def rounds(step):
    heat = {"draft_temperature": 1.0, "target_temperature": 1.0}
    return sampler(lambda text: step(DRAFT, TARGET, torch.tensor([text]), DRAFTS, **heat)[0][0, len(text) :].tolist())


steps = (standard_speculative_step, naive_hsd_step, capped_hsd_step)
standard, naive, capped = map(rounds, steps)
CALLS = {name: (step.__name__, {}) for name, step in zip(("standard", "naive", "capped"), steps, strict=True)}
