"""Split verification with a truncated answer: the device replaces a rejected draft from what the server sends of p."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlmtheory.codec import decoded_rows, encode, truncated_message
from hlmtheory.truncation import certified_size
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import Dssd
from validation.decoding.methods.quantized import short_form
from validation.decoding.methods.registry import LIGHT_BLUE, Family, MethodInfo, PlotStyle, register
from validation.decoding.session import Draft, Session
from validation.errors import UserError

if TYPE_CHECKING:
    import torch

BITS = 24
"""Bits of a probability that the server sends."""


@register(
    MethodInfo(
        "DSSD certified",
        Family.SPECULATIVE,
        PlotStyle(LIGHT_BLUE, "o", "dotted"),
        default=lambda setup: DssdCertified(0.01, setup.max_draft_length),
        studies=(),
    )
)
class DssdCertified(Dssd):
    """DSSD whose server sends the fewest probabilities p̂ of p with TV(p, p̂) ≤ ε, after a rejection.

    The device draws from (p̂ - q)⁺. So each token's law is within ε of the target's (``channel.downlink_truncated``),
    and a text's within ε times its rejected drafts. At temperature 0 the answer is a token.

    Parameters
    ----------
    limit : float
        ε, at least V 2^-24 and below 1.
    max_draft_length : int
    """

    cuts_answer = True

    def __init__(self, limit: float = 0.01, max_draft_length: int = 4) -> None:
        if not 0.0 < limit < 1.0:
            raise UserError(f"The limit of DSSD's answer must be above 0 and below 1, not {limit!r}; use Dssd for 0.")
        super().__init__(max_draft_length)
        self.limit, self.name = limit, f"DSSD certified (ε = {short_form(limit)}, K = {max_draft_length})"

    def begin(self, session: Session) -> None:
        """Refuse a limit that the rounding of V probabilities may exceed."""
        least = session.vocabulary * 2.0**-BITS
        if self.limit < least:
            raise UserError(
                f"The limit of DSSD's answer must be at least {least:.2g} for {session.vocabulary:,} tokens, since a "
                f"probability has {BITS} bits, not {self.limit!r}; use Dssd for an exact answer."
            )
        super().begin(session)

    def answered(self, draft: Draft, target: torch.Tensor) -> torch.Tensor:
        """Return p̂ as the device decodes it, and note the bytes of the answer in the draft."""
        import torch

        draft.note = 0
        if self.session.temperature == 0 or not bool(target.isfinite().all()):
            return target  # broken logits are refused by the loop
        row = target.double().cpu().numpy()
        size = certified_size(row, 2.0 * self.limit, bits_per_probability=BITS)
        message = truncated_message(row, k=size, token=draft.token, bits=BITS)
        draft.note = len(encode(message))
        return torch.from_numpy(decoded_rows(message)[0]).to(target.device)

    def reply(self, drafts: list[Draft], accepted: int) -> int:
        """Return the number of bytes of the count of accepted drafts, and p̂ at the rejected draft, or a token."""
        cut = accepted < len(drafts) and self.session.temperature > 0
        return 2 + int(drafts[accepted].note) if cut else Method.reply(self, drafts, accepted)
