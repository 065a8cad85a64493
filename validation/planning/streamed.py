"""A device that drafts on by a shared seed while the server verifies: a row of its own, for one user without limits.

The device sends each draft in a message of its own when it is made, and starts again behind a mismatch when it learns
of it. A cycle is the tokens between two mismatches: J drafts that are accepted, and one that is not. With t_d a draft,
R the round trip, V a pass and C the link's rate, and all that has arrived verified in one pass, a cycle takes

    t_d < V:  t_d + R + b/C + (1 + ⌈J t_d/V⌉) V, with 1 + ⌈J t_d/V⌉ passes; the other drafts are made meanwhile;
    t_d ≥ V:  (J + 1) t_d + R + b/C + V, with J + 1 passes.

:func:`hlmtheory.shared_seed.streamed_rate` is the mean over J for drafts that are accepted alike; here J follows the
text. The counts hold what a text waits for: drafts that are not made during a pass, and the last message of a cycle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.planning.menu import STREAMED, Option
from validation.planning.message_length import token_bytes
from validation.planning.profile import Profile, reply_bits
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting

Array = NDArray[Any]
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Streamed:
    """What the row needs of a trace.

    Attributes
    ----------
    streaks : array, shape (texts, T)
        Expected cycles with J accepted drafts; the last cycle of a text ends with its last token.
    lengths : array, shape (texts,)
    message_bits, reply_bits : float
        Of a message with one draft, and of an answer.
    """

    streaks: Array
    lengths: Array
    message_bits: float
    reply_bits: float

    @classmethod
    def of(cls, profile: Profile, seal_bits: float = 0.0) -> Streamed:
        """Return what the row needs, with an envelope around each message and answer."""
        message = 8.0 * token_bytes(profile.vocabulary, 1) + seal_bits
        return cls(profile.streaks, profile.lengths, message, reply_bits(profile.vocabulary) + seal_bits)

    def option(self, setting: Setting) -> Option | None:
        """Return the option at these times; None where the row does not apply.

        It is for an uplink that carries a draft while the next one is made, a pass whose time does not depend on its
        tokens, and no limit on latency or energy: the device never rests.
        """
        draft, verify = setting.draft_s, setting.verify_s
        limited = setting.latency_s is not None or setting.energy_j is not None or setting.objective != "throughput"
        if limited or setting.verify_token_s > 0 or self.message_bits > draft * float(setting.link.rates.min()):
            return None
        accepted = np.arange(self.streaks.shape[1])
        if draft < verify:
            passes = 1.0 + np.ceil(accepted * (draft / verify) - _ROUNDING)
            waited = np.ones(len(accepted))  # drafts that are not made during a pass
        else:
            passes = accepted + 1.0
            waited = passes - accepted * (verify / draft)
        found = np.zeros((len(self.lengths), len(COUNTS)))
        cycles = self.streaks.sum(axis=1)
        for name, value in {
            "tokens": self.lengths,
            "drafts": self.streaks @ waited,
            "passes": self.streaks @ passes,
            "exchanges": cycles,
            "up_bits": cycles * self.message_bits,
            "down_bits": (self.streaks @ passes) * self.reply_bits,
        }.items():
            found[:, COUNTS.index(name)] = value
        none = np.zeros(len(self.lengths))
        each = float((self.streaks @ passes).sum() / self.lengths.sum())
        label = f"drafts on while the server verifies, {each:.2f} passes of the target model a token"
        return Option(STREAMED, label, found, 1, -np.inf, none, none, (0, 0))
