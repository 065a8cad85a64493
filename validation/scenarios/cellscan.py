"""Which settings of edge-sd's cell give the percentages that it prints: a compact search, each setting on few runs.

Table II's constants give none of them exactly. What is varied is what the paper leaves open, or may have had otherwise:
how long the answers are, what is uploaded, the path loss, how the rivals are run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from hlmtheory.serving import decoding_steps, upload_bits
from validation.scenarios.cell import (
    Load,
    Radio,
    Reading,
    draw_users,
    serve,
    spectral_efficiency,
    upload_times,
    uploads,
)
from validation.scenarios.edge import LONGEST_OUTPUT, PAIRS

Row = np.ndarray[Any, Any]

VOCABULARY = 32_000
"""Of the LLaMA models."""

ANSWERS = (32, 64, 128, 256, 512, 1024, LONGEST_OUTPUT)
GAINS_DB = (-30.0, -40.0, -50.0, -60.0)
EXPONENTS = (2.0, 3.0, 4.0)
BANDWIDTH_HZ = 25e6
"""Of the printed gains of Fig. 9."""

PAYLOADS = {
    "embeddings": "embeddings, 16 (h₁ᵈ + h₁ᵛ) bits a token",
    "embeddings in FP32": "embeddings in FP32, 32 (h₁ᵈ + h₁ᵛ) bits a token",
    "tokens": "token ids, 15 bits a token",
    "probabilities": "a row of 32,000 FP16 probabilities a token of the prompt",
    "draft probabilities": "a row of 32,000 FP16 probabilities a draft",
}
"""What is uploaded, in words."""


@dataclass(frozen=True, slots=True)
class Found:
    """One setting and what it gives.

    Attributes
    ----------
    setting : tuple of str
        What differs from Table II and the text, in words; empty for Table II itself.
    savings : tuple of float
        In percent, in the order of what is searched for.
    """

    setting: tuple[str, ...]
    savings: tuple[float, ...]

    def distance(self, printed: tuple[float, ...]) -> float:
        """The largest difference from the printed ones, in percentage points."""
        return max(abs(ours - theirs) for ours, theirs in zip(self.savings, printed, strict=True))

    @property
    def words(self) -> str:
        """The setting."""
        return "; ".join(self.setting) or "Table II"


def saving(other: float, ours: float) -> float:
    """By how many percent ours is less than the other.

    >>> saving(4.0, 3.0)
    25.0
    """
    return 100.0 * (1.0 - ours / other)


def closest(found: Iterable[Found], printed: tuple[float, ...]) -> Found:
    """The one whose largest difference from the printed ones is least, the first of equals."""
    return min(found, key=lambda one: one.distance(printed))


# ------------------------------------------------------------------------------------------------ bandwidth


@cache
def scan_bandwidth(
    seed: int, runs: int, base: Load, answers: tuple[int, ...] = ANSWERS, pairs: tuple[int, ...] = (0, 1, 2)
) -> tuple[Found, ...]:
    """What the best shares save of the total latency at 25 MHz, a percentage for each pair of models.

    All combinations of the longest answer, whether every task has it, what is uploaded, the reference gain and the
    exponent of the path loss.
    """
    radios = [Radio(gain, exponent, BANDWIDTH_HZ) for gain, exponent in product(GAINS_DB, EXPONENTS)]
    units = {radio: _unit_times(seed, runs, base, radio) for radio in radios}
    found = []
    for answer, every in product(answers, (False, True)):
        loads = [replace(base, pair=pair, longest_output=answer) for pair in pairs]
        served = [_served(seed, runs, load, every) for load in loads]
        for radio, payload in product(radios, PAYLOADS):
            savings = []
            for load, (seconds, drafts) in zip(loads, served, strict=True):
                best, equal = _upload(payload, load, units[radio], drafts) + seconds
                savings.append(float(np.mean(100.0 * (1.0 - best / equal))))
            found.append(Found(_bandwidth_words(answer, every, radio, payload), tuple(savings)))
    return tuple(found)


def _unit_times(seed: int, runs: int, base: Load, radio: Radio) -> Row:
    """Upload times with the best and with equal shares at one bit a token and one bit a user, shape (2, 2, runs)."""
    times = []
    for run in range(runs):
        users = draw_users(seed, run, base)
        efficiency = spectral_efficiency(users, radio)
        prompts = users.inputs.astype(np.float64)
        times.append([upload_times(bits, efficiency, radio.bandwidth_hz) for bits in (prompts, np.ones_like(prompts))])
    return np.moveaxis(np.asarray(times), 0, -1)


def _served(seed: int, runs: int, load: Load, every: bool) -> tuple[Row, Row]:
    """T_inf and the drafts of a task, l ⌈O_max/L⌉, shapes (runs,)."""
    found = [serve(seed, run, load, ("proposed",))["proposed"] for run in range(runs)]
    steps = [decoding_steps(load.longest_output, load.acceptance, one.draft_length) for one in found]
    drafts = [one.draft_length * float(count) for one, count in zip(found, steps, strict=True)]
    return np.asarray([one.planned if every else one.seconds for one in found]), np.asarray(drafts)


def _upload(payload: str, load: Load, unit: Row, drafts: Row) -> Row:
    """Upload times with the best and with equal shares, shape (2, runs)."""
    row = 16.0 * VOCABULARY
    if payload == "draft probabilities":
        return np.asarray(unit[1] * row * drafts)
    embedding = float(upload_bits(*PAIRS[load.pair], 1))
    bits = {"embeddings": embedding, "embeddings in FP32": 2.0 * embedding, "tokens": 15.0, "probabilities": row}
    return np.asarray(unit[0] * bits[payload])


def _bandwidth_words(answer: int, every: bool, radio: Radio, payload: str) -> tuple[str, ...]:
    words = {
        f"O_max = {answer}": answer != LONGEST_OUTPUT,
        "every answer of O_max tokens": every,
        f"g₀ = {radio.reference_gain_db:g} dB".replace("-", "−"): radio.reference_gain_db != Radio().reference_gain_db,
        f"path loss exponent {radio.exponent:g}": radio.exponent != Radio().exponent,
        PAYLOADS[payload]: payload != "embeddings",
    }
    return tuple(word for word, differs in words.items() if differs)


# ------------------------------------------------------------------------------------------------- batching


@dataclass(frozen=True, slots=True)
class Comparison:
    """A percentage printed in Section IV: by how much ``rival`` is slower, at one load."""

    rival: str
    changed: tuple[str, int]

    def load(self, base: Load) -> Load:
        """The base with what Fig. 7 or 8 varies there."""
        field, value = self.changed
        return replace(base, **{field: value})  # type: ignore[arg-type]


COMPARISONS = (
    Comparison("sequential", ("longest_input", 512)),
    Comparison("sequential", ("longest_output", 1792)),
    Comparison("max", ("users", 90)),
    Comparison("heuristic", ("longest_input", 1792)),
    Comparison("heuristic", ("longest_output", 1024)),
)
"""31.6, 30.7, 21.4, 19.6 and 20.5 %: Figs. 7b, 7c, 8a, 8b, 8c."""


def compared(seed: int, runs: int, comparison: Comparison, base: Load, reading: Reading | None = None) -> Row:
    """What the proposed plan saves of the total latency in each run, in percent, shape (runs,)."""
    load = comparison.load(base)
    savings = []
    for run in range(runs):
        served = serve(seed, run, load, ("proposed", comparison.rival), reading)
        upload, _ = uploads(seed, run, load, Radio())
        savings.append(saving(served[comparison.rival].seconds + upload, served["proposed"].seconds + upload))
    return np.asarray(savings)


_READINGS = {
    "longest_answers": "every answer of O_max tokens",
    "sorted_arrival": "rivals, too, take the tasks by rising prompt",
    "printed_objective": "batches by (29) as printed",
    "shared_length": "rivals draft as many tokens as the proposed plan",
}


@cache
def scan_batching(
    seed: int, runs: int, base: Load, comparisons: tuple[Comparison, ...] = COMPARISONS
) -> tuple[Found, ...]:
    """The percentages of Figs. 7 and 8 under every reading of the text, then with one constant changed at a time."""
    settings: list[tuple[tuple[str, ...], Load, Reading]] = []
    for switches in product((False, True), repeat=3):
        reading = Reading(**dict(zip(_READINGS, switches, strict=False)))
        words = tuple(word for word, on in zip(_READINGS.values(), switches, strict=False) if on)
        settings.append((words, base, reading))
    settings.append(((_READINGS["shared_length"],), base, Reading(shared_length=True)))
    for memory in (8e9, 24e9, 32e9, 48e9):
        settings.append(((f"Γ_s = {memory / 1e9:g} GB",), replace(base, memory=memory), Reading()))
    for acceptance in (0.7, 0.9):
        settings.append(((f"α = {acceptance:g}",), replace(base, acceptance=acceptance), Reading()))
    return tuple(
        Found(words, tuple(float(compared(seed, runs, one, load, reading).mean()) for one in comparisons))
        for words, load, reading in settings
    )
