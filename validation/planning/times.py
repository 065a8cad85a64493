"""Measured times of a pair on a machine, as ``hlm doctor --times`` stores them and ``hlm plan --times`` reads them.

=============== =============================================================================================
part            what was timed
=============== =============================================================================================
draft           one draft of the device: a pass of the draft model, the draw, and what the loop does around them
passes          a pass of the server by ``batch`` (texts) and ``width`` (tokens of each text), with its answers
serialisation   a round and its answer on both sides, written, sealed, unsealed and read, by format and drafts
socket          a frame over a loopback socket and back
rounds          whole rounds of a device and a server over a loopback socket: from an answer to the next sending, from
                there to the answer, and the server's pass in it
token           a token of a text that the server writes, from one to the next, as a device sees it
=============== =============================================================================================

A plan's pass takes a + b·width seconds, fitted by least squares to the passes of one text. From the rounds and the
tokens follows what no other time holds: what device and server do between passes. With K drafts of t_d in a round,

    exchange = drafting + waiting - K t_d - (a + b (K + 1)),    between = token - (a + b).

So a plan with these times gives a round of K drafts on this machine the time that it took. A draft within a round
takes longer than a draft in a row of drafts, and so may a pass; the exchange holds this extra time too. An exchange
takes at least the serialisation and the socket; messages of another format add the difference of their serialisation.
The server's own draft model is timed as that of the device, because both were on one machine.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from validation.errors import UserError, naming
from validation.trace.sealed import read_sealed, write_sealed

FORMAT, VERSION = "hlm times", 2
TOKENS = "tokens"
"""The format of messages whose serialisation a plan adds to each exchange."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of something that was repeated: the median and the quartiles."""

    median_s: float
    low_s: float
    high_s: float

    @classmethod
    def of(cls, seconds: list[float]) -> Timing:
        """Return the median and quartiles of measured seconds."""
        low, median, high = np.quantile(seconds, [0.25, 0.5, 0.75]).tolist()
        return cls(median, low, high)


@dataclass(frozen=True, slots=True)
class PassTiming:
    """A pass of the target model over ``batch`` texts with ``width`` new tokens each."""

    batch: int
    width: int
    time: Timing


@dataclass(frozen=True, slots=True)
class Serialisation:
    """A round of some drafts and its answer, written and read on both sides; ``up_bytes`` is the round's frame."""

    format: str
    drafts: int
    up_bytes: int
    time: Timing


@dataclass(frozen=True, slots=True)
class RoundTiming:
    """Times of whole rounds over a loopback socket; the drafts are by a shared seed.

    Attributes
    ----------
    drafts : int
        K of each round.
    drafting, waiting, passing : Timing
        From an answer to the next sending, from there to the answer, and of the server's pass within the wait.
    """

    drafts: int
    drafting: Timing
    waiting: Timing
    passing: Timing


