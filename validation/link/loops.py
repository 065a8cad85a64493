"""The in-process loop for one text that reports its tokens, and that can begin behind tokens it has already."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from validation.arrays import Array
from validation.decoding.loop import Loop
from validation.decoding.methods.base import Method
from validation.decoding.random_streams import Noise
from validation.decoding.records import GenerationRecord
from validation.decoding.session import Draft, Message, Session
from validation.decoding.verification import VerifiedDrafts
from validation.errors import UserError
from validation.models.pair import Pair


def session_of(
    pair: Pair, prompt: list[int], name: str, seed: int, temperature: float, top_p: float, new_tokens: int
) -> Session:
    numbers, lengths = Noise(seed, [name], new_tokens), np.array([len(prompt)], dtype=np.int64)
    return Session(pair, 1, numbers, None, temperature, top_p, new_tokens, prompt_lengths=lengths)


def require_room(pair: Pair, prompt: list[int], name: str, new_tokens: int) -> None:
    if not 0 < len(prompt) <= pair.context - new_tokens:
        why = f"The prompt {name!r} has {len(prompt)} tokens, and {pair.context - new_tokens} fit before {new_tokens}"
        raise UserError(f"{why} new ones; shorten it, or ask for fewer.")


class Pace:
    """The least time of a pass. What a sleep ended late is taken from the next one, so that the mean is as stated."""

    def __init__(self, seconds: float = 0.0) -> None:
        if not 0 <= seconds < float("inf"):
            raise UserError(f"A pass cannot last {seconds:g} s; give 0 s or more.")
        self.seconds, self.late_s = seconds, 0.0

    def wait(self, began: float, sleep: Callable[[float], object] | None = None) -> None:
        """Wait until a pass has lasted long enough; ``sleep`` may return early, or raise to give the pass up."""
        if self.seconds:
            until = began + self.seconds - self.late_s
            while (left := until - time.perf_counter()) > 0:
                (sleep or time.sleep)(left)
            self.late_s = min(max(0.0, time.perf_counter() - until), self.seconds)


class OneText(Loop):
    """One text; ``on_tokens`` is called with new tokens as soon as they are certain."""

    on_tokens: Callable[[list[int]], None] | None = None
    reported = 0
    draft_pace, pass_pace = Pace(), Pace()

    def __init__(self, session: Session, method: Method, prompt: list[int], record: GenerationRecord) -> None:
        super().__init__(session, method, [prompt], [record], None, False, None)

    def resume(self, text: list[int]) -> None:
        """Begin behind these new tokens; no round may have begun."""
        first = int(self.prompt_end[0])
        self.tokens[0, first : first + len(text)] = text
        self.kept_end[:] = self.draft_end[:] = first + len(text)
        self.reported = len(text)

    def _draft(self) -> None:
        began = time.perf_counter()
        super()._draft()
        self.draft_pace.wait(began)

    def _verified(self, slots: Array, in_flight: list[list[Draft]], messages: list[Message]) -> VerifiedDrafts:
        began = time.perf_counter()
        found = super()._verified(slots, in_flight, messages)
        self.pass_pace.wait(began)
        return found

    def close_rounds(self, slots: Array, rounds: list[Any]) -> None:
        super().close_rounds(slots, rounds)
        self._report()

    def keep_skipped(self, slots: Array, tokens: Array, drafts: list[Draft]) -> None:
        super().keep_skipped(slots, tokens, drafts)
        self._report()

    def _report(self) -> None:
        first, kept = int(self.prompt_end[0]), int(self.kept_end[0])
        if self.on_tokens and kept > first + self.reported:
            self.on_tokens(self.tokens[0, first + self.reported : kept].tolist())
        self.reported = kept - first
