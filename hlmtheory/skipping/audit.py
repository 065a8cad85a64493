"""Audit of skipping while the system runs: the server sees a random share of the drafts that would be skipped.

A token whose draft would be skipped is sent with probability π, drawn by a coin of its own. With
X_t = β · 1{audited}/π, and X_t = 0 at every other token, the mean of X_t given the prefix is the risk
μ_t = Σ_v q_v s_v β_v (:func:`one_step_risk`) of skipping at that token.

With λ = bet/(1/π - ε) and bet in (0, 1), the wealth is M_t = Π_{i ≤ t} (1 + λ(ε - X_i)), averaged over fixed bets.
A wealth of 1/δ certifies that the mean of μ_1, ..., μ_t is below ε: over a whole run, however the risks vary and
whenever one looks, this is wrong at most once with probability δ.
"""

import math
from typing import Any

from hlmtheory._array import Array, arrays, floating, in_kind, is_array, upward, widest
from hlmtheory._betting import SLACK, checked_bets, crossing, down, mean_wealth, running_down
from hlmtheory._domains import UNIT_INTERVAL, Domain, entry_for_each, finite_answer, leading_dimensions, number
from hlmtheory._quantities import open_unit

BETS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
"""Shares of the largest λ that keeps the wealth positive. For losses of 0 or 1 the best one is 1 - μ/ε."""

DOMAINS = {
    "audited_rejection": UNIT_INTERVAL,
    "audit_probability": Domain(
        "in (0, 1]", lambda xp, value: (value > 0) & (value <= 1), "π = 0.1 sends one in ten drafts that would be kept"
    ),
    "risk": open_unit("ε is the mean one-step risk to certify, such as 0.02"),
    "error": open_unit("δ is the probability of a false certificate, such as 0.05"),
    "bets": Domain(
        "in [0.000001, 1)",
        lambda xp, value: (value >= 1e-6) & (value < 1),
        "a bet is a share of the largest λ, such as 0.8",
    ),
}


def audit_wealth(audited_rejection: Array, audit_probability: Array, risk: Array, bets: Array = BETS) -> Array:
    """Return log M_t, rounded down, after each token of losses (..., T); at log(1/δ) or above it certifies the risk.

    A loss is β_d at an audited token, and 0 at every other one. The wealth is the mean over the fixed bets (..., J).
    """
    xp, kind, loss, rate, wanted, shares = _inputs(audited_rejection, audit_probability, bets, risk=risk)
    gains = _gains(xp, loss[..., None], rate[..., None, None], wanted[..., None, None], shares[..., None, :])
    return down(xp, mean_wealth(xp, running_down(xp, gains), (-1,)), kind)


def audit_bound(audited_rejection: Array, audit_probability: Array, error: Array, bets: Array = BETS) -> Array:
    """Return an upper bound on the mean risk after each token (..., T), valid at all of them at once; rounded up.

    The bound on Σ μ is the S at which the mean over the bets of exp(λS) Π (1 - λX_i) is 1/δ, with λ = bet · π.

    Parameters
    ----------
    audited_rejection : array, shape (..., T)
        β_d of an audited token, 0 at every other one.
    audit_probability, error : array, shape (...)
        π in (0, 1], and δ in (0, 1).
    bets : array, shape (..., J)
        In [0.000001, 1), fixed before the run.

    Returns
    -------
    array, shape (..., T)

    Raises
    ------
    ValueError
        If a value is outside its range.
    """
    xp, kind, loss, rate, delta, shares = _inputs(audited_rejection, audit_probability, bets, error=error)
    drops = running_down(xp, _drops(xp, loss[..., None], shares[..., None, :]))
    tokens = xp.arange(1, loss.shape[-1] + 1, dtype=xp.float64, device=loss.device)
    return _mean_bound(xp, drops, shares, rate, delta, tokens, kind)


@finite_answer
def fewest_tokens_to_certify(audit_probability: Array, risk: Array, error: Array) -> Array:
    """Return how many tokens without a loss any test needs to certify the risk: log(1/δ)/(-log(1 - πε)).

    If every risk is ε and every loss 0 or 1, an audit finds nothing in t tokens with probability (1 - πε)^t.
    """
    xp, *given = arrays(
        "audit_probability", "risk", "error", audit_probability=audit_probability, risk=risk, error=error
    )
    named = dict(zip(("audit_probability", "risk", "error"), given, strict=True))
    for name, value in named.items():
        DOMAINS[name].check(xp, name, value)
    leading_dimensions(**{name: tuple(value.shape) for name, value in named.items()})
    rate, wanted, delta = floating(xp, *given)
    return xp.log(delta) / xp.log1p(-rate * wanted)


