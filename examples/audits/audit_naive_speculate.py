"""naive-speculate needs Python 3.14; the file with its rule runs on older ones."""

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import torch
from toy import drafted, sampler, targets

home = Path(find_spec("naive_speculate").submodule_search_locations[0])
spec = spec_from_file_location("naive_speculate_rule", home / "speculate" / "utils.py")
rule = module_from_spec(spec)
spec.loader.exec_module(rule)


def draw(text, likeliest=False):
    """Return the tokens of one round; a draft is drawn, or the likeliest token of its distribution."""
    drafts, rows = drafted(text, greedy=likeliest)
    kept, last = rule.speculative_sampling(targets(text, drafts), torch.stack(rows), torch.tensor(drafts))
    return [*drafts[: int(kept)], int(last)]


sample = sampler(draw)
greedy_drafts = sampler(lambda text: draw(text, likeliest=True))
CALLS = {
    "sample": ("speculative_sampling", {}),
    "greedy_drafts": ("speculative_sampling, drafts of SampleStrategy.GREEDY", {}),
}
