"""How far a plan can be from the best: an upper bound over all drafts' lengths, messages and choices of what to skip.

In the model of mean rounds (:mod:`hlmtheory.policy`) each position that begins a round may be skipped or sent as its
own estimate β̂ says. ``plan_user`` bounds every such choice by its dual. The bound is taken for each codec and draft
length, because their acceptance and their replies differ, with the risk that the plan itself spends there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.policy import StageCosts, lower_hulls, plan_user
from validation.planning.menu import OURS, SERVER, Line, Option
from validation.planning.profile import CODECS, DRAFT_LENGTHS, Profile
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting

if TYPE_CHECKING:
    from validation.planning.plan import Planner

Array = NDArray[Any]
ROWS = 256
"""Positions that stand for those of the training texts."""


@dataclass(frozen=True, slots=True)
class Model:
    """Mean rounds of each codec and draft length without skipping, and the positions that may be skipped."""

    counts: Array  # (K, codecs, counts), for each round
    uncertainty: Array
    rejection: Array  # β̂

    @classmethod
    def of(cls, profile: Profile, texts: Array, line: Line, rows: int = ROWS) -> Model:
        """Return the model of some texts, with so many positions."""
        total = profile.planned[:, 0][:, :, texts].sum(axis=2)
        rounds = total / total[..., [COUNTS.index("exchanges")]]
        own = np.flatnonzero(np.isin(profile.owner, texts))
        u = np.sort(profile.uncertainty[own])
        u = u[((np.arange(rows) + 0.5) / rows * len(u)).astype(int)]
        return cls(rounds, u, np.clip(line.slope * u + line.intercept, 0.0, 1.0))

    def thinned(self, rows: int) -> Model:
        """Return the same model with fewer positions."""
        place = ((np.arange(rows) + 0.5) / rows * len(self.uncertainty)).astype(int)
        return replace(self, uncertainty=self.uncertainty[place], rejection=self.rejection[place])

    def costs(self, k: int, codec: int, setting: Setting) -> tuple[StageCosts, Array, float]:
        """Return the costs of rounds of K drafts, the acceptances, and the mean bits of a draft."""
        c = dict(zip(COUNTS, self.counts[k - 1, codec].tolist(), strict=True))
        tokens = np.concatenate([[1.0], self.counts[:k, codec, COUNTS.index("tokens")]])
        steps = np.maximum(np.diff(tokens), 1e-12)
        alpha = np.minimum(np.concatenate([steps[:1], steps[1:] / steps[:-1]]), 1.0)
        rate = setting.link.quantile(0.5)
        costs = StageCosts(
            draft_s=setting.draft_s,
            verify_s=setting.verify_s,
            seconds_per_bit=1.0 / rate,
            round_trip_s=setting.link.round_trip_s,
            verify_token_s=setting.verify_token_s,
            fixed_s=c["down_bits"] / setting.link.down_bps + setting.verify_token_s,
            header_bits=16.0,
        )
        return costs, alpha, self.bits_of(k, codec)

    def bits_of(self, k: int, codec: int) -> float:
        """Return the mean bits of a draft in rounds of K."""
        return max(float(self.counts[k - 1, codec, COUNTS.index("up_bits")]) - 16.0, 0.0) / k

    def rate(self, option: Option, setting: Setting) -> tuple[float, float]:
        """Return the tokens per second and the risk per token of an option in this model."""
        k, codec = int(option.draft_length), option.codec or 0
        costs, alpha, bits = self.costs(k, codec, setting)
        skip = self.uncertainty <= option.threshold
        beta = self.scaled(alpha[0])
        after = np.cumprod(alpha[1:]).sum() if k > 1 else 0.0
        share = 1.0 - skip.mean()
        tokens = skip.mean() + share + (1.0 + after) * np.mean(~skip * (1.0 - beta))
        seconds = skip.mean() * setting.draft_s + share * (
            costs.fixed_time(k) + (16.0 + k * bits) * costs.seconds_per_bit
        )
        return float(tokens / seconds), float(np.mean(skip * beta) / tokens)

    def scaled(self, first: float) -> Array:
        """Return β̂ of the positions, with the mean that the first draft's acceptance has."""
        mean = float(self.rejection.mean())
        return np.clip(self.rejection * (1.0 - first) / mean, 0.0, 1.0) if mean > 0 else self.rejection

    def upper_bound(self, setting: Setting, risk: float) -> float:
        """Return a rate that no plan with this risk per token exceeds, over all codecs and draft lengths."""
        found = 0.0
        for codec in range(len(CODECS)):
            for k in DRAFT_LENGTHS:
                costs, alpha, bits = self.costs(k, codec, setting)
                rows = (len(self.uncertainty), 1)
                hulls = lower_hulls(np.full(rows, bits), np.zeros(rows))
                plan = plan_user(
                    hulls,
                    costs,
                    alpha,
                    rejection=self.scaled(alpha[0]),
                    risk_limit=risk,
                    draft_lengths=[k],
                    skipping=risk > 0,
                )
                found = max(found, plan.upper_bound)
        return found


def gap(planner: Planner, option: Option) -> float | None:
    """Return by how much a better choice could be faster than an option of ours, relative; None where it is unknown."""
    setting, model = planner.setting, planner.model
    if model is None or option.family != OURS or setting.objective != "throughput" or setting.link.quantile(0.5) <= 0:
        return None
    rate, risk = model.rate(option, setting)
    alone = next(one for one in planner.options if one.family == SERVER)
    speed = float(setting.speeds(planner.totals([alone])[0], np.array([setting.link.quantile(0.5)]))[0])
    return max(model.upper_bound(setting, risk), speed) / rate - 1.0
