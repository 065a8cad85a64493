"""The savings of edge-sd (zhu2025edgesd) Section IV at one setting, fast enough to try hundreds of settings.

:mod:`validation.claims.scenarios.cell` plans each run with the planner of ``hlmtheory``, one draft length after the
other. Here all draft lengths are planned at once, and a planned latency is summed over a few decoding steps that
represent all of them. This hardly changes the chosen plan, because the time of a stage is linear in the step. The
latency of the chosen plan is summed over every step. With ``nodes=None`` the planned latency is, too, and the savings
are those of :func:`validation.claims.scenarios.cell.serve`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from hlmtheory._domains import DomainError
from hlmtheory.serving import Device, Service, decoding_steps, peak_memory, stage_times, upload_bits
from validation.claims.scenarios.cell import Load, Radio, Users, draw_users, spectral_efficiency, upload_times
from validation.claims.scenarios.edge import CLOUD, EDGE, LONGEST_INPUT, LONGEST_OUTPUT, MAX_DRAFT_LENGTH, MEMORY, PAIRS
from validation.plots.edge_sd.printed import Saving

Row: TypeAlias = np.ndarray[Any, Any]
Batches: TypeAlias = list[Row]

NODES = 12
"""Decoding steps, after the first, that represent all steps in a plan."""

VOCABULARY = 32_000
"""Vocabulary size of the LLaMA models."""

BANDWIDTH_HZ = 25e6
"""The bandwidth at which the paper prints the savings of Fig. 9."""

CHOICES: dict[str, tuple[str, ...]] = {
    "payload": ("embeddings", "token ids", "a row a token", "a row a draft"),
    "answers": ("own", "longest"),
    "prompts": ("uniform", "upper half", "longest"),
    "baseline_length": ("own", "shared"),
    "max_rule": ("longest", "packed", "average"),
    "heuristic": ("first rise", "best size", "doubling", "fewest batches first"),
    "measure": ("less", "more", "means"),
}
"""Allowed words of each field of :class:`Setting` that takes a word. The first is our reading of the paper."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The fields that the search varies. The defaults are those of Table II and the text.

    Attributes
    ----------
    pair, users, longest_input, longest_output, acceptance, memory
        As in :class:`validation.claims.scenarios.cell.Load`.
    longest_draft : int
        l_max.
    draft_rate, draft_start, verify_rate : float
        c₁ and c₂ of the draft stage and c₁ of the verify stage, as multiples of Table II's. If the upload and all four
        constants are scaled by one factor, no saving changes. So c₂ of the verify stage stays fixed.
    upload : float
        Bits uploaded for each Hz of bandwidth, as a multiple of Table II's; 0 leaves the upload out.
    gain_db, exponent : float
        As in :class:`validation.claims.scenarios.cell.Radio`; power and noise enter only through the same quotient.
    payload : str
        The upload for each token of the prompt: its embeddings, its id, or a distribution in FP16. Or such a
        distribution for each draft.
    answers : str
        Every task generates its own O_k tokens, or O_max tokens.
    prompts : str
        I_k is uniform on 1..I_max, on the upper half of it, or I_max.
    padded : bool
        Whether every prompt of a batch is padded to the longest.
    sorted_arrival, printed_objective : bool
        As in :class:`validation.claims.scenarios.cell.Reading`.
    baseline_length : str
        Max and heuristic batching use their own best draft length, or that of the proposed plan.
    max_rule : str
        Max batching takes as many tasks as fit if all had the longest prompt, as fit batch by batch, or as fit if
        all had the mean prompt.
    heuristic : str
        Heuristic batching takes sizes 2, 3, ... up to the first rise of the latency, the best size, 2, 4, 8, ... up
        to the first rise, or 2, 3, ... batches up to the first rise.
    measure : str
        "less": 1 − ours/baseline. "more": baseline/ours − 1. "means": 1 − ours/baseline of the mean latencies. The
        maximum over the runs is excluded, because it grows with the number of runs.
    """

    pair: int = 1
    users: int = 100
    longest_input: int = LONGEST_INPUT
    longest_output: int = LONGEST_OUTPUT
    acceptance: float = 0.8
    memory: float = MEMORY
    longest_draft: int = MAX_DRAFT_LENGTH
    draft_rate: float = 1.0
    draft_start: float = 1.0
    verify_rate: float = 1.0
    upload: float = 1.0
    gain_db: float = Radio().reference_gain_db
    exponent: float = Radio().exponent
    payload: str = "embeddings"
    answers: str = "own"
    prompts: str = "uniform"
    padded: bool = True
    sorted_arrival: bool = False
    printed_objective: bool = False
    baseline_length: str = "own"
    max_rule: str = "longest"
    heuristic: str = "first rise"
    measure: str = "less"

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise DomainError(f"{name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}")
        for name in ("draft_rate", "draft_start", "verify_rate"):
            if not 0.0 < getattr(self, name) < np.inf:
                raise DomainError(f"{name} must be above 0 and finite; got {getattr(self, name)!r}; 1 is Table II's")
        if not 0.0 <= self.upload < np.inf:
            raise DomainError(f"upload must be 0 or more and finite; got {self.upload!r}; 1 is Table II's")
        for name in ("users", "longest_input", "longest_output", "longest_draft"):
            if getattr(self, name) < 1:
                raise DomainError(f"{name} must be 1 or more; got {getattr(self, name)!r}")

    @property
    def service(self) -> Service:
        """Return the two models on their machines."""
        edge = Device(EDGE.c1 * self.draft_rate, EDGE.c2 * self.draft_start)
        cloud = Device(CLOUD.c1 * self.verify_rate, CLOUD.c2)
        return Service(*PAIRS[self.pair], edge, cloud, self.acceptance, self.memory)

    @property
    def changes(self) -> tuple[str, ...]:
        """Return the differences from Table II and the text, in words."""
        differing = [one.name for one in fields(self) if getattr(self, one.name) != one.default]
        return tuple(_WORDS[name](getattr(self, name)) for name in differing)


_WORDS: dict[str, Any] = {
    "pair": ("models of 68M and 7B", "models of 1.1B and 7B", "models of 1.1B and 13B").__getitem__,
    "users": "K = {}".format,
    "longest_input": "I_max = {}".format,
    "longest_output": "O_max = {}".format,
    "acceptance": "α = {:.3g}".format,
    "memory": lambda value: f"Γ_s = {value / 1e9:.3g} GB",
    "longest_draft": "l_max = {}".format,
    "draft_rate": "{:.3g} c₁ of the draft stage".format,
    "draft_start": "{:.3g} c₂ of the draft stage".format,
    "verify_rate": "{:.3g} c₁ of the verify stage".format,
    "upload": lambda value: f"{value:.3g} times the bits per Hz" if value else "upload not counted",
    "gain_db": lambda value: f"g₀ = {value:.3g} dB".replace("-", "−"),
    "exponent": "path loss exponent {:.3g}".format,
    "payload": {
        "token ids": "token ids uploaded, 15 bits a token",
        "a row a token": "a row of 32,000 FP16 probabilities uploaded a token of the prompt",
        "a row a draft": "a row of 32,000 FP16 probabilities uploaded a draft",
    }.__getitem__,
    "answers": {"longest": "every answer of O_max tokens"}.__getitem__,
    "prompts": {"upper half": "prompts of I_max/2 to I_max", "longest": "every prompt of I_max tokens"}.__getitem__,
    "padded": {False: "no padding"}.__getitem__,
    "sorted_arrival": {True: "baselines also sort the tasks by prompt length"}.__getitem__,
    "printed_objective": {True: "batches by (29) as printed"}.__getitem__,
    "baseline_length": {"shared": "baselines use the draft length of Algorithm 1"}.__getitem__,
    "max_rule": {
        "packed": "max batching fills batch by batch",
        "average": "max batching by the mean prompt",
    }.__getitem__,
    "heuristic": {
        "best size": "heuristic batching tries every size",
        "doubling": "heuristic batching doubles its size",
        "fewest batches first": "heuristic batching starts with two batches",
    }.__getitem__,
    "measure": {
        "more": "percentages as shares of ours",
        "means": "percentages of the mean latencies",
    }.__getitem__,
}


def setting_of(saving: Saving, setting: Setting) -> Setting:
    """Return the setting with the one field that the figure varies."""
    field, value = saving.changed
    return replace(setting, **{field: value})  # type: ignore[arg-type]


def percentages(
    setting: Setting, goals: Sequence[Saving], seed: int, runs: int, *, nodes: int | None = NODES
) -> tuple[Row, Row]:
    """Return the savings at a setting for each goal, on average and in each run.

    Parameters
    ----------
    setting : Setting
    goals : sequence of Saving
    seed, runs : int
        Select the draws of the users; they are the same for every setting.
    nodes : int, optional
        Decoding steps that represent all steps in a plan; None for every step.

    Returns
    -------
    value, single : array, shapes (goals,) and (goals, runs)
        In percent.

    Raises
    ------
    ValueError
        If the memory cannot hold the longest task.
    """
    both = [
        [_latencies(setting_of(goal, setting), goal.baseline, seed, run, nodes) for run in range(runs)]
        for goal in goals
    ]
    baseline, ours = np.moveaxis(np.asarray(both), -1, 0)
    single = 100.0 * (baseline / ours - 1.0 if setting.measure == "more" else 1.0 - ours / baseline)
    if setting.measure == "means":
        return 100.0 * (1.0 - ours.mean(axis=1) / baseline.mean(axis=1)), single
    return single.mean(axis=1), single


# -------------------------------------------------------------------------------------------------- total latency


def _latencies(setting: Setting, baseline: str, seed: int, run: int, nodes: int | None) -> tuple[float, float]:
    """Return T of the baseline and of ours (s)."""
    radio_free = replace(setting, **_RADIO)
    ours, drafts = _serve(_of_ours(radio_free), "proposed", seed, run, nodes)
    best, equal = (time * setting.upload for time in _uploads(setting, drafts, seed, run))
    if baseline == "equal":
        return tuple(ours + time * Radio().bandwidth_hz / BANDWIDTH_HZ for time in (equal, best))  # type: ignore[return-value]
    free = _of_ours(radio_free) if baseline == "sequential" else radio_free
    return _serve(free, baseline, seed, run, nodes)[0] + best, ours + best


_RADIO: dict[str, Any] = {
    one.name: one.default
    for one in fields(Setting)
    if one.name in ("upload", "gain_db", "exponent", "payload", "measure")
}


def _of_ours(setting: Setting) -> Setting:
    """Return the setting without the fields that only baselines depend on."""
    return replace(setting, baseline_length="own", max_rule="longest", heuristic="first rise")


def _users(setting: Setting, seed: int, run: int) -> Users:
    users = draw_users(seed, run, Load(setting.users, setting.longest_input, setting.longest_output))
    if setting.prompts == "uniform":
        return users
    shortest = setting.longest_input if setting.prompts == "longest" else setting.longest_input // 2
    stretched = shortest + users.inputs * (setting.longest_input - shortest) // setting.longest_input
    return replace(users, inputs=np.maximum(stretched, 1))


def _uploads(setting: Setting, drafts: float, seed: int, run: int) -> tuple[float, float]:
    """Return T_com with the best and with equal shares at 20 MHz (s)."""
    row = 16.0 * VOCABULARY
    if setting.payload == "a row a draft":
        unit, bits = 1, row * drafts
    else:
        embedding = float(upload_bits(*PAIRS[setting.pair], 1))
        unit, bits = 0, {"embeddings": embedding, "token ids": 15.0, "a row a token": row}[setting.payload]
    place = (setting.users, setting.longest_input, setting.prompts, setting.gain_db, setting.exponent)
    best, equal = _unit_uploads(*place, seed, run)[unit]
    return best * bits, equal * bits


@lru_cache(maxsize=100_000)
def _unit_uploads(
    users: int, longest_input: int, prompts: str, gain_db: float, exponent: float, seed: int, run: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """:func:`upload_times` of one bit a token, and of one bit a user."""
    drawn = _users(Setting(users=users, longest_input=longest_input, prompts=prompts), seed, run)
    efficiency = spectral_efficiency(drawn, Radio(gain_db, exponent))
    prompt = drawn.inputs.astype(np.float64)
    by_token, by_user = (
        upload_times(bits, efficiency, Radio().bandwidth_hz) for bits in (prompt, np.ones_like(prompt))
    )
    return by_token, by_user


@lru_cache(maxsize=20_000)
def _serve(setting: Setting, scheme: str, seed: int, run: int, nodes: int | None) -> tuple[float, float]:
    """T_inf of a scheme for the true answer lengths (s), and the drafts of a task, l ⌈O_max/L⌉."""
    tasks = _tasks(setting, seed, run, nodes)
    batches, length = _proposed(_of_ours(setting), seed, run, nodes)
    if scheme in ("max", "heuristic"):
        found = tasks.largest() if scheme == "max" else tasks.grown()
        best = length - 1 if setting.baseline_length == "shared" else int(np.argmin([latency for _, latency in found]))
        batches, length = found[best][0], best + 1
    drafts = length * int(decoding_steps(setting.longest_output, setting.acceptance, length))
    return tasks.served(batches, length, overlap=scheme != "sequential"), float(drafts)


@lru_cache(maxsize=20_000)
def _proposed(setting: Setting, seed: int, run: int, nodes: int | None) -> tuple[Batches, int]:
    return _tasks(setting, seed, run, nodes).proposed()


def _tasks(setting: Setting, seed: int, run: int, nodes: int | None) -> _Tasks:
    users = _users(setting, seed, run)
    order = np.argsort(users.inputs, kind="stable") if setting.sorted_arrival else np.arange(setting.users)
    outputs = users.outputs[order] if setting.answers == "own" else np.full(setting.users, setting.longest_output)
    return _Tasks(users.inputs[order], outputs, setting, nodes)


# -------------------------------------------------------------------------------------------------------- batches


class _Tasks:
    """The tasks of one run in order of arrival, and the latency of batches at draft lengths 1..l_max."""

    def __init__(self, inputs: Row, outputs: Row, setting: Setting, nodes: int | None) -> None:
        self.inputs, self.outputs, self.count = inputs, outputs, len(inputs)
        self.setting, self.service = setting, setting.service
        self.lengths = np.arange(1, setting.longest_draft + 1)
        steps = decoding_steps(setting.longest_output, setting.acceptance, self.lengths)
        self.nodes, self.weights = standing_steps(steps, nodes)
        weights = float(peak_memory(self.service.draft, 0, 0, 0))
        token = float(peak_memory(self.service.draft, 1, 0, 1)) - weights
        self.capacity = (setting.memory - weights) / token  # capacity of the cache in tokens

    def fits(self, longest: float) -> int:
        """Number of tasks with this prompt length and O_max output tokens that fit in memory, (24b)."""
        count = int(self.capacity / (longest + self.setting.longest_output) * (1.0 + 1e-12))
        if count < 1:
            raise DomainError(f"memory must hold the longest task; got {self.setting.memory:.4g} bytes; give more")
        return count

    def _stages(self, batches: Batches, lengths: Row) -> tuple[Row, Row]:
        """(prefill, base, slope) of both stages, shapes (lengths, batches, 3)."""
        sizes = np.asarray([len(batch) for batch in batches])
        if self.setting.padded:
            longest = np.asarray([self.inputs[batch].max() for batch in batches])
            return stage_times(self.service, lengths[:, None], longest, sizes)
        prompts, starts = self.inputs[np.concatenate(batches)], np.cumsum(sizes) - sizes
        one, two = (stage_times(self.service, lengths[:, None], prompts, size) for size in (1, 2))
        draft, verify = (
            np.add.reduceat(b - a, starts, axis=1) + (2.0 * a - b)[:, :1] for a, b in zip(one, two, strict=True)
        )
        return draft, verify

    def planned(self, batches: Batches) -> Row:
        """T_inf if every answer has O_max tokens, shape (lengths,)."""
        draft, verify = (_at(stage, self.nodes[:, None]) for stage in self._stages(batches, self.lengths))
        return np.asarray(np.sum(_makespan(draft, verify) * self.weights, axis=1))

    def served(self, batches: Batches, length: int, *, overlap: bool = True) -> float:
        """T_inf for the true answer lengths (s)."""
        answers = [int(self.outputs[batch].max()) for batch in batches]
        steps = decoding_steps(answers, self.setting.acceptance, length)
        n = np.arange(1.0, steps.max() + 1.0)
        active = n <= steps[:, None]
        draft, verify = (active * _at(stage[0], n) for stage in self._stages(batches, np.asarray([length])))
        return float(_makespan(draft, verify).sum() if overlap else draft.sum() + verify.sum())

    def proposed(self) -> tuple[Batches, int]:
        """Batches and draft length by the corrected Algorithm 1: (28), (33)."""
        order = np.argsort(self.inputs, kind="stable")
        choices, values = self._program(order)
        found = [[order[begin:end] for begin, end in _runs(choice)] for choice in choices]
        if self.setting.printed_objective:
            values = np.asarray([self.planned(batches)[k] for k, batches in enumerate(found)])
        best = int(np.argmin(values))
        return found[best], best + 1

    def _program(self, order: Row) -> tuple[Row, Row]:
        """First task of the batch that ends at each task, shape (lengths, K), and planned latency, shape (lengths,)."""
        inputs, count, weights = self.inputs[order], self.count, self.weights
        one, two = (stage_times(self.service, self.lengths[:, None], inputs, size) for size in (1, 2))
        unit = [_at(b - a, self.nodes[:, None]) for a, b in zip(one, two, strict=True)]  # of each task
        fixed = [_at((2.0 * a - b)[:, :1], self.nodes[:, None]) for a, b in zip(one, two, strict=True)]  # of a batch
        total = [np.concatenate([np.zeros_like(time[:, :1]), np.cumsum(time, axis=1)], axis=1) for time in unit]
        rows = np.arange(len(weights))
        arrival, lead = np.zeros((2, len(rows), count + 1, weights.shape[1]))  # F and C - F, as in the library
        choice = np.zeros((len(rows), count), dtype=np.int64)
        for i in range(count):
            starts = np.arange(max(0, i + 1 - self.fits(float(inputs[i]))), i + 1)
            sizes = (i + 1.0 - starts)[:, None]
            draft, verify = (
                (sizes * time[:, i, None] if self.setting.padded else s[:, i + 1, None] - s[:, starts]) + least
                for time, s, least in zip(unit, total, fixed, strict=True)
            )
            ready = lead[:, starts] + draft if self.setting.printed_objective else np.maximum(draft, lead[:, starts])
            latency = np.einsum("lsn,ln->ls", arrival[:, starts] + ready + verify, weights)  # (29), printed or not
            best = len(starts) - 1 - np.argmin(latency[:, ::-1], axis=1)  # the last of equals, as in line 20
            j = choice[:, i] = starts[best]
            arrival[:, i + 1] = arrival[rows, j] + draft[rows, best]  # (31)
            late = np.maximum(draft[rows, best], lead[rows, j])
            lead[:, i + 1] = late + verify[rows, best] - draft[rows, best]  # (32)
        return choice, np.sum((arrival[:, -1] + lead[:, -1]) * weights, axis=1)

    def sized(self, size: int) -> Batches:
        """Batches of this size in order of arrival; smaller where the memory requires it."""
        begin, batches = 0, []
        while begin < self.count:
            end = min(begin + size, self.count)
            while end - begin > self.fits(float(self.inputs[begin:end].max())):
                end -= 1
            batches.append(np.arange(begin, end))
            begin = end
        return batches

    def largest(self) -> list[tuple[Batches, float]]:
        """Max batching and its planned latency at every draft length."""
        prompt = {"longest": self.inputs.max(), "average": self.inputs.mean(), "packed": 0.0}[self.setting.max_rule]
        batches = self.sized(self.count if self.setting.max_rule == "packed" else self.fits(float(prompt)))
        return [(batches, float(latency)) for latency in self.planned(batches)]

    def grown(self) -> list[tuple[Batches, float]]:
        """Heuristic batching and its planned latency at every draft length."""
        rule = self.setting.heuristic
        best: list[tuple[Batches, float]] = [([], np.inf)] * len(self.lengths)
        going = np.ones(len(self.lengths), dtype=bool)
        for size in _sizes(rule, self.count):
            batches = self.sized(size)
            latency = self.planned(batches)
            better = latency <= [least for _, least in best]
            for k in np.flatnonzero(going & better):
                best[k] = (batches, float(latency[k]))
            going &= better | (rule == "best size")
            if not going.any():
                break
        return best


def _sizes(rule: str, count: int) -> Iterable[int]:
    """Batch sizes in the order in which heuristic batching tries them."""
    if count < 3:
        return (count,)
    if rule == "doubling":
        return [2**k for k in range(1, count.bit_length() + 1)]
    if rule == "fewest batches first":
        return [-(-count // batches) for batches in range(2, count + 1)]
    return range(2, count + 1)


def standing_steps(steps: Row, nodes: int | None) -> tuple[Row, Row]:
    """Decoding steps that represent 1..N, and the number of steps that each represents.

    The first represents itself. The others are the middles of equal parts of 2..N, so that the sum of a linear
    function is exact.

    Parameters
    ----------
    steps : integer array, shape (n,)
        N, 1 or more.
    nodes : int or None
        Number of steps beside the first; None, or more than N − 1, for all.

    Returns
    -------
    at, weight : array, shape (n, 1 + nodes)
        Weights beyond N are 0.

    Examples
    --------
    >>> at, weight = standing_steps(np.array([7]), 2)
    >>> at.tolist(), weight.tolist()
    ([[1.0, 3.0, 6.0]], [[1.0, 3.0, 3.0]])
    """
    parts = int(steps.max()) - 1 if nodes is None else nodes
    at, weight = np.ones((len(steps), parts + 1)), np.zeros((len(steps), parts + 1))
    weight[:, 0] = 1.0
    for k, rest in enumerate(steps - 1):
        used = min(parts, int(rest))
        share = rest / max(used, 1)
        at[k, 1 : used + 1] = 1.5 + (np.arange(used) + 0.5) * share
        weight[k, 1 : used + 1] = share
    return at, weight


def _at(stage: Row, n: Row) -> Row:
    """Times of stages (..., 3) at the steps n, shape (..., steps)."""
    return np.where(n == 1.0, stage[..., :1], stage[..., 1:2] + stage[..., 2:] * (n - 1.0))


def _makespan(draft: Row, verify: Row) -> Row:
    """C_M of (20) as the longest path, batches on the last axis but one."""
    arrival = np.cumsum(draft, axis=-2)
    left = np.cumsum(verify[..., ::-1, :], axis=-2)[..., ::-1, :]
    return np.asarray((arrival + left).max(axis=-2))


def _runs(choice: Row) -> list[tuple[int, int]]:
    """First and last-plus-one task of each batch: the backtrack i ← S[i] - 1."""
    found, end = [], len(choice)
    while end > 0:
        found.append((int(choice[end - 1]), end))
        end = found[-1][0]
    return found[::-1]
