"""Threshold controller and its guarantees, in the notation of :mod:`hlmtheory.conformal`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hlmtheory._array import Array, arrays, in_kind, is_array
from hlmtheory._domains import COUNT, Domain, DomainError, finite_answer, flag, leading_dimensions
from hlmtheory._quantities import open_unit, positive, whole_from_one
from hlmtheory._simplex import distributions

DOMAINS = {
    "epsilon": open_unit("ε is the target of the mean dropped mass, such as 0.0005"),
    "learning_rate": positive("η is how far a dropped mass of 1 lowers the threshold, such as 0.001"),
    "threshold": Domain("finite", lambda xp, value: xp.isfinite(value), "give a probability; 0 keeps every token"),
    "learning_scale": positive("give c of η = c/√T"),
    "target_scale": positive("give d of ε = d/√T"),
    "vocabulary": whole_from_one("V counts the tokens of a row"),
}
_STEPS = whole_from_one("T counts positions")


def setting(epsilon: Array, learning_rate: Array, threshold: Array, **more: Array) -> tuple[Any, ...]:
    """Return the namespace and ε, η, τ_1 and ``more`` in float64, each checked; the caller refuses a τ_1 too low."""
    xp, *values = arrays(
        "epsilon",
        "learning_rate",
        "threshold",
        epsilon=epsilon,
        learning_rate=learning_rate,
        threshold=threshold,
        **more,
    )
    named = dict(zip(("epsilon", "learning_rate", "threshold", *more), values, strict=True))
    for name, value in named.items():
        DOMAINS.get(name, _STEPS).check(xp, name, value)
    leading_dimensions(**{name: tuple(value.shape) for name, value in named.items()})
    return (xp, *(in_kind(xp, value, xp.float64) for value in named.values()))


def threshold_support(draft: Array, threshold: Array) -> Array:
    """Return the tokens whose probability is at least the threshold, and always the most probable one.

    Parameters
    ----------
    draft : array, shape (..., V)
        Probability rows.
    threshold : array, shape (...)
        τ; at 0 or below every token is kept.

    Returns
    -------
    bool array, shape (..., V)
        c-sqs (6). If no token reaches τ, only the most probable one (of equals, the one with the lowest index).

    Raises
    ------
    ValueError
        If a row is not a distribution or τ is not finite.

    Examples
    --------
    >>> threshold_support([[0.5, 0.125, 0.375]] * 2, [0.25, 0.75]).tolist()
    [[True, False, True], [True, False, False]]
    """
    xp, draft, threshold = arrays("threshold", draft=draft, threshold=threshold)
    _, _, q = distributions(draft=draft)
    tau = in_kind(xp, DOMAINS["threshold"].check(xp, "threshold", threshold), xp.float64)
    leading_dimensions(draft=tuple(q.shape[:-1]), threshold=tuple(tau.shape))
    top = xp.arange(q.shape[-1], device=q.device) == xp.argmax(q, axis=-1, keepdims=True)
    return (q >= tau[..., None]) | top  # (6)


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a controller over rows (..., T, V): supports, their dropped mass (..., T), and levels (..., T + 1).

    The level is τ of a :class:`ThresholdController`, or what is left of the budget, before each step and after the
    last.
    """

    support: Array
    dropped: Array
    level: Array


