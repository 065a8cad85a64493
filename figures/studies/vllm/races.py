"""Count how many drafts a vLLM server's own draws confirm: likeliest drafts, and drafts that race with its noise."""

from typing import Any

import numpy as np

from figures.studies.kit import given, store
from figures.studies.vllm.measure import URL, serving
from validation.collection.collect import Text, ids_of, teacher_forced_logits
from validation.collection.prompts import builtin_prompts
from validation.decoding.methods.multi_draft import GreedyDrafts
from validation.link.completions import Completions, EngineDevice
from validation.models.pair import load_pair

LENGTH, NEW = 4, 32


def predicted(pair: Any, texts: list[Text]) -> dict[str, float]:
    """Return means along texts: p(argmax q), and what races of shared noise accept at least and any rule at most."""
    laws = []
    for side in ("draft", "target"):
        rows = np.concatenate([teacher_forced_logits(pair, side, [text])[0] for text in texts]).astype(np.float64)
        law = np.exp(rows - rows.max(axis=1, keepdims=True))
        laws.append(law / law.sum(axis=1, keepdims=True))
    q, p = laws
    tvd = 0.5 * np.abs(q - p).sum(axis=1)
    likeliest = p[np.arange(len(p)), q.argmax(axis=1)]
    found = {"likeliest": likeliest, "races at least": (1 - tvd) / (1 + tvd), "any rule at most": 1 - tvd}
    return {name: round(float(values.mean()), 3) for name, values in found.items()}


def main() -> None:
    """Write each prompt twice at temperature 1, with races and without, and store the counts."""
    options = given(__doc__, "vllm", "work", "models", "out", prompts=24)
    pair = load_pair(draft=options.models / "small", target=options.models / "large")
    prompts = ids_of(pair.tokenizer, builtin_prompts()[:: 320 // options.prompts], chat=False)
    options.work.mkdir(parents=True, exist_ok=True)
    found, texts = dict[str, Any](), dict[str, list[list[int]]]()
    with serving(options.vllm, options.models / "large", options.work, {}):
        remote = Completions(f"openai:{URL}")
        remote.hello(pair.tokenizer)
        remote.require_seeds(prompts[0], pair.vocabulary)
        device, raced = EngineDevice(pair, remote), remote.raced
        for name in ("likeliest", "races"):
            remote.raced = raced and name == "races"
            sampling: dict[str, Any] = {"seed": 1, "temperature": 1.0, "new_tokens": NEW}
            records = [
                device.generate(GreedyDrafts(LENGTH), ids, name=str(i), **sampling) for i, ids in enumerate(prompts)
            ]
            texts[name] = [list(record.tokens) for record in records]
            found[name] = {count: sum(record.total(count) for record in records) for count in ("drafted", "accepted")}
            found[name] |= {"rounds": sum(len(record.rounds) for record in records)}
    found["noise known"], found["equal texts"] = raced, sum(a == b for a, b in zip(*texts.values(), strict=True))
    written = [
        Text(i, "", [*ids, *new], len(ids)) for i, (ids, new) in enumerate(zip(prompts, texts["races"], strict=True))
    ]
    store(options.out, {"K": LENGTH, "texts": len(prompts), **found, "predicted": predicted(pair, written)})


if __name__ == "__main__":
    main()
