"""Define the figures of c-sqs (bhattacharjee2025csqs), Section 4 and Appendix A.4, with texts of the built-in pair."""

from __future__ import annotations

from functools import partial
from typing import Any

from validation.decoding.methods.quantized import BUDGET_BITS
from validation.plots.c_sqs.numbers import (
    ADAPTIVE,
    BUDGETED,
    BY_SIZE,
    BYTES,
    DENSE,
    FIXED,
    MAIN,
    PRINTED,
    simulate_curves,
)
from validation.plots.c_sqs.pictures import (
    caption_adaptive,
    caption_both,
    caption_main,
    caption_sizes,
    message_adaptive,
    message_crossings,
    message_main,
    message_sizes,
    paint,
)
from validation.plots.common.record import Simulation, Tag

_PAPER: dict[str, Any] = {"paper": "c-sqs", "source": "bhattacharjee2025csqs"}
_BUDGET = f"A round sends as many drafts as fit into {BUDGET_BITS:,.0f} bits."
_UNPRINTED = "The paper prints neither its K and β nor its link."

FIGURES = (
    Simulation(
        **_PAPER,
        number="2",
        tag=Tag.ASSUMED,
        title="Latency and resampling rate over the temperature",
        message=message_main,
        shows="Left: latency; right: resampling rate; with the bits of the formulas.",
        method=f"{_BUDGET} {_UNPRINTED}",
        simulate=partial(
            simulate_curves, panels=[(metric, (*MAIN, BUDGETED, *BYTES)) for metric in ("latency", "resampling")]
        ),
        paint=paint,
        caption=caption_main,
    ),
    Simulation(
        **_PAPER,
        number="4",
        tag=Tag.ASSUMED,
        title="Latency by support size and by threshold",
        message=message_sizes,
        shows="Left: latency of K-SQS and dense QS; right: latency of C-SQS.",
        method=f"{_BUDGET} {_UNPRINTED}",
        simulate=partial(
            simulate_curves, panels=[("latency", (DENSE, *BY_SIZE.values())), ("latency", tuple(ADAPTIVE.values()))]
        ),
        paint=paint,
        caption=caption_sizes,
    ),
    Simulation(
        **_PAPER,
        number="5",
        tag=Tag.ASSUMED,
        title="C-SQS with and without adaptation",
        message=message_adaptive,
        shows="Solid: adaptive threshold; dotted: fixed threshold; x: line 12 of Algorithm 1 as printed.",
        method=_UNPRINTED,
        simulate=partial(
            simulate_curves,
            panels=[(metric, (*ADAPTIVE.values(), *FIXED.values(), PRINTED)) for metric in ("latency", "resampling")],
        ),
        paint=paint,
        caption=caption_adaptive,
    ),
    Simulation(
        **_PAPER,
        number="6",
        tag=Tag.ASSUMED,
        title="K-SQS beside C-SQS",
        message=message_crossings,
        shows="Left: latency; right: resampling rate.",
        method=f"{_BUDGET} {_UNPRINTED}",
        simulate=partial(
            simulate_curves,
            panels=[(metric, (*BY_SIZE.values(), *ADAPTIVE.values())) for metric in ("latency", "resampling")],
        ),
        paint=paint,
        caption=caption_both,
    ),
)
