"""The claims of :mod:`hlmtheory.codec`, and why they hold."""

from __future__ import annotations

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
from hlmtheory.claims import Assumption, Attained, Claim, Relation, Source
from hlmtheory.codec.coding import decode, encode
from hlmtheory.codec.messages import WHOLE, LatticeDraft, LatticeMessage, truncated_message
from hlmtheory.codec.mixed import coded_message, decoded_rows
from hlmtheory.codec.selection import TOLERANCE, cheapest_codec
from hlmtheory.codec.text_budget import BIAS, BITS, Numbers, hull_corners, optimal_codecs, total_bias
from hlmtheory.lattice import quantize, top_support
from hlmtheory.truncation import decoded_draft
from hlmtheory.truncation.message import message_certificate

# Proofs, by the last part of the id.
#
# round_trip. Each step has an inverse: mixed radix, colexicographic places, units and bars, the frame.
# certificate. This is truncation.certificate with q̂^(d) in the server's float64 numbers. The choice of k and the
#   encoder compute the levels by one function of the canonical row, and the choice of k and the server compute the
#   values by one function of the level. All other rounding is below the slack in message_deviations.
# cheapest_certificate. Σ |q - q̂| = 2 TV(q, q̂) = 2 Σ (q - q̂)⁺. On the support of a lattice, the entries that are rounded
#   up lose nothing and the others their remainder; the rest loses all, or in a mixture what it has above its share. The
#   choice, the encoder and the server take one function of the canonical row to the counts. The sums have at most 15 V
#   terms of size 1 in all, each rounded by 2^-53, which is less than the slack that is added. Top-k: codec.certificate.
# cheapest. Entries of the menu are tried by ascending bits, and one is left out only if a lower bound on its distance
#   exceeds the tolerance. (1) least_distance: m entries have a unit or more and take at least max(m, ℓ Σ q - m) units.
#   Each unit that is left raises one entry at most, so the others below a unit lose all that they have. (2)
#   Bounds: the sum of the n largest of some numbers f is at most n θ + Σ (f - θ)⁺ for every θ ≥ 0. (3) Top-k: the
#   distance is E_k + Σ (q_i - μ)⁺ over the rest, μ = (rest + E_k)/(V - k). It is at least E_k, and it rises with E_k,
#   so it is at least Δ_k of unrounded values; k = V is tried apart, and for it the second holds, Δ_V = 0. So of each b
#   the smallest k is found, and bits rise with k. Of all counts on the K largest entries with sum ℓ, the choice's are
#   nearest (lattice.nearest, with q in place of q̄), so a competitor with other counts is farther.
# text_gap. The steps are taken by rising bits for each unit of bias until the budget is kept. Let λ be the price of the
#   last one. Before and after it, each row has the least bits + λ bias. So the bound is the bits before it plus λ times
#   (bias before it - E), which is positive: without the last step the budget is not kept. The plan has the bits before
#   it plus those of the step, or fewer, since what is done afterwards only saves bits.

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


def _side(of: Callable[..., float], *names: str, dtype: Any = np.float64) -> Callable[..., Array]:
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


def _comes_back(counts: Any, support: Any, token: Any) -> float:
    message = LatticeMessage(len(counts), (LatticeDraft(np.flatnonzero(support), counts[support], int(token)),))
    return float(decode(encode(message)) == message)


def _received(message: Any, row: Any) -> float:
    """Return Σ |q - q̂| for the row that the server decodes from the bytes."""
    again: Any = decode(encode(message))
    return float(np.abs(decoded_rows(again)[0] - row).sum())


def _mixed_distance(draft: Any, bias_tolerance: Any, token: Any) -> float:
    """Return Σ |q - q̂| with the exact q_d or without it, whichever is more."""
    choice = cheapest_codec(draft, bias_tolerance)
    known = (coded_message(draft, choice, token=int(token), probability=known) for known in (True, False))
    return max(_received(message, draft) for message in known)


def _certified(draft: Any, bias_tolerance: Any, token: Any) -> float:
    """Return the certified bias; infinite if it exceeds the tolerance, so that the claim fails."""
    bias = float(cheapest_codec(draft, bias_tolerance).bias)
    return bias if bias <= bias_tolerance else -math.inf


def _competitor(draft: Any, bias_tolerance: Any, **numbers: Any) -> float:
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


def _competes(k: Any, **others: Any) -> bool:
    """Whether one of the competitors is within the tolerance, and its size is on the default menu."""
    return bool(k <= _LARGEST and _competitor(k=k, **others) < math.inf)


def _attainable(bits: Numbers, bias: Numbers, bias_budget: Any) -> bool:
    """Whether the least biases add up to the budget or less."""
    return bool(total_bias(bias.min(axis=1)) <= bias_budget)


def _of_text(of: Callable[[Numbers, Numbers, float], float]) -> Callable[..., Array]:
    """A side about a text, infinite where no plan keeps the budget, which is out of the claims' scope."""
    return _side(
        lambda bits, bias, bias_budget: (
            of(bits, bias, float(bias_budget)) if _attainable(bits, bias, bias_budget) else math.inf
        ),
        *_TEXT,
    )


