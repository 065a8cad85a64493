"""Distributions from logits, drawing a token, and the residual that replaces a rejected draft."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hlmtheory.shared_seed import race_winner
from validation.arrays import Array

if TYPE_CHECKING:
    import torch

BRANCHES = 64  # number of parts from which one random number chooses in :func:`draw`


def distributions_of(logits: torch.Tensor | list[torch.Tensor], temperature: float, top_p: float) -> torch.Tensor:
    """Return distributions (..., V) at a temperature, cut to the likeliest tokens of total mass ``top_p``."""
    import torch

    parts = logits if isinstance(logits, list) else [logits]
    parts = [part if part.dtype in (torch.float32, torch.float64) else part.float() for part in parts]
    if temperature == 0:
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        top = whole.argmax(dim=-1, keepdim=True)
        # a NaN anywhere must be noticed, so the mass is 0 then
        return torch.zeros_like(whole).scatter_(-1, top, whole.gather(-1, top).isfinite().to(whole.dtype))
    parts = parts if temperature == 1 else [part / temperature for part in parts]
    if len(parts) == 1:
        rows = parts[0].softmax(dim=-1)
    else:
        rows = parts[0].new_empty((sum(len(part) for part in parts), parts[0].shape[-1]))
        for part, out in zip(parts, rows.split([len(part) for part in parts]), strict=True):
            torch.softmax(part, dim=-1, out=out)
    if top_p >= 1:
        return rows
    cut = torch.where(rows >= _border(rows, top_p), rows, 0.0)
    return cut / cut.sum(dim=-1, keepdim=True)


def _border(rows: torch.Tensor, top_p: float) -> torch.Tensor:
    import torch

    if rows.device.type == "cpu":  # numpy sorts 40 times faster than torch there
        ordered = torch.from_numpy(np.sort(rows.numpy(), axis=-1)).flip(-1)
    else:
        ordered = rows.sort(dim=-1, descending=True).values
    before = ordered.cumsum(dim=-1) - ordered
    return ordered.gather(-1, ((before < top_p).sum(dim=-1, keepdim=True) - 1).clamp_min(0))


def levels(vocabulary: int) -> int:
    """Return how many numbers :func:`draw` takes for a token: the smallest n with ``BRANCHES``ⁿ ≥ V."""
    count = 1
    while BRANCHES**count < vocabulary:
        count += 1
    return count


def raced(rows: torch.Tensor, keys: Array, positions: Array) -> tuple[Array, Array]:
    """Return the winner of each distribution's race (n, V) in its prompt's stream, and the distributions' sums."""
    import torch

    mass = rows.sum(dim=-1, dtype=torch.float64)
    whole = mass.isfinite() & (mass > 0)
    first = torch.zeros_like(rows[:1]).index_fill_(-1, torch.zeros(1, dtype=torch.int64, device=rows.device), 1.0)
    given = (torch.from_numpy(np.asarray(value, dtype=np.int64)).to(rows.device) for value in (keys, positions))
    winners = torch.where(whole, race_winner(torch.where(whole[:, None], rows, first), *given), -1)
    return winners.cpu().numpy(), mass.cpu().numpy()


def draw(rows: torch.Tensor, uniform: Array) -> tuple[Array, Array]:
    """Draw one token from each distribution (n, V), and return the tokens and the distributions' sums, both (n,)."""
    import torch

    cumulative = rows.cumsum(dim=-1, dtype=torch.float64).cpu().numpy()
    tokens = [_drawn(*each) for each in zip(cumulative, uniform.tolist(), strict=True)]
    return np.array(tokens, dtype=np.int64), cumulative[:, -1]


def _drawn(cumulative: Array, numbers: list[float]) -> int:
    """Return the token of one row (V,): block after block, each by a number. Torch takes six times as long for it."""
    size, first, lower = len(cumulative), 0, 0.0
    for level in reversed(range(len(numbers))):
        step = BRANCHES**level
        count = min(BRANCHES, -(-size // step))
        edges = cumulative[np.minimum(np.arange(first + step - 1, first + count * step, step), size - 1)]
        upper = float(edges[-1])
        # it may round up to the upper end
        aim = min(lower + numbers[level] * (upper - lower), math.nextafter(upper, 0.0))
        part = min(int(edges.searchsorted(aim, side="right")), count - 1)
        lower = float(edges[part - 1]) if part else lower
        first = min(first + part * step, size - 1)
    return first


def probabilities_at(distributions: torch.Tensor, tokens: Array) -> Array:
    """Return the probabilities of tokens (...) in their distributions (..., V), float64."""
    import torch

    index = torch.from_numpy(tokens).to(distributions.device)
    return np.asarray(distributions.gather(-1, index[..., None])[..., 0].double().cpu().numpy())


def residual(target: torch.Tensor, draft: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    """Return the residual that replaces a rejected draft: (p - q̂)⁺ in float64, not normalised; p if it is all zeros."""
    import torch

    p, q = target.double(), draft.double()
    whole = p / p.sum(dim=-1, keepdim=True)
    whole = whole if weight is None else whole.mul_(weight)
    left = whole.sub_(q / q.sum(dim=-1, keepdim=True)).clamp_min_(0.0)
    none = left.amax(dim=-1, keepdim=True) == 0  # NaN compares as False and stays
    return torch.where(none, p, left) if bool(none.any()) else left


def without_token(target: torch.Tensor, tokens: Array) -> torch.Tensor:
    """Return the residual of a certain draft: p without that token, in float64, not normalised."""
    import torch

    return target.double().scatter(-1, torch.from_numpy(tokens).to(target.device)[:, None], 0.0)
