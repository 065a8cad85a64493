"""Table IV of ours: the loss of whole texts at each threshold, and promised against measured risk."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.arrays import Index, Row
from validation.decoding.trace_drafts import POINTS
from validation.estimates import CONFIDENCE, NONE, Estimate, told
from validation.plots.common.record import Numbers, cell, kept, plain, table
from validation.plots.ours.text_losses import Losses, losses_of
from validation.trace.reader import Trace

LENGTHS = (10, 20, 40, 160)
ALLOWED = (0.05, 0.1, 0.2)
WHOLE = "overlap, bound 1"
SUM = "sum, bound T"
TOKEN = "sum / T, bound 1"
SPLITS = 200
CALIBRATION = 100


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of S splits.

    ``column`` (S,): place of the threshold in the grid, -1 if nothing may be skipped; ``met`` (S,): mean loss of the
    test prompts; ``mean``: of ``met`` over the splits, with a 95% interval by the jackknife over prompts.
    """

    column: Index
    met: Row
    mean: Estimate


def _loss(name: str, losses: Losses, length: int) -> tuple[Row, float]:
    if name == WHOLE:
        return losses.overlap(length), 1.0
    total = losses.total(length)
    return (total, float(length)) if name == SUM else (total / length, 1.0)


def measure_table(trace: Trace, seed: int) -> Numbers:
    """Measure the thresholds that calibration allows for the losses of whole texts."""
    losses = losses_of(trace, seed)
    allowed = _allowed(losses, [*(length for length in LENGTHS if length < losses.longest), losses.longest], seed)
    return {
        "axes": [],
        "series": [],
        "statistics": _about(losses) | {"allowed": allowed},
        "tables": [_allowed_table(allowed, losses)],
        "positions_drawn": losses.positions,
    }


def _about(losses: Losses) -> dict[str, Any]:
    return {
        "texts": len(losses.length),
        "prompts": losses.prompts,
        "calibrating": calibration_size(losses.prompts),
        "longest": losses.longest,
        "mean_length": plain(losses.length.mean()),
        "surprise": plain(losses.surprise, 4),
        "of_the_target_model": losses.of_the_target_model,
    }


def _allowed(losses: Losses, lengths: list[int], seed: int) -> list[dict[str, Any]]:
    """Return the thresholds that each loss allows at each ε, and the test prompts' losses, over random splits."""
    splits = random_splits(losses.prompts, seed)
    count = int(splits[0].sum())
    rows = []
    for length in lengths:
        overlap = losses.overlap(length)
        for risk in ALLOWED:
            for name in (WHOLE, SUM, TOKEN):
                values, bound = _loss(name, losses, length)
                row: dict[str, Any] = {"length": length, "risk": risk, "loss": name, "bound": bound}
                if (outcome := over_splits(values, splits, risk=risk, bound=bound)) is None:
                    row |= {"needs": fewest_prompts(bound, risk), "calibrating": count}
                else:
                    row |= _reached(outcome)
                    row["sent"] = plain(share_of_tests(*losses.sent_tokens(length), splits, outcome.column))
                    row["overlap_met"] = plain(mean_of_tests(overlap, splits, outcome.column))
                rows.append(row)
    return rows


def _reached(outcome: Outcome) -> dict[str, Any]:
    """Return the thresholds of the splits, and the risk met; a threshold is null where nothing may be skipped."""
    places = np.quantile(outcome.column, (0.05, 0.5, 0.95), method="inverted_cdf").astype(int)
    low, middle, high = (plain(POINTS[place]) if place >= 0 else None for place in places)
    return {"threshold": middle, "threshold_low": low, "threshold_high": high, "met": kept(outcome.mean)}


def _allowed_table(rows: list[dict[str, Any]], losses: Losses) -> dict[str, Any]:
    heads = ("T", "ε", "loss", "threshold", "risk met", "overlap loss there", "sent")
    cells = []
    for row in rows:
        start = (str(row["length"]), f"{row['risk']:g}", row["loss"])
        if "needs" in row:
            cells.append((*start, f"needs {row['needs']:,} prompts", *3 * (NONE,)))
            continue
        met = (told(row[key], ".3f") for key in ("overlap_met", "sent"))
        risk = row["met"] | {"low": max(0.0, row["met"]["low"])}
        cells.append((*start, _thresholds(row), cell(risk, ".3f"), *met))
    count = calibration_size(losses.prompts)
    title = (
        f"Thresholds by conformal risk control with {count} prompts: median over {SPLITS} random splits [5%, 95%]; the "
        f"other columns are means over the splits, on the {losses.prompts - count} prompts that did not calibrate, the "
        "risk with its 95% interval, cut at 0"
    )
    return table(title, heads, tuple(cells))


