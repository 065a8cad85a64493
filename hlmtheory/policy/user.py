"""The best decisions of one user: skip or send, which message at which place, and how many drafts.

Every plan and mixture within the limit has a rate of at most θ + max_K V_K⁺/T_K. The prices come from a linear program
over the decisions seen so far (column generation); without a limit this is Dinkelbach's method.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import COUNT, UNIT_INTERVAL, Domain, DomainError, flag, instance, number, numbers
from hlmtheory._quantities import positive
from hlmtheory.policy.columns import ROUNDS, Column, Mixture, best_mixture, keeps, rate_of, solve
from hlmtheory.policy.costs import Numbers, PlanPart, StageCosts, UserPlan
from hlmtheory.policy.hulls import Hulls, Priced
from hlmtheory.policy.rounds import Prices, Rounds

_WEIGHT = positive("leave out rows without a weight")
_RISK = Domain("0 or more, perhaps infinite", lambda xp, value: value >= 0, "give float('inf') if any risk is allowed")

_WORTH_MIXING = 1e-3
"""How much faster a mixture must be than the best plan of one part."""


def plan_user(
    hulls: Hulls,
    costs: StageCosts,
    acceptances: Array,
    *,
    rejection: Array | None = None,
    weight: Array | None = None,
    risk_limit: float = 0.0,
    draft_lengths: Iterable[int] | None = None,
    skipping: bool = True,
    bonus: bool = True,
    mixing: bool = True,
) -> UserPlan:
    """Return the decisions of one user with the most tokens per second, and a bound that no others exceed.

    The risk of a round bounds the total variation of its tokens (``skipping.bill_joint``), if rows with equal hulls are
    drafts of one position, and β̂ is right in the mean over sent drafts, and right or too large over skipped ones.

    Parameters
    ----------
    hulls : Hulls
        The messages that each of N rows may be sent with: :func:`lower_hulls` or :func:`codec_hulls`.
    costs : StageCosts
    acceptances : array, shape (K_max,)
        α_i in [0, 1]: P(draft i of a round is accepted given that drafts 1..i-1 were).
    rejection : array, shape (N,), optional
        β̂ in [0, 1]: the estimated probability that the row's own draft is rejected. None: 1 - α_1 for all.
    weight : array, shape (N,), optional
        How often each row begins a round, in any unit. None: all alike.
    risk_limit : float
        The most risk for each emitted token. 0: the law of the target model. ``float("inf")``: no limit.
    draft_lengths : iterable of int, optional
        The K to try, in 0..K_max. None: all of them. With 0 the server decodes alone.
    skipping, bonus : bool
        Whether a first draft may be kept without verification, and whether the server adds a token after K drafts.
    mixing : bool
        Whether the rounds may take turns with two parts, if that is faster by 0.1%, or no single part keeps the limit.

    Returns
    -------
    UserPlan
        The bound holds for every skip, message at each place and K, and all mixtures that do not depend on the rows;
        also if a skipped draft is charged β̂ alone.

    Raises
    ------
    ValueError
        If a value is out of range, the shapes do not match, or no plan meets the limit; then it names the nearest.

    Examples
    --------
    >>> from hlmtheory.policy import lower_hulls
    >>> hulls = lower_hulls([[1000.0, 8000.0]], [[0.0625, 0.0]])
    >>> costs = StageCosts(draft_s=0.0125, verify_s=0.03125, seconds_per_bit=1e-6, round_trip_s=0.015625)
    >>> plan = plan_user(hulls, costs, [0.75] * 4, risk_limit=0.25, skipping=False)
    >>> plan.draft_length, round(plan.rate, 2), round(plan.gap, 9)
    (2, 31.3, 0.0)
    """
    given = (hulls, costs, acceptances, rejection, weight, risk_limit, draft_lengths, skipping, bonus)
    made, lengths, limit = checked_user(*given)
    return best_plan(made, lengths, limit, mixing=flag("mixing", mixing))[0]


def checked_user(
    hulls: Hulls,
    costs: StageCosts,
    acceptances: Array,
    rejection: Array | None,
    weight: Array | None,
    risk_limit: float,
    draft_lengths: Iterable[int] | None,
    skipping: bool,
    bonus: bool,
) -> tuple[Given, list[int], float]:
    """Check the arguments of one user."""
    instance("hulls", hulls, Hulls)
    instance("costs", costs, StageCosts)
    alpha = numbers(UNIT_INTERVAL, "acceptances", acceptances)
    if alpha.ndim != 1 or not len(alpha):
        raise DomainError(f"acceptances must have shape (K_max,); got {alpha.shape}; give one for each draft")
    rows = hulls.positions
    beta = _each_row("rejection", UNIT_INTERVAL, 1.0 - alpha[:1] if rejection is None else rejection, rows)
    weights = _each_row("weight", _WEIGHT, 1.0 if weight is None else weight, rows)
    lengths = _lengths(draft_lengths, len(alpha))
    limit = float(number(_RISK, "risk_limit", risk_limit))
    limit = limit if limit < max(lengths[-1], 1) else math.inf  # no round can break it
    priced = Priced(hulls, weights / weights.sum())
    return Given(priced, costs, alpha, beta, flag("skipping", skipping), flag("bonus", bonus)), lengths, limit


@dataclass(frozen=True)
class Given:
    """The checked arguments of one user."""

    priced: Priced
    costs: StageCosts
    acceptances: Numbers
    rejection: Numbers
    skipping: bool
    bonus: bool
    toll: tuple[float, float] = (0.0, 0.0)
    """Tokens that a round which is sent pays to the server, and that each of its drafts pays besides."""

    def rounds(self, length: int, priced: Priced, hulls: Hulls, *, skipping: bool) -> Rounds:
        """Return the model of rounds of one length."""
        given = (hulls, priced, self.costs, self.acceptances, self.rejection, length)
        toll = self.toll[0] + length * self.toll[1]
        return Rounds(*given, skipping=skipping, bonus=self.bonus, toll=toll)


def best_plan(
    given: Given, lengths: list[int], limit: float, *, start: Prices | None = None, mixing: bool = True
) -> tuple[UserPlan, Prices]:
    """Return the fastest plan found, or without ``mixing`` the fastest of one part, and the prices.

    ``start`` are the prices of a plan for another link.
    """
    models = [given.rounds(k, given.priced, given.priced.hulls, skipping=given.skipping) for k in lengths]
    found = solve(models, limit, start or Prices(0.0), charged=False)
    bound, mixture = found.bound, best_mixture(found.columns, limit) if found.columns else None
    if mixture is not None and not all(_fully_charged(column) for _, column in mixture.parts):
        found, mixture = solve(models, limit, found.prices, charged=True), None
    # Columns whose skipped rows were not charged for their messages are none of the plan
    columns = [column for column in found.columns if _fully_charged(column)]
    good = [column for column in columns if keeps(column.totals, limit)]
    single = max(reversed(good), key=lambda column: rate_of(column.totals)) if good else None
    if not columns or not (mixing or single is None):
        mixture = None
    elif mixture is None or len(columns) < len(found.columns):
        mixture = best_mixture(columns, limit)
    if single is not None and (mixture is None or not _worth_mixing(mixture, single)):
        mixture = Mixture(((1.0, single),), single.totals)
    if mixture is None or not (mixing or len(mixture.parts) == 1):
        raise _unattainable(models, limit)
    return _user_plan(mixture, bound), found.prices


def _fully_charged(column: Column) -> bool:
    """Whether the skipped rows are charged for their messages, or these cost nothing."""
    return column.model.totals(column.choice.made) == column.totals


def _worth_mixing(mixture: Mixture, single: Column) -> bool:
    rate = rate_of(single.totals)
    return rate_of(mixture.totals) > rate + _WORTH_MIXING * abs(rate)


def _user_plan(found: Mixture, bound: float) -> UserPlan:
    totals, rate = found.totals, rate_of(found.totals)
    parts = tuple(_part(share, column) for share, column in found.parts)
    main = max(parts, key=lambda part: part.share)
    return UserPlan(
        draft_length=main.draft_length,
        rule=main.rule,
        skip=main.skip,
        first=main.first,
        later=main.later,
        tokens=totals.tokens,
        fixed_s=totals.fixed_s,
        band_s=totals.band_s,
        bits=totals.bits / totals.tokens,
        risk=totals.risk / totals.tokens,
        skip_share=totals.skipped,
        rate=rate,
        upper_bound=max(bound, rate),
        mixture=parts if len(parts) > 1 else (),
    )


def _part(share: float, column: Column) -> PlanPart:
    model, (made, rule) = column.model, column.choice

    return PlanPart(
        share=share,
        draft_length=model.length,
        rule=rule,
        skip=made.skip,
        first=made.first,
        later=made.later,
        tokens=column.totals.tokens,
        skip_share=column.totals.skipped,
    )


def _unattainable(models: list[Rounds], limit: float) -> DomainError:
    least = min(_least(model) for model in models)
    return DomainError(
        f"risk_limit must be at least {least * 1.0005:.4g} a token, the least that any plan keeps; got {limit:g}; "
        "allow more, or other messages or draft lengths"
    )


def _least(model: Rounds) -> float:
    """The least risk for each token: Dinkelbach on the ratio."""
    ratio = math.inf
    for _ in range(ROUNDS):
        limit = ratio if ratio < math.inf else 0.0
        _, totals = model.best(Prices(0.0, 1.0, 0.0), limit, charged=True)
        found = totals.risk / totals.tokens
        if found >= ratio:
            break
        ratio = found
    return ratio


def _each_row(name: str, domain: object, value: Array, rows: int) -> Numbers:
    found = numbers(domain, name, value)  # type: ignore[arg-type]
    if found.shape not in ((), (1,), (rows,)):
        raise DomainError(f"{name} must have shape ({rows},), one for each row of hulls; got {found.shape}")
    return np.broadcast_to(found, (rows,)).astype(np.float64)


def _lengths(given: Iterable[int] | None, most: int) -> list[int]:
    if given is None:
        return list(range(most + 1))
    found = np.unique(numbers(COUNT, "draft_lengths", as_list(given)))
    if not len(found) or found[-1] > most:
        raise DomainError(
            f"draft_lengths must be in 0..{most}, one or more; got {found.tolist()}; give more acceptances"
        )
    return [int(one) for one in found]


def as_list(given: Any) -> Any:
    """A range as a list; other values unchanged."""
    return list(given) if isinstance(given, range) else given
