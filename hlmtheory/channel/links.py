"""Links whose rate changes with time: a two-state Markov link, and a link that follows a measured trace."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._domains import DomainError, generator, number
from hlmtheory._quantities import checked, not_negative, open_unit, positive
from hlmtheory.channel.latency import DRAWS

_DOMAINS = {
    "good_bps": positive("give the rate of the good state in bit/s"),
    "bad_bps": not_negative("give the rate of the bad state in bit/s; 0 for a dead link"),
    "leave_good": open_unit("give the probability that a slot ends the good state"),
    "leave_bad": open_unit("give the probability that a slot ends the bad state"),
    "slot_s": positive("give the length of a slot in seconds"),
    "bits": positive("a round that sends nothing takes no time: leave it out"),
    "start_s": not_negative("a trace begins at time 0"),
    "throughput_bps": not_negative("give the throughput in bit/s"),
}


@dataclass(frozen=True)
class GilbertElliott:
    """Link whose state, good or bad, changes from slot to slot as a Markov chain (gilbert1960capacity).

    Parameters
    ----------
    good_bps, bad_bps : float or array, shape (...)
        Rate in each state, in bit/s; the bad one may be 0.
    leave_good, leave_bad : float or array, shape (...)
        Probability in (0, 1) that the link leaves the state at the end of a slot.
    slot_s : float or array, shape (...)
        Length of a slot, in seconds.

    Raises
    ------
    ValueError
        If a rate or the slot is out of range, or a probability is not in (0, 1).

    Examples
    --------
    >>> link = GilbertElliott(good_bps=8e6, bad_bps=1e6, leave_good=0.0625, leave_bad=0.25, slot_s=0.5)
    >>> float(link.share_of_bad()), float(link.mean_rate())
    (0.2, 6600000.0)
    """

    good_bps: Array
    bad_bps: Array
    leave_good: Array
    leave_bad: Array
    slot_s: Array

    def __post_init__(self) -> None:
        """Check the parameters."""
        self._values()

    def share_of_bad(self) -> Array:
        """Return the long-run share of bad slots: leave_good/(leave_good + leave_bad), shape (...)."""
        _, _, _, out, back, _ = self._values()
        return out / (out + back)

    def mean_rate(self) -> Array:
        """Return the long-run rate in bit/s, shape (...)."""
        _, good, bad, _, _, _ = self._values()
        return good + (bad - good) * self.share_of_bad()

    def sample(self, rng: np.random.Generator, slots: int) -> np.ndarray[Any, Any]:
        """Return the rate in bit/s in consecutive slots of one link, numpy; the first state has the long-run law.

        Raises a ValueError unless there are 0 to 10,000,000 slots, and one link.
        """
        rng, slots = generator("rng", rng), number(DRAWS, "slots", slots)
        shapes = {tuple(value.shape) for value in self._values()[1:]}
        if shapes != {()}:
            raise DomainError(
                f"sample must be called on one link; got shapes {sorted(shapes)}; make a GilbertElliott for each"
            )
        good, bad, out, back = (float(to_numpy(value)) for value in self._values()[1:5])
        begins_bad = rng.random() < out / (out + back)
        leave = np.array([back, out]) if begins_bad else np.array([out, back])
        rates = np.array([bad, good]) if begins_bad else np.array([good, bad])
        chunks: list[np.ndarray[Any, Any]] = [np.empty(0)]
        have = 0
        while have < slots:  # the time in a state is geometric, so draw whole stays
            pairs = 16 + math.ceil((slots - have) / (1.0 / out + 1.0 / back))
            stays = rng.geometric(np.tile(leave, pairs))
            chunks.append(np.repeat(np.tile(rates, pairs), stays))
            have += int(stays.sum())
        return np.concatenate(chunks)[:slots]

    def _values(self) -> tuple[Any, ...]:
        return checked(
            _DOMAINS,
            good_bps=self.good_bps,
            bad_bps=self.bad_bps,
            leave_good=self.leave_good,
            leave_bad=self.leave_bad,
            slot_s=self.slot_s,
        )


@dataclass(frozen=True, eq=False)
class TraceLink:
    """Link with the throughput of a measured trace, repeated forever.

    Parameters
    ----------
    time_s : array, shape (n,)
        Times of the samples in seconds, increasing; n ≥ 2. The first sample is time 0 of the link.
    throughput_bps : array, shape (n,)
        In bit/s. Each value holds until the next sample; the last holds as long as the one before it. It may be 0.

    Raises
    ------
    ValueError
        If the times do not increase, the lengths differ, a throughput is negative or infinite, or all are 0.

    Examples
    --------
    >>> link = TraceLink(time_s=[0.0, 1.0], throughput_bps=[1e6, 3e6])
    >>> link.transfer_time([5e5, 2.5e6, 4e6], start_s=0.0).tolist()
    [0.5, 1.5, 2.0]
    """

    time_s: Array
    throughput_bps: Array

    def __post_init__(self) -> None:
        """Check the samples."""
        xp, times, rates = arrays(time_s=self.time_s, throughput_bps=self.throughput_bps)
        if times.ndim != 1 or times.shape != rates.shape or times.shape[0] < 2:
            shapes = f"{tuple(times.shape)} and {tuple(rates.shape)}"
            raise DomainError(
                f"time_s and throughput_bps must be two rows of one length from 2 up; got shapes {shapes}"
            )
        _DOMAINS["throughput_bps"].check(xp, "throughput_bps", rates)
        if not bool(xp.all(xp.isfinite(times))) or not bool(xp.all(times[1:] > times[:-1])):
            raise DomainError("time_s must be finite and increasing; sort the samples and drop repeated times")
        if not bool(xp.any(rates > 0)):
            raise DomainError("throughput_bps must be positive somewhere; over a dead link nothing arrives")

    def period_s(self) -> float:
        """Return the length of the trace in seconds, after which it repeats."""
        return float(self._edges()[0][-1])

    def mean_rate(self) -> float:
        """Return the mean throughput over a period, in bit/s."""
        edges, total = self._edges()
        return float(total[-1] / edges[-1])

    def transfer_time(self, bits: Array, start_s: Array) -> Array:
        """Return the smallest T in seconds such that the link carries ``bits`` in [``start_s``, ``start_s`` + T]."""
        return self._through(self._transfer, bits=bits, start_s=start_s)

    def _edges(self) -> tuple[Any, Any]:
        """Return the start times of all samples, the end of the last one, and the bits carried until each time."""
        times = np.asarray(to_numpy(self.time_s), dtype=np.float64)
        spans = np.diff(times, append=2.0 * times[-1] - times[-2])
        rates = np.asarray(to_numpy(self.throughput_bps), dtype=np.float64)
        return tuple(np.concatenate([[0.0], np.cumsum(part)]) for part in (spans, spans * rates))  # type: ignore[return-value]

    def _transfer(self, bits: Any, start: Any) -> Any:
        edges, total = self._edges()
        begin = np.mod(start, edges[-1])
        goal = np.interp(begin, edges, total) + bits  # count from the start of the cycle, to keep precision
        cycles = np.maximum(np.ceil(goal / total[-1]) - 1.0, 0.0)
        rest = np.clip(goal - cycles * total[-1], 0.0, total[-1])
        # End of the sample in which the last bit arrives
        after = np.clip(np.searchsorted(total, rest, side="left"), 1, len(edges) - 1)
        step = total[after] - total[after - 1]
        share = np.where(step > 0, (rest - total[after - 1]) / np.where(step > 0, step, 1.0), 0.0)
        return cycles * edges[-1] + edges[after - 1] + share * (edges[after] - edges[after - 1]) - begin

    def _through(self, function: Callable[..., Any], **values: Array) -> Array:
        xp, *given = checked(_DOMAINS, **values)
        plain = np.broadcast_arrays(*(np.asarray(to_numpy(value), dtype=np.float64) for value in given))
        return xp.asarray(np.asarray(function(*plain)), device=given[0].device)
