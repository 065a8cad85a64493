"""Helpers that run on numpy and on torch, by the array API; results are in the library of the arguments.

Everything here is private. The modules use it, so that none of their functions names a library.
"""

from functools import cache
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, is_torch_namespace

from hlmtheory._remember import remembered

NUMPY = array_namespace(np.empty(0))
BLOCK = 64  # number of entries that are summed sequentially

Array: TypeAlias = Annotated[Any, "Array"]  # the name is what a signature shows
"""An array of any array-API library: numpy, torch (CPU or CUDA), array-api-strict."""


def arrays(*exact: str, **values: Any) -> tuple[Any, ...]:
    """Return the namespace and the values as arrays of it, on one device.

    Numbers and sequences join the library and floating type of the other values; those named in ``exact`` become
    float64, so that a tolerance of 0.1 beside float32 rows stays 0.1. Refused by name: two libraries or devices in one
    call, and what holds no dense real numbers of 16 to 64 bits (None, strings, complex, ragged, masked, sparse, nested,
    meta).
    """
    if all(type(value) is np.ndarray for value in values.values()):  # the usual case, checked first for speed
        return (NUMPY, *(_real(name, value) for name, value in values.items()))
    if all(type(value) in _PLAIN for value in values.values()):
        rows = [_real(name, value) for name, value in values.items() if type(value) is np.ndarray]
        wide = widest(NUMPY, *rows) if rows else None
        return (
            NUMPY,
            *(
                value if type(value) is np.ndarray else _number_beside(name, value, None if name in exact else wide)
                for name, value in values.items()
            ),
        )
    given = {name: value for name, value in values.items() if is_array(value)}
    numbers = {name: plain(name, value) for name, value in values.items() if name not in given}
    for name, value in given.items():
        plain(name, value) if isinstance(value, np.ndarray) else _real_kind(name, value)
    if not given:
        return (NUMPY, *numbers.values())
    try:
        xp = array_namespace(*given.values())
    except TypeError as error:
        kinds = [f"{name} is a {type(value).__module__}.{type(value).__name__}" for name, value in given.items()]
        raise TypeError(f"arrays of two libraries in one call: {', '.join(kinds)}; convert one of them") from error
    where = device(next(iter(given.values())))
    elsewhere = {name: device(value) for name, value in given.items() if device(value) != where}
    if elsewhere:
        raise TypeError(f"arrays on two devices in one call: {elsewhere} and {where}; move one of them")
    wide = widest(xp, *given.values())
    types = {name: xp.float64 if name in exact else wide for name in values}
    return (xp, *(v if name in given else _beside(xp, numbers[name], types[name], where) for name, v in values.items()))


_PLAIN = (np.ndarray, float, int)
_NUMBERS = "fiub"  # numpy's letters for real numbers and booleans


def _number_beside(name: str, value: float, wide: Any) -> Array:
    """Return one number as a numpy array, in the floating type of the other arrays."""
    return _real(name, np.asarray(value, dtype=wide if type(value) is float else None))


def plain(name: str, value: Any, kinds: str = _NUMBERS) -> np.ndarray[Any, Any]:
    """Return a number, sequence or numpy array as a numpy array; raise, with the name, if it does not hold numbers."""
    for part in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(part, np.ma.MaskedArray):
            raise TypeError(
                f"{name} must not be a numpy masked array, whose mask would be ignored; got one of shape "
                f"{part.shape}; give its .filled(number), or leave the masked entries out"
            )
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(
            f"{name} must be numbers in lists of one length; got {brief(value)}; make the lists equally long"
        ) from error
    if array.dtype.kind == "O" and "U" in kinds and all(isinstance(entry, str) for entry in array.flat):
        return array.astype(str)
    return _real(name, array, value, kinds)


def _real(name: str, array: np.ndarray[Any, Any], value: Any = None, kinds: str = _NUMBERS) -> np.ndarray[Any, Any]:
    """Return the array if it holds real numbers or booleans."""
    if array.dtype.kind not in kinds:
        got = brief(array.tolist() if value is None else value)
        raise TypeError(
            f"{name} must be real numbers of at most 64 bits; got {got} of dtype {array.dtype}; convert it to numbers"
        )
    return array


def _real_kind(name: str, value: Array) -> None:
    """Raise if an array of another library does not hold real numbers or booleans, or not one in each place."""
    if is_torch_namespace(array_namespace(value)):
        _dense(name, value)
    if not is_kind(array_namespace(value), value.dtype, ("real floating", "integral", "bool")):
        raise TypeError(f"{name} must be real numbers; got dtype {value.dtype}; convert it to numbers")


