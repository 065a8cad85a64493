"""What a two-stage pipeline of draft and verification costs: memory, operations, run time, latency.

Paper: edge-sd (zhu2025edgesd) (7)-(23). A stage (prefill, base, slope) takes the prefill at step 1 and base + slope
(n - 1) at step n ≥ 2. The goodput of one server under load is of liu2024goodput and kong2026latency.
"""

from __future__ import annotations

from hlmtheory.serving.costs import decoding_steps, expected_steps, peak_memory, stage_times, upload_bits
from hlmtheory.serving.goodput import (
    DeviceFit,
    crossover_batch,
    fit_device,
    fit_passes,
    goodput,
    load_batch,
    round_line,
)
from hlmtheory.serving.pipeline import inference_latency
from hlmtheory.serving.shapes import Device, ModelShape, Service, Task

__all__ = [
    "Device",
    "DeviceFit",
    "ModelShape",
    "Service",
    "Task",
    "crossover_batch",
    "decoding_steps",
    "expected_steps",
    "fit_device",
    "fit_passes",
    "goodput",
    "inference_latency",
    "load_batch",
    "peak_memory",
    "round_line",
    "stage_times",
    "upload_bits",
]
