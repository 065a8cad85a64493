"""Claims of the module, each with its proof above its record."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, softmax, to_numpy
from hlmtheory._domains import UNIT_INTERVAL, Domain, check_logits, token_of
from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.uncertainty.binomial import checked_together, decision_error, draws_needed, skip_probability
from hlmtheory.uncertainty.perturbation import (
    DOMAINS,
    MAX_TEMPERATURE,
    expected_mean,
    expected_uncertainty,
    quadrature_error,
    sample_uncertainty,
    vocabulary_uncertainty,
)
from hlmtheory.uncertainty.quadrature import (
    SAFE_NODES,
    gap_of,
    panel_error,
    panel_rule,
    scaled_gaps,
)
from hlmtheory.uncertainty.regression import fit_linear
from hlmtheory.uncertainty.substitution import by_substitution

# Proofs, by the last part of the id. A logit of -inf adds 0 to every softmax, as if the token were not in the
#   vocabulary. Each proof then applies to the row of the other V' < V logits.
#
# sampled. x̃ sums to 1, so the tokens other than d have mass 1 - x̃_d; the mean of an indicator is its probability. The
#   left side is sample_uncertainty itself at θ⁽ᵐ⁾, averaged over its uniform quantile: the sample differs below it.
# printed_temperature. False: dividing every exp(z_v) by the same θ_k changes no ratio, so the temperature has no
#   effect.
# expected. See the docstring of the module quadrature. θmax only scales the logits, so checking θmax = 2 suffices. The
#   bound rises with V, so the bound for V holds for the V' entries that are not masked.
# quick_rule. With F_Q(t) the weight of the nodes up to t, Q - ∫ f = ∫ (t - F_Q(t)) df by parts, at most the rule's
#   largest |F_Q(t) - t| times the variation of f (Koksma). f = e^{-h_d β}/Z(β), β = 1/φ, has (ln f)' = E_β[h] - h_d in
#   β, and E_β[h] never rises (its derivative is a variance): f rises to one maximum and falls. A top entry has h_d = 0,
#   so f decreases in φ, from 1 or less. Any other entry has f ≤ ½, because a top entry has at least the same share; its
#   variation is at most 2 max f - f(1). In both cases the variation is at most 1 - f(1).
# stated_error. |quick - ∫| ≤ |quick - safe| + |safe - ∫|, the last bounded by expected.
# vocabulary. Both functions average the same softmax; one sums over sorted entries, the other uses the whole row.
# top. The top entry's e^{-h/φ} is 1, and Z(φ) = Σ e^{-h_v/φ} never falls as φ rises, so softmax(z/θ)_top = 1/Z is
#   everywhere at least its value at θmax. The quadrature evaluates the same integrand at its nodes, and its weights are
#   positive and sum to 1. So the bound holds for the quadrature as for the integral.
# noise. (θ⁽ᵐ⁾, d⁽ᵐ⁾) are i.i.d. given z and d, hence the indicators are Bernoulli(E[u]), independent. (They would not
#   be independent if θ were the same for all M draws, or for several tokens.)
# draws. Chernoff. For E[u] < u_th: P(u > u_th) ≤ P(M u ≥ M u_th) ≤ e^{-M KL(u_th ‖ E[u])}; the other side alike.
# linear. At the least-squares line Σ residuals = Σ u · residuals = 0, so Σ (β - mean)² = Σ residuals² +
#   a² Σ (u - mean)², and R² = a² Var(u)/Var(β) = r².
# printed_fit. False: the printed 0.7106² is 0.505, and R² is printed as 0.9774. By ``linear`` the two agree for
#   every least-squares fit with an intercept, so they come from different fits.


class _Replay(np.random.Generator):
    """Stand-in for a generator that returns a given share of θmax, then a given quantile of the sample."""

    def __init__(self, *given: Any) -> None:
        super().__init__(np.random.PCG64(0))  # no number is drawn from it
        self._given = iter(given)

    def random(self, shape: Any) -> Any:  # type: ignore[override]
        return np.broadcast_to(next(self._given), shape).copy()


def _sampled(logits: Array, token: Array, temperatures: Array) -> Array:
    """Return E[u | z, d, θ] of the sampler; for each θ⁽ᵐ⁾, bisect the quantile up to which a sample differs."""
    xp, z, token, theta = _perturbation(logits, token, temperatures)
    host, token = to_numpy(theta), xp.broadcast_to(token[..., None], theta.shape)
    warmest = float(np.max(host, initial=0.0)) or MAX_TEMPERATURE
    low, high = np.zeros_like(host), np.ones_like(host)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        rng = _Replay(1.0 - host / warmest, middle)
        u = sample_uncertainty(z[..., None, :], token, draws=1, max_temperature=warmest, rng=rng)
        differs = to_numpy(u) == 1.0
        low, high = np.where(differs, middle, low), np.where(differs, high, middle)
    return xp.asarray(np.mean((low + high) / 2.0, axis=-1), device=z.device)


def _coldness(temperatures: Array) -> Array:
    """Return θmax over the smallest temperature; θ is 1 minus a share of θmax, rounded."""
    xp, theta = arrays(temperatures=temperatures)
    return xp.max(theta) / xp.min(theta, axis=-1)


def _differing(logits: Array, token: Array, temperatures: Array) -> Array:
    """Return (1/M) Σ_m Σ_{v≠d} softmax(z/θ⁽ᵐ⁾)_v, adding the other tokens one by one."""
    xp, rows, token = _perturbed(logits, token, temperatures)
    others = xp.arange(rows.shape[-1], device=rows.device) != token[..., None]
    return xp.mean(xp.sum(xp.where(others[..., None, :], rows, 0.0), axis=-1), axis=-1)


def _not_same(logits: Array, token: Array, temperatures: Array) -> Array:
    """Return 1 - (1/M) Σ_m softmax(z/θ⁽ᵐ⁾)_d."""
    xp, rows, token = _perturbed(logits, token, temperatures)
    return 1.0 - xp.mean(gap_of(xp, rows, token[..., None]), axis=-1)


def _perturbed(logits: Array, token: Array, temperatures: Array) -> tuple[Array, Array, Array]:
    """Return the distributions of (8), shape (..., M, V)."""
    xp, z, token, theta = _perturbation(logits, token, temperatures)
    gaps = z - xp.max(z, axis=-1, keepdims=True)
    return xp, softmax(xp, gaps[..., None, :] / theta[..., None]), token


def _perturbation(logits: Array, token: Array, temperatures: Array) -> tuple[Array, ...]:
    """Return the namespace and the three arguments, each checked in its domain."""
    xp, z, token, theta = arrays(logits=logits, token=token, temperatures=temperatures)
    check_logits(xp, z)
    token = token_of(z.shape[-1]).check(xp, "token", token)
    return xp, z, token, DOMAINS["temperatures"].check(xp, "temperatures", theta)


def _printed(logits: Array, token: Array, temperatures: Array) -> Array:
    """Return 1 - (1/M) Σ_m of u-hlm (6): exp(z_d)/θ over Σ_v exp(z_v)/θ, where θ cancels."""
    xp, theta = arrays(temperatures=temperatures)
    return _not_same(logits, token, xp.ones_like(theta))


def _panel_gap(logits: Array, token: Array) -> Array:
    """Return the distance between the rule with COARSE_NODES nodes per panel and the safe rule."""
    xp, z, token = arrays(logits=logits, token=token)
    check_logits(xp, z)
    token = token_of(z.shape[-1]).check(xp, "token", token)
    coarse = expected_mean(z, token, MAX_TEMPERATURE, panel_rule(COARSE_NODES))[2]
    return xp.abs(coarse - expected_mean(logits, token, MAX_TEMPERATURE, panel_rule(SAFE_NODES))[2])


def _panel_bound(logits: Array) -> Array:
    """Return the sum of the error bounds of the two rules."""
    xp, z = arrays(logits=logits)
    size = z.shape[-1]
    bound = panel_error(size, COARSE_NODES) + panel_error(size, SAFE_NODES)
    return xp.full(z.shape[:-1], bound, dtype=xp.float64)


def _public_error(logits: Array, token: Array) -> Array:
    """Return |expected_uncertainty - E[u]|."""
    xp, exact = arrays(exact=by_substitution(logits, token))
    return xp.abs(expected_uncertainty(logits, token) - exact)


def _by_variation(logits: Array, token: Array) -> Array:
    """Return the quick rule's discrepancy times 1 - softmax(z/θmax)_d."""
    xp, z, token = arrays(logits=logits, token=token)
    warmest = softmax(xp, -scaled_gaps(xp, z, MAX_TEMPERATURE))
    return DISCREPANCY * (1.0 - gap_of(xp, warmest, token))


