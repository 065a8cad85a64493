"""Exact law of the first token of transformers' assisted sampling with another tokenizer, from the rows it uses itself.

The law follows from the row that the assistant draws from, the row that verification is told, and the target's row. For
comparison the map of tokens is also put into the order of the assistant's ids, in which the rows are read.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from tiny_models import PROMPTS, write_tiny_models
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.generation.candidate_generator import AssistantToTargetTranslator


class Sorted(AssistantToTargetTranslator):
    """The same, with the common tokens in the order of the assistant's ids."""

    def _get_assistant_to_target_input_ids(self) -> tuple[torch.Tensor, dict[int, int]]:
        to_target, to_assistant = super()._get_assistant_to_target_input_ids()
        return to_target, dict(sorted(to_assistant.items(), key=lambda pair: pair[1]))


def distances(folder: Path, translator_type: type[AssistantToTargetTranslator]) -> list[dict[str, float]]:
    """Return for each prompt the distances of the two rows of the draft, and of the law from the target's."""
    target = AutoModelForCausalLM.from_pretrained(folder / "target").eval()
    assistant = AutoModelForCausalLM.from_pretrained(folder / "other").eval()
    tokenizer, other = (AutoTokenizer.from_pretrained(folder / name) for name in ("target", "other"))
    count = target.config.vocab_size
    contexts = [other(text, return_tensors="pt").input_ids for text in PROMPTS]
    with torch.inference_mode():
        hidden = [assistant.model(ids).last_hidden_state[:, -1:] for ids in contexts]
        translator = translator_type(tokenizer, other, count, assistant, assistant_prune_lm_head=True)
        found = []
        for text, state in zip(PROMPTS, hidden, strict=True):
            row = assistant.get_output_embeddings()(state)[0]
            tokens = translator._assistant_to_target_input_ids[translator.assistant_overlap_token_ids]
            drawn = torch.zeros(count).index_add_(0, tokens, row[0].softmax(-1))
            returned = translator.get_target_logits(row)[0].softmax(-1)
            p = target(tokenizer(text, return_tensors="pt").input_ids).logits[0, -1].softmax(-1)
            accepted = drawn * torch.where(returned > 0, (p / returned.clamp_min(1e-30)).clamp(max=1), 1.0)
            residual = (p - returned).clamp_min(0)
            law = accepted + (1 - accepted.sum()) * residual / residual.sum()
            found.append({"draft": _half(drawn, returned), "law": _half(law, p), "total": float(law.sum())})
    return found


def _half(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().sum() / 2)


def main() -> None:
    """Write the distances as the library is, and with the mend."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    folder = parser.parse_args().work / "tiny"
    if not folder.exists():
        write_tiny_models(folder)
    found = {"as it is": distances(folder, AssistantToTargetTranslator), "sorted": distances(folder, Sorted)}
    (folder.parent / "other_tokenizer.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
