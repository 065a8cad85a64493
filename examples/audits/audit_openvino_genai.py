"""openvino-genai: a target and a draft in folders of IR, named by OV_TARGET and OV_DRAFT.

The engine makes such a folder of a GGUF file: ``LLMPipeline(file, "CPU", enable_save_ov_model=True)``. A token is named
by its rank in the target's own distribution, so the law is a small table; the last rank is any excluded token.
"""

import os
from itertools import product

import numpy as np
import openvino as ov
import openvino_genai as genai

TOP_K, DEPTH, DRAFTS = 3, 3, 3
TARGET, DRAFT = os.environ.get("OV_TARGET", "target"), os.environ.get("OV_DRAFT", "draft")
EXACT = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
TEXTS = ("Question: Tom has", "It was the")
PROMPTS = [genai.Tokenizer(TARGET).encode(text).input_ids.data[0].tolist() for text in TEXTS]


def ranks_and_rows():
    """Return for each prompt the likeliest tokens behind each prefix, and the table (prompts, nodes, ranks)."""
    request = ov.Core().compile_model(f"{TARGET}/openvino_model.xml", "CPU", EXACT).create_infer_request()
    ranks, table = [], np.zeros((len(PROMPTS), sum((TOP_K + 1) ** depth for depth in range(DEPTH)), TOP_K + 1))
    table[..., 0] = 1.0  # behind an excluded token
    for rows, prompt in zip(table, PROMPTS, strict=True):
        ranks.append({})
        for path in (path for depth in range(DEPTH) for path in product(range(TOP_K), repeat=depth)):
            node, text = 0, ()
            for rank in path:
                node, text = node * (TOP_K + 1) + rank + 1, (*text, ranks[-1][text][rank])
            ids = np.array([[*prompt, *text]])
            places = {"attention_mask": np.ones_like(ids), "position_ids": np.arange(ids.size)[None]}
            request.reset_state()
            request.infer({"input_ids": ids, "beam_idx": np.zeros(1, np.int32), **places})
            logits = request.get_tensor("logits").data[0, -1].astype(float)
            best = np.argsort(-logits)[:TOP_K]
            weights = np.exp(logits[best] - logits[best[0]])
            rows[node], ranks[-1][text] = [*weights / weights.sum(), 0.0], best.tolist()
    return ranks, table


RANKS, TABLE = ranks_and_rows()
TABLES = {"target": TABLE, "draft": TABLE, "prompts": PROMPTS}


def engine(drafts, prefix_caching):
    def sample(prompts, n, seed):
        if not hasattr(sample, "pipe"):
            scheduler, models = genai.SchedulerConfig(), {}
            scheduler.cache_size, scheduler.enable_prefix_caching = 1, prefix_caching
            if drafts:
                models = {"draft_model": genai.draft_model(DRAFT, "CPU", **EXACT)}
            sample.pipe = genai.ContinuousBatchingPipeline(TARGET, scheduler, "CPU", EXACT | models)
        config = {"do_sample": True, "temperature": 1.0, "top_k": TOP_K, "max_new_tokens": DEPTH, "ignore_eos": True}
        config |= {"num_assistant_tokens": DRAFTS} if drafts else {}
        seeds = np.random.default_rng(seed).integers(2**31, size=(len(prompts), n)).tolist()
        found = []
        for prompt, ranks, own in zip(prompts, RANKS, seeds, strict=True):
            configs = [genai.GenerationConfig(rng_seed=one, **config) for one in own]
            made = sample.pipe.generate([ov.Tensor(np.array([prompt]))] * n, configs)
            found.append([ranked(ranks, one.m_generation_ids[0]) for one in made])
        return found

    return sample


def ranked(ranks, text):
    told = [ranks.get(tuple(text[:place]), []) for place in range(len(text))]
    return [best.index(token) if token in best else TOP_K for best, token in zip(told, text, strict=True)]


drafted, drafted_cached = engine(True, False), engine(True, True)
alone, alone_cached = engine(False, False), engine(False, True)
CALLS = {
    "drafted": ("ContinuousBatchingPipeline, draft_model, top_k=3", {}),
    "drafted_cached": ("ContinuousBatchingPipeline, draft_model, top_k=3, prefix caching", {}),
    "alone": ("ContinuousBatchingPipeline, no drafts, top_k=3", {}),
    "alone_cached": ("ContinuousBatchingPipeline, no drafts, top_k=3, prefix caching", {}),
}
