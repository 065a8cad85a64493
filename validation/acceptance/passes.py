"""Measured passes of a target and a draft model, and the times of a round that they give.

A table is a CSV file with a pass, or the median of equal ones, a line: batch, width (new tokens of each sequence),
context (cached tokens; may be left out), ms, model (target or draft; without it, target), and perhaps engine. Times are
interpolated in width and batch; beyond them, and in the cache, the plane of
:func:`hlmtheory.serving.goodput.fit_passes` goes on.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hlmtheory.serving.goodput import fit_passes
from validation.errors import UserError
from validation.input_files import read_csv, read_number

_COLUMNS = ("batch", "width", "ms")
_MODELS = ("target", "draft")
_MOST = 1_000_000
"""Largest batch and width of a pass."""


@dataclass(frozen=True, slots=True)
class Measured:
    plane: tuple[float, float, float]
    """In s, s a token and s a cached token, which is 0 if the context did not vary; else the mean time alone."""
    rest: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]]
    """Widths, and mean measured minus fitted seconds, by batch."""
    context: float
    """Median of the cached tokens of a sequence."""
    worst: float
    """Largest distance of a pass from the plane, relative to its time."""
    count: int

    def beyond_plane(self, batch: int, widths: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what the measured passes add to the plane, in seconds, by width."""
        batches = sorted(self.rest)
        table = np.stack([np.interp(widths, *self.rest[size]) for size in batches])
        at = np.interp(batch, batches, np.arange(len(batches)))
        first, share = int(at), at - int(at)
        return np.asarray((1.0 - share) * table[first] + share * table[min(first + 1, len(batches) - 1)])

    def sentence(self, name: str) -> str:
        _, b, c = self.plane
        more = f"{1e6 * b:.4g} us" + (f", and a cached one {1e6 * c:.4g} us" if c else "")
        off = f", by a plane that misses a pass by at most {self.worst:.0%}" if self.worst >= 0.005 else ""
        return f"Passes of the {name} model: {self.count} measured, interpolated; beyond them a token adds {more}{off}."


@dataclass(frozen=True, slots=True)
class Passes:
    """Passes of a table; ``draft`` is None if the table has none of the draft model."""

    target: Measured
    draft: Measured | None

    @property
    def measured_to(self) -> int:
        """Return the largest batch at which every model of the table was measured."""
        return min(max(model.rest) for model in (self.target, self.draft) if model is not None)

    @property
    def linear_from(self) -> int:
        """Return the largest batch that was measured of any model: beyond it times are linear in the batch."""
        return max(max(model.rest) for model in (self.target, self.draft) if model is not None)

    def sentences(self) -> list[str]:
        draft = [] if self.draft is None else [self.draft.sentence("draft")]
        return [self.target.sentence("target"), *draft]


def rows_of_passes(path: Path) -> tuple[dict[str, NDArray[np.float64]], set[str]]:
    """Return batch, width, context and ms of the passes of each model that a table has, (n, 4), and its engines."""
    cells = list(read_csv(path, _COLUMNS))
    rows = [(_model(where, row), _numbers(where, row)) for where, row in cells]
    passes = {model: np.array([row for name, row in rows if name == model]) for model in {name for name, _ in rows}}
    return passes, {row.get("engine", "").strip() for _, row in cells}


def read_passes(path: str | Path) -> Passes:
    path = Path(path)
    measured = {model: _measured(path, model, passes) for model, passes in rows_of_passes(path)[0].items()}
    if "target" not in measured:
        raise UserError(f"{path} has no pass of the target model.")
    return Passes(measured["target"], measured.get("draft"))


def _measured(path: Path, model: str, passes: NDArray[np.float64]) -> Measured:
    size, width, context, seconds = *passes[:, :3].T, passes[:, 3] / 1e3
    cached = context if np.ptp(context) else 0.0 * context  # a cache that does not vary is a part of a
    try:
        plane = fit_passes(size.astype(np.int64), width.astype(np.int64), cached, seconds)
    except ValueError as error:
        if model == "target" and len(passes) < 3:
            noun = "passes" if len(passes) > 1 else "pass"
            reason = f"{path} has {len(passes)} {noun} of the target; give at least 3, better 4"
            raise UserError(f"{reason}: batch 1 and your largest, each at width 1 and K + 1.") from error
        if model == "target":
            raise UserError(f"{path}, passes of the {model} model: {error}.") from error
        plane = _line(size * width, seconds)
    rest = seconds - plane[0] - size * (plane[1] * width + plane[2] * cached)
    table = {}
    for batch in np.unique(size):
        widths = np.unique(width[size == batch])
        table[int(batch)] = widths, np.array([rest[(size == batch) & (width == w)].mean() for w in widths])
    return Measured(plane, table, float(np.median(context)), float(np.max(np.abs(rest) / seconds)), len(passes))


def _line(tokens: NDArray[np.float64], seconds: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return a plane without a cache, a + b·tokens with b ≥ 0, by least squares; b = 0 if the tokens do not vary."""
    from scipy.optimize import nnls

    if not np.ptp(tokens):
        return float(seconds.mean()), 0.0, 0.0
    fixed, each = nnls(np.stack([np.ones_like(tokens), tokens], axis=-1), seconds)[0].tolist()
    return fixed, each, 0.0


def _model(where: str, row: dict[str, str]) -> str:
    model = row.get("model", "").strip() or "target"
    if model not in _MODELS:
        raise UserError(f"{where}: the model is {model!r}; write target or draft.")
    return model


def _numbers(where: str, row: dict[str, str]) -> tuple[float, float, float, float]:
    batch, width = (read_number(where, name, row[name], 1, _MOST, whole=True) for name in ("batch", "width"))
    context = read_number(where, "context", row.get("context") or "0", 0.0)
    return batch, width, context, read_number(where, "ms", row["ms"], 0.0, above=True)
