"""Numbers that cu-hlm and u-hlm print on decoded texts, and the arithmetic implications of the printed tables."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hlmtheory.channel import Rayleigh, shannon_latency, vocabulary_payload_bits
from validation.decoding.loop import PAPER_TIMES
from validation.decoding.retiming import BANDWIDTH_HZ
from validation.plots.common.record import Printed, Table
from validation.plots.common.skipping.printed import CU, U, value

SETS = ("Alpaca", "QED", "CREAK", "StrategyQA")
METHODS = {
    "large only": "LLM",
    "small only": "SLM",
    "HLM": "HLM",
    "Rand-HLM": "Rand-HLM",
    "U-HLM risk-prone": "U-HLM",
    "CU-HLM offline": "CU-HLM (Offline)",
    "CU-HLM online": "CU-HLM (Online)",
}
"""Our method names, without the bracketed part, and the papers' names."""
ACCURACY = {
    "TinyLlama-1.1B, Llama2-13B": {
        "LLM": (0.7782, 0.6954, 0.6722, 0.7122),
        "SLM": (0.6941, 0.5139, 0.5291, 0.5694),
        "HLM": (0.7825, 0.7226, 0.6946, 0.6983),
        "Rand-HLM": (0.7385, 0.6128, 0.6406, 0.6227),
        "U-HLM": (0.7704, 0.7122, 0.6854, 0.6844),
        "CU-HLM (Offline)": (0.7583, 0.6713, 0.6508, 0.6773),
        "CU-HLM (Online)": (0.7623, 0.6876, 0.6672, 0.6817),
    },
    "TinyLlama-1.1B, Llama2-7B": {
        "LLM": (0.7758, 0.6271, 0.6621, 0.6779),
        "SLM": (0.6521, 0.5139, 0.5291, 0.5694),
        "HLM": (0.7823, 0.6517, 0.6529, 0.6883),
        "Rand-HLM": (0.7382, 0.5534, 0.5682, 0.6200),
        "U-HLM": (0.7696, 0.6381, 0.6550, 0.6532),
        "CU-HLM (Offline)": (0.7455, 0.6130, 0.6062, 0.6242),
        "CU-HLM (Online)": (0.7622, 0.6387, 0.6460, 0.6409),
    },
}
"""cu-hlm Table I: by pair and method, in the order of ``SETS``."""
LIKENESS = {
    "TinyLlama-1.1B, Llama2-7B": {
        "LLM": (0.6231, 0.5104, 0.4862, 0.6023),
        "SLM": (0.5077, 0.2577, 0.2436, 0.3091),
        "HLM": (0.5634, 0.5093, 0.5040, 0.5785),
        "Rand-HLM": (0.5285, 0.4638, 0.4663, 0.5735),
        "U-HLM": (0.5585, 0.4943, 0.5130, 0.5913),
    }
}
"""u-hlm Table I: by pair and method, in the order of ``SETS``."""
LATENCIES = {
    "U-HLM": {"No KD": (6.3, 31.1, 15.9), "KD": (5.9, 29.0, 16.5), "7B–13B": (2.8, 13.8, 12.4)},
    "CU-HLM (Online)": {
        "No KD": (0.0381, 30.0, 18.0),
        "KD": (0.0355, 27.9, 18.7),
        "7B–13B": (0.0162, 12.8, 13.0),
    },
}
"""cu-hlm Table II: ms per token of link and target model, and tokens per second."""
LARGER_DRAFT_S = 0.064
"""Time of one pass of the 7B draft model, cu-hlm Table II."""
VOCABULARY, BITS = 32_000, 8
SNR_DB = 10.0
U_TIMES = (0.0246, 0.1046)
"""Seconds of one pass of each model, u-hlm Section I; cu-hlm prints 25.6 ms for the draft model."""
U_ROW_BITS, U_BANDWIDTH_HZ = 500e3, 1e6
"""Bits of a full distribution, u-hlm Section I, and bandwidth of its link, Section IV."""
TEXTS, TOKENS = 100, 512
"""Samples and r_max of cu-hlm Section V-A."""

CERTIFIED = (
    "CU-HLM certified bounds the bias of truncation by 0.1 a token. Skipping has a risk of its own: its threshold is "
    "calibrated at a mean of 0.05 a token."
)
"""What the label of our method does not hold: its name states the bias alone."""

