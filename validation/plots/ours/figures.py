"""Define our own figures and tables: new results, and published claims that do not hold as printed."""

from __future__ import annotations

from typing import Any

from validation.plots.c_sqs.numbers import simulate_regret
from validation.plots.c_sqs.pictures import caption_regret, message_regret, paint_regret
from validation.plots.c_sqs.pictures import caption_table as caption_c_sqs_table
from validation.plots.c_sqs.pictures import message_table as message_c_sqs_table
from validation.plots.c_sqs.tables import simulate_table
from validation.plots.common.record import Figure, Simulation
from validation.plots.common.skipping.captions import caption_table as caption_skipping_table
from validation.plots.common.skipping.captions import message_table as message_skipping_table
from validation.plots.common.skipping.printed import CU, PRINTED, U
from validation.plots.common.truncation.sample import EPSILON, THETA
from validation.plots.common.truncation.values import OFFLINE, ONLINE
from validation.plots.ours import (
    acceptance_by_depth,
    anytime,
    bill_table,
    budget_table,
    codec_bits,
    dropped_mass,
    fading_mean,
    partial_table,
    skipping_table,
    text_risk,
    truncation_table,
)
from validation.plots.ours.truncation_rules import (
    caption_direction,
    caption_failures,
    caption_sizes,
    measure_direction,
    measure_failures,
    measure_sizes,
    message_direction,
    message_failures,
    message_sizes,
    paint_direction,
    paint_failures,
    paint_sizes,
)

_OURS: dict[str, Any] = {"paper": "ours", "source": "oh2025cuhlm"}
_OF_C_SQS: dict[str, Any] = {"paper": "ours", "source": "bhattacharjee2025csqs"}
_OF_SPECDECODE: dict[str, Any] = {"paper": "ours", "source": "liu2025specdecode"}