@dataclass(frozen=True, slots=True)
class Times:
    """What was measured, and on what.

    Attributes
    ----------
    draft : Timing
    passes : tuple of PassTiming
    serialisation : tuple of Serialisation
    socket : Timing
    rounds : RoundTiming
    token : Timing
    before, repeats : int
        Tokens in the cache before a pass, and how often each was measured.
    models, machine : dict
    date : str
    """

    draft: Timing
    passes: tuple[PassTiming, ...]
    serialisation: tuple[Serialisation, ...]
    socket: Timing
    rounds: RoundTiming
    token: Timing
    before: int
    repeats: int
    models: dict[str, str]
    machine: dict[str, Any]
    date: str

    def pass_line(self) -> tuple[float, float]:
        """Return a and b of a pass of one text: a + b·width seconds, both 0 or more."""
        one = [(each.width, each.time.median_s) for each in self.passes if each.batch == 1]
        width, seconds = (np.array(column, dtype=np.float64) for column in zip(*one, strict=True))
        spread = width - width.mean()
        slope = float(spread @ seconds / (spread @ spread)) if len(one) > 1 else 0.0
        slope = min(max(slope, 0.0), float((seconds / width).min()))
        return float(seconds.mean() - slope * width.mean()), slope

    def pass_s(self, width: int) -> float:
        """Return the seconds of a pass over a number of tokens of one text, by the fitted line."""
        base, slope = self.pass_line()
        return base + slope * width

    def exchange_s(self, message: str = TOKENS) -> float:
        """Return the seconds that an exchange takes besides link, drafts and pass, for messages of a format."""
        rounds, usual = self.rounds, self._serialised(TOKENS)
        whole = rounds.drafting.median_s + rounds.waiting.median_s
        rest = whole - rounds.drafts * self.draft.median_s - self.pass_s(rounds.drafts + 1)
        return max(rest - usual, self.socket.median_s) + self._serialised(message)

    def between_s(self) -> float:
        """Return the seconds that the server takes between two passes of a text that it writes, 0 or more."""
        return max(self.token.median_s - self.pass_s(1), 0.0)

    def _serialised(self, message: str) -> float:
        found = [one.time.median_s for one in self.serialisation if one.format == message]
        if not found:
            known = ", ".join(sorted({one.format for one in self.serialisation}))
            raise UserError(f"No message of format {message!r} was timed; these were: {known}.")
        return found[0]

    def plain(self) -> dict[str, Any]:
        """Return the times as plain values."""
        return {"format": FORMAT, "version": VERSION, **asdict(self)}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Times:
        """Return the times from the result of :meth:`plain`."""
        given = {name: value for name, value in plain.items() if name not in ("format", "version")}
        for name in ("draft", "socket", "token"):
            given[name] = Timing(**given[name])
        parts = {name: Timing(**given["rounds"][name]) for name in ("drafting", "waiting", "passing")}
        given["rounds"] = RoundTiming(**given["rounds"] | parts)
        for name, kind in (("passes", PassTiming), ("serialisation", Serialisation)):
            given[name] = tuple(kind(**each | {"time": Timing(**each["time"])}) for each in given[name])
        found = cls(**given)
        rounds = found.rounds
        seconds = [found.draft, found.socket, found.token, rounds.drafting, rounds.waiting, rounds.passing]
        seconds += [one.time for one in found.passes] + [one.time for one in found.serialisation]
        if not all(0 < one.median_s < math.inf for one in seconds) or not any(one.batch == 1 for one in found.passes):
            raise ValueError("a time is not above 0, or no pass is of one text")
        return found


def with_times(request: Any, times: Times, left_out: set[str]) -> tuple[Any, list[str], set[str]]:
    """Return a request with measured times, sentences on them, and the options that are measured.

    Parameters
    ----------
    request : Request
    times : Times
    left_out : set of str
        Options that the user did not give; the others stay as they are.
    """
    base, slope = times.pass_line()
    exchange = times.exchange_s()
    found = {
        "--draft-ms": ("draft_s", times.draft.median_s),
        "--server-draft-ms": ("server_draft_s", times.draft.median_s),
        "--verify-ms": ("verify_s", base),
        "--verify-us-per-token": ("verify_token_s", slope),
        "--between-ms": ("between_s", times.between_s()),
    }
    if not {"--verify-ms", "--verify-us-per-token"} <= left_out:  # one line, so both or neither
        del found["--verify-ms"], found["--verify-us-per-token"]
    found = {option: one for option, one in found.items() if option in left_out}
    changed: dict[str, float] = dict(found.values())
    changed |= {"round_trip_s": request.round_trip_s + exchange}
    options = ", ".join(
        f"{option} {value * (1e6 if 'us' in option else 1e3):.3g}" for option, (_, value) in found.items()
    )
    models = " and ".join(times.models.get(name, "a model") for name in ("small_name", "large_name"))
    said = (
        f"Measured on one machine on {times.date[:10]} ({models}, {times.before} tokens before): "
        f"{options or 'nothing that was left out'}; what device and server do between passes takes "
        f"{1e3 * exchange:.3g} ms of each exchange, which is added to --rtt. Assumed: device and server are such "
        "machines, each alone."
    )
    notes = [said]
    if slope > 0 and "--verify-us-per-token" in found:
        notes.append("A pass takes longer for more tokens, so a device that drafts on is not planned.")
    return replace(request, **changed), notes, set(found)


def write_times(times: Times, path: Path) -> None:
    """Write times to a JSON file with a checksum."""
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_sealed(path, times.plain())


def read_times(path: Path) -> Times:
    """Return the times of a file of :func:`write_times`.

    Raises
    ------
    UserError
        If the file is not there, is damaged, or holds something else.
    """
    with naming(path):
        plain = read_sealed(path)
    if (plain.get("format"), plain.get("version")) != (FORMAT, VERSION):
        raise UserError(f"{path} holds no times of this version; write them with `hlm doctor --times`.")
    try:
        return Times.of(plain)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} holds no times that can be used ({error}); write them again.") from error
