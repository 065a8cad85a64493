"""The cell of edge-sd (zhu2025edgesd) Section IV: users in a disc, their prompts, and their service by each scheme.

Table II's constants are the defaults of :class:`Load` and :class:`Radio`. Where the paper's text is ambiguous, a task
generates its own O_k tokens, tasks keep their order of arrival, and a baseline has its own best draft length.
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise

import numpy as np

from hlmtheory.batching import plan_latency
from hlmtheory.batching.methods import METHODS, Candidate, Options, Problem
from hlmtheory.batching.planner import FIXED_LENGTH
from hlmtheory.batching.refusals import fitting_lengths
from hlmtheory.channel import db_to_linear, log_distance_gain
from hlmtheory.channel.latency import dbm_to_watts
from hlmtheory.ofdma import minmax_latency
from hlmtheory.ofdma.shares import finish_times
from hlmtheory.serving import Service, Task, peak_memory
from hlmtheory.serving.costs import upload_bits
from validation.arrays import Array
from validation.claims.scenarios.edge import LONGEST_INPUT, LONGEST_OUTPUT, MAX_DRAFT_LENGTH, MEMORY, PAIRS, service

LENGTHS = range(1, MAX_DRAFT_LENGTH + 1)


@dataclass(frozen=True, slots=True)
class Load:
    """The workload and the models: edge-sd Tables I and II, with the pair and acceptance of Fig. 7."""

    users: int = 100  # K
    longest_input: int = LONGEST_INPUT  # I_max and O_max; lengths are uniform on 1..I_max and 1..O_max
    longest_output: int = LONGEST_OUTPUT
    pair: int = 1  # index of the draft and target model in :data:`validation.claims.scenarios.edge.PAIRS`
    acceptance: float = 0.8  # α
    memory: float = MEMORY  # Γ_s, in bytes

    @property
    def service(self) -> Service:
        return service(self.pair, self.acceptance, self.memory)


@dataclass(frozen=True, slots=True)
class Radio:
    """The uplink: edge-sd Table II, and g₀ ϱ d⁻² of Section IV."""

    reference_gain_db: float = -30.0
    exponent: float = 2.0  # of the path loss
    bandwidth_hz: float = 20e6  # B_w
    power_w: float = 0.2  # p_k, σ² and the radius of the cell
    noise_dbm: float = -106.0
    radius_m: float = 400.0


@dataclass(frozen=True, slots=True)
class Users:
    """One draw of the users, arrays of shape (K,)."""

    inputs: Array  # I_k and O_k, in tokens
    outputs: Array
    distance: Array  # distance from the base station, as a fraction of the radius
    fading: Array  # ϱ_k ~ Exp(1)


def draw_users(seed: int, run: int, load: Load) -> Users:
    """Return the users of one run. A smaller K gives a prefix; a larger I_max scales the same prompts."""
    part = np.random.default_rng([seed, run]).random((load.users, 4)).T
    inputs, outputs = (
        1 + np.floor(u * longest).astype(np.int64)
        for u, longest in zip(part, (load.longest_input, load.longest_output), strict=False)
    )
    return Users(inputs, outputs, np.sqrt(part[2]), -np.log1p(-part[3]))


def spectral_efficiency(users: Users, radio: Radio) -> Array:
    """Return log₂(1 + p_k g_k/σ²), shape (K,); distances are at least 1 m, where g₀ is defined."""
    distance = np.maximum(users.distance * radio.radius_m, 1.0)
    reference = float(db_to_linear(radio.reference_gain_db))
    gain = users.fading * log_distance_gain(distance, reference_gain=reference, exponent=radio.exponent)
    return np.asarray(np.log1p(radio.power_w * gain / float(dbm_to_watts(radio.noise_dbm))) / math.log(2.0))


def upload_times(bits: Array, efficiency: Array, bandwidth_hz: float) -> tuple[float, float]:
    """Return T_com (16) in seconds with the optimal bandwidth shares, (27), and with equal shares."""
    cell = {"spectral_efficiency": efficiency, "bandwidth_hz": bandwidth_hz}
    equal = finish_times(bits, shares=np.full(len(bits), 1.0 / len(bits)), **cell)
    return float(minmax_latency(bits, **cell)), float(np.max(equal))


@cache
def uploads(seed: int, run: int, load: Load, radio: Radio) -> tuple[float, float]:
    """Return :func:`upload_times` of the prompts' embeddings, λ I_k bits."""
    users = draw_users(seed, run, load)
    bits = upload_bits(*PAIRS[load.pair], users.inputs)
    return upload_times(bits, spectral_efficiency(users, radio), radio.bandwidth_hz)


