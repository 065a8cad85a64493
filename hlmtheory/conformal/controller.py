"""The two controllers of a support and the guarantee of each, in the notation of :mod:`hlmtheory.conformal`."""

from dataclasses import dataclass
from typing import Any

from hlmtheory._array import Array, arrays, in_kind, is_array, running
from hlmtheory._domains import COUNT, Domain, DomainError, finite_answer, flag, leading_dimensions
from hlmtheory._quantities import not_negative, open_unit, positive, whole_from_one
from hlmtheory._simplex import distributions

DOMAINS = {
    "epsilon": open_unit("ε is the target of the mean dropped mass, such as 0.0005"),
    "learning_rate": positive("η is how far a dropped mass of 1 lowers the threshold, such as 0.001"),
    "threshold": Domain("finite", lambda xp, value: xp.isfinite(value), "give a probability; 0 keeps every token"),
    "learning_scale": positive("give c of η = c/√T"),
    "target_scale": positive("give d of ε = d/√T"),
    "allowance": not_negative("give the most mass that may be dropped; 0 drops only tokens of probability 0"),
}
_STEPS = whole_from_one("T counts positions")


def setting(epsilon: Array, learning_rate: Array, threshold: Array, **more: Array) -> tuple[Any, ...]:
    """Return the namespace and ε, η, τ_1 and ``more`` in float64, each checked."""
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


def smallest_support(draft: Array, allowance: Array) -> Array:
    """Return the smallest support whose dropped mass is at most an allowance; it always holds the top token.

    Of equal tokens, those with the lowest index; no support with fewer tokens meets the allowance.
    """
    xp, draft, allowance = arrays("allowance", draft=draft, allowance=allowance)
    _, _, q = distributions(draft=draft)
    most = in_kind(xp, DOMAINS["allowance"].check(xp, "allowance", allowance), xp.float64)
    leading_dimensions(draft=tuple(q.shape[:-1]), allowance=tuple(most.shape))
    return _smallest(xp, q, most)


def _smallest(xp: Any, q: Array, allowance: Array) -> Array:
    """Return the smallest support; a negative allowance, which only rounding can cause, drops nothing."""
    order = xp.argsort(q, axis=-1, descending=True, stable=True)
    rank = xp.argsort(order, axis=-1)
    mass = running(xp, xp.sort(q, axis=-1))  # of the 1, 2, ... least probable tokens
    fewer = xp.count_nonzero(mass <= allowance[..., None], axis=-1)
    return (rank < q.shape[-1] - fewer[..., None]) | (rank == 0)


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a controller over rows (..., T, V): supports, their dropped mass (..., T), and levels (..., T + 1).

    The level is τ of a :class:`ThresholdController`, or what is left of the budget, before each step and at the end.
    """

    support: Array
    dropped: Array
    level: Array


class _Controller:
    """A level that the row of each drafted token moves, rolled back after the server has verified a batch."""

    _settings: tuple[Array, ...]
    _history: list[Array]
    _plain: bool

    def _start(self, level: Array, *settings: Array, given: tuple[Any, ...]) -> None:
        self._history, self._settings, self._plain = [level], settings, not any(map(is_array, given))

    def _level_and_row(self, draft: Array) -> tuple[Any, Array, Array]:
        """Return the namespace, the level and the checked row.

        Settings that were given as plain numbers are converted to the library and the device of the first row.
        """
        if self._plain and is_array(draft):
            xp, _ = arrays(draft=draft)
            values = (*self._history, *self._settings)
            joined = [xp.asarray(value.tolist(), dtype=xp.float64, device=draft.device) for value in values]
            count, self._plain = len(self._history), False
            self._history, self._settings = joined[:count], tuple(joined[count:])
        xp, draft, level = arrays(draft=draft, level=self._history[-1])
        return xp, level, distributions(draft=draft)[2]

    def step(self, draft: Array) -> Array:
        """Return the support of a drafted token's row, and move the level."""
        raise NotImplementedError

    def run(self, drafts: Array) -> Run:
        """Step over the rows (..., T, V) of several drafted tokens, and return what the steps did."""
        xp, drafts = arrays(drafts=drafts)
        _, _, rows = distributions(drafts=with_positions(drafts, 1))
        before = len(self._history)
        support = xp.stack([self.step(rows[..., n, :]) for n in range(rows.shape[-2])], axis=-2)
        levels = [xp.broadcast_to(level, support.shape[:-2]) for level in self._history[before - 1 :]]
        return Run(support, dropped(xp, rows, support), xp.stack(levels, axis=-1))

    def _resume(self, accepted: Array, *, printed: bool) -> Array:
        """Return the level after a batch, Algorithm 1, line 12."""
        made = len(self._history) - 1
        xp, level, count = arrays(level=self._history[0], accepted=accepted)
        count = COUNT.check(xp, "accepted", count)
        if bool(xp.any(count > made)):
            raise DomainError(f"accepted must be at most {made}, the steps of this batch; got {count}; step first")
        kept = count if printed else count + 1
        for steps, value in enumerate(self._history[1:], start=1):
            level = xp.where(kept >= steps, value, level)
        self._history = [level]
        return level


