"""Texts whose tokens come as the server sends them: it writes them, or verifies drafts that do not wait for answers."""

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hlmtheory.wire import StreamedDevice
from validation.decoding.kv_cache import CachedModel
from validation.decoding.records import Round
from validation.decoding.sampling import distributions_of, draw, levels
from validation.decoding.session import Session
from validation.errors import UserError
from validation.link.device_records import ALONE, LinkRecord
from validation.link.formats import Terms
from validation.link.loops import Pace
from validation.link.remote import Remote, ServerAwayError
from validation.link.wire import LinkError, Opening

MOST_WAITING = 256
"""Drafts that a device sends ahead of the answers."""


class OwnModel:
    """The draft model over the tokens of one text; ``turn`` is held while it runs."""

    def __init__(self, session: Session, prompt: list[int], turn: threading.Lock, pace: Pace) -> None:
        self.session, self.prompt, self.turn, self.pace = session, prompt, turn, pace
        pair, capacity = session.pair, len(prompt) + session.new_tokens + 2
        self.model = CachedModel(pair.draft, pair.vocabulary, pair.device, 1, capacity, pair.context)
        self.tokens = np.zeros((1, capacity), dtype=np.int64)

    def logits(self, text: list[int], at_layer: Callable[[], None] | None = None) -> Any:
        """Return the logits (V,) behind the prompt and these new tokens; ``at_layer`` may raise to give the pass up."""
        import torch

        tokens = [*self.prompt, *text]
        known = min(int(self.model.cached[0]), len(tokens) - 1)
        other = np.flatnonzero(self.tokens[0, :known] != tokens[:known])
        self.model.cached = np.array([other[0] if len(other) else known])
        self.tokens[0, : len(tokens)] = tokens
        self.model.call_at_layers(at_layer)
        try:
            with self.turn, torch.inference_mode():
                (rows,) = self.model.read(self.tokens, np.array([len(tokens)]), rows=1)
        finally:
            self.model.call_at_layers(None)
        return rows[-1]

    def token(self, text: list[int]) -> int:
        """Draw the token behind these new ones from the draft's law, as ``small only`` does in the loop."""
        began, session, none = time.perf_counter(), self.session, np.zeros(1, dtype=np.int64)
        q = distributions_of(self.logits(text)[None], session.temperature, session.top_p)
        if not 0 < float(q.sum()) < np.inf:
            raise UserError("The draft model gives logits that are not finite; check its weights.")
        numbers = session.noise.drafts(none, np.array([len(text)]), none, levels(session.vocabulary))
        token = int(draw(q, numbers)[0][0])
        self.pace.wait(began)
        return token


class Received:
    """A text whose tokens come as the server sends them."""

    def __init__(
        self,
        remote: Remote,
        opening: Opening,
        terms: Terms,
        record: LinkRecord,
        own: OwnModel,
        on_tokens: Callable[[list[int]], None] | None,
    ) -> None:
        self.remote, self.opening, self.terms, self.session = remote, opening, terms, own.session
        self.record, self.own, self.on_tokens = record, own, on_tokens
        self.on_answer: Callable[[int, int, int], None] | None = None
        self.text: list[int] = []

    def run(self) -> None:
        """Receive the text; go on alone while the server stays away, if the device may."""
        while self.left:
            try:
                self.remote.text(lambda: replace(self.opening, text=self.text), self.once)
            except ServerAwayError:
                if not self.remote.alone:
                    raise
                self._alone()
        self.record.tokens = self.text
        self.record.last = Round(len(self.text), skipped=sum(end - first for first, end in self.record.alone()))

    def _alone(self) -> None:
        with self.remote.watched() as back:
            while True:
                self.take([self.own.token(self.text)], ALONE)
                if back.is_set() or not self.left:
                    return

    def once(self) -> None:
        raise NotImplementedError

    @property
    def left(self) -> int:
        return 0 if self.record.ended else self.session.new_tokens - len(self.text)

    def take(self, tokens: list[int], writer: str, accepted: int = 0) -> None:
        """Add a writer's tokens to the text, of which the first are accepted drafts."""
        ends = self.session.pair.end_tokens
        if len(tokens) > self.left or any(token in ends for token in tokens[:-1]):
            raise LinkError("the server sent tokens behind the end of the text; no server does that")
        if tokens:
            self.record.note(len(self.text), writer)
        if self.on_answer and writer != ALONE:
            self.on_answer(len(self.text), len(tokens), accepted)
        self.text += tokens
        self.record.ended = bool(tokens) and tokens[-1] in ends
        if self.on_tokens and tokens:
            self.on_tokens(tokens)


class Written(Received):
    def once(self) -> None:
        while self.left:
            self.take(self.remote.tokens(self.session.vocabulary, self.left), self.remote.version)


class _GivenUpError(Exception):
    """The draft that is being made is no longer wanted."""


class Streamed(Received):
    """A text whose drafts do not wait for answers."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.policy = self.terms.streamed_policy(self.session.vocabulary, self.session.temperature)

    def once(self) -> None:
        """Draft, send, and read the answers that have come, until the text is complete."""
        prompt, remote = self.opening.prompt, self.remote
        nonce = bytes.fromhex(remote.greeting().nonce)
        first, key = len(self.text), int(self.session.stream_keys[0])
        side = StreamedDevice(self.policy, session=nonce, key=remote.key, seed=key, position=len(prompt) + first)
        while self.left:
            ahead = list(side.waiting)
            ended = bool(ahead) and ahead[-1] in self.session.pair.end_tokens
            with contextlib.suppress(_GivenUpError):
                if ended or len(ahead) >= min(self.left, MOST_WAITING):
                    self._hear(side, None)
                else:
                    self._draft(side, ahead)

    def _draft(self, side: StreamedDevice, ahead: list[int]) -> None:
        """Make a draft and send it. An answer with a mismatch ends it, between two layers of the model."""
        began = time.perf_counter()
        row = self.own.logits([*self.text, *ahead], lambda: self._hear(side, 0.0))
        numbers = row.double().cpu().numpy()
        self.own.pace.wait(began, lambda seconds: self._hear(side, seconds))
        self.remote.send(side.draft(numbers)[1])
        self._hear(side, 0.0)

    def _hear(self, side: StreamedDevice, seconds: float | None) -> None:
        """Read an answer if one comes in time, or wait for it; give the draft up if it is behind a mismatch."""
        try:
            answer = self.remote.receive(seconds)
        except TimeoutError:
            if seconds is None:
                raise
            return
        sent = list(side.waiting)
        tokens = side.tokens(answer)
        self.remote.heard()
        missed = tokens != sent[: len(tokens)]  # the last one is the server's, in place of a draft
        counts = {"drafted": len(tokens), "accepted": len(tokens) - missed, "resampled": int(missed)}
        self.record.rounds.append(Round(len(self.text), **counts))
        self.take(tokens, self.remote.version, counts["accepted"])
        if missed or not self.left:
            raise _GivenUpError
