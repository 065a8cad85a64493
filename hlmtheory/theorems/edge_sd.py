"""Theorems of edge-sd (zhu2025edgesd) from (7) to (33), but bounds on (28) before (20), and memory_each (24b) last.

The letters are the paper's, without its marks d and v for the draft and the verify model. K tasks, sorted ascending by
their input length I_k, have answers of O_k tokens. M batches: x_k^m = 1 if task k is in batch m, and I_m and O_m are
the longest of its b tasks, to which it is padded. A step drafts l tokens of each task; α is their acceptance rate and
L, (7), the mean tokens of a step; O_m takes ⌈O_m/L⌉ of the N steps. J layers have the width h₁, inside h₂; Γ_p, Γ_kv,
Γ_s: bytes of the weights, of a batch's cache, of the machine. Υ[i, n, 0] and Υ[i, n, 1]: end of drafting, of verifying
the first i tasks at step n, and Υ[i, 0, 0] their latency; S[i]: first task of their last batch; T_inf: latency of any
plan. w_k: share of the band of user k, with power p_k, gain g_k, noise σ² and an upload of λI_k bits, λ for a token.

here     d, v      F, C                                    B    K in (7)
edge-sd  T^d, T^v  C^d_{n,m}, C_{n,m}; F: FLOPs of a pass  B_w  l

Only here: t, c, new and cached tokens of a pass; D_m, V_m, sums of d and v over steps; t_k, the seconds of an upload;
η_k = log₂(1 + SNR_k), c_k = λI_k/η_k; ρ, weights of bounds; u_k, price of task k; s_m, share of the memory of batch m.
"""

from functools import partial

import numpy as np

from hlmtheory._array import arrays, to_numpy
from hlmtheory._domains import COUNT, UNIT_INTERVAL, numbers
from hlmtheory.batching import search
from hlmtheory.batching.planner import lower_bound, plan
from hlmtheory.claims import CORRECTED, IMPLIED, KNOWN, MISPRINT, NEW, PRINTED, Assumption, Source, eq, le, theorem
from hlmtheory.ofdma.shares import PER_USER, SIZES, sum_latency
from hlmtheory.serving.costs import memory_bytes, operations
from hlmtheory.serving.pipeline import partition_bound, recurrence, stage_pair
from hlmtheory.serving.shapes import BYTES, LENGTH, POSITIVE_COUNT, SECONDS
from hlmtheory.sides import run_sides, schedule_sides, wave_sides
from hlmtheory.sides.batching_sides import against, fits_each, planned, side
from hlmtheory.sides.host import host_side
from hlmtheory.sides.ofdma_sides import certified, first_share, latency_as_printed, latency_of_radio, least, times_side
from hlmtheory.sides.schedule_sides import model_side, product_side
from hlmtheory.sides.verification_sides import LONGEST_SUM, few_enough, terms
from hlmtheory.verification.tokens import expected_tokens, expected_tokens_profile, rate_and_length

BATCH = ("output_tokens", "acceptance", "draft_length")
COUNTS = ("model", "input_tokens", "output_tokens", "batch_size", "draft_length", "steps")
DOMAINS = {
    **dict.fromkeys(COUNTS, POSITIVE_COUNT),
    **dict.fromkeys(("draft_times", "verify_times"), SECONDS),
    "turns": COUNT,
    "acceptance": UNIT_INTERVAL,
}
steps_side = partial(host_side, DOMAINS | {"draft_length": COUNT}, {"output_tokens": 1})
peak_side = partial(host_side, DOMAINS, {"model": 1})
pipeline_side = partial(host_side, DOMAINS, {"draft_times": 2, "verify_times": 2, "steps": 1, "turns": 1})
band_side = partial(host_side, SIZES, dict.fromkeys(PER_USER, 1))