class SkipAudit:
    """Audit of one or more token streams, token by token: the same numbers as the functions of whole sequences.

    Parameters
    ----------
    audit_probability, risk, error : float
        π in (0, 1], ε and δ in (0, 1).
    bets : array, shape (J,)
        See :func:`audit_wealth`.

    Attributes
    ----------
    tokens : int
        Tokens so far.
    log_wealth, bound : array, shape (...)
        As :func:`audit_wealth` and :func:`audit_bound` give them after the last token.
    certified : bool array, shape (...)
        Whether the mean risk of the tokens so far is certified to be below ε.

    Raises
    ------
    ValueError
        If a value is outside its range.

    Examples
    --------
    >>> audit = SkipAudit(audit_probability=0.5, risk=0.05, error=0.05)
    >>> for _ in range(178):
    ...     _ = audit.update(0.0)
    >>> bool(audit.certified), bool(audit.update(0.0)), audit.tokens
    (False, True, 179)
    """

    def __init__(self, audit_probability: float, risk: float, error: float, bets: Array = BETS) -> None:
        self._rate, self._risk, self._error = (
            number(DOMAINS[name], name, value)
            for name, value in (("audit_probability", audit_probability), ("risk", risk), ("error", error))
        )
        xp, given = arrays(bets=bets)
        given = checked_bets(xp, DOMAINS["bets"], given, one_list=True)
        self._bets: Any = given if is_array(bets) else given.tolist()  # numbers go with arrays of every library
        self.tokens = 0
        self._gain: Any = 0.0
        self._drop: Any = 0.0
        self._kind: Any = None

    def update(self, audited_rejection: Array) -> Array:
        """Take the next token of each stream, β_d (...) if it is audited, else 0; return :attr:`certified`."""
        xp, loss, bets, gain, drop = arrays(
            *("bets", "gain", "drop"),
            audited_rejection=audited_rejection,
            bets=self._bets,
            gain=self._gain,
            drop=self._drop,
        )
        self._kind = widest(xp, DOMAINS["audited_rejection"].check(xp, "audited_rejection", loss))
        loss = in_kind(xp, loss, xp.float64)
        if self.tokens:
            leading_dimensions(audited_rejection=tuple(loss.shape), streams=tuple(gain.shape[:-1]))
        rate, wanted = (xp.asarray(value, dtype=xp.float64, device=loss.device) for value in (self._rate, self._risk))
        self._gain = _added(xp, gain, _gains(xp, loss[..., None], rate, wanted, bets))
        self._drop = _added(xp, drop, _drops(xp, loss[..., None], bets))
        self.tokens += 1
        return self.certified

    @property
    def log_wealth(self) -> Array:
        """Return log M_t, 0 before the first token."""
        if not self.tokens:
            return 0.0
        xp, gain = arrays(gain=self._gain)
        return down(xp, mean_wealth(xp, gain, (-1,)), self._kind)

    @property
    def certified(self) -> Array:
        """Return whether the wealth is at least 1/δ."""
        return self.log_wealth >= -math.log(self._error) * (1.0 + SLACK)

    @property
    def bound(self) -> Array:
        """Return the upper bound on the mean risk of the tokens so far, 1 before the first."""
        if not self.tokens:
            return 1.0
        xp, drop, bets = arrays(drop=self._drop, bets=self._bets)
        settings = (self._rate, self._error, [float(self.tokens)])
        rate, error, tokens = (xp.asarray(value, dtype=xp.float64, device=drop.device) for value in settings)
        return _mean_bound(xp, drop[..., None, :], bets, rate, error, tokens, self._kind)[..., 0]


def _inputs(loss: Array, rate: Array, bets: Array, **other: Array) -> tuple[Any, ...]:
    """Return the namespace, the result dtype, and the losses (..., T), π, the other value, and the bets (..., J)."""
    (name,) = other
    xp, given, pi, level, shares = arrays(
        "audit_probability", name, "bets", audited_rejection=loss, audit_probability=rate, **other, bets=bets
    )
    for label, one in (("audited_rejection", given), ("audit_probability", pi), (name, level)):
        DOMAINS[label].check(xp, label, one)
    shares = checked_bets(xp, DOMAINS["bets"], shares)
    entry_for_each("token", audited_rejection=tuple(given.shape))
    leading_dimensions(
        audited_rejection=tuple(given.shape[:-1]),
        audit_probability=tuple(pi.shape),
        bets=tuple(shares.shape[:-1]),
        **{name: tuple(level.shape)},
    )
    return (xp, widest(xp, given), *(in_kind(xp, one, xp.float64) for one in (given, pi, level)), shares)


def _gains(xp: Any, loss: Array, rate: Array, risk: Array, bets: Array) -> Array:
    """Return log(1 + λ(ε - loss/π)) with λ = bet/(1/π - ε), multiplied out so that nothing is divided by π.

    It rises with πε, so a πε from below and eight roundings make it a lower bound; a loss of 1 leaves 1 - bet.
    """
    even = rate * risk * (1.0 - 2.0**-52)
    change = bets * (even - loss) / (1.0 - even)
    return xp.log1p(xp.maximum(change - 2.0**-50 * xp.abs(change), -bets))


def _drops(xp: Any, loss: Array, bets: Array) -> Array:
    """Return log(1 - bet · loss), from a product that is rounded up."""
    return xp.log1p(-xp.minimum(bets * loss * (1.0 + 2.0**-52), bets))


def _added(xp: Any, before: Array, step: Array) -> Array:
    """Return the sum, less a bound on its rounding and on that of the logarithm."""
    total = before + step
    return total - 2.0**-52 * (xp.abs(total) + 2.0 * xp.abs(step))


def _mean_bound(xp: Any, drops: Array, bets: Array, rate: Array, error: Array, tokens: Array, kind: Any) -> Array:
    """Return S/t with the S of :func:`audit_bound`, from Σ log(1 - bet · loss) (..., T, J), in U = πS."""
    total = crossing(xp, drops, bets[..., None, :], error[..., None]) * (1.0 + SLACK)
    audited = rate[..., None] * tokens
    below = total < audited
    return upward(xp, xp.where(below, total / xp.where(below, audited, 1.0), 1.0), kind)
