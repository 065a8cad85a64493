"""Claims about the cheapest codec of a row: its certificate, its bits, and that nothing on the menu is cheaper."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from array_api_compat import device

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._combinatorics import lattice_points
from hlmtheory._domains import Domain, size_up_to, token_of
from hlmtheory._simplex import distributions
from hlmtheory.claims import Assumption, Attained, Claim, Source
from hlmtheory.codec.coding import decode, encode
from hlmtheory.codec.messages import TruncatedMessage
from hlmtheory.codec.mixed import MixedMessage, coded_message
from hlmtheory.codec.selection import TOLERANCE, cheapest_codec
from hlmtheory.codec.truncated import decoded_rows
from hlmtheory.lattice import quantize, top_support
from hlmtheory.truncation import decoded_draft

# Proofs, by the last part of the id.
#
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
#   the smallest k is found, and bits rise with k. Of all counts
#   on the K largest entries with sum ℓ, the choice's are nearest (lattice.nearest, with q in place of q̄), so a
#   competitor with other counts is farther.

_NEARLY = 1e-9
"""A competitor this near to the tolerance is out of scope: the certificate adds slack for rounding."""

_LARGEST = 16
_SMALL = Domain(
    f"a whole number in 1..{_LARGEST}",
    lambda xp, value: (value >= 1) & (value <= _LARGEST),
    "the default menu has all of these",
    kind="integer",
)


def _each(of: Callable[..., float], draft: Array, **numbers: Array) -> Array:
    """Return one number for each instance, computed on the host for one row at a time."""
    xp, draft, *given = arrays("bias_tolerance", draft=draft, **numbers)
    distributions(draft=draft)
    named = dict(zip(numbers, given, strict=True))
    for name, domain in _domains(draft.shape[-1]).items():
        if name in named:
            named[name] = domain.check(xp, name, named[name])
    batch = np.broadcast_shapes(tuple(draft.shape[:-1]), *(tuple(value.shape) for value in named.values()))
    rows = np.broadcast_to(to_numpy(draft), (*batch, draft.shape[-1]))
    host = {name: np.broadcast_to(to_numpy(value), batch) for name, value in named.items()}
    found = [of(rows[n], **{name: value[n].item() for name, value in host.items()}) for n in np.ndindex(*batch)]
    return xp.asarray(np.reshape(np.asarray(found, dtype=np.float64), batch), device=device(draft))


def _domains(vocabulary: int) -> Mapping[str, Domain]:
    return {
        "bias_tolerance": TOLERANCE,
        "token": token_of(vocabulary),
        "k": size_up_to(vocabulary),
        "resolution": _SMALL,
        "width": _SMALL,
    }


def _received(row: Any, bias_tolerance: float, token: int) -> float:
    """Return Σ |q - q̂| for the row decoded from the bytes, with the exact q_d or without it, whichever is more."""
    choice = cheapest_codec(row, bias_tolerance)
    distances = []
    for known in (True, False):
        message = decode(encode(coded_message(row, choice, token=token, probability=known)))
        if not isinstance(message, (MixedMessage, TruncatedMessage)):
            raise AssertionError(f"a mixed message came back as {type(message).__name__}")
        distances.append(float(np.abs(decoded_rows(message)[0] - row).sum()))
    return max(distances)


def _certified(row: Any, bias_tolerance: float, token: int) -> float:
    """Return the certified bias; infinite if it exceeds the tolerance, so that the claim fails."""
    bias = float(cheapest_codec(row, bias_tolerance).bias)
    return bias if bias <= bias_tolerance else -math.inf


def _bits(row: Any, bias_tolerance: float, k: int, resolution: int, width: int) -> float:
    return float(cheapest_codec(row, bias_tolerance).bits)


def _competitor(row: Any, bias_tolerance: float, k: int, resolution: int, width: int) -> float:
    """Return the bits of the cheapest competitor within the tolerance, in whole numbers; infinity without one."""
    v, limit = row.shape[-1], bias_tolerance - _NEARLY
    found = [math.inf]
    levels = decoded_draft(row, k, bits_per_probability=width)
    if float(np.abs(levels - row).sum()) <= limit:
        found.append(2 + _gamma(k + 1) + _gamma(width) + k * (width + (v - 1).bit_length()))
    if 1 <= k <= np.count_nonzero(row):
        counts = quantize(row, support=top_support(row, k), resolution=resolution)
        if float(np.abs(counts / resolution - row).sum()) <= limit:
            states = math.comb(v, k) * lattice_points(k, resolution)
            found.append(2 + _gamma(k) + _gamma(resolution) + (states - 1).bit_length())
    return float(min(found))


def _gamma(value: int) -> int:
    return 2 * value.bit_length() - 1


def _competes(draft: Array, bias_tolerance: Array, k: Array, resolution: Array, width: Array) -> Array:
    """Whether one of the competitors is within the tolerance, and its size is on the default menu."""
    numbers = {"bias_tolerance": bias_tolerance, "k": k, "resolution": resolution, "width": width}
    return _each(_on_menu, draft, **numbers) < math.inf


def _on_menu(row: Any, bias_tolerance: float, k: int, resolution: int, width: int) -> float:
    return _competitor(row, bias_tolerance, k, resolution, width) if k <= _LARGEST else math.inf


def _side(of: Callable[..., float]) -> Callable[..., Array]:
    return lambda draft, bias_tolerance, token: _each(of, draft, bias_tolerance=bias_tolerance, token=token)


def _against(of: Callable[..., float]) -> Callable[..., Array]:
    return lambda draft, bias_tolerance, k, resolution, width: _each(
        of, draft, bias_tolerance=bias_tolerance, k=k, resolution=resolution, width=width
    )


_SOURCE = Source("bhattacharjee2025csqs", "Section 4, and oh2025cuhlm IV-B: each with one codec for all rows")
_ROW = {"draft": [0.5, 0.25, 0.125, 0.125], "bias_tolerance": 0.5}

CLAIMS = (
    Claim(
        id="codec.cheapest_certificate",
        source=_SOURCE,
        statement="Σ |q − q̂| ≤ certified bias ≤ ε for the row decoded from the bytes of the cheapest codec",
        lhs=_side(_received),
        rhs=_side(_certified),
        attained=Attained({**_ROW, "token": 0}),
        ceiling=2.0,
    ),
    Claim(
        id="codec.cheapest",
        source=_SOURCE,
        statement="bits of the cheapest codec ≤ bits of any top-k (k, b) and any lattice (K, ℓ) within ε",
        lhs=_against(_bits),
        rhs=_against(_competitor),
        assumptions=(Assumption("the competitor is on the menu, and Σ |q − q̂| ≤ ε − 10⁻⁹", _competes),),
        attained=Attained({"draft": [0.9, 0.1], "bias_tolerance": 0.25, "k": 1, "resolution": 1, "width": 1}),
    ),
)
