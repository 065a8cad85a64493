"""Fingerprint a trace: two traces with the same stored values have the same one."""

from __future__ import annotations

import hashlib

import numpy as np

from validation.trace.reader import Trace

BLOCK = 2**24  # bytes hashed at a time
_KNOWN: dict[tuple[str, int, str], str] = {}


def fingerprint(trace: Trace) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of a trace's values, computed once for each trace."""
    key = str(trace.path), trace.positions, str(trace.manifest.get("created"))
    if key in _KNOWN:
        return _KNOWN[key]
    found = hashlib.sha256()
    for name, array in sorted(trace.arrays.items()):
        found.update(f"{name} {np.dtype(array.dtype).str} {tuple(array.shape)}\n".encode())
        row = max(1, int(np.prod(array.shape[1:])) * np.dtype(array.dtype).itemsize)
        step = max(1, BLOCK // row)
        for start in range(0, array.shape[0], step):
            found.update(np.ascontiguousarray(array[start : start + step]).tobytes())
    return _KNOWN.setdefault(key, found.hexdigest()[:16])