# One task: a prompt and an answer of one token each, and ten drafts.
PEAK = {"model": [1, 1, 1], "input_tokens": 1, "output_tokens": 1, "batch_size": 1, "draft_length": 10}
# Tasks, their batches (labels) and two machines: a pass takes c₁ s a FLOP, and c₂ s. The models have J = h₁ = h₂ = 1.
UNIT = {"acceptance": 1.0, "models": [[1, 1, 1]] * 2, "draft_length": 1}
# Two equal tasks, a batch each; a pass takes 1 s. SHORT: with answers of 4 tokens.
TWO = {**UNIT, "input_tokens": [1, 1], "output_tokens": [20, 20], "devices": [[0.0, 1.0], [0.0, 1.0]], "labels": [0, 1]}
SHORT = {**TWO, "output_tokens": [4, 4]}
BATCHING_UNIT = {**UNIT, "memory": np.inf}
# Two equal tasks. UNEVEN: two prompts of unequal length. TIGHT_MEMORY: each task fits alone, not both in one batch.
BATCHING_TWO = {**BATCHING_UNIT, "input_tokens": [1, 1], "output_tokens": [1, 1], "devices": [[0.5, 9.0], [0.25, 4.0]]}
UNEVEN = {**BATCHING_TWO, "input_tokens": [1, 2], "draft_length": 2, "devices": [[0.5, 1.0], [0.5, 2.0]]}
TIGHT_MEMORY = {**BATCHING_TWO, "memory": 24.0}
# Three tasks; the second ends a step before the others.
LEAVING = {
    **BATCHING_UNIT,
    "acceptance": 0.0,
    "input_tokens": [1, 2, 3],
    "output_tokens": [2, 1, 2],
    "devices": [[0.5, 18.0], [0.0, 9.0]],
    "labels": [0, 1, 0],
}
# Three tasks that end with their first step. LATE_DRAFTS: drafting takes longer than verifying.
ONE_STEP = {**BATCHING_UNIT, "input_tokens": [1, 1, 2], "output_tokens": [1, 1, 1], "draft_length": 2}
LATE_DRAFTS = {**ONE_STEP, "devices": [[0.5, 8.0], [0.25, 0.0]]}
# Seconds d and v of two batches: of one step, and of two steps, all 1 s.
PAIR = {"draft_times": [2.0, 3.0], "verify_times": [4.0, 1.0]}
SQUARE = {"draft_times": [[1.0, 1.0]] * 2, "verify_times": [[1.0, 1.0]] * 2, "steps": [2, 2]}
TIMES = ("draft_times", "verify_times", "steps")
# Two users of a band: by η, and by power and gain.
CELL = {"bits": [100.0, 100.0], "spectral_efficiency": [1.0, 4.0]}
RADIO = {"bits": [100.0, 100.0], "power": [0.5, 0.5], "gain": [0.5, 1.0], "noise": 0.25, "bandwidth_hz": 100.0}
BAND = (*CELL, "bandwidth_hz")

FITS = Assumption("every batch of the competitor is within the memory", against(fits_each, bool))
ALONE = Assumption(
    "every batch of the competitor, with its drafts, is within the memory", against(wave_sides.fit_alone, bool)
)
TOGETHER = Assumption("the competitor's batches are within the memory together", against(wave_sides.fit_together, bool))
RUNS = Assumption("the competitor's batches are runs of the sorted tasks, in order", run_sides.are_runs)
TABLE = Source("zhu2025edgesd", "Algorithm 1, (29)-(32)")
TABLE_END = side(lambda tasks, service, length: search.dynamic_program(run_sides.costs_side(tasks, service, length))[1])


