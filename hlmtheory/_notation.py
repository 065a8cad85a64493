"""What each symbol of a claim means: of its module's docstring, of :data:`NOTATION`, the most special meaning first."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib import import_module

from hlmtheory.claims import Claim

NOTATION = {
    "*": """
        q: draft model's distribution of the next token
        p: target model's distribution of the next token
        law: distribution of the token, or of the text, that is emitted
        TV: total variation distance, TV(q, p) = ½ Σ_v |q_v − p_v|
        v: a token
        V: tokens of the vocabulary
        """,
    "verification.*": """
        d: the draft token, drawn from q
        N: tokens of a round: the accepted drafts and one more
        T: TV(q, p)
        α_i: acceptance rate of draft i, given that the drafts before it were accepted
        """,
    "vocabulary.*": "",
    "verification.interval_varying": """
        δ: probability that the interval ever misses
        A: 1 if a draft is accepted, else 0; S: its sum
        """,
    "verification.block_*": """
        x: the text; x_i its token i
        w_i: weight of the first i drafts, w_0 = 1, w_i = min(1, w_{i−1} p(x_i)/q(x_i))
        S_i: Σ_v (w_i p(v) − q(v))⁺ for the token after i drafts
        h_i: probability that the block of i drafts passes: S_i/(S_i + 1 − w_i), and h_K = w_K
        τ: drafts that are kept
        q̂: a quantised q
        Q, P: probability of a text, or of its first i tokens, by the draft and the target model
        """,
    "verification.multi_draft_*": """
        n: drafts of a position
        H: a set of tokens; q(H), p(H): its probability
        """,
    "verification.top_drafts": """
        n: drafts of a position
        G: the n − 1 most probable tokens of q
        q′: q without G, normalised
        H: a set of tokens; A: the set of the drafts
        """,
    "verification.ensemble*": "w: weight of the target model in the ensemble",
    "verification.misdeclared*": "q′: the distribution that drafts are drawn from",
    "verification.lossy_*": """
        a: probability that a draft is accepted, for each token
        A: acceptance rate Σ_v q_v a_v
        e: TV(law, p); e_i what draft i is accepted more often than without loss
        y: (1 − A) r, what rejected drafts are replaced from
        δ, π: weight of the target model in the cascade; what the cascade takes as the target
        Q_i, P_i, L_i: law of the first i drafts; of the target's first i tokens; of the first i tokens emitted
        """,
    "verification.tree*": """
        q_i, p_i: the distribution of child i, and the target when it is tried: p after the rejections before it
        x_i: child i of a node; m: its children
        π_v: probability that v is among the children
        """,
    "verification.update_*": """
        v: a version of the target model; 0 is the one before the update
        α(v): acceptance rate with version v
        p_v: the distribution of version v
        E_v: mean over the texts of version v
        KL: Kullback–Leibler divergence
        P, Q: two distributions
        """,
    "uncertainty.*": """
        d⁽ᵐ⁾: the token of sample m, drawn at the temperature θ⁽ᵐ⁾
        x̃: softmax of the logits at that temperature
        """,
    "skipping.*": """
        r: the residual (p − q)⁺, normalised
        f: density of u; on {0, 1/M, …, 1} the probability of each value
        T: TV(q, p)
        M: samples of u
        s′: exponent with 1/s + 1/s′ = 1
        x: a text of the target model; x_t its token t
        S_t: law of the system's token t, given the tokens before it
        in cu-hlm: x, y for q, p
        """,
    "skipping.holder_discrete": "s: exponent, above 1",
    "skipping.audit_*": """
        μ_t: risk of skipping at token t, Σ_v q_v s_v β_v, given the past
        ε: the mean risk to certify
        δ: probability of a false certificate
        λ: bet, fixed in advance; λ_t may change
        M_t: wealth Π_{i≤t} (1 + λ(ε − X_i)), averaged over fixed λ
        X_t: β/π at an audited token (a share π is), 0 at all others
        """,
    "skipping.bill*": """
        q̂⁽ᵈ⁾: the distribution that the server has if draft d is sent
        r̂⁽ᵈ⁾: (p − q̂⁽ᵈ⁾)⁺, normalised
        Δ: Δ⁽ᵈ⁾ = TV(q, q̂⁽ᵈ⁾), known to the device
        bill: the bound on TV(law, p) that skips and messages add up to
        S: Σ_v q_v (1 − s_v) β_v, what is rejected
        A: Σ_v q_v s_v, the share of drafts that are skipped
        """,
    "skipping.c*": """
        n: prompts of the calibration
        L_i(λ): loss of prompt i at the threshold λ
        λ̂: the threshold that the rule chooses
        ε: the loss that is allowed in the mean
        δ: probability that the mean loss is larger
        R(λ): mean loss of a prompt at λ
        """,
    "truncation.*": """
        T: TV(q, p)
        T̂: TV(q̂, p)
        γ, ω: (p − q)⁺ and (p − q̂)⁺
        Bias: Σ_v |law_v − p_v| of the emitted token
        d: the draft token
        β_d: probability that d is rejected, (1 − p_d/q_d)⁺
        μ: mean of the probabilities that are not sent
        θ: tolerance of the distortion TV(r, r̂)
        ε: tolerance of the Bias
        k*: the k that a rule chooses
        U: (20), 2 Δ_k/TV(q, p) at token t
        ℓ: softplus, ℓ(z) = ln(1 + e^{ηz})/η
        η: sharpness of the softplus
        z: p_v/q_v − 1
        D: (1 − q_d) ℓ(−1) + q_d ℓ(−β_d)
        Û: (20) with Σ_v q_v ℓ(p_v/q_v − 1) in place of TV(q, p)
        Ū: the bound of (23), 2 Δ_k/D
        b: a lower bound of β_d
        δ: TV(q, p)
        q′: the distribution that drafts are drawn from
        q̂^(d): the distribution that the server has if d is the draft
        m: drafts of a position
        in cu-hlm: x, y, p, q for q, p, r, r̂
        """,
    "truncation.partial*": """
        A, B: tokens that the list of p names; that the list of q names
        R: probability that a list leaves out; R_p, R_q of p and q
        c: least listed probability, which no unlisted one exceeds; c_p, c_q of p and q
        S: a set of tokens
        m: tokens of S that neither list names
        x, y: tokens outside of S that q does not list, and tokens of S that p does not list
        l, h: bounds of p_v, the same number where it is listed
        l′, h′: bounds of q_v
        n: tokens that a list leaves out
        j: ⌊k/2⌋
        """,
    "truncation.partial_box_bias": """
        a, b: (p − q)⁺ and (p − q̂)⁺; s: T/T̂
        e: half the width of a quantised log-probability
        """,
    "lattice.*": """
        C(n, k): binomial coefficient
        N_rej: rejected drafts of a text
        dropped: mass of q outside of X; dropped_n at position n
        q_n, p_n, K_n, ℓ_n, D_n: q, p, K, ℓ, D at position n, given its prefix
        x: a token; x_i = ℓ q̄_i in a proof
        c: counts of a competitor
        f: remainders x − ⌊x⌋
        r: units that are missing after rounding down
        """,
    "lattice.misdeclared": "r: the residual (p − q̂)⁺, normalised",
    "codec.*": """
        Bias: Σ_v |law_v − p_v| of the emitted token
        q̄: kept part of q, normalised
        q̂: the distribution that the server decodes; q̂^(d) for the draft d
        Δ_k: TV(q, q̂) of top-k
        k, b: probabilities that are sent, and bits of each
        K, ℓ: tokens of a lattice message, and units that 1 is divided into
        ε: tolerance of the bias Σ_v |q_v − q̂_v|
        E: the budget of bias of a text; E_k in a proof: error of the k rounded values
        """,
    "conformal.*": """
        n: position
        K_n: tokens kept at position n
        c: scale of η = c/√T
        O(√T): order of growth
        in c-sqs: β, α for τ, ε
        """,
    "conformal.rate": "d: scale of ε = d/√T; d_n: mass dropped at position n",
    "conformal.resampled": "T^t: accepted drafts of batch t",
    "conformal.budget": "a_n, b_n: the mass that position n may drop, and what is left of it",
    "channel.*": """
        B: bits of the message
        W: bandwidth, Hz
        b_prob: bits of a probability
        S: the signal-to-noise ratio of a fading block
        SNR: signal-to-noise ratio, as a factor
        m: the mean of S
        κ: the Rician factor
        f: the density of S
        a, b: the range of S
        K: drafts of a round
        α_i: acceptance rate of draft i, given that the drafts before it were accepted
        ᾱ: the mean of α_1 … α_K
        E₁: exponential integral
        χ²: chi-squared distribution
        I₀: modified Bessel function
        """,
    "channel.latency": "I: mutual information, bit a symbol; mmse(s): least mean square error at the ratio s",
    "channel.outage": "R: rate, bit/s per Hz; p: probability of an outage; F: distribution function of the rate",
    "channel.throughput_means": "t: seconds of a round; n: rounds",
    "channel.split_bits": "b: bits of a probability",
    "channel.leak_*": """
        H: entropy, bits
        R: messages of a text
        T: the text
        N: tokens of the text
        m: sizes that a message may have
        w, s̄: how often a message is sent, and its size after padding
        """,
    "channel.downlink_truncated": "p̂: the distribution that is sent down; q: the draft model's",
    "ofdma.*": """
        λI_k: bits that user k uploads
        B: bandwidth, Hz
        η_k: log₂(1 + SNR_k)
        SNR: signal-to-noise ratio, as a factor
        w_k: share of the band of user k
        c_k: λI_k/η_k
        t_k: seconds of the upload of user k
        p_k, g_k, σ: power, gain, and standard deviation of the noise
        """,
    "draft_length.*": """
        K: drafts of a round; K* the best, K_max the most
        E(K): tokens of a round, in the mean
        F, M: seconds of a round without drafts, and of each draft
        T(K): F + K M, seconds of a round
        ETGR: E(K)/T(K), tokens a second
        γ: acceptance rate, the same for every draft
        γ̂: the rate that is believed or measured, E[τ/K]
        K̂: best length for γ̂
        τ: accepted drafts of a round
        α_d: acceptance rate of draft d, given that the drafts before it were accepted
        S(d): probability that the first d drafts would be accepted
        d: depth, the place of a draft in its round
        k: drafts of a round that occurred; i of them were accepted
        K′: another length
        a: −ln γ; c: a (F/M − 1); v: root of e^v − 1 − v = c
        u: K + 1
        R: rate of the link, bit/s
        O, b: bits of the header, and of a token
        F₀, m₀: seconds of a round and of a draft without what is sent
        delay: seconds of the link, there and back
        """,
    "draft_length.censored*": """
        n: share of the rounds with that k and i; E n its mean
        L: drafts that would be accepted
        G(d): probability that a round drafts d tokens or more
        """,
    "draft_length.position_floor": """
        H(d): probability that d drafts or more are accepted
        g_d: probability that depth d is drafted if depth d − 1 is
        """,
    "draft_length.marginal_*": "k: place of a draft; i: places up to it",
    "draft_length.greedy_*": """
        K: drafts in the budget; D: the most
        R(K): E(K)/T(K), tokens a second
        """,
    "draft_length.light_*": "P: drafts of a step; μ, μ₂: means of the surprisal log 1/p and of its square",
    "draft_length.mean_floor": "m: mean of the accepted drafts in rounds of k; K: the length that is asked about",
    "draft_length.split": "L: drafts that would be accepted, at a place of the text",
    "draft_length.adaptive_depths": """
        k_t: drafts of round t
        r_d, a_d: rounds that examined depth d, and those that accepted it
        δ_d: probability of an error at depth d
        """,
    "draft_length.delay_threshold": "c_K: the critical delay of K, in units of M; x: (F + delay)/M",
    "draft_length.delay_one": "c_K: the critical delay of K, in units of M",
    "draft_length.online_regret": """
        K_t: drafts of round t
        X*: the most tokens a second of any K
        N_d: rounds that examined depth d
        r(n): radius of an interval after n rounds
        W(N): Σ_{n<N} min(1, 2 r(n))
        T: in W(T), rounds
        v: tokens that the fastest length writes in the range of the delay
        """,
    "serving.*": """
        J: layers of the model
        h₁, h₂: width of the model, and of its inner layer
        I, O: tokens of a prompt and of its answer
        b: sequences of a batch
        l: drafts of a step
        t, c: new tokens, and tokens in the cache
        d_i, v_i: seconds in which batch i is drafted, and verified
        C_m: time at which batch m is verified
        M: batches
        D_m, V_m: Σ d and Σ v of batch m over its steps
        T: time at which all is done
        """,
    "serving.printed_steps": "N_k: steps of sequence k; L: mean tokens of a step; O_m: tokens of an answer",
    "serving.goodput*": """
        K: drafts of a round
        B: sequences in the batch
        E: tokens of a round and sequence, in the mean
        T_K: F_K + B S_K, seconds of a round with K drafts; T_0 without
        F_K, S_K: seconds of a round for all, and for each sequence
        G: gain E T_0(B) − T_K(B) = u + v B
        u, v: G(B) = u + v B
        b, c, C: seconds a new token, seconds a cached token, and cached tokens; c_d of the draft model
        B*: the batch at which both are equally fast
        load: tokens a second that all users together ask for
        """,
    "serving.load_poisson": """
        n: sequences in the server
        π(n): probability of n sequences
        F, S: seconds of a round for all, and for each sequence
        T(n): F + n S
        E: tokens of a round and sequence, in the mean
        load: tokens a second that all users together ask for
        """,
    "batching.*": """
        d, v: seconds in which a batch is drafted, and verified, at a step
        n: decoding step
        O, I: tokens of an answer, and of a prompt
        F, C: times at which drafting and verifying end, at each step
        m: a batch
        l: drafts of a step
        K: tasks
        T^d: seconds in which the batch is drafted
        Υ: [i, n, 0] and [i, n, 1]: end of verifying, of drafting the first i tasks at step n; n = 0: the sum
        S[i]: first task of the last batch of the first i tasks
        x_k^m: 1 if task k is in batch m
        Γ_p, Γ_kv, Γ_s: bytes of the weights, of the cache of a batch, and of the machine
        """,
    "batching.facility_bound": """
        u_k: price of task k, seconds
        λ: weight of each of the three bounds of a step
        tails: what each of these has beyond its sum over batches
        c: seconds that a batch adds
        T_inf: latency of any plan
        """,
    "policy.*": """
        K: drafts of a round
        E(K): tokens of a round, in the mean
        V(K): seconds of the server's pass for a round, s + s′ (K + 1)
        s, s′: seconds of a pass, and of each token in it
        t_s, t_d: seconds of a draft on the server, and on the device
        B: users in a pass
        N: users
        σ(K): s/B + s′ (K + 1), seconds of the server for a round
        ω, w, X: weight of a user, its share of the band, its tokens a second
        ν, η: prices of the band and of the server
        g: the bound at these prices
        X*(w): most tokens a second with the share w
        Y(w): the same, less the price of the server
        β, β̂: probability that a skipped draft would be rejected, and what is charged for it
        θ: tokens a second of the plan
        μ: price of risk
        ρ: the risk that is allowed for each token
        α_j: acceptance rate of draft j, given that the drafts before it were accepted
        Δ: largest TV(q, q̂) of the messages
        λ_K: share of the rounds with K drafts
        V_K, T_K: largest value of a round with K drafts, and the mean of its shortest time
        """,
    "policy.band_price": "U: utility of the tokens a second",
    "policy.served_price": """
        d: seconds of the server for a token
        A, b: seconds of a round without sending, and its bits
        z: seconds a bit, with the share w
        """,
    "policy.fading_cut": """
        SNR: signal-to-noise ratio, as a factor
        S: the signal-to-noise ratio of a fading block
        D, W: bits of the message, and bandwidth in Hz
        τ: seconds of the server
        x: seconds of sending that a skip is worth
        """,
    "policy.spin_*": """
        w: share of the band that a user's drafts take
        g: tokens of the drafts that are added in this order
        W: seconds of the round
        K, t, c: drafts of a user, seconds of a draft, seconds of sending one on the whole band
        α: acceptance rate of the user
        """,
    "policy.colocated_streamed": """
        t, V: seconds of a draft, and of a pass
        α: acceptance rate
        R, W: seconds of the round trip, and of the mean wait for a pass
        """,
    "lossless.*": """
        Q_t, P_t: the sampler's law and the target's of draw t, given the draws before
        W_t: wealth after t draws
        bound_t: distance_bound after t draws
        x: a draw; in a text, the tokens before
        n: draws
        D: f(x) − P f, what a draw adds
        λ′: a bet, with the sign of its side
        K, J: functions f, and bets, of which a wealth is the mean
        M: cells of outcomes
        """,
    "shared_seed.*": """
        t_v: P(a = b = v)
        M_v: 1/t_v
        u: another token
        Q, P: sum of the q_w, and of the p_w, that are the larger of the two in M_v
        K: drafts of a round
        τ: variable of the integral: the time of the race
        """,
    "shared_seed.message_value_any": "law: of the drafts",
}
"""Symbols and meanings by the ids that they are of, from the most general; one that is named again is replaced."""

_LETTER = r"[A-Za-zͰ-Ͽℓ][̀-ͯ]*"
_WORDS = r"N_rej|b_prob|dropped|bound_t|bill|load|law(?=_|,| [-−]| p\b)|delay|tails|Bias|SNR|ETGR|TV|KL|λI_\w|T_inf"
_SYMBOL = re.compile(rf"(?<![\w'’\\⁺])({_WORDS}|{_LETTER}[′']?)(?![^\W\d_₀-₉]|-[A-Z])(_\w+|\(\w\))?")
_WORD_A = re.compile(r"\b[aA](?= (?!and|by|has|is)[a-z]{2})")
_NO_SYMBOL = re.compile(r"\bE(?=[\[_])|\bP(?=\()|``.*?``|[a-z_]+\.[a-z_]+")
BOUND = frozenset("aeijnstvxPΣΠ")
"""Letters that a text uses as an index, as Euler's number, or as a sign of its own."""


