"""Claims that must fail: the right side of one, times a factor."""

from dataclasses import replace
from functools import wraps
from typing import Any

from hlmtheory.claims import Claim, Sides


def scaled(claim: Claim, factor: float) -> Claim:
    @wraps(claim.sides)
    def sides(**values: Any) -> Sides:
        relation, lhs, rhs = claim.sides(**values)
        return Sides(relation, lhs, factor * rhs)

    return replace(claim, sides=sides)
