"""The in-process loop for one text that reports its tokens, and that can begin behind tokens it has already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from validation.decoding.loop import _Loop
from validation.decoding.session import Draft

Array = NDArray[Any]


class OneText(_Loop):
    """One text; ``on_tokens`` is called with new tokens as soon as they are certain."""

    on_tokens: Callable[[list[int]], None] | None = None
    reported = 0

    def resume(self, text: list[int]) -> None:
        """Begin behind these new tokens; no round may have begun."""
        first = int(self.prompt_end[0])
        self.tokens[0, first : first + len(text)] = text
        self.kept_end[:] = self.draft_end[:] = first + len(text)
        self.reported = len(text)

    def close_rounds(self, slots: Array, rounds: list[Any]) -> None:
        """Close the round, and report its tokens."""
        super().close_rounds(slots, rounds)
        self._report()

    def keep_skipped(self, slots: Array, tokens: Array, drafts: list[Draft]) -> None:
        """Keep a draft without verification, and report it."""
        super().keep_skipped(slots, tokens, drafts)
        self._report()

    def _report(self) -> None:
        first, kept = int(self.prompt_end[0]), int(self.kept_end[0])
        if self.on_tokens and kept > first + self.reported:
            self.on_tokens(self.tokens[0, first + self.reported : kept].tolist())
        self.reported = kept - first
