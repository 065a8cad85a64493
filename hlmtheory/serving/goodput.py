"""Goodput of speculation under load: an affine pass time, its fit, and the batch from which drafts do not pay.

A pass over B sequences with W new and C cached tokens each takes a + b·BW + c·BC seconds (2406.14066), so a round of K
drafts F_K + B·S_K for B·E tokens.
"""

from dataclasses import dataclass

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import COUNT, DomainError, broadcast, finite_answer, numbers
from hlmtheory._quantities import at_least_one, not_negative, positive
from hlmtheory.serving.shapes import LENGTH, POSITIVE_COUNT, SECONDS, Device

TOKENS = at_least_one("give the mean tokens that a round emits for one sequence, with the target model's own")
BATCH = positive("give the number of sequences in a pass")
LOAD = not_negative("give the tokens per second that all users together ask for")
_MEASURED = positive("give the measured seconds of a pass")


@finite_answer
def fit_passes(batch_size: Array, width: Array, context: Array, seconds: Array) -> tuple[float, float, float]:
    """Return (a, b, c) of the plane a + b·BW + c·BC through measured passes, by non-negative least squares."""
    from scipy.optimize import nnls

    given = _columns(batch_size, width, context)
    times = numbers(_MEASURED, "seconds", seconds)
    broadcast(**{"the others": np.broadcast_shapes(*(one.shape for one in given)), "seconds": times.shape})
    *columns, y = np.broadcast_arrays(*given, times)
    if y.ndim != 1 or not y.size:
        raise DomainError(f"seconds must be a row of passes; got shape {y.shape}; give one time for each pass")
    table = np.stack(columns, axis=-1)
    scale = np.max(table, axis=0)
    used = scale > 0
    table = table / np.where(used, scale, 1.0)
    if np.linalg.matrix_rank(table) < np.count_nonzero(used):
        raise DomainError(
            "batch_size, width and context must vary on their own; got passes that several planes fit; measure other "
            "batches and widths, or set context to 0 for all"
        )
    found = nnls(table, y)[0]
    if y.size <= np.count_nonzero(found > 0):
        raise DomainError(
            f"seconds must have more passes than positive coefficients; got {y.size} passes; measure more"
        )
    a, b, c = (found / np.where(used, scale, 1.0)).tolist()
    return a, b, c


@finite_answer
def round_line(
    target_pass: Array, draft_pass: Array, draft_length: Array, context: Array, overhead_s: Array
) -> tuple[Array, Array]:
    """Return F_K in s and S_K in s a sequence: a round of K drafts of a batch of B takes F_K + B·S_K.

    A pass is (a, b, c), ``context`` the mean cached tokens, ``overhead_s`` what a round with drafts takes besides.
    """
    target, draft = _pass("target_pass", target_pass), _pass("draft_pass", draft_pass)
    length, cached = numbers(COUNT, "draft_length", draft_length), numbers(LENGTH, "context", context)
    overhead = numbers(SECONDS, "overhead_s", overhead_s)
    shapes = {"target_pass": target.shape[:-1], "draft_pass": draft.shape[:-1], "draft_length": length.shape}
    shape = broadcast(**shapes, context=cached.shape, overhead_s=overhead.shape)
    fixed = target[..., 0] + length * draft[..., 0] + np.where(length > 0, overhead, 0.0)
    new = (length + 1.0) * target[..., 1] + length * draft[..., 1]
    slope = new + cached * (target[..., 2] + length * draft[..., 2])
    if not np.all(fixed + slope > 0):
        raise DomainError("target_pass must give a round some time; got 0 s for one sequence; measure a pass")
    return np.broadcast_to(fixed, shape) + 0.0, np.broadcast_to(slope, shape) + 0.0


@finite_answer
def goodput(tokens: Array, fixed: Array, slope: Array, batch_size: Array) -> Array:
    """Return B·E/(F + B·S), the tokens per second of B sequences: E tokens of a round, in F + B·S seconds."""
    made, base, each = _line(tokens, fixed, slope)
    size = numbers(BATCH, "batch_size", batch_size)
    broadcast(tokens=made.shape, fixed=base.shape, slope=each.shape, batch_size=size.shape)
    seconds = base + each * size
    if not np.all(seconds > 0):
        raise DomainError("fixed + slope * batch_size must be positive; got 0; a round takes some time")
    return size * made / seconds


