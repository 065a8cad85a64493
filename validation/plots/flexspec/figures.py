"""Define the figures and tables of flexspec (li2025flexspec), from its printed numbers and from decoded texts."""

from __future__ import annotations

from functools import partial
from typing import Any

from validation.plots.common.record import Decoding, Printed, Simulation
from validation.plots.flexspec import texts_energy, texts_latency, versions
from validation.plots.flexspec.computed import (
    MESSAGE_LENGTHS,
    MESSAGE_STORM,
    MESSAGE_STRIDES,
    PRINTED_LENGTHS,
    caption_lengths,
    caption_storm,
    caption_strides,
    paint_lengths,
    paint_strides,
    simulate_lengths,
    simulate_storm,
    simulate_strides,
)
from validation.plots.flexspec.printed import STRIDES, SYNCHRONISATION
from validation.plots.flexspec.tables import (
    GAMMA,
    MESSAGE_DEVICES,
    MESSAGE_LATENCIES,
    MESSAGE_TARGETS,
    caption_devices,
    caption_latencies,
    caption_targets,
    simulate_devices,
    simulate_latencies,
    simulate_targets,
)
from validation.plots.flexspec.texts_captions import caption as caption_latency_of_texts
from validation.plots.flexspec.texts_captions import message as message_of_texts

_PAPER: dict[str, Any] = {"paper": "flexspec", "source": "li2025flexspec"}
_OURS = "The tables check the paper's printed numbers against each other and against its model (10)."

FIGURES = (
    Simulation(
        **_PAPER,
        number="2",
        title="Draft lengths over a weak and a strong link",
        message=MESSAGE_LENGTHS,
        shows=(
            f"Left: throughput over K at γ = {GAMMA}, with the two F/M that give the K* of Fig. 2, 2 and 6; circles "
            "are K*, squares the choice of Algorithm 2. Right: K* and that choice over F/M."
        ),
        simulate=simulate_lengths,
        paint=paint_lengths,
        caption=caption_lengths,
        printed=PRINTED_LENGTHS,
    ),
    Simulation(
        **_PAPER,
        number="5",
        title="Latency over the draft length",
        message=MESSAGE_STRIDES,
        shows=(
            "Diamonds: latencies that the text to Fig. 5 and Table III print for GSM8K. K = 0 is Cloud-Only; K = 1 "
            "over WiFi is FlexSpec; the paper says that FlexSpec behaves like K = 1 there."
        ),
        simulate=simulate_strides,
        paint=paint_strides,
        caption=caption_strides,
        printed=(
            *(
                Printed(f"latency at K = {k}, {network} (ms)", value, "Section V-C")
                for network, points in STRIDES.items()
                for k, value in points.items()
            ),
            Printed("slowdown at K = 5 over WiFi", 2.3, "Section V-C"),
        ),
    ),
    Simulation(
        **_PAPER,
        number="I",
        title="Synchronisation times",
        message=MESSAGE_STORM,
        shows=_OURS,
        simulate=simulate_storm,
        paint=None,
        caption=caption_storm,
        printed=tuple(Printed(f"minutes over {name}", minutes, "Table I") for name, _, minutes, _ in SYNCHRONISATION),
    ),
    Simulation(
        **_PAPER,
        number="II",
        title="Acceptance of a fixed draft while the target is tuned",
        message=versions.message,
        shows="Acceptance of four drafts for each version, and the version's distance from version 0.",
        simulate=versions.simulate,
        paint=None,
        caption=versions.caption,
        printed=versions.PRINTED_RATES,
    ),
    *(
        Simulation(
            **_PAPER,
            number=table,
            title=title,
            message=MESSAGE_LATENCIES,
            shows=_OURS,
            simulate=partial(simulate_latencies, table),
            paint=None,
            caption=partial(caption_latencies, table),
        )
        for table, title in (("III", "Latency with greedy decoding"), ("IV", "Latency with sampling"))
    ),
    Simulation(
        **_PAPER,
        number="V",
        title="Edge devices over 4G",
        message=MESSAGE_DEVICES,
        shows=_OURS,
        simulate=simulate_devices,
        paint=None,
        caption=caption_devices,
    ),
    Simulation(
        **_PAPER,
        number="VI",
        title="Other target models",
        message=MESSAGE_TARGETS,
        shows=_OURS,
        simulate=simulate_targets,
        paint=None,
        caption=caption_targets,
    ),
    Decoding(
        **_PAPER,
        number="4",
        title="Latency on GSM8K by method and network",
        message=partial(message_of_texts, "4"),
        shows="Bars: ms per token on our texts, with 95% intervals over prompts; diamonds: Table III.",
        study="greedy",
        measure=partial(texts_latency.measure, "III"),
        paint=texts_latency.paint,
        caption=partial(caption_latency_of_texts, "4"),
    ),
    *(
        Decoding(
            **_PAPER,
            number=f"{table}-texts",
            title=title,
            message=partial(message_of_texts, table),
            shows="Latencies on our texts with 95% intervals over prompts, beside the printed ones.",
            study=study,
            measure=partial(texts_latency.measure, table),
            paint=None,
            caption=partial(caption_latency_of_texts, table),
        )
        for table, study, title in (
            ("III", "greedy", "Latency with greedy decoding, measured"),
            ("IV", "nucleus", "Latency with sampling, measured"),
        )
    ),
    Decoding(
        **_PAPER,
        number="6",
        title="Energy per token on the mobile device",
        message=texts_energy.message,
        shows=(
            f"Energy of radio and drafting, of Cloud-Only and FlexSpec on GSM8K over {texts_energy.SHOWN}, ours and "
            "printed; 95% intervals of the total over prompts."
        ),
        study="greedy",
        measure=texts_energy.measure,
        paint=texts_energy.paint,
        caption=texts_energy.caption,
        printed=texts_energy.PRINTED,
    ),
)
