"""naive-speculate needs Python 3.14; the file with its rule runs on older ones."""

import runpy
from importlib.util import find_spec
from pathlib import Path

import torch
from toy import drafted, sampler

home = Path(find_spec("naive_speculate").submodule_search_locations[0])
rule = runpy.run_path(str(home / "speculate" / "utils.py"))["speculative_sampling"]


def draw(text, greedy=False):
    drafts, q, p = drafted(text, greedy)
    kept, last = rule(p, q, torch.tensor(drafts))
    return [*drafts[: int(kept)], int(last)]


sample = sampler(draw)
greedy_drafts = sampler(lambda text: draw(text, greedy=True))
CALLS = {"sample": ("speculative_sampling", {}), "greedy_drafts": ("speculative_sampling, SampleStrategy.GREEDY", {})}
