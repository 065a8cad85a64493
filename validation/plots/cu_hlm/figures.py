"""Define the figures and tables of cu-hlm (oh2025cuhlm) on uncertainty, truncation and decoded texts.

Some figures take one trace. Others take texts decoded by the hybrid system; their numbers end in ``-texts``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from validation.plots.common.decoded.captions import (
    caption_accuracy,
    caption_both,
    caption_breakdown,
    caption_sizes,
    caption_speeds,
    caption_thresholds,
)
from validation.plots.common.decoded.messages import (
    MESSAGE_BREAKDOWN,
    message_accuracy,
    message_both,
    message_sizes,
    message_speeds,
    message_thresholds,
)
from validation.plots.common.decoded.numbers import measure_both, measure_sizes, measure_thresholds
from validation.plots.common.decoded.pictures import paint_both, paint_sizes, paint_speeds, paint_thresholds
from validation.plots.common.decoded.printed import CERTIFIED, PRINTED
from validation.plots.common.decoded.speeds import measure_speeds
from validation.plots.common.decoded.tables import measure_accuracy, measure_breakdown
from validation.plots.common.record import Decoding, Figure, Tag
from validation.plots.common.skipping.captions import (
    caption_baselines,
    caption_density,
    caption_line,
    caption_rates,
    message_baselines,
    message_density,
    message_line,
    message_rates,
)
from validation.plots.common.skipping.numbers import measure_baselines, measure_density, measure_line, measure_rates
from validation.plots.common.skipping.pictures import paint_baselines, paint_density, paint_line, paint_rates
from validation.plots.common.skipping.printed import CU, printed
from validation.plots.common.truncation.values import OFFLINE
from validation.plots.cu_hlm.concentration import (
    MESSAGE_BIAS,
    PRINTED_R,
    caption_bias,
    measure_bias,
    measure_ranks,
    measure_tails,
    message_ranks,
    message_tails,
    paint_bias,
    paint_ranks,
    paint_tails,
)
from validation.plots.cu_hlm.truncation import (
    MESSAGE_BOUNDS,
    SHARE,
    caption_bounds,
    caption_payload,
    measure_bounds,
    measure_payload,
    message_payload,
    paint_bounds,
    paint_payload,
)

_CU: dict[str, Any] = {"paper": CU, "source": "oh2025cuhlm"}
_SPEEDS = (
    "Left: median over texts; right: ratio of totals; at 10 MHz, 25.6 and 104.6 ms per pass, with the encoded bits. "
    "Bands are 95% intervals over texts. The stored numbers have all methods, and the mean over rounds of (6)."
)

FIGURES = (
    Figure(
        **_CU,
        number="5a",
        tag=Tag.MEASURED,
        title="The draft model's probabilities by descending rank",
        message=message_ranks,
        shows="Mean, median and middle 80% over positions of the probabilities of q in descending order.",
        measure=measure_ranks,
        paint=paint_ranks,
        caption=lambda numbers: "The paper prints no number for this figure.",
    ),
    Figure(
        **_CU,
        number="5b",
        tag=Tag.MEASURED,
        title="What remains beyond the k most probable tokens",
        message=message_tails,
        shows=(
            "Solid: the residual probability with its middle 80% over positions. Dashed: Δ_k = TV(q, q̂), which the "
            "certificate Bias ≤ 2 Δ_k uses."
        ),
        method=(
            "The server spreads the residual probability evenly over the other tokens; Δ_k is the error of this "
            "spreading."
        ),
        measure=measure_tails,
        paint=paint_tails,
        caption=lambda numbers: "The paper prints no number for this figure.",
    ),
    Figure(
        **_CU,
        number="6",
        tag=Tag.MEASURED,
        title="Bias against the distortion of the resampling distribution",
        message=MESSAGE_BIAS,
        shows=(
            "Points: one position and one k each. Left: points with the same TV(q, p) lie on a line through the origin."
        ),
        measure=measure_bias,
        paint=paint_bias,
        caption=caption_bias,
        printed=(PRINTED_R,),
    ),
    Figure(
        **_CU,
        measure=measure_baselines,
        sample="drafts",
        paint=paint_baselines,
        number="2",
        tag=Tag.MEASURED,
        title="Uncertainty and rejection probability",
        message=message_baselines,
        shows=(
            "Mean rejection probability of the drafts at each u, with a 95% interval clustered by prompt, for each "
            "measure of uncertainty."
        ),
        caption=lambda numbers: caption_baselines(numbers, CU),
        printed=printed(CU, "correlation", "dropout", "paraphrases"),
    ),
    Figure(
        **_CU,
        number="4a",
        tag=Tag.MEASURED,
        title="The line and its thresholds",
        message=message_line,
        shows=(
            "Points: mean rejection probability at each u with its 95% interval. Lines: fitted to the tokens, fitted "
            "to the means, and as printed. Dashed: risk-averse and risk-prone thresholds."
        ),
        measure=measure_line,
        sample="drafts",
        paint=paint_line,
        caption=lambda numbers: caption_line(numbers, CU),
        printed=printed(CU, "slope", "intercept", "r_squared", "mse", "non_acceptance", "averse", "prone"),
    ),
    Figure(
        **_CU,
        number="4b",
        tag=Tag.MEASURED,
        title="Density of the uncertainty",
        message=message_density,
        shows=(
            "Line: density by Gaussian kernels with Scott's bandwidth, as in the paper, normalised on [0, 1]. Bars: "
            "shares of the 21 possible values of u."
        ),
        measure=measure_density,
        sample="drafts",
        paint=paint_density,
        caption=caption_density,
    ),
    Figure(
        **_CU,
        number="9a",
        tag=Tag.MEASURED,
        title="Transmission rate and true skip rates over the threshold",
        message=message_rates,
        shows=(
            "Lines: transmission rate and two quantities called true skip rate: P(accepted | skipped) here and "
            "P(skipped | accepted) in u-hlm."
        ),
        method="Prefixes are texts of the target model; bands are 95% intervals clustered by prompt.",
        measure=measure_rates,
        sample="drafts",
        paint=paint_rates,
        caption=caption_rates,
        printed=printed(CU, "chosen", "skipped", "true_skips", "least_true_skips"),
    ),
    Figure(
        **_CU,
        number="8",
        tag=Tag.MEASURED,
        title="The distortion, the Bias and what bounds them, over k",
        message=MESSAGE_BOUNDS,
        shows=(
            "Left: means over positions of TV(r, r̂) and its bounds at a fixed k. Right: the Bias and its certificate."
        ),
        measure=measure_bounds,
        sample="truncation",
        paint=paint_bounds,
        caption=caption_bounds,
    ),
    Figure(
        **_CU,
        number="9b",
        tag=Tag.MEASURED,
        title="Payload of the compressed vocabulary, and what it costs",
        message=message_payload,
        shows=(
            "Left: bits of k entries; marks: mean k of each rule. Right: mean TV(r, r̂) and Bias at the payload of a "
            "fixed k."
        ),
        measure=measure_payload,
        sample="truncation",
        paint=paint_payload,
        caption=caption_payload,
        printed=(OFFLINE, SHARE),
    ),
    Decoding(
        **_CU,
        number="1",
        tag=Tag.ASSUMED,
        study="hlm",
        title="Accuracy and token throughput",
        message=message_both,
        shows=(
            "Points: a method each, with 95% intervals over texts; the star is our method, with a bounded bias and a "
            "calibrated threshold. The findings have all methods."
        ),
        method=f"Rayleigh fading, average SNR 10 dB, 10 MHz, 25.6 and 104.6 ms per pass. {CERTIFIED}",
        measure=measure_both,
        paint=paint_both,
        caption=caption_both,
    ),
    Decoding(
        **_CU,
        number="9a-texts",
        tag=Tag.MEASURED,
        study="design",
        title="Accuracy, transmission rate and true skip rate over the threshold, of decoded texts",
        message=partial(message_thresholds, paper=CU),
        shows="Left: rates; right: accuracy; bands are 95% intervals over texts.",
        measure=measure_thresholds,
        paint=partial(paint_thresholds, paper=CU),
        caption=partial(caption_thresholds, paper=CU),
        printed=printed(CU, "chosen", "skipped", "true_skips", "least_true_skips"),
    ),
    Decoding(
        **_CU,
        number="9b-texts",
        tag=Tag.MEASURED,
        study="design",
        title="Accuracy and payload over the size of the compressed vocabulary, of decoded texts",
        message=message_sizes,
        shows=(
            "Left: accuracy of CU-HLM with one k for all tokens; right: bits of a message; bands are 95% intervals "
            "over texts."
        ),
        measure=measure_sizes,
        paint=paint_sizes,
        caption=caption_sizes,
        printed=(PRINTED["offline_k"],),
    ),
    *(
        Decoding(
            **_CU,
            number=number,
            tag=Tag.ASSUMED,
            study="hlm",
            title=f"Token throughput over the average SNR, {kind}",
            message=message_speeds,
            shows=_SPEEDS,
            method=CERTIFIED,
            measure=partial(measure_speeds, rician=number == "10b"),
            paint=paint_speeds,
            caption=partial(caption_speeds, rician=number == "10b"),
            printed=(PRINTED["offline_gain"], PRINTED["online_gain"]) if number == "10a" else (),
        )
        for number, kind in (("10a", "Rayleigh fading"), ("10b", "Rician fading (K = 10 dB)"))
    ),
    Decoding(
        **_CU,
        number="I",
        tag=Tag.MEASURED,
        study="hlm",
        title="Inference accuracy of each method on each prompt set",
        message=partial(message_accuracy, paper=CU),
        shows="Cosine similarity of sentence embeddings, with 95% intervals over texts, and perplexity.",
        method=CERTIFIED,
        measure=partial(measure_accuracy, paper=CU),
        paint=None,
        caption=partial(caption_accuracy, paper=CU),
        printed=(PRINTED["offline_kept"], PRINTED["online_kept"]),
    ),
    Decoding(
        **_CU,
        number="II",
        tag=Tag.ASSUMED,
        study="hlm",
        title="Where the time of a token goes",
        message=MESSAGE_BREAKDOWN,
        shows=("U-HLM and CU-HLM (Online) over 10 MHz: medians, the link without fading, and ratios of totals."),
        method="Intervals are 95% over texts. Under Rayleigh fading the ratios of totals have no limit.",
        measure=measure_breakdown,
        paint=None,
        caption=caption_breakdown,
        printed=tuple(PRINTED[name] for name in ("kd_acceptance", "larger_acceptance", "online_k")),
    ),
)
