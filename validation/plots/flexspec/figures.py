"""Define the figures and tables of flexspec (li2025flexspec), from printed numbers, counts and decoded texts."""

from __future__ import annotations

from functools import partial
from typing import Any

from validation.plots.common.record import Decoding, Printed, Simulation, Tag
from validation.plots.flexspec import counted_pictures, counted_tables, implied_energy, texts_latency, versions
from validation.plots.flexspec.computed import (
    MESSAGE_LENGTHS,
    MESSAGE_STORM,
    PRINTED_LENGTHS,
    caption_lengths,
    caption_storm,
    paint_lengths,
    simulate_lengths,
    simulate_storm,
)
from validation.plots.flexspec.printed import SYNCHRONISATION
from validation.plots.flexspec.texts_captions import caption as caption_latency_of_texts
from validation.plots.flexspec.texts_captions import message as message_of_texts

_PAPER: dict[str, Any] = {"paper": "flexspec", "source": "li2025flexspec"}

FIGURES = (
    Simulation(
        **_PAPER,
        number="2",
        tag=Tag.DERIVED,
        title="Draft lengths over a weak and a strong link",
        message=MESSAGE_LENGTHS,
        shows="Parts of a token's latency, and the lengths chosen.",
        simulate=simulate_lengths,
        paint=paint_lengths,
        caption=caption_lengths,
        printed=PRINTED_LENGTHS,
    ),
    Simulation(
        **_PAPER,
        number="4",
        tag=Tag.ASSUMED,
        title="Latency on GSM8K by method and network",
        message=counted_pictures.message_latencies,
        shows="Bars: ours, 95% intervals over prompts; diamonds: Table III.",
        simulate=counted_pictures.simulate_latencies,
        paint=counted_pictures.paint_latencies,
        caption=lambda numbers: "FlexSpec: aligned draft and Algorithm 2.",
    ),
    Simulation(
        **_PAPER,
        number="5",
        tag=Tag.ASSUMED,
        title="Latency over the draft length",
        message=counted_pictures.message_sweep,
        shows="Points: aligned draft on GSM8K, temperature 0; diamonds: printed.",
        simulate=counted_pictures.simulate_sweep,
        paint=counted_pictures.paint_sweep,
        caption=counted_pictures.caption_sweep,
        printed=(*counted_pictures.PRINTED_STRIDES, Printed("slowdown at K = 5 over WiFi", 2.3, "Section V-C")),
    ),
    Simulation(
        **_PAPER,
        number="6",
        tag=Tag.ASSUMED,
        title="Energy per token on the mobile device",
        message=counted_pictures.message_energy,
        shows="Bars: derived from counted rounds on GSM8K and the stated powers, and printed shares.",
        simulate=counted_pictures.simulate_energy,
        paint=counted_pictures.paint_energy,
        caption=lambda numbers: "The powers that the printed joules imply stand in a table.",
        printed=implied_energy.PRINTED,
    ),
    Simulation(
        **_PAPER,
        number="I",
        tag=Tag.DERIVED,
        title="Synchronisation times",
        message=MESSAGE_STORM,
        shows="The tables check the printed minutes.",
        simulate=simulate_storm,
        paint=None,
        caption=caption_storm,
        printed=tuple(Printed(f"minutes over {name}", minutes, "Table I") for name, _, minutes, _ in SYNCHRONISATION),
    ),
    Simulation(
        **_PAPER,
        number="II",
        tag=Tag.MEASURED,
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
            tag=Tag.ASSUMED,
            title=title,
            message=counted_tables.message,
            shows=(
                "FlexSpec is the aligned draft with Algorithm 2. Medusa's heads and EAGLE's layer were trained for "
                "version 0 and are stale for the other versions."
            ),
            simulate=partial(counted_tables.measure, table),
            paint=None,
            caption=counted_tables.caption,
        )
        for table, title in (("III", "Latency with greedy decoding"), ("IV", "Latency with sampling"))
    ),
    Simulation(
        **_PAPER,
        number="V",
        tag=Tag.ASSUMED,
        title="Edge devices over 4G",
        message=counted_tables.message_devices,
        shows="Speed-ups by printed draft time.",
        simulate=counted_tables.devices,
        paint=None,
        caption=counted_tables.caption_devices,
    ),
    Simulation(
        **_PAPER,
        number="VI",
        tag=Tag.ASSUMED,
        title="Other target models",
        message=counted_tables.message_targets,
        shows="Our counts on MT-Bench with each target's printed latency of a token.",
        simulate=counted_tables.targets,
        paint=None,
        caption=lambda numbers: "The acceptance is our target's in all rows.",
    ),
    *(
        Decoding(
            **_PAPER,
            number=f"{table}-length-rule",
            tag=Tag.ASSUMED,
            title=title,
            message=partial(message_of_texts, table),
            shows=(
                "An earlier study: plain draft, longer texts; “FlexSpec” is only its length rule, without the aligned "
                "draft. Tables III and IV have Medusa-1 and EAGLE-2."
            ),
            study=study,
            measure=partial(texts_latency.measure, table),
            paint=None,
            caption=partial(caption_latency_of_texts, table),
        )
        for table, study, title in (
            ("III", "greedy", "FlexSpec's length rule on a plain draft, greedy decoding"),
            ("IV", "nucleus", "FlexSpec's length rule on a plain draft, sampling"),
        )
    ),
)
