"""Audit a ``vllm.LLM`` with sampled drafts (K = 3, T = 1), mended, as a test does; run it with vLLM's own Python."""

import importlib
import os
import time
from typing import Any

from figures.studies.kit import given, read, store
from figures.studies.vllm.measure import DRAFTS, SHOWN
from figures.studies.vllm.mend import mend
from validation.audit import ModelLaw, Processors, keeps_law, vllm_sampler
from validation.audit.assertion import LawBrokenError, NotEnoughDrawsError
from validation.collection.collect import prompt_ids
from validation.collection.prompts import builtin_prompts
from validation.models.pair import load_pair


def main() -> None:
    """Draw until the cells show that the law is kept to within the given distance; add it to the audits."""
    options = given(__doc__, "models", "out", within=0.1, draws=5_000)
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}
    small, large = (str(options.models.resolve() / side) for side in ("small", "large"))
    fast = {"enforce_eager": True, "enable_prefix_caching": True, "block_size": 32}  # so each prompt is read once
    model = importlib.import_module("vllm").LLM(
        large,
        dtype="float32",
        max_model_len=256,
        enable_chunked_prefill=False,
        speculative_config=DRAFTS["sampled"] | {"model": small, "num_speculative_tokens": 3},
        **fast,
    )
    mend()
    pair, made = load_pair(draft=small, target=large), Processors(order="vllm")
    texts = [prompt.text for prompt in builtin_prompts()[:14:13]]
    prompts = [ids[:33] for ids in prompt_ids(pair.tokenizer, texts)]
    start, inner, inside = time.perf_counter(), vllm_sampler(model, made, new_tokens=7), list[float]()

    def sample(prompts: Any, n: int, seed: int, depth: int) -> Any:
        began = time.perf_counter()
        found = inner(prompts, n, seed, depth)
        inside.append(time.perf_counter() - began)
        return found

    laws = [ModelLaw(one, prompts, made) for one in (pair.target, pair.draft)]
    try:
        report = keeps_law(sample, laws[0], within=options.within, draws=options.draws, draft=laws[1], whole=False)
    except (LawBrokenError, NotEnoughDrawsError) as said:
        report = said.report
    minutes = {"minutes": round((time.perf_counter() - start) / 60, 1), "minutes_in_engine": round(sum(inside) / 60, 1)}
    row = {"T": 1.0, "top_p": 1.0, **minutes} | {key: report.as_json()[key] for key in SHOWN}
    before = read(options.out)
    store(options.out, before | {"audits": before["audits"] | {"sampled-3-offline": [row]}})


if __name__ == "__main__":
    main()
