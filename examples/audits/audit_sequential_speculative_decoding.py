"""sequential-speculative-decoding: its three verifiers, one round after another."""

import torch
from seqspecdecod.capped_hsd import capped_hsd_step
from seqspecdecod.naive_hsd import naive_hsd_step
from seqspecdecod.standard_sd import standard_speculative_step
from toy import DRAFT, DRAFTS, TARGET, sampler


def rounds(step):
    """Return a sampler that takes one step after another."""

    def draw(text):
        new = step(DRAFT, TARGET, torch.tensor([text]), DRAFTS, draft_temperature=1.0, target_temperature=1.0)[0]
        return new[0, len(text) :].tolist()

    return sampler(draw)


standard = rounds(standard_speculative_step)
naive = rounds(naive_hsd_step)
capped = rounds(capped_hsd_step)
CALLS = {
    "standard": ("standard_speculative_step", {}),
    "naive": ("naive_hsd_step", {}),
    "capped": ("capped_hsd_step", {}),
}
