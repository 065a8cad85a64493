"""Draw texts from llama.cpp with and without drafts from the same seeds, and count the texts that differ.

    PYTHONPATH=.:ENGINE/site python3 figures/studies/audit_software/coupled.py OUT.json [--texts 400]

A program that draws each token as it would without drafts, and keeps a draft that is equal, uses the same random
numbers with drafts and without. Then the total variation of the two laws of a text is at most the probability that the
two texts of a seed differ (the coupling inequality), and that probability has an exact binomial bound. So a few hundred
texts give a much smaller bound than two independent samples of that size, and the bound holds for whole texts. It says
nothing about the law without drafts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import samplers
from audit_software import LEVEL, REPEATING

from validation.models import smollm2
from validation.models.sources import ModelSource


class Counted:
    """Prompt lookup that counts the tokens that it drafted and those of them that were kept."""

    def __init__(self, lookup: Any) -> None:
        self.lookup, self.drafted, self.kept = lookup, 0, 0
        self._last: tuple[int, list[int]] = (0, [])

    def __call__(self, ids: Any, /, **options: Any) -> Any:
        """Return the drafts of llama-cpp-python's own function."""
        before, drafts = self._last
        for draft, token in zip(drafts, ids[before:].tolist(), strict=False):
            if draft != token:
                break
            self.kept += 1
        found = self.lookup(ids, **options)
        self.drafted += len(found)
        self._last = len(ids), found.tolist()
        return found


def compared(with_drafts: samplers.Case, without: samplers.Case, prompts: Any, texts: int, seed: int) -> dict[str, Any]:
    """Return how many of the texts differ, and the bound on the total variation of the laws of a text."""
    from scipy.stats import binomtest

    pairs = [
        (one, other)
        for here, there in zip(
            with_drafts.sampler(prompts, texts // len(prompts), seed),
            without.sampler(prompts, texts // len(prompts), seed),
            strict=True,
        )
        for one, other in zip(here, there, strict=True)
    ]
    differ = sum(one != other for one, other in pairs)
    bound = binomtest(differ, len(pairs)).proportion_ci(1 - 2 * LEVEL, method="exact").high
    return {"texts": len(pairs), "differ": differ, "at_most": float(bound), "level": LEVEL, "seed": seed}


def main() -> None:
    """Compare at each temperature."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--texts", type=int, default=400)
    given = parser.parse_args()
    tokenizer = ModelSource.parse(smollm2.NAME).load_tokenizer()
    prompts = [tokenizer(text).input_ids for text in REPEATING]
    models: Any = SimpleNamespace(tokenizer=tokenizer)
    import llama_cpp.llama_speculative as lookup

    counters: list[Counted] = []
    own = lookup.LlamaPromptLookupDecoding

    def counting(**options: Any) -> Counted:
        counters.append(Counted(own(**options)))
        return counters[-1]

    lookup.LlamaPromptLookupDecoding = counting
    cases = list(samplers.llama_cpp_cases(models, "SmolLM2", given.texts, smollm2.weights_file()))
    found: dict[str, Any] = {"version": samplers.version_of("llama-cpp-python"), "tokens": samplers.NEW_TOKENS}
    for number, setting in enumerate(("temperature 1", "temperature 0.7")):
        before = np.array([counters[0].drafted, counters[0].kept])
        with_drafts, without = (case for case in cases if case.setting == setting)
        found[setting] = compared(with_drafts, without, prompts, given.texts, 1 + number)
        drafted, kept = np.array([counters[0].drafted, counters[0].kept]) - before
        found[setting] |= {"drafted": int(drafted), "kept": int(kept)}
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(setting, found[setting], flush=True)


if __name__ == "__main__":
    main()
