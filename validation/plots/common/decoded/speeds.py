"""Measure throughput over the average SNR, cu-hlm Fig. 10 and u-hlm Fig. 6: curves by method, and gains over HLM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlmtheory.channel import Rician
from validation.decoding.links import FadingLink
from validation.decoding.methods.registry import Family, info_of
from validation.decoding.retiming import AVERAGE_SNR_DB, K_FACTOR_DB, uhlm_link
from validation.decoding.studies import Decoded
from validation.plots.common.decoded.numbers import (
    LOGARITHMIC,
    in_order,
    kept,
    line,
    metrics_of,
    skipped_of_accepted,
)
from validation.plots.common.decoded.printed import U_TIMES
from validation.plots.common.decoded.timed_texts import WORDS, BootstrapDraws, draw_fading, read_study, speeds
from validation.plots.common.record import Numbers
from validation.plots.common.style import axis


def _gains(
    found: dict[str, dict[str, BootstrapDraws]], whole: dict[str, BootstrapDraws] | None, place: int
) -> dict[str, Any]:
    if whole is None:
        return {}
    return {
        name: {word: kept(draws[word].over(whole[word]).estimates()[place]) for word in WORDS}
        for name, draws in found.items()
    }


def _speed_numbers(
    decoded: Decoded,
    snr_db: Sequence[float],
    place: int,
    *,
    k_factor_db: float | None = None,
    **settings: Any,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return curves by method and metric, and gains over HLM on one link."""
    texts = read_study(decoded)
    fading = draw_fading(texts, int(decoded.about["seed"]), k_factor_db)
    names = [name for name in decoded.about["methods"] if name in texts]
    found = {name: speeds(texts[name], fading, snr_db, **settings) for name in names}
    series = [line(name, snr_db, draws[word].estimates(), word=word) for name, draws in found.items() for word in WORDS]
    statistics = {
        "gains": _gains(found, found.get("HLM"), place),
        "gains_at_snr_db": snr_db[place],
        "vocabulary": int(decoded.about["pair"]["vocabulary"]),
    }
    return series, statistics


def measure_speeds(studies: Sequence[Decoded], seed: int, *, rician: bool) -> Numbers:
    """Measure throughput over the average SNR at 10 MHz."""
    decoded, *_ = studies
    k_factor_db = K_FACTOR_DB if rician else None
    series, statistics = _speed_numbers(decoded, AVERAGE_SNR_DB, 0, k_factor_db=k_factor_db, seed=seed)
    both = {"x": axis("average SNR", "dB"), "y": axis("token throughput", "tokens/s", LOGARITHMIC)}
    return {"axes": 2 * [both], "series": series, "statistics": statistics}


def mean_snr(link: FadingLink) -> float:
    """Return the mean SNR of a link as a ratio, with or without fading."""
    return float(link.fading.mean_snr if isinstance(link.fading, Rician) else link.fading)


def measure_methods(studies: Sequence[Decoded], seed: int) -> Numbers:
    """Measure the rates of each skipping method, and its throughput over the average SNR of u-hlm's link."""
    decoded, *_ = studies
    own = uhlm_link()
    own_db = round(10.0 * float(np.log10(mean_snr(own))), 4)
    snr_db = sorted({*map(float, AVERAGE_SNR_DB), own_db})
    series, statistics = _speed_numbers(
        decoded, snr_db, snr_db.index(own_db), seed=seed, bandwidth_hz=own.bandwidth_hz, times=U_TIMES
    )
    bars = []
    for name, rows in in_order(decoded).items():
        if info_of(name).family not in (Family.RAND_HLM, Family.U_HLM, Family.CU_HLM):
            continue
        words = metrics_of(rows, seed)
        bars.append(
            {
                "name": name,
                "transmission": kept(words["transmission_rate"]),
                "skipped_if_accepted": kept(skipped_of_accepted(rows, seed)),
                "accepted_if_skipped": kept(words["true_skip_rate"]),
            }
        )
    return {
        "axes": [
            {"x": axis("share"), "y": axis("method")},
            {"x": axis("average SNR", "dB"), "y": axis("token throughput, median", "tokens/s", LOGARITHMIC)},
        ],
        "bars": bars,
        "series": series,
        "statistics": statistics | {"link_snr_db": own_db},
    }
