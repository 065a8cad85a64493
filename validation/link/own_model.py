"""The draft model of a device over one text, where no loop runs it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from validation.decoding.kv_cache import CachedModel
from validation.decoding.sampling import distributions_of, draw, levels
from validation.decoding.session import Session
from validation.errors import UserError
from validation.link.loops import Pace


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
