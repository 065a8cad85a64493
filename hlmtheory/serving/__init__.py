"""What a two-stage pipeline of draft and verification costs: memory, operations, run time, latency.

Paper: edge-sd (zhu2025edgesd) (7)-(23). The draft model runs at a small base station, the verify model at a
large one; batches of tasks pass the two like jobs pass two machines, once per decoding step.

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
J, h₁, h₂  ``layers``, ``hidden``, ``feed_forward``        1         scalars
c₁, c₂     ``Device``: run time is c₁ F b + c₂             s/FLOP, s scalars
I_m        ``input_tokens``, longest prompt of the batch   tokens    (...)
O_m        ``output_tokens``, longest answer of the batch  tokens    (...)
b          ``batch_size``                                  tasks     (...)
l          ``draft_length``                                tokens    (...)
α          ``acceptance``                                  1         (...)
L          tokens per decoding step, (7)                   tokens    (...)
n_m        ``steps`` of batch m, (8)                       1         (..., M)
d, v       ``draft_times``, ``verify_times`` at one step   s         (..., M)
========== =============================================== ========= ===========

A *stage* is how a batch's time on one machine depends on the step: the last axis holds (prefill, base,
slope), and the time is the prefill at step 1 and base + slope (n - 1) at step n ≥ 2. It is exact, since the
context grows by L tokens a step and the operations are linear in it. At ``draft_length`` 0 nothing is drafted
and the verify model alone decodes token by token: autoregressive decoding.

:func:`fit_passes`, :func:`round_line`, :func:`goodput` and :func:`crossover_batch` are of one server under load: from
which batch on drafts do not pay (liu2024goodput, kong2026latency).

Everything here is computed on the host: any array library comes in, numpy goes out.
"""

from __future__ import annotations

from hlmtheory.serving.claims import CLAIMS
from hlmtheory.serving.costs import decoding_steps, forward_flops, peak_memory, stage_times, upload_bits
from hlmtheory.serving.fitting import DeviceFit, fit_device
from hlmtheory.serving.goodput import PassFit, crossover_batch, fit_passes, goodput, load_batch, round_line
from hlmtheory.serving.pipeline import inference_latency
from hlmtheory.serving.random_steps import expected_steps
from hlmtheory.serving.shapes import Device, ModelShape, Service, Task

__all__ = [
    "CLAIMS",
    "Device",
    "DeviceFit",
    "ModelShape",
    "PassFit",
    "Service",
    "Task",
    "crossover_batch",
    "decoding_steps",
    "expected_steps",
    "fit_device",
    "fit_passes",
    "forward_flops",
    "goodput",
    "inference_latency",
    "load_batch",
    "peak_memory",
    "round_line",
    "stage_times",
    "upload_bits",
]