def _thresholds(row: dict[str, Any]) -> str:
    middle, low, high = (
        "skip nothing" if row[key] is None else f"{row[key]:g}"
        for key in ("threshold", "threshold_low", "threshold_high")
    )
    return middle if low == high else f"{middle} [{low}, {high}]"


def calibration_size(prompts: int) -> int:
    """Return how many prompts calibrate: 100, or five eighths of them if there are fewer than 160."""
    return min(CALIBRATION, prompts * 5 // 8)


def random_splits(prompts: int, seed: int) -> NDArray[np.bool_]:
    """Return which prompts calibrate in each split, shape (SPLITS, prompts)."""
    rng = np.random.default_rng([seed, 7])
    return np.stack([rng.permutation(prompts) for _ in range(SPLITS)]) < calibration_size(prompts)


def fewest_prompts(bound: float, risk: float) -> int:
    """Return the smallest n with B/(n + 1) ≤ ε.

    >>> fewest_prompts(1.0, 0.05), fewest_prompts(160.0, 0.05)
    (19, 3199)
    """
    count = max(1, round(bound / risk) - 2)
    while bound / (count + 1) > risk:
        count += 1
    return count


def over_splits(losses: Row, splits: NDArray[np.bool_], *, risk: float, bound: float) -> Outcome | None:
    """Return the thresholds by conformal risk control on one side of each split, and their risk on the other side."""
    count = int(splits[0].sum())
    if bound / (count + 1) > risk:
        return None
    prompts = losses.shape[0]
    held = splits.astype(np.float64)
    sums, others = held @ losses, (1.0 - held) @ losses
    column = _columns(sums, count, risk, bound)
    met = _at(others, column) / (prompts - count)
    # jackknife: each prompt is left out of its side of every split
    without = np.empty(prompts)
    for prompt in range(prompts):
        own, calibrates = losses[prompt], splits[:, prompt]
        reached = np.where(calibrates, _columns(sums - own, count - 1, risk, bound), column)
        left = others - np.where(calibrates[:, None], 0.0, own)
        without[prompt] = np.mean(_at(left, reached) / (prompts - count - ~calibrates))
    return Outcome(column, met, _jackknife(float(met.mean()), without))


def share_of_tests(above: Row, below: Any, splits: NDArray[np.bool_], column: Index) -> float:
    """Return the mean over the splits of Σ above / Σ below over the test prompts; 1 where nothing is skipped."""
    tests = 1.0 - splits
    share = _at(tests @ above, column) / (tests @ below)
    return float(np.mean(np.where(column >= 0, share, 1.0)))


def mean_of_tests(losses: Row, splits: NDArray[np.bool_], column: Index) -> float:
    """Return the mean over the splits of the test prompts' mean loss at the split's threshold."""
    tests = 1.0 - splits
    return float(np.mean(_at(tests @ losses, column) / tests.sum(axis=-1)))


def _columns(sums: Row, count: int, risk: float, bound: float) -> Index:
    """Return the last index of the grid up to which (Σ L + B)/(n + 1) ≤ ε, or -1 if there is none."""
    return np.asarray(np.cumprod((sums + bound) / (count + 1) <= risk, axis=-1).sum(axis=-1) - 1)


def _at(table: Row, column: Index) -> Row:
    """Return the entry of each row at its column; 0 at column -1, where nothing is skipped."""
    found = np.take_along_axis(table, np.maximum(column, 0)[:, None], axis=-1)[:, 0]
    return np.where(column >= 0, found, 0.0)


def _jackknife(value: float, without: Row) -> Estimate:
    from scipy.special import stdtrit

    count = len(without)
    spread = np.sqrt((count - 1) / count * np.sum((without - without.mean()) ** 2))
    half = float(stdtrit(count - 1, (1.0 + CONFIDENCE) / 2.0) * spread)
    return Estimate(value, value - half, value + half)