def base(symbol: str) -> str:
    """Return a symbol without its index: K for K_n, q̂ for q̂^(d), α for α(v)."""
    found = _SYMBOL.match(symbol)
    return found[1] if found else symbol


def used(text: str) -> dict[str, set[str]]:
    """Return the symbols that a text uses, without their indices, and the forms of each: T of T_0 and T_K."""
    text = re.sub(r"(?<=[Α-Ωα-ω])(?=[A-Za-zΑ-Ωα-ω])(?!I_)", " ", text)  # ηT is a product
    text = re.sub(r"[_^]\{[^}]*\}", "", _NO_SYMBOL.sub(" ", _WORD_A.sub("", text)))
    forms: dict[str, set[str]] = {}
    for found in _SYMBOL.finditer(text):
        forms.setdefault(found[1].replace("'", "′"), set()).add(found[0])
    return forms


def _entries(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"\n\s*|; (?=\S{1,9}(?:, \S{1,9})*: )", text.strip()):
        head, _, meaning = part.partition(": ")
        yield head, meaning


def table(text: str) -> Iterator[tuple[str, str]]:
    """Yield the symbols of the first table of a docstring."""
    parts = re.split(r"^=+(?: +=+)+\n", f"{text}\n", flags=re.MULTILINE)  # before, heads, rows, after
    for line in "".join(parts[2:3]).splitlines():
        head, meaning, *_ = [*re.split(" {2,}", line), ""]
        head, meaning = head.replace("``", ""), meaning.replace("``", "")
        yield head, meaning.removeprefix(f"{head}, ")


def symbols(claim: Claim, text: str) -> dict[str, str]:
    """Return what the symbols of a text mean, by the notation of a claim."""
    module = claim.id.partition(".")[0]
    about = import_module(f"hlmtheory.{module}").__doc__ or ""
    known: dict[str, tuple[str, str]] = {}
    for pattern, told in NOTATION.items():
        if pattern == "*" or fnmatchcase(claim.id, pattern):
            rows = [*(table(about) if pattern == f"{module}.*" else ()), *_entries(told)]
            special = {name: (head, meaning) for head, meaning in rows for name in head.split(", ")}
            general = {name: row for name, row in known.items() if base(name) not in set(map(base, special))}
            known = general | special
    forms = used(text)
    shown = [name for name in known if name.startswith("in ") or base(name) in forms]
    exact = {name for name in shown if forms.get(base(name), set()) <= set(known)}
    return dict(known[name] for name in shown if name not in exact or name in forms.get(base(name), {name}))
