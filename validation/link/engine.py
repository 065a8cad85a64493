"""The server's model: the texts that it reads, their caches, and passes that several texts share."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from hlmtheory.wire import MalformedError
from validation.decoding.kv_cache import CachedModel, JointCache, KeyValueCache
from validation.decoding.methods.shared_seed import SharedSeed
from validation.decoding.records import GenerationRecord
from validation.decoding.sampling import distributions_of
from validation.decoding.session import Draft
from validation.decoding.verification import verify
from validation.link.formats import Terms
from validation.link.loops import OneText, Pace, session_of
from validation.link.wire import Opening, answer_body, round_of
from validation.models.pair import Pair

ONE = np.zeros(1, dtype=np.int64)


@dataclass(slots=True)
class ReceivedRound:
    """A round that was read from its bytes, and waits for a pass."""

    skipped: list[int]
    drafts: list[Draft]


@dataclass(slots=True)
class WaitingDrafts:
    """Drafts of a device that drafts on: a pass gives p at each of them."""

    tokens: list[int]


class ServedText:
    """A text at the server: its tokens, its cache, and how its drafts are verified."""

    def __init__(self, pair: Pair, opening: Opening, *terms: Terms) -> None:
        self.opening, self.ways = opening, [(one, one.method()) for one in terms]
        self.terms, self.method = self.ways[0]
        self.first, self.left = len(opening.prompt), opening.new_tokens - len(opening.text)
        capacity = self.first + opening.new_tokens + 2 + max(one.most for one in terms)  # the last is for filler
        self.tokens = np.zeros(capacity, dtype=np.int64)
        self.kept = self.first + len(opening.text)
        self.tokens[: self.kept] = [*opening.prompt, *opening.text]
        self.cache, self.cached = KeyValueCache(capacity), 0
        sampling = (opening.temperature, opening.top_p, opening.new_tokens)
        self.session = session_of(pair, opening.prompt, opening.name, opening.seed, *sampling)
        for _, method in self.ways:
            method.begin(self.session)

    @property
    def longest(self) -> int:
        return 1 + max(one.longest(self.session.vocabulary, self.left) for one, _ in self.ways)

    @property
    def complete(self) -> bool:
        ends = self.session.pair.end_tokens
        return self.left <= 0 or (self.kept > self.first and int(self.tokens[self.kept - 1]) in ends)

    def take_cache(self, other: Self) -> None:
        """Take over the cache of an earlier connection, as far as its tokens are this text's."""
        if len(other.tokens) == len(self.tokens):
            known = min(other.cached, self.kept)
            other_way = np.flatnonzero(other.tokens[:known] != self.tokens[:known])
            self.cache, self.cached = other.cache, int(other_way[0]) if len(other_way) else known
            self.cached = min(self.cached, self.kept - 1)

    def close(self) -> None:
        """Say that nobody will read the text."""

    def extend(self, tokens: list[int]) -> None:
        """Add verified tokens; the drafts behind them are dropped."""
        self.tokens[self.kept : self.kept + len(tokens)] = tokens
        self.kept, self.left = self.kept + len(tokens), self.left - len(tokens)
        self.cached = min(self.cached, self.kept - 1)  # the last token's logits may be needed again

    def received(self, body: bytes) -> ReceivedRound:
        vocabulary = self.session.vocabulary
        if len(self.ways) > 1:
            if not body or body[0] >= len(self.ways):
                raise MalformedError("a round that names none of its text's messages; no device sends that")
            (self.terms, self.method), body = self.ways[body[0]], body[1:]
        skipped, payload = round_of(body, vocabulary, self.left)
        drafts = self.terms.received(payload, vocabulary, self.session.temperature)
        if len(skipped) + max(len(drafts), 1) > self.left:
            raise MalformedError(f"a round of {len(skipped)} + {len(drafts)} tokens, and {self.left} are to come")
        return ReceivedRound(skipped, drafts)