class ThresholdController:
    """Threshold of C-SQS: one step per drafted token, and a rollback after the server has verified a batch.

    Parameters
    ----------
    epsilon : array, shape (...)
        ε in (0, 1), the target of the mean dropped mass.
    learning_rate : array, shape (...)
        η > 0.
    threshold : array, shape (...)
        τ_1 ≥ -η(1 - ε). Plain numbers are converted to the array library and device of the first draft.
    clip : bool
        Whether τ is lowered to the row's largest probability before it is used (anti-windup).

    Attributes
    ----------
    threshold : array, shape (...)
        The τ that the next step uses.

    Raises
    ------
    ValueError
        If ε is outside (0, 1), η ≤ 0, or τ_1 < -η(1 - ε).

    Examples
    --------
    >>> controller = ThresholdController(0.25, 0.5, 0.25)
    >>> controller.step([0.5, 0.25, 0.125, 0.125]).tolist(), float(controller.threshold)
    ([True, True, False, False], 0.25)
    >>> controller.step([0.125] * 8).tolist(), float(controller.threshold)
    ([True, False, False, False, False, False, False, False], -0.0625)
    >>> float(controller.roll_back(0))  # both drafts came too soon: the first was rejected
    0.25
    """

    def __init__(self, epsilon: Array, learning_rate: Array, threshold: Array = 0.0, *, clip: bool = False) -> None:
        xp, target, rate, tau = setting(epsilon, learning_rate, threshold)
        _refuse_low(xp, target, rate, tau)
        self._epsilon, self._rate, self._clip = target, rate, flag("clip", clip)
        self._history = [tau]
        self._plain = not any(map(is_array, (epsilon, learning_rate, threshold)))

    @property
    def threshold(self) -> Array:
        """Return the τ that the next step uses, before a clip."""
        return self._history[-1]

    def step(self, draft: Array) -> Array:
        """Return the support {q ≥ τ} of a drafted token's row (..., V), with the top token, and move τ by (8)."""
        if self._plain and is_array(draft):
            self._join(draft)
        xp, draft, tau = arrays(draft=draft, threshold=self.threshold)
        _, _, q = distributions(draft=draft)
        if self._clip:
            tau = xp.minimum(tau, xp.max(q, axis=-1))
        support = threshold_support(q, tau)
        self._history.append(tau - self._rate * (dropped(xp, q, support) - self._epsilon))  # (8)
        return support

    def run(self, drafts: Array) -> Run:
        """Step over the rows (..., T, V) of several drafted tokens, and return what the steps did."""
        return ran(self, drafts)

    def _join(self, draft: Array) -> None:
        """Convert settings that were given as plain numbers to the library and the device of a row."""
        xp, _ = arrays(draft=draft)
        plain = (self._epsilon, self._rate, *self._history)
        joined = [xp.asarray(value.tolist(), dtype=xp.float64, device=draft.device) for value in plain]
        self._epsilon, self._rate, *self._history = joined
        self._plain = False

    def roll_back(self, accepted: Array, *, printed: bool = False) -> Array:
        """End a batch of drafts: keep the updates of the accepted drafts and of the rejected one, undo the others.

        The token at the rejected position is resampled and stays in the text, so the dropped mass of that position
        counts. Line 12 of Algorithm 1, as ``printed``, τ_{T+1} = τ_T - η(d_T - ε) after T accepted drafts, uses that of
        the last accepted position instead, for which line 8 has already made the update. So the sum in Theorem 1 is not
        controlled (claim ``conformal.resampled``); for T = 0 the threshold stays as it was before the batch.
        """
        made = len(self._history) - 1
        xp, _, count = arrays(threshold=self.threshold, accepted=accepted)
        count = COUNT.check(xp, "accepted", count)
        if bool(xp.any(count > made)):
            raise DomainError(f"accepted must be at most {made}, the steps of this batch; got {count}; step first")
        self._history = [resumed(xp, self._history, count, printed=flag("printed", printed))]
        return self.threshold


def ran(controller: Any, drafts: Array) -> Run:
    """Step a controller over rows (..., T, V)."""
    xp, drafts = arrays(drafts=drafts)
    _, _, rows = distributions(drafts=with_positions(drafts, 1))
    before = len(controller._history)
    support = xp.stack([controller.step(rows[..., n, :]) for n in range(rows.shape[-2])], axis=-2)
    levels = [xp.broadcast_to(level, support.shape[:-2]) for level in controller._history[before - 1 :]]
    return Run(support, dropped(xp, rows, support), xp.stack(levels, axis=-1))


def with_positions(drafts: Array, axes: int) -> Array:
    """Return rows with at least ``axes`` axes of positions before the vocabulary; raise if one is missing or empty."""
    if drafts.ndim <= axes or 0 in drafts.shape[-axes - 1 :]:
        raise DomainError(
            f"drafts must have {axes + 1} axes, positions and vocabulary; got shape {tuple(drafts.shape)}; "
            "give one row for each position"
        )
    return drafts


