"""The array libraries with which the public functions are tested."""

from typing import Any

import numpy as np
import pytest

LIBRARIES = ("numpy", "torch", "strict")


def namespace(library: str) -> Any:
    """Return the module that makes arrays of this library; skip the test if it is not installed."""
    return pytest.importorskip({"numpy": "numpy", "torch": "torch", "strict": "array_api_strict"}[library])


def to(library: str, value: Any, dtype: str | None = None) -> Any:
    xp = namespace(library)
    array = xp.asarray(np.array(value))
    return array if dtype is None else xp.asarray(array, dtype=getattr(xp, dtype))


def kind_of(value: Any) -> tuple[str, str]:
    library = type(value).__module__.split(".")[0].removeprefix("array_api_")
    return library, str(value.dtype).rpartition(".")[2]


def numbers(value: Any) -> np.ndarray:
    value = value.detach().to("cpu").double() if hasattr(value, "detach") else value
    return np.asarray(value, dtype=np.float64)
