"""Split verification with a truncated answer: the device replaces a rejected draft from what the server sends of p."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlmtheory.policy.answers import cut_answer, received_answer
from hlmtheory.policy.device import ANSWER_BITS
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import Dssd
from validation.decoding.methods.quantized import short_form
from validation.decoding.methods.registry import LIGHT_BLUE, Family, entry, register
from validation.decoding.session import Draft, Session
from validation.errors import UserError

if TYPE_CHECKING:
    import torch


def cut(draft: Draft, target: torch.Tensor, limit: float) -> torch.Tensor:
    """Return p̂ (V,) as the device decodes it after this draft was rejected; the draft keeps the bytes."""
    import torch

    draft.answer = cut_answer(target.double().cpu().numpy(), draft.token, limit)
    return torch.from_numpy(received_answer(draft.answer, len(target))).to(target.device)


@register(
    entry(
        "DSSD certified",
        Family.SPECULATIVE,
        LIGHT_BLUE,
        "o",
        "dotted",
        default=lambda setup: DssdCertified(0.01, setup.max_draft_length),
        studies=(),
    )
)
class DssdCertified(Dssd):
    """DSSD whose server sends the fewest probabilities p̂ of p with TV(p, p̂) ≤ ε = ``limit``, after a rejection.

    The device draws from (p̂ - q)⁺, so each token's law is within ε of the target's (``channel.downlink_truncated``).
    """

    cuts_answer = True

    def __init__(self, limit: float = 0.01, max_draft_length: int = 4) -> None:
        if not 0.0 < limit < 1.0:
            raise UserError(f"The limit of DSSD's answer must be above 0 and below 1, not {limit!r}; use Dssd for 0.")
        super().__init__(max_draft_length)
        self.limit, self.name = limit, f"DSSD certified (ε = {short_form(limit)}, K = {max_draft_length})"

    def begin(self, session: Session) -> None:
        least = session.vocabulary * 2.0**-ANSWER_BITS
        if self.limit < least:
            raise UserError(
                f"The limit of DSSD's answer must be at least {least:.2g} for {session.vocabulary:,} tokens, since a "
                f"probability has {ANSWER_BITS} bits, not {self.limit!r}; use Dssd for an exact answer."
            )
        super().begin(session)

    def answered(self, draft: Draft, target: torch.Tensor) -> torch.Tensor:
        if self.session.temperature == 0 or not bool(target.isfinite().all()):
            return target  # broken logits are refused by the loop
        return cut(draft, target, self.limit)

    def reply(self, drafts: list[Draft], accepted: int) -> int:
        """Return the number of bytes of the count of accepted drafts, and p̂ at the rejected draft, or a token."""
        sends_p = accepted < len(drafts) and self.session.temperature > 0
        return 2 + len(drafts[accepted].answer) if sends_p else Method.reply(self, drafts, accepted)
