"""What a two-stage pipeline of draft and verification costs: memory, operations, run time, latency.

Paper: edge-sd (zhu2025edgesd) (7)-(23). The draft model runs at a small base station, the verify model at a
large one; batches of tasks pass the two like jobs pass two machines, once per decoding step.

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
J, h₁, h₂  ``layers``, ``hidden``, ``feed_forward``        1         scalars
c₁, c₂     ``Device``: run time is c₁ F b + c₂             s/FLOP, s scalars
I_m        ``input_tokens``, longest prompt of the batch   tokens    (...)
O_m        ``output_tokens``, longest answer of the batch  tokens    (...)
b          ``batch_size``                                  tasks     (...)
l          ``draft_length``                                tokens    (...)
α          ``acceptance``                                  1         (...)
L          tokens per decoding step, (7)                   tokens    (...)
n_m        ``steps`` of batch m, (8)                       1         (..., M)
d, v       ``draft_times``, ``verify_times`` at one step   s         (..., M)
========== =============================================== ========= ===========

A *stage* is how a batch's time on one machine depends on the step: the last axis holds (prefill, base,
slope), and the time is the prefill at step 1 and base + slope (n - 1) at step n ≥ 2. It is exact, since the
context grows by L tokens a step and the operations are linear in it. At ``draft_length`` 0 nothing is drafted
and the verify model alone decodes token by token: autoregressive decoding.

Everything here is computed on the host: any array library comes in, numpy goes out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._domains import COUNT, UNIT_INTERVAL, Domain, DomainError
from hlmtheory.claims import Attained, Claim, Origin, Relation, Source
from hlmtheory.verification import expected_tokens

BYTES = 2
"""Bytes of a parameter or of a cached number: FP16."""


def _finite(value: Array) -> Array:
    return np.isfinite(value) & (value >= 0)


POSITIVE_COUNT = Domain("a whole number, 1 or more", lambda xp, v: v >= 1, "give a positive integer", kind="integer")
SECONDS = Domain("finite and 0 or more", lambda xp, v: _finite(v), "give a time, or a coefficient of one")
LENGTH = Domain("finite and 0 or more", lambda xp, v: _finite(v), "give a number of tokens (or operations)")
SWITCH = Domain("0 or 1", lambda xp, v: (v == 0) | (v == 1), "give 1 where a batch is still active", kind="integer")


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder-only model: J blocks of hidden size h₁ with a feed-forward layer of size h₂.

    Parameters
    ----------
    layers, hidden, feed_forward : int
        J, h₁, h₂, each 1 or more; edge-sd Table I.

    Raises
    ------
    ValueError
        If one is no positive integer.
    """

    layers: int
    hidden: int
    feed_forward: int

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "feed_forward"):
            numbers(POSITIVE_COUNT, name, getattr(self, name))

    @property
    def sizes(self) -> tuple[int, int, int]:
        """J, h₁, h₂."""
        return self.layers, self.hidden, self.feed_forward