class Engine:
    """The target model of a server; ``draft_length`` is K of texts that it writes, 0 if the target writes alone."""

    def __init__(
        self,
        pair: Pair,
        *,
        stretch_s: float = 0.0,
        draft_length: int = 0,
        least_pass_s: float = 0.0,
        least_draft_s: float = 0.0,
    ) -> None:
        self.pass_pace, self.draft_pace = Pace(least_pass_s), Pace(least_draft_s)
        self.pair, self.stretch_s, self.draft_length = pair, stretch_s, draft_length
        self.model = CachedModel(pair.target, pair.vocabulary, pair.device, 1, pair.context + 2, pair.context)
        self.pass_s = 0.0  # of the last pass

    def open(self, opening: Opening, terms: Sequence[Terms]) -> ServedText:
        return ServedText(self.pair, opening, *terms)

    def prefill(self, text: ServedText) -> None:
        """Read prompt and text without the last token."""
        import torch

        if text.cached < text.kept - 1:
            with torch.inference_mode():
                self._read([text], [text.kept - 1], [0])

    def run(self, texts: Sequence[ServedText], rounds: Sequence[ReceivedRound | WaitingDrafts]) -> list[Any]:
        """Read one round of each text in one pass; return answers, or p (n, V) for drafts of a device that drafts on.

        An error of one text takes the place of its answer, and changes nothing for the others.
        """
        import torch

        began, ends, counts = time.perf_counter(), [], []
        for text, one in zip(texts, rounds, strict=True):
            first = text.kept
            if isinstance(one, WaitingDrafts):
                fresh, last = one.tokens, len(one.tokens) - 1  # p behind the last one is not needed
            else:
                fresh, last = [*one.skipped, *(draft.token for draft in one.drafts)], len(one.drafts)
                text.kept, text.left = text.kept + len(one.skipped), text.left - len(one.skipped)
            text.tokens[first : first + len(fresh)] = fresh
            ends.append(text.kept + last)
            counts.append(last + 1)
        with torch.inference_mode():
            rows = self._rows(texts, ends, counts)
            answers = [self._answer_or_error(*one) for one in zip(texts, rounds, rows, strict=True)]
        self.pass_pace.wait(began)
        if self.stretch_s:
            time.sleep(self.stretch_s)
        self.pass_s = time.perf_counter() - began
        return answers

    def write(self, text: ServedText) -> Iterator[list[int]]:
        """Write a text by the shared seed until none are ``left``; yield each step's new tokens, perhaps none."""
        opening, method, new = text.opening, SharedSeed(self.draft_length), list[int]()
        method.runs_draft = self.draft_length > 0
        record = GenerationRecord(method.name, opening.name, "none", opening.seed, opening.temperature, opening.top_p)
        loop = OneText(text.session, method, opening.prompt, record)
        loop.draft_pace, loop.pass_pace, loop.on_tokens = self.draft_pace, self.pass_pace, new.extend
        loop.resume(opening.text)
        loop.read()
        while text.left:
            loop.step()
            text.left *= len(loop.sequences)  # 0 at the end of the text
            if new and self.stretch_s:  # each pass of the target gives a token or more
                time.sleep(self.stretch_s)
            yield list(new)
            new.clear()

    def _rows(self, texts: Sequence[ServedText], until: Sequence[int], rows: Sequence[int]) -> Sequence[Any]:
        """Return each text's last rows of logits, or its error: where a pass fails, each text is read alone."""
        try:
            return self._read(texts, until, rows)
        except Exception as error:
            if len(texts) == 1:
                return [error]
        alone = zip(texts, until, rows, strict=True)
        return [self._rows([text], [end], [count])[0] for text, end, count in alone]

    def _read(self, texts: Sequence[ServedText], until: Sequence[int], rows: Sequence[int]) -> Sequence[Any]:
        import torch

        tokens = np.zeros((len(texts), max(len(text.tokens) for text in texts)), dtype=np.int64)
        for slot, text in enumerate(texts):
            tokens[slot, : len(text.tokens)] = text.tokens
        cache = texts[0].cache if len(texts) == 1 else JointCache([text.cache for text in texts])
        cached = np.array([text.cached for text in texts])
        parts = self.model.over(cache, cached).read(tokens, np.array(until), rows=np.array(rows))
        for text, end in zip(texts, until, strict=True):
            text.cached = end
        return torch.cat(parts).split(list(rows)) if parts else []

    def _answer_or_error(self, text: ServedText, one: ReceivedRound | WaitingDrafts, logits: Any) -> Any:
        try:
            return logits if isinstance(logits, Exception) else self._answer(text, one, logits)
        except Exception as error:
            return error

    def _answer(self, text: ServedText, one: ReceivedRound | WaitingDrafts, logits: Any) -> Any:
        if isinstance(one, WaitingDrafts):
            rows = distributions_of(logits, text.session.temperature, text.session.top_p)
            return rows.double().cpu().numpy()
        count, vocabulary = len(one.drafts), text.session.vocabulary
        position, left = np.array([text.kept - text.first]), np.array([text.left])
        found = verify(text.method, text.session, ONE, [one.drafts], logits, np.array([count + 1]), position, left)
        if not np.isfinite(found.mass).all() or not (found.mass > 0).all():
            raise ArithmeticError("the target model gives logits that are not finite; check its weights")
        accepted, token, target = int(found.accepted[0]), int(found.token[0]), None
        if accepted < count and text.terms.device_draws and text.session.temperature > 0:
            token = -1  # the device draws, and sends the token with its next round
            target = one.drafts[accepted].answer or found.target[accepted]
        text.extend([*(draft.token for draft in one.drafts[:accepted]), *([token] if token >= 0 else [])])
        return answer_body(accepted, count, token, vocabulary, target, least=text.terms.least_answer(vocabulary))


@dataclass(frozen=True, slots=True)
class Version:
    name: str
    engine: Engine
    mark: str
