"""Lower convex hulls of candidate messages: of each position, what a price of bits against risk can choose."""

from dataclasses import dataclass, fields

import numpy as np

from hlmtheory._array import Array, brief
from hlmtheory._domains import COUNT, Domain, DomainError, instance, numbers
from hlmtheory._quantities import not_negative
from hlmtheory.codec.selection import CodecChoice
from hlmtheory.policy.costs import Integers, Numbers

_FINITE = not_negative("give bits of messages")
DEAREST = 1e290  # price of risk; a higher one, times others, may overflow
BITS = Domain("0 or more", lambda xp, value: value >= 0, "give bits of messages, inf for a message that does not exist")
RISK = Domain("in [0, 1]", lambda xp, value: (value >= 0) & (value <= 1), "give half of a certified bias")


@dataclass(frozen=True, slots=True)
class Hulls:
    """The corners of the lower hull of (bits, risk) at each of N positions, one position after the other."""

    start: Array  # (N + 1,); position n has the corners start[n] to start[n + 1] - 1
    bits: Array  # (C,), ascending within a position
    risk: Array  # (C,), bound on the TV that the message adds; descending within a position
    entry: Array  # (C,), the column of the candidate
    codec: CodecChoice | None = None  # how each corner is written, if :func:`codec_hulls` made it

    def __post_init__(self) -> None:
        """Check the arrays: they may come from a file."""
        start, entry = numbers(COUNT, "start", self.start), numbers(COUNT, "entry", self.entry)
        bits, risk = numbers(_FINITE, "bits", self.bits), numbers(RISK, "risk", self.risk)
        if start.ndim != 1 or len(start) < 2 or start[0] != 0 or (np.diff(start) < 1).any():
            raise DomainError(
                f"start must rise from 0, one number more than positions; got {brief(self.start)}; sum counts"
            )
        for name, one in (("bits", bits), ("risk", risk), ("entry", entry)):
            if one.shape != (start[-1],):
                raise DomainError(
                    f"{name} must have shape ({start[-1]},), as start ends; got {one.shape}; give each corner"
                )
        inside = np.ones(len(bits), dtype=bool)
        inside[start[:-1]] = False
        if (np.diff(bits)[inside[1:]] <= 0).any():
            raise DomainError("bits must rise within each position; got others; make the hulls with lower_hulls")
        if (np.diff(risk)[inside[1:]] >= 0).any():
            raise DomainError("risk must fall within each position; got others; make the hulls with lower_hulls")
        if self.codec is not None and np.shape(instance("codec", self.codec, CodecChoice).k) != bits.shape:
            raise DomainError(
                f"codec must hold arrays of shape {bits.shape}; got {np.shape(self.codec.k)}; give each corner"
            )
        for name, one in (("start", start), ("bits", bits), ("risk", risk), ("entry", entry)):
            object.__setattr__(self, name, one)

    @property
    def positions(self) -> int:
        """N."""
        return len(self.start) - 1


def choice_of(hulls: Hulls, corner: int) -> CodecChoice:
    """How a corner is written."""
    codec = instance("codec", hulls.codec, CodecChoice)
    return CodecChoice(**{field.name: getattr(codec, field.name)[corner] for field in fields(codec)})


def lower_hulls(bits: Array, risk: Array) -> Hulls:
    """Return the lower hulls of candidate messages.

    For every price, a corner has the smallest bits + price · risk of all candidates: the others can be left out.

    Parameters
    ----------
    bits : array, shape (N, J)
        Bits of candidate j at position n, 0 or more; infinite if position n has no candidate j.
    risk : array, shape (N, J)
        Its risk in [0, 1], such as half of the certified bias of a codec.

    Returns
    -------
    Hulls
        C corners of all N positions, shape (C,), and the column of each corner's candidate; no ``codec``.

    Raises
    ------
    ValueError
        If a number is out of range, the shapes differ or are not (N, J), or a position has no candidate.

    Examples
    --------
    >>> found = lower_hulls([[10.0, 20.0, 30.0]], [[0.5, 0.375, 0.0]])
    >>> found.bits.tolist(), found.risk.tolist(), found.entry.tolist()
    ([10.0, 30.0], [0.5, 0.0], [0, 2])
    """
    cost, loss = numbers(BITS, "bits", bits), numbers(RISK, "risk", risk)
    if cost.ndim != 2 or cost.shape != loss.shape or 0 in cost.shape:
        raise DomainError(f"bits and risk must have one shape (N, J); got {cost.shape} and {loss.shape}; stack them")
    if not np.isfinite(cost).any(axis=1).all():
        place = int(np.argmin(np.isfinite(cost).any(axis=1)))
        raise DomainError(f"bits must be finite for a candidate of each position; got none at {place}; give one")
    alone = cost.shape[1] == 1  # each candidate is then its hull
    corners = np.zeros(cost.shape, np.int64) if alone else [hull(*row) for row in zip(cost, loss, strict=True)]
    start = np.concatenate(([0], np.cumsum([len(one) for one in corners]))).astype(np.int64)
    entry = np.concatenate(corners)
    row = np.repeat(np.arange(len(cost)), np.diff(start))
    return Hulls(start, cost[row, entry], loss[row, entry], entry)


