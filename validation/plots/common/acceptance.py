"""Draw the tokens of a round against the draft length."""

from __future__ import annotations

from pathlib import Path

from validation.acceptance.summary import Summary
from validation.errors import UserError
from validation.plots.common.style import COLUMN, DARK, LIGHT, MIDDLE, PAGE, PICTURES, canvas, house_style, save


def draw_tokens(summary: Summary, path: Path) -> None:
    """Draw the tokens of a round by draft length, with their intervals, and tokens per second if they are known."""
    if not summary.lengths:
        raise UserError(f"There is nothing to draw: {summary.reason}")
    if path.suffix.lstrip(".") not in PICTURES:
        raise UserError(f"{path} must end in one of: {', '.join('.' + ending for ending in PICTURES)}.")
    from matplotlib.ticker import MaxNLocator

    lengths = [one.draft_length for one in summary.lengths]
    timed = summary.best is not None
    with house_style():
        figure, axes = canvas(PAGE if timed else COLUMN, 2 if timed else 1)
        if summary.copied:
            least = [one.same_text or 1.0 for one in summary.lengths]
            axes[0].plot(lengths, least, marker="o", ms=3, color=DARK, label="at least, recorded rounds split")
        else:
            ends = [one.low for one in summary.lengths], [one.high for one in summary.lengths]
            axes[0].fill_between(lengths, *ends, color=LIGHT, lw=0, label="interval")
            axes[0].plot(lengths, [one.tokens for one in summary.lengths], marker="o", ms=3, color=DARK, label="mean")
        axes[0].set(xlabel="draft length K", ylabel="tokens of a round", ylim=(1, None))
        axes[0].legend(loc="lower right")
        if timed:
            axes[1].plot(
                lengths, [one.tokens_per_second or 0.0 for one in summary.lengths], marker="o", ms=3, color=DARK
            )
            axes[1].axvline(float(summary.best or 0), ls=":", color=MIDDLE, label=f"best: {summary.best}")
            axes[1].set(xlabel="draft length K", ylabel="tokens per second", ylim=(0, None))
            axes[1].legend(loc="lower right")
        for one in axes:
            one.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        save(figure, path)
