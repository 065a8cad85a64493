"""Audit vllm.LLM by keeps_law, in vLLM's environment: sampled drafts and n-grams, with and without top-p."""

from __future__ import annotations

import importlib
import time
from typing import Any

from figures.studies.kit import given, store
from validation.audit import LawBrokenError, ModelLaw, NotEnoughDrawsError, Processors, keeps_law, vllm_sampler
from validation.collection.collect import ids_of
from validation.collection.prompts import builtin_prompts
from validation.models.pair import load_pair

LENGTH, DEPTH = 3, 4
SAMPLED = {"method": "draft_model", "draft_sample_method": "probabilistic"}
NGRAM = {"method": "ngram", "prompt_lookup_min": 1, "prompt_lookup_max": 4}
CASES: dict[str, tuple[dict[str, Any], float]] = {
    "sampled": (SAMPLED, 1.0),
    "sampled, top-p 0.9": (SAMPLED, 0.9),
    "n-grams": (NGRAM, 1.0),
    "n-grams, top-p 0.9": (NGRAM, 0.9),
}
SHOWN = (
    "verdict",
    "draws",
    "found_after",
    "at_least",
    "at_most",
    "at_most_on_cells",
    "cells",
    "smallest_found",
    "level",
)


def main() -> None:
    llm_of: Any = importlib.import_module("vllm").LLM
    options = given(__doc__, "models", "out", cases=tuple(CASES), draws=14_000, within=0.05)
    pair, rows = load_pair(draft=options.models / "small", target=options.models / "large"), list[dict[str, Any]]()
    prompts = ids_of(pair.tokenizer, builtin_prompts()[:: 320 // 24][:2], chat=False)
    fixed = {"dtype": "float32", "max_model_len": 256, "enforce_eager": True, "enable_chunked_prefill": False}
    for name in options.cases:
        speculative, top_p = CASES[name]
        config = {**speculative, "num_speculative_tokens": LENGTH}
        config |= {"model": str(options.models / "small")} if "draft_model" in config.values() else {}
        llm = llm_of(str(options.models / "large"), speculative_config=config, **fixed)
        settings, began = Processors(top_p=top_p, order="vllm"), time.perf_counter()
        law, draft = (ModelLaw(model, prompts, settings) for model in (pair.target, pair.draft))
        sample = vllm_sampler(llm, settings, new_tokens=DEPTH + LENGTH)
        try:
            more: dict[str, Any] = {"draws": options.draws, "depth": DEPTH, "within": options.within, "draft": draft}
            report = keeps_law(sample, law, whole=False, **more)
        except (LawBrokenError, NotEnoughDrawsError) as error:
            report = error.report
        plain = report.as_json()
        row = {"drafts": name, "top_p": top_p, "minutes": round((time.perf_counter() - began) / 60, 1)}
        rows.append(row | {key: plain[key] for key in SHOWN if key in plain})
        store(options.out, {"audits": rows})
        del llm


if __name__ == "__main__":
    main()
