"""What a two-stage pipeline of draft and verification costs: memory, operations, run time, latency.

Paper: edge-sd (zhu2025edgesd) (7)-(23). A stage (prefill, base, slope) takes the prefill at step 1 and base + slope
(n - 1) at step n ≥ 2. The goodput of one server under load is of liu2024goodput and kong2026latency.
"""

from hlmtheory.serving.costs import peak_memory, stage_times
from hlmtheory.serving.goodput import crossover_batch, fit_device
from hlmtheory.serving.pipeline import inference_latency
from hlmtheory.serving.shapes import Device, ModelShape, Service, Task

__all__ = [
    "Device",
    "ModelShape",
    "Service",
    "Task",
    "crossover_batch",
    "fit_device",
    "inference_latency",
    "peak_memory",
    "stage_times",
]