FIGURES = (
    Figure(
        **_OURS,
        number="I",
        title="Linear fit, thresholds and rejection risk",
        message=message_skipping_table,
        shows="The values of both papers beside ours, the guarantees, and the contradictions between printed numbers.",
        measure=skipping_table.measure_table,
        paint=None,
        caption=caption_skipping_table,
        printed=(*PRINTED[CU].values(), *PRINTED[U].values()),
    ),
    Figure(
        **_OURS,
        number="3",
        title="Tokens that each rule sends for the same Bias",
        message=message_sizes,
        shows="Left: mean tokens against the true mean Bias; each rule is a curve over its parameter.",
        measure=measure_sizes,
        paint=paint_sizes,
        caption=caption_sizes,
        printed=(OFFLINE, *ONLINE),
    ),
    Figure(
        **_OURS,
        number="4",
        title="Where the published online bound (23) is below the distortion",
        message=message_failures,
        shows=(
            "Left: share of failures, over all k and at the k of (24). Right: ratio of the failures, largest and "
            "median."
        ),
        measure=measure_failures,
        paint=paint_failures,
        caption=caption_failures,
    ),
    Figure(
        **_OURS,
        number="5",
        title="k against the rejection probability of the draft",
        message=message_direction,
        shows=f"Lines: mean tokens sent at θ = {THETA:g} and ε = {EPSILON:g}.",
        measure=measure_direction,
        paint=paint_direction,
        caption=caption_direction,
    ),
    Figure(
        **_OURS,
        number="II",
        title="Compressed vocabulary sizes beside the paper's",
        message=truncation_table.message_table,
        shows=f"Sizes by each rule at the paper's θ = {THETA:g}.",
        measure=truncation_table.measure_table,
        paint=None,
        caption=truncation_table.caption_table,
        printed=(OFFLINE, *ONLINE),
    ),
    Simulation(
        **_OURS,
        number="1",
        title="The mean latency under fading does not exist",
        message=fading_mean.MESSAGE,
        shows=fading_mean.SHOWS,
        simulate=fading_mean.simulate,
        paint=fading_mean.paint,
        caption=fading_mean.caption,
    ),
    Simulation(
        **_OF_C_SQS,
        number="2",
        title="Regret of the conformal threshold",
        message=message_regret,
        shows=(
            "Lines: running mean of the dropped mass of each text, Theorem 2 and the sharp bound, for both forms of "
            "line 12."
        ),
        simulate=simulate_regret,
        paint=paint_regret,
        caption=caption_regret,
    ),
    Simulation(
        **_OF_C_SQS,
        number="III",
        title="The bounds of c-sqs and the measured values",
        message=message_c_sqs_table,
        shows="Means over the texts; 95% intervals by a bootstrap over the prompts.",
        simulate=simulate_table,
        paint=None,
        caption=caption_c_sqs_table,
    ),
    Figure(
        **_OURS,
        number="IV",
        title="Risk of whole texts, and the thresholds that it allows",
        message=text_risk.message_table,
        shows=text_risk.SHOWS_TABLE,
        measure=text_risk.measure_table,
        paint=None,
        caption=text_risk.caption_table,
    ),
    Figure(
        **_OURS,
        number="6",
        title="Promised and measured risk of a text",
        message=text_risk.message_figure,
        shows=text_risk.SHOWS_FIGURE,
        method=text_risk.METHOD_FIGURE,
        measure=text_risk.measure_figure,
        paint=text_risk.paint,
        caption=text_risk.caption_figure,
    ),
    Simulation(
        **_OURS,
        number="VI",
        title="The bill of each decoding method",
        message=bill_table.message,
        shows=bill_table.SHOWS,
        method=bill_table.METHOD,
        simulate=bill_table.simulate,
        paint=None,
        caption=bill_table.caption,
    ),
    Figure(
        **_OURS,
        number="IX",
        title="Intervals from top-k log-probabilities and from quantised rows",
        message=partial_table.message_table,
        shows="Widths of the intervals, and the share of the drafts that the lists decide.",
        measure=partial_table.measure_table,
        paint=None,
        caption=partial_table.caption_table,
    ),
    Simulation(
        **_OF_SPECDECODE,
        number="8",
        title="Acceptance by depth, and the error of a single rate",
        message=acceptance_by_depth.message,
        shows=acceptance_by_depth.SHOWS,
        method=acceptance_by_depth.METHOD,
        simulate=acceptance_by_depth.simulate,
        paint=acceptance_by_depth.paint,
        caption=acceptance_by_depth.caption,
    ),
    Simulation(
        **_OF_SPECDECODE,
        number="X",
        title="Estimates from counts of accepted drafts",
        message=acceptance_by_depth.message_table,
        shows=acceptance_by_depth.SHOWS_TABLE,
        simulate=acceptance_by_depth.simulate_table,
        paint=None,
        caption=acceptance_by_depth.caption_table,
    ),
    Figure(
        **_OF_C_SQS,
        number="9",
        title="C-SQS and a budget of dropped mass on the same texts",
        message=dropped_mass.message,
        shows=dropped_mass.SHOWS,
        method=dropped_mass.METHOD,
        measure=dropped_mass.measure,
        paint=dropped_mass.paint,
        caption=dropped_mass.caption,
    ),
    Simulation(
        **_OF_C_SQS,
        number="VIII",
        title="C-SQS and a budget of dropped mass, decoded",
        message=budget_table.message,
        shows="Ratios of totals over the texts; 95% intervals by a bootstrap over the prompts.",
        simulate=budget_table.simulate,
        paint=None,
        caption=budget_table.caption,
    ),
    Figure(
        **_OURS,
        number="VII",
        title="What a running system can know",
        message=anytime.message_table,
        shows="Simulated runs of audits and of rounds, then audits and intervals along the texts of the pair.",
        measure=anytime.measure_table,
        paint=None,
        caption=anytime.caption_table,
    ),
    Figure(
        **_OURS,
        number="7",
        title="Bits of each rule for the same certified bias",
        message=codec_bits.message_figure,
        shows="Left: mean bits for each distribution over ε. Right: share of the positions by kind of the cheapest.",
        measure=codec_bits.measure_figure,
        paint=codec_bits.paint,
        caption=codec_bits.caption_figure,
    ),
    Figure(
        **_OURS,
        number="V",
        title="Bits and bias of each rule at four tolerances",
        message=codec_bits.message_table,
        shows="Bits, bias and the bounds under one budget.",
        measure=codec_bits.measure_table,
        paint=None,
        caption=codec_bits.caption_table,
    ),
)