@theorem(
    "verification.tokens_iid",
    Source("zhu2025edgesd", "(7)"),
    PRINTED,
    assuming=(Assumption("K ≤ 4,096, where the left side is summed term by term", few_enough),),
    tight={"acceptance": 0.5, "draft_length": 3},
    condition=terms,
)
def tokens_iid(acceptance, draft_length):
    """E[tokens] = Σ_n n P(N = n) = (1 − α^{K+1}) / (1 − α) for i.i.d. acceptance at rate α.

    P(at least j drafts accepted) = α^j; sum over j = 0..K.
    """
    xp, alpha, length = rate_and_length(acceptance, draft_length)
    alpha, length = xp.broadcast_arrays(alpha, length)
    tokens, reached = xp.zeros_like(alpha), xp.ones_like(alpha)
    largest = int(xp.max(length)) if 0 not in length.shape else 0
    for n in range(1, min(largest, LONGEST_SUM) + 2):
        stops = xp.where(length + 1 == n, reached, reached * (1.0 - alpha))
        tokens = tokens + xp.where(length + 1 >= n, float(n) * stops, 0.0)
        reached = reached * alpha
    return eq(tokens, expected_tokens(acceptance, draft_length))


@theorem("verification.tokens", Source("zhu2025edgesd", "generalises (7)"), NEW, tight={"acceptances": [0.5, 1.0]})
def verification_tokens(acceptances):
    """E[tokens] = Σ_n n P(N = n) = 1 + Σ_{j≤K} Π_{i≤j} α_i, α_i = P(accept i | 1..i−1 accepted).

    N - 1 = Σ_j 1{drafts 1..j accepted}. By the chain rule each indicator has mean Π_{i≤j} α_i, where α_i is the rate
    of draft i given that drafts 1..i-1 were accepted.
    """
    xp, alpha = arrays(acceptances=acceptances)
    ones = xp.ones((*alpha.shape[:-1], 1), dtype=alpha.dtype, device=alpha.device)
    reached = xp.concat([ones, xp.cumulative_prod(alpha, axis=-1)], axis=-1)
    stops = reached * xp.concat([1.0 - alpha, ones], axis=-1)
    return eq(
        xp.sum(stops * xp.arange(1, stops.shape[-1] + 1, dtype=alpha.dtype, device=alpha.device), axis=-1),
        expected_tokens_profile(acceptances),
    )


@theorem(
    "serving.printed_steps",
    Source("zhu2025edgesd", "(8), read as a mean"),
    IMPLIED,
    false={"output_tokens": [64] * 25, "acceptance": 0.8, "draft_length": 4},
)
def printed_steps():
    """⌈O_m / L⌉ = E[max_k N_k]: the decoding steps of a batch in the mean.

    False: for one sequence ⌈O/L⌉ can exceed the mean. For a batch it can be below the slowest one's mean (20 and 24.0
    in the counterexample) or above (2 and 1.06 for two sequences of O = 4, l = 3, α = .99).
    """
    return eq(steps_side(schedule_sides.printed_steps_side, *BATCH), steps_side(schedule_sides.slowest_side, *BATCH))


@theorem(
    "serving.memory",
    Source("zhu2025edgesd", "(9), (10), (24b)"),
    PRINTED,
    tight={"model": [1, 2, 3], "input_tokens": 5, "output_tokens": 10, "batch_size": 2},
)
def serving_memory(model, input_tokens, output_tokens, batch_size):
    """bytes of all matrices and of the cache = J (8 h₁² + 4 h₁ h₂) + 4 J h₁ (I + O) b.

    Four h₁×h₁ and two h₁×h₂ matrices a block; one key and one value of size h₁ a token and block; 2 bytes each.
    """
    layers, hidden, wide = model_side(model)
    prompt = numbers(POSITIVE_COUNT, "input_tokens", input_tokens)
    answer = numbers(POSITIVE_COUNT, "output_tokens", output_tokens)
    batch = numbers(POSITIVE_COUNT, "batch_size", batch_size)
    cached = 2 * hidden * (prompt + answer) * batch
    left = BYTES * layers * (4 * hidden * hidden + hidden * wide + wide * hidden + cached)
    return eq(left, memory_bytes(*model_side(model), prompt + answer, batch))


