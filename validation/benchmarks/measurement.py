"""One measured number beside another, and the machine that it was measured on."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from validation.models.devices import cores

FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_tile", "asimd", "sve")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the table: a value, and how it compares with another of the same run."""

    what: str
    value: float
    unit: str
    against: str
    ratio: float  # value over that of ``against``


def machine() -> dict[str, Any]:
    """The machine in words that say what the numbers depend on, and nothing of whose it is."""
    import torch

    info = Path("/proc/cpuinfo")
    known = set(info.read_text().split()) if info.exists() else set()
    return {
        "cores": cores(),
        "processor": platform.machine(),
        "flags": [flag for flag in FLAGS if flag in known],
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "load": round(os.getloadavg()[0], 1),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in ("numpy", "torch")}},
    }