def hull(cost: Numbers, loss: Numbers) -> Integers:
    """The corners of one position's lower hull, from the fewest bits to the least risk."""
    order = np.lexsort((loss, cost))
    x, y = cost[order].tolist(), loss[order].tolist()
    front: list[int] = []
    for j in range(len(x)):
        if x[j] == np.inf:
            break
        if front and y[j] >= y[front[-1]]:
            continue
        while len(front) > 1:
            a, b = front[-2], front[-1]
            if (x[b] - x[a]) * (y[a] - y[j]) < (x[j] - x[a]) * (y[a] - y[b]):
                break
            front.pop()
        front.append(j)
    return np.asarray(order[front], dtype=np.int64)


class Priced:
    """The hulls padded to arrays (N, J), and the average hull, to find the cheapest corner at any price quickly."""

    def __init__(self, hulls: Hulls, weight: Numbers) -> None:
        instance("hulls", hulls, Hulls)
        count = np.diff(hulls.start)
        place = np.minimum(np.arange(count.max()), count[:, None] - 1) + hulls.start[:-1, None]  # (N, J)
        self.hulls, self.weight = hulls, weight
        self._at = hulls.start[:-1]
        # Steps of all hulls by falling risk saved for each bit: the corners of the average hull
        step = np.ones(len(hulls.bits), dtype=bool)
        step[hulls.start[:-1]] = False
        after = np.flatnonzero(step)
        more, less = hulls.bits[after] - hulls.bits[after - 1], hulls.risk[after - 1] - hulls.risk[after]
        owner = np.repeat(np.arange(len(count)), count)[after]
        order = np.argsort(-less / more, kind="stable")
        self._slope = (less / more)[order]  # falling
        first = hulls.start[:-1]
        self._bits = np.cumsum(np.concatenate(([weight @ hulls.bits[first]], (weight[owner] * more)[order])))
        self._risk = np.cumsum(np.concatenate(([weight @ hulls.risk[first]], -(weight[owner] * less)[order])))
        slope = np.full(len(hulls.bits), np.inf)
        slope[after] = less / more
        real = np.arange(place.shape[1]) < count[:, None]
        self._steps = np.ascontiguousarray(np.where(real, slope[place], -np.inf)[:, 1:].T)  # (J - 1, N), falling

    def mean(self, x: float, y: Numbers) -> tuple[Numbers, Numbers]:
        """Mean bits and risk of the corners with the least x bits + y risk, for each price y."""
        with np.errstate(over="ignore"):
            slope = np.where(y > 0, x / np.where(y > 0, y, 1.0), np.inf)
        n = np.where(y > 0, np.searchsorted(-self._slope, -slope, side="left"), 0)
        return self._bits[n], np.maximum(self._risk[n], 0.0)

    def prices(self) -> Numbers:
        """The prices of risk at which the cheapest corner of some position changes; a bit costs 1."""
        with np.errstate(over="ignore", divide="ignore"):  # a risk may be subnormal
            return np.asarray(np.minimum(1.0 / self._slope, DEAREST))

    def corners(self, x: float, y: float) -> Integers:
        """The corner of each position with the least x bits + y risk; of equal ones that with the fewest bits."""
        if y <= 0:
            return np.asarray(self._at)
        taken = (self._steps > x / y).view(np.uint8)  # one corner after the other: as quick as the memory
        return np.asarray(self._at + taken.sum(axis=0, dtype=np.uint8 if len(taken) < 256 else np.int64))
