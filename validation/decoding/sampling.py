"""Rows that tokens are drawn from, the draw itself, and the rule that accepts or replaces a draft."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Array = NDArray[Any]


def rows_of(logits: torch.Tensor, temperature: float, top_p: float) -> torch.Tensor:
    """Probability rows (..., V) at a temperature, cut to the likeliest tokens of mass ``top_p``.

    Temperature 0 is the limit: all mass on the largest logit, the first of equals. At the border of the cut equals are
    kept together. Half types are computed in float32.
    """
    import torch

    logits = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
    if temperature == 0:
        top = logits.argmax(dim=-1, keepdim=True)
        # a NaN anywhere must show
        return torch.zeros_like(logits).scatter_(-1, top, logits.gather(-1, top).isfinite().to(logits.dtype))
    rows = (logits if temperature == 1 else logits / temperature).softmax(dim=-1)
    if top_p >= 1:
        return rows
    cut = torch.where(rows >= _border(rows, top_p), rows, 0.0)
    return cut / cut.sum(dim=-1, keepdim=True)


def _border(rows: torch.Tensor, top_p: float) -> torch.Tensor:
    """The least probability that is kept, (..., 1)."""
    import torch

    if rows.device.type == "cpu":  # numpy sorts 40 times faster than torch there
        ordered = torch.from_numpy(np.sort(rows.numpy(), axis=-1)).flip(-1)
    else:
        ordered = rows.sort(dim=-1, descending=True).values
    before = ordered.cumsum(dim=-1) - ordered
    count = (before < top_p).sum(dim=-1, keepdim=True)
    return ordered.gather(-1, (count - 1).clamp_min(0))


def draw(rows: torch.Tensor, uniform: Array) -> tuple[Array, Array]:
    """One token for each row (n, V) by the inverse of its distribution function, and the rows' sums.

    A token of probability 0 is never drawn. A sum that is not finite, or not positive, marks a row that is none.
    """
    import torch

    cumulative = rows.cumsum(dim=-1, dtype=torch.float64)
    total = cumulative[:, -1:]
    aim = torch.from_numpy(uniform).to(rows.device)[:, None] * total
    aim = torch.minimum(aim, torch.nextafter(total, torch.zeros_like(total)))  # the product may round up to the sum
    tokens = torch.searchsorted(cumulative, aim, right=True)
    both = torch.cat([tokens.to(torch.float64), total], dim=-1).cpu().numpy()  # one transfer
    return both[:, 0].astype(np.int64), both[:, 1]


def at(rows: torch.Tensor, tokens: Array) -> Array:
    """The entries (...) of rows (..., V) at tokens (...), as float64."""
    import torch

    index = torch.from_numpy(tokens).to(rows.device)
    found: Array = rows.gather(-1, index[..., None])[..., 0].double().cpu().numpy()
    return found


def replacement(target: torch.Tensor, draft: torch.Tensor) -> torch.Tensor:
    """What a rejected draft is replaced from: (p - q̂)⁺ in float64, not normalised; p itself where that is all zeros.

    With q̂ = q it is never all zeros where something was rejected. With another q̂ any law would do there
    (:mod:`hlmtheory.truncation`), and p is at hand. The same as :func:`hlmtheory.residual_distribution`, which looks
    at its arguments first; this one is on the way of every token.
    """
    import torch

    p, q = target.double(), draft.double()
    left = (p / p.sum(dim=-1, keepdim=True)).sub_(q / q.sum(dim=-1, keepdim=True)).clamp_min_(0.0)
    none = left.amax(dim=-1, keepdim=True) == 0  # a NaN is none of these, and shows
    return torch.where(none, p, left) if bool(none.any()) else left


def without(target: torch.Tensor, tokens: Array) -> torch.Tensor:
    """The residual of a draft that was certain: p without it, in float64, not normalised."""
    import torch

    index = torch.from_numpy(tokens).to(target.device)
    return target.double().scatter(-1, index[:, None], 0.0)