def _dense(name: str, tensor: Any) -> None:
    """Raise if a torch tensor is sparse, nested or without values, or has too few bits for a probability."""
    if tensor.is_nested:
        raise TypeError(f"{name} must be a dense array; got a nested tensor; give its .to_padded_tensor(0.0)")
    if str(tensor.layout) != "torch.strided":
        raise TypeError(f"{name} must be a dense array; got the layout {tensor.layout}; give its .to_dense()")
    if tensor.is_meta:
        raise TypeError(f"{name} must hold values; got a tensor on the meta device; load it on another device")
    if tensor.is_floating_point() and tensor.element_size() < 2:
        raise TypeError(f"{name} must have 16 bits a number or more; got {tensor.dtype}; give its .to(torch.float32)")


def brief(value: Any) -> str:
    """Return the value on one short line, for a message."""
    try:
        shown = " ".join(repr(value).split())
    except RecursionError:
        return f"a {type(value).__name__} nested too deep to print"
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def is_array(value: Any) -> bool:
    """Return whether the value is an array; a numpy scalar counts as a Python number."""
    return is_array_api_obj(value) and not isinstance(value, np.generic)


def _beside(xp: Any, value: np.ndarray[Any, Any], wide: Any, where: Any) -> Array:
    """Return plain numbers as an array in the library and on the device of the others."""
    return xp.asarray(value, dtype=wide if value.dtype.kind == "f" else None, device=where)


@cache
def is_kind(xp: Any, dtype: Any, kind: str | tuple[str, ...]) -> bool:
    """Return whether a type is of a kind of the array API; cached, because the call is slow."""
    return bool(xp.isdtype(dtype, kind))


@cache
def _bits(xp: Any, dtype: Any) -> int:
    return int(xp.finfo(dtype).bits)


def widest(xp: Any, *values: Array) -> Any:
    """Return float32 if every floating type among the values has at most 32 bits, else float64."""
    bits = [_bits(xp, value.dtype) for value in values if is_kind(xp, value.dtype, "real floating")]
    return xp.float32 if bits and max(bits) <= 32 else xp.float64


def floating(xp: Any, *values: Array) -> tuple[Array, ...]:
    """Return the values in their common floating type, at least float32 (half types lose mass in a sum)."""
    wide = widest(xp, *values)
    return tuple(in_kind(xp, value, wide) for value in values)


def in_kind(xp: Any, value: Array, kind: Any) -> Array:
    """Return the value in the given type; the value itself if it already has that type."""
    return value if value.dtype == kind else xp.astype(value, kind)


def upward(xp: Any, bound: Array, kind: Any) -> Array:
    """Return a bound in another type, rounded up; rounding to nearest would lower it half of the time."""
    if bound.dtype == kind:
        return bound
    with np.errstate(over="ignore"):  # a bound beyond the largest number of the type is infinite
        near = in_kind(xp, bound, kind)
    return xp.where(in_kind(xp, near, bound.dtype) < bound, xp.nextafter(near, xp.full_like(near, xp.inf)), near)


class Interval(NamedTuple):
    """Ends of an interval, rounded outwards; the function that returns it says which ends are sharp."""

    lower: Array
    upper: Array


def interval(xp: Any, lower: Array, upper: Array, kind: Any) -> Interval:
    """Return the interval in the type ``kind``, rounded outwards."""
    return Interval(-upward(xp, -lower, kind), upward(xp, upper, kind))


def sum_up(xp: Any, a: Array, b: Array) -> Array:
    """Return a + b in float64, rounded up where it is not exact; -sum_up(-a, -b) is rounded down."""
    total = a + b
    part = total - a
    missing = (a - (total - part)) + (b - part)  # exact: Knuth, The Art of Computer Programming 2, 4.2.2, Theorem B
    return xp.where(missing > 0, xp.nextafter(total, xp.full_like(total, xp.inf)), total)


def epsilon(xp: Any, dtype: Any) -> float:
    """Return the spacing of the floating type at 1; 0 for integer types."""
    return float(xp.finfo(dtype).eps) if is_kind(xp, dtype, "real floating") else 0.0


def softmax(xp: Any, logits: Array) -> Array:
    """Return the softmax over the last axis, by the library's fused routine if there is one."""
    if is_torch_namespace(xp):
        return logits.softmax(dim=-1)
    e = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def sort_descending(xp: Any, values: Array) -> Array:
    """Return the values in descending order along the last axis. The sort is not stable, which is 3 times faster."""
    return xp.flip(sort_ascending(xp, values), axis=-1)


@remembered
def sort_ascending(xp: Any, values: Array) -> Array:
    """Return the values in ascending order along the last axis, as :func:`sort_descending`."""
    return xp.sort(values, axis=-1, stable=False)


