"""Which drafts of the built-in pair are accepted at which position, by message, and the rounds of C-SQS; for regret.py.

PYTHONPATH=. python3 figures/studies/adapting/drafts.py --out figures/studies/adapting/drafts.json

Under a shared seed a text is fixed, so whether a draft at a position is accepted is one bit, whatever the rounds are.
For rows the bit is drawn once, with the text's own numbers. C-SQS ends rounds by their bits and not by the link, so its
rounds are stored as they are.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from hlmtheory.policy import DevicePolicy, LatticeRows, SeededTokens, threshold_rule
from validation.collection.prompts import builtin_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.planned import Planned
from validation.decoding.methods.quantized import CSqs
from validation.models.pair import load_pair

RESOLUTION, TOP_K = 100, 64
"""ℓ and k of the rows."""
NEW_TOKENS = 64


def main() -> None:
    """Decode, and store."""
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--out", type=Path, required=True)
    given.add_argument("--texts", type=int, default=24)
    asked = given.parse_args()
    pair, prompts = load_pair("builtin"), builtin_prompts(limit=asked.texts)

    def rounds(method: Any) -> list[list[Any]]:
        return [one.rounds for one in decode(pair, prompts, method, new_tokens=NEW_TOKENS, seed=1)]

    found: dict[str, Any] = {"texts": asked.texts, "new_tokens": NEW_TOKENS, "accepted": {}, "draft_bytes": {}}
    for name, messages in (("rows", LatticeRows(RESOLUTION, top_k=TOP_K)), ("tokens", SeededTokens())):
        made = [Planned(DevicePolicy(pair.vocabulary, 1.0, threshold_rule(k), messages)) for k in (1, 4)]
        made[0].bonus = False  # so each position has a draft
        found["accepted"][name] = ["".join(str(one.accepted) for one in text) for text in rounds(made[0])]
        full = [one.bytes for text in rounds(made[1]) for one in text if one.drafted == 4]
        single = [one.bytes for text in rounds(made[0]) for one in text]
        found["draft_bytes"][name] = (sum(full) / len(full) - sum(single) / len(single)) / 3
    c_sqs = rounds(CSqs())
    found["c_sqs"] = [[[one.drafted, one.accepted, one.bytes] for one in text] for text in c_sqs]
    asked.out.write_text(json.dumps(found, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