def _own_entry(logits: Array, token: Array) -> Array:
    """Return entry d of vocabulary_uncertainty."""
    xp, z, token = arrays(logits=logits, token=token)
    token = token_of(z.shape[-1]).check(xp, "token", token)
    return gap_of(xp, vocabulary_uncertainty(z), token)


def _integrated(logits: Array) -> float:
    """Return the condition number for an integral that is accurate to 1e-10."""
    return 1e4


def _top_uncertainty(logits: Array) -> Array:
    xp, z = arrays(logits=logits)
    check_logits(xp, z)
    return expected_uncertainty(z, xp.argmax(z, axis=-1))


def _warmest_uncertainty(logits: Array) -> Array:
    """Return 1 - softmax(z/θmax)_top."""
    xp, z = arrays(logits=logits)
    return 1.0 - xp.max(softmax(xp, -scaled_gaps(xp, z, MAX_TEMPERATURE)), axis=-1)


def _convolved(expected: Array, threshold: Array, draws: Array) -> Array:
    """Return P(u ≤ u_th) from the distribution of the count, built by adding one sample at a time."""
    xp, (e, th, m) = checked_together(expected=expected, threshold=threshold, draws=draws)
    e, th, m = xp.broadcast_arrays(e, th, m)
    most = int(xp.max(m)) if 0 not in m.shape else 1
    count = xp.arange(most + 1, dtype=xp.float64, device=e.device)
    law = xp.broadcast_to(xp.astype(count == 0, xp.float64), (*e.shape, most + 1))
    for drawn in range(most):
        one_more = xp.concat([xp.zeros_like(law[..., :1]), law[..., :-1]], axis=-1)
        law = xp.where((m > drawn)[..., None], law * (1.0 - e)[..., None] + one_more * e[..., None], law)
    skipped = count / xp.astype(m, xp.float64)[..., None] <= th[..., None]
    return xp.sum(xp.where(skipped, law, 0.0), axis=-1)


