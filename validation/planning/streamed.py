"""A device that drafts on by a shared seed while the server verifies: an option of ours, for one user without limits.

The device sends each draft in a message of its own when it is made, and starts again behind a mismatch when it learns
of it. A cycle is the tokens between two mismatches: J drafts that are accepted, and one that is not. With t_d a draft,
R the round trip, V a pass and C the link's rate, and all that has arrived verified in one pass, a cycle takes

    t_d < V:  t_d + R + b/C + (1 + ⌈J t_d/V⌉) V, with 1 + ⌈J t_d/V⌉ passes; the other drafts are made meanwhile;
              where J t_d is a multiple of V, one pass more: times are means, and a draft that is later misses its pass;
    t_d ≥ V:  (J + 1) t_d + R + b/C + V, with J + 1 passes.

:func:`hlmtheory.shared_seed.streamed_rate` is the mean over J for drafts that are accepted alike; here J follows the
text. The counts hold what a text waits for: drafts that are not made during a pass, and the last message of a cycle.

No message makes such a device much faster (:meth:`Streamed.least_seconds`). A cycle with J accepted drafts takes at
least (J + 1) t_d + R + b/C + V, with b the bits of a token id in its frame: the drafts are made one after the other
once the device knows the token before them, and the last one must reach the server, be read and be answered. Whatever
is sent, a draft that is drawn from a row q̂ is the emitted token y with the probability min(1, q̂_y/p_y) at most
(``shared_seed.any_scheme``). So a text of n tokens has at least 1 + Σ (1 - that) cycles in the mean, over its first n
- 1 positions; the bound takes q or the kind of quantised row with the fewest. This is for devices that draft each
position once, from one kind of row, and servers that read drafts alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.planning.menu import STREAMED, Option, exact
from validation.planning.message_length import token_bytes
from validation.planning.profile import Profile, reply_bits
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting

Array = NDArray[Any]
TIE = 1e-9
"""Relative: drafts that take as long as whole passes need one pass more, since one a little later misses its pass."""
_START = 1  # bytes of the number of starts, below 128


@dataclass(frozen=True, slots=True)
class Streamed:
    """What the row needs of a trace.

    Attributes
    ----------
    streaks : array, shape (texts, T)
        Expected cycles with J accepted drafts; the last cycle of a text ends with its last token.
    message_bits, reply_bits : float
        Of a message with one draft, and of an answer.
    least_cycles : array, shape (texts, rows)
        Expected cycles if drafts are drawn from q, or from one kind of quantised row, and are accepted as often as any
        message allows.
    """

    streaks: Array
    lengths: Array
    message_bits: float
    reply_bits: float
    least_cycles: Array

    @classmethod
    def of(cls, profile: Profile, seal_bits: float = 0.0) -> Streamed:
        """Return what the row needs, with an envelope around each message and answer."""
        message = 8.0 * (token_bytes(profile.vocabulary, 1) + _START) + seal_bits
        reply = reply_bits(profile.vocabulary) + 8.0 + seal_bits  # one byte: how many drafts the pass verified
        return cls(profile.streaks, profile.lengths, message, reply, 1.0 + profile.rejections)

    def least_seconds(self, setting: Setting, texts: Array, *, tokens_alone: bool = True) -> float:
        """Return a time in seconds that no device takes less for some texts, if it drafts on and skips nothing.

        Parameters
        ----------
        tokens_alone : bool
            Bound devices with any messages that hold a token id; else those of a shared seed. Both at the median rate.
        """
        kinds = self.least_cycles if tokens_alone else self.streaks.sum(axis=1)[:, None]
        bits = self.message_bits - 8.0 * _START * tokens_alone
        each = setting.link.round_trip_s + setting.verify_s + bits / setting.link.quantile(0.5)
        return float(self.lengths[texts].sum() * setting.draft_s + kinds[texts].sum(axis=0).min() * each)

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
            passes = 1.0 + np.ceil(accepted * (draft / verify) * (1.0 + TIE))
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
        each = float((self.streaks @ passes).sum() / self.lengths.sum())
        label = f"drafts on, {each:.2f} passes a token"
        return exact(STREAMED, label, found, 1)
