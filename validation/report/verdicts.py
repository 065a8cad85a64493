"""Choose what the first page shows: the papers' main results, five figures, and the coverage of the papers."""

from __future__ import annotations

from typing import NamedTuple

Key = tuple[str, str]

COUNTEREXAMPLE, MEASURED, TOO_FEW = "⊘", "◇", "?"
"""Signs of a verdict: a formula has a counterexample; a measurement on small models agrees or not, as its words say;
the sample cannot say, because it has fewer than PROMPTS prompts or because no sample can."""

PROMPTS = 50
"""Smallest number of prompts of a set that is called a measurement."""


class MainResult(NamedTuple):
    """Hold one printed result.

    ``claim`` gives the verdict from the published record; another result has its ``verdict`` written here, which begins
    with its sign. Numbers that follow from the printed constants only if one is changed have a counterexample.
    ``found`` has no number that a new run can change: such numbers stand in the figure's caption.
    """

    paper: str
    place: str
    printed: str
    found: str
    claim: str = ""
    exhibit: Key | None = None
    verdict: str = ""


CU, U, C, F, E = "cu-hlm", "u-hlm", "c-sqs", "flexspec", "edge-sd"

MAIN_RESULTS = (
    MainResult(
        CU,
        "(3)",
        "verification leaves the target's distribution",
        "true, token by token",
        "verification.unbiased",
    ),
    MainResult(
        CU,
        "Fig. 2, (7)",
        "rejection is linear in the uncertainty, R² = 0.9774",
        "true of means at each u; of single tokens a line explains a third",
        exhibit=(CU, "4a"),
        verdict=f"{MEASURED} true of means",
    ),
    MainResult(
        CU,
        "Theorem 1, (13)",
        "R ≤ Δ^{3/2}/√(3a) ‖f‖₂",
        "true of the fitted line; the risk itself is a total variation",
        "skipping.holder",
        ("ours", "I"),
    ),
    MainResult(
        CU,
        "Prop. 1, (20)",
        "TV(r, r̂) ≤ 2 Δ_k / TV(q, p)",
        "always loose by a factor of 2 or more; the sharp bound is attained",
        "truncation.tvd_bound",
        (CU, "8"),
    ),
    MainResult(
        CU,
        "Fig. 6",
        "Bias and distortion correlate, r = 0.9763",
        "an identity for every token, so no correlation is needed",
        "truncation.bias_identity",
        (CU, "6"),
    ),
    MainResult(
        CU,
        "Prop. 2, (23)",
        "Û(k) ≤ Ū(k)",
        "true of the approximation Û",
        "truncation.online_bound",
        ("ours", "4"),
    ),
    MainResult(
        CU,
        "Fig. 8",
        "Ū is an upper bound of the distortion",
        "not of every token at every η; safe from a known η\\* on",
        "truncation.online_gap",
        ("ours", "4"),
        f"{MEASURED} true of sent tokens at a moderate η",
    ),
    MainResult(
        CU,
        "below (24)",
        "k grows with the uncertainty",
        "the bound does, the distortion falls",
        "truncation.online_direction",
        ("ours", "5"),
    ),
    MainResult(
        CU,
        "Fig. 10a",
        "up to 206× and 1014× the throughput of HLM at −20 dB",
        "no mean exists under Rayleigh fading; a ratio depends on the sample",
        "channel.rayleigh_mean",
        (CU, "10a"),
        f"{TOO_FEW} no sample is enough",
    ),
    MainResult(
        CU,
        "Table I",
        "97.4% of HLM's accuracy",
        "similar on `builtin`; on `instructed` the risk-prone threshold skips everything",
        exhibit=(CU, "I"),
        verdict=f"{MEASURED} similar",
    ),
    MainResult(
        U, "(9)", "law of the emitted token", "cu-hlm (3) prints the intended form", "verification.unbiased_printed"
    ),
    MainResult(
        U, "(10)", "rejection probability", "cu-hlm (11) prints the intended form", "verification.rejection_ratio"
    ),
    MainResult(
        U, "(6)", "temperature perturbation", "cu-hlm (8) prints the intended form", "uncertainty.printed_temperature"
    ),
    MainResult(
        U,
        "Fig. 4, Fig. 6",
        "skips 46% of the uplinks and keeps 97.54% of the target's accuracy",
        "similar accuracy on `builtin`, which skips more; on `instructed` the risk-prone threshold skips everything",
        exhibit=(U, "I"),
        verdict=f"{MEASURED} similar",
    ),
    MainResult(
        C,
        "Theorem 1",
        "bound on the rejections",
        "true, but vacuous from K = 4ℓ on; the sharp bound never is",
        "lattice.rejection_rate",
        ("ours", "III"),
    ),
    MainResult(
        C,
        "Theorem 2, (9)",
        "regret of the threshold, for any η",
        "fails for η(1 − 2ε) > 1, far above the paper's η",
        "conformal.regret",
        ("ours", "2"),
    ),
    MainResult(
        C,
        "(28)",
        "the bound of the proof",
        "true for every η",
        "conformal.regret_proof",
        ("ours", "2"),
    ),
    MainResult(
        C,
        "Lemma 4",
        "upper bound of the threshold",
        "fails if only the top token is left",
        "conformal.iterates_upper",
    ),
    MainResult(
        C,
        "Fig. 2, Fig. 6",
        "K-SQS is better when cold, C-SQS when hot",
        "with most pairs of K and τ₁ over a fast link, with none over a slow one",
        exhibit=(C, "2"),
        verdict=f"{TOO_FEW} few texts",
    ),
    MainResult(
        F,
        "below (11)",
        "a slower link forces a shorter draft",
        "not always, because the header is sent more slowly too",
        "draft_length.slower_shortens",
        (F, "2"),
    ),
    MainResult(
        F,
        "below (11), E ≈ γK",
        "the policy adapts to the link",
        "under the approximation it never does",
        "draft_length.linear_adapts",
        (F, "2"),
    ),
    MainResult(
        F,
        "Table I",
        "48, 9.5 and 1.6 minutes for 3.2 GB",
        "not at the full rate; with 90% of it as goodput, all three",
        "draft_length.update_storm",
        (F, "I"),
        f"{COUNTEREXAMPLE} a constant",
    ),
    MainResult(
        F,
        "Table II",
        "acceptance of a fixed draft collapses from .72 to .18",
        "no collapse here: on code the harder texts cost more than the version",
        exhibit=(F, "II"),
        verdict=f"{MEASURED} not seen",
    ),
    MainResult(
        F,
        "Tables III, IV",
        "FlexSpec is the fastest over 4G and WiFi",
        "on none of our sets; its aligned draft is accepted less often",
        exhibit=(F, "III"),
        verdict=f"{TOO_FEW} few texts",
    ),
    MainResult(
        F,
        "Fig. 6",
        "53% of the energy saved",
        "less with the powers that we state; the paper prints none",
        exhibit=(F, "6"),
        verdict=f"{TOO_FEW} few texts",
    ),
    MainResult(E, "(7)", "tokens of a round", "true for independent acceptance at one rate", "verification.tokens_iid"),
    MainResult(
        E,
        "(17), Fig. 5",
        "run time is linear in F b",
        "true on this machine",
        exhibit=(E, "5"),
        verdict=f"{MEASURED} seen",
    ),
    MainResult(
        E,
        "Algorithm 1",
        "optimal batching decisions",
        "not optimal even with its misprints mended; a search with labels is",
        "batching.dp_gap",
        (E, "7b"),
    ),
    MainResult(
        E,
        "(24b)",
        "batches fit the memory",
        "each alone, not all that run at once",
        "batching.memory_each",
        (E, "8a"),
    ),
    MainResult(
        E,
        "(26), (27)",
        "best shares of the band at a fixed SNR",
        "true, with a certificate",
        "ofdma.minmax",
        (E, "9a"),
    ),
    MainResult(
        E,
        "Figs. 7 to 9",
        "eight printed savings",
        "none follows from Table II alone; each does with one changed constant",
        exhibit=(E, "9a"),
        verdict=f"{COUNTEREXAMPLE} a constant",
    ),
)

