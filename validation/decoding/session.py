"""What the generation loop and a method say to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from validation.decoding.random_streams import Noise

if TYPE_CHECKING:
    import torch

    from validation.decoding.links import Channel
    from validation.models.pair import Pair

Array = NDArray[Any]


@dataclass(slots=True)
class Draft:
    """A drafted token on its way to the server."""

    token: int
    chance: float = 1.0  # q̂_d, the probability that acceptance is judged by
    own: torch.Tensor | None = None  # q, the draft model's row
    known: torch.Tensor | None = None  # q̂, the server's row; None for a draft that was certain
    note: Any = None  # whatever the method's message needs

    @property
    def row(self) -> torch.Tensor:
        """q, of a draft of the draft model's."""
        if self.own is None:
            raise ValueError(f"token {self.token} was not drafted by the draft model, so it has no row")
        return self.own


@dataclass(slots=True)
class Step:
    """One drafting step, of n texts."""

    rows: Array  # which texts, as indices into the batch
    positions: Array  # of the token to come, 0 for the first new one
    parts: torch.Tensor | list[torch.Tensor]  # (n, V), the logits, or one after another
    draft: torch.Tensor  # (n, V), q: the draft model's rows at the temperature and top-p of the run
    fresh: Array  # (n,) bool, whether the round has no draft yet

    @property
    def logits(self) -> torch.Tensor:
        """The draft model's logits, (n, V): put together when asked for."""
        import torch

        parts = self.parts
        if isinstance(parts, list):
            return parts[0] if len(parts) == 1 else torch.cat(parts)
        return parts


@dataclass(slots=True)
class Proposal:
    """What a method makes of a step."""

    rows: torch.Tensor  # (n, V), what the drafts are drawn from
    known: torch.Tensor | None = None  # (n, V), what the server will hold; ``rows`` if None
    full: Array | None = None  # (n,) bool, whether the round ends before this draft
    notes: Sequence[Any] | None = None


@dataclass(slots=True)
class Message:
    """What goes up to the server in a round."""

    bits: float  # by the paper's formula
    payload: bytes  # as it is sent


@dataclass(slots=True)
class Outcome:
    """What became of one text's round."""

    row: int
    drafts: list[Draft]
    accepted: int
    rejected: bool
    rate_bps: float | None  # of the link in this round
    likeliest: Array | None = None  # the target model's likeliest token at each draft and after the last


@dataclass(slots=True)
class Clock:
    """Where the time went, in seconds: the forward passes, the arithmetic of sampling, the method's own, all."""

    draft: float = 0.0
    target: float = 0.0
    prefill: float = 0.0
    sampling: float = 0.0
    method: float = 0.0
    total: float = 0.0

    @property
    def loop(self) -> float:
        """What is left for the loop itself."""
        return self.total - self.draft - self.target - self.prefill - self.sampling - self.method


@dataclass(slots=True)
class Session:
    """What a method may know of the run."""

    pair: Pair
    texts: int
    noise: Noise
    channel: Channel | None
    temperature: float
    top_p: float
    new_tokens: int
    clock: Clock = field(default_factory=Clock)

    @property
    def vocabulary(self) -> int:
        """V."""
        return self.pair.vocabulary
