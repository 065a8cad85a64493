"""Theorems of u-hlm (oh2024uhlm) alone; those that cu-hlm prints too are in ``cu_hlm``.

There: (3) is ``channel.latency``, (7) ``uncertainty.sampled``, (8) ``skipping.sequence`` and ``skipping.overlap``, (9)
and (10), mended, ``verification.unbiased`` and ``skipping.mean_rejection``, (11) and (14) ``skipping.threshold`` and
``averse_threshold``, (12) ``skipping.risk_is_tv``. Theorem 1: (13), ``skipping.holder``, is true of the line; (14),
read for every token, is false, ``skipping.every_token_below``. ``channel.throughput_means`` is a false reading of (4).
(1) and (2) only define. (5), Remark 1, is β(t) = a u(t) + b for every t: a fit of means, Figure 5. None has a
claim. III-C calls risk-averse skipping lossless: so it is if (5) is exact for every token, and not of means.

here   q  p  p_d  r  β_d   M  d⁽ᵐ⁾  θ⁽ᵐ⁾      d, u, z, a, b, Δ, R, f; I is the range of u in R, h and h′ are only here
u-hlm  x  y  y_d  P  β(t)  K  d_k   θ_k       the same
"""

from functools import partial

from hlmtheory._array import arrays
from hlmtheory._simplex import law_overlap
from hlmtheory.claims import IMPLIED, KNOWN, MISPRINT, Source, eq, le, theorem
from hlmtheory.sides.uncertainty_sides import differing, not_same
from hlmtheory.sides.verification_sides import assembled, at_token, mean_rejection, ones_side
from hlmtheory.skipping.holder import holder_bound_discrete, rejection_risk_discrete
from hlmtheory.theorems import cu_hlm
from hlmtheory.verification.rule import rejection_probability

PAPER = partial(Source, "oh2024uhlm")
DRAWN = {"target": [0.25, 0.5, 0.25], "draft": [0.5, 0.25, 0.25], "token": 0}


def emitted(target, draft, token, *, kept, resampled):
    """Return the emitted law: with β_d of the drawn token for β_v if ``kept``, and for Σ_i q_i β_i if ``resampled``."""
    every, mean = rejection_probability(target, draft), mean_rejection(target, draft)
    drawn = at_token(every, token)
    return assembled(target, draft, beta=drawn if kept else every, resampled=drawn if resampled else mean)


PRINTED_LAW = partial(emitted, kept=True, resampled=True)
ONE_BETA = partial(emitted, kept=True, resampled=False)
ONE_RESAMPLING = partial(emitted, kept=False, resampled=True)


@theorem("uncertainty.printed_temperature", PAPER("(6) as printed"), MISPRINT, false=cu_hlm.PERTURBED)
def printed_temperature(logits, token, temperatures):
    """(1/M) Σ_m P(d⁽ᵐ⁾ ≠ d) is the same with P(d⁽ᵐ⁾ = v) ∝ exp(z_v/θ⁽ᵐ⁾), as meant (left), and with ∝ exp(z_v)/θ⁽ᵐ⁾,
    as printed (right).

    False: dividing every exp(z_v) by the same θ⁽ᵐ⁾ changes no ratio, so on the right each sample has temperature 1. For
    z = (1, 0, −1), the second token and θ = .5, 2 the left side is .788, the right .755. Instead: uncertainty.sampled.
    """
    left = differing(logits, token, temperatures)
    xp, theta = arrays(temperatures=temperatures)
    return eq(left, not_same(logits, token, xp.ones_like(theta)))


@theorem("verification.unbiased_printed", PAPER("(9) as printed"), MISPRINT, false=DRAWN, law=PRINTED_LAW)
def unbiased_printed(target, draft, token):
    """q_v (1 − β_d) + β_d r_v = p_v for every v, with β_d of the drawn token d.

    False: for p = (2, 4, 2)/8, q = (4, 2, 2)/8 and the first token, β = (1/2, 0, 0) and r = (0, 1, 0). With β_d = 1/2
    for every v the left side is (2, 5, 1)/8. The check compares its overlap with p, 1 - ½ Σ_v |left side − p_v|, with
    1. Instead: verification.unbiased.
    """
    return eq(law_overlap(PRINTED_LAW(target, draft, token), target), ones_side(target))


@theorem("verification.unbiased_one_beta", PAPER("(9), its second factor mended"), IMPLIED, false=DRAWN, law=ONE_BETA)
def unbiased_one_beta(target, draft, token):
    """q_v (1 − β_d) + Σ_i q_i β_i r_v = p_v for every v, with β_d of the drawn token d.

    False: with p, q of verification.unbiased_printed the left side is (2, 3, 1)/8, which sums to 6/8. The law needs β_v
    of every v, and the mean rejection Σ q β. The check compares its overlap with p, 1 - ½ Σ_v |left side − p_v|, with
    1. Instead: verification.unbiased.
    """
    return eq(law_overlap(ONE_BETA(target, draft, token), target), ones_side(target))


@theorem(
    "verification.unbiased_one_resampling",
    PAPER("(9), its first factor mended"),
    IMPLIED,
    false=DRAWN,
    law=ONE_RESAMPLING,
)
def unbiased_one_resampling(target, draft, token):
    """q_v (1 − β_v) + β_d r_v = p_v for every v, with β_d of the drawn token d.

    False: with p, q of verification.unbiased_printed the left side is (2, 6, 2)/8, which sums to 10/8. The check
    compares its overlap with p, 1 - ½ Σ_v |left side − p_v|, with 1. Instead: verification.unbiased.
    """
    return eq(law_overlap(ONE_RESAMPLING(target, draft, token), target), ones_side(target))


@theorem(
    "verification.rejection_ratio",
    PAPER("(10) as printed, y_d known"),
    MISPRINT,
    false={**cu_hlm.HALVES, "target": [0.125, 0.875], "token": 0},
)
def rejection_ratio(target, draft, token):
    """β_d = 1{p_d < q_d} p_d / q_d, where the paper's own rule gives (1 − p_d / q_d)⁺.

    False: at p_d = 1/8, q_d = 1/2 the rule rejects with probability 1 − 1/4 = 3/4, the left side, and (10) says 1/4.
    What is meant: E[β_d] = P(p_d < q_d) E[1 − p_d/q_d | p_d < q_d]. Instead: skipping.mean_rejection.
    """
    left = at_token(rejection_probability(target, draft), token)[..., 0]
    xp, p, q = arrays(target=at_token(target, token), draft=at_token(draft, token))
    below = p < q
    return eq(left, xp.where(below, p / xp.where(below, q, 1.0), 0.0)[..., 0])


@theorem(
    "skipping.holder_discrete",
    PAPER("IV-A, (13) with an empirical density, by Hölder's inequality for sums"),
    KNOWN,
    tight={"slope": 1.0, "intercept": 0.0, "non_acceptance": 1.0, "mass": [0.0, 1 / 3, 2 / 3], "exponent": 2.0},
)
def holder_discrete():
    """R = Σ_I (a u + b) f ≤ (Σ_I (a u + b)^h)^{1/h} (Σ_I f^{h′})^{1/h′}, for a > 0 and u on {0, 1/M, …, 1}.

    I = {u : −b/a ≤ u ≤ (Δ − b)/a}, h > 1 and 1/h + 1/h′ = 1. On I both factors, a u + b and f, are at least 0: apply
    Hölder's inequality for sums to them.
    """
    return le(rejection_risk_discrete, holder_bound_discrete)
