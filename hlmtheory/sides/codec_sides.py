"""Sides of the theorems on messages as bytes, and what their arguments must be."""

import inspect
import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from array_api_compat import device

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._combinatorics import lattice_points
from hlmtheory._domains import Domain, mask, size_up_to, token_of
from hlmtheory._simplex import distributions
from hlmtheory.codec.coding import decode, encode
from hlmtheory.codec.messages import WHOLE, LatticeDraft, LatticeMessage
from hlmtheory.codec.mixed import coded_message, decoded_rows
from hlmtheory.codec.selection import TOLERANCE, cheapest_codec
from hlmtheory.codec.text_budget import BIAS, BITS, Numbers, hull_corners, optimal_codecs, total_bias
from hlmtheory.lattice import quantize, top_support
from hlmtheory.truncation.message import decoded_draft

_NEARLY = 1e-9
"""A competitor this near to the tolerance is out of scope: the certificate adds slack for rounding."""

_LARGEST = 16
_SMALL = Domain(
    f"a whole number in 1..{_LARGEST}",
    lambda xp, value: (value >= 1) & (value <= _LARGEST),
    "the default menu has all of these",
    kind="integer",
)
_TEXT = "bits", "bias", "bias_budget"
_RANK = {"draft": 1, "counts": 1, "support": 1, "bits": 2, "bias": 2}


def _checked(xp: Any, named: Mapping[str, Array]) -> dict[str, Array]:
    """Return the values of an instance, each in the domain of its name."""
    domains = {"counts": WHOLE, "token": WHOLE, "bias_tolerance": TOLERANCE, "resolution": _SMALL, "width": _SMALL}
    domains |= {"bits": BITS, "bias": BIAS, "bias_budget": BIAS}
    if "draft" in named:
        size = distributions(draft=named["draft"])[2].shape[-1]
        domains |= {"token": token_of(size), "k": size_up_to(size)}
    found = {name: domains[name].check(xp, name, value) if name in domains else value for name, value in named.items()}
    return found | ({"support": mask(xp, "support", named["support"])} if "support" in named else {})


def side_side(of: Callable[..., float], *names: str, dtype: Any = np.float64) -> Callable[..., Array]:
    """A side of a claim: one number for each instance of arrays of these names, computed on the host."""

    def side(**values: Array) -> Array:
        xp, *given = arrays("bias_tolerance", **values)
        plain = {name: to_numpy(one) for name, one in _checked(xp, dict(zip(values, given, strict=True))).items()}
        split = {name: one.ndim - _RANK.get(name, 0) for name, one in plain.items()}
        batch = np.broadcast_shapes(*(one.shape[: split[name]] for name, one in plain.items()))
        wide = {name: np.broadcast_to(one, (*batch, *one.shape[split[name] :])) for name, one in plain.items()}
        each = [of(**{name: one[n] for name, one in wide.items()}) for n in np.ndindex(*batch)]
        return xp.asarray(np.reshape(np.asarray(each, dtype=dtype), batch), device=device(given[0]))

    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    side.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return side


def comes_back(counts: Any, support: Any, token: Any) -> float:
    message = LatticeMessage(len(counts), (LatticeDraft(np.flatnonzero(support), counts[support], int(token)),))
    return float(decode(encode(message)) == message)


def received(message: Any, row: Any) -> float:
    """Return Σ |q - q̂| for the row that the server decodes from the bytes."""
    again: Any = decode(encode(message))
    return float(np.abs(decoded_rows(again)[0] - row).sum())


def mixed_distance(draft: Any, bias_tolerance: Any, token: Any) -> float:
    """Return Σ |q - q̂| with the exact q_d or without it, whichever is more."""
    choice = cheapest_codec(draft, bias_tolerance)
    known = (coded_message(draft, choice, token=int(token), probability=known) for known in (True, False))
    return max(received(message, draft) for message in known)


def certified_side(draft: Any, bias_tolerance: Any, token: Any) -> float:
    """Return the certified bias; infinite if it exceeds the tolerance, so that the claim fails."""
    bias = float(cheapest_codec(draft, bias_tolerance).bias)
    return bias if bias <= bias_tolerance else -math.inf


def competitor_side(draft: Any, bias_tolerance: Any, **numbers: Any) -> float:
    """Return the bits of the cheapest competitor within the tolerance, in whole numbers; infinity without one."""
    k, resolution, width = (int(numbers[name]) for name in ("k", "resolution", "width"))
    v, limit = len(draft), bias_tolerance - _NEARLY
    found = [math.inf]
    levels = decoded_draft(draft, k, bits_per_probability=width)
    if float(np.abs(levels - draft).sum()) <= limit:
        found.append(2 + _gamma(k + 1) + _gamma(width) + k * (width + (v - 1).bit_length()))
    if 1 <= k <= np.count_nonzero(draft):
        counts = quantize(draft, support=top_support(draft, k), resolution=resolution)
        if float(np.abs(counts / resolution - draft).sum()) <= limit:
            states = math.comb(v, k) * lattice_points(k, resolution)
            found.append(2 + _gamma(k) + _gamma(resolution) + (states - 1).bit_length())
    return float(min(found))


def _gamma(value: int) -> int:
    return 2 * value.bit_length() - 1


def competes(k: Any, **others: Any) -> bool:
    """Whether one of the competitors is within the tolerance, and its size is on the default menu."""
    return bool(k <= _LARGEST and competitor_side(k=k, **others) < math.inf)


def attainable(bits: Numbers, bias: Numbers, bias_budget: Any) -> bool:
    """Whether the least biases add up to the budget or less."""
    return bool(total_bias(bias.min(axis=1)) <= bias_budget)


def of_text(of: Callable[[Numbers, Numbers, float], float]) -> Callable[..., Array]:
    """A side about a text, infinite where no plan keeps the budget, which is out of the claims' scope."""
    return side_side(
        lambda bits, bias, bias_budget: (
            of(bits, bias, float(bias_budget)) if attainable(bits, bias, bias_budget) else math.inf
        ),
        *_TEXT,
    )


def plan_side(bits: Numbers, bias: Numbers, budget: float) -> float:
    """The bits of the public answer, infinite if it breaks the budget."""
    rows, index = np.arange(len(bits)), optimal_codecs(bits, bias, budget).index
    return math.fsum(bits[rows, index]) if math.fsum(bias[rows, index]) <= budget else math.inf


def _steps(bits: Numbers, bias: Numbers) -> list[tuple[float, float]]:
    """Return bits and bias of each step of each row's hull."""
    corners = [(row, other, hull_corners(row, other)) for row, other in zip(bits, bias, strict=True)]
    return [(row[b] - row[a], other[a] - other[b]) for row, other, one in corners for a, b in pairwise(one)]


def with_one_step(bits: Numbers, bias: Numbers, budget: float) -> float:
    """The lower bound and the largest step in bits of any row's hull."""
    largest = max((more for more, _ in _steps(bits, bias)), default=0.0)
    return optimal_codecs(bits, bias, budget).lower_bound + float(largest)


def priced_bias(bits: Numbers, bias: Numbers, budget: float) -> float:
    """The steepest price of a bias times the biases: what their rounding changes in bits."""
    slope = max((abs(more / less) for more, less in _steps(bits, bias)), default=0.0)
    return float(slope * (budget + np.max(bias, axis=-1).sum()))
