"""Compare second tokens of llama-speculative with the law that its code says, and with the target's.

    export PYTHONPATH=.:ENGINE/site
    python3 figures/studies/audit_software/greedy_drafts.py ENGINE LARGE.gguf SMALL.gguf OUT.json

The first token is drawn from the target. The first draft after it is x = argmax q, accepted with probability
min(1, p(x)/q(x)). A rejected draft is followed by a draw from (p - q)+, which has no mass at x then. So the second
token is x with probability min(1, p(x)/q(x)); by the target's law it is p(x). Both are summed over the texts, with p
and q of the built-in pair in transformers. The number of texts that go on with x is set beside them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from audit_software import BUILTIN, REPEATING
from llama_examples import llama_example_cases
from samplers import load_models


def main() -> None:
    """Write the count and both sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", type=Path)
    parser.add_argument("files", type=Path, nargs=2)
    parser.add_argument("out", type=Path)
    parser.add_argument("--texts", type=int, default=200, help="of each prompt")
    parser.add_argument("--seed", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    models = load_models(BUILTIN / "large", BUILTIN / "small", REPEATING, other=None)
    found: dict[str, Any] = {"texts of each prompt": given.texts}
    for case in llama_example_cases(models, "built-in", given.texts, given.engine, tuple(given.files)):
        if case.setting != "temperature 1":
            continue
        answer = {"texts": 0, "second token is x": 0, "by the code": 0.0, "by the target": 0.0}
        for prompt, texts in zip(models.prompts, case.sampler(models.prompts, given.texts, given.seed), strict=True):
            longer = [text[:2] for text in texts if len(text) > 1]
            ids = torch.tensor([[*prompt, text[0]] for text in longer])
            with torch.inference_mode():
                p, q = (model(ids).logits[:, -1].softmax(-1) for model in (models.target, models.draft))
            top = q.argmax(-1, keepdim=True)
            own, drafted = p.gather(1, top)[:, 0], q.gather(1, top)[:, 0]
            answer["texts"] += len(longer)
            answer["second token is x"] += sum(int(text[1] == x) for text, x in zip(longer, top[:, 0], strict=True))
            answer["by the code"] += float((own / drafted).clamp(max=1).sum())
            answer["by the target"] += float(own.sum())
        found[case.call] = answer
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(case.call, answer, flush=True)


if __name__ == "__main__":
    main()
