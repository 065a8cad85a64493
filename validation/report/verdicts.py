"""Choose the papers' main results for the first page, with what was found, and its five figures."""

from __future__ import annotations

from typing import NamedTuple

Key = tuple[str, str]


class MainResult(NamedTuple):
    """Hold one printed result.

    ``claim`` gives the verdict from the published record; a measured result without a claim has its ``verdict``
    written here. ``found`` has no number that a new run can change: such numbers stand in the figure's caption.
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
        verdict="≈ true of means",
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
        "always loose by a factor of 2; the sharp bound is attained",
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
        "not for every token and η; safe from a known η\\* on",
        "truncation.online_gap",
        ("ours", "4"),
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
        "depends on the sample",
    ),
    MainResult(
        CU,
        "Table I",
        "97.4% of HLM's accuracy",
        "similar on our pairs; on one pair the papers' threshold skips everything",
        exhibit=(CU, "I"),
        verdict="≈ similar",
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
        "skips most uplinks and keeps the accuracy",
        "similar on the built-in pair at GSM8K",
        exhibit=(U, "I"),
        verdict="≈ similar",
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
        "with most pairs of K and τ₁; the paper prints neither",
        exhibit=(C, "2"),
        verdict="≈ with most settings",
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
        (F, "III-length-rule"),
    ),
    MainResult(
        F,
        "Table I",
        "48, 9.5 and 1.6 minutes for 3.2 GB",
        "with about 90% of the rate as goodput, all three",
        "draft_length.update_storm",
        (F, "I"),
    ),
    MainResult(
        F,
        "Table II",
        "acceptance of a fixed draft collapses from .72 to .18",
        "no collapse with our models: the versions are too near",
        exhibit=(F, "II"),
        verdict="✗ not seen here",
    ),
    MainResult(
        F,
        "Tables III, IV",
        "FlexSpec is the fastest over 4G and WiFi",
        "on none of our sets; its aligned draft is accepted less often",
        exhibit=(F, "III"),
        verdict="✗ not seen here",
    ),
    MainResult(
        F,
        "Fig. 6",
        "53% of the energy saved",
        "less with stated powers; the printed powers are not given",
        exhibit=(F, "6"),
        verdict="≈ smaller",
    ),
    MainResult(E, "(7)", "tokens of a round", "true for independent acceptance at one rate", "verification.tokens_iid"),
    MainResult(
        E,
        "(17), Fig. 5",
        "run time is linear in F b",
        "true on this machine",
        exhibit=(E, "5"),
        verdict="✓ seen here",
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
        verdict="✗ not from Table II",
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
