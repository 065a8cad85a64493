"""The law of a transformers model: rows after the engine's processors."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from validation.arrays import Array
from validation.audit.laws import Processors
from validation.collection.prompts import Prompt, builtin_prompts, read_prompts
from validation.errors import UserError
from validation.models.devices import choose_device
from validation.models.pair import PAIRS
from validation.models.sources import ModelSource, quiet

FLOAT32 = 1e-5
"""Relative rounding of a model in float32, whose passes are batched in different ways."""
BATCH = 256
"""Continuations in one forward pass."""


class ModelLaw:
    def __init__(
        self,
        model: Any,
        prompts: Sequence[Sequence[int]],
        processors: Processors | None = None,
        *,
        end_tokens: Sequence[int] | None = None,
        vocabulary: int | None = None,
    ) -> None:
        self._model, self.processors = model, processors or Processors(rounding=FLOAT32)
        self.prompts = [list(map(int, one)) for one in prompts]
        self.vocabulary = int(vocabulary or model.config.get_text_config().vocab_size)
        ends = model.generation_config.eos_token_id if end_tokens is None else list(end_tokens)
        ends = [] if ends is None else [ends] if isinstance(ends, int) else ends
        self.end_tokens = tuple(int(one) for one in ends)
        for i, ids in enumerate(self.prompts):
            if not ids:
                raise UserError(f"Prompt {i} has no tokens; give at least one.")
            if not 0 <= min(ids) <= max(ids) < self.vocabulary:
                raise UserError(
                    f"Prompt {i} holds a token outside 0..{self.vocabulary - 1}; use the target's tokenizer."
                )
        self._caches: dict[int, tuple[Any, Array]] = {}

    def next_rows(self, prompt: int, tokens: Array) -> Array:
        return self.uncertain_rows(prompt, tokens)[0]

    def uncertain_rows(self, prompt: int, tokens: Array) -> tuple[Array, Array]:
        """Return the rows (m, D, V), and the total variation (m, D) by which rounding may move them."""
        (rows,) = self._rows(prompt, tokens, [self.processors])
        return rows

    @property
    def own_mechanisms(self) -> bool:
        """Return whether a mechanism can be named without a draft model."""
        return bool(self.processors.without())

    def rows_without(self, prompt: int, tokens: Array, names: Sequence[str]) -> dict[str, Array]:
        without = self.processors.without(names)
        each = self._rows(prompt, tokens, list(without.values())) if without else []
        return {name: rows for name, (rows, _) in zip(without, each, strict=True)}

    def rows_seeing(self, prompt: int, tokens: Array, seen: Sequence[int]) -> Array:
        """Return the rows (m, D, V) if penalties see, of the tokens before, only those at the places ``seen``."""
        return self._rows(prompt, tokens, [self.processors], seen)[0][0]

    def _rows(
        self, prompt: int, tokens: Array, made: Sequence[Processors], seen: Sequence[int] | None = None
    ) -> list[tuple[Array, Array]]:
        depth = tokens.shape[1]
        unique, inverse = np.unique(tokens[:, : depth - 1], axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        found = [(np.empty((len(unique), depth, self.vocabulary)), np.empty((len(unique), depth))) for _ in made]
        for start in range(0, len(unique), BATCH):
            part = unique[start : start + BATCH]
            logits = self._logits(prompt, part)
            for t in range(depth):  # equal prefixes have the same row
                first, place = np.unique(part[:, :t], axis=0, return_index=True, return_inverse=True)[1:]
                known = part[first][:, [s for s in range(t) if seen is None or s in seen]].tolist()
                contexts = [[*self.prompts[prompt], *text] for text in known]
                for processors, (rows, slack) in zip(made, found, strict=True):
                    given = contexts, len(contexts[0]) - len(self.prompts[prompt]), self._banned(t, processors)
                    own, moved = processors.uncertain_rows(logits[first, t], *given)
                    rows[start : start + BATCH, t] = own[place.reshape(-1)]
                    slack[start : start + BATCH, t] = moved[place.reshape(-1)]
        return [(rows[inverse], slack[inverse]) for rows, slack in found]

    def _banned(self, drawn: int, made: Processors) -> Array | None:
        return np.isin(np.arange(self.vocabulary), self.end_tokens)[None] if drawn < made.min_tokens else None

    def logits(self, prompt: int, tokens: Sequence[int]) -> Array:
        """Return the logits (V,) behind the prompt and the tokens, after the biases and penalties alone."""
        behind = self._logits(prompt, np.array([tokens], dtype=np.int64))[:, -1]
        given = [[*self.prompts[prompt], *tokens]], len(tokens), self._banned(len(tokens), self.processors)
        return np.asarray(self.processors.penalised(behind, *given)[0])

    def _logits(self, prompt: int, tokens: Array) -> Array:
        import torch

        with torch.inference_mode():
            if prompt not in self._caches:
                self._caches.clear()  # one prompt at a time: memory stays flat
                ids = torch.tensor([self.prompts[prompt]], device=self._model.device)
                made = self._model(input_ids=ids, use_cache=True)
                self._caches[prompt] = made.past_key_values, self._host(made.logits[:, -1])
            cache, first = self._caches[prompt]
            rows = np.broadcast_to(first[:, None], (len(tokens), 1, first.shape[-1]))
            if not tokens.shape[1]:
                return rows
            own = copy.deepcopy(cache)
            own.batch_repeat_interleave(len(tokens))
            ids = torch.from_numpy(np.ascontiguousarray(tokens)).to(self._model.device)
            later = self._model(input_ids=ids, past_key_values=own, use_cache=True)
            return np.concatenate([rows, self._host(later.logits)], axis=1)

    def _host(self, logits: Any) -> Array:
        host_logits: Array = logits[..., : self.vocabulary].float().cpu().numpy()
        if not np.isfinite(host_logits).all():
            raise UserError("The target model gives logits that are not finite; look for an overflow in its type.")
        return host_logits


def load_model(name: str, device: str) -> tuple[Any, Any]:
    """Return a model in eval mode and its tokenizer; ``builtin/small`` and ``builtin/large`` are the built-in ones."""
    named = {"builtin": PAIRS["builtin"].target, "builtin/large": PAIRS["builtin"].target}
    named["builtin/small"] = PAIRS["builtin"].draft
    source, where = ModelSource.parse(named.get(name, name)), choose_device(device)
    with quiet():
        model = source.load_model("float32" if where.type == "cpu" else "auto").to(where).eval()
        return model, source.load_tokenizer()


def chosen_prompts(path: Any, count: int) -> list[Prompt]:
    return builtin_prompts(limit=count) if path is None else read_prompts(path, limit=count)
