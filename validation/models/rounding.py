"""Round a model's own weights to few bits: a draft model that is nowhere stored."""

from typing import Any

BITS = 3
GROUP = 32
SUFFIX = f"{BITS}-bit"
"""What stands behind the ``@`` of a model whose weights are to be rounded, as in ``models/large@3-bit``."""


def round_weights(model: Any, bits: int = BITS) -> None:
    """Round the matrices of a model in place: 2^bits levels between the extremes of each 32 weights of a row."""
    import torch

    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim == 2:
                width = GROUP if weights.shape[1] % GROUP == 0 else weights.shape[1]
                groups = weights.float().reshape(-1, width)
                low, high = groups.amin(1, keepdim=True), groups.amax(1, keepdim=True)
                step = (high - low).clamp_min(1e-12) / (2**bits - 1)
                weights.copy_((low + step * ((groups - low) / step).round()).reshape(weights.shape))