@remembered
def order_descending(xp: Any, values: Array) -> Array:
    """Return the indices that sort the last axis in descending order, equal values by lowest index.

    numpy's fast sort is not stable: the indices of equal values are sorted behind it, with the rank of the value above.
    """
    if xp is not NUMPY or values.shape[-1] >= 2**31 or xp.any(xp.isnan(values)):
        return xp.argsort(values, axis=-1, descending=True, stable=True)
    order = np.argsort(-values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    order[..., 1:] += (ordered[..., 1:] != ordered[..., :-1]).cumsum(axis=-1) << 31
    order.sort(axis=-1)
    return order & (2**31 - 1)


@remembered
def distinct(xp: Any, values: Array) -> Array:
    """Return the distinct values, in the library's order."""
    return xp.unique_values(values)


def spread(xp: Any, value: Array, shape: tuple[int, ...]) -> Array:
    """Call ``broadcast_to`` only if the shape differs, because it takes as long as a small computation."""
    if tuple(value.shape) == shape:
        return value
    return np.full(shape, value) if xp is NUMPY and not value.ndim else xp.broadcast_to(value, shape)


def running(xp: Any, values: Array) -> Array:
    """Return the running sums over the last axis."""
    return values.cumsum(axis=-1) if xp is NUMPY else xp.cumulative_sum(values, axis=-1)


def every(xp: Any, good: Array) -> bool:
    """Return whether all entries are true; numpy's own method takes a third of the time for a few entries."""
    return bool(good.all() if xp is NUMPY else xp.all(good))


def take(xp: Any, values: Array, indices: Array) -> Array:
    """Call ``take_along_axis`` over the last axis."""
    if is_torch_namespace(xp):  # the wrapper is 2 to 5 times slower
        return values.take_along_dim(indices, dim=-1)
    few = xp is NUMPY and values.ndim == indices.ndim == 2 and 8 * indices.shape[1] < values.shape[1]
    if few and values.shape[0] == indices.shape[0] and values.flags.c_contiguous:
        starts = values.shape[1] * np.arange(values.shape[0])[:, None]  # numpy's own is slower for a few entries
        return values.reshape(-1).take(indices + starts if values.shape[0] > 1 else indices)
    return xp.take_along_axis(values, indices, axis=-1)


def on_host(xp: Any, *values: Array) -> tuple[Any, ...]:
    """Return the namespace and the values; torch tensors on the CPU become numpy arrays of the same memory.

    numpy sorts 30 times faster. The values are float32, float64 or int64, which numpy has.
    """
    if is_torch_namespace(xp) and all(value.device.type == "cpu" for value in values):
        return (NUMPY, *(value.detach().numpy() for value in values))
    return (xp, *values)


def back(xp: Any, value: Array) -> Array:
    """Return a numpy result computed after :func:`on_host` as an array of the caller's library."""
    return xp.asarray(value) if is_torch_namespace(xp) else value


@remembered
def tail_sums(xp: Any, values: Array) -> Array:
    """Return the sums of the entries from index k on, k = 0..V, shape (..., V + 1).

    The sums start at the last entry, so that the small tails of a descending row keep their relative accuracy. They use
    two levels, so that a sum has at most BLOCK + V / BLOCK roundings instead of V.
    """
    size = values.shape[-1]
    blocks = -(-size // BLOCK)
    missing = xp.zeros_like(values[..., :1])
    padding = xp.broadcast_to(missing, (*values.shape[:-1], blocks * BLOCK - size))
    reverse = xp.reshape(xp.concat([xp.flip(values, axis=-1), padding], axis=-1), (*values.shape[:-1], blocks, BLOCK))
    within = running(xp, reverse)
    whole = within[..., -1]
    before = running(xp, whole) - whole
    sums = xp.reshape(within + before[..., None], (*values.shape[:-1], blocks * BLOCK))
    return xp.concat([xp.flip(sums[..., :size], axis=-1), missing], axis=-1)


def count_above(xp: Any, descending: Array, thresholds: Array) -> Array:
    """Return the number of entries of each descending row (R, V) that exceed each of its thresholds (R, T)."""
    if is_torch_namespace(xp):
        import torch

        return torch.searchsorted((-descending).contiguous(), (-thresholds).contiguous())
    rows = range(descending.shape[0])
    counts = [xp.searchsorted(-descending[i, :], -thresholds[i, :]) for i in rows]
    return xp.stack(counts) if counts else xp.zeros(thresholds.shape, dtype=xp.int64)


def to_numpy(value: Any) -> np.ndarray[Any, Any]:
    """Return the value as a numpy array on the host."""
    if isinstance(value, np.ma.MaskedArray):
        plain("the array", value)
    if hasattr(value, "detach"):
        _dense("the array", value)
        value = value.detach().cpu()
    return np.asarray(value)
