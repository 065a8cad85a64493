"""The objects that the generation loop and a decoding method exchange."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.arrays import Array
from validation.decoding.random_streams import Noise
from validation.decoding.sampling import raced

if TYPE_CHECKING:
    import torch

    from validation.decoding.links import Channel
    from validation.models.pair import Pair


@dataclass(slots=True)
class Draft:
    token: int
    probability: float = 1.0  # q̂_d, with which the server decides on acceptance
    draft_distribution: torch.Tensor | None = None  # q, the draft model's
    server_distribution: torch.Tensor | None = None  # q̂, what the server knows of q; None for a certain draft
    note: Any = None  # data for the method's message
    answer: bytes = b""  # what the server sends of p if it rejects the draft, where the method cuts it

    @property
    def distribution(self) -> torch.Tensor:
        if self.draft_distribution is None:
            raise ValueError(f"token {self.token} was not drafted by the draft model, so it has no distribution")
        return self.draft_distribution


@dataclass(slots=True)
class Step:
    sequences: Array  # (n,), their indices in the batch
    positions: Array  # (n,), of the token to draw; 0 for the first new one
    parts: torch.Tensor | list[torch.Tensor]  # the draft model's logits (n, V), whole or in consecutive parts
    distributions: torch.Tensor  # (n, V), q at the temperature and top-p of the run
    first_of_round: Array  # (n,) bool, whether the round has no draft yet

    @property
    def logits(self) -> torch.Tensor:
        import torch

        parts = self.parts
        if isinstance(parts, list):
            return parts[0] if len(parts) == 1 else torch.cat(parts)
        return parts


@dataclass(slots=True)
class Proposal:
    distributions: torch.Tensor  # (n, V), the distributions that drafts are drawn from
    server_distributions: torch.Tensor | None = None  # (n, V), known to the server; ``distributions`` if None
    ends_round: Array | None = None  # (n,) bool, whether the round ends before this draft
    last_of_round: Array | None = None  # (n,) bool, whether it ends with this draft
    notes: Sequence[Any] | None = None


@dataclass(slots=True)
class Message:
    bits: float  # by the paper's formula
    payload: bytes  # as it is sent


@dataclass(slots=True)
class Outcome:
    sequence: int
    drafts: list[Draft]
    accepted: int
    rejected: bool
    rate_bps: float | None  # of the link in this round
    likeliest: Array | None = None  # the target model's likeliest token at each draft and after the last


@dataclass
class Session:
    """The properties of a run that a method may use."""

    pair: Pair
    sequences: int  # in the batch
    noise: Noise
    channel: Channel | None
    temperature: float
    top_p: float
    new_tokens: int
    prompt_lengths: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # in tokens, (n,)

    @cached_property
    def stream_keys(self) -> Array:
        return self.noise.stream_keys()

    def race(self, rows: torch.Tensor, sequences: Array, positions: Array) -> tuple[Array, Array]:
        """Return the winner of each row (n, V) in its sequence's stream, and the rows' sums."""
        return raced(rows, self.stream_keys[sequences], self.prompt_lengths[sequences] + positions)

    @property
    def vocabulary(self) -> int:
        return self.pair.vocabulary