def _error_at_needed(expected: Array, threshold: Array, error: Array) -> Array:
    return decision_error(expected, threshold, draws_needed(expected, threshold, error))


def _count(draws: Array) -> Array:
    """Return the number of roundings in a binomial distribution."""
    xp, m = arrays(draws=draws)
    return xp.astype(m, xp.float64) + 1.0


def _needed_count(expected: Array, threshold: Array, error: Array) -> Array:
    return _count(draws_needed(expected, threshold, error))


def _sums(uncertainty: Array, rejection_by_token: Array) -> tuple[Array, ...]:
    """Return the namespace and the two rows minus their means."""
    xp, u, beta = arrays(uncertainty=uncertainty, rejection_by_token=rejection_by_token)
    for name, value in (("uncertainty", u), ("rejection_by_token", beta)):
        UNIT_INTERVAL.check(xp, name, value)
    return xp, u - xp.mean(u, axis=-1, keepdims=True), beta - xp.mean(beta, axis=-1, keepdims=True)


def _explained(uncertainty: Array, rejection_by_token: Array) -> Array:
    """Return R² = 1 - Σ residuals² / Σ (β - mean)² of fit_linear for each row; NaN where fit_linear refuses the row."""
    xp, u, beta = arrays(uncertainty=uncertainty, rejection_by_token=rejection_by_token)
    for name, value in (("uncertainty", u), ("rejection_by_token", beta)):
        UNIT_INTERVAL.check(xp, name, value)
    fits = to_numpy(_fits(u)) & to_numpy(_uncertainty_varies(u)) & to_numpy(_rejection_varies(beta))
    rows = (to_numpy(value).reshape(-1, value.shape[-1]) for value in (u, beta))
    found = [
        fit_linear(one, other).r_squared if fit else np.nan for one, other, fit in zip(*rows, fits.ravel(), strict=True)
    ]
    return xp.asarray(np.reshape(np.asarray(found, dtype=np.float64), fits.shape), dtype=xp.float64, device=u.device)


