"""Give vLLM 0.32.0 on a CPU the temperature and top-p of drafted tokens, which it leaves as uninitialised memory."""

import importlib
from typing import Any


def expand(values: Any, ends: Any, count: int, replace_from: int = 0, replace_to: int = 0) -> Any:
    """Return each request's value at each of its drafts, as ``expand_batch_to_tokens`` of vLLM should.

    >>> from torch import tensor
    >>> expand(tensor([0.0, 0.5, 0.75]), tensor([3, 3, 5]), 5, 0, 1).tolist()
    [1.0, 1.0, 1.0, 0.75, 0.75]
    """
    drafts = ends.diff(prepend=ends.new_zeros(1)).long()
    return values.masked_fill(values == replace_from, replace_to).repeat_interleave(drafts)


def mend() -> None:
    """Do so in this process; vLLM calls it as a plugin."""
    vars(importlib.import_module("vllm.v1.sample.rejection_sampler"))["expand_batch_to_tokens"] = expand