SCHEMES: tuple[str, ...] = ("proposed", "sequential", "none", "fixed-length", "autoregressive", "static", "max")
SCHEMES += ("heuristic", "johnson", "known", "free")
"""Methods of :func:`hlmtheory.batching.plan`, and ours. All but "free" have a barrier after every decoding step, (22).

"proposed" is ``dp``. "johnson" reorders its batches by Johnson's rule at each decoding step. "known" is the faster of
"johnson" and of ``dp`` with known answer lengths, at the same draft length and in the same order. "free" is the faster
of ``dp`` and ``balanced`` without the barrier: a batch drafts as soon as its own draft tokens are verified.
"""


@dataclass(frozen=True, slots=True)
class Served:
    seconds: float  # T_inf with the actual answer lengths
    planned: float  # T_inf if every answer has O_max tokens
    draft_length: int  # l
    gap: float | None = None
    bytes: float = 0.0  # peak memory: weights and caches of all concurrent batches, at the fullest wave
    waves: int = 1  # number of waves


@cache
def serve(
    seed: int, run: int, load: Load, schemes: tuple[str, ...] = SCHEMES, memory_rule: str = "each"
) -> dict[str, Served]:
    """Plan the tasks of one run by each scheme for O_max tokens, and serve the actual answers."""
    cell = _Cell(draw_users(seed, run, load), load, memory_rule)
    return {scheme: cell.serve(scheme) for scheme in schemes}


class _Cell:
    def __init__(self, users: Users, load: Load, memory_rule: str) -> None:
        lengths = list(zip(users.inputs.tolist(), users.outputs.tolist(), strict=True))
        self.service, self.rule = load.service, memory_rule
        self.tasks = [Task(prompt, load.longest_output) for prompt, _ in lengths]
        self.answers = [Task(*both) for both in lengths]
        self.lengths = fitting_lengths(self.tasks, self.service, list(LENGTHS), memory_rule)
        self.barrier = Problem(self.tasks, self.service, Options("barrier", memory_rule))
        self.proposed = METHODS["dp"](self.barrier, self.lengths)

    @cached_property
    def freely(self) -> Problem:
        return Problem(self.tasks, self.service, Options("free", self.rule))

    def serve(self, scheme: str) -> Served:
        best = self.proposed
        if scheme == "known":
            told = Problem(self.answers, self.service, Options("barrier", self.rule))
            other = METHODS["dp"](told, [best.draft_length])
            found = [self._served(self._reordered(one, "johnson"), self.barrier) for one in (best, other)]
            return min(found, key=lambda one: one.seconds)
        if scheme == "free":
            plans = [METHODS[method](self.freely, self.lengths) for method in ("dp", "balanced")]
            return self._served(min(plans, key=lambda one: one.latency), self.freely, bounded=True)
        if scheme == "autoregressive":
            alone = Problem(self.tasks, self.service, Options("barrier", "ignored"))
            return self._served(METHODS[scheme](alone, [0]), alone)
        if scheme == "proposed":
            return self._served(best, self.barrier, bounded=True)
        if scheme in ("sequential", "johnson"):
            return self._served(self._reordered(best, scheme), self.barrier, bounded=scheme == "johnson")
        lengths = [FIXED_LENGTH] if scheme == "fixed-length" else self.lengths
        return self._served(METHODS[scheme](self.barrier, lengths), self.barrier)

    def _reordered(self, plan: Candidate, order: str) -> Candidate:
        return self.barrier.plan(plan.batches, plan.draft_length, order)

    def _served(self, plan: Candidate, problem: Problem, *, bounded: bool = False) -> Served:
        seconds = plan_latency(
            self.answers,
            self.service,
            plan.batches,
            plan.draft_length,
            plan.order,
            schedule=problem.options.schedule,
            memory_rule="ignored",
            waves=plan.waves,
        )
        gap = None
        if bounded:
            bound = min(problem.bound(length) for length in self.lengths)
            gap = max(plan.latency / bound - 1.0, 0.0)
        return Served(seconds, plan.latency, plan.draft_length, gap, self._bytes(plan), len(plan.waves))

    def _bytes(self, plan: Candidate) -> float:
        inputs, outputs = self.barrier.inputs, self.barrier.outputs
        weights = float(peak_memory(self.service.draft, 0, 0, 0))
        needs = [
            float(peak_memory(self.service.draft, inputs[b].max(), outputs[b].max(), len(b), plan.draft_length))
            - weights
            for b in map(list, plan.batches)
        ]
        return weights + max(sum(needs[a:b]) for a, b in pairwise(np.cumsum((0, *plan.waves))))
