"""The papers' links and methods: what the papers state, and what is derived or assumed here.

==================== ================================================================= ==========================
number               cu-hlm, u-hlm                                                     flexspec
==================== ================================================================= ==========================
rate                 stated: W log₂(1 + SNR), with W and the average SNR               stated: Table I
round trip           stated: none                                                      derived: Cloud-Only's time
                                                                                       less a pass
draft, pass          stated                                                            stated (Table V), assumed
                                                                                       (cu-hlm's)
payload              stated for V = 32,000; rates are scaled, see ``scaled``           stated: token ids
==================== ================================================================= ==========================

c-sqs states B, ℓ, η and its target deviation, and no link, times, K or first threshold: those are assumed. No paper
counts the downlink of its device; it has 100 Mbit/s here.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from hlmtheory.channel import db_to_linear
from validation.audit.samplers import method_named
from validation.decoding.links import FadingLink, Way
from validation.decoding.loop import PAPER_TIMES
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import FLEXSPEC_DRAFT_S
from validation.decoding.methods.settable import method_with
from validation.decoding.methods.shared_seed import SharedSeed
from validation.decoding.methods.single_draft import CHOSEN_THRESHOLD
from validation.decoding.retiming import BANDWIDTH_HZ, uhlm_link
from validation.decoding.studies import CLOUD_ONLY_S, CLOUD_S, RATES_BPS

VOCABULARY, K = 4096, 4
ROW_BITS = 16 + math.log2(VOCABULARY) + 32 * VOCABULARY
"""Bits of a round of HLM here: the number of drafts, a draft, and its distribution in float32."""
CU_ROW_BITS, U_ROW_BITS = 32_000 * (8 + 15), 32_000 * 16
"""Bits of a distribution: cu-hlm (4), and u-hlm's 500 kbit (half precision)."""
DOWN_BPS = 100e6
U_THRESHOLD = 0.431
"""u-hlm Section IV-A."""
LINE = json.loads(Path("figures/u-hlm-fig5.json").read_text(encoding="utf-8"))["statistics"]["bins"]["line"]
"""The line of rejection over uncertainty, fitted to the built-in pair: CU-HLM online needs one."""
STREAM, OWN, STREAMED, SEEDED = (
    "server alone, streaming",
    "server with its own draft",
    "shared seed, streamed",
    "shared seed",
)
SERVER = "server"
"""The method of ``hlm device`` whose texts the server writes."""
STD_SD, FLEX = "Std. SD, K = 4", "FlexSpec, plain draft"


@dataclass(frozen=True, slots=True)
class System:
    """A method: its name for ``hlm device`` with its numbers, most new tokens of a text, and which server it has."""

    name: str
    method: str
    numbers: tuple[str, ...] = ()
    new_tokens: int = 32
    drafts: bool = False  # the server has a draft of its own

    @property
    def writes(self) -> bool:
        """Whether the server writes the text."""
        return self.method == SERVER

    @property
    def words(self) -> tuple[str, ...]:
        """The words of ``hlm device``."""
        given = [word for one in self.numbers for word in ("--set", one)]
        return ("--method", self.method, *given, "--draft-length", str(K))

    def make(self) -> Method:
        """Return the method for the simulator; a text that the server writes is that of the shared seed."""
        if self.numbers:
            return method_with(self.method, self.numbers)
        method = SharedSeed(K) if self.writes else method_named(self.method, K)
        method.runs_draft &= self.drafts or not self.writes
        return method


@dataclass(frozen=True, slots=True)
class Gain:
    """A gain as a paper defines it: a method's tokens per second over another's, and what the paper prints."""

    method: str
    over: str
    printed: float | None
    place: str
    words: str = "–"  # what is printed without a number


@dataclass(frozen=True, slots=True)
class Setting:
    """A paper's link with the methods that run over it."""

    name: str
    rate_bps: float
    rtt_s: float
    times: tuple[float, float]  # of a draft and of a pass of the target
    systems: tuple[System, ...]
    gains: tuple[Gain, ...]
    temperature: float = 1.0
    top_p: float = 1.0

    @property
    def link(self) -> FadingLink:
        """The same link, as the simulator takes it."""
        return FadingLink(self.name, self.rate_bps, 1.0, Way(self.rtt_s / 2, DOWN_BPS))  # W log₂(1 + 1) = W


def rivals(*, streamed: bool = True) -> tuple[System, ...]:
    """Return what a paper's method competes with: the server alone, with its own draft, and the shared seed."""
    found = [
        System(STREAM, SERVER),
        System(OWN, SERVER, drafts=True),
        System(STREAMED, "shared seed streamed"),
        System(SEEDED, "shared seed"),
    ]
    return tuple(one for one in found if streamed or one.name != STREAMED)


def scaled(rate_bps: float, paper_bits: float) -> float:
    """Return the rate at which a whole distribution here takes as long as the paper's at its own rate."""
    return rate_bps * ROW_BITS / paper_bits


def shannon(bandwidth_hz: float, snr_db: float) -> float:
    """Return W log₂(1 + SNR) in bit/s."""
    return bandwidth_hz * math.log2(1.0 + float(db_to_linear(snr_db)))


def hlm(new_tokens: int) -> System:
    """Return HLM; all its tokens take the same time, so over a slow link a few are enough."""
    return System("HLM", "HLM", (), new_tokens)