def crossover_batch(
    tokens: Array, target_pass: Array, draft_pass: Array, draft_length: Array, context: Array, overhead_s: Array
) -> tuple[Array, Array]:
    """Return the batches between which K drafts a round pay: the goodput is above that of the target model alone.

    The gain E·T_0(B) - T_K(B) is affine in B, so these batches are an interval (``serving.goodput_crossover``). Most
    often it begins at 0, and speculation loses from ``pays_to`` on. If the cache dominates, it may begin later.

    Parameters
    ----------
    tokens : array, shape (...)
        E at this draft length, 1 or more.
    target_pass, draft_pass, draft_length, context, overhead_s
        As in :func:`round_line`.

    Returns
    -------
    pays_from, pays_to : array, shape (...)
        Drafts pay for pays_from < B < pays_to. pays_to is infinite if they pay at all large batches; both are 0 if they
        pay at none.

    Raises
    ------
    ValueError
        As in :func:`round_line`.

    Examples
    --------
    >>> start, end = crossover_batch(2.5, [4.0, 0.5, 0.0], [1.0, 0.25, 0.0], 2, 100.0, 0.5)
    >>> float(start), float(end)
    (0.0, 4.666666666666667)
    """
    made = numbers(TOKENS, "tokens", tokens)
    fixed, slope = round_line(target_pass, draft_pass, draft_length, context, overhead_s)
    alone, each = round_line(target_pass, draft_pass, 0, context, 0.0)
    broadcast(tokens=made.shape, **{"the others": fixed.shape})
    start, rise = _gain(made, fixed, slope, alone, each)
    zero = np.zeros_like(start)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        meets = np.where(rise == 0, np.inf, -start / rise)
    low = np.where((rise > 0) & (start < 0), meets, zero)
    falls = np.where(start > 0, meets, zero)
    return low, np.where((rise > 0) | ((rise == 0) & (start > 0)), np.inf, falls)


@finite_answer
def load_batch(load: Array, tokens: Array, fixed: Array, slope: Array) -> Array:
    """Return the mean sequences under random arrivals: load·(F + S)/(E - load·S) (``serving.load_poisson``)."""
    made, base, each = _line(tokens, fixed, slope)
    asked = numbers(LOAD, "load", load)
    broadcast(load=asked.shape, tokens=made.shape, fixed=base.shape, slope=each.shape)
    left = made - asked * each
    if not np.all(left > 0):
        raise DomainError("load must be below tokens / slope; got more than any batch emits; lower it")
    return asked * (base + each) / left


def _gain(made: Array, fixed: Array, slope: Array, alone: Array, each: Array) -> tuple[Array, Array]:
    """Return u and v of the gain E·T_0(B) - T_K(B) = u + B·v."""
    with np.errstate(over="ignore"):
        return made * alone - fixed, made * each - slope


def _columns(batch_size: Array, width: Array, context: Array) -> tuple[Array, Array, Array]:
    size, new = numbers(POSITIVE_COUNT, "batch_size", batch_size), numbers(POSITIVE_COUNT, "width", width)
    cached = numbers(LENGTH, "context", context)
    broadcast(batch_size=size.shape, width=new.shape, context=cached.shape)
    size = size.astype(np.float64)
    return np.ones(np.broadcast_shapes(size.shape, new.shape, cached.shape)), size * new, size * cached


def _pass(name: str, value: Array) -> Array:
    found = numbers(SECONDS, name, value)
    if not found.ndim or found.shape[-1] != 3:
        raise DomainError(f"{name} must be (a, b, c) on its last axis; got shape {found.shape}; see fit_passes")
    return found


def _line(tokens: Array, fixed: Array, slope: Array) -> tuple[Array, Array, Array]:
    return numbers(TOKENS, "tokens", tokens), numbers(SECONDS, "fixed", fixed), numbers(SECONDS, "slope", slope)


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """The result of :func:`fit_device`: least-squares estimates, which can be negative; then ``device`` raises."""

    c1: float
    c2: float
    r_squared: float | None  # None if the times do not vary

    @property
    def device(self) -> Device:
        """The device with the fitted coefficients."""
        return Device(self.c1, self.c2)


@finite_answer
def fit_device(flops: Array, batch_size: Array, seconds: Array) -> DeviceFit:
    """Return the least-squares coefficients c₁, c₂ of run time = c₁ F b + c₂ from measured passes.

    Parameters
    ----------
    flops : array, shape (n,)
        F of each pass, for one task.
    batch_size : integer array, shape (n,) or broadcastable
        b of each pass.
    seconds : array, shape (n,)
        Measured run time of each pass.

    Returns
    -------
    DeviceFit
        c₁ in seconds an operation, c₂ in seconds, and R².

    Raises
    ------
    ValueError
        If a value is outside its domain, there are fewer than 3 passes, or all have the same F b.

    Examples
    --------
    >>> fit = fit_device([1.0, 2.0, 3.0], 2, [5.0, 9.0, 13.0])
    >>> round(fit.c1, 9), round(fit.c2, 9), fit.r_squared
    (2.0, 1.0, 1.0)
    """
    work, size = numbers(LENGTH, "flops", flops), numbers(POSITIVE_COUNT, "batch_size", batch_size)
    times = numbers(SECONDS, "seconds", seconds)
    broadcast(flops=work.shape, batch_size=size.shape, seconds=times.shape)
    x, y = np.broadcast_arrays(work * size, times)
    if x.ndim != 1 or x.size < 3:
        raise DomainError(f"flops must be a row of at least 3 passes; got shape {x.shape}; measure more")
    centre = x.mean()
    spread = float(((x - centre) ** 2).sum())
    if not spread > 0:
        raise DomainError(
            f"flops must vary; got F b = {centre:.6g} in every pass; measure several sizes of batch or prompt"
        )
    c1 = float(((x - centre) * (y - y.mean())).sum()) / spread
    c2 = float(y.mean() - c1 * centre)
    residual = float(((y - c1 * x - c2) ** 2).sum())
    varies = bool(y.min() < y.max())  # equal times can still differ from their rounded mean
    return DeviceFit(c1, c2, 1.0 - residual / float(((y - y.mean()) ** 2).sum()) if varies else None)