@theorem(
    "serving.memory_peak_printed",
    Source("zhu2025edgesd", "(10), were l drafts made at every step, (19); the text ends them at O_m"),
    IMPLIED,
    false=PEAK,
)
def memory_peak_printed():
    """Γ_p + the fullest cache of a batch ≤ Γ_p + 4 J h₁ (I + O) b, also with l drafts at every step.

    False: I = O = 1 and l = 10 caches 10 tokens in the first step. The text above (10) says that answer and
    drafts together do not exceed O_m tokens, with which (10) holds; (19) charges l passes at every step.
    Instead: serving.memory_peak.
    """
    return le(peak_side(schedule_sides.counted_peak, *COUNTS[:5]), peak_side(schedule_sides.printed_peak, *COUNTS[:4]))


@theorem("serving.memory_peak", Source("zhu2025edgesd", "(9), (10), (13)"), CORRECTED, tight=PEAK)
def memory_peak():
    """Γ_p + the fullest cache of a batch, over all patterns of acceptance = Γ_p + 4 J h₁ (I + O + l − 2) b.

    Before pass i of a step the cache holds all tokens but the last, and i - 1 drafts, (13); each pass adds one: I +
    g + l - 1 after l passes, g the tokens made before the step. A further step is needed while g ≤ O - 1, and steps
    of one token each reach g = O - 1.
    """
    return eq(peak_side(schedule_sides.counted_peak, *COUNTS[:5]), peak_side(schedule_sides.peak, *COUNTS[:5]))


@theorem(
    "serving.cost",
    Source("zhu2025edgesd", "(11)-(14)"),
    PRINTED,
    tight={"model": [1, 2, 3], "new_tokens": 5.0, "cached_tokens": 10.0},
)
def cost(model, new_tokens, cached_tokens):
    """operations of all matrix products = 4 J h₁ t (2 h₁ + h₂ + c + t), t tokens after c cached ones.

    A product of an a×b and a b×c matrix takes 2abc operations. For t new tokens after c cached ones a block makes t
    queries, keys and values and projects t outputs (8 t h₁²), compares t queries with c + t keys and mixes c + t
    values (4 t (c + t) h₁), and passes t tokens through h₁ → h₂ → h₁ (4 t h₁ h₂).
    """
    (layers, hidden, wide), t = model_side(model), numbers(LENGTH, "new_tokens", new_tokens)
    cached = numbers(LENGTH, "cached_tokens", cached_tokens)
    context = cached + t
    attention = (
        4 * product_side(t, hidden, hidden) + product_side(t, hidden, context) + product_side(t, context, hidden)
    )
    left = layers * (attention + product_side(t, hidden, wide) + product_side(t, wide, hidden))
    return eq(left, operations(*model_side(model), t, cached))


@theorem(
    "serving.pipeline",
    Source("johnson1954", "proof of the Rule, a longest path; edge-sd (20), (21)"),
    KNOWN,
    tight=PAIR,
)
def pipeline(draft_times, verify_times):
    """C_m = max(Σ_{i≤m} d_i, C_{m−1}) + v_m gives C_M = max_k (Σ_{i≤k} d_i + Σ_{i≥k} v_i).

    Unrolled, the recurrence takes the longest of the M paths through the two rows of the schedule: drafts 1..k, then
    verifications k..M.
    """
    left = recurrence(*stage_pair("draft_times", draft_times, "verify_times", verify_times))
    d, v = stage_pair("draft_times", draft_times, "verify_times", verify_times)
    paths = np.cumsum(d, axis=-1) + np.cumsum(v[..., ::-1], axis=-1)[..., ::-1]
    return eq(left, np.max(paths, axis=-1, initial=0.0))


@theorem(
    "serving.free",
    Source("zhu2025edgesd", "(20)-(22), without the barrier"),
    NEW,
    tight={"draft_times": [[1.0], [2.0]], "verify_times": [[3.0], [1.0]], "steps": [2]},
)
def free():
    """batches in turn without a barrier end no later than with a barrier at each step, (22).

    By induction over the operations: each begins when its machine and its batch are free, and with the barrier it
    waits for these two and for all other batches.
    """
    return le(pipeline_side(schedule_sides.free_in_turn, *TIMES), pipeline_side(schedule_sides.with_barrier, *TIMES))


