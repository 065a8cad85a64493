"""The cell of edge-sd (zhu2025edgesd) Section IV: users in a disc, their prompts, and how each scheme serves them.

Table II's constants are the defaults of :class:`Load` and :class:`Radio`. Where the paper's text leaves open what was
done, :class:`Reading` says how it is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from hlmtheory.batching import Plan, lower_bound, plan, plan_latency
from hlmtheory.channel import db_to_linear, dbm_to_watts, log_distance_gain
from hlmtheory.ofdma import finish_times, minmax_latency
from hlmtheory.serving import Service, Task, upload_bits
from validation.scenarios.edge import LONGEST_DRAFT, LONGEST_INPUT, LONGEST_OUTPUT, MEMORY, PAIRS, service

Row = np.ndarray[Any, Any]

LENGTHS = range(1, LONGEST_DRAFT + 1)


@dataclass(frozen=True, slots=True)
class Load:
    """What the users ask, and of which models: edge-sd Tables I and II, with the pair and acceptance of Fig. 7.

    Attributes
    ----------
    users : int
        K.
    longest_input, longest_output : int
        I_max and O_max; lengths are uniform on 1..I_max and 1..O_max.
    pair : int
        Index of the draft and the verify model in :data:`validation.scenarios.edge.PAIRS`.
    acceptance : float
        α.
    memory : float
        Γ_s, in bytes.
    """

    users: int = 100
    longest_input: int = LONGEST_INPUT
    longest_output: int = LONGEST_OUTPUT
    pair: int = 1
    acceptance: float = 0.8
    memory: float = MEMORY

    @property
    def service(self) -> Service:
        """The two models on their machines."""
        return service(self.pair, self.acceptance, self.memory)


@dataclass(frozen=True, slots=True)
class Radio:
    """The uplink: edge-sd Table II, and g₀ ϱ d⁻² of Section IV.

    Attributes
    ----------
    reference_gain_db : float
        g₀ at 1 m. The paper prints −30 dBm; a gain has no unit of power, so it is read as −30 dB
        (taken as 10⁻⁶ it would be −60 dB).
    exponent : float
        Of the path loss.
    bandwidth_hz : float
        B_w.
    power_w, noise_dbm, radius_m : float
        p_k, σ² and the radius of the cell.
    """

    reference_gain_db: float = -30.0
    exponent: float = 2.0
    bandwidth_hz: float = 20e6
    power_w: float = 0.2
    noise_dbm: float = -106.0
    radius_m: float = 400.0


@dataclass(frozen=True, slots=True)
class Reading:
    """What edge-sd leaves open.

    Attributes
    ----------
    longest_answers : bool
        Whether every task is served for O_max tokens, as it is planned, and not for its own O_k.
    sorted_arrival : bool
        Whether the rivals, too, take the tasks by rising prompt and not as they come.
    printed_objective : bool
        Whether the batches minimise (29) as printed, which does not overlap the two stages.
    shared_length : bool
        Whether the rivals draft as many tokens as the proposed plan and not what is best for them.
    """

    longest_answers: bool = False
    sorted_arrival: bool = False
    printed_objective: bool = False
    shared_length: bool = False


@dataclass(frozen=True, slots=True)
class Users:
    """One draw of the users, arrays of shape (K,).

    Attributes
    ----------
    inputs, outputs : integer array
        I_k and O_k, in tokens.
    distance : array
        From the base station, as a share of the radius.
    fading : array
        ϱ_k ~ Exp(1).
    """

    inputs: Row
    outputs: Row
    distance: Row
    fading: Row


def draw_users(seed: int, run: int, load: Load) -> Users:
    """The users of one run; fewer users are the first of more, and a longer I_max stretches the same prompts.

    >>> few, many = (draw_users(1, 0, Load(users=count)) for count in (2, 5))
    >>> few.inputs.tolist() == many.inputs[:2].tolist()
    True
    """
    part = np.random.default_rng([seed, run]).random((load.users, 4)).T
    lengths = [
        1 + np.floor(u * longest).astype(np.int64)
        for u, longest in zip(part, (load.longest_input, load.longest_output), strict=False)
    ]
    return Users(*lengths, np.sqrt(part[2]), -np.log1p(-part[3]))


def spectral_efficiency(users: Users, radio: Radio) -> Row:
    """log₂(1 + p_k g_k/σ²), shape (K,); no user is nearer than 1 m, where g₀ is taken."""
    distance = np.maximum(users.distance * radio.radius_m, 1.0)
    reference = float(db_to_linear(radio.reference_gain_db))
    gain = users.fading * log_distance_gain(distance, reference_gain=reference, exponent=radio.exponent)
    return np.asarray(np.log1p(radio.power_w * gain / float(dbm_to_watts(radio.noise_dbm))) / math.log(2.0))


def upload_times(bits: Row, efficiency: Row, bandwidth_hz: float) -> tuple[float, float]:
    """T_com (16) in seconds with the best shares, (27), and with equal ones."""
    equal = finish_times(bits, efficiency, np.full(len(bits), 1.0 / len(bits)), bandwidth_hz)
    return float(minmax_latency(bits, efficiency, bandwidth_hz)), float(np.max(equal))


@cache
def uploads(seed: int, run: int, load: Load, radio: Radio) -> tuple[float, float]:
    """:func:`upload_times` of the prompts' embeddings, λ I_k bits."""
    users = draw_users(seed, run, load)
    bits = upload_bits(*PAIRS[load.pair], users.inputs)
    return upload_times(bits, spectral_efficiency(users, radio), radio.bandwidth_hz)


