"""Mechanisms by which speculative decoding loses the target's law, and which of them fits the draws best."""

from __future__ import annotations

MECHANISMS = {
    "stale_draft": "the server verifies with an old q: that of the position before",
    "draft_temperature": "the drafts are drawn at another temperature than the q that the server verifies with",
    "draft_before_top_p": "the server verifies with q before top-p (or top-k), and p is cut",
    "residual_not_normalised": "the residual (p - q)⁺ is drawn from without normalisation",
    "residual_by_rank": "the residual subtracts q from p by rank, and not by token id",
    "noise_reused": "the draw from the residual uses the draft's random number again",
    "greedy_draft_ratio": "drafts are the draft model's likeliest token, but are accepted with p/q",
    "zero_accepted": "a draft with p = 0 is accepted when the random number is 0",
    "bonus_from_draft": "the bonus token is drawn from q",
    "bonus_after_rejection": "the bonus token is kept after a rejection",
    "end_passed_over": "the text goes on behind an end-of-text token, or never ends",
    "cache_off_by_one": "after a rejection, the target's cache still holds the rejected draft",
}
"""The mechanism of each name."""
