"""Theorems of cu-hlm (oh2025cuhlm): skipping, truncated distributions and the link, in the order of its equations.

Nineteen more are in ``ours_guarantees``, ``ours_messages`` and ``ours_plans``; ``hlm claims --paper cu-hlm`` lists all.

here    q  p  q̂  r  r̂  T = TV(q, p)  Δ_k = TV(q, q̂)         k, d, β_d, u, a, b, Δ, θ, η, ℓ
cu-hlm  x  y  x̂  p  q  D_TV(x, y)    ½ Σ_{i>k} |x_i - x̂_i|  the same

γ = (p - q)⁺ and ω = (p - q̂)⁺; μ is the mean of the V - k entries of q that are not sent; x̃ = softmax(z/θ⁽ᵐ⁾) of (8);
ℓ(z) = ln(1 + e^{ηz})/η; Û(k) = 2 Δ_k/Σ_i q_i ℓ(p_i/q_i - 1), Ū(k) its bound in (23), and D the denominator there. T̂ =
TV(q̂, p). U(k, t) = 2 Δ_k/T at token t is the bound of (20), η* the least η with D ≤ 2 q_d β_d. s_v is the probability
that draft v skips verification, S_t the hybrid system's distribution of token t. M, B, b_prob, W, SNR, R, f and Bias,
(17), are the paper's. Only here: I, the range of u that R covers; law, what is emitted; ε, tolerance of Bias, 2
TV(law, p); δ, a value of TV(q, p). Under fading ξ is the mean of the SNR, φ its density and κ the Rician factor.
"""

import math
from functools import partial

import numpy as np

from hlmtheory._array import arrays, in_kind, order_descending, take, to_numpy
from hlmtheory._domains import token_of
from hlmtheory._quantities import checked
from hlmtheory._simplex import distance, excess, law_overlap, normalised, quotient
from hlmtheory.channel.fading import Rayleigh
from hlmtheory.channel.latency import (
    DOMAINS,
    mean_round_throughput,
    shannon_latency,
    throughput,
    vocabulary_payload_bits,
)
from hlmtheory.claims import IMPLIED, NEW, PRINTED, SOFTWARE, Assumption, Source, eq, le, theorem
from hlmtheory.sides import shared_seed_sides as sides
from hlmtheory.sides import sizes_sides, softplus_sides, truncation_sides, worst_case_sides
from hlmtheory.sides.channel_sides import growth, strip
from hlmtheory.sides.skipping_sides import HORIZON, from_target, law_of_chain, mean_rejection_side, text_distance
from hlmtheory.sides.uncertainty_sides import coldness, not_same, sampled_side
from hlmtheory.sides.verification_sides import ones_side
from hlmtheory.skipping.holder import holder_bound, line, rejection_risk, skip_thresholds
from hlmtheory.skipping.risk import non_acceptance, one_step_risk
from hlmtheory.truncation.reconstruction import (
    NOISE,
    pair_and_size,
    resampling_bias,
    resampling_distortion,
    tail_deviation,
    truncate,
    truncated,
    tvd_bound,
    tvd_bound_sharp,
)
from hlmtheory.truncation.sizes import certified_size, exact_size, online_size
from hlmtheory.truncation.softplus import LN2, SHARPNESS, rejection_at, softplus_distance
from hlmtheory.verification import total_variation
from hlmtheory.verification.rule import output_distribution

CUHLM = partial(Source, "oh2025cuhlm")
HALVES = {"target": [0.25, 0.75], "draft": [0.5, 0.5]}
PERTURBED = {"logits": [1.0, 0.0, -1.0], "token": 1, "temperatures": [0.5, 2.0]}
THIRDS = {"target": [0.5, 0.5, 0.0], "draft": [0.5, 0.0, 0.5]}
SKIPPED = THIRDS | {"skip": [1.0, 0.0, 0.0]}
NEXT = Assumption("k < V", truncation_sides.has_next)
EXISTS = Assumption("r̂ exists: TV(q̂, p) > 2^-44, or nothing is rejected", truncation_sides.residual_exists)
TIGHT = {"target": [0.5, 0.25, 0.25], "draft": [0.625, 0.25, 0.125], "k": 1}
EXACT = CUHLM("(19)")
PAPER = CUHLM("Prop. 1, (20)")
DIFFER = Assumption("target ≠ draft for every token", sizes_sides.all_differ)
OFFLINE = CUHLM("(21)")


@theorem("verification.unbiased", CUHLM("(3); u-hlm (9), mended"), PRINTED, tight=HALVES)
def unbiased(target, draft):
    """q_v (1 − β_v) + Σ_i q_i β_i r_v = p_v for every v: the overlap of the law with p is 1.

    q_v (1 - β_v) = min(p_v, q_v), Σ_i q_i β_i = T and T r_v = (p_v - q_v)⁺; and min(p_v, q_v) + (p_v - q_v)⁺ = p_v.
    """
    return eq(law_overlap(output_distribution(target, draft), target), ones_side(target))


@theorem("channel.payload", CUHLM("(4)"), PRINTED, tight={"vocabulary": 32_000, "bits_per_probability": 8})
def channel_payload(vocabulary, bits_per_probability):
    """B = V (b_prob + ⌈log₂ V⌉): 736,000 bits at V = 32,000 and 8 bits.

    ⌈log₂ V⌉ is the smallest number of bits that can distinguish V tokens.
    """
    left = vocabulary_payload_bits(vocabulary, bits_per_probability)
    xp, size, width = arrays(vocabulary=vocabulary, bits_per_probability=bits_per_probability)
    lengths = np.vectorize(lambda v: int(v - 1).bit_length(), otypes=[np.int64])(to_numpy(size))
    return eq(left, size * (width + xp.asarray(lengths, device=size.device)))