class ThresholdController(_Controller):
    """Threshold of C-SQS: one step per drafted token, and a rollback after the server has verified a batch.

    Parameters
    ----------
    epsilon : array, shape (...)
        ε in (0, 1), the target of the mean dropped mass.
    learning_rate : array, shape (...)
        η > 0.
    threshold : array, shape (...)
        τ_1. Plain numbers are converted to the array library and device of the first draft.

    Raises
    ------
    ValueError
        If ε is outside (0, 1), η ≤ 0, or τ_1 is not finite.

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

    def __init__(self, epsilon: Array, learning_rate: Array, threshold: Array = 0.0) -> None:
        _, target, rate, tau = setting(epsilon, learning_rate, threshold)
        self._start(tau, target, rate, given=(epsilon, learning_rate, threshold))

    @property
    def threshold(self) -> Array:
        """Return the τ (...) that the next step uses."""
        return self._history[-1]

    def step(self, draft: Array) -> Array:
        """Return the support {q ≥ τ} of a drafted token's row (..., V), with the top token, and move τ by (8)."""
        xp, tau, q = self._level_and_row(draft)
        support = threshold_support(q, tau)
        target, rate = self._settings
        self._history.append(tau - rate * (dropped(xp, q, support) - target))  # (8)
        return support

    def roll_back(self, accepted: Array, *, printed: bool = False) -> Array:
        """End a batch of drafts: keep the updates of the accepted drafts and of the rejected one, undo the others.

        The token at the rejected position is resampled and stays in the text, so the dropped mass of that position
        counts. Line 12 of Algorithm 1, as ``printed``, τ_{T+1} = τ_T - η(d_T - ε) after T accepted drafts, uses that of
        the last accepted position instead, for which line 8 has already made the update. So the sum in Theorem 1 is not
        controlled (claim ``conformal.resampled``); for T = 0 the threshold stays as it was before the batch.
        """
        return self._resume(accepted, printed=flag("printed", printed))


class MassBudgetController(_Controller):
    """Budget of dropped mass: one step per drafted token, and a rollback after the server has verified a batch.

    The dropped mass of a support is known before anything is sent. So Σ_{n≤T} d_n ≤ εT for every T and every sequence
    of rows, up to the rounding of float64 sums, where the threshold of (8) keeps it up to a regret (9). Position n may
    drop its allowance a_n = b_{n-1} + ε, with b_n = a_n - d_n left in the budget and b_0 = 0.

    Parameters
    ----------
    epsilon : array, shape (...)
        ε in (0, 1), the limit of the mean dropped mass. A plain number is converted to the array library and device of
        the first draft.

    Raises
    ------
    ValueError
        If ε is outside (0, 1).

    Examples
    --------
    >>> controller = MassBudgetController(0.25)
    >>> controller.step([1.0, 0.0, 0.0, 0.0]).tolist(), float(controller.saved)
    ([True, False, False, False], 0.25)
    >>> controller.step([0.25, 0.25, 0.25, 0.25]).tolist(), float(controller.saved)
    ([True, True, False, False], 0.0)
    >>> float(controller.roll_back(0))  # the second draft came too soon: the first was rejected
    0.25
    """

    def __init__(self, epsilon: Array) -> None:
        xp, target = arrays("epsilon", epsilon=epsilon)
        target = in_kind(xp, DOMAINS["epsilon"].check(xp, "epsilon", target), xp.float64)
        self._start(0.0 * target, target, given=(epsilon,))

    @property
    def saved(self) -> Array:
        """Return b, the part of the budget that is left."""
        return self._history[-1]

    @property
    def allowance(self) -> Array:
        """Return a = b + ε, the most mass that the next step drops."""
        return self.saved + self._settings[0]

    def step(self, draft: Array, threshold: Array | None = None) -> Array:
        """Return the smallest support of a row (..., V) within the allowance, and take what it drops from the budget.

        Tokens with q ≥ ``threshold`` are kept even if the budget would allow dropping them, so it is saved for later
        positions. The guarantee holds for any threshold, even if it changes. With None the budget is spent at once.
        """
        xp, saved, q = self._level_and_row(draft)
        allowance = saved + self._settings[0]
        leading_dimensions(draft=tuple(q.shape[:-1]), epsilon=tuple(allowance.shape))
        support = _smallest(xp, q, allowance)
        if threshold is not None:
            support = support | threshold_support(q, threshold)
        self._history.append(allowance - dropped(xp, q, support))
        return support

    def roll_back(self, accepted: Array) -> Array:
        """End a batch of drafts: keep the steps of the accepted drafts and of the rejected one, undo the others.

        The token at the rejected position is resampled and stays in the text, so its dropped mass counts.
        """
        return self._resume(accepted, printed=False)


def with_positions(drafts: Array, axes: int) -> Array:
    """Return rows with at least ``axes`` axes of positions before the vocabulary; raise if one is missing or empty."""
    if drafts.ndim <= axes or 0 in drafts.shape[-axes - 1 :]:
        raise DomainError(
            f"drafts must have {axes + 1} axes, positions and vocabulary; got shape {tuple(drafts.shape)}; "
            "give one row for each position"
        )
    return drafts


def _refuse_low(xp: Any, epsilon: Array, learning_rate: Array, threshold: Array) -> None:
    """Raise if τ_1 < -η(1 - ε), from where the sharp bound can be negative."""
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
def regret_bound_sharp(epsilon: Array, learning_rate: Array, threshold: Array, steps: Array) -> Array:
    """Return the sharp bound on the mean dropped mass, for every η: ε + (τ_1 + η(1 - ε))/(ηT).

    It holds for every V and is reached in the limit V → ∞; at τ_1 = 0 it is ε + (1 - ε)/T, whatever η is.
    """
    xp, target, rate, tau, _ = setting(epsilon, learning_rate, threshold, steps=steps)
    _refuse_low(xp, target, rate, tau)
    return sharp_bound(epsilon, learning_rate, threshold, steps)


def sharp_bound(epsilon: Array, learning_rate: Array, threshold: Array, steps: Array) -> Array:
    """Return the sharp bound without refusing a low τ_1; the claims treat such a τ_1 as out of scope."""
    _, target, rate, tau, count = setting(epsilon, learning_rate, threshold, steps=steps)
    return target + (tau + rate * (1.0 - target)) / (rate * count)
