"""The device: the in-process loop, whose drafts a server verifies over a socket.

The device owns the text. After a cut it connects again, opens the text with its tokens so far, and sends the round
again; the server's answer is the same one. With ``--alone`` it goes on while its server stays away: such tokens have
the draft's law, and the record says which they are.
"""

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np

from validation.arrays import Array
from validation.decoding.batch_state import DRAFT, NOT_BEGUN
from validation.decoding.methods.base import Method
from validation.decoding.methods.switched import Switched
from validation.decoding.random_streams import REPLACE
from validation.decoding.records import Round
from validation.decoding.sampling import draw, levels, residual
from validation.decoding.session import Draft, Message
from validation.decoding.verification import VerifiedDrafts
from validation.link.device_records import ALONE, Exchange, LinkRecord
from validation.link.formats import SERVER_WRITES, Terms
from validation.link.loops import OneText, Pace, require_room, session_of
from validation.link.received import OwnModel, Streamed, Written
from validation.link.remote import RefusedError, Remote, ServerAwayError
from validation.link.wire import LinkError, Opening, answer_of, require_temperature, round_body
from validation.models.pair import Pair


class _RemoteLoop(OneText):
    target_here = False

    def start(self, remote: Remote, opening: Opening, each: Sequence[Terms], record: LinkRecord, own: OwnModel) -> None:
        self.remote, self.opening, self.each, self.record, self.own = remote, opening, each, record, own
        self.known_end = int(self.kept_end[0])  # the tokens before it are known to the server
        self.on_exchange: Callable[[Round, Exchange], None] | None = None
        self.answered = time.perf_counter()
        remote.opened = False

    def run(self) -> None:
        self.read()
        while len(self.sequences):
            try:
                self.step()
            except ServerAwayError:
                if not self.remote.alone:
                    raise
                self._alone()

    def _alone(self) -> None:
        """Keep tokens of the draft model, one or more, until the server is back or the text is complete."""
        # the drafts that found no server are dropped
        self.draft_end[:] = self.kept_end
        self.in_flight[0], self.waiting[:], self.draft_length[:] = [], False, NOT_BEGUN
        if (model := self.models[DRAFT]) is not None:
            model.cached = np.minimum(model.cached, self.kept_end - 1)
        first, slots = int(self.prompt_end[0]), np.zeros(1, dtype=np.int64)
        with self.remote.watched() as back:
            while True:
                text = self.tokens[0, first : int(self.kept_end[0])].tolist()
                token = self.own.token(text)
                self.record.note(len(text), ALONE)
                self.keep_skipped(slots, np.array([token]), [])
                if back.is_set() or self.finished[0]:
                    break
        self._retire(self.finished)

    def forward(self, which: str, slots: Array, rows: int | Array) -> list[Any]:
        with self.own.turn:
            return super().forward(which, slots, rows)

    def read_prompts(self, which: str) -> None:
        with self.own.turn:
            super().read_prompts(which)

    def _begin_rounds(self) -> None:
        super()._begin_rounds()
        self.draft_length = np.minimum(self.draft_length, max(terms.most for terms in self.each))

    def _verified(self, slots: Array, in_flight: list[list[Draft]], messages: list[Message]) -> VerifiedDrafts:
        import torch

        drafts, vocabulary = in_flight[0], self.session.vocabulary
        first, kept = int(self.prompt_end[0]), int(self.kept_end[0])
        known = self.tokens[0, first : self.known_end].tolist()
        body = round_body(self.tokens[0, self.known_end : kept].tolist(), messages[0].payload, vocabulary)
        terms = self.each[0]
        if isinstance(self.method, Switched) and len(self.each) > 1:
            terms, body = self.each[self.method.number], bytes([self.method.number]) + body
        remote, began = self.remote, time.perf_counter()
        before = remote.sent_bytes, remote.received_bytes, remote.openings
        answer = remote.round(lambda: replace(self.opening, text=known), body)
        drafting, self.answered = began - self.answered, time.perf_counter()
        sizes = remote.sent_bytes - before[0], remote.received_bytes - before[1]
        audited = bool(drafts) and self.method.audited(int(self.sequences[slots[0]]))
        spent = (drafting, self.answered - began, *sizes, remote.openings > before[2], audited)
        self.exchange = Exchange(int(self.draft_length[slots[0]]), *spent)
        self.record.note(kept - first, remote.version)
        least, cut = terms.least_answer(vocabulary), terms.cut_limit > 0
        accepted, token, row = answer_of(answer, len(drafts), vocabulary, least=least, cut=cut)
        if row is not None:  # the device draws from the residual of p
            p, q = torch.from_numpy(row.copy())[None], drafts[accepted].draft_distribution
            assert q is not None
            place = np.array([min(kept - first + accepted, self.session.new_tokens)])
            numbers = self.noise.uniforms(REPLACE, self.sequences[slots], place, levels(vocabulary))
            token = int(draw(residual(p, q[None]), numbers)[0][0])
        elif (accepted < len(drafts) or not drafts) and token < 0:
            raise LinkError("an answer without the token that must follow; no server sends that")
        self.known_end = kept + accepted + (row is None and token >= 0)
        made = np.array([accepted]), np.array([accepted < len(drafts)]), np.array([token]), np.ones(1)
        return VerifiedDrafts(*made, torch.zeros((0, vocabulary)), np.array([-1]), np.array([len(drafts)]))

    def time_messages(self, slots: Array, rounds: list[Any]) -> None:
        rounds[0].link_s = self.exchange.wait_s
        if self.on_exchange:
            self.on_exchange(rounds[0], self.exchange)


