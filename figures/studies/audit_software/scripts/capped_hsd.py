"""sequential-speculative-decoding: the first token of capped_hsd_step, counted, beside the target's probabilities."""

from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import torch
from seqspecdecod.capped_hsd import capped_hsd_step

P = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])  # target: the next token given the last one
Q = torch.tensor([[0.3, 0.4, 0.3], [0.5, 0.2, 0.3], [0.2, 0.6, 0.2]])  # draft


def model(table: torch.Tensor) -> Any:
    """Return a model whose next token depends on the last one."""
    return lambda ids: SimpleNamespace(logits=table.log()[ids])


torch.manual_seed(0)
start, count, draws = torch.tensor([[0]]), torch.zeros(3), 20_000
for _ in range(draws):
    ids, _, _ = capped_hsd_step(model(Q), model(P), start, gamma=2, draft_temperature=1.0, target_temperature=1.0)
    count[ids[0, 1]] += 1
print("target", P[0].tolist(), "drawn", (count / draws).tolist(), version("sequential-speculative-decoding"))
