"""Transfers that last longer than a coherence block: the SNR is drawn independently every T_c seconds.

A block carries X = W T_c log₂(1 + S) bits. A transfer of B bits starts at the beginning of a block. It ends at the time
T when B bits have been carried, usually in the middle of a block. Let R be the rate of the first block. Then

  E[T] = g(B) + ∫₀^B E[T for B - x bits] f_X(x) dx,  g(b) = E[min(T_c, b/R)].

The first term is the time spent in the first block, up to its end or to the last bit. The second term is the time
after the first block: the remaining B - x bits are a new transfer. This renewal equation is solved on a grid, as a
power series.

There are two limits. For T_c → ∞ only the first block matters, and the mean grows like ln T_c without bound. For
T_c → 0 the mean is B/(W E[log₂(1 + S)]).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import finite_answer, instance
from hlmtheory.channel import fading_laws as laws
from hlmtheory.channel.fading import QuadratureEstimate, Rician

_LN2 = math.log(2)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)  # in each cell of the grid
_PER_DEVIATION = 32  # cells in a standard deviation of X
_LEAST, _MOST = 512, 2**13  # smallest and largest number of cells of the coarser grid
_END = 1020.0  # bit/s/Hz; float64 cannot hold the SNR of a higher spectral efficiency


@finite_answer
def mean_transfer_time(link: Rician, bits: Array, bandwidth_hz: Array, coherence_s: Array) -> QuadratureEstimate:
    """Return the mean time E[T] to send a payload over fading blocks, each with an independent SNR.

    With F = B/(W E[log₂(1 + S)]) it lies between F and F + T_c (claims ``transfer_floor`` and ``transfer_ceiling``).
    So it is finite. The mean of :func:`shannon_latency` over S, which keeps S constant for the whole transfer, is not.

    Parameters
    ----------
    link : Rayleigh or Rician
        The law of the SNR of a block, shape (...).
    bits, bandwidth_hz : array, shape (...)
        B in bit, W in Hz.
    coherence_s : array, shape (...)
        T_c, length of a block in seconds; the transfer begins with a block.

    Returns
    -------
    QuadratureEstimate
        In seconds, float64, shape (...). The value is extrapolated from the renewal equation on two grids; the error
        is its distance from the value on the finer grid. For a payload longer than the largest grid, the value is
        B/(W capacity) plus an excess: the mean of E[T] - b/(W capacity) over the grid's last block. The error then
        includes the largest deviation of the excess from this mean.

    Raises
    ------
    ValueError
        If a value is not positive and finite, or the shapes do not broadcast.

    Examples
    --------
    >>> from hlmtheory.channel import Rayleigh
    >>> link = Rayleigh(mean_snr=0.01)  # -20 dB; cu-hlm's payload and band
    >>> [round(float(mean_transfer_time(link, 736_000, 10e6, t).value), 2) for t in (1e4, 1.0, 0.1, 1e-3)]
    [40.87, 5.64, 5.2, 5.15]
    """
    both = instance("link", link, Rician)._through(
        _means,
        bits=bits,
        bandwidth_hz=bandwidth_hz,
        coherence_s=coherence_s,
    )
    return QuadratureEstimate(both[0, ...], both[1, ...])


def low_snr_transfer_time(blocks: Any) -> Any:
    """Return E[T]/T_c if the rate is proportional to an exponential S.

    ``blocks`` is a = B/E[X], the payload in units of the mean bits of a block. In these units, the bits carried by the
    end of each block are the points of a Poisson process. The last block could carry b + o: b is needed and follows
    min(Exp(1), a); o is not needed and follows Exp(1). So E[T]/T_c = a + 1 - E[o/(b + o)], where E[o/(b + o) | b] = 1 -
    b e^b E₁(b). This gives a + a(1 + a/2) E₁(a) + (1 - (1 + a)e^{-a})/2.
    """
    from scipy import special

    a = np.asarray(blocks, dtype=np.float64)
    return a + a * (1.0 + a / 2.0) * special.exp1(a) + (-np.expm1(-a) - a * np.exp(-a)) / 2.0


def _means(m: Any, k: Any, bits: Any, band: Any, coherence: Any) -> Any:
    """Return E[T] and its error in seconds, shape (2, ...); below, bits are counted in units of W T_c."""
    mean = laws.capacity(m, k)
    square = laws.mean_of(lambda s: (np.log1p(s) / _LN2) ** 2, m, k, m * 1e-20)[0]
    deviation = np.maximum(np.sqrt(np.maximum(square - mean**2, 0.0)), 1e-4 * mean)
    found = np.empty((2, *mean.shape))
    for place in np.ndindex(mean.shape):
        one = (float(v[place]) for v in (m, k, bits / (band * coherence), mean, deviation))
        found[(slice(None), *place)] = _blocks(*one)
    return coherence * found


@lru_cache(maxsize=1024)  # cached: a claim needs the value, then the error
def _blocks(m: float, k: float, need: float, mean: float, deviation: float) -> tuple[float, float]:
    """Return E[T]/T_c for ``need`` bits, and its error; ``mean`` and ``deviation`` are of the bits of a block."""
    # Extent of the grid: the whole payload, or as much of it as the largest grid covers
    reach = min(need, max(_MOST / _PER_DEVIATION * deviation, 4.0 * mean))
    cells = int(min(max(_LEAST, math.ceil(_PER_DEVIATION * reach / deviation)), _MOST))
    # Two grids and their extrapolation
    coarse, fine = (_grid(np.asarray(m), np.asarray(k), reach, n)[:: n // cells] for n in (cells, 2 * cells))
    blocks = (4.0 * fine - coarse) / 3.0  # the error of a grid falls by 4
    error = np.abs(blocks - fine)
    if reach == need:
        return float(blocks[-1]), float(error[-1])
    # Beyond the grid: need / mean, plus the mean of blocks - bits / mean over the last block of the grid
    bits = np.linspace(0.0, reach, cells + 1)
    last = bits >= reach - mean
    excess = (blocks - bits / mean)[last]
    beyond = float(np.mean(excess))
    return need / mean + beyond, float(np.max(np.abs(excess - beyond))) + float(np.max(error[last]))


def _grid(m: Any, k: Any, reach: float, cells: int) -> Any:
    """Return E[T]/T_c for 0, .., reach bits, linear in each cell: the power series u = g + u f, so u = g/(1 - f)."""
    # Probability mass at each quadrature node of each cell
    step = reach / cells
    edges, right = np.arange(cells + 1) * step, (1.0 + _NODES) / 2.0
    inside = edges[:-1, None] + step * right
    mass = step / 2.0 * _WEIGHTS * _density(m, k, inside)
    below = np.concatenate([[0.0], np.cumsum(mass.sum(axis=-1))])
    # g(b): a block that can carry x < b is used to its end; one with x > b is used for b/x of its length
    beyond = float(laws.mean_of(laws.inverse_efficiency, m, k, np.expm1(np.asarray(min(reach, _END) * _LN2)))[0])
    slower = np.concatenate([np.cumsum((mass / inside).sum(axis=-1)[::-1])[::-1], [0.0]])
    one_block = below + edges * (beyond + slower)
    one_block[0] = 0.0
    # 1 - f: each cell keeps its mass and its mean, so that the error does not grow with the number of blocks
    kernel = np.zeros(cells + 1)
    kernel[:-1] -= (mass * (1.0 - right)).sum(axis=-1)
    kernel[1:] -= (mass * right).sum(axis=-1)
    kernel[0] += 1.0
    return _product(one_block, _reciprocal(kernel))


def _density(m: Any, k: Any, efficiency: Any) -> Any:
    """Return the density of log₂(1 + S); 0 where float64 cannot hold the SNR."""
    snr = np.expm1(np.minimum(efficiency, _END) * _LN2)
    return np.where(efficiency < _END, laws.density(m, k, snr) * (1.0 + snr) * _LN2, 0.0)


def _reciprocal(series: Any) -> Any:
    """Return the power series 1/series by Newton's method; each step y(2 - series y) doubles the correct terms."""
    found, count = np.array([1.0 / series[0]]), 1
    while count < len(series):
        count = min(2 * count, len(series))
        gap = -_product(series[:count], np.pad(found, (0, count - len(found))))
        gap[0] += 2.0
        found = _product(gap, np.pad(found, (0, count - len(found))))
    return found


def _product(one: Any, other: Any) -> Any:
    """Return the product of two power series, cut to the length of the first."""
    size = 1 << (2 * len(one) - 1).bit_length()
    return np.fft.irfft(np.fft.rfft(one, size) * np.fft.rfft(other, size), size)[: len(one)]