@theorem(
    "serving.free_schedule",
    Source("zhu2025edgesd", "(20)-(22), without the barrier"),
    NEW,
    tight={**SQUARE, "turns": [0, 0, 1, 1, 0, 0, 1, 1]},
)
def free_schedule():
    """max(Σ D_m + min v, min d + Σ V_m, max_m (D_m + V_m)) ≤ T of any schedule of the two machines.

    The draft stage works Σ D_m, and its last batch is still to be verified; the verify stage begins after one first
    draft; a batch does its own operations one after another.
    """
    return le(
        pipeline_side(lambda values: partition_bound(*schedule_sides.schedule_side(values)), *TIMES),
        pipeline_side(schedule_sides.appended, *TIMES, "turns"),
    )


@theorem(
    "batching.memory_each",
    Source("zhu2025edgesd", "(24b) for each batch, read as the memory constraint of all that run together"),
    IMPLIED,
    assuming=(FITS,),
    false={**TWO, "memory": 138.0},
)
def memory_each():
    """batches that meet (24b) one by one meet the draft machine's memory Γ_s when they run together.

    False: (24b) limits each batch, and the cache of a batch stays between two of its steps, since (13) charges a
    later step for the new tokens only. The batches of one wave all run at every step, so all their caches are there
    at once; two that fill the memory each need it twice. Instead: batching.memory_together.
    """
    return le(against(wave_sides.cached_at_once), against(wave_sides.memory_side))


@theorem(
    "batching.memory_together",
    Source("zhu2025edgesd", "(24b), (10)"),
    CORRECTED,
    assuming=(TOGETHER,),
    tight={**TWO, "acceptance": 0.0, "memory": 172.0},
)
def memory_together():
    """if Γ_p + Σ_m Γ_kv,m ≤ Γ_s with I_m + O_m + l − 2 cached tokens a task, the caches always fit.

    The bytes cached at one time are at most the sum of the batches' largest caches.
    """
    return le(against(wave_sides.cached_at_once), against(wave_sides.memory_side))


@theorem(
    "ofdma.minmax",
    Source("zhu2025edgesd", "(26), (27)"),
    PRINTED,
    tight={**CELL, "weights": [0.8, 0.2], "bandwidth_hz": 100.0},
)
def minmax():
    """at a fixed SNR, t* = Σ_k λI_k/(B η_k) ≤ max_k t_k for all shares, attained by w_k ∝ λI_k/η_k.

    Let t be the last finish time: c_k ≤ t w_k B for all k. Summed over k: Σ c_k ≤ t B.
    """
    return le(
        band_side(lambda values: least(values, values["spectral_efficiency"]), *BAND),
        band_side(
            lambda values: float(times_side(values, values["spectral_efficiency"], values["weights"]).max()),
            *BAND,
            "weights",
        ),
    )


@theorem("ofdma.minmax_printed", Source("zhu2025edgesd", "below (26), as printed"), MISPRINT, false=RADIO)
def minmax_printed():
    """at a fixed SNR, t* = Σ_k λI_k/(B log₂(1 + p_k/(g_k σ²))), the gain in the denominator.

    (26) gives t* with log₂(1 + p_k g_k/σ²). The next line prints p_k/g_k, correct only if g_k = 1. Instead:
    ofdma.minmax.
    """
    return eq(band_side(latency_of_radio, *RADIO), band_side(latency_as_printed, *RADIO))


@theorem(
    "ofdma.minmax_kkt",
    Source("zhu2025edgesd", "(26)"),
    NEW,
    tight=CELL,
    condition=band_side(lambda values: float(len(values["bits"])), *CELL),
)
def minmax_kkt():
    """at a fixed SNR, certificate: at w_k ∝ λI_k/η_k all finish times are equal, Σw = 1, multipliers ≥ 0.

    At w_k = c_k/Σc every t_k is Σc/B. The multipliers are μ_k = w_k²/c_k over their sum, positive.
    """
    return eq(band_side(certified, *CELL), band_side(lambda values: 1.0, *CELL))