def uhlm(threshold: float, new_tokens: int = 32) -> System:
    """Return U-HLM."""
    return System(f"U-HLM, u_th = {threshold:g}", "U-HLM", (f"threshold={threshold}",), new_tokens)


OFFLINE = System("CU-HLM offline, k = 30", "CU-HLM offline", (f"threshold={CHOSEN_THRESHOLD}", "k=30"))
U_CHOSEN = f"U-HLM, u_th = {CHOSEN_THRESHOLD:g}"
SLOW_BPS, FAST_BPS = shannon(BANDWIDTH_HZ, -20.0), shannon(BANDWIDTH_HZ, 10.0)
U_BPS = shannon(1e6, 10 * math.log10(uhlm_link().fading.mean_snr))


def online(new_tokens: int = 32) -> System:
    """Return CU-HLM online with the line of the built-in pair."""
    line = (f"slope={LINE['slope']}", f"intercept={LINE['intercept']}")
    return System("CU-HLM online", "CU-HLM online", (f"threshold={CHOSEN_THRESHOLD}", *line), new_tokens)


def _cu_gains(place: str) -> tuple[Gain, ...]:
    """Return the gains of Fig. 10a."""
    return (
        Gain(OFFLINE.name, "HLM", 1014.1, place),
        Gain("CU-HLM online", "HLM", 206.0, place),
        Gain(U_CHOSEN, "HLM", None, place),
    )


def _sqs(temperature: float) -> Setting:
    """Return c-sqs: 1 Mbit/s, K = 64, the first threshold and times are assumed."""
    methods = (
        System("K-SQS, K = 64", "K-SQS", ("k=64",)),
        System("C-SQS, τ₁ = 0.001", "C-SQS", ("threshold=0.001",)),
        System("QS dense", "QS dense"),
        System("rows in float32, K = 4", "fixed K"),
    )
    words = "faster" if temperature == 1 else "slower"
    gains = tuple(
        Gain(methods[1].name, over.name, None, "Section 4", words if over is methods[0] else "–")
        for over in (methods[0], *methods[2:])
    )
    name = f"c-sqs, 1 Mbit/s, T = {temperature:g}"
    return Setting(name, 1e6, 0.0, PAPER_TIMES, (*rivals(), *methods), gains, temperature)


FLEX_PRINTED = {
    0.0: {"5G": (1.96, 1.10), "4G": (1.83, 0.74), "WiFi": (1.95, 0.66)},
    1.0: {"5G": (1.87, 1.07), "4G": (1.66, 0.72), "WiFi": (1.74, 0.65)},
}
"""FlexSpec's and Std. SD's speed-up over Cloud-Only on GSM8K: Tables III and IV, by temperature."""


def _flexspec(network: str, temperature: float) -> Setting:
    """Return flexspec over a network; the paper's aligned draft is not shipped, so the plain one drafts."""
    delay = CLOUD_ONLY_S[network] - CLOUD_S
    systems = (
        *rivals(streamed=temperature == 0),
        System(FLEX, "flexspec linear, printed acceptance", (f"propagation_s={delay}",)),
        System(STD_SD, "fixed K"),
        System("Cloud-Only", "cloud only", (), 10),
    )
    ours, plain = FLEX_PRINTED[temperature][network]
    place = "Table III" if temperature == 0 else "Table IV"
    gains = (
        Gain(FLEX, "Cloud-Only", ours, place),
        Gain(STD_SD, "Cloud-Only", plain, place),
    )
    name = f"flexspec, {network}, T = {temperature:g}"
    top_p = 1.0 if temperature == 0 else 0.9
    times = (FLEXSPEC_DRAFT_S, CLOUD_S)
    return Setting(name, RATES_BPS[network], delay, times, systems, gains, temperature, top_p)


SETTINGS = (
    Setting(
        "cu-hlm, −20 dB",
        scaled(SLOW_BPS, CU_ROW_BITS),
        0.0,
        PAPER_TIMES,
        (*rivals(), hlm(4), uhlm(CHOSEN_THRESHOLD, 10), OFFLINE, online(12)),
        _cu_gains("Section V-C"),
    ),
    Setting(
        "cu-hlm, −20 dB, rate as printed",
        SLOW_BPS,
        0.0,
        PAPER_TIMES,
        (hlm(12), uhlm(CHOSEN_THRESHOLD, 24), OFFLINE, online()),
        _cu_gains("Section V-C"),
    ),
    Setting(
        "cu-hlm, 10 dB",
        scaled(FAST_BPS, CU_ROW_BITS),
        0.0,
        PAPER_TIMES,
        (*rivals(), hlm(32), uhlm(CHOSEN_THRESHOLD), OFFLINE, online()),
        (Gain("CU-HLM online", U_CHOSEN, 18.0 / 15.9, "Table II"), Gain(U_CHOSEN, "HLM", None, "Table II")),
    ),
    Setting(
        "u-hlm, −8.9 dB",
        scaled(U_BPS, U_ROW_BITS),
        0.0,
        (0.0246, 0.1046),
        (*rivals(), hlm(6), uhlm(U_THRESHOLD, 12)),
        (Gain(f"U-HLM, u_th = {U_THRESHOLD:g}", "HLM", 2.54, "Section IV-B"),),
    ),
    _sqs(1.0),
    _sqs(0.2),
    *(_flexspec(network, 0.0) for network in ("5G", "4G", "WiFi")),
    _flexspec("WiFi", 1.0),
)
