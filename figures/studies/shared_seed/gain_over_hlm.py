"""How many times HLM's throughput is it with a token alone? By arithmetic, over cu-hlm's link and with its accounting.

PYTHONPATH=. python3 figures/studies/shared_seed/gain_over_hlm.py ACCEPTANCE gain_over_hlm.json

cu-hlm prints 206 and 1014.1 times HLM's throughput at an average SNR of -20 dB over 10 MHz. Its payloads, skipped share
and times of a pass imply the gains of ``validation.plots.common.decoded.printed``. Here they stand beside a shared seed
over the same blocks of Rayleigh fading. The uplink carries ⌈log₂ V⌉ bits a draft; as in the paper the downlink is free.
In HLM's own rounds (one draft, no token behind an accepted one) the gain depends on no acceptance.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.channel import Rayleigh, shannon_latency
from validation.decoding.loop import PAPER_TIMES
from validation.decoding.retiming import BANDWIDTH_HZ
from validation.plots.common.decoded.printed import VOCABULARY, row_bits
from validation.plots.common.printed import CU, value
from validation.plots.common.record import plain

SNR_DB, SAMPLES, SEED = -20.0, 200, 1
TEXTS, TOKENS = 100, 512
"""Samples and r_max of cu-hlm Section V-A."""
LENGTHS = range(1, 9)


def at_mean_snr(bits: float, snr_db: float) -> float:
    """Return the seconds of a message at 10 MHz without fading."""
    return float(shannon_latency(bits, BANDWIDTH_HZ, 10.0 ** (snr_db / 10.0)))


def _seconds_a_bit(
    rng: np.random.Generator, mean_snr: float = 10.0**-2, bandwidth_hz: float = BANDWIDTH_HZ
) -> NDArray[np.float64]:
    """Draw the latency per bit of each block of one sample."""
    snr = np.asarray(Rayleigh(mean_snr).sample(rng, TEXTS * TOKENS))
    return np.asarray(np.log(2.0) / (bandwidth_hz * np.log1p(snr)))


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


def gain(tokens: float, drafts: int, skipped: float = 0.0) -> list[float]:
    """Return the throughput over that of HLM: at a constant SNR, then the median, 2.5% and 97.5% quantile with fading.

    A round has ``drafts`` drafts and ``tokens`` tokens in the mean. The share ``skipped`` of the rounds skips the server.
    """
    draft_s, target_s = PAPER_TIMES
    rng, bits, found = np.random.default_rng(SEED), (VOCABULARY - 1).bit_length() * drafts, []
    for number in range(SAMPLES + 1):
        one = _seconds_a_bit(rng) if number else np.full(1, at_mean_snr(1.0, SNR_DB))
        own = one[: max(1, round(TEXTS * TOKENS / tokens))]  # a round takes a block
        whole = draft_s + target_s + row_bits() * one.mean()
        others = own[rng.random(len(one))[: len(own)] >= skipped] if number else own
        found.append(whole * tokens / (drafts * draft_s + (1.0 - skipped) * (target_s + bits * others.mean())))
    return plain([found[0], *np.quantile(found[1:], [0.5, 0.025, 0.975])], 4)


def main() -> None:
    """Compute, store and say it."""
    acceptance, out = float(sys.argv[1]), Path(sys.argv[2])
    rounds = {k: gain((1.0 - acceptance ** (k + 1)) / (1.0 - acceptance), k) for k in LENGTHS}
    best = max(rounds, key=lambda k: rounds[k][0])
    found: dict[str, Any] = {
        "kind": "arithmetic on printed payloads and times; the acceptance is that of the built-in pair",
        "columns": ["at a constant SNR", "median over samples of Rayleigh fading", "2.5%", "97.5%"],
        "acceptance": acceptance,
        "CU-HLM online, k = 832": plain([*gain_by_totals(value(CU, "online_k"))], 4),
        "CU-HLM offline, k = 30": plain([*gain_by_totals(value(CU, "offline_k"))], 4),
        "shared seed, HLM's rounds": gain(1.0, 1),
        f"shared seed, K = {best}": rounds[best],
        "shared seed, HLM's rounds, cu-hlm's share of skips": gain(1.0, 1, value(CU, "skipped")),
        "printed": {name: PRINTED[name].value for name in ("online_gain", "offline_gain")},
    }
    out.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