@theorem(
    "ofdma.sum",
    Source("zhu2025edgesd", "(26), for the sum in place of the maximum"),
    NEW,
    tight={**CELL, "weights": [2.0, 1.0], "bandwidth_hz": 100.0},
)
def sum_():
    """at a fixed SNR, (Σ_k √(λI_k/η_k))²/B ≤ Σ_k t_k for all shares, attained by w_k ∝ √(λI_k/η_k).

    Cauchy–Schwarz: (Σ √c_k)² = (Σ √(c_k/w_k) √w_k)² ≤ Σ c_k/w_k · Σ w_k, with equality for w_k ∝ √c_k.
    """
    return le(
        band_side(lambda values: float(sum_latency(*(values[name] for name in BAND))), *BAND),
        band_side(
            lambda values: float(times_side(values, values["spectral_efficiency"], values["weights"]).sum()),
            *BAND,
            "weights",
        ),
    )


@theorem(
    "ofdma.own_gain",
    Source("zhu2025edgesd", "Remark 1, from (27)"),
    PRINTED,
    tight={"bits": [100.0, 100.0], "snr": [1.0, 3.0], "boost": 1.0},
    ceiling=1.0,
)
def own_gain():
    """at a fixed SNR, a user's share never rises with its own power or gain.

    Fixed means that SNR_k does not depend on w_k. w_k = c_k/(c_k + the others' sum) rises with c_k, and c_k falls as
    SNR_k rises.
    """
    return le(
        band_side(lambda values: first_share(values, float(values["boost"])), "bits", "snr", "boost"),
        band_side(lambda values: first_share(values, 1.0), "bits", "snr", "boost"),
    )


@theorem(
    "batching.lower_bound",
    Source("zhu2025edgesd", "(20)-(22), (28)"),
    NEW,
    assuming=(FITS,),
    tight={**UNEVEN, "input_tokens": [1], "output_tokens": [1], "labels": [0]},
)
def batching_lower_bound():
    """for any 0 ≤ ρ_n ≤ 1, T_inf with a barrier is at least max_k (D_k + V_k), and at least Σ over pieces of the least,
    over runs, of Σ_n [ρ_n (Σ_m d_m + min v) + (1 − ρ_n) (min d + Σ_m v_m)], where one run of all tasks counts Σ_n (d_1
    + v_1).

    At least one verification comes after all drafts, and at least one draft before all verifications: C_M ≥ Σ d +
    v_last ≥ Σ d + min v, and C_M ≥ d_first + Σ v; one batch takes d + v, which is both. A maximum is at least every
    mean. If the tasks that leave before a piece ends are removed, batches only get shorter. If all O are set to their
    minimum, runs suffice: in the order of the longest prompts, runs of the same sizes have no longer prompts. The least
    over runs is that of a shortest path. A task's own operations follow one another: D_k + V_k. The code takes the
    largest over some ρ, and with it the bounds of serving.free_schedule, which hold with a barrier too (serving.free):
    their least over M, of the sums over runs and of the chain of a batch of ⌈K/M⌉ tasks, if all O are equal.
    """
    return le(side(partial(lower_bound, memory_rule="each")), against(run_sides.worth))


