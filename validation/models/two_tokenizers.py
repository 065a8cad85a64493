"""A draft model with a tokenizer of its own: it drafts the tokens that both tokenizers have (timor2025heterogeneous).

The adapter decodes the target's tokens to text, encodes it with the draft's tokenizer, and keeps the logits of common
tokens (:mod:`hlmtheory.vocabulary`). The proposal depends on the tokens so far alone, so every lossless
method stays lossless. The text is encoded anew for each draft, without a cache.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from validation.arrays import Array
from validation.errors import UserError
from validation.models.pair import Pair, load_single


class OtherTokens:
    """A draft model that reads and writes another model's tokens; the decoding loop runs it like any draft model."""

    def __init__(self, model: Any, encode: Callable[[list[int]], Sequence[int]], own: Array, context: int) -> None:
        self.model, self.encode, self.context = model, encode, context
        self.common = torch.from_numpy(np.flatnonzero(own >= 0))
        self.own = torch.from_numpy(own[own >= 0])
        self.vocabulary, self.dtype = len(own), torch.float32
        # what else is asked of a model: its fingerprint, and its commit
        self.config, self.state_dict, self.named_modules = (
            getattr(model, name, None) for name in ("config", "state_dict", "named_modules")
        )

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        position_ids: torch.Tensor,
        past_key_values: Any,
        use_cache: bool,
        logits_to_keep: int = 0,
    ) -> SimpleNamespace:
        """Return the logits of the last ``logits_to_keep`` new tokens; the cache holds the tokens themselves."""
        new = input_ids[:, None, :, None].double()
        seen = past_key_values.update(new, new, 0)[0][:, 0, :, 0].long()
        width = input_ids.shape[1]
        keep = logits_to_keep or width
        lowest = torch.finfo(self.dtype).min
        logits = torch.full((len(seen), keep, self.vocabulary), lowest, dtype=self.dtype, device=input_ids.device)
        for place in range(keep):
            visible = attention_mask[:, 0, width - keep + place] == 0
            for slot in range(len(seen)):
                text = list(self.encode(seen[slot][visible[slot]].tolist()))[-self.context :]
                ids = torch.tensor([text], device=input_ids.device)
                logits[slot, place, self.common] = self.model(ids).logits[0, -1, self.own].to(self.dtype)
        return SimpleNamespace(logits=logits)

    __call__ = forward


def common_tokens(own: Any, other: Any) -> Array:
    """Return the id in ``own`` of each token of ``other``, (V,); -1 where ``own`` has no token of this spelling."""
    spelled, theirs = own.get_vocab(), other.get_vocab()
    special = {*own.all_special_tokens, *other.all_special_tokens}
    found = np.full(max(theirs.values()) + 1, -1, dtype=np.int64)
    for token, place in theirs.items():
        if token in spelled and token not in special:
            found[place] = spelled[token]
    if (found < 0).all():
        raise UserError("The two tokenizers spell no token alike, so nothing can be drafted; choose another draft.")
    return found


def with_other_draft(pair: Pair, draft: Pair) -> Pair:
    """Return the target of ``pair`` with the draft model of another pair, which keeps its own tokenizer."""
    ours, theirs = pair.tokenizer, draft.tokenizer

    def encode(tokens: list[int]) -> list[int]:
        return list(theirs(ours.decode(tokens, skip_special_tokens=True)).input_ids) or [draft.end_tokens[0]]

    own = common_tokens(theirs, ours)
    own = np.concatenate([own, np.full(pair.vocabulary - len(own), -1)]) if len(own) < pair.vocabulary else own
    model: Any = OtherTokens(draft.draft, encode, own, draft.context)
    count = np.count_nonzero(own >= 0)
    note = (
        f"The draft model has a tokenizer of its own: {count:,} of the target's {pair.vocabulary:,} tokens "
        f"({count / pair.vocabulary:.1%}) are common. Only these are drafted, and the texts keep the target's law."
    )
    return replace(
        pair,
        name=f"{pair.name} with {draft.draft_name}",
        draft=model,
        draft_name=draft.draft_name,
        draft_parameters=draft.draft_parameters,
        notes=(*pair.notes, note),
    )


def load_two(draft: str, target: str, *, device: str = "cpu", dtype: str | None = None, chat: bool = False) -> Pair:
    """Load a draft and a target model with tokenizers of their own, as a pair over the target's tokens."""
    pair = load_single(target, device=device, dtype=dtype, chat=chat)
    own = load_single(draft, device=device, dtype=dtype)
    if own.tokenizer.get_vocab() == pair.tokenizer.get_vocab():
        raise UserError(
            f"{draft!r} and {target!r} have one tokenizer, so all tokens are common; decode them with `hlm decode "
            "nucleus`, which has more methods."
        )
    return with_other_draft(pair, own)


def common_share(pair: Pair, texts: Sequence[Sequence[int]]) -> float:
    """Return the share of the texts' tokens that the draft model has too; drafts are accepted no more often."""
    common = np.zeros(pair.vocabulary, dtype=bool)
    common[pair.draft.common.numpy()] = True
    tokens = np.concatenate([np.asarray(text, dtype=np.int64) for text in texts])
    return float(common[tokens].mean()) if len(tokens) else 0.0
