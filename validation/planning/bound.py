"""How far a plan can be from the best: an upper bound over draft lengths, codecs and choices of what to skip.

In the model of mean rounds each position that begins a round may be skipped or sent as β̂ says; the dual is taken at
prices common to all codecs and lengths. Any message accepts a draft with at most min(1, q̂_y/p_y) given the token y
(``shared_seed.any_scheme``), and later rounds start no earlier: so token ids alone bound all messages.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from hlmtheory.policy import StageCosts, lower_hulls
from hlmtheory.policy.columns import solve
from hlmtheory.policy.hulls import Priced
from hlmtheory.policy.rounds import Prices, Rounds
from hlmtheory.policy.user import Given
from validation.arrays import Array
from validation.planning.message_length import token_bytes
from validation.planning.option import Line, Option
from validation.planning.profile import DRAFT_LENGTHS, SEEDED, Profile, reply_bits
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting

_NO_TIME = 1e-300  # seconds a bit: what the server alone sends is in its speed
ROWS = 256  # Positions that stand for those of the training texts


@dataclass(frozen=True, slots=True)
class Model:
    """Mean rounds of each codec and draft length without skipping, and the positions that may be skipped."""

    counts: Array  # (K, codecs, counts), for each round
    uncertainty: Array
    rejection: Array  # β̂
    vocabulary: int

    @classmethod
    def of(cls, profile: Profile, texts: Array, line: Line, rows: int = ROWS, *, shared_seed: bool = True) -> Self:
        """Return the model of the given texts, reduced to ``rows`` positions."""
        total = profile.planned[:, 0, : None if shared_seed else SEEDED][:, :, texts].sum(axis=2)
        rounds = total / total[..., [COUNTS.index("exchanges")]]
        chosen = np.flatnonzero(np.isin(profile.owner, texts))
        u = np.sort(profile.uncertainty[chosen])
        u = u[((np.arange(rows) + 0.5) / rows * len(u)).astype(int)]
        return cls(rounds, u, np.clip(line.slope * u + line.intercept, 0.0, 1.0), profile.vocabulary)

    def costs(
        self, k: int, codec: int, setting: Setting, *, tokens_alone: bool = False
    ) -> tuple[StageCosts, Array, float]:
        """Return the costs of rounds of K drafts, the acceptances, and the mean bits of a draft."""
        c = dict(zip(COUNTS, self.counts[k - 1, codec].tolist(), strict=True))
        tokens = np.concatenate([[1.0], self.counts[:k, codec, COUNTS.index("tokens")]])
        steps = np.maximum(np.diff(tokens), 1e-12)
        alpha = np.minimum(np.concatenate([steps[:1], steps[1:] / steps[:-1]]), 1.0)
        rate, down = setting.link.quantile(0.5), reply_bits(self.vocabulary) if tokens_alone else c["down_bits"]
        costs = StageCosts(
            draft_s=setting.draft_s,
            verify_s=setting.verify_s,
            seconds_per_bit=1.0 / rate,
            round_trip_s=setting.link.round_trip_s,
            verify_token_s=setting.verify_token_s,
            fixed_s=down / setting.link.down_bps + setting.verify_token_s,
            header_bits=16.0,
        )
        if not tokens_alone:
            return costs, alpha, max(c["up_bits"] - costs.header_bits, 0.0) / k
        ids = (c["verified"] - 1.0) * (self.vocabulary - 1).bit_length()  # the last round of a text may be shorter
        return costs, alpha, (8.0 * token_bytes(self.vocabulary, 0) + ids - costs.header_bits) / k

    def rate(self, option: Option, setting: Setting) -> tuple[float, float]:
        """Return the tokens per second and the risk per token of an option in this model."""
        k, codec = int(option.draft_length), option.codec or 0
        costs, alpha, bits = self.costs(k, codec, setting)
        skip = self.uncertainty <= option.threshold
        beta = self.scaled(alpha[0])
        after = np.cumprod(alpha[1:]).sum() if k > 1 else 0.0
        share = 1.0 - skip.mean()
        tokens = skip.mean() + share + (1.0 + after) * np.mean(~skip * (1.0 - beta))
        round_s = costs.fixed_time(k) + (16.0 + k * bits) * costs.seconds_per_bit
        seconds = skip.mean() * setting.draft_s + share * round_s
        return float(tokens / seconds), float(np.mean(skip * beta) / tokens)

    def scaled(self, first: float) -> Array:
        """Return β̂ of the positions: scaled to the mean rejection of the first draft, then at most 1."""
        mean = float(self.rejection.mean())
        return np.clip(self.rejection * (1.0 - first) / mean, 0.0, 1.0) if mean > 0 else self.rejection

    def upper_bound(self, setting: Setting, risk: float, alone: float, *, tokens_alone: bool = False) -> float:
        """Return a rate that no plan with this risk per token exceeds, nor a mixture of plans and the server alone."""
        pairs = [(k, codec) for codec in range(self.counts.shape[1]) for k in DRAFT_LENGTHS]
        models = [
            self._rounds(k, *self.costs(k, codec, setting, tokens_alone=tokens_alone), skipping=risk > 0)
            for k, codec in pairs
        ]
        if alone > 0:
            server = StageCosts(setting.draft_s, 1.0 / alone, _NO_TIME)
            models.append(self._rounds(0, server, np.ones(1), 0.0, skipping=False))
        return solve(models, risk, Prices(0.0), charged=False).bound

    def _rounds(self, k: int, costs: StageCosts, alpha: Array, bits: float, *, skipping: bool) -> Rounds:
        rows = len(self.uncertainty)
        hulls = lower_hulls(np.full((rows, 1), bits), np.zeros((rows, 1)))
        weight = np.full(rows, 1.0 / rows)
        given = Given(Priced(hulls, weight), costs, alpha, self.scaled(alpha[0]), skipping, bonus=True)
        return given.rounds(k, given.priced, hulls, skipping=skipping)
