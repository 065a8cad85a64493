"""Define the figures and tables of u-hlm (oh2024uhlm) on uncertainty, skipping and decoded texts."""

from __future__ import annotations

from functools import partial
from typing import Any

from validation.plots.common.decoded import captions as decoded_captions
from validation.plots.common.decoded import messages as decoded_messages
from validation.plots.common.decoded import pictures as decoded_pictures
from validation.plots.common.decoded import speeds as decoded_speeds
from validation.plots.common.decoded.numbers import measure_thresholds
from validation.plots.common.decoded.printed import CERTIFIED, PRINTED
from validation.plots.common.decoded.tables import measure_accuracy
from validation.plots.common.record import Decoding, Figure, Tag
from validation.plots.common.skipping.captions import (
    caption_baselines,
    caption_line,
    caption_methods,
    caption_transmission,
    message_baselines,
    message_line,
    message_methods,
    message_transmission,
)
from validation.plots.common.skipping.numbers import (
    measure_baselines,
    measure_both,
    measure_methods,
    measure_transmission,
)
from validation.plots.common.skipping.pictures import paint_both, paint_measures, paint_methods, paint_transmission
from validation.plots.common.skipping.printed import U, printed

_U: dict[str, Any] = {"paper": U, "source": "oh2024uhlm"}

FIGURES = (
    Figure(
        **_U,
        measure=measure_baselines,
        sample="drafts",
        paint=paint_measures,
        number="3",
        tag=Tag.MEASURED,
        title="Three measures of uncertainty",
        message=message_baselines,
        shows=(
            "Mean rejection probability at each u with its 95% interval clustered by prompt; the paper has 5,134 "
            "tokens."
        ),
        caption=lambda numbers: caption_baselines(numbers, U),
    ),
    Figure(
        **_U,
        number="4",
        tag=Tag.MEASURED,
        title="Transmission rate over the threshold",
        message=message_transmission,
        shows="Line: share of the drafts with u above the threshold; prefixes are texts of the target model.",
        measure=measure_transmission,
        sample="drafts",
        paint=paint_transmission,
        caption=caption_transmission,
        printed=printed(U, "skipped", "prone", "experimental"),
    ),
    Figure(
        **_U,
        number="5",
        tag=Tag.MEASURED,
        title="Empirical law of the uncertainty, and the line",
        message=message_line,
        shows="Left: share of the drafts at each u. Right: mean rejection probability at each u, and the fitted lines.",
        measure=measure_both,
        sample="drafts",
        paint=paint_both,
        caption=lambda numbers: caption_line(numbers, U),
        printed=printed(U, "slope", "intercept", "non_acceptance", "averse", "prone", "risk", "bound"),
    ),
    Figure(
        **_U,
        number="6",
        tag=Tag.MEASURED,
        title="True skip rate and transmission rate by method",
        message=message_methods,
        shows=(
            "Points: the rates of the left half of the figure; the right half is about a simulated link. Each measure "
            "has its own threshold."
        ),
        measure=measure_methods,
        sample="drafts",
        paint=paint_methods,
        caption=caption_methods,
        printed=printed(U, "skipped"),
    ),
    Decoding(
        **_U,
        number="4-texts",
        tag=Tag.MEASURED,
        study="design",
        title="Similarity and transmission rate over the threshold, of decoded texts",
        message=partial(decoded_messages.message_thresholds, paper=U),
        shows="Left: rates; right: cosine similarity; bands are 95% intervals over texts.",
        measure=measure_thresholds,
        paint=partial(decoded_pictures.paint_thresholds, paper=U),
        caption=partial(decoded_captions.caption_thresholds, paper=U),
        printed=printed(U, "skipped", "averse", "prone", "experimental"),
    ),
    Decoding(
        **_U,
        number="6-texts",
        tag=Tag.ASSUMED,
        study="hlm",
        title="Skip rates by method, and throughput over the average SNR, of decoded texts",
        message=decoded_messages.message_methods,
        shows=(
            "Left: rates of each method. Right: throughput over the SNR, median over texts; the vertical line is "
            "u-hlm's link."
        ),
        method=f"Rayleigh fading at 1 MHz, 24.6 and 104.6 ms per pass. {CERTIFIED}",
        measure=decoded_speeds.measure_methods,
        paint=decoded_pictures.paint_methods,
        caption=decoded_captions.caption_methods,
        printed=(*printed(U, "skipped"), PRINTED["u_gain"]),
    ),
    Decoding(
        **_U,
        number="I",
        tag=Tag.MEASURED,
        study="hlm",
        title="Cosine similarity of each method on each prompt set",
        message=partial(decoded_messages.message_accuracy, paper=U),
        shows="Cosine similarity of sentence embeddings, with 95% intervals over texts, and perplexity.",
        measure=partial(measure_accuracy, paper=U),
        paint=None,
        caption=partial(decoded_captions.caption_accuracy, paper=U),
        printed=(PRINTED["of_llm"], PRINTED["of_hlm"]),
    ),
)