@theorem(
    "channel.latency",
    CUHLM("(5); u-hlm (3); guo2005mutual (1)"),
    PRINTED,
    tight={"bits": 736_000.0, "bandwidth_hz": 10e6, "snr": 10.0},
)
def latency(bits, bandwidth_hz, snr):
    """B/(W log₂(1 + SNR)) = B ln 2/(W ∫₀^SNR mmse(s) ds), the minimum mean square error mmse(s) = 1/(1 + s).

    The mutual information of a Gaussian input over Gaussian noise grows with the SNR at the rate of the minimum mean
    square error of the input's estimate, 1/(1 + s) (I-MMSE). The right side is its quadrature, without a logarithm.
    """
    left = shannon_latency(bits, bandwidth_hz, snr)
    xp, payload, band, ratio = checked(DOMAINS, bits=bits, bandwidth_hz=bandwidth_hz, snr=snr)
    nodes, weights = np.polynomial.legendre.leggauss(24)
    most = to_numpy(ratio)
    area, begin = np.zeros_like(most), np.zeros_like(most)
    while np.any(begin < most):
        half = (np.minimum(2.0 * begin + 1.0, most) - begin) / 2.0  # panels no wider than 1 + s, over which mmse halves
        mmse = 1.0 / (1.0 + begin[..., None] + half[..., None] * (1.0 + nodes))
        area, begin = area + half * np.sum(weights * mmse, axis=-1), begin + 2.0 * half
        begin = np.where(begin >= most * (1.0 - 1e-15), most, begin)
    return eq(left, payload * math.log(2) / (band * xp.asarray(area, device=ratio.device)))


@theorem(
    "channel.rayleigh_mean",
    CUHLM("(5) under Rayleigh fading, Table II, Fig. 10a"),
    NEW,
    tight={"mean_snr": 1.0, "cut": 1e-12, "width": 1e6},
    error=lambda mean_snr, cut, width: strip(mean_snr, 0.0, cut, width).error,
)
def rayleigh_mean(mean_snr, cut, width):
    """E[1/log₂(1 + SNR); cut ≤ SNR ≤ top] ≥ ln 2 φ(0) e^{−top/ξ} ln(top/cut), with one SNR for a transfer; so the mean
    without the two limits is infinite.

    E[X; A] counts X as 0 where A fails; top = cut · ``width``. The proof is for Rician fading; Rayleigh fading has κ =
    0. φ(s) = (1+κ)/ξ e^{-κ-(1+κ)s/ξ} I₀(·) ≥ φ(0) e^{-(1+κ)s/ξ}, as I₀ ≥ 1. As log₂(1+s) ≤ s/ln 2, the integrand is at
    least ln 2 φ(0) e^{-(1+κ)top/ξ}/s on [cut, top], and its integral at least ln 2 φ(0) e^{-(1+κ)top/ξ} ln(top/cut).
    With top fixed and cut → 0 this is unbounded: the mean latency is infinite at every mean SNR and every κ, and a
    run's throughput tends to 0, unless blocks in outage are dropped. E[T_step] in flexspec (2) would be infinite too,
    if its R_n, whose law it does not give, were Rayleigh.
    """
    return le(growth(mean_snr, 0.0, cut, width), strip(mean_snr, 0.0, cut, width).value)


@theorem(
    "channel.rician_mean",
    CUHLM("(5) under Rician fading, Fig. 10b"),
    NEW,
    tight={"mean_snr": 1.0, "k_factor": 10.0, "cut": 1e-14, "width": 1e6},
    error=lambda mean_snr, k_factor, cut, width: strip(mean_snr, k_factor, cut, width).error,
)
def rician_mean(mean_snr, k_factor, cut, width):
    """E[1/log₂(1 + SNR); cut ≤ SNR ≤ top] ≥ ln 2 φ(0) e^{−(1+κ)top/ξ} ln(top/cut), φ(0) = (1+κ)e^{−κ}/ξ, with one SNR
    for a transfer; so the mean without the two limits is infinite.

    Proved with channel.rayleigh_mean.
    """
    return le(growth(mean_snr, k_factor, cut, width), strip(mean_snr, k_factor, cut, width).value)


@theorem(
    "channel.finite_mean",
    CUHLM("Table II, an average latency under Rayleigh fading"),
    IMPLIED,
    false={"mean_snr": 0.01, "cut": 1e-30, "bound": 1381.0},
)
def finite_mean(mean_snr, cut, bound):
    """E[1/log₂(1 + SNR); SNR ≥ cut] stays below some bound for every cut, with one SNR for a transfer.

    False: by channel.rayleigh_mean with top fixed and cut → 0, the mean above a small enough cut exceeds any bound.
    Instead: channel.rayleigh_mean.
    """
    return le(Rayleigh(mean_snr).inverse_efficiency(cut).value, checked(DOMAINS, bound=bound)[1])


@theorem(
    "channel.throughput_means",
    CUHLM("(6) and Section V-A, u-hlm (4) and IV, read as one quantity"),
    IMPLIED,
    false={"times_s": [1.0, 3.0]},
)
def throughput_means():
    """rounds/Σ seconds = mean of 1/seconds: the throughput of a sequence is the mean throughput of its rounds.

    False: by ``throughput`` the two means differ unless all rounds take the same time.
    """
    return eq(throughput, mean_round_throughput)


@theorem(
    "uncertainty.sampled",
    CUHLM("(8), (9), u-hlm (7): the mean of u over the sampled tokens"),
    IMPLIED,
    tight=PERTURBED,
    condition=coldness,
)
def sampled():
    """E[u | z, d, θ] = (1/M) Σ_m P(d⁽ᵐ⁾ ≠ d) = 1 − (1/M) Σ_m softmax(z/θ⁽ᵐ⁾)_d.

    x̃ sums to 1, so the tokens other than d have mass 1 - x̃_d; the mean of an indicator is its probability. The
    left side is sample_uncertainty itself at θ⁽ᵐ⁾, averaged over its uniform quantile: the sample differs below it.
    """
    return eq(sampled_side, not_same)