@dataclass(frozen=True, slots=True)
class Device:
    """A machine on which a forward pass of b tasks takes c₁ F b + c₂ seconds, F operations each.

    Parameters
    ----------
    c1 : float
        Seconds per operation, 0 or more.
    c2 : float
        Seconds per pass, 0 or more; edge-sd Table II.

    Raises
    ------
    ValueError
        If one is negative or not finite.
    """

    c1: float
    c2: float

    def __post_init__(self) -> None:
        for name in ("c1", "c2"):
            numbers(SECONDS, name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class Task:
    """One request: how long its prompt is, and its answer.

    Parameters
    ----------
    input_tokens, output_tokens : int
        I_k and O_k, each 1 or more. Where the answer's length is not known, give the longest allowed, O_max.

    Raises
    ------
    ValueError
        If one is no positive integer.
    """

    input_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        for name in ("input_tokens", "output_tokens"):
            numbers(POSITIVE_COUNT, name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class Service:
    """The two models, the machines they run on, how well they agree, and the draft machine's memory.

    Parameters
    ----------
    draft, verify : ModelShape
    draft_device, verify_device : Device
    acceptance : float
        α in [0, 1].
    memory : float
        Γ_s, bytes of the machine that drafts; above 0, infinite if it never binds.

    Raises
    ------
    ValueError
        If the acceptance is outside [0, 1] or the memory is not positive.
    """

    draft: ModelShape
    verify: ModelShape
    draft_device: Device
    verify_device: Device
    acceptance: float
    memory: float = math.inf

    def __post_init__(self) -> None:
        numbers(UNIT_INTERVAL, "acceptance", self.acceptance)
        if not self.memory > 0:
            raise DomainError(f"memory must be above 0; got {self.memory!r}; give the bytes, or leave it out")


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """What :func:`fit_device` found.

    Attributes
    ----------
    c1, c2 : float
        Least squares; a negative one is no machine, and :attr:`device` refuses it.
    c1_interval, c2_interval : tuple of float
        Confidence intervals under independent errors of one variance.
    r_squared : float
        Share of the variance of the times that the line explains; NaN where the times do not vary.
    confidence : float
    """

    c1: float
    c2: float
    c1_interval: tuple[float, float]
    c2_interval: tuple[float, float]
    r_squared: float
    confidence: float

    @property
    def device(self) -> Device:
        """The machine with the fitted coefficients."""
        return Device(self.c1, self.c2)


def forward_flops(model: ModelShape, new_tokens: Array, cached_tokens: Array = 0) -> Array:
    """Operations of one forward pass for one task.

    Parameters
    ----------
    model : ModelShape
    new_tokens : array, shape (...)
        Tokens that the pass takes, 0 or more.
    cached_tokens : array, shape (...) or broadcastable, default 0
        Tokens whose keys and values are cached; expected lengths, so they need not be whole.

    Returns
    -------
    array, shape (...)
        4 J h₁ t (2 h₁ + h₂ + c + t) for t new and c cached tokens: edge-sd (11) with c = 0, (12) with t = 1,
        (13) and (14) in all their cases.

    Raises
    ------
    ValueError
        If a length is negative or not finite.

    Examples
    --------
    >>> float(forward_flops(ModelShape(1, 2, 3), 5, 10))
    880.0
    """
    return _flops(
        *model.sizes, numbers(LENGTH, "new_tokens", new_tokens), numbers(LENGTH, "cached_tokens", cached_tokens)
    )


def peak_memory(model: ModelShape, input_tokens: Array, output_tokens: Array, batch_size: Array) -> Array:
    """Bytes that a model and the cache of one batch occupy at most.

    Parameters
    ----------
    model : ModelShape
    input_tokens, output_tokens : array, shape (...)
        I_m and O_m, the longest of the batch, 0 or more.
    batch_size : integer array, shape (...)
        b, 0 or more.

    Returns
    -------
    array, shape (...)
        Bytes; edge-sd (9) + (10), the left side of (24b).

    Raises
    ------
    ValueError
        If a length is negative or not finite, or the batch size is no count.

    Examples
    --------
    >>> float(peak_memory(ModelShape(1, 2, 3), 5, 10, 2))
    296.0
    """
    cached = numbers(LENGTH, "input_tokens", input_tokens) + numbers(LENGTH, "output_tokens", output_tokens)
    return _memory(*model.sizes, cached, numbers(COUNT, "batch_size", batch_size))


def run_time(device: Device, flops: Array, batch_size: Array) -> Array:
    """Seconds of one forward pass: c₁ F b + c₂.

    Parameters
    ----------
    device : Device
    flops : array, shape (...)
        F, operations for one task, 0 or more.
    batch_size : integer array, shape (...)
        b, 0 or more.

    Returns
    -------
    array, shape (...)
        Seconds; edge-sd (17).

    Raises
    ------
    ValueError
        If the operations are negative or not finite, or the batch size is no count.

    Examples
    --------
    >>> float(run_time(Device(0.5, 1.0), 4.0, 3))
    7.0
    """
    return device.c1 * numbers(LENGTH, "flops", flops) * numbers(COUNT, "batch_size", batch_size) + device.c2


def decoding_steps(output_tokens: Array, acceptance: Array, draft_length: Array) -> Array:
    """Decoding steps n_m = ⌈O_m / L⌉ until a batch has its tokens.

    Parameters
    ----------
    output_tokens : integer array, shape (...)
        O_m, 1 or more.
    acceptance : array, shape (...)
        α in [0, 1].
    draft_length : integer array, shape (...)
        l ≥ 0.

    Returns
    -------
    integer array, shape (...)
        edge-sd (8) with L of (7). A quotient within 1e-12 (relative) of a whole number counts as that number:
        rounding in L must not add a step.

    Raises
    ------
    ValueError
        If a value is outside its domain.

    Examples
    --------
    >>> decoding_steps([3, 4], 0.5, 1).tolist()
    [2, 3]
    """
    output = numbers(POSITIVE_COUNT, "output_tokens", output_tokens)
    quotient = output / _tokens(acceptance, draft_length)
    return np.ceil(quotient * (1.0 - 1e-12)).astype(np.int64)


def stage_times(service: Service, draft_length: Array, input_tokens: Array, batch_size: Array) -> tuple[Array, Array]:
    """How long drafting and verifying take a batch, at every decoding step.

    Parameters
    ----------
    service : Service
    draft_length : integer array, shape (...)
        l ≥ 0.
    input_tokens, batch_size : integer array, shape (...)
        I_m ≥ 1 and b ≥ 1.

    Returns
    -------
    draft, verify : array, shape (..., 3)
        The two stages (prefill, base, slope) in seconds; see :func:`step_times`. edge-sd (18), (19) with (13),
        (14), summed over the l passes in closed form.

    Raises
    ------
    ValueError
        If a value is outside its domain.

    Examples
    --------
    >>> model, device = ModelShape(1, 1, 1), Device(0.25, 1.0)
    >>> draft, verify = stage_times(Service(model, model, device, device, acceptance=1.0), 1, 2, 1)
    >>> draft.tolist(), verify.tolist()
    ([11.0, 6.0, 2.0], [19.0, 13.0, 4.0])
    """
    length = numbers(COUNT, "draft_length", draft_length)
    prompt = numbers(POSITIVE_COUNT, "input_tokens", input_tokens)
    size = numbers(POSITIVE_COUNT, "batch_size", batch_size)
    sides = (service.draft.sizes, service.verify.sizes)
    coefficients = [(device.c1, device.c2) for device in (service.draft_device, service.verify_device)]
    return _stages(sides, coefficients, _tokens(service.acceptance, length), length, prompt, size)


def step_times(stage: Array, step: Array) -> Array:
    """Time of a stage at given decoding steps.

    Parameters
    ----------
    stage : array, shape (..., 3)
        (prefill, base, slope), seconds, from :func:`stage_times`.
    step : integer array, shape (...) or broadcastable
        n, 1 or more.

    Returns
    -------
    array, shape (...)
        Seconds: the prefill at n = 1, base + slope (n - 1) after.

    Raises
    ------
    ValueError
        If a time is negative, or a step is no positive integer.

    Examples
    --------
    >>> step_times([11.0, 6.0, 2.0], [1, 2, 3]).tolist()
    [11.0, 8.0, 10.0]
    """
    stage, n = numbers(SECONDS, "stage", stage), numbers(POSITIVE_COUNT, "step", step)
    return np.where(n == 1, stage[..., 0], stage[..., 1] + stage[..., 2] * (n - 1))


def pipeline_latency(draft_times: Array, verify_times: Array) -> Array:
    """Time until the last of M batches has passed both stages, at one decoding step.

    Parameters
    ----------
    draft_times, verify_times : array, shape (..., M)
        Seconds, in the order in which the batches are processed. A batch that has all its tokens has times 0.

    Returns
    -------
    array, shape (...)
        C_M of C_m = max(Σ_{i≤m} d_i, C_{m-1}) + v_m, C_0 = 0: edge-sd (20), (21). 0 for no batches.

    Raises
    ------
    ValueError
        If a time is negative or not finite, or the shapes do not agree.

    Examples
    --------
    >>> float(pipeline_latency([2.0, 3.0], [4.0, 1.0]))
    7.0
    """
    return _recurrence(*stage_pair("draft_times", draft_times, "verify_times", verify_times))


def inference_latency(draft_stages: Array, verify_stages: Array, steps: Array) -> Array:
    """Time of all decoding steps together, with batches leaving as soon as they have their tokens.

    Between the prefill, and from one departure to the next, every step's latency is the largest of M lines in n, so
    its sum needs the breakpoints of their envelope and not every step. Where departures are so many that this
    costs more, steps are summed one by one; the two agree (claim ``serving.breakpoints``).

    Parameters
    ----------
    draft_stages, verify_stages : array, shape (..., M, 3)
        Stages (prefill, base, slope) in the order of processing.
    steps : integer array, shape (..., M)
        n_m, 1 or more.

    Returns
    -------
    array, shape (...)
        T_inf in seconds: edge-sd (22).

    Raises
    ------
    ValueError
        If a time is negative or not finite, a step is no positive integer, or the shapes do not agree.

    Examples
    --------
    >>> float(inference_latency([[2.0, 2.0, 0.0], [3.0, 3.0, 0.0]], [[4.0, 4.0, 0.0], [1.0, 1.0, 0.0]], [2, 1]))
    13.0
    """
    draft, verify = stage_pair("draft_stages", draft_stages, "verify_stages", verify_stages)
    n = numbers(POSITIVE_COUNT, "steps", steps)
    shape = np.broadcast_shapes(draft.shape[:-1], n.shape)
    draft, verify = (np.broadcast_to(stage, (*shape, 3)).reshape(-1, shape[-1], 3) for stage in (draft, verify))
    n = np.broadcast_to(n, shape).reshape(-1, shape[-1])
    total = [
        _by_breakpoints(*plan) if _few_breakpoints(plan[2]) else _by_steps(*plan)
        for plan in zip(draft, verify, n, strict=True)
    ]
    return np.asarray(total, dtype=np.float64).reshape(shape[:-1])


def upload_bits(draft: ModelShape, verify: ModelShape, input_tokens: Array) -> Array:
    """Bits of a prompt's embeddings for both models.

    Parameters
    ----------
    draft, verify : ModelShape
    input_tokens : array, shape (...)
        I_k, 0 or more.

    Returns
    -------
    array, shape (...)
        λ I_k with λ = 16 (h₁ of the draft model + h₁ of the verify model): edge-sd below (15). How long they take,
        :func:`hlmtheory.ofdma.finish_times` says.

    Raises
    ------
    ValueError
        If a length is negative or not finite.

    Examples
    --------
    >>> float(upload_bits(ModelShape(2, 768, 3072), ModelShape(32, 4096, 11008), 1))
    77824.0
    """
    return 8.0 * BYTES * (draft.hidden + verify.hidden) * numbers(LENGTH, "input_tokens", input_tokens)


def fit_device(flops: Array, batch_size: Array, seconds: Array, *, confidence: float = 0.95) -> DeviceFit:
    """Coefficients c₁, c₂ of run time = c₁ F b + c₂ from measured passes, by least squares.

    Parameters
    ----------
    flops : array, shape (n,)
        F of each pass, for one task.
    batch_size : integer array, shape (n,) or broadcastable
        b of each pass.
    seconds : array, shape (n,)
        What it took.
    confidence : float, default 0.95
        Of the intervals (Student's t, n - 2 degrees of freedom), inside (0, 1).

    Returns
    -------
    DeviceFit

    Raises
    ------
    ValueError
        If a value is outside its domain, there are fewer than 3 passes, or all have the same F b.

    Examples
    --------
    >>> fit = fit_device([1.0, 2.0, 3.0], 2, [5.0, 9.0, 13.0])
    >>> round(fit.c1, 9), round(fit.c2, 9), fit.r_squared
    (2.0, 1.0, 1.0)
    """
    from scipy.special import stdtrit

    load = numbers(LENGTH, "flops", flops) * numbers(POSITIVE_COUNT, "batch_size", batch_size)
    x, y = np.broadcast_arrays(load, numbers(SECONDS, "seconds", seconds))
    if not 0.0 < confidence < 1.0:
        raise DomainError(f"confidence must be inside (0, 1); got {confidence!r}; 0.95 is usual")
    if x.ndim != 1 or x.size < 3:
        raise DomainError(f"flops must be a row of at least 3 passes; got shape {x.shape}; measure more")
    count, centre = x.size, x.mean()
    spread = float(((x - centre) ** 2).sum())
    if not spread > 0:
        raise DomainError(
            f"flops must vary; got F b = {centre:.6g} in every pass; measure several sizes of batch or prompt"
        )
    c1 = float(((x - centre) * (y - y.mean())).sum()) / spread
    c2 = float(y.mean() - c1 * centre)
    residual = float(((y - c1 * x - c2) ** 2).sum())
    total = float(((y - y.mean()) ** 2).sum())
    error = math.sqrt(residual / (count - 2))
    quantile = float(stdtrit(count - 2, 0.5 + confidence / 2.0))
    half1 = quantile * error / math.sqrt(spread)
    half2 = quantile * error * math.sqrt(1.0 / count + float(centre) ** 2 / spread)
    explained = 1.0 - residual / total if total > 0 else math.nan
    return DeviceFit(c1, c2, (c1 - half1, c1 + half1), (c2 - half2, c2 + half2), explained, confidence)


def numbers(domain: Domain, name: str, value: Any) -> Array:
    """The value as a numpy array of its domain: integers where it asks for them, else float64."""
    xp, array = arrays(value=to_numpy(value))
    if domain.kind != "integer" and not xp.isdtype(array.dtype, "bool"):
        array = xp.astype(array, xp.float64)
    return domain.check(xp, name, array)


def _tokens(acceptance: Array, draft_length: Array) -> Array:
    """L of (7)."""
    return np.asarray(expected_tokens(np.asarray(to_numpy(acceptance), dtype=np.float64), to_numpy(draft_length)))


def _flops(layers: Array, hidden: Array, feed_forward: Array, new: Array, cached: Array) -> Array:
    """(11)-(14) in one: projections 8 t h₁², attention 4 t (c + t) h₁, feed-forward 4 t h₁ h₂, in each block."""
    return 4.0 * layers * hidden * new * (2.0 * hidden + feed_forward + cached + new)


def _memory(layers: Array, hidden: Array, feed_forward: Array, cached: Array, size: Array) -> Array:
    weights = layers * (8.0 * hidden**2 + 4.0 * hidden * feed_forward)  # (9)
    return weights + 4.0 * layers * hidden * cached * size  # (10)


def _stages(models: Any, devices: Any, tokens: Array, length: Array, prompt: Array, size: Array) -> tuple[Array, Array]:
    """Both stages (..., 3); ``models`` holds two times J, h₁, h₂ and ``devices`` two times c₁, c₂."""
    ((j, h, f), (jv, hv, fv)), ((c1, c2), (c1v, c2v)) = models, devices
    k, i, b = (np.asarray(value, dtype=np.float64) for value in (length, prompt, size))
    work, workv = 4.0 * c1 * j * h * b, 4.0 * c1v * jv * hv * b
    inner = k * (k - 1.0) / 2.0  # the drafts of the step that precede each pass, summed
    drafts = np.where(k > 0, (i + k - 1.0) * (2.0 * h + f + i) + inner, 0.0)  # (13), n = 1
    draft = (work * drafts + c2 * k, work * (k * (2.0 * h + f + i) + inner) + c2 * k, work * k * tokens)  # (19)
    verify = (
        workv * (i + k) * (2.0 * hv + fv + i + k) + c2v,  # (14), n = 1; (18)
        workv * (1.0 + k) * (2.0 * hv + fv + i + k) + c2v,
        workv * (1.0 + k) * tokens,
    )
    return np.stack(np.broadcast_arrays(*draft), axis=-1), np.stack(np.broadcast_arrays(*verify), axis=-1)


def stage_pair(name: str, draft: Array, other: str, verify: Array) -> tuple[Array, Array]:
    """Times of the two stages, of one shape."""
    d, v = numbers(SECONDS, name, draft), numbers(SECONDS, other, verify)
    if d.ndim == 0 or d.shape != v.shape:
        raise DomainError(f"{name} must have the shape of {other}, batches on one axis; got {d.shape} and {v.shape}")
    return d, v


def _recurrence(draft: Array, verify: Array) -> Array:
    """C_M of (20), the batches on the last axis."""
    arrival, finish = np.zeros(draft.shape[:-1]), np.zeros(draft.shape[:-1])
    for m in range(draft.shape[-1]):
        arrival = arrival + draft[..., m]
        finish = np.maximum(arrival, finish) + verify[..., m]
    return finish


def _few_breakpoints(steps: Array) -> bool:
    """Whether an envelope of M lines for each departure costs less than the steps: a fit to measured times."""
    batches, longest = steps.size, steps.max(initial=1)
    return bool(len(np.unique(steps)) * (50 + batches**2 / 25) <= 10 + batches * (5 + longest / 60))


def _by_steps(draft: Array, verify: Array, steps: Array) -> float:
    """(22) step by step, for stages (M, 3)."""
    n = np.arange(1, steps.max(initial=0) + 1)[:, None]
    active = n <= steps
    times = (np.where(active, np.where(n == 1, s[:, 0], s[:, 1] + s[:, 2] * (n - 1)), 0.0) for s in (draft, verify))
    return float(_recurrence(*times).sum())


def _by_breakpoints(draft: Array, verify: Array, steps: Array) -> float:
    """(22) as the first step plus, between departures, the sum of an envelope of lines in n - 1."""
    total, first = float(_recurrence(draft[:, 0], verify[:, 0])), 1
    for last in np.unique(steps - 1):
        if last >= first:
            active = steps > last
            lines = _paths(draft[active, 1:], verify[active, 1:])
            total += float(envelope_sum(lines[:, 0], lines[:, 1], first, int(last)))
            first = int(last) + 1
    return total


def _paths(draft: Array, verify: Array) -> Array:
    """Σ_{i≤k} d_i + Σ_{i≥k} v_i for each k: C_M is the longest of these paths."""
    return np.cumsum(draft, axis=0) + np.cumsum(verify[::-1], axis=0)[::-1]


def envelope_sum(base: Array, slope: Array, first: int, last: int) -> Array:
    """Σ_{t=first}^{last} max_k (base_k + slope_k t), lines on the last axis.

    Sorted by slope, line k overtakes an earlier line j from t = ⌈(base_j - base_k) / (slope_k - slope_j)⌉ on; the
    largest at t is the last line that has overtaken all before it. Each t falls to exactly one line, however the
    quotients round.
    """
    order = np.lexsort((base, slope), axis=-1)
    p, q = (np.take_along_axis(value, order, axis=-1) for value in (base, slope))
    lag, gain = p[..., :, None] - p[..., None, :], q[..., None, :] - q[..., :, None]  # of j (rows) and k (columns)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        overtakes = np.where(gain > 0, np.ceil(lag / gain), first)  # equal slopes: sorted by base
    earlier = np.triu(np.ones(p.shape[-1:] * 2, dtype=bool), 1)
    start = np.where(earlier, np.clip(overtakes, first, last + 1), first).max(axis=-2)
    beyond = np.full_like(start[..., :1], last + 1)
    later = np.minimum.accumulate(np.concatenate([start, beyond], axis=-1)[..., ::-1], axis=-1)[..., -2::-1]
    count = np.maximum(later - start, 0.0)
    return (count * p + q * count * (start + later - 1.0) / 2.0).sum(axis=-1)


# --------------------------------------------------------------------------------------------- claims
#
# cost. A product of an a×b and a b×c matrix takes 2abc operations. For t new tokens after c cached ones a block
#   makes t queries, keys and values and projects t outputs (8 t h₁²), compares t queries with c + t keys and mixes as
#   many values (4 t (c + t) h₁), and passes t tokens through h₁ → h₂ → h₁ (4 t h₁ h₂).
# memory. Four h₁×h₁ and two h₁×h₂ matrices a block; one key and one value of size h₁ a token and block; 2 bytes each.
# stages. Pass i of step n ≥ 2 meets I + (n-1) L - 1 + i - 1 cached tokens, (13), and the verification
#   I + (n-1) L - 1, (14): summed over i the times are lines in n.
# pipeline. Unrolled, the recurrence takes the longest of the M paths through the two rows of the schedule: drafts
#   1..k, then verifications k..M.
# departures. With d = v = 0 the recurrence passes C on unchanged: C_{m-1} ≥ Σ_{i<m} d_i.
# breakpoints. Each path of ``pipeline`` is a line in n, so each step's latency is the upper envelope of M lines; the
#   sum of a line over consecutive n is an arithmetic series.


def _product(rows: Array, inner: Array, columns: Array) -> Array:
    """Operations of a matrix product."""
    return 2.0 * rows * inner * columns


def _model(model: Array) -> tuple[Array, Array, Array]:
    shape = numbers(POSITIVE_COUNT, "model", model)
    return shape[..., 0], shape[..., 1], shape[..., 2]


def _counted_flops(model: Array, new_tokens: Array, cached_tokens: Array) -> Array:
    """Matrix by matrix."""
    (layers, hidden, wide), t = _model(model), numbers(LENGTH, "new_tokens", new_tokens)
    context = numbers(LENGTH, "cached_tokens", cached_tokens) + t
    attention = 4 * _product(t, hidden, hidden) + _product(t, hidden, context) + _product(t, context, hidden)
    return layers * (attention + _product(t, hidden, wide) + _product(t, wide, hidden))


def _formula_flops(model: Array, new_tokens: Array, cached_tokens: Array) -> Array:
    new, cached = numbers(LENGTH, "new_tokens", new_tokens), numbers(LENGTH, "cached_tokens", cached_tokens)
    return _flops(*_model(model), new, cached)


def _counted_memory(model: Array, input_tokens: Array, output_tokens: Array, batch_size: Array) -> Array:
    """Matrix by matrix, and token by token of the cache."""
    layers, hidden, wide = _model(model)
    tokens = numbers(POSITIVE_COUNT, "input_tokens", input_tokens) + numbers(
        POSITIVE_COUNT, "output_tokens", output_tokens
    )
    cached = 2 * hidden * tokens * numbers(POSITIVE_COUNT, "batch_size", batch_size)
    return BYTES * layers * (4 * hidden * hidden + hidden * wide + wide * hidden + cached)


def _formula_memory(model: Array, input_tokens: Array, output_tokens: Array, batch_size: Array) -> Array:
    tokens = numbers(POSITIVE_COUNT, "input_tokens", input_tokens) + numbers(
        POSITIVE_COUNT, "output_tokens", output_tokens
    )
    return _memory(*_model(model), tokens, numbers(POSITIVE_COUNT, "batch_size", batch_size))


def _pass_by_pass(
    model: Array,
    device: Array,
    acceptance: Array,
    draft_length: Array,
    input_tokens: Array,
    batch_size: Array,
    step: Array,
) -> Array:
    """Draft plus verification time at one step, (18) + (19), every pass of (13), (14) by itself."""
    shape, (c1, c2) = _model(model), np.moveaxis(numbers(SECONDS, "device", device), -1, 0)
    length, prompt = numbers(COUNT, "draft_length", draft_length), numbers(POSITIVE_COUNT, "input_tokens", input_tokens)
    size, n = numbers(POSITIVE_COUNT, "batch_size", batch_size), numbers(POSITIVE_COUNT, "step", step)
    known = prompt + (n - 1) * _tokens(acceptance, length) - 1.0  # all but the bonus token
    opening = n == 1
    total = np.zeros_like(known)
    for i in range(1, int(length.max(initial=0)) + 1):
        prefill = opening & (i == 1)
        flops = _flops(*shape, np.where(prefill, prompt, 1), np.where(prefill, 0.0, known + i - 1.0))
        total = total + np.where(i <= length, c1 * flops * size + c2, 0.0)
    flops = _flops(*shape, np.where(opening, prompt, 1) + length, np.where(opening, 0.0, known))
    return total + c1 * flops * size + c2


def _in_closed_form(
    model: Array,
    device: Array,
    acceptance: Array,
    draft_length: Array,
    input_tokens: Array,
    batch_size: Array,
    step: Array,
) -> Array:
    """The same from the lines in n."""
    coefficients = tuple(np.moveaxis(numbers(SECONDS, "device", device), -1, 0))
    prompt, size = (
        numbers(POSITIVE_COUNT, "input_tokens", input_tokens),
        numbers(POSITIVE_COUNT, "batch_size", batch_size),
    )
    length, tokens = numbers(COUNT, "draft_length", draft_length), _tokens(acceptance, draft_length)
    draft, verify = _stages([_model(model)] * 2, [coefficients] * 2, tokens, length, prompt, size)
    return step_times(draft, step) + step_times(verify, step)


def _longest_path(draft_times: Array, verify_times: Array) -> Array:
    """max_k Σ_{m≤k} d_m + Σ_{m≥k} v_m."""
    d, v = stage_pair("draft_times", draft_times, "verify_times", verify_times)
    paths = np.cumsum(d, axis=-1) + np.cumsum(v[..., ::-1], axis=-1)[..., ::-1]
    return np.max(paths, axis=-1, initial=0.0)


def _active_only(draft_times: Array, verify_times: Array, active: Array) -> Array:
    """(20), (21) over the batches that are left, problem by problem."""
    d, v = stage_pair("draft_times", draft_times, "verify_times", verify_times)
    present = numbers(SWITCH, "active", active) == 1
    latency = np.empty(d.shape[:-1])
    for place in np.ndindex(latency.shape):
        latency[place] = _recurrence(d[place][present[place]], v[place][present[place]])
    return latency


def _with_zeros(draft_times: Array, verify_times: Array, active: Array) -> Array:
    d, v = stage_pair("draft_times", draft_times, "verify_times", verify_times)
    present = numbers(SWITCH, "active", active)
    return _recurrence(d * present, v * present)


def _steps_summed(draft_stages: Array, verify_stages: Array, steps: Array) -> Array:
    return _summed(_by_steps, draft_stages, verify_stages, steps)


def _breakpoints_summed(draft_stages: Array, verify_stages: Array, steps: Array) -> Array:
    return _summed(_by_breakpoints, draft_stages, verify_stages, steps)


def _summed(method: Callable[[Array, Array, Array], float], draft: Array, verify: Array, steps: Array) -> Array:
    d, v = stage_pair("draft_stages", draft, "verify_stages", verify)
    n = numbers(POSITIVE_COUNT, "steps", steps)
    total = np.empty(n.shape[:-1])
    for place in np.ndindex(total.shape):
        total[place] = method(d[place], v[place], n[place])
    return total


_PAIR = {"draft_times": [2.0, 3.0], "verify_times": [4.0, 1.0]}
_LINES = {"draft_stages": [[5.0, 1.0, 2.0], [3.0, 2.0, 0.0]], "verify_stages": [[1.0, 8.0, 0.0], [2.0, 1.0, 1.0]]}

CLAIMS = (
    Claim(
        id="serving.cost",
        source=Source("zhu2025edgesd", "(11)-(14)"),
        origin=Origin.PUBLISHED,
        statement="operations of all matrix products = 4 J h₁ t (2 h₁ + h₂ + c + t), t tokens after c cached ones",
        relation=Relation.EQ,
        lhs=_counted_flops,
        rhs=_formula_flops,
        attained=Attained({"model": [1, 2, 3], "new_tokens": 5.0, "cached_tokens": 10.0}),
    ),
    Claim(
        id="serving.memory",
        source=Source("zhu2025edgesd", "(9), (10), (24b)"),
        origin=Origin.PUBLISHED,
        statement="bytes of all matrices and of the cache = J (8 h₁² + 4 h₁ h₂) + 4 J h₁ (I + O) b",
        relation=Relation.EQ,
        lhs=_counted_memory,
        rhs=_formula_memory,
        attained=Attained({"model": [1, 2, 3], "input_tokens": 5, "output_tokens": 10, "batch_size": 2}),
    ),
    Claim(
        id="serving.stages",
        source=Source("zhu2025edgesd", "(13), (14), (17)-(19)"),
        origin=Origin.NEW,
        statement="the run times of a step's l + 1 passes sum to a prefill (n = 1) or to a line in n (n ≥ 2)",
        relation=Relation.EQ,
        lhs=_pass_by_pass,
        rhs=_in_closed_form,
        attained=Attained(
            {
                "model": [1, 2, 3],
                "device": [0.5, 1.0],
                "acceptance": 0.5,
                "draft_length": 2,
                "input_tokens": 5,
                "batch_size": 2,
                "step": 3,
            }
        ),
    ),
    Claim(
        id="serving.pipeline",
        source=Source("zhu2025edgesd", "(20), (21)"),
        origin=Origin.PUBLISHED,
        statement="C_m = max(Σ_{i≤m} d_i, C_{m−1}) + v_m gives C_M = max_k (Σ_{i≤k} d_i + Σ_{i≥k} v_i)",
        relation=Relation.EQ,
        lhs=pipeline_latency,
        rhs=_longest_path,
        attained=Attained(_PAIR),
    ),
    Claim(
        id="serving.departures",
        source=Source("zhu2025edgesd", "(8), (21)"),
        origin=Origin.NEW,
        statement="a batch that has left the pipeline is one whose two times are 0",
        relation=Relation.EQ,
        lhs=_active_only,
        rhs=_with_zeros,
        attained=Attained({**_PAIR, "active": [1, 0]}),
    ),
    Claim(
        id="serving.breakpoints",
        source=Source("zhu2025edgesd", "(20)-(22)"),
        origin=Origin.NEW,
        statement="Σ_n C_{n,M_n} step by step = first step + arithmetic series between departures and breakpoints",
        relation=Relation.EQ,
        lhs=_steps_summed,
        rhs=_breakpoints_summed,
        attained=Attained({**_LINES, "steps": [9, 4]}),
    ),
)