# ------------------------------------------------------------------------------------------------ serving


SCHEMES = (
    "proposed",
    "sequential",
    "none",
    "fixed-length",
    "autoregressive",
    "static",
    "max",
    "heuristic",
    "johnson",
    "known",
)
"""Methods of :func:`hlmtheory.batching.plan`, and ours.

"proposed" is ``dp``; "johnson" are its batches, ordered by Johnson's rule anew at each decoding step; "known" are these
or, if they take less, the batches of ``dp`` told the answers' lengths, at the same draft length and so ordered.
"""


@dataclass(frozen=True, slots=True)
class Served:
    """What a scheme chose, and what it takes.

    Attributes
    ----------
    seconds : float
        T_inf with the answers as they turn out.
    planned : float
        T_inf if every answer has O_max tokens.
    draft_length : int
        l.
    gap : float or None
        By how much, relative to a lower bound on every plan, ``planned`` can at most be improved; of "proposed".
    """

    seconds: float
    planned: float
    draft_length: int
    gap: float | None = None


@cache
def serve(
    seed: int, run: int, load: Load, schemes: tuple[str, ...] = SCHEMES, reading: Reading | None = None
) -> dict[str, Served]:
    """Plan the tasks of one run by each scheme for answers of O_max tokens, and serve the answers that come.

    Parameters
    ----------
    seed, run : int
        Pick the users.
    load : Load
    schemes : tuple of str
        Some of :data:`SCHEMES`.
    reading : Reading, optional

    Returns
    -------
    dict
        :class:`Served` by scheme.
    """
    cell = _Cell(draw_users(seed, run, load), load, reading or Reading())
    return {scheme: cell.serve(scheme) for scheme in schemes}


class _Cell:
    """The tasks of one run, with the plan by Algorithm 1."""

    def __init__(self, users: Users, load: Load, reading: Reading) -> None:
        order = np.argsort(users.inputs, kind="stable") if reading.sorted_arrival else np.arange(load.users)
        lengths = [(int(users.inputs[k]), int(users.outputs[k])) for k in order]
        self.reading, self.service = reading, load.service
        self.tasks = [Task(prompt, load.longest_output) for prompt, _ in lengths]
        self.answers = self.tasks if reading.longest_answers else [Task(*both) for both in lengths]
        method = "dp-printed-objective" if reading.printed_objective else "dp"
        self.proposed = plan(self.tasks, self.service, method, draft_lengths=LENGTHS)

    @cached_property
    def bounds(self) -> dict[int, float]:
        """What no batches fall below, by draft length (s)."""
        return {length: lower_bound(self.tasks, self.service, length) for length in LENGTHS}

    def serve(self, scheme: str) -> Served:
        """What one scheme takes."""
        best = self.proposed
        if scheme == "proposed":
            return replace(self._serve(best.batches, best.draft_length), gap=best.gap)
        if scheme in ("sequential", "johnson"):
            return self._serve(best.batches, best.draft_length, scheme)
        if scheme == "fixed-length":
            fixed = self._plan(scheme, 1)  # has a length of its own
            return self._serve(fixed.batches, fixed.draft_length)
        if scheme == "known":
            told = plan(self.answers, self.service, "dp", draft_lengths=[best.draft_length])
            candidates = [self._serve(one.batches, best.draft_length, "johnson") for one in (best, told)]
            return min(candidates, key=lambda found: found.seconds)
        if scheme == "autoregressive":
            return self._serve(self._plan(scheme, 1).batches, 0)
        if scheme == "heuristic":
            return self._serve(*self._with_best_length(partial(self._plan, scheme)))
        batches = self._plan(scheme, 1).batches  # whatever the draft length is
        return self._serve(*self._with_best_length(partial(self._measure, batches)))

    def _plan(self, method: str, length: int) -> Plan:
        return plan(self.tasks, self.service, method, draft_lengths=[length])

    def _serve(self, batches: Any, length: int, order: str = "given") -> Served:
        times = [plan_latency(tasks, self.service, batches, length, order) for tasks in (self.answers, self.tasks)]
        return Served(*times, length)

    def _lengths(self) -> list[int]:
        """Those that a rival tries, the most promising first."""
        if self.reading.shared_length:
            return [self.proposed.draft_length]
        return sorted(LENGTHS, key=lambda length: self.bounds[length])

    def _measure(self, batches: Any, length: int) -> Plan:
        latency = plan_latency(self.tasks, self.service, batches, length)
        return Plan("given", batches, "given", length, latency, self.bounds[length])

    def _with_best_length(self, find: Callable[[int], Plan]) -> tuple[Any, int]:
        """The fastest draft length; those that no batches could make faster are left out."""
        first, *others = self._lengths()
        best = find(first)
        for length in others:
            if self.bounds[length] < best.latency:
                best = min(best, find(length), key=lambda found: found.latency)
        return best.batches, best.draft_length