# The target model leaves token 2 at once, and the hybrid system stays there.
@theorem(
    "skipping.sequence",
    CUHLM("(10); u-hlm (8)"),
    NEW,
    tight={
        "target_chain": [[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]],
        "draft_chain": [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        "skip_chain": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
    },
    ceiling=1.0,
)
def sequence():
    """TV(law of the text, target model's) ≤ Σ_t E[one-step TV], prefixes from the target model.

    Let law j emit its first j tokens by the target model and the rest by the hybrid system, a kernel of the prefix
    alone. Laws j - 1 and j agree in the first j - 1 tokens, by the target model, and in the kernels after token j.
    They differ in the law of token j given the prefix, by TV_j(prefix). So their distance is at most E[TV_j], with
    prefixes from the target model. Sum over j.
    """
    return le(text_distance, from_target)


# After token 2 the draft model is wrong and skips verification; only verification can emit token 2.
@theorem(
    "skipping.overlap",
    CUHLM("(10); u-hlm (8)"),
    NEW,
    tight={
        "target_chain": [[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        "draft_chain": [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]],
        "skip_chain": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
    },
    ceiling=1.0,
)
def overlap(target_chain, draft_chain, skip_chain):
    """TV(law of the text, target model's) ≤ 1 − E[Π_t min(1, S_t/p_t)] over texts of the target model.

    Two laws have 1 - TV = Σ_x min(Π_t p_t, Π_t S_t) ≥ Σ_x Π_t min(p_t, S_t) = E_{x~p} Π_t min(1, S_t/p_t).
    """
    left = text_distance(target_chain, draft_chain, skip_chain)
    xp, p, _, _, law = law_of_chain(target_chain, draft_chain, skip_chain)
    rows = xp.minimum(p, law)
    mass = rows[..., 0, :]
    for _ in range(HORIZON - 1):
        mass = xp.sum(mass[..., None] * rows, axis=-2)
    return le(left, 1.0 - xp.sum(mass, axis=-1))


@theorem(
    "shared_seed.skip_as_verified",
    CUHLM("the threshold (10), kept where a shared seed replaces rejection sampling"),
    IMPLIED,
    false=SKIPPED,
)
def skip_as_verified():
    """TV(law, p) = Σ_v s_v (q_v − p_v)⁺: a skipped token costs what it costs with rejection sampling.

    False: Σ_v s_v (q_v - p_v)⁺ is the distance if a token that is not kept is verified by rejection sampling, whose
    residual lacks the tokens with q_v > p_v. Here it is the token that the server draws with the shared seed, given
    that the device's is not kept. Instead: shared_seed.skip.
    """
    return eq(sides.skipped_distance, one_step_risk)


@theorem(
    "skipping.mean_rejection",
    CUHLM("(11), proof of Theorem 1; u-hlm (10), mended"),
    PRINTED,
    tight={"target": [0.0, 1.0], "draft": [0.5, 0.5]},
    ceiling=1.0,
)
def mean_rejection():
    """E[β_d] ≤ Δ = P(p_d < q_d).

    β_d = (1 − p_d/q_d) 1{p_d < q_d}, so E[β_d] = Δ E[1 − p_d/q_d | p_d < q_d] ≤ Δ. Here E is over the draft d ~ q for a
    known p, in the paper over an unknown p_d for a fixed q_d.
    """
    return le(mean_rejection_side, non_acceptance)


@theorem(
    "skipping.threshold",
    CUHLM("(12), (14); u-hlm (11), (14)"),
    PRINTED,
    tight={"slope": 0.5, "intercept": -0.25, "non_acceptance": 0.5},
    condition=lambda intercept: 1.0 + abs(intercept),
)
def threshold(slope, intercept, non_acceptance):
    """a u + b = Δ at the risk-prone threshold u_th = (Δ − b)/a, for a > 0.

    Solve a u + b = Δ.
    """
    _, a, b, delta = line(slope, intercept, non_acceptance)
    return eq(a * skip_thresholds(a, b, non_acceptance=delta).risk_prone + b, arrays(non_acceptance=non_acceptance)[1])


@theorem(
    "skipping.holder",
    CUHLM("Theorem 1, (13); u-hlm Theorem 1, (13)"),
    PRINTED,
    tight={
        "cell_probabilities": [(2 * cell + 1) / 64**2 for cell in range(64)],
        "slope": 1.0,
        "intercept": 0.0,
        "non_acceptance": 1.0,
    },
    ratio=0.9999694819561996,
    ceiling=1.0,
)
def holder(cell_probabilities, slope, intercept, non_acceptance):
    """R = ∫_I (a u + b) f(u) du ≤ Δ^{3/2}/√(3a) · ‖f‖_{2,I}, I = [−b/a, (Δ − b)/a], for a > 0.

    By Hölder with exponents 2 and 2, R ≤ (∫_I (a u + b)² du)^{1/2} ‖f‖_{2,I}. With t = a u + b, which rises from 0 to Δ
    on I, the integral is ∫_0^Δ t² dt/a = Δ³/(3a). As in print, u has the density f and β is taken to be the line a u +
    b. The risk of single tokens, whose β scatters, is skipping.risk_is_tv. In the tight case f rises as the line does.
    """
    return le(
        rejection_risk(cell_probabilities, slope, intercept, non_acceptance=non_acceptance),
        holder_bound(cell_probabilities, slope, intercept, non_acceptance=non_acceptance),
    )


@theorem(
    "skipping.every_token_below",
    CUHLM("Theorem 1, (14), read for every token; u-hlm (14)"),
    IMPLIED,
    false={"uncertainty": 1.0, "slope": 0.815, "intercept": -0.066, "non_acceptance": 0.5956},
)
def every_token_below(uncertainty, slope, intercept, non_acceptance):
    """u ≤ u_th = (Δ − b)/a for every token, by β ≤ Δ and the line β = a u + b, for a > 0.

    False: Theorem 1 takes β for its mean, which is at most Δ (mean_rejection); the β of a token can be above Δ. By the
    printed line β = .815 - .066 = .749 at u = 1, above Δ = .5956. Were (14) true of every token, no token would be
    sent, for (10) sends where u > u_th; at u_th = .8 the paper skips 74.8% and sends the rest. That u_th is where the
    line reaches Δ needs no such bound. Instead: skipping.mean_rejection, skipping.threshold.
    """
    thresholds = skip_thresholds(slope, intercept, non_acceptance=non_acceptance)
    return le(arrays(uncertainty=uncertainty)[1], thresholds.risk_prone)


@theorem(
    "skipping.risk_is_tv",
    CUHLM("Theorem 1, the exact form of R; u-hlm (12)"),
    NEW,
    tight={"target": [0.25, 0.75], "draft": [0.5, 0.5], "skip": [1.0, 0.0]},
)
def risk_is_tv(target, draft, skip):
    """TV(law of U-HLM's token, p) = Σ_v q_v s_v β_v = E[s_d β_d].

    Draft v is kept unseen with probability s_v, and verified otherwise. So law_v = q_v (1 - (1 - s_v) β_v) + r_v Σ_i
    q_i (1 - s_i) β_i. With s = 0 this is p_v, by verification.unbiased, so law_v - p_v = q_v s_v β_v - r_v Σ_i q_i s_i
    β_i. Where β_v > 0, p_v < q_v and r_v = 0: at most one of the two terms is nonzero at each v. Each sums to Σ q s β
    over v, as Σ r = 1 (or all β are 0), so half the sum of absolute values is Σ q s β.
    """
    return eq(
        total_variation(output_distribution(target, draft, skip=skip), target), one_step_risk(target, draft, skip)
    )


@theorem(
    "skipping.averse_threshold",
    CUHLM("(14) and below; u-hlm (14)"),
    PRINTED,
    tight={"slope": 0.5, "intercept": -0.25, "non_acceptance": 0.5},
)
def averse_threshold(slope, intercept, non_acceptance):
    """a u + b = 0 at the risk-averse threshold u_th = −b/a, for a > 0.

    Solve a u + b = 0.
    """
    _, a, b, delta = line(slope, intercept, non_acceptance)
    return eq(a * skip_thresholds(a, b, non_acceptance=delta).risk_averse, -arrays(intercept=intercept)[1])


@theorem(
    "truncation.monotone",
    CUHLM("(15), (20)"),
    NEW,
    assuming=(NEXT,),
    tight={"draft": [0.002] * 500 + [0.0] * 500, "k": 0},
    ratio=499 * 1000 / (500 * 999),
)
def monotone(draft, k):
    """Δ_{k+1} ≤ Δ_k: a binary search finds the least k for a rule in Δ_k.

    Let μ be the mean of the tail t_1 ≥ t_2 ≥ ... that remains at k, so Δ_k = Σ (μ - t_i)⁺. At k + 1 the entry t_1 ≥
    μ is gone, so the new mean μ' ≤ μ and Δ_{k+1} = Σ_{i>1} (μ' - t_i)⁺ ≤ Σ_{i>1} (μ - t_i)⁺ = Δ_k, as t_1 adds
    nothing. The ratio comes near 1 for a tail of m ones and m zeros, m large.
    """
    return le(
        truncation_sides.rebuilt_deviation(draft, truncation_sides.after(draft, k)),
        truncation_sides.rebuilt_deviation(draft, k),
    )


@theorem(
    "truncation.bias_identity",
    CUHLM("(17), below (18), Fig. 6"),
    NEW,
    assuming=(EXISTS,),
    tight=TIGHT,
    condition=truncation_sides.rebuilt_share,
)
def bias_identity(target, draft, k):
    """Bias = 2 TV(q, p) TV(r, r̂): an identity, where the paper reports a correlation of 0.9763.

    min(p, q) + T r = p and law = min(p, q) + T r̂, so law - p = T (r̂ - r).
    """
    left = resampling_bias(target, draft, k)
    xp, kind, p, q, k = pair_and_size(target, draft, k)
    p, q = xp.broadcast_arrays(p, q)
    order = order_descending(xp, q)
    p, q = take(xp, p, order), take(xp, q, order)
    sent = xp.arange(q.shape[-1], device=q.device) < k[..., None]
    rest = xp.sum(xp.where(sent, 0.0, q), axis=-1) / xp.astype(xp.where(k < q.shape[-1], q.shape[-1] - k, 1), q.dtype)
    true, mass = normalised(xp, excess(xp, p, q))
    distorted = normalised(xp, excess(xp, p, xp.where(sent, q, rest[..., None])))[0]
    return eq(left, in_kind(xp, xp.where(mass > 0, mass * xp.sum(xp.abs(true - distorted), axis=-1), 0.0), kind))


@theorem("truncation.certificate", CUHLM("(17), improves on (20)-(24)"), NEW, tight=TIGHT, ceiling=2.0)
def certificate(target, draft, k):
    """Bias ≤ 2 Δ_k: known to the device before anything is sent.

    Bias = 2 T TV(r, r̂) (bias_identity) ≤ 2 T Δ_k / max(T, T̂) (tvd_sharp) ≤ 2 Δ_k; where r̂ is 0/0, Bias ≤ 2 T = 2 Δ_k.
    It holds too where draft d is accepted with min(1, p_d/q̂_d), for which bias_identity fails: this turns drafts from q̂
    into p, so drafts from q, at the distance Δ_k, into a law at most Δ_k from p.
    """
    return le(resampling_bias(target, draft, k), truncation_sides.certificate_side(draft, k))


@theorem(
    "truncation.certificate_by_draft",
    CUHLM("(17), improves on (20)-(24)"),
    NEW,
    tight={"target": [0.5, 0.25, 0.25], "draft": [0.5, 0.375, 0.125], "top_k": [2, 1, 2]},
    ceiling=2.0,
)
def certificate_by_draft(target, draft, top_k):
    """Bias ≤ 2 max_v Δ_{k(v)} when the number of entries sent depends on the draft v.

    Draft v is rejected with probability q_v β_v, Σ q β = T, and replaced from r̂_{k(v)}: Bias ≤ Σ_v q_v β_v 2 TV(r,
    r̂_{k(v)}) ≤ 2 Σ_v (q_v β_v / T) Δ_{k(v)} ≤ 2 max_v Δ_{k(v)}. The inner mean needs p; the maximum does not. Where
    r̂_{k(v)} is 0/0, TV(r, r̂) is taken at its largest possible value, Δ_{k(v)} / max(T, T̂) ≤ Δ_{k(v)}/T. With q̂ =
    p, T = Δ_{k(v)} and the value is 1: so it is in the tight case, where r̂ is 0/0 for the only draft rejected.
    """
    left = truncation_sides.bias_by_draft(target, draft, top_k)
    xp, q, top_k = truncation_sides.draft_and_top_k(draft, top_k)
    return le(left, 2.0 * xp.max(take(xp, tail_deviation(q), top_k), axis=-1))


@theorem(
    "truncation.bias_worst",
    CUHLM("(17), (24)"),
    NEW,
    tight={"target": [0.5, 0.3125, 0.1875], "draft": [0.5625, 0.3125, 0.125], "k": 1},
    ceiling=2.0,
)
def bias_worst(target, draft, k):
    """Bias ≤ 2 min(TV(q, p), Δ_k); given q and a bound on TV(q, p) no smaller bound holds, so k is a step function of
    that bound.

    Bias = 2 T TV(r, r̂) ≤ 2 T min(1, Δ_k/T); where r̂ is 0/0, Bias ≤ 2 T ≤ 2 Δ_k. For every k, no smaller bound
    follows from q and an upper bound τ on T. Take s ≤ 1 such that T = s Δ_k ≤ τ, and p = q + s (q̂ - q). Then (p -
    q)⁺ = s (q̂ - q)⁺ lies where q < q̂, and (p - q̂)⁺ = (1 - s) (q - q̂)⁺ where q > q̂ (or it is 0/0, for s = 1), so
    TV(r, r̂) = 1 and Bias = 2 T. Knowing T itself would be more: q = (.7, .3) and T = .25 leave two targets, and for
    both q̂_0 = (.5, .5) gives the right residual.
    """
    left = resampling_bias(target, draft, k)
    xp, _, p, q, k = pair_and_size(target, draft, k)
    return le(left, 2.0 * xp.minimum(distance(xp, p, q), worst_case_sides.deviation_side(xp, q, k)))


@theorem(
    "truncation.monotone_distortion",
    CUHLM("(19), were it solved by bisection"),
    IMPLIED,
    assuming=(NEXT, EXISTS),
    false={"target": [22 / 39, 13 / 39, 4 / 39], "draft": [21 / 39, 13 / 39, 5 / 39], "k": 0},
    condition=truncation_sides.inverse_distance,
)
def monotone_distortion(target, draft, k):
    """TV(r, r̂_{k+1}) ≤ TV(r, r̂_k): the distortion itself never rises with k (it can, by nearly 1).

    False: with a heavy middle token that q̂ flattens, the residual moves to it. q = (21, 13, 5)/39 and p = (22, 13,
    4)/39 give 0, .8 for k = 0, 1. With p = q + (x, 0, −x), x ≤ 1/39, they give 0 and 4/(4 + 39x): for x → 0 the rise
    tends to 1. Instead: truncation.monotone.
    """
    return le(
        resampling_distortion(target, draft, truncation_sides.after(draft, k)), resampling_distortion(target, draft, k)
    )


@theorem(
    "truncation.exact",
    EXACT,
    SOFTWARE,
    tight={**sizes_sides.TIGHT, "distortion_tolerance": 0.5},
    condition=truncation_sides.inverse_distance,
)
def exact(target, draft, distortion_tolerance):
    """TV(r, r̂_k) ≤ θ at the k* of (19), as the code finds it.

    (19) only defines k*. Proved is that ``exact_size``, which scans k from 0 and skips, finds it: it stops at the first
    k that meets (19), or at one that must, as Δ_k ≤ θ TV(q, p), by truncation.tvd_sharp. It skips n > k only if TV(r,
    r̂_k) - TV(q̂_k, q̂_n)/TV(q̂_k, p) > θ. Such an n fails: TV(r, r̂_n) ≥ TV(r, r̂_k) - TV(r̂_k, r̂_n), and TV(r̂_k, r̂_n) ≤
    TV(q̂_k, q̂_n)/TV(q̂_k, p) by the proof of tvd_sharp, which holds for any two distributions in the place of q and q̂
    (where r̂_n is 0/0, TV(r, r̂_n) is set to 1 > θ; for θ ≥ 1, k* = 0). Only the entries k < i ≤ n can rise from q̂_k to
    q̂_n, so TV(q̂_k, q̂_n) = Σ_{k < i ≤ n} (q_i - μ_k)⁺, with μ_k the mean of the tail at k; it rises with n.
    """
    return le(
        resampling_distortion(target, draft, exact_size(target, draft, distortion_tolerance)),
        sizes_sides.theta_side(distortion_tolerance),
    )


@theorem(
    "truncation.exact_least",
    EXACT,
    SOFTWARE,
    assuming=(Assumption("k* of (19) > 0", sizes_sides.sends_something),),
    tight={**sizes_sides.TIGHT, "distortion_tolerance": 0.4999},
    ratio=0.9998,
    condition=truncation_sides.inverse_distance,
)
def exact_least(distortion_tolerance, target, draft):
    """θ ≤ TV(r, r̂_k) for every k < k*, as the code finds k*: no fewer entries will do.

    By truncation.exact every k < k* was tested, or skipped, and fails (19). (19) asks for TV(r, r̂_k) ≤ θ, so θ is
    strictly below; what is checked is ≤.
    """
    left = sizes_sides.theta_side(distortion_tolerance)
    xp, p, q = arrays(target=target, draft=draft)
    k = exact_size(p, q, distortion_tolerance)
    sizes = xp.arange(q.shape[-1] + 1, device=q.device)
    every = resampling_distortion(p[..., None, :], q[..., None, :], sizes)
    exists = total_variation(p[..., None, :], truncate(q[..., None, :], sizes)) > NOISE
    return le(left, xp.min(xp.where((sizes < k[..., None]) & exists, every, xp.inf), axis=-1))


@theorem(
    "truncation.tvd_bound",
    PAPER,
    PRINTED,
    tight=TIGHT | {"target": [0.375, 0.375, 0.25]},
    ratio=0.5,
    ceiling=1.0,
    condition=truncation_sides.inverse_distance,
)
def truncation_tvd_bound(target, draft, k):
    """TV(r, r̂) ≤ 2 Δ_k / TV(q, p).

    T ≤ max(T, T̂), so 2 Δ_k / T is at least twice the sharp bound: the ratio never exceeds 1/2.
    """
    return le(resampling_distortion(target, draft, k), tvd_bound(target, draft, k))


@theorem("truncation.tvd_sharp", PAPER, NEW, tight=TIGHT, ceiling=1.0, condition=truncation_sides.inverse_distance)
def tvd_sharp(target, draft, k):
    """TV(r, r̂) ≤ Δ_k / max(TV(q, p), TV(q̂, p)).

    T = 0: nothing is rejected, and TV(r, r̂) is set to 0. T̂ = 0 < T: q̂ = p, so Δ_k = T and the bound is 1. Else, if T
    ≥ T̂, then ω/T̂ ≥ ω/T, so TV(r, r̂) = Σ (γ/T - ω/T̂)⁺ ≤ Σ (γ - ω)⁺ / T. Since x ↦ x⁺ never decreases and is
    1-Lipschitz, (γ - ω)⁺ ≤ (q̂ - q)⁺, whose sum is Δ_k. If T < T̂ exchange the roles.
    """
    return le(resampling_distortion(target, draft, k), tvd_bound_sharp(target, draft, k))


@theorem(
    "truncation.worst_case",
    CUHLM("Prop. 1, (20)"),
    NEW,
    assuming=(Assumption("0 < TV(q, p) ≤ the mass that is sent", worst_case_sides.sent_mass_suffices),),
    tight={"target": [0.4375, 0.3125, 0.125, 0.125], "draft": [0.5, 0.25, 0.125, 0.125], "k": 1},
    condition=truncation_sides.inverse_distance,
)
def worst_case(target, draft, k):
    """max TV(r, r̂) over all p with TV(q, p) = δ is min(1, Δ_k/δ), attained by the p that is constructed.

    If Δ_k = 0, then q̂ = q, and both sides are 0. Else let L be the tail's entries below μ and H those above it, so
    that Σ_L (μ - q_i) = Σ_H (q_i - μ) = Δ_k. The target raises L by f = min(δ, Δ_k) in all, none beyond μ, and one
    entry h of H by δ - f. Only sent entries lose. So (p - q)⁺ is f on L and δ - f at h, with sum δ = TV(q, p). (p -
    q̂)⁺ is 0 on L, q_i - μ on H, and δ - f more at h, with sum Δ_k + δ - f. If δ ≤ Δ_k, then f = δ, the two have
    disjoint supports, and TV(r, r̂) = 1. If δ > Δ_k, then f = Δ_k, both sums are δ, and TV(r, r̂) = Σ_L f/δ = Δ_k/δ. By
    truncation.tvd_sharp no target has more.
    """
    left = worst_case_sides.attacked(target, draft, k)
    xp, _, p, q, k = pair_and_size(target, draft, k)
    return eq(left, xp.clip(quotient(xp, worst_case_sides.deviation_side(xp, q, k), distance(xp, p, q)), max=1.0))


@theorem(
    "truncation.offline",
    OFFLINE,
    PRINTED,
    assuming=(DIFFER,),
    tight={
        "targets": [sizes_sides.TIGHT["target"]],
        "drafts": [sizes_sides.TIGHT["draft"]],
        "distortion_tolerance": 1.0,
    },
    ratio=0.5,
    condition=sizes_sides.largest_inverse,
)
def offline(targets, drafts, distortion_tolerance):
    """mean_t TV(r, r̂_k) ≤ θ at the k* of (21): by half, always.

    By half: the mean distortion is even at most θ/2. For TV(r, r̂) ≤ Δ_k/TV(q, p) = U/2 for each token (tvd_sharp), and
    mean U ≤ θ at k*.
    """
    xp, p, q = sizes_sides.many_side(targets, drafts)
    k = sizes_sides.offline_k(p, q, distortion_tolerance)
    return le(xp.mean(resampling_distortion(p, q, k[..., None]), axis=-1), sizes_sides.theta_side(distortion_tolerance))


@theorem(
    "truncation.offline_least",
    OFFLINE,
    PRINTED,
    assuming=(DIFFER, Assumption("k* of (21) > 0", sizes_sides.offline_sends)),
    tight={
        "targets": [sizes_sides.TIGHT["target"]],
        "drafts": [sizes_sides.TIGHT["draft"]],
        "distortion_tolerance": 0.999999,
    },
    ratio=0.999999,
    condition=sizes_sides.largest_inverse,
)
def offline_least(distortion_tolerance, targets, drafts):
    """θ ≤ mean_t U(k* − 1, t): no fewer entries meet (21).

    U falls with k (truncation.monotone), so bisection finds the least k.
    """
    left = sizes_sides.theta_side(distortion_tolerance)
    xp, p, q = sizes_sides.many_side(targets, drafts)
    k = sizes_sides.offline_k(p, q, distortion_tolerance)
    return le(left, xp.mean(tvd_bound(p, q, xp.where(k > 0, k - 1, 0)[..., None]), axis=-1))


@theorem(
    "truncation.softplus",
    CUHLM("(22) and below"),
    PRINTED,
    tight={"target": [0.5, 0.5], "draft": [0.5, 0.5], "sharpness": 2.0},
)
def softplus(target, draft, sharpness):
    """ℓ(z) − z⁺ ≤ ln 2/η, so Σ q_i ℓ(p_i/q_i − 1) − TV(q, p) ≤ ln 2/η.

    ℓ(z) - z⁺ = ln(1 + e^{-η|z|})/η, largest at z = 0; the q_i that weight it sum to at most 1 where q_i > 0.
    """
    return le(
        softplus_distance(target, draft, sharpness) - total_variation(target, draft),
        LN2 / checked({"sharpness": SHARPNESS}, sharpness=sharpness)[1],
    )


@theorem(
    "truncation.softplus_value",
    CUHLM("(22) and below"),
    PRINTED,
    tight={"target": [0.25, 0.25, 0.5], "draft": [0.5, 0.25, 0.25], "sharpness": 2.0},
    condition=softplus_sides.flatness,
)
def softplus_value(target, draft, sharpness):
    """the distance by softplus is Σ_i q_i ln(1 + exp(ηz_i))/η, z_i = p_i/q_i − 1, for every z and η.

    (22) term by term: ℓ(z) = ln(e⁰ + e^{ηz})/η for z = p_i/q_i - 1, and p_i where q_i = 0. The public functions
    split ℓ into its ReLU and the rest. This side does not, and shares no code with them.
    """
    left = softplus_distance(target, draft, sharpness)
    xp, p, q, eta = arrays("sharpness", target=target, draft=draft, sharpness=sharpness)
    eta = SHARPNESS.check(xp, "sharpness", eta)[..., None] + 0.0 * q
    some = (q > 0) & (p - q < 45.0 / eta * q)
    scaled = eta * xp.where(some, (p - q) / xp.where(some, q, 1.0), 0.0)
    return eq(left, xp.sum(xp.where(some, q * (xp.logaddexp(scaled, xp.zeros_like(scaled)) / eta), p - q), axis=-1))


@theorem(
    "truncation.online_bound",
    CUHLM("Prop. 2, (23), there with <"),
    PRINTED,
    tight={"target": [0.9375, 0.0625], "draft": [0.9375, 0.0625], "sharpness": 2.0**-10, "token": 0, "k": 0},
    ratio=0.9375 + 0.0625 * math.log1p(math.exp(-(2.0**-10))) / LN2,
)
def online_bound():
    """Û(k) ≤ Ū(k) = 2 Δ_k / D, D = (1 − q_d) ℓ(−1) + q_d ℓ(−β_d).

    ℓ rises, so ℓ(p_i/q_i - 1) ≥ ℓ(-1), and ℓ(p_d/q_d - 1) ≥ ℓ(-β_d), as p_d/q_d - 1 ≥ -β_d. Hence Σ q ℓ ≥ D. The
    ratio tends to 1 with p = q as η → 0 or q_d → 1. Print has <, a slip: where Δ_k = 0 both sides are 0, as at k = V,
    or at k = 1 for q = (.6, .2, .2). Where Δ_k > 0, they are equal only if p_d = q_d = 1.
    """
    return le(softplus_sides.approximate, softplus_sides.true_online)


# A draft that is rejected (β_d = 1/80), and ln 2/η = 0.035: the residual is one token, and its distortion is 1.
@theorem(
    "truncation.online_gap",
    CUHLM("Fig. 8, where Ū is an upper bound of the TVD, read without its moderate η"),
    IMPLIED,
    false={
        "target": [0.6171875, 0.1953125, 0.1875],
        "draft": [0.625, 0.1953125, 0.1796875],
        "token": 0,
        "k": 1,
        "sharpness": 20.0,
    },
    ceiling=1.0,
    condition=truncation_sides.inverse_distance,
)
def online_gap(target, draft, k, token, sharpness):
    """TV(r, r̂) ≤ Ū(k), with the true β_d, on any token and for any η; the paper asks for a moderate η and has sent
    tokens in mind, where it fails seldom.

    False: D is below Σ q ℓ but can be above 2 TV(q, p), for a small η by any factor. What follows
    the semicolon says how the paper means it, and is not claimed. Instead: truncation.online_safe.
    """
    return le(resampling_distortion(target, draft, k), softplus_sides.true_online(target, draft, token, k, sharpness))


@theorem(
    "truncation.online_safe",
    CUHLM("Prop. 2, (23)"),
    NEW,
    assuming=(Assumption("D ≤ 2 max(Δ_k, q_d β_d)", softplus_sides.safe),),
    tight={**softplus_sides.TIGHT, "sharpness": 1.6278145318315138},  # η*(0.625, 0.2), rounded up
    ceiling=1.0,
    condition=truncation_sides.inverse_distance,
)
def online_safe(target, draft, k, token, sharpness):
    """TV(r, r̂) ≤ Ū(k) where D ≤ 2 max(Δ_k, q_d β_d): for all η from η*(q_d, β_d) on.

    If D ≤ 2 Δ_k, then Ū ≥ 1. If D ≤ 2 q_d β_d: q_d β_d = (q_d - p_d)⁺ ≤ TV(q, p), so by tvd_sharp TV(r, r̂) ≤
    Δ_k/TV(q, p) ≤ Δ_k/(q_d β_d) ≤ Ū. Below η* the target of worst_case with the loss q_d β_d taken from d alone has
    TV(r, r̂) = Δ_k/(q_d β_d) > Ū(k) wherever 0 < Δ_k < q_d β_d and d is sent.
    """
    return le(resampling_distortion(target, draft, k), softplus_sides.true_online(target, draft, token, k, sharpness))


@theorem(
    "truncation.online_certified",
    CUHLM("Prop. 2, (23)"),
    NEW,
    assuming=(Assumption("q_d β_d > 0", softplus_sides.is_rejected),),
    tight=softplus_sides.TIGHT,
    ceiling=1.0,
    condition=truncation_sides.inverse_distance,
)
def online_certified(target, draft, k, token):
    """TV(r, r̂) ≤ Δ_k / (q_d b) for any b ≤ β_d (checked at b = β_d).

    TV(q, p) ≥ q_d β_d ≥ q_d b for every b ≤ β_d; the bound is smallest, and checked, at b = β_d.
    """
    left = resampling_distortion(target, draft, k)
    lost = truncation_sides.loss_at_draft(target, draft, token)
    xp, _, _, q, k = pair_and_size(target, draft, k)
    return le(left, quotient(xp, distance(xp, q, truncated(xp, q, k)), lost))


@theorem(
    "truncation.online",
    CUHLM("Remark 3, (24), with the distortion for the estimated distortion"),
    IMPLIED,
    false={
        "target": [0.5, 0.20875, 0.10375, 0.09375, 0.09375],
        "draft": [0.625, 0.10375, 0.10375, 0.08375, 0.08375],
        "token": 0,
        "sharpness": 1.0,
    },
    condition=truncation_sides.inverse_distance,
)
def online(target, draft, token, sharpness):
    """TV(r, r̂) ≤ θ at the k* of (24), with the true β_d, any η and θ = 0.1; the paper says that the estimated
    distortion is.

    False: Ū need not bound the distortion (online_gap), so the k of (24) need not keep it below θ, neither with the
    true β_d nor with a·u + b. Instead: truncation.exact, truncation.size_certified.
    """
    xp, p, q, token = arrays(target=target, draft=draft, token=token)
    token = token_of(q.shape[-1]).check(xp, "token", token)
    k = online_size(q, token, rejection_at(p, q, token), sizes_sides.TARGETED, sharpness=sharpness)
    return le(resampling_distortion(p, q, k), sizes_sides.aimed(draft))


@theorem(
    "truncation.size_certified",
    CUHLM("(24)"),
    NEW,
    tight={"target": [0.4502, 0.2998, 0.25], "draft": [0.5, 0.2998, 0.2002]},
    ratio=0.996,
    ceiling=2.0,
)
def size_certified(target, draft):
    """Bias ≤ ε at the smallest k with 2 Δ_k ≤ ε (checked for ε = 0.1).

    It is truncation.certificate at the chosen k.
    """
    return le(resampling_bias(target, draft, certified_size(draft, sizes_sides.TARGETED)), sizes_sides.aimed(draft))


@theorem(
    "truncation.online_direction",
    CUHLM("below (24)"),
    PRINTED,
    tight={"target": [0.75, 0.25, 0.0], "draft": [0.625, 0.25, 0.125], "token": 0, "k": 1, "sharpness": 5.0},
)
def online_direction(target, draft, token, k, sharpness):
    """Ū(k) at β_d/2 ≤ Ū(k) at β_d: the bound rises with the uncertainty, and the k of (24) with it.

    ℓ rises, so ℓ(-β_d) and D fall as β_d rises, and Ū rises. The distortion that it should bound falls: the largest
    distortion for a given β_d is min(1, Δ_k/(q_d β_d)), claim truncation.online_direction_worst.
    """
    return le(
        softplus_sides.online_side(target, draft, token, k, sharpness, 0.5),
        softplus_sides.true_online(target, draft, token, k, sharpness),
    )


@theorem(
    "truncation.online_direction_worst",
    CUHLM("below (24)"),
    NEW,
    assuming=(Assumption("d is among the k sent, and β_d > 0", worst_case_sides.draft_is_sent),),
    tight={"target": [0.4375, 0.375, 0.1875], "draft": [0.5, 0.375, 0.125], "token": 0, "k": 1},
    condition=worst_case_sides.inverse_loss,
)
def online_direction_worst(target, draft, token, k):
    """max TV(r, r̂) over all p with that β_d is min(1, Δ_k/(q_d β_d)), attained; it falls in β_d, so k may fall too.

    Apply worst_case with all of δ = q_d β_d lost at d, which is sent. The other entries do not lose, so the
    rejection probability is the given β_d. Since TV(q, p) ≥ q_d β_d, the largest distortion with that β_d is W(β_d)
    = min(1, Δ_k/(q_d β_d)), which falls as β_d rises.
    """
    left = worst_case_sides.lost_at_draft(target, draft, token, k)
    lost = truncation_sides.loss_at_draft(target, draft, token)
    xp, _, _, q, k = pair_and_size(target, draft, k)
    return eq(left, xp.clip(quotient(xp, worst_case_sides.deviation_side(xp, q, k), lost), max=1.0))
