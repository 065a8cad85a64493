"""Join each figure and table with what measures and paints it; their texts are in ``exhibits.toml``.

A figure is drawn from a trace, from decoded texts, or from neither.
"""

import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from validation.plots.c_sqs import numbers as c_sqs
from validation.plots.c_sqs import pictures as c_sqs_pictures
from validation.plots.common.decoded import numbers as decoded
from validation.plots.common.decoded import pictures as decoded_pictures
from validation.plots.common.decoded import tables as decoded_tables
from validation.plots.common.printed import CU, NUMBERS, U
from validation.plots.common.record import Decoding, Exhibit, Figure, Simulation, Tag
from validation.plots.common.skipping import numbers as skipping
from validation.plots.common.skipping import pictures as skipping_pictures
from validation.plots.cu_hlm import concentration, truncation
from validation.plots.edge_sd import figures as edge_sd_pictures
from validation.plots.edge_sd import numbers as edge_sd
from validation.plots.flexspec import computed, counted_pictures, counted_tables
from validation.plots.ours import (
    acceptance_by_depth,
    codec_bits,
    dropped_mass,
    fading_mean,
    skipping_table,
    text_risk,
    truncation_rules,
)
from validation.provenance import PAPERS

_TEXTS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("exhibits.toml").read_text(encoding="utf-8"))


def _about(key: str) -> dict[str, Any]:
    paper, number = key.split(" ")
    text = {"source": PAPERS.get(paper)} | _TEXTS[key]
    named = ((name.split()[0], NUMBERS[name]) for name in text.pop("printed", ()))
    printed = tuple(one if whose == paper else replace(one, place=f"{whose}, {one.place}") for whose, one in named)
    about = {"paper": paper, "number": number, "printed": printed, "claims": tuple(text.pop("claims", ()))}
    return text | about | {"tag": Tag[text["tag"].upper()]}


def _traced(key: str, measure: Callable[..., Any], paint: Any = None, sample: str = "") -> Figure:
    return Figure(**_about(key), measure=measure, paint=paint, sample=sample)


def _decoded(key: str, study: str, measure: Callable[..., Any], paint: Any = None) -> Decoding:
    return Decoding(**_about(key), study=study, measure=measure, paint=paint)


def _simulated(key: str, simulate: Callable[..., Any], paint: Any = None, experiment: str = "") -> Simulation:
    return Simulation(**_about(key), simulate=simulate, paint=paint, experiment=experiment)


def _sweep(number: str) -> Simulation:
    shown = edge_sd.IN_FIG_7 if number[0] == "7" else edge_sd.IN_FIG_8
    sweep = partial(edge_sd.simulate_sweep, number[1], shown)
    return _simulated(f"edge-sd {number}", sweep, edge_sd_pictures.paint_schemes)


_PAINT_GAINS = partial(decoded_pictures.paint_speeds, gains=("offline_gain", "online_gain"))
_BY_SIZE, _BY_MASS, _FIXED = (tuple(names.values()) for names in (c_sqs.BY_SIZE, c_sqs.ADAPTIVE, c_sqs.FIXED))
_C_SQS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "2": tuple((metric, (*c_sqs.MAIN, c_sqs.BUDGETED, *c_sqs.BYTES)) for metric in ("latency", "resampling")),
    "4": (("latency", (c_sqs.DENSE, *_BY_SIZE)), ("latency", _BY_MASS)),
    "5": tuple((metric, (*_BY_MASS, *_FIXED, c_sqs.PRINTED)) for metric in ("latency", "resampling")),
    "6": tuple((metric, (*_BY_SIZE, *_BY_MASS)) for metric in ("latency", "resampling")),
}
"""Metric and methods of each panel, by figure."""
_DECODED, _COUNTED = dict.fromkeys("246", "c_sqs"), "flexspec_tables"
"""Experiments that were run on several pairs."""

