"""Random worlds of a few positions, the plans of their rows, and the exact total variation of these plans."""

from dataclasses import dataclass

import numpy as np

from hlmtheory.codec import CodecMenu
from hlmtheory.policy import StageCosts, codec_hulls, plan_user
from hlmtheory.policy.costs import UserPlan
from hlmtheory.policy.plan_law import Law, World, law_of

KINDS = (("top-k",), ("lattice",), ("mixture",), ("top-k", "lattice", "mixture"))


@dataclass(frozen=True)
class Case:
    plan: UserPlan
    law: Law
    limit: float

    @property
    def distance(self) -> float:
        return self.law.distance / self.law.tokens

    @property
    def skips_some(self) -> bool:
        return any(0.0 < part.skip_share < 1.0 - 1e-9 for part in self.plan.parts)


def world_of(target: np.ndarray, draft: np.ndarray, menu: CodecMenu) -> World:
    position, token = np.nonzero(draft > 0)
    return World(target, draft, position, token, codec_hulls(draft[position], menu=menu))


def planned(world: World, costs: StageCosts, most: int, limit: float, *, bonus: bool = True, **options) -> Case:
    own = world.position, world.token
    alpha = np.minimum(world.target, world.draft).sum(axis=1).mean()
    rejection = 1.0 - np.minimum(1.0, world.target[own] / world.draft[own])
    given = {"rejection": rejection, "weight": world.likely, "risk_limit": limit, "bonus": bonus, **options}
    plan = plan_user(world.hulls, costs, [alpha] * most, **given)
    return Case(plan, law_of(world, plan, costs, bonus=bonus), limit)


def draw(rng: np.random.Generator) -> Case | None:
    """Return a random case; None if no plan keeps its limit. In half of them a safe token is likely."""
    positions, size, most = (int(n) for n in rng.integers((1, 3, 1), (4, 6, 5)))
    draft = rng.dirichlet(np.full(size, rng.choice([0.2, 1.0, 3.0])), positions)
    mix = rng.choice([0.0, 0.1, 0.5, 1.0])
    target = (1.0 - mix) * draft + mix * rng.dirichlet(np.full(size, 0.5), positions)
    if rng.random() < 0.5:
        safe = rng.choice([0.5, 0.9, 0.99], (positions, 1))
        rest = [rng.dirichlet(np.full(size - 1, sharp), positions) for sharp in (0.3, 3.0)]
        target, draft = (np.hstack([safe, (1.0 - safe) * part]) for part in rest)
    menu = CodecMenu(KINDS[rng.integers(4)], widths=(1, 2, 4, 8), sizes=(1, 2, 3), resolutions=(1, 2, 4, 9, 16))
    times = np.exp(rng.uniform((-6.0, -6.0, -12.0), (-2.0, -2.0, -4.0)))
    costs = StageCosts(*times, round_trip_s=float(rng.choice([0.0, 0.05])))
    options = {"bonus": bool(rng.random() < 0.8), "skipping": bool(rng.random() < 0.8)}
    if rng.random() < 0.5:
        options["draft_lengths"] = [most]
    limit = float(np.exp(rng.uniform(-7.0, -0.5)))
    try:
        return planned(world_of(target, draft, menu), costs, most, limit, **options)
    except ValueError:
        return None
