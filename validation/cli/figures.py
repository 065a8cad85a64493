"""The inputs of ``hlm figure``: the trace and the studies, opened when a figure first needs them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from validation.errors import UserError
from validation.plots import FORMATS, Decoding, Exhibit, Figure, draw
from validation.trace.reader import Trace, open_trace

if TYPE_CHECKING:
    from validation.decoding.studies import Decoded

BUILTIN_RUN = Path("runs/builtin")


def read_formats(given: Sequence[str]) -> tuple[str, ...]:
    """Return the formats in the given words, which may contain commas; SVG by default.

    Raises
    ------
    UserError
        If a format is unknown.

    Examples
    --------
    >>> read_formats(("pdf,CSV", "png"))
    ('pdf', 'csv', 'png')
    """
    formats = tuple(word.strip().lower() for words in given for word in words.split(",")) or ("svg",)
    if unknown := [word for word in formats if word not in FORMATS]:
        raise UserError(f"There is no format {unknown[0]!r}; choose of: {', '.join(FORMATS)}.")
    return formats


class Drawing:
    """Draws figures from the trace and the decoded texts of one run, next to those of other runs."""

    def __init__(
        self, trace: Path, beside: Sequence[Path], seed: int, command: str, formats: Sequence[str] = ("svg",)
    ) -> None:
        self.path, self.beside, self.seed, self.command, self.formats = trace, beside, seed, command, formats

    @cached_property
    def trace(self) -> Trace:
        """The trace, opened once."""
        return open_trace(self.path)

    def draw(self, one: Exhibit, folder: Path) -> list[Path]:
        """Draw one figure or make one table; return the files."""
        trace = self.trace if isinstance(one, Figure) else None
        decoded = self._studies(one) if isinstance(one, Decoding) else []
        return draw(one, trace, folder, command=self.command, seed=self.seed, decoded=decoded, formats=self.formats)

    def _studies(self, one: Decoding) -> list[Decoded]:
        from validation.decoding.studies import open_study

        found = []
        for run in (self.path.parent, *self.beside):
            folder = run / "decoded" / one.study
            if not (folder / "study.json").exists():
                words = ["python3", "hlm", "decode", one.study, *([] if run == BUILTIN_RUN else ["--run", str(run)])]
                raise UserError(f"There is no finished study at {folder}; make it with `{shlex.join(words)}`.")
            found.append(open_study(folder))
        return found
