"""Audit llama-cpp-python on SmolLM2 against the law of its own weights: the rows that the engine itself computes.

    PYTHONPATH=.:ENGINE/site python3 figures/studies/audit_software/own_weights.py WORK [--draws 3000]

The other audits on SmolLM2 take the law from dequantised weights in float32, which is not the law of an engine that
multiplies 4-bit numbers. Here a second engine with the same options reads the prompt and each first token that was
drawn, one token at a time, as the engine does without drafts. Its logits are the law of the next two tokens.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import samplers
from audit_software import EPSILON, LEVEL, REPEATING, SEED
from numpy.typing import NDArray

from validation.audit import ModelLaw, Processors, audit_sampler
from validation.models import smollm2
from validation.models.sources import ModelSource

Array = NDArray[Any]
DEPTH = 2


class EngineLaw(ModelLaw):
    """The law of a llama.cpp engine: its logits behind a prompt and behind each first token."""

    def __init__(self, engine: Any, prompts: list[list[int]], processors: Processors, end: int) -> None:
        super().__init__(None, prompts, processors, end_tokens=[end], vocabulary=engine.n_vocab())
        self._engine = engine
        self._rows: dict[tuple[int, ...], Array] = {}

    def _logits(self, prompt: int, tokens: Array) -> Array:
        """Return the logits (m, D, V) at the end of the prompt and behind each of the tokens (m, D - 1)."""
        ids = self.prompts[prompt]
        return np.stack([[self._row([*ids, *text[:t]]) for t in range(len(text) + 1)] for text in tokens.tolist()])

    def _row(self, ids: list[int]) -> Array:
        """Return the engine's logits behind these tokens; the rows of a prompt are kept."""
        if tuple(ids) not in self._rows:
            same = 0
            for own, token in zip(self._engine._input_ids.tolist(), ids[:-1], strict=False):
                if own != token:
                    break
                same += 1
            self._engine.n_tokens = same  # what the engine has read already
            for token in ids[same:]:
                self._engine.eval([token])
            self._rows[tuple(ids)] = self._engine.scores[len(ids) - 1].copy()
        return self._rows[tuple(ids)]


def drafted(law: EngineLaw, lookup: Any) -> float:
    """Return the probability that the lookup has a draft behind the first token: the mean over the prompts.

    A draft follows a token of the prompt alone, so the tokens of the prompt are tried.
    """
    found = []
    for number, ids in enumerate(law.prompts):
        row = law.next_rows(number, np.array([[0]]))[0, 0]
        found.append(sum(float(row[token]) for token in set(ids) if len(lookup(np.array([*ids, token])))))
    return float(np.mean(found))


def audited(case: samplers.Case, engine: Any, models: samplers.Models, draws: int, seed: int) -> dict[str, Any]:
    """Return what an audit of a case says, in the form that ``collect.py`` reads."""
    heat = samplers.SETTINGS[case.setting].get("temperature", 1.0)
    end = models.tokenizer.eos_token_id
    law = EngineLaw(engine, models.prompts, Processors(temperature=heat, rounding=case.rounding), end)
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    start = time.process_time()
    report = audit_sampler(law, case.sampler, draws=draws, depth=DEPTH, level=LEVEL, epsilon=EPSILON, seed=seed)
    found = {"package": case.package, "version": samplers.version_of(case.package), "call": case.call}
    found |= {"pair": case.pair, "setting": case.setting, "depth": DEPTH, "seed": seed}
    found |= {"cpu_s": round(time.process_time() - start, 1)}
    if "Lookup" in case.call:
        found["drafted"] = drafted(law, LlamaPromptLookupDecoding(num_pred_tokens=3))
    return found | {"report": report.as_json(), "words": report.sentences()}


def main() -> None:
    """Run the cases that are not stored yet; a file for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--draws", type=int, default=3_000, help="of each case, of both prompts together")
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    tokenizer = ModelSource.parse(smollm2.NAME).load_tokenizer()
    file, ids = smollm2.weights_file(), [tokenizer(text).input_ids for text in REPEATING]
    models = samplers.Models(file, None, None, tokenizer, ids, file, None, None)
    engine = samplers.llama_cpp_engine(file, logits_all=True)
    cases = samplers.llama_cpp_cases(models, "SmolLM2, own rows", given.draws, file, new_tokens=DEPTH)
    for number, case in enumerate(one for one in cases if one.setting.startswith("temperature")):
        place = given.work / f"seed{given.seed}" / f"own{number}.json"
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            answer = audited(case, engine, models, given.draws, given.seed)
            place.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
            print(case.name, answer["words"][0], flush=True)


if __name__ == "__main__":
    main()