def _squared_correlation(uncertainty: Array, rejection_by_token: Array) -> Array:
    """Return r² = Cov² / (Var Var)."""
    xp, u, beta = _sums(uncertainty, rejection_by_token)
    both = xp.sum(u * u, axis=-1) * xp.sum(beta * beta, axis=-1)
    return xp.sum(u * beta, axis=-1) ** 2 / xp.where(both > 0, both, 1.0)


def _fits(uncertainty: Array) -> Array:
    """Return whether a row has the three points that a fit needs."""
    xp, u = arrays(uncertainty=uncertainty)
    return xp.full(u.shape[:-1], u.shape[-1] > 2)


def _uncertainty_varies(uncertainty: Array) -> Array:
    """Return whether a row varies by more than rounding."""
    xp, u = arrays(uncertainty=uncertainty)
    return xp.max(u, axis=-1) - xp.min(u, axis=-1) > 1e-6


def _rejection_varies(rejection_by_token: Array) -> Array:
    return _uncertainty_varies(rejection_by_token)


def _of_one_fit(correlation: Array) -> Array:
    """Return r²."""
    xp, r = arrays(correlation=correlation)
    _CORRELATION.check(xp, "correlation", r)
    return r * r


def _printed_fraction(r_squared: Array) -> Array:
    xp, fraction = arrays(r_squared=r_squared)
    return UNIT_INTERVAL.check(xp, "r_squared", fraction)


def _fit_condition(uncertainty: Array, rejection_by_token: Array) -> Array:
    """Return the sum of 1/Var of both rows, the factor that magnifies a rounding error."""
    xp, u, beta = _sums(uncertainty, rejection_by_token)
    one, other = xp.sum(u * u, axis=-1), xp.sum(beta * beta, axis=-1)
    return u.shape[-1] * (1.0 / xp.where(one > 0, one, 1.0) + 1.0 / xp.where(other > 0, other, 1.0))


COARSE_NODES = 4
DISCREPANCY = 0.03012
"""sup_t |weight of the quick rule's nodes up to t - t|, rounded up."""
_HALVINGS = 54  # exact to the last bit of a probability
_CORRELATION = Domain("in [-1, 1]", lambda xp, value: xp.abs(value) <= 1, "give Pearson's r")
_PERTURBED = {"logits": [1.0, 0.0, -1.0], "token": 1, "temperatures": [0.5, 2.0]}
_ONE_OF_MANY = {"logits": [0.06018947842650138] + 255 * [0.0], "token": 0}
_ONE_AHEAD = {"logits": [5.197829871260998] + 9 * [0.0], "token": 0}

