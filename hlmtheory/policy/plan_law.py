"""The exact law of what a plan does, by enumeration: positions, drafted tokens, messages as bytes, places.

The other side of the claims on a plan's own numbers; it shares nothing with their accounting.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hlmtheory.codec import coded_message, decode, decoded_rows, encode
from hlmtheory.policy.costs import Integers, Numbers, PlanPart, StageCosts, UserPlan
from hlmtheory.policy.hulls import Hulls, choice_of


class Law(NamedTuple):
    """Means over rounds: tokens, seconds, and the sum over tokens of TV(law of the token, p)."""

    tokens: float
    seconds: float
    distance: float


class World(NamedTuple):
    """Positions with both models' distributions (P, V), and for each row of the plan its position and token."""

    target: Numbers
    draft: Numbers
    position: Integers
    token: Integers
    hulls: Hulls

    @property
    def likely(self) -> Numbers:
        """How often each row is drawn at a place."""
        return np.asarray(self.draft[self.position, self.token] / len(self.draft))


class _Place(NamedTuple):
    """What happens at a place: the share of drafts that is sent, and kept; bits that are sent; TV of the token."""

    sent: float
    kept: float
    bits: float
    distance: float


def law_of(world: World, plan: UserPlan, costs: StageCosts, *, bonus: bool = True) -> Law:
    """The means over all rounds of a plan; of a mixture, of its parts."""
    laws = [(part.share, _round(world, part, costs, bonus=bonus)) for part in plan.parts]
    return Law(*(sum(share * law[n] for share, law in laws) for n in range(3)))


def _round(world: World, part: PlanPart, costs: StageCosts, *, bonus: bool) -> Law:
    k = part.draft_length
    if k == 0:
        return Law(1.0, costs.fixed_time(0) + costs.header_bits * costs.seconds_per_bit, 0.0)
    first = _place(world, part.first, lambda row: bool(part.skip[row]))
    later = [_place(world, corners, lambda row: False) for corners in part.later]
    tokens, distance, reached = 1.0, first.distance, first.kept
    for place in later:
        tokens, distance, reached = tokens + reached, distance + reached * place.distance, reached * place.kept
    tokens += reached if bonus else 0.0
    bits = first.bits + first.sent * (costs.header_bits + k * costs.token_bits + sum(place.bits for place in later))
    seconds = (1.0 - first.sent) * costs.draft_s + first.sent * costs.fixed_time(k) + bits * costs.seconds_per_bit
    return Law(tokens, seconds, distance)


def _place(world: World, corners: Integers, skips: Callable[[int], bool]) -> _Place:
    law = np.zeros_like(world.target)
    sent = kept = bits = 0.0
    for row, (x, d, chance) in enumerate(zip(world.position, world.token, world.likely, strict=True)):
        own = world.draft[x, d]
        if skips(row):
            law[x, d] += own
            continue
        choice, p = choice_of(world.hulls, int(corners[row])), world.target[x]
        message = decode(encode(coded_message(world.draft[x], choice, token=int(d))))
        residual = np.maximum(p - decoded_rows(message)[0], 0.0)  # type: ignore[arg-type]
        accepted = min(1.0, p[d] / own)
        law[x, d] += own * accepted
        law[x] += own * (1.0 - accepted) * (residual / residual.sum() if residual.max() > 0 else p)
        sent, kept, bits = sent + chance, kept + chance * accepted, bits + chance * float(choice.bits)
    distance = 0.5 * np.abs(law - world.target).sum(axis=1)
    return _Place(sent, kept, bits, float(distance.mean()))
