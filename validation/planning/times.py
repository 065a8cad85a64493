"""Measured times of a pair on a machine, as ``hlm doctor --times`` stores them and ``hlm plan --times`` reads them.

With K drafts of t_d in a round and T(w) a pass of one text of width w, what device and server do between passes is
exchange = drafting + waiting - K t_d - T(K + 1), and between = token - T(1). So a plan gives a round the time that it
took on this machine.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from validation.acceptance import passes
from validation.errors import UserError, naming
from validation.from_json import loaded
from validation.planning.setting import Passes
from validation.trace.sealed import read_sealed, write_sealed

FORMAT, VERSION = "hlm times", 2
FEWEST, FAR = 3, 8  # passes of the target that a plane takes; how far beyond the measured ones a table goes
TOKENS = "tokens"  # The format of messages whose serialisation a plan adds to each exchange


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of something that was repeated: the median and the quartiles."""

    median_s: float
    low_s: float
    high_s: float

    @classmethod
    def of(cls, seconds: list[float]) -> Self:
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
    """Times of whole rounds over a loopback socket; the drafts are by a shared seed."""

    drafts: int  # K of each round
    drafting: Timing
    waiting: Timing
    passing: Timing


@dataclass(frozen=True, slots=True)
class Times:
    draft: Timing
    passes: tuple[PassTiming, ...]
    serialisation: tuple[Serialisation, ...]
    socket: Timing
    rounds: RoundTiming
    token: Timing
    before: int  # Tokens in the cache before a pass
    repeats: int  # How often each was measured
    models: dict[str, str]
    machine: dict[str, Any]
    date: str

    @property
    def table(self) -> Passes:
        return table_of([(timing.batch, timing.width, timing.time.median_s) for timing in self.passes])

    def pass_s(self, width: int) -> float:
        return float(self.table.seconds(np.array(float(width))))

    def exchange_s(self, message: str = TOKENS) -> float:
        """Return the seconds that an exchange takes besides link, drafts and pass, for messages of a format."""
        rounds, usual = self.rounds, self._serialised(TOKENS)
        whole = rounds.drafting.median_s + rounds.waiting.median_s
        rest = whole - rounds.drafts * self.draft.median_s - self.pass_s(rounds.drafts + 1)
        return max(rest - usual, self.socket.median_s) + self._serialised(message)

    def between_s(self) -> float:
        """Return what a token that the server writes takes besides a pass of one token; below 0 if it takes less."""
        return self.token.median_s - self.pass_s(1)

    def _serialised(self, message: str) -> float:
        medians = [timing.time.median_s for timing in self.serialisation if timing.format == message]
        if not medians:
            known = ", ".join(sorted({timing.format for timing in self.serialisation}))
            raise UserError(f"No message of format {message!r} was timed; these were: {known}.")
        return medians[0]

    def plain(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": VERSION, **asdict(self)}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        times = loaded(cls, {name: value for name, value in plain.items() if name not in ("format", "version")})
        rounds = times.rounds
        seconds = [times.draft, times.socket, times.token, rounds.drafting, rounds.waiting, rounds.passing]
        seconds += [timing.time for timing in times.passes] + [timing.time for timing in times.serialisation]
        alone = any(timing.batch == 1 for timing in times.passes)
        if not alone or not all(0 < timing.median_s < math.inf for timing in seconds):
            raise ValueError("a time is not above 0, or no pass is of one text")
        return times


def table_of(rows: Sequence[tuple[int, int, float]]) -> Passes:
    """Return the table of passes, each a batch, a width and seconds; batch 1 must be there."""
    widths = tuple(sorted({width for _, width, _ in rows}))
    batches = tuple(sorted({batch for batch, _, _ in rows}))
    table = []
    for batch in batches:
        of = [(width, seconds) for other, width, seconds in rows if other == batch]
        row = {width: float(np.mean([seconds for w, seconds in of if w == width])) for width, _ in of}
        known = sorted(row)
        table.append(tuple(float(x) for x in np.interp(widths, known, [row[width] for width in known])))
    return Passes(batches, widths, tuple(table))


def pass_line(passes: Passes) -> tuple[float, float]:
    """Return a and b of a pass of one text on a line, a + b·width seconds, both 0 or more: for what needs a line."""
    width, seconds = np.array(passes.widths, dtype=np.float64), np.array(passes.table[0])
    spread = width - width.mean()
    slope = float(spread @ seconds / (spread @ spread)) if len(width) > 1 else 0.0
    slope = min(max(slope, 0.0), float((seconds / width).min()))
    return float(seconds.mean() - slope * width.mean()), slope


def read_passes(path: Path) -> tuple[Passes, Passes | None, bool]:
    """Return the passes of a CSV file with batch, width and ms of both models, and whether llama.cpp ran them all.

    The draft model's are None without one over one token.
    """
    by_model, engines = passes.rows_of_passes(path)
    rows = {model: [(int(n), int(width), ms / 1e3) for n, width, _, ms in each] for model, each in by_model.items()}
    target, draft = rows.get("target", []), rows.get("draft", [])
    if not any(batch == 1 for batch, _, _ in target):
        raise UserError(f"{path} has no pass of the target model over one text (batch 1).")
    alone = any(batch == width == 1 for batch, width, _ in draft)
    by_llama = all(engine.startswith("llama.cpp") for engine in engines)
    if len(target) < FEWEST:
        return table_of(target), table_of(draft) if alone else None, by_llama
    fitted = passes.read_passes(path)
    return extended(fitted.target), extended(fitted.draft) if alone and fitted.draft else None, by_llama


def extended(measured: passes.Measured) -> Passes:
    """Return the table of fitted passes; what is not measured follows the plane, as in ``hlm acceptance``."""
    batches, (base, token, cached) = sorted(measured.rest), measured.plane
    widths = sorted({int(width) for known, _ in measured.rest.values() for width in known})
    batches, widths = [*batches, FAR * batches[-1]], [*widths, FAR * widths[-1]]
    rest = [measured.beyond_plane(batch, np.array(widths)) for batch in batches]
    fixed = [base + batch * (token * np.array(widths) + cached * measured.context) for batch in batches]
    table = tuple(tuple(np.maximum(a + b, a / 10).tolist()) for a, b in zip(fixed, rest, strict=True))
    return Passes(tuple(batches), tuple(widths), table)


def with_passes(request: Any, path: Path, left_out: set[str]) -> tuple[Any, list[str], set[str]]:
    """Return a request with the passes of a CSV file, a sentence on them, and the options that are measured."""
    table, drafts, by_llama = read_passes(path)
    measured = _passes_of(table, left_out)
    draft = None if drafts is None else float(drafts.seconds(np.ones(())))
    if draft is not None and "--server-draft-time" in left_out:
        measured["--server-draft-time"] = ("server_draft_s", draft)
    changed: dict[str, Any] = dict(measured.values()) | {"draft_passes": drafts, "reads_again": by_llama}
    rows = passes.rows_of_passes(path)[0]["target"]
    if request.batch_assumed and "passes" in changed:
        most = int(rows[:, 0].max())
        changed["server_batch"] = most if request.users == 1 else min(most, request.users)
    used = "the passes" if "passes" in changed else "no pass, since --verify-time or --verify-token-time is given"
    if draft is not None:
        own = f"the server's draft, {1e3 * draft:.3g} ms for one text"
        used += (
            f", and {own if '--server-draft-time' in measured else 'how a draft on the server grows with its texts'}"
        )
    said = passes.read_passes(path).sentences() if len(rows) >= FEWEST else []
    return replace(request, **changed), [f"From {path}: {used}.", *said], set(measured)


def _passes_of(passes: Passes, left_out: set[str]) -> dict[str, tuple[str, Any]]:
    if not {"--verify-time", "--verify-token-time"} <= left_out:
        return {}
    base, slope = pass_line(passes)
    line = {"--verify-time": ("verify_s", base), "--verify-token-time": ("verify_token_s", slope)}
    return {**line, "passes": ("passes", passes)}


def with_times(request: Any, times: Times, left_out: set[str]) -> tuple[Any, list[str], set[str]]:
    """Return a request with measured times, sentences on them, and the options that are measured."""
    exchange = times.exchange_s()
    measured = {
        "--draft-time": ("draft_s", times.draft.median_s),
        "--server-draft-time": ("server_draft_s", times.draft.median_s),
        "--between-time": ("between_s", times.between_s()),
    }
    measured = {option: pair for option, pair in measured.items() if option in left_out}
    options = ", ".join(f"{option} {1e3 * value:.3g}ms" for option, (_, value) in measured.items())
    measured |= _passes_of(times.table, left_out)
    if "passes" in measured:
        options += f", passes as measured ({1e3 * times.pass_s(1):.3g} ms for one token)"
    changed: dict[str, Any] = dict(measured.values())
    changed |= {"round_trip_s": request.round_trip_s + exchange}
    models = " and ".join(times.models.get(name, "a model") for name in ("small_name", "large_name"))
    notes = [
        f"Measured on one machine on {times.date[:10]} ({models}, {times.before} tokens before): "
        f"{options or 'nothing that was left out'}; what device and server do between passes takes "
        f"{1e3 * exchange:.3g} ms of each exchange, which is added to --rtt. Assumed: device and server are such "
        "machines, each alone."
    ]
    if changed.get("verify_token_s", 0.0) > 0:
        notes.append("A pass takes longer for more tokens, so a device that drafts on is not planned.")
    return replace(request, **changed), notes, set(measured)


def write_times(times: Times, path: Path) -> None:
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_sealed(path, times.plain())


def read_times(path: Path) -> Times:
    with naming(path):
        plain = read_sealed(path)
    if (plain.get("format"), plain.get("version")) != (FORMAT, VERSION):
        raise UserError(f"{path} holds no times of this version; write them with `hlm doctor --times`.")
    try:
        return Times.of(plain)
    except ValueError as error:
        raise UserError(f"{path} holds no times that can be used ({error}); write them again.") from error
