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

from validation.decoding.loop import PAPER_TIMES
from validation.plots.common.decoded.printed import (
    PRINTED,
    TEXTS,
    TOKENS,
    VOCABULARY,
    _seconds_a_bit,
    at_mean_snr,
    gain_by_totals,
    row_bits,
)
from validation.plots.common.record import plain
from validation.plots.common.skipping.printed import CU, value

SNR_DB, SAMPLES, SEED = -20.0, 200, 1
LENGTHS = range(1, 9)


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
        "CU-HLM online, k = 832": plain([*gain_by_totals(PRINTED["online_k"].value)], 4),
        "CU-HLM offline, k = 30": plain([*gain_by_totals(PRINTED["offline_k"].value)], 4),
        "shared seed, HLM's rounds": gain(1.0, 1),
        f"shared seed, K = {best}": rounds[best],
        "shared seed, HLM's rounds, cu-hlm's share of skips": gain(1.0, 1, value(CU, "skipped")),
        "printed": {name: PRINTED[name].value for name in ("online_gain", "offline_gain")},
    }
    out.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
