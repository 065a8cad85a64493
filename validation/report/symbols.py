"""List the symbols that most claims and figures share."""

from __future__ import annotations

SYMBOLS = (
    ("q, p", "next-token distributions of the draft model and of the target model"),
    ("q̂", "what the server knows of q: its k largest probabilities, the rest spread evenly"),
    ("V, k", "tokens of the vocabulary; tokens of q that are sent, the most probable first"),
    ("d", "the drafted token, sampled from q"),
    ("α", "probability of acceptance, Σ_v min(q_v, p_v) on average over drafts"),
    ("β_d", "probability that the draft d is rejected, (1 − p_d / q_d)⁺; its mean over drafts is TV(q, p)"),
    ("r, r̂", "distributions after a rejection, from q and from q̂"),
    ("TV(q, p)", "total variation, half of Σ_v |q_v − p_v|: 0 for equal distributions, 1 for disjoint ones"),
    ("Δ_k", "TV(q, q̂) if k probabilities are sent"),
    ("Bias", "Σ_v |law_v − p_v| of one emitted token, twice its total variation; at most 2"),
    ("ε, θ", "tolerance for the Bias or for the risk of a text; tolerance for TV(r, r̂)"),
    ("u, u_{th}", "uncertainty of a draft, and the threshold above which it is verified"),
    ("K", "drafts in a round"),
    ("T", "tokens of a text; with an index, seconds"),
)
"""Symbol and meaning, in the order of the report."""