@theorem(
    "batching.facility_bound",
    Source("zhu2025edgesd", "(20)-(22), (28), the memory shared, any answers"),
    NEW,
    assuming=(ALONE,),
    tight={**SHORT, "output_tokens": [2, 4], "memory": 28.0},
)
def facility_bound():
    """Σ_k u_k + Σ_n W_n (ρ_1 min v + ρ_2 min d) ≤ T_inf with a barrier for any ρ_1 + ρ_2 + ρ_3 = 1, each ≥ 0, at each
    step n, if Σ_{k ∈ m} u_k ≤ Σ_n [ρ_1 d_m + ρ_2 v_m + ρ_3 (s_m (d_m + v_m) + (a + b) s_m (1 − s_m)/2)] for each m.

    A wave is the batches that run, and fit the memory, together; the next begins when all of them are done. Without a
    limit ρ_3 = 0. Step 1, one decoding step of a wave, in seconds. Three bounds: (i) Σ d_m + min v; (ii) min d + Σ v_m;
    (iii) Σ [s_m (d_m + v_m) + (a + b) s_m (1 − s_m)/2]. For (iii): the step takes at least d_m + v_m, the drafts of the
    batches before m, and the verifications of those after it. Weigh this by s_m and add: with Z = Σ s_m the step times
    Z is at least Σ s_m (d_m + v_m) + (a + b) Σ s_m s_p over all pairs, whatever the order, and the pairs are (Z² − Σ
    s_m²)/2. Divide by Z ≤ 1; each s_m (d_m + v_m) ≥ (a + b) s_m². Step 2, all steps. At least W_n waves are active at
    step n. So each bound is a sum over batches and W_n times the least v, the least d and 0. The sum over the steps of
    the largest of the three is at least their mean with weights ρ. Step 3, prices. What the batches add to this mean is
    at least Σ_m Σ_{k ∈ m} u_k = Σ_k u_k. The code finds ρ and u_k by linear programs and compares the dearest tasks of
    each size with each (I_m, O_m). A plan is no slower if its tasks are rounded down, and needs no more memory.
    """
    return le(side(partial(wave_sides.by_facilities, "barrier")), against(wave_sides.johnson_side))


@theorem("batching.exact", Source("zhu2025edgesd", "(28)"), NEW, assuming=(FITS,), tight=LEAVING)
def exact():
    """for any output lengths, the search gives the fastest partition, each step in its best order.

    All partitions are tried, or excluded by the bound of batching.lower_bound. With a barrier the steps add up, so each
    may be ordered by itself: first the batches with d < v, the shortest d first, then the others, the longest v first,
    which is the fastest order of jobs on two machines in turn (Johnson 1954).
    """
    return le(planned("exact"), against(run_sides.worth))


@theorem("batching.dp_printed_value", Source("zhu2025edgesd", "(29), Algorithm 1 line 15"), MISPRINT, false=UNEVEN)
def dp_printed_value():
    """with max{Υ[j−1,n,0], Υ[j−1,n,1] + T^d} in (29), Υ[K,0,0] is the latency (22) of the batches found.

    False: (29) adds T^d to the finish time of the verify stage. By (31) and (32) it belongs to that of the draft
    stage. Instead: batching.dp.
    """
    return eq(side(run_sides.printed_value), side(run_sides.printed_runs))


@theorem(
    "batching.dp_printed_objective",
    Source("zhu2025edgesd", "(29), Algorithm 1 line 15"),
    MISPRINT,
    false=BATCHING_TWO,
)
def dp_printed_objective():
    """minimising (29) as printed gives the fastest last batch after the batches found for the tasks before it.

    False: for the two tasks of the counterexample its choice takes 49, and 48 is possible; see
    batching.dp_printed_value. With (29) mended it is true: by batching.dp what is minimised is the latency. That the
    batches before the last one are the fastest too is another claim, batching.dp_gap, and false. Instead: batching.dp.
    """
    return le(planned("dp-printed-objective"), side(partial(run_sides.best_last, printed=True)))


@theorem(
    "batching.dp_printed_choice",
    Source("zhu2025edgesd", "Algorithm 1 lines 16-18"),
    MISPRINT,
    false={**UNEVEN, "input_tokens": [1], "output_tokens": [1]},
)
def dp_printed_choice():
    """S[K] names the first task of the last batch: 1 ≤ S[K].

    False: line 18 leaves S[i] at 0 if the best batch starts at task 1. Instead: batching.dp.
    """
    return le(
        side(lambda tasks, service, length: 1.0),
        side(
            lambda tasks, service, length: float(
                search.printed_program(run_sides.costs_side(tasks, service, length)).choice[-1]
            )
        ),
    )


