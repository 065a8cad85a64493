"""Choose the device, estimate the memory that a pair needs, and explain out-of-memory errors."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from validation.errors import UserError

if TYPE_CHECKING:
    import torch

WORKING_SHARE, WORKING_LEAST = 0.2, 512 * 2**20  # in addition to weights: activations, caches, logits
CGROUP = Path("/sys/fs/cgroup")
WIDE_ROWS, WIDE_PART = 24, 1024  # from how many rows on products are float32, and the weights' rows turned at a time
REMEDY = "choose a smaller pair, a narrower dtype such as bfloat16, or another device"


def choose_device(name: str) -> torch.device:
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        if not gpus:
            return torch.device("cpu")
        return torch.device("cuda", max(range(gpus), key=lambda gpu: torch.cuda.mem_get_info(gpu)[0]))
    try:
        where = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"Unknown device {name!r}; use 'auto', 'cpu', 'cuda' or 'cuda:1'.") from error
    if where.type == "cuda" and (where.index or 0) >= gpus:
        raise UserError(f"No such device {name!r}: torch sees {gpus} GPUs; use 'cpu' instead.")
    if where.type in ("cpu", "cuda"):
        return where
    try:
        holds = torch.ones(1, device=where).tolist() == [1.0]
    except Exception:  # each device type raises its own error when it is missing
        holds = False
    if not holds:
        raise UserError(f"Nothing can be computed on the device {name!r} here; use 'cpu' instead.")
    return where


def free_memory(where: torch.device) -> int | None:
    """Return the free memory of a device in bytes, or None if it is unknown."""
    if where.type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(where)[0])
    return free_host_memory() if where.type == "cpu" else None


def free_host_memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = CGROUP) -> int | None:
    """Return the free memory in bytes: the smaller of the host's and what the container's limit leaves."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    try:
        limit = int((cgroup / "memory.max").read_text())  # the file contains "max" if there is no limit
        counts = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        used = int((cgroup / "memory.current").read_text()) - int(counts["inactive_file"])
    except (OSError, KeyError, ValueError):
        return free
    return min(free, max(limit - used, 0))


def weight_bytes(config: Any, dtype: str) -> int | None:
    """Return the size of a model's weights in bytes from its configuration, or None if the configuration fails."""
    import torch
    import transformers

    stored = getattr(config, "dtype", None) or torch.float32
    width = (stored if dtype == "auto" else getattr(torch, dtype)).itemsize
    try:
        with torch.device("meta"):  # shapes without memory
            model = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    except Exception:  # loading reports a faulty configuration more clearly
        return None
    return int(width * sum(parameter.numel() for parameter in model.parameters()))


def working_memory(weights: int) -> int:
    """Return the bytes that two models need with their working space, from the bytes of their weights."""
    return weights + max(int(WORKING_SHARE * weights), WORKING_LEAST)


def require_memory(draft: int | None, target: int | None, where: torch.device, limit: int | None = None) -> None:
    """Refuse a pair that does not fit on the device, before anything is loaded."""
    if draft is None or target is None:
        return
    needed = working_memory(draft + target)
    _compare("The two models with working space need", needed, limit, "allowed by --memory")
    _compare("The two models with working space need", needed, free_memory(where), f"free on {where}")
    if where.type != "cpu":
        _compare("Loading passes the larger model through the host and needs", max(draft, target), free_host_memory())


def _compare(what: str, needed: int, free: int | None, place: str = "free there") -> None:
    if free is not None and needed > free:
        raise UserError(
            f"{what} about {needed / 1e9:.2f} GB, but only {free / 1e9:.2f} GB of memory are {place}; {REMEDY}."
        )


def multiply_in_float32(model: Any) -> None:
    """Let layers of bfloat16 multiply many rows in float32 where the CPU lacks bfloat16: 2 to 5 times as fast.

    Sums are float32 in both ways; the order of their terms differs.
    """
    import torch

    if torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return
    for layer in model.modules():
        if type(layer) is torch.nn.Linear and (layer.weight.device.type, layer.weight.dtype) == ("cpu", torch.bfloat16):
            layer.forward = partial(_product, layer)


def _product(layer: Any, rows: torch.Tensor) -> torch.Tensor:
    from torch import cat
    from torch.nn.functional import linear

    if rows.numel() < WIDE_ROWS * layer.in_features:
        return linear(rows, layer.weight, layer.bias)
    wide, parts = rows.float(), []
    for start in range(0, layer.out_features, WIDE_PART):
        part = slice(start, start + WIDE_PART)
        bias = None if layer.bias is None else layer.bias[part].float()
        parts.append(linear(wide, layer.weight[part].float(), bias).to(rows.dtype))
    return parts[0] if len(parts) == 1 else cat(parts, dim=-1)


def wait_for(device: torch.device) -> None:
    """Wait until an accelerator has finished, so that a measured time is complete."""
    if device.type != "cpu":
        import torch

        torch.accelerator.synchronize(device)


@contextmanager
def seeded_random_state(device: torch.device, seed: int) -> Iterator[None]:
    """Run the body with torch's global random state seeded, then restore it on the host and on the device."""
    import torch

    others = [] if device.type == "cpu" else [device]
    with torch.random.fork_rng(devices=others, device_type=device.type):
        seeding: Any = torch if others else torch.random.default_generator
        seeding.manual_seed(seed)
        yield


@contextmanager
def memory_errors() -> Iterator[None]:
    """Convert an out-of-memory error, on a GPU or on the host, to a UserError of one sentence."""
    try:
        yield
    except Exception as error:
        message = out_of_memory(error)
        if message is None:
            raise
        raise UserError(message) from error


def out_of_memory(error: BaseException) -> str | None:
    """Return the message for an out-of-memory error, or None for any other error."""
    text = str(error)
    if type(error).__name__ in ("OutOfMemoryError", "CUDAOutOfMemoryError") or "CUDA out of memory" in text:
        place = "The GPU"
    elif isinstance(error, MemoryError) or "DefaultCPUAllocator" in text or "can't allocate memory" in text:
        place = "This machine"
    else:
        return None
    first = text.strip().splitlines()[0].rstrip(".") if text.strip() else "nothing more is known"
    return f"{place} ran out of memory ({first}); {REMEDY}."


MMAP_THRESHOLD, TRIM_THRESHOLD = (-3, 2**25), (-1, 2**28)
"""Parameters of glibc's malloc with their values: the largest array taken from the heap, and the free heap it keeps."""


@cache
def keep_freed_memory() -> None:
    """Let this process keep the memory of freed arrays for the next ones, where it uses glibc."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        for name, value in (MMAP_THRESHOLD, TRIM_THRESHOLD):
            libc.mallopt(name, value)


def return_freed_memory() -> None:
    """Give the memory of freed arrays back to the system, where this process uses glibc."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
