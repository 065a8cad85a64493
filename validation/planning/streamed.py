"""A device that drafts on by a shared seed while the server verifies: an option of ours, for one user without limits.

A cycle is J accepted drafts and one that is not. With t_d a draft, R the round trip, V a pass and C the rate it takes
t_d + R + b/C + (1 + ⌈J t_d/V⌉) V for t_d < V, else (J + 1) t_d + R + b/C + V. The counts hold what a text waits for.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from validation.arrays import Array
from validation.decoding.methods.rows import STREAMED
from validation.planning.message_length import token_bytes
from validation.planning.option import Option, exact
from validation.planning.profile import Profile, reply_bits
from validation.planning.rounds import count_table
from validation.planning.setting import Setting

LATER = 1e-9
"""Relative: drafts that take as long as whole passes need one pass more, since one a little later misses its pass."""
_START = 1  # bytes of the number of starts, below 128


@dataclass(frozen=True, slots=True)
class Streamed:
    streaks: Array  # (texts, T): expected cycles with J accepted drafts
    lengths: Array
    message_bits: float  # Of a message with one draft
    reply_bits: float  # Of an answer
    least_cycles: Array  # (texts, rows): accepted as often as any message allows, with drafts from q or one kind of row

    @classmethod
    def of(cls, profile: Profile, seal_bits: float = 0.0) -> Self:
        """Return what the row needs, with an envelope around each message and answer."""
        message = 8.0 * (token_bytes(profile.vocabulary, 1) + _START) + seal_bits
        reply = reply_bits(profile.vocabulary) + 8.0 + seal_bits  # one byte: how many drafts the pass verified
        return cls(profile.streaks, profile.lengths, message, reply, 1.0 + profile.rejections)

    def least_seconds(self, setting: Setting, texts: Array, *, tokens_alone: bool = True) -> float:
        """Return a time in seconds that no device takes less for some texts, if it drafts on and skips nothing."""
        kinds = self.least_cycles if tokens_alone else self.streaks.sum(axis=1)[:, None]
        bits = self.message_bits - 8.0 * _START * tokens_alone
        each = setting.seconds(count_table(passes=1, exchanges=1, up_bits=bits), setting.link.quantile(0.5))
        return float(self.lengths[texts].sum() * setting.draft_s + kinds[texts].sum(axis=0).min() * each)

    def option(self, setting: Setting) -> Option | None:
        draft, verify = setting.draft_s, setting.verify_s
        limited = setting.latency_s is not None or setting.energy_j is not None or setting.objective != "throughput"
        if limited or setting.verify_token_s > 0 or self.message_bits > draft * float(setting.link.rates.min()):
            return None
        accepted = np.arange(self.streaks.shape[1])
        if draft < verify:
            passes = 1.0 + np.ceil(accepted * (draft / verify) * (1.0 + LATER))
            waited = np.ones(len(accepted))  # drafts that are not made during a pass
        else:
            passes = accepted + 1.0
            waited = passes - accepted * (verify / draft)
        cycles, every = self.streaks.sum(axis=1), self.streaks @ passes
        counts = count_table(
            tokens=self.lengths,
            drafts=self.streaks @ waited,
            passes=every,
            exchanges=cycles,
            up_bits=cycles * self.message_bits,
            down_bits=every * self.reply_bits,
        )
        each = float(every.sum() / self.lengths.sum())
        return exact(STREAMED, f"drafts on, {each:.2f} passes a token", counts, 1)