_ALL: tuple[Exhibit, ...] = (
    _decoded("cu-hlm 1", "hlm", decoded.measure_both, decoded_pictures.paint_both),
    _traced("cu-hlm 2", skipping.measure_baselines, partial(skipping_pictures.paint_baselines, paper=CU), "drafts"),
    _traced("cu-hlm 4a", skipping.measure_line, skipping_pictures.paint_line, "drafts"),
    _traced("cu-hlm 4b", skipping.measure_density, skipping_pictures.paint_density, "drafts"),
    _traced("cu-hlm 5a", concentration.measure_ranks, concentration.paint_ranks),
    _traced("cu-hlm 5b", concentration.measure_tails, concentration.paint_tails),
    _traced("cu-hlm 6", concentration.measure_bias, concentration.paint_bias),
    _traced("cu-hlm 8", truncation.measure_bounds, truncation.paint_bounds, "truncation"),
    _traced("cu-hlm 9a", skipping.measure_rates, skipping_pictures.paint_rates, "drafts"),
    _decoded(
        "cu-hlm 9a-texts", "design", decoded.measure_thresholds, partial(decoded_pictures.paint_thresholds, paper=CU)
    ),
    _traced("cu-hlm 9b", truncation.measure_payload, truncation.paint_payload, "truncation"),
    _decoded("cu-hlm 9b-texts", "design", decoded.measure_sizes, decoded_pictures.paint_sizes),
    _decoded("cu-hlm 10a", "hlm", partial(decoded.measure_speeds, rician=False), _PAINT_GAINS),
    _decoded("cu-hlm 10b", "hlm", partial(decoded.measure_speeds, rician=True), decoded_pictures.paint_speeds),
    _decoded("cu-hlm I", "hlm", partial(decoded_tables.measure_accuracy, paper=CU)),
    _decoded("cu-hlm II", "hlm", decoded_tables.measure_breakdown),
    _traced("u-hlm 3", skipping.measure_baselines, partial(skipping_pictures.paint_baselines, paper=U), "drafts"),
    _traced("u-hlm 4", skipping.measure_transmission, partial(skipping_pictures.paint_rates, paper=U), "drafts"),
    _decoded(
        "u-hlm 4-texts", "design", decoded.measure_thresholds, partial(decoded_pictures.paint_thresholds, paper=U)
    ),
    _traced("u-hlm 5", skipping.measure_both, skipping_pictures.paint_both, "drafts"),
    _traced("u-hlm 6", skipping.measure_methods, skipping_pictures.paint_methods, "drafts"),
    _decoded("u-hlm 6-texts", "hlm", decoded.measure_methods, decoded_pictures.paint_methods),
    _decoded("u-hlm I", "hlm", partial(decoded_tables.measure_accuracy, paper=U)),
    *(
        _simulated(f"c-sqs {n}", partial(c_sqs.simulate_curves, panels), c_sqs_pictures.paint, _DECODED.get(n, ""))
        for n, panels in _C_SQS.items()
    ),
    _simulated("flexspec 2", computed.simulate_lengths, computed.paint_lengths),
    _simulated("flexspec 4", counted_pictures.simulate_latencies, counted_pictures.paint_latencies, _COUNTED),
    _simulated("flexspec 5", counted_pictures.simulate_sweep, counted_pictures.paint_sweep),
    _simulated("flexspec 6", counted_pictures.simulate_energy, counted_pictures.paint_energy),
    _simulated("flexspec I", computed.simulate_storm),
    _simulated("flexspec II", computed.simulate_versions),
    *(_simulated(f"flexspec {n}", partial(counted_tables.measure, n), experiment=_COUNTED) for n in ("III", "IV")),
    _simulated("flexspec V", counted_tables.devices),
    _simulated("flexspec VI", counted_tables.targets),
    _simulated("edge-sd 5", edge_sd_pictures.simulate_stages, edge_sd_pictures.paint_stages),
    _simulated("edge-sd 6", edge_sd.simulate_acceptance, edge_sd_pictures.paint_pairs),
    *(_sweep(figure + part) for figure in "78" for part in "abc"),
    *(
        _simulated(f"edge-sd 9{part}", partial(edge_sd.simulate_bandwidth, pair), edge_sd_pictures.paint_shares)
        for pair, part in enumerate("abc")
    ),
    _simulated("ours 1", fading_mean.simulate, fading_mean.paint),
    _simulated("ours 2", c_sqs.simulate_regret, c_sqs_pictures.paint_regret),
    _traced("ours 3", truncation_rules.measure_sizes, truncation_rules.paint_sizes, "truncation"),
    _traced("ours 4", truncation_rules.measure_failures, truncation_rules.paint_failures, "truncation"),
    _traced("ours 5", truncation_rules.measure_direction, truncation_rules.paint_direction, "truncation"),
    _traced("ours 7", codec_bits.measure_figure, codec_bits.paint, "truncation"),
    _simulated("ours 8", acceptance_by_depth.simulate, acceptance_by_depth.paint, acceptance_by_depth.EXPERIMENT),
    _traced("ours 9", dropped_mass.measure, dropped_mass.paint),
    _traced("ours I", skipping_table.measure_table, sample="drafts"),
    _traced("ours II", truncation_rules.measure_table, sample="truncation"),
    _simulated("ours III", c_sqs.simulate_theorem),
    _traced("ours IV", text_risk.measure_table, sample="texts"),
    _traced("ours V", codec_bits.measure_table, sample="truncation"),
    _simulated("ours VIII", c_sqs.simulate_budget),
    _simulated("ours X", acceptance_by_depth.simulate_table, experiment=acceptance_by_depth.EXPERIMENT),
)

EXHIBITS: dict[tuple[str, str], Exhibit] = {(one.paper, one.number): one for one in _ALL}
"""Every figure and table, by paper and number."""

FIGURES: dict[tuple[str, str], Figure] = {key: one for key, one in EXHIBITS.items() if isinstance(one, Figure)}
"""Figures that are drawn from a trace."""