CLAIMS = (
    Claim(
        id="uncertainty.sampled",
        source=Source("oh2025cuhlm", "(8), (9): the mean of u over the sampled tokens"),
        origin=Origin.IMPLIED,
        statement="E[u | z, d, θ] = (1/M) Σ_m P(d⁽ᵐ⁾ ≠ d) = 1 − (1/M) Σ_m softmax(z/θ⁽ᵐ⁾)_d",
        relation=Relation.EQ,
        lhs=_sampled,
        rhs=_not_same,
        attained=Attained(_PERTURBED),
        condition=_coldness,
    ),
    Claim(
        id="uncertainty.printed_temperature",
        source=Source("oh2024uhlm", "(6) as printed"),
        origin=Origin.MISPRINT,
        statement="P(d⁽ᵏ⁾ = d) = (exp(z_d)/θ_k) / Σ_v (exp(z_v)/θ_k) is the softmax at temperature θ_k",
        relation=Relation.EQ,
        lhs=_differing,
        rhs=_printed,
        refuted=_PERTURBED,
    ),
    Claim(
        id="uncertainty.expected",
        source=Source("trefethen2013approximation", "Theorem 19.3"),
        origin=Origin.NEW,
        statement="|Q − E[u | z, d]| ≤ the bound by varentropy, for any row of V logits; Q has 4 nodes a panel",
        relation=Relation.LE,
        lhs=_panel_gap,
        rhs=_panel_bound,
        attained=Attained(_ONE_AHEAD, ratio=0.0019622493968268406),
        ceiling=1.0,
    ),
    Claim(
        id="uncertainty.quick_rule",
        source=Source("oh2025cuhlm", "(8), (9), the mean by 40 softmax passes"),
        origin=Origin.NEW,
        statement="|E[u] by the 40 passes − E[u | z, d]| ≤ .03012 (1 − softmax(z/θmax)_d), for any row",
        relation=Relation.LE,
        lhs=_public_error,
        rhs=_by_variation,
        attained=Attained(_ONE_OF_MANY, ratio=0.0006082176061853028),
        ceiling=1.0,
        condition=_integrated,
    ),
    Claim(
        id="uncertainty.stated_error",
        source=Source("trefethen2013approximation", "Theorem 19.3"),
        origin=Origin.NEW,
        statement="|E[u] by the 40 passes − E[u | z, d]| ≤ the error that is stated for the row",
        relation=Relation.LE,
        lhs=_public_error,
        rhs=lambda logits, token: quadrature_error(logits, token),
        attained=Attained(_ONE_OF_MANY, ratio=0.9935088817773082),
        ceiling=1.0,
        condition=_integrated,
    ),
    Claim(
        id="uncertainty.vocabulary",
        source=Source("oh2025cuhlm", "(8), (9), for every token at once"),
        origin=Origin.NEW,
        statement="entry d of the vocabulary's uncertainties is E[u | z, d]",
        relation=Relation.EQ,
        lhs=_own_entry,
        rhs=lambda logits, token: expected_uncertainty(logits, token),
        attained=Attained(_ONE_AHEAD),
    ),
    Claim(
        id="uncertainty.top",
        source=Source("oh2025cuhlm", "(8), (9)"),
        origin=Origin.NEW,
        statement="E[u | z, argmax z] ≤ 1 − softmax(z/θmax)_top: a device's likeliest draft is at most that uncertain",
        relation=Relation.LE,
        lhs=_top_uncertainty,
        rhs=_warmest_uncertainty,
        attained=Attained({"logits": [1.0, 1.0]}),
        ceiling=1.0,
    ),
    Claim(
        id="uncertainty.noise",
        source=Source("oh2025cuhlm", "(9), (10)"),
        origin=Origin.NEW,
        statement="P(u ≤ u_th | z, d) = P(Binomial(M, E[u]) ≤ M u_th), with fresh i.i.d. temperatures",
        relation=Relation.EQ,
        lhs=_convolved,
        rhs=skip_probability,
        attained=Attained({"expected": 0.5, "threshold": 0.5, "draws": 2}),
        condition=_count,
    ),
    Claim(
        id="uncertainty.draws",
        source=Source("oh2025cuhlm", "(10)"),
        origin=Origin.NEW,
        statement="P(the decision by u differs from that by E[u]) ≤ error at M = ⌈ln(1/error) / KL(u_th ‖ E[u])⌉",
        relation=Relation.LE,
        lhs=_error_at_needed,
        rhs=lambda error: error,
        attained=Attained({"expected": 0.5, "threshold": 0.0, "error": 0.25 + 2.0**-40}),
        ceiling=1.0,
        condition=_needed_count,
    ),
    Claim(
        id="uncertainty.linear",
        source=Source("oh2025cuhlm", "(7), its coefficient of determination"),
        origin=Origin.IMPLIED,
        statement="R² = 1 − Σ (β − au − b)² / Σ (β − mean)² = r² for the least-squares line β = au + b",
        relation=Relation.EQ,
        lhs=_explained,
        rhs=_squared_correlation,
        assumptions=(
            Assumption("three tokens or more", _fits),
            Assumption("the uncertainty varies", _uncertainty_varies),
            Assumption("the rejection probability varies", _rejection_varies),
        ),
        attained=Attained({"uncertainty": [0.0, 0.5, 1.0], "rejection_by_token": [0.0, 0.25, 1.0]}),
        condition=_fit_condition,
    ),
    Claim(
        id="uncertainty.printed_fit",
        source=Source("oh2025cuhlm", "III-A: r = 0.7106 below Fig. 2, R² = 0.9774 below (7)"),
        origin=Origin.IMPLIED,
        statement="the printed r and R² are of one least-squares fit: r² = R²",
        relation=Relation.EQ,
        lhs=_of_one_fit,
        rhs=_printed_fraction,
        refuted={"correlation": 0.7106, "r_squared": 0.9774},
    ),
)
