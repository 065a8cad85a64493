"""Controller that spends a budget of dropped mass: the mean dropped mass meets its target at every position.

The dropped mass of a support is known before anything is sent. So a controller can keep the sum Σ d_n ≤ εT exactly, for
every T and every sequence of distributions, where the threshold of c-sqs (8) keeps it up to a regret (9).

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
ε          ``epsilon``, what each position adds            1         (...)
b_n        ``saved``, what is left after position n        1         (...)
B          ``limit``, most that one position may drop       1         (...)
a_n        ``allowance``, min(b_{n-1} + ε, B)              1         (...)
K_n        tokens of the support                           1         (...)
========== =============================================== ========= ===========

Position n drops d_n ≤ a_n, and b_n = a_n - d_n, with b_0 = 0. Without a limit a_n = εn - Σ_{i<n} d_i. One position may
then drop all that peaked distributions before it have saved; a limit bounds this (:func:`mass_budget_bound`).
"""

from __future__ import annotations

from typing import Any

from hlmtheory._array import Array, arrays, in_kind, is_array, running
from hlmtheory._domains import COUNT, DomainError, finite_answer, leading_dimensions
from hlmtheory._quantities import not_negative, open_unit, positive, whole_from_one
from hlmtheory._simplex import distributions
from hlmtheory.conformal.controller import Run, dropped, ran, resumed, threshold_support

DOMAINS = {
    "epsilon": open_unit("ε is the limit of the mean dropped mass, such as 0.0005"),
    "limit": positive("B is the most that one position may drop, such as 10 ε; None for no limit"),
    "allowance": not_negative("give the most mass that may be dropped; 0 drops only tokens of probability 0"),
    "steps": whole_from_one("T counts positions"),
    "first": whole_from_one("positions are counted from 1"),
}


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


class MassBudgetController:
    """Budget of dropped mass: one step per drafted token, and a rollback after the server has verified a batch.

    For every T and every sequence of rows, Σ_{n≤T} d_n ≤ εT, up to the rounding of float64 sums. There is no learning
    rate, and no first threshold to choose.

    Parameters
    ----------
    epsilon : array, shape (...)
        ε in (0, 1), the limit of the mean dropped mass.
    limit : array, shape (...), optional
        B > 0, the most that one position may drop. Savings above B are lost. None for no limit. Plain numbers are
        converted to the array library and device of the first draft.

    Attributes
    ----------
    saved : array, shape (...)
        The part of the budget that is left.
    allowance : array, shape (...)
        The most mass that the next step drops.

    Raises
    ------
    ValueError
        If ε is outside (0, 1) or B is not positive.

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

    def __init__(self, epsilon: Array, limit: Array | None = None) -> None:
        most = float("inf") if limit is None else limit
        xp, target, most = arrays("epsilon", "limit", epsilon=epsilon, limit=most)
        DOMAINS["epsilon"].check(xp, "epsilon", target)
        if limit is not None:
            DOMAINS["limit"].check(xp, "limit", most)
        leading_dimensions(epsilon=tuple(target.shape), limit=tuple(most.shape))
        self._epsilon, self._limit = (in_kind(xp, value, xp.float64) for value in (target, most))
        self._history = [0.0 * self._epsilon + xp.zeros_like(self._limit)]
        self._plain = not (is_array(epsilon) or is_array(limit))

    @property
    def saved(self) -> Array:
        """Return b, the part of the budget that is left."""
        return self._history[-1]

    @property
    def allowance(self) -> Array:
        """Return a = min(b + ε, B), the most mass that the next step drops."""
        xp, saved, target, most = arrays(saved=self.saved, epsilon=self._epsilon, limit=self._limit)
        return xp.minimum(saved + target, most)

    def step(self, draft: Array, threshold: Array | None = None) -> Array:
        """Return the smallest support of a row (..., V) within the allowance, and take what it drops from the budget.

        Tokens with q ≥ ``threshold`` are kept even if the budget would allow dropping them, so it is saved for later
        positions. The guarantee holds for any threshold, even if it changes. With None the budget is spent at once.
        """
        if self._plain and is_array(draft):
            self._join(draft)
        xp, draft, allowance = arrays("allowance", draft=draft, allowance=self.allowance)
        _, _, q = distributions(draft=draft)
        leading_dimensions(draft=tuple(q.shape[:-1]), epsilon=tuple(allowance.shape))
        support = _smallest(xp, q, allowance)
        if threshold is not None:
            support = support | threshold_support(q, threshold)
        self._history.append(allowance - dropped(xp, q, support))
        return support

    def run(self, drafts: Array) -> Run:
        """Step over the rows (..., T, V) of several tokens; ``level`` is the part of the budget that is left."""
        return ran(self, drafts)

    def _join(self, draft: Array) -> None:
        """Convert settings that were given as plain numbers to the library and the device of a row."""
        xp, _ = arrays(draft=draft)
        plain = (self._epsilon, self._limit, *self._history)
        joined = [xp.asarray(value.tolist(), dtype=xp.float64, device=draft.device) for value in plain]
        self._epsilon, self._limit, *self._history = joined
        self._plain = False

    def roll_back(self, accepted: Array) -> Array:
        """End a batch of drafts: keep the steps of the accepted drafts and of the rejected one, undo the others.

        The token at the rejected position is resampled and stays in the text, so its dropped mass counts.
        """
        made = len(self._history) - 1
        xp, _, count = arrays(saved=self.saved, accepted=accepted)
        count = COUNT.check(xp, "accepted", count)
        if bool(xp.any(count > made)):
            raise DomainError(f"accepted must be at most {made}, the steps of this batch; got {count}; step first")
        self._history = [resumed(xp, self._history, count, printed=False)]
        return self.saved


@finite_answer
def mass_budget_bound(epsilon: Array, steps: Array, first: Array = 1, limit: Array | None = None) -> Array:
    """Return the bound min(B, εs) + ε(T - 1) on the dropped mass of T consecutive positions from position s on.

    Reached if the positions before s drop nothing. Without a limit one position may drop up to εs.
    """
    given = {"epsilon": epsilon, "steps": steps, "first": first} | ({} if limit is None else {"limit": limit})
    xp, *values = arrays("epsilon", "limit", **given)
    named = {name: DOMAINS[name].check(xp, name, value) for name, value in zip(given, values, strict=True)}
    leading_dimensions(**{name: tuple(value.shape) for name, value in named.items()})
    target, count, start, *rest = (in_kind(xp, value, xp.float64) for value in named.values())
    most = xp.minimum(target * start, rest[0]) if rest else target * start
    return most + target * (count - 1.0)