def _plan(bits: Numbers, bias: Numbers, budget: float) -> float:
    """The bits of the public answer, infinite if it breaks the budget."""
    rows, index = np.arange(len(bits)), optimal_codecs(bits, bias, budget).index
    return math.fsum(bits[rows, index]) if math.fsum(bias[rows, index]) <= budget else math.inf


def _steps(bits: Numbers, bias: Numbers) -> list[tuple[float, float]]:
    """Return bits and bias of each step of each row's hull."""
    corners = [(row, other, hull_corners(row, other)) for row, other in zip(bits, bias, strict=True)]
    return [(row[b] - row[a], other[a] - other[b]) for row, other, one in corners for a, b in pairwise(one)]


def _with_one_step(bits: Numbers, bias: Numbers, budget: float) -> float:
    """The lower bound and the largest step in bits of any row's hull."""
    largest = max((more for more, _ in _steps(bits, bias)), default=0.0)
    return optimal_codecs(bits, bias, budget).lower_bound + float(largest)


def _priced_bias(bits: Numbers, bias: Numbers, budget: float) -> float:
    """The steepest price of a bias times the biases: what their rounding changes in bits."""
    slope = max((abs(more / less) for more, less in _steps(bits, bias)), default=0.0)
    return float(slope * (budget + np.max(bias, axis=-1).sum()))


_EACH = Source("bhattacharjee2025csqs", "Section 4, and oh2025cuhlm IV-B: each with one codec for all rows")
_ROW = {"draft": [0.5, 0.25, 0.125, 0.125], "bias_tolerance": 0.5}
_AGAINST = "draft", "bias_tolerance", "k", "resolution", "width"
_ONE_STEP = {"bits": [[64.0, 0.0], [0.0, 0.0]], "bias": [[0.0, 1.0], [0.0, 0.0]], "bias_budget": 1 - 2.0**-10}

CLAIMS = (
    Claim(
        id="codec.round_trip",
        source=Source("bhattacharjee2025csqs", "Alg. 1, line 10, and Alg. 2, line 18"),
        statement="decode(encode(message)) = message",
        relation=Relation.EQ,
        lhs=_side(_comes_back, "counts", "support", "token"),
        rhs=lambda token: 0 * arrays(token=token)[1] + 1,
        attained=Attained({"counts": [6, 0, 4, 0], "support": [True, False, True, False], "token": 2}),
    ),
    Claim(
        id="codec.certificate",
        source=Source("oh2025cuhlm", "IV-B, and V-A for b_prob = 8"),
        statement="Σ |q − q̂^(d)| ≤ 2 Δ_k for the row decoded from the bytes of any draft d, 8 bits a value: the "
        "largest Bias over all p if each rejected draft is replaced from it",
        lhs=_side(
            lambda draft, token, k: _received(truncated_message(draft, k=int(k), token=int(token), bits=8), draft),
            *("draft", "token", "k"),
        ),
        rhs=message_certificate,
        attained=Attained({"draft": [0.6, 0.24, 0.16], "token": 0, "k": 1}),
        ceiling=2.0,
    ),
    Claim(
        id="codec.cheapest_certificate",
        source=_EACH,
        statement="Σ |q − q̂| ≤ certified bias ≤ ε for the row decoded from the bytes of the cheapest codec",
        lhs=_side(_mixed_distance, "draft", "bias_tolerance", "token"),
        rhs=_side(_certified, "draft", "bias_tolerance", "token"),
        attained=Attained({**_ROW, "token": 0}),
        ceiling=2.0,
    ),
    Claim(
        id="codec.cheapest",
        source=_EACH,
        statement="bits of the cheapest codec ≤ bits of any top-k (k, b) and any lattice (K, ℓ) within ε",
        lhs=_side(lambda draft, bias_tolerance, **others: float(cheapest_codec(draft, bias_tolerance).bits), *_AGAINST),
        rhs=_side(_competitor, *_AGAINST),
        assumptions=(
            Assumption(
                "the competitor is on the menu, and Σ |q − q̂| ≤ ε − 10⁻⁹",
                _side(_competes, *_AGAINST, dtype=np.bool_),
            ),
        ),
        attained=Attained({"draft": [0.9, 0.1], "bias_tolerance": 0.25, "k": 1, "resolution": 1, "width": 1}),
    ),
    Claim(
        id="codec.text_gap",
        source=Source("oh2025cuhlm", "end of IV, the dual objective, for any codec"),
        statement="bits of the plan by the lower hulls ≤ its own lower bound + the most bits of one hull step",
        lhs=_of_text(_plan),
        rhs=_of_text(_with_one_step),
        condition=_of_text(_priced_bias),
        assumptions=(
            Assumption("some plan keeps the budget", _side(_attainable, "bits", "bias", "bias_budget", dtype=np.bool_)),
        ),
        # the supremum is 1: a budget just below what saves the step
        attained=Attained(_ONE_STEP, ratio=64 / (64 + 2.0**-4)),
    ),
)