@theorem("batching.dp_printed_memory", Source("zhu2025edgesd", "Algorithm 1 lines 11-17"), MISPRINT, false=TIGHT_MEMORY)
def dp_printed_memory():
    """Υ[K,0,0] is at least a lower bound on the latency, also where a batch that starts at task 1 is skipped.

    False: if j = 1 is skipped because of its memory, Υ[i,0,0] keeps its initial 0, and no later j has a smaller
    value. Instead: batching.dp.
    """
    return le(side(partial(lower_bound, memory_rule="each")), side(run_sides.printed_value))


@theorem(
    "batching.dp_printed_packing",
    Source("zhu2025edgesd", "Algorithm 1 lines 24-26, (24c)"),
    MISPRINT,
    false=BATCHING_TWO,
)
def dp_printed_packing():
    """Σ_k Σ_m x_k^m = K: the backtrack packs every task once.

    False: lines 24-26 pack from S[i] to i for every i, not only for the ends of batches, so tasks are packed more
    than once. Instead: batching.dp.
    """
    return eq(side(run_sides.packed_side), side(lambda tasks, service, length: float(len(tasks))))


@theorem("batching.dp", TABLE, CORRECTED, tight=UNEVEN)
def dp():
    """with max{Υ[j−1,n,0] + T^d, Υ[j−1,n,1]} in (29), Υ[K,0,0] is the latency (22) of the batches found.

    By induction over i the table's row holds F and C of the runs chosen so far, (31) and (32), so that the value Σ_n
    max(F + d, C) + v is (22) of those runs. It is not the minimum over all runs: the state kept for a prefix has the
    smallest Σ_n C, but another state with a smaller F, or a smaller C at the steps where the second stage is late,
    may be better for a later batch.
    """
    return eq(TABLE_END, planned("dp"))


@theorem(
    "batching.dp_gap",
    Source(
        "zhu2025edgesd",
        'Algorithm 1, line 27: "return Optimal batching decisions"; below (32): "we obtain the minimum inference '
        'latency for processing all tasks"; above (29): "achieved by the algorithm"',
    ),
    PRINTED,
    assuming=(FITS, RUNS),
    false={**LATE_DRAFTS, "labels": [0, 0, 1]},
)
def dp_gap():
    """Algorithm 1, repaired, gives the fastest batches of consecutive sorted tasks.

    False: at the counterexample's one step the batches {1}, {2}, {1, 2} and {3} take (d, v) = (34, 18), (34, 18), (52,
    36) and (48, 28). The table keeps the earliest end of tasks 1 and 2, 86 apart against 88 together, and so ends at
    max(68 + 48, 86) + 28 = 144. Together they free the drafts at 52, and all ends at max(52 + 48, 88) + 28 = 128. One
    state for each prefix is not enough (batching.dp). Instead: batching.pareto.
    """
    return le(planned("dp"), against(run_sides.as_given))


@theorem("batching.pareto", TABLE, NEW, assuming=(FITS, RUNS), tight={**LATE_DRAFTS, "labels": [0, 0, 1]})
def pareto():
    """the search over undominated (F, C) gives the fastest batches of consecutive sorted tasks, run in order.

    C' = max(F + d, C) + v and F' = F + d never fall when F or C rise. If a ≤ b in every entry of two labels, every
    completion of b by runs is no faster than the same completion of a, so b can be removed.
    """
    return le(planned("pareto"), against(run_sides.as_given))


@theorem(
    "batching.draft_count",
    Source("zhu2025edgesd", "(33), (33a) with l_max = 10 of Table II"),
    PRINTED,
    assuming=(Assumption("l ≤ 10", lambda draft_length: to_numpy(draft_length) <= 10),),
    tight=BATCHING_TWO,
)
def draft_count():
    """enumeration gives the fastest draft count l in 1..10, each l with the batches of Algorithm 1, repaired: (33) with
    the best batches of each l is not claimed.

    (33) tries all draft lengths; what it finds is at most Υ[K, 0, 0] of the table of batching.dp at every l, which the
    right side fills by itself. By batching.dp_gap these batches need not be the fastest.
    """
    return le(side(lambda tasks, service, length: plan(tasks, service, "dp", memory_rule="each").latency), TABLE_END)
