"""Measure the tokens of a round by block and token by token, on the same prefixes and drafts of the built-in pair."""

from dataclasses import astuple
from typing import Any

import numpy as np
import torch

from figures.studies.kit import given, store
from hlmtheory.verification import block_weights, rejection_probability
from validation.collection.collect import encode_prompts
from validation.collection.prompts import builtin_prompts
from validation.decoding.intervals import ratio
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import FixedLength
from validation.models.pair import load_pair

PROMPTS, NEW, COPIES, LENGTHS = 12, 24, 4, (2, 4, 8)


@torch.no_grad()  # type: ignore[untyped-decorator]
def tokens_of_rounds(pair: Any, prefix: list[int]) -> np.ndarray:
    """Return the mean tokens of a round after a prefix, (rules, lengths)."""
    most = max(LENGTHS)
    ids = torch.tensor([prefix] * COPIES)
    for _ in range(most):
        row = pair.draft(ids).logits[:, -1].float().softmax(-1)
        ids = torch.cat([ids, torch.multinomial(row, 1)], dim=1)
    p, q = (model(ids[:, :-1]).logits[:, -most:].double().softmax(-1) for model in (pair.target, pair.draft))
    tokens = ids[:, -most:]
    block = block_weights(p, q, tokens)
    accepted = 1.0 - rejection_probability(p, q).gather(-1, tokens[..., None])[..., 0]
    alone = accepted.cumprod(dim=-1)
    return np.array([[1.0 + float(each[:, :k].sum(-1).mean()) for k in LENGTHS] for each in (alone, block)])


def main() -> None:
    """Measure, and store the numbers."""
    asked = given(__doc__, "out")
    pair, prompts = load_pair("builtin"), builtin_prompts(limit=PROMPTS)
    torch.manual_seed(1)
    encoded = encode_prompts(pair, prompts, NEW)
    sums, starts = [], []
    for ids, record in zip(encoded, decode(pair, prompts, FixedLength(4), new_tokens=NEW, batch=16), strict=True):
        places = [one.position for one in record.rounds[::3]]
        sums.append(sum(tokens_of_rounds(pair, [*ids, *record.tokens[:place]]) for place in places))
        starts.append(len(places))
    found, rounds = np.array(sums), np.array(starts, dtype=np.float64)
    by_length = {
        k: {
            "token_by_token": astuple(ratio(found[:, 0, j], rounds)),
            "by_block": astuple(ratio(found[:, 1, j], rounds)),
            "quotient": astuple(ratio(found[:, 1, j], found[:, 0, j])),
        }
        for j, k in enumerate(LENGTHS)
    }
    head = {"prompts": len(prompts), "rounds": int(rounds.sum()), "copies": COPIES}
    store(asked.out, head | {"by_length": by_length})


if __name__ == "__main__":
    main()