class Device:
    """A draft model, and the server that verifies its drafts; ``record`` is of the text written now, or last."""

    record: LinkRecord

    def __init__(self, pair: Pair, remote: Remote, *, tokenizer: str, draft: str, least_draft_s: float = 0.0) -> None:
        self.remote, self.tokenizer, self.draft, self.least_draft_s = remote, tokenizer, draft, least_draft_s
        self.turn = threading.Lock()  # held by the text for which the draft model runs
        greeting = remote.greeting()
        if (greeting.tokenizer, greeting.vocabulary) != (tokenizer, pair.vocabulary):
            raise RefusedError(
                f"The server's tokenizer has {greeting.vocabulary:,} tokens and the fingerprint {greeting.tokenizer}, "
                f"the device's {pair.vocabulary:,} and {tokenizer}; use models with one tokenizer, or "
                "`hlm decode common` on one machine."
            )
        ends, context = tuple(greeting.end_tokens), min(pair.context, greeting.context)
        self.pair = replace(pair, end_tokens=ends, context=context)

    def beside(self) -> Self:
        """Return a device for a text at the same time: the same draft model, and a connection of its own."""
        other = copy(self)
        other.remote = self.remote.beside()
        return other

    def generate(
        self,
        method: Method | None,
        prompt: list[int],
        *,
        name: str,
        seed: int,
        new_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        on_tokens: Callable[[list[int]], None] | None = None,
        on_exchange: Callable[[Round, Exchange], None] | None = None,
        on_answer: Callable[[int, int, int], None] | None = None,
    ) -> LinkRecord:
        """Continue a prompt, with the text of :func:`validation.decoding.loop.decode`; by None the server writes it.

        ``on_tokens`` gets new tokens as soon as they are certain, ``on_exchange`` each round of a method with rounds,
        and ``on_answer`` position, tokens and accepted drafts of each answer of other texts.
        """
        require_room(self.pair, prompt, name, new_tokens)
        require_temperature(temperature)
        each = (SERVER_WRITES,) if method is None else Terms.each_of(method)
        self.remote.pads = any(terms.pads for terms in each)
        sampling = (float(temperature), float(top_p), new_tokens)
        opening = Opening(
            *(self.tokenizer, self.draft, [terms.plain() for terms in each], name, seed, *sampling, prompt),
            *([], secrets.token_hex(16)),
        )
        session = session_of(self.pair, prompt, name, seed, *sampling)
        label = "server" if method is None else method.name
        record = LinkRecord(label, name, self.remote.address, seed, *sampling[:2])
        pace = Pace(self.least_draft_s)
        own, self.record = OwnModel(session, prompt, self.turn, pace), record
        try:
            if method is None or each[0].streamed:
                way = Written if method is None else Streamed
                received = way(self.remote, opening, each[0], record, own, on_tokens)
                received.on_answer = on_answer
                received.run()
            else:
                loop = _RemoteLoop(session, method, prompt, record)
                loop.draft_pace = pace
                loop.start(self.remote, opening, each, record, own)
                loop.on_tokens, loop.on_exchange = on_tokens, on_exchange
                loop.run()
        except BaseException:
            self.remote.close()  # it is in the middle of a text
            raise
        return record
