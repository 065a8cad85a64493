"""Drafts by a shared seed: device and server draw from one stream, and only token ids are sent, up and down."""

from __future__ import annotations

from validation.decoding.methods.base import Method, tokens_message
from validation.decoding.methods.registry import GREEN, Family, MethodInfo, PlotStyle, register
from validation.decoding.session import Draft, Message


@register(
    MethodInfo(
        "shared seed",
        Family.SHARED_SEED,
        PlotStyle(GREEN, "d"),
        default=lambda setup: SharedSeed(setup.max_draft_length),
    )
)
class SharedSeed(Method):
    """K drafts, each the winner of the draft model's race in a stream that the server has too (daliri2025coupling).

    The server's tokens are winners of the target model's race in the same stream, and they are emitted whether a draft
    matches or not. So the text is that of the target model alone with this seed: no draft model, K, link or update
    changes a token. The stream of a prompt is keyed by the seed and the prompt's id.
    """

    shared_seed = True

    def __init__(self, max_draft_length: int = 4) -> None:
        self.max_draft_length, self.name = max_draft_length, f"shared seed (K = {max_draft_length})"

    def message(self, drafts: list[Draft]) -> Message:
        """Return a message of the tokens: ⌈log₂ V⌉ bits each."""
        return tokens_message(drafts, self.session.vocabulary)
