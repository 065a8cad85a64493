"""Link latency and other pass times, added in post-processing to stored records.

The tokens of a method do not depend on the link, unless its decisions follow the link's rate. So a prompt is decoded
once, and timed over all links that a figure needs, with the fading that decoding would have drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.channel import Rayleigh, Rician, db_to_linear, log_distance_gain
from hlmtheory.channel.latency import dbm_to_watts
from validation.decoding.links import Channel, FadingLink, Way
from validation.decoding.methods.base import Method
from validation.decoding.random_streams import Noise
from validation.decoding.records import GenerationRecord, Round
from validation.decoding.streamed import stream
from validation.errors import UserError

Array = NDArray[Any]
BANDWIDTH_HZ, K_FACTOR_DB = 1e7, 10.0  # W and the Rician K-factor of cu-hlm Section V
AVERAGE_SNR_DB = tuple(range(-20, 11, 5))  # the average SNRs of cu-hlm Fig. 10, in its steps of 5 dB.


def retime(
    records: Sequence[GenerationRecord],
    link: FadingLink | None,
    methods: Iterable[Method],
    *,
    times: tuple[float, float] | None = None,
    seed: int | None = None,
) -> list[GenerationRecord]:
    """Return new records, in the same order, as if decoded over another link; without one, messages take no time."""
    if times is not None and not all(0 <= value < np.inf for value in times):
        raise UserError(f"The times of the models are {times}; give seconds, 0 or more.")
    by_name = {method.name: method for method in methods}
    groups: dict[tuple[str, int], list[int]] = {}
    for number, record in enumerate(records):
        _check(by_name, record)
        groups.setdefault((record.method, record.seed if seed is None else seed), []).append(number)
    found: dict[int, GenerationRecord] = {}
    for (name, number), members in groups.items():
        timed = _retime([records[i] for i in members], link, by_name[name], times, number)
        found |= dict(zip(members, timed, strict=True))
    return [found[i] for i in range(len(records))]


def fading_links(
    average_snr_db: Sequence[float] = AVERAGE_SNR_DB,
    *,
    k_factor_db: float | None = None,
    bandwidth_hz: float = BANDWIDTH_HZ,
    way: Way | None = None,
) -> list[FadingLink]:
    """Return a link for each average SNR, with Rayleigh fading, or Rician fading if a K-factor is given."""
    kind = "Rayleigh" if k_factor_db is None else f"Rician (K = {k_factor_db:g} dB)"
    links = []
    for snr_db in average_snr_db:
        mean = float(db_to_linear(float(snr_db)))
        law = Rayleigh(mean) if k_factor_db is None else Rician(mean, float(db_to_linear(float(k_factor_db))))
        links.append(FadingLink(f"{kind}, {snr_db:g} dB", bandwidth_hz, law, way or Way()))
    return links


def uhlm_link(*, transmit_dbm: float = 23.0, distance_m: float = 2500.0) -> FadingLink:
    """The link of u-hlm Section IV: 1 MHz, 23 dBm, -104 dBm of noise, path loss exponent 4 over 2.5 km, Rayleigh."""
    gain = log_distance_gain(distance_m, reference_gain=1.0, exponent=4.0)
    mean = float(dbm_to_watts(transmit_dbm) * gain / dbm_to_watts(-104.0))
    return FadingLink(f"u-hlm, {10 * np.log10(mean):.1f} dB", 1e6, Rayleigh(mean))


def _check(methods: dict[str, Method], record: GenerationRecord) -> None:
    if record.method not in methods:
        raise UserError(f"There are records of {record.method!r}, which is not among the methods; give it as well.")
    if methods[record.method].follows_rate:
        raise UserError(
            f"The drafts of {record.method!r} depend on the rate of its link, here {record.link!r}, so its messages "
            "cannot be timed over another link; decode it over each link instead."
        )


def _retime(
    records: list[GenerationRecord],
    link: FadingLink | None,
    method: Method,
    times: tuple[float, float] | None,
    seed: int,
) -> list[GenerationRecord]:
    """Return the records of one method with new times."""
    channel = link.open(Noise(seed, [record.prompt for record in records], 0)) if link else None
    if method.streamed:
        timed = [stream(record, i, channel, times) for i, record in enumerate(records)]
    else:
        put = _pass_times(records, times)
        timed = [([put(one) for one in record.rounds], put(record.last)) for record in records]
        if channel:
            _put([rounds for rounds, _ in timed], channel, method.real_bytes)
    name = link.name if link else "none"
    return [
        replace(record, link=name, rounds=rounds, last=last, tokens=list(record.tokens))
        for record, (rounds, last) in zip(records, timed, strict=True)
    ]


def _put(rounds: list[list[Round]], channel: Channel, real_bytes: bool) -> None:
    for number in range(max(map(len, rounds), default=0)):
        texts = np.array([text for text, own in enumerate(rounds) if number < len(own)])
        now = [rounds[text][number] for text in texts]
        for text, one in zip(texts.tolist(), now, strict=True):
            for _ in range(one.skipped + 1):  # a skipped token takes a block of fading as well
                channel.rate(text)
        channel.time(texts, now, real_bytes)


def _pass_times(records: list[GenerationRecord], times: tuple[float, float] | None) -> Callable[[Round], Round]:
    """Return a function that copies a round without link times, with the given times of passes."""
    if times is None:
        return lambda one: replace(one, link_s=0.0)
    most = max((max(one.draft_passes, one.target_passes) for r in records for one in (*r.rounds, r.last)), default=0)
    # added pass by pass, as the loop does, so that the rounding is the same
    draft, target = (np.cumsum([0.0, *[time] * most]).tolist() for time in times)
    return lambda one: replace(one, draft_s=draft[one.draft_passes], target_s=target[one.target_passes], link_s=0.0)