def resumed(xp: Any, thresholds: Sequence[Array], accepted: Array, *, printed: bool) -> Array:
    """Return the threshold after a batch, Algorithm 1, line 12."""
    kept = accepted if printed else accepted + 1
    tau = thresholds[0]
    for steps, value in enumerate(thresholds[1:], start=1):
        tau = xp.where(kept >= steps, value, tau)
    return tau


def _refuse_low(xp: Any, epsilon: Array, learning_rate: Array, threshold: Array) -> None:
    """Raise if τ_1 < -η(1 - ε); a run that starts at 0 or above never goes lower."""
    if not bool(xp.all(threshold >= -learning_rate * (1.0 - epsilon))):
        raise DomainError(
            f"threshold must be at least -η(1 - ε); got {threshold} with η = {learning_rate}, ε = {epsilon}; "
            "start at 0, which keeps every token"
        )


def dropped(xp: Any, q: Array, support: Array) -> Array:
    """Return the dropped mass d: the probability outside the support."""
    return xp.sum(xp.where(support, 0.0, q), axis=-1)


@finite_answer
def regret_bound(epsilon: Array, learning_rate: Array, threshold: Array, steps: Array) -> Array:
    """Return the published bound ε + (|τ_1| + 1 + ηε)/(ηT) on the mean dropped mass; false for large η.

    Parameters
    ----------
    epsilon, learning_rate, threshold : arrays, shape (...)
        ε in (0, 1), η > 0 and τ_1.
    steps : integer array, shape (...)
        T, 1 or more.

    Returns
    -------
    array, shape (...)
        c-sqs (9). Proven where η(1 - 2ε) ≤ 1; vacuous if the bound is 1 or more.

    Raises
    ------
    ValueError
        If ε is outside (0, 1), η ≤ 0, τ_1 is not finite, or T is below 1.

    Examples
    --------
    >>> round(float(regret_bound(0.0005, 0.001, 0.0, 2000)), 4)
    0.5005
    """
    xp, target, rate, tau, count = setting(epsilon, learning_rate, threshold, steps=steps)
    return target + (xp.abs(tau) + 1.0 + rate * target) / (rate * count)  # (9)


@finite_answer
def regret_bound_sharp(
    epsilon: Array, learning_rate: Array, threshold: Array, steps: Array, vocabulary: Array | None = None
) -> Array:
    """Return the sharp bound on the mean dropped mass, for every η: ε + (τ_1 + L)/(ηT).

    For every V, L = η(1 - ε): at τ_1 = 0 the bound is ε + (1 - ε)/T. For one V, L = max(-ηε, η(1 - 1/V - ε) - 1/V),
    since a step drops at most 1 - 1/V, and at most (V - 1) τ at a threshold τ below 1/V; if τ_1 < 0, max(τ_1 + L, -ηε)
    replaces τ_1 + L.
    """
    xp, target, rate, tau, _ = setting(epsilon, learning_rate, threshold, steps=steps)
    _refuse_low(xp, target, rate, tau)
    if vocabulary is None:
        return sharp_bound(epsilon, learning_rate, threshold, steps)
    return _bound_at(epsilon, learning_rate, threshold, steps, vocabulary)


def sharp_bound(epsilon: Array, learning_rate: Array, threshold: Array, steps: Array) -> Array:
    """Return the sharp bound without refusing a low τ_1; the claims treat such a τ_1 as out of scope."""
    _, target, rate, tau, count = setting(epsilon, learning_rate, threshold, steps=steps)
    return target + (tau + rate * (1.0 - target)) / (rate * count)


def _bound_at(epsilon: Array, learning_rate: Array, threshold: Array, steps: Array, vocabulary: Array) -> Array:
    """Return ε + max(τ_1 + L, -ηε)/(ηT) for one V."""
    xp, target, rate, tau, count, size = setting(epsilon, learning_rate, threshold, steps=steps, vocabulary=vocabulary)
    share = 1.0 / size
    below = xp.maximum(-rate * target, rate * (1.0 - share - target) - share)  # L
    return target + xp.maximum(tau + below, -rate * target) / (rate * count)