PRINTED = {
    "offline_gain": Printed("throughput of CU-HLM (Offline) over HLM, Rayleigh, −20 dB", 1014.1, "Section V-C"),
    "online_gain": Printed("throughput of CU-HLM (Online) over HLM, Rayleigh, −20 dB", 206.0, "Section V-C"),
    "offline_kept": Printed("CU-HLM (Offline), % of HLM's accuracy, Alpaca", 96.91, "Section V-C"),
    "online_kept": Printed("CU-HLM (Online), % of HLM's accuracy, Alpaca", 97.42, "Section V-C"),
    "online_k": Printed("mean k of CU-HLM (Online)", 832.0, "Section V-C"),
    "offline_k": Printed("k* of CU-HLM (Offline)", 30.0, "Section V-B"),
    "kd_acceptance": Printed("acceptance by distillation, + %", 2.0, "Section V-D"),
    "larger_acceptance": Printed("acceptance by the larger draft model, + %", 16.5, "Section V-D"),
    "u_gain": Printed("throughput of U-HLM over HLM", 2.54, "Section IV-B"),
    "of_llm": Printed("U-HLM, % of LLM's similarity, mean over sets", 97.54, "Section IV-B"),
    "of_hlm": Printed("U-HLM, % of HLM's similarity, mean over sets", 100.05, "Section IV-B"),
}


def printed_name(method: str) -> str | None:
    """Return the papers' name of a method, or None.

    >>> printed_name("CU-HLM offline (k = 105)"), printed_name("CU-HLM certified (bias 0.1)")
    ('CU-HLM (Offline)', None)
    """
    return METHODS.get(method.split(" (")[0])


def row_bits(vocabulary: int = VOCABULARY) -> float:
    """Return the bits of a full distribution by cu-hlm (4)."""
    return float(vocabulary_payload_bits(vocabulary, BITS))


def at_mean_snr(bits: float, snr_db: float) -> float:
    """Return the seconds of a message at 10 MHz without fading."""
    return float(shannon_latency(bits, BANDWIDTH_HZ, 10.0 ** (snr_db / 10.0)))


@lru_cache(maxsize=4)
def gain_by_totals(entries: float, samples: int = 200, seed: int = 1) -> tuple[float, float, float, float]:
    """Return the gain over HLM at an average SNR of -20 dB from cu-hlm's printed payloads, rates and times.

    Parameters
    ----------
    entries : float
        k of CU-HLM's messages.
    samples, seed : int
        Samples of 100 texts of 512 tokens under Rayleigh fading, a block of fading for each token.

    Returns
    -------
    (float, float, float, float)
        The gain at a constant SNR; then the median and the 2.5% and 97.5% points over samples of the ratio of totals.
    """
    rng = np.random.default_rng(seed)
    draft_s, target_s = PAPER_TIMES
    sent = 1.0 - value(CU, "skipped")
    bits = np.array([row_bits(), entries * row_bits() / VOCABULARY])
    still = at_mean_snr(1.0, -20.0)
    found = []
    for number in range(samples + 1):
        one = np.full(1, still) if not number else _seconds_a_bit(rng)
        others = one[rng.random(len(one)) < sent] if number else one
        whole = draft_s + target_s + bits[0] * one.mean()
        found.append(whole / (draft_s + sent * (target_s + bits[1] * others.mean())))
    low, middle, high = np.quantile(found[1:], [0.025, 0.5, 0.975])
    return float(found[0]), float(middle), float(low), float(high)


@lru_cache(maxsize=4)
def gain_by_rounds(entries: float, seed: int = 1) -> float:
    """Return the gain as a ratio of means over rounds of tokens/seconds, cu-hlm (6), of one sample; it is finite."""
    one = _seconds_a_bit(np.random.default_rng(seed))
    draft_s, target_s = PAPER_TIMES
    sent = 1.0 - value(CU, "skipped")
    sizes = row_bits(), entries * row_bits() / VOCABULARY
    whole, own = (np.mean(1.0 / (draft_s + target_s + bits * one)) for bits in sizes)
    return float(((1.0 - sent) / draft_s + sent * own) / whole)


