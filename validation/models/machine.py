"""Describe the machine on which numbers are measured."""

import os
import platform
from pathlib import Path
from typing import Any

from validation.models.devices import cores
from validation.provenance import versions

FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_tile", "asimd", "sve")


def machine() -> dict[str, Any]:
    """Return the cores, processor, GPUs, load and versions that measurements depend on, without personal data."""
    import torch

    info = Path("/proc/cpuinfo")
    known = set(info.read_text().split()) if info.exists() else set()
    return {
        "cores": cores(),
        "processor": platform.machine(),
        "flags": [flag for flag in FLAGS if flag in known],
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "load": round(os.getloadavg()[0], 1),
        "versions": versions("numpy", "torch"),
    }
