"""The server's model: the texts that it reads, their caches, and passes that several texts share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.codec import MalformedError
from validation.decoding.kv_cache import CachedModel, JointCache, KeyValueCache
from validation.decoding.random_streams import Noise
from validation.decoding.session import Draft, Session
from validation.decoding.verification import verify
from validation.link.formats import Terms
from validation.link.wire import Opening, answer_body, round_of

if TYPE_CHECKING:
    from validation.models.pair import Pair

Array = NDArray[Any]
ONE = np.zeros(1, dtype=np.int64)


@dataclass(slots=True)
class ReceivedRound:
    """A round that was read from its bytes, and waits for a pass."""

    skipped: list[int]
    drafts: list[Draft]


class ServedText:
    """A text at the server: its tokens, its cache, and how its drafts are verified."""

    def __init__(self, pair: Pair, opening: Opening, terms: Terms) -> None:
        self.opening, self.terms, self.method = opening, terms, terms.method()
        self.first, self.left = len(opening.prompt), opening.new_tokens - len(opening.text)
        capacity = self.first + opening.new_tokens + 2 + terms.most  # the last is for filler
        self.tokens = np.zeros(capacity, dtype=np.int64)
        self.kept = self.first + len(opening.text)
        self.tokens[: self.kept] = [*opening.prompt, *opening.text]
        self.cache, self.cached = KeyValueCache(capacity), 0
        noise = Noise(opening.seed, [opening.name], opening.new_tokens)
        lengths = np.array([self.first], dtype=np.int64)
        settings = (opening.temperature, opening.top_p, opening.new_tokens)
        self.session = Session(pair, 1, noise, None, *settings, prompt_lengths=lengths)
        self.method.begin(self.session)

    def take_cache(self, other: ServedText) -> None:
        """Take over the cache of an earlier connection, as far as its tokens are this text's."""
        if len(other.tokens) == len(self.tokens):
            known = min(other.cached, self.kept)
            other_way = np.flatnonzero(other.tokens[:known] != self.tokens[:known])
            self.cache, self.cached = other.cache, int(other_way[0]) if len(other_way) else known
            self.cached = min(self.cached, self.kept - 1)

    def received(self, body: bytes) -> ReceivedRound:
        """Return the round in these bytes, or raise a ValueError."""
        vocabulary = self.session.vocabulary
        skipped, payload = round_of(body, vocabulary, self.left)
        drafts = self.terms.received(payload, vocabulary, self.session.temperature)
        if len(skipped) + max(len(drafts), 1) > self.left:
            raise MalformedError(f"a round of {len(skipped)} + {len(drafts)} tokens, and {self.left} are to come")
        return ReceivedRound(skipped, drafts)


class Engine:
    """The target model of a server.

    Parameters
    ----------
    pair : Pair
        Its target is read; its draft is not.
    stretch_s : float
        Seconds that each pass waits at its end, to stand for a slower server.
    """

    def __init__(self, pair: Pair, *, stretch_s: float = 0.0) -> None:
        self.pair, self.stretch_s = pair, stretch_s
        self.model = CachedModel(pair.target, pair.vocabulary, pair.device, 1, pair.context + 2, pair.context)
        self.pass_s = 0.0  # of the last pass

    def prefill(self, text: ServedText) -> None:
        """Read prompt and text without the last token."""
        import torch

        if text.cached < text.kept - 1:
            with torch.inference_mode():
                self._read([text], [text.kept - 1], [0])

    def run(self, texts: Sequence[ServedText], rounds: Sequence[ReceivedRound]) -> list[bytes]:
        """Verify one round of each text in one pass, and return the answers."""
        import torch

        for text, one in zip(texts, rounds, strict=True):
            fresh = [*one.skipped, *(draft.token for draft in one.drafts)]
            text.tokens[text.kept : text.kept + len(fresh)] = fresh
            text.kept, text.left = text.kept + len(one.skipped), text.left - len(one.skipped)
        began = time.perf_counter()
        counts = [len(one.drafts) for one in rounds]
        with torch.inference_mode():
            ends = [text.kept + count for text, count in zip(texts, counts, strict=True)]
            rows = self._read(texts, ends, [count + 1 for count in counts])
            answers = [self._answer(*one) for one in zip(texts, rounds, rows, strict=True)]
        if self.stretch_s:
            time.sleep(self.stretch_s)
        self.pass_s = time.perf_counter() - began
        return answers

    def _read(self, texts: Sequence[ServedText], until: Sequence[int], rows: Sequence[int]) -> Sequence[Any]:
        """Read each text up to a position, and return its last rows of logits."""
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

    def _answer(self, text: ServedText, one: ReceivedRound, logits: Any) -> bytes:
        count, vocabulary = len(one.drafts), text.session.vocabulary
        position, left = np.array([text.kept - text.first]), np.array([text.left])
        found = verify(text.method, text.session, ONE, [one.drafts], logits, np.array([count + 1]), position, left)
        if not np.isfinite(found.mass).all() or not (found.mass > 0).all():
            raise ArithmeticError("the target model gives logits that are not finite; check its weights")
        accepted, token, target = int(found.accepted[0]), int(found.token[0]), None
        if accepted < count and text.terms.device_draws and text.session.temperature > 0:
            token, target = -1, found.target[accepted]  # the device draws, and sends the token with its next round
        fresh = accepted
        if token >= 0:
            text.tokens[text.kept + accepted] = token
            fresh += 1
        text.kept, text.left = text.kept + fresh, text.left - fresh
        text.cached = min(text.cached, text.kept - 1)  # the last token's logits may be needed again
        return answer_body(accepted, count, token, vocabulary, target)