@lru_cache(maxsize=4)
def u_gain_by_totals(snr_db: float, samples: int = 200, seed: int = 1) -> tuple[float, float, float, float]:
    """Return the gain over HLM as a ratio of totals, from u-hlm's printed payload, transmission rate and times.

    The skipping decision does not depend on the fading. On the same fading blocks, U-HLM's expected time is therefore
    at least HLM's time multiplied by the share of rounds sent. The inverse of this share bounds the gain. A single
    sample can exceed the bound when its slowest blocks are skipped.

    Parameters
    ----------
    snr_db : float
        Average SNR under Rayleigh fading.
    samples, seed : int
        As in :func:`gain_by_totals`.

    Returns
    -------
    (float, float, float, float)
        The median and the 2.5% and 97.5% points over samples, and the share of samples that reach the printed gain.
    """
    rng = np.random.default_rng(seed)
    draft_s, target_s = U_TIMES
    found = []
    for _ in range(samples):
        link = U_ROW_BITS * _seconds_a_bit(rng, 10.0 ** (snr_db / 10.0), U_BANDWIDTH_HZ)
        sent = rng.random(len(link)) < 1.0 - value(U, "skipped")
        asked = target_s + link
        found.append((draft_s + asked.mean()) / (draft_s + (sent * asked).mean()))
    low, middle, high = np.quantile(found, [0.025, 0.5, 0.975])
    return float(middle), float(low), float(high), float(np.mean(np.array(found) >= PRINTED["u_gain"].value))


def u_gain_by_rounds() -> float:
    """Return the smallest possible ratio of means over rounds of tokens/seconds, u-hlm (4), with no link time.

    Let m be HLM's mean, at most 1/(τ_SLM + τ_LLM), and s the share of rounds sent, independent of the fading. The ratio
    is then s + (1 - s)/(τ_SLM m).
    """
    draft_s, target_s = U_TIMES
    return 1.0 + value(U, "skipped") * target_s / draft_s


def _seconds_a_bit(
    rng: np.random.Generator, mean_snr: float = 10.0**-2, bandwidth_hz: float = BANDWIDTH_HZ
) -> NDArray[np.float64]:
    """Draw the latency per bit of each block of one sample."""
    snr = np.asarray(Rayleigh(mean_snr).sample(rng, TEXTS * TOKENS))
    return np.asarray(np.log(2.0) / (bandwidth_hz * np.log1p(snr)))


def implied() -> Table:
    """Return the implications of Table II: rates from the target model's time, and message sizes from the link time."""
    target_ms = 1e3 * PAPER_TIMES[1]
    whole = at_mean_snr(row_bits(), SNR_DB)
    rate = float(BANDWIDTH_HZ * np.log2(1.0 + 10.0 ** (SNR_DB / 10.0)))
    rows = []
    for method, cells in LATENCIES.items():
        for name, (link, target, _) in cells.items():
            sent = target / target_ms
            bits = link / sent * 1e-3 * rate
            entries = bits / (row_bits() / VOCABULARY)
            rows.append(
                (
                    f"{method}, {name}",
                    f"{sent:.3f}",
                    f"{link:g} ms",
                    f"{1e3 * sent * whole:.2f} ms" if method == "U-HLM" else "–",
                    f"{bits:,.0f} bits: {entries:,.0f} entries",
                )
            )
    heads = ("", "TR: LLM computation/104.6 ms", "printed", "whole row at 10 dB, no fading", "a message at that rate")
    return Table("What Table II prints, by arithmetic", heads, tuple(rows))


def remarks() -> str:
    """Give the implications of Table II, for the caption."""
    sent = LATENCIES["U-HLM"]["No KD"][1] / (1e3 * PAPER_TIMES[1])
    return (
        "The three communication times that the paper prints for U-HLM are those of whole distributions at an SNR of "
        "exactly 10 dB, without fading. Their transmission rates follow from the printed times of the target model. "
        f"Under Rayleigh fading the mean time is infinite. The times imply a rate of {sent:.3f}, where V-B skips "
        f"{100 * value(CU, 'skipped'):.1f}%. For CU-HLM (Online) they imply 200 entries a message for all three "
        f"pairs, where V-C prints {PRINTED['online_k'].value:.0f} on average."
    )


def shares(paper: str) -> str:
    """Give the printed shares of HLM's accuracy, for the caption."""
    if paper == U:
        return f"{PRINTED['of_llm'].value}% of LLM's and {PRINTED['of_hlm'].value}% of HLM's on average over sets"
    return f"{PRINTED['offline_kept'].value}% (offline) and {PRINTED['online_kept'].value}% (online) of HLM's on Alpaca"
