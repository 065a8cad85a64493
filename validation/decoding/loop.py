"""One generation loop for every decoding method: draft, keep or send, encode, verify, replace, roll back, go on.

A method (:mod:`.methods`) makes the decisions; the loop runs the models, keeps the texts and their caches,
draws by the numbers of :mod:`.random_streams`, asks the link how long a message takes, and writes down what
happened (:mod:`validation.decoding.records`). Texts of a batch are independent: each has its own drafts in flight,
its own rounds and its own numbers, and comes out as it would alone, but for the rounding of the models' matrix
products.

All texts that draft take one step together; those whose drafts are complete wait, and are verified together as soon as
they are half of the texts. What a text becomes does not depend on when.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from validation.collection.collect import encode_prompts
from validation.decoding.batch_state import DRAFT, BatchState, DecodingError
from validation.decoding.random_streams import Noise
from validation.decoding.records import GenerationRecord, Round
from validation.decoding.sampling import at, draw, levels, rows_of
from validation.decoding.session import Clock, Draft, Message, Outcome, Session, Step
from validation.decoding.verification import VerifiedDrafts, skip_risk, step_risks, verify
from validation.errors import UserError

if TYPE_CHECKING:
    import torch

    from validation.collection.prompts import Prompt
    from validation.decoding.links import Link
    from validation.decoding.methods.base import Method
    from validation.models.pair import Pair

Array = NDArray[Any]
DEFAULT_NEW_TOKENS, DEFAULT_BATCH, DEFAULT_SEED = 160, 16, 1
PAPER_TIMES = (0.0256, 0.1046)
"""Seconds of a forward pass of TinyLlama-1.1B and Llama-2-13B: cu-hlm Section V."""


def decode(
    pair: Pair,
    prompts: Sequence[Prompt],
    method: Method,
    *,
    link: Link | None = None,
    temperature: float = 1.0,
    top_p: float = 1.0,
    new_tokens: int = DEFAULT_NEW_TOKENS,
    batch: int = DEFAULT_BATCH,
    seed: int = DEFAULT_SEED,
    times: tuple[float, float] | None = None,
    risk: bool = False,
    noise: Callable[[int, Sequence[str], int], Noise] = Noise,
    finished: Callable[[GenerationRecord], None] | None = None,
    clock: Clock | None = None,
) -> list[GenerationRecord]:
    """Continue prompts by a decoding method.

    Parameters
    ----------
    pair : Pair
        The models.
    prompts : sequence of Prompt
    method : Method
    link : Link, optional
        Times the messages; None takes no time.
    temperature, top_p : float
        Of both models' rows. 0 is greedy.
    new_tokens : int
        r_max: a text ends there, or with an end-of-text token, which is its last. 0 gives empty texts.
    batch : int
        Texts at once.
    seed : int
        With a prompt's id it decides the text, whatever else is in the batch.
    times : (float, float), optional
        Seconds of a forward pass of the draft and of the target model, for ``PAPER_TIMES`` and the like; measured
        otherwise.
    risk : bool
        Also compute ``mismatch``, ``risk`` and ``skip_risk``, which no method needs: it takes time that is not counted.
    noise : callable
        What makes the numbers of a batch from seed, prompts' ids and ``new_tokens``.
    finished : callable, optional
        Told each row as soon as its text is finished.
    clock : Clock, optional
        Added to: where the time went.

    Returns
    -------
    list of GenerationRecord
        In the order of the prompts.

    Raises
    ------
    UserError
        A setting out of range, no prompts, an empty prompt, one that does not fit the context.
    DecodingError
        A model gave a row that is none (NaN): model, prompt and step are named, finished rows are kept.
    """
    _check_settings(temperature, top_p, new_tokens, batch, times)
    encoded = encode_prompts(pair, prompts, new_tokens)
    if empty := [prompt.id for prompt, ids in zip(prompts, encoded, strict=True) if not ids]:
        raise UserError(f"The prompt {empty[0]!r} has no tokens, so there is nothing to continue; write a prompt.")
    rows: list[GenerationRecord] = []
    clock = clock or Clock()
    order = sorted(range(len(prompts)), key=lambda i: len(encoded[i]))  # like lengths together: less filler to read
    for start in range(0, len(prompts), batch):
        members = order[start : start + batch]
        names = [prompts[i].id for i in members]
        numbers = noise(seed, names, new_tokens)
        channel = link.open(numbers) if link else None
        session = Session(pair, len(names), numbers, channel, temperature, top_p, new_tokens, clock)
        label = link.name if link else "none"
        written = [
            GenerationRecord(method.name, name, label, seed, temperature, top_p, risk_computed=risk) for name in names
        ]
        texts = _Loop(session, method, [encoded[i] for i in members], written, times, risk, finished)
        try:
            began = time.perf_counter()
            texts.run()
            clock.total += time.perf_counter() - began
        except DecodingError as error:
            error.records = rows + texts.done
            raise
        rows += written
    return [row for _, row in sorted(zip(order, rows, strict=True), key=lambda pair: pair[0])]


def _check_settings(
    temperature: float, top_p: float, new_tokens: int, batch: int, times: tuple[float, float] | None
) -> None:
    if not 0 <= temperature < np.inf:
        raise UserError(f"The temperature is {temperature}; it must be 0 (greedy) or more.")
    if not 0 < top_p <= 1:
        raise UserError(f"top_p is {top_p}; it must be in (0, 1], where 1 keeps the whole vocabulary.")
    if new_tokens < 0:
        raise UserError(f"new_tokens is {new_tokens}; it must be 0 or more.")
    if batch < 1:
        raise UserError(f"batch is {batch}; it must be at least 1.")
    if times is not None and not all(0 <= value < np.inf for value in times):
        raise UserError(f"The times of the models are {times}; give seconds, 0 or more.")


class _Loop(BatchState):
    """Rounds, until every text of the batch is over."""

    def run(self) -> None:
        """Until every text is over."""
        import torch

        with torch.inference_mode():
            self._retire(self.base - self.start >= self.session.new_tokens)
            for which in ("draft", "target"):
                self.read_prompt(which)
            while len(self.rows):
                self._begin_rounds()
                if np.count_nonzero(self.waiting) < len(self.rows):
                    self._draft()
                if 2 * np.count_nonzero(self.waiting) >= len(self.rows):
                    self._verify()
                self._retire(self.over)

    def _begin_rounds(self) -> None:
        """How many drafts each text that begins a round is to have; without a draft model, which."""
        (fresh,) = (self.wanted < 0).nonzero()  # none of them waits
        if not len(fresh):
            return
        if self.session.channel:
            for lane in fresh.tolist():
                self.rate[lane] = self.session.channel.rate(
                    int(self.rows[lane]), float(self.spent[lane] + self.seconds[DRAFT][lane])
                )
        rates = [self.rate[lane] for lane in fresh]
        left = self.session.new_tokens - (self.base - self.start)[fresh]
        began = time.perf_counter()
        lengths = self.method.lengths(self.rows[fresh], rates)
        self.clock.method += time.perf_counter() - began
        self.wanted[fresh] = np.minimum(lengths, left)
        if self.method.runs_draft:
            self.waiting[fresh] |= self.wanted[fresh] == 0
            return
        self.waiting[fresh] = True
        self._guess(fresh[self.wanted[fresh] > 0])

    def _guess(self, lanes: Array) -> None:
        """Drafts without a draft model, up to an end of text."""
        ends, over = self.base[lanes].tolist(), self.session.pair.end_tokens
        known = [self.text[lane, :end] for lane, end in zip(lanes.tolist(), ends, strict=True)]
        texts = zip(self.rows[lanes].tolist(), known, self.wanted[lanes].tolist(), strict=True)
        began = time.perf_counter()
        found = [self.method.guess(row, text)[:most] for row, text, most in texts]
        self.clock.method += time.perf_counter() - began
        for lane, end, guesses in zip(lanes.tolist(), ends, found, strict=True):
            if not len(guesses):
                continue
            tokens = [int(token) for token in guesses]
            last = next((i for i, token in enumerate(tokens, 1) if token in over), len(tokens))
            self.flight[lane] = [Draft(token) for token in tokens[:last]]
            self.text[lane, end : end + last] = tokens[:last]
            self.ends[lane] = end + last

    def _draft(self) -> None:
        """One token from the draft model for each text that is not waiting."""
        (go,) = (~self.waiting).nonzero()
        logits = self.forward("draft", go, 1)
        positions, ahead = self.ends[go] - self.start[go], self.ends[go] - self.base[go]
        fresh = ahead == 0
        began = time.perf_counter()
        rows = rows_of(logits, self.session.temperature, self.session.top_p)
        self.refuse("draft", go, rows.sum(dim=-1).cpu().numpy())
        step = Step(self.rows[go], positions, logits, rows, fresh)
        middle = time.perf_counter()
        made = self.method.propose(step)
        after = time.perf_counter()
        tokens, _ = draw(made.rows, self.noise.drafts(step.rows, positions, ahead, levels(rows.shape[-1])))
        known = made.rows if made.known is None else made.known
        chance = at(known, tokens)
        drawn = time.perf_counter()
        skip = fresh & self.method.skip(step, tokens)
        settled = self.method.settle(step, tokens, skip)
        self.clock.method += after - middle + time.perf_counter() - drawn
        self.clock.sampling += middle - began + drawn - after
        own = rows.unbind()
        held, notes = settled or (own if known is rows else known, made.notes)
        whole = zip(tokens.tolist(), chance.tolist(), own, held, notes or [None] * len(go), strict=True)
        drafts = [Draft(*parts) for parts in whole]
        full = np.False_ if made.full is None else np.asarray(made.full)
        (kept,), (sent,) = (skip & ~full).nonzero(), (~(skip | full)).nonzero()
        if len(kept):
            self.keep(go[kept], tokens[kept], [drafts[i] for i in kept.tolist()])
        if len(sent):
            self.add(go[sent], tokens[sent], [drafts[i] for i in sent.tolist()])
        complete = self.is_end(tokens) | (ahead + 1 >= self.wanted[go])
        self.waiting[go] = full | (~skip & complete)

    # ------------------------------------------------------------------------------------------- asking the server

    def _verify(self) -> None:
        """Send what waits, judge it, roll both caches back."""
        (sent,) = (self.waiting & ~self.over).nonzero()
        flights = [self.flight[lane] for lane in sent.tolist()]
        began = time.perf_counter()
        messages = [self.method.message(flight) for flight in flights]
        self.clock.method += time.perf_counter() - began
        sizes = self.ends[sent] - self.base[sent] + 1
        for i, lane in enumerate(sent.tolist() if self.risk else ()):
            sizes[i] = max([int(sizes[i]), *(int(self.ends[lane]) + 1 - place for place, _ in self.unseen[lane])])
        logits = self.forward("target", sent, sizes)
        position = self.base[sent] - self.start[sent]
        left = self.session.new_tokens - position
        began = time.perf_counter()
        verdict = verify(self.method, self.session, self.rows[sent], flights, logits, sizes, position, left)
        self.clock.sampling += time.perf_counter() - began
        self.refuse("target", sent, verdict.mass)
        ends = self.ends[sent]
        rounds = self._settle(sent, flights, messages, verdict)
        self._time_messages(sent, rounds)
        known = (self.rows[sent].tolist(), flights, verdict.accepted.tolist(), verdict.rejected.tolist())
        began = time.perf_counter()
        for i, (lane, now, *told) in enumerate(zip(sent.tolist(), rounds, *known, strict=True)):
            learnt = Outcome(*told, self.rate[lane])
            if self.method.wants_likeliest:
                learnt.likeliest = verdict.rows(i)[-len(flights[i]) - 1 :].argmax(dim=-1).cpu().numpy()
            now.threshold = self.method.learn(learnt)
        self.clock.method += time.perf_counter() - began
        if self.risk:
            for i, lane in enumerate(sent.tolist()):
                self._judge_risk(lane, rounds[i], flights[i], verdict.rows(i), int(ends[i]))
        self.close_rounds(sent, rounds)

    def _settle(
        self, sent: Array, flights: list[list[Draft]], messages: list[Message], verdict: VerifiedDrafts
    ) -> list[Round]:
        """Write verdicts into the texts and the caches, and what became of each round."""
        position = (self.base - self.start)[sent] - self.skipped[sent]
        own = verdict.token >= 0
        place = self.base[sent] + verdict.accepted
        self.text[sent[own], place[own]] = verdict.token[own]
        self.base[sent] = self.ends[sent] = place + own
        for lanes in (self.draft, self.target):
            if lanes:  # roll back; the last token is read again, as its row may be wanted
                lanes.cached[sent] = np.minimum(lanes.cached[sent], self.base[sent] - 1)
        self.end(sent)
        accepted, resampled = verdict.accepted.tolist(), verdict.rejected.astype(int).tolist()
        began = time.perf_counter()
        replies = [self.method.reply(*told) for told in zip(flights, accepted, strict=True)]
        seen = (flight[: n + more] for flight, n, more in zip(flights, accepted, resampled, strict=True))
        lost = [self.method.distortion(some) for some in seen]
        self.clock.method += time.perf_counter() - began
        sizes = ([message.bits for message in messages], [len(message.payload) for message in messages], replies)
        bonus, drafted = (own & ~verdict.rejected).astype(int).tolist(), [len(flight) for flight in flights]
        counts = (drafted, accepted, resampled, bonus, self.skipped[sent].tolist())
        spent = ([column[lane] for lane in sent.tolist()] for column in (*self.seconds, *self.passes))
        return list(map(Round, position.tolist(), *counts, *sizes, *zip(*lost, strict=True), *spent))

    def _time_messages(self, sent: Array, rounds: list[Round]) -> None:
        """Seconds on the link for the rounds of these lanes."""
        channel = self.session.channel
        if channel is None:
            return
        up = np.array([8.0 * one.bytes if self.method.real_bytes else one.bits for one in rounds])
        down = np.array([8.0 * one.down_bytes for one in rounds])
        elapsed = self.spent[sent] + np.array([one.draft_s for one in rounds]) + [one.target_s for one in rounds]
        seconds = channel.seconds(self.rows[sent], up, down, elapsed)
        for one, value in zip(rounds, seconds.tolist(), strict=True):
            one.link_s = value

    def _judge_risk(self, lane: int, now: Round, flight: list[Draft], rows: torch.Tensor, end: int) -> None:
        """What bounds the distance from the target model's law: its rows, the last of which follows token ``end``."""
        self._judge_skipped(lane, now, rows, end)
        looked_at = flight[: now.accepted + now.resampled]
        first = len(rows) - 1 - len(flight)
        now.mismatch, cut = step_risks(self.method, looked_at, rows[first : first + len(looked_at)])
        now.risk = now.skip_risk + cut

    def _judge_skipped(self, lane: int, now: Round, rows: torch.Tensor, end: int) -> None:
        """β_d of what was kept since the target model last looked; its rows are as of :meth:`_judge_risk`."""
        for place, draft in self.unseen[lane]:
            now.skip_risk += skip_risk(draft, rows[len(rows) - 1 - (end - place)])
        self.unseen[lane].clear()
        self.refuse("target", np.array([lane]), np.array([1.0 + now.skip_risk]))

    def _retire(self, over: Array) -> None:
        """Take out the texts that are over."""
        (lanes,) = over.nonzero()
        if not len(lanes):
            return
        for lane, count in zip(lanes.tolist(), self.skipped[lanes].tolist(), strict=True):
            row = self.written[self.rows[lane]]
            row.tokens = self.text[lane, self.start[lane] : self.base[lane]].tolist()
            row.last = Round(len(row.tokens) - count, skipped=count)
            row.last.draft_s, row.last.target_s = (column[lane] for column in self.seconds)
            row.last.draft_passes, row.last.target_passes = (column[lane] for column in self.passes)
        if self.risk:
            self._flush(lanes)
        for row in self.rows[lanes].tolist():
            self.done.append(self.written[row])
            self.finished(self.written[row])
        self.close_lanes(~over)

    def _flush(self, lanes: Array) -> None:
        """Judge what was skipped after the last exchange."""
        left = np.array([lane for lane in lanes if self.unseen[lane]], dtype=np.int64)
        if not len(left) or self.target is None:
            return
        sizes = np.array([max(int(self.base[lane]) - place for place, _ in self.unseen[lane]) for lane in left]) + 1
        logits = self.target.part(left).read(self.text[left], self.base[left], rows=sizes)
        target = rows_of(logits, self.session.temperature, self.session.top_p).split(sizes.tolist())
        for rows, lane in zip(target, left.tolist(), strict=True):
            last = self.written[self.rows[lane]].last
            self._judge_skipped(lane, last, rows, int(self.base[lane]))
            last.risk = last.skip_risk
