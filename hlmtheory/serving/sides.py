"""Sides of the theorems on the cost of a server's pass."""

from hlmtheory._array import Array
from hlmtheory._domains import numbers
from hlmtheory.serving.shapes import POSITIVE_COUNT


def product_side(rows: Array, inner: Array, columns: Array) -> Array:
    return 2.0 * rows * inner * columns


def model_side(model: Array) -> tuple[Array, Array, Array]:
    shape = numbers(POSITIVE_COUNT, "model", model)
    return shape[..., 0], shape[..., 1], shape[..., 2]