BEST: tuple[Key, ...] = (
    ("cu-hlm", "8"),
    ("ours", "3"),
    ("ours", "7"),
    ("ours", "8"),
    ("edge-sd", "7a"),
)
"""The five figures that carry the main messages."""


class Coverage(NamedTuple):
    """Say what stands here for one figure or table of a paper; without ``exhibits``, nothing does."""

    paper: str
    printed: str
    exhibits: tuple[str, ...]
    weaker: str


COVERAGE = (
    Coverage(CU, "Fig. 1", ("1",), "the link is simulated, as there; pass times are the paper's; it prints no number"),
    Coverage(CU, "Fig. 2", ("2",), "MC dropout and paraphrases at fewer positions, and on the built-in pair alone"),
    Coverage(CU, "Figs. 3, 7", (), "drawings of the method"),
    Coverage(CU, "Fig. 4", ("4a", "4b"), "–"),
    Coverage(CU, "Fig. 5", ("5a", "5b"), "–"),
    Coverage(CU, "Fig. 6", ("6",), "–; the reason of the correlation is added"),
    Coverage(CU, "Fig. 8", ("8",), "–; the sharp bound and the Bias are added"),
    Coverage(
        CU,
        "Fig. 9",
        ("9a", "9b", "9a-texts", "9b-texts"),
        "accuracy by another sentence model; rates once on the trace and once on decoded texts",
    ),
    Coverage(CU, "Fig. 10", ("10a", "10b"), "other models; the same simulated link; pass times are the paper's"),
    Coverage(
        CU,
        "Table I",
        ("I",),
        "one pair for the paper's sets, not two; it answers them far worse than the paper's, so methods are compared",
    ),
    Coverage(
        CU,
        "Table II",
        ("II",),
        "the three pairs are ours and small; pass times are the paper's, and two of the pairs are not redistributed",
    ),
    Coverage(U, "Figs. 1, 2", (), "drawings of the method"),
    Coverage(U, "Fig. 3", ("3",), "MC dropout and paraphrases at fewer positions than the paper's 5,134"),
    Coverage(U, "Fig. 4", ("4", "4-texts"), "accuracy by another sentence model"),
    Coverage(U, "Fig. 5", ("5",), "–"),
    Coverage(
        U, "Fig. 6", ("6", "6-texts"), "the SNR of the printed gain is not named; ours is that of the paper's link"
    ),
    Coverage(U, "Table I", ("I",), "as cu-hlm's Table I"),
    Coverage(C, "Figs. 1, 3", (), "drawings of the method"),
    Coverage(
        C,
        "Figs. 2, 4, 5, 6",
        ("2", "4", "5", "6"),
        "other models and texts (there GPT-Neo 125M and 1.3B on LM1B), 20 prompts; it prints no K, β or link, so ours "
        "are stated",
    ),
    Coverage(F, "Figs. 1, 3", (), "drawings of the method"),
    Coverage(
        F, "Fig. 2", ("2",), "by formula: constants from the paper's own tables, since the figure's are not printed"
    ),
    Coverage(F, "Figs. 4, 5", ("4", "5"), "counted rounds, timed with the paper's constants; 12 prompts a set"),
    Coverage(F, "Fig. 6", ("6",), "no device was measured: energy is counted rounds times stated powers"),
    Coverage(F, "Table I", ("I",), "arithmetic"),
    Coverage(F, "Table II", ("II",), "versions of a 10M target, tuned for minutes; the paper's of a 70B target"),
    Coverage(
        F,
        "Tables III, IV",
        ("III", "IV"),
        "counted rounds, timed with the paper's constants; heads of Medusa and EAGLE trained for minutes",
    ),
    Coverage(F, "Tables V, VI", ("V", "VI"), "the paper's latencies of devices and targets; acceptance of our pair"),
    Coverage(F, "RQ5, in words", (), "memory and heat of a device: no device here"),
    Coverage(E, "Figs. 1 to 4", (), "drawings of the method"),
    Coverage(E, "Fig. 5", ("5",), "our models on a CPU, not LLaMA-7B on an RTX 4500"),
    Coverage(
        E,
        "Figs. 6, 7, 8, 9",
        ("6", "7a", "7b", "7c", "8a", "8b", "8c", "9a", "9b", "9c"),
        "simulated with Tables I and II, as there; where a constant is not printed, ours is stated",
    ),
    Coverage(E, "Tables I, II", (), "settings; they are the input of our simulations"),
)
