"""Four packages that others wrote, tested with the fixture ``keeps_law`` of the plugin.

``outcomes.json`` has the outcome of each, with the versions and the day. Two fail and one is undecided; that is the result.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_models import PROMPTS, write_tiny_models

from validation.audit import ModelLaw, Processors, TableLaw

P = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])
"""The target's row after each token."""
Q = np.array([[0.2, 0.4, 0.4], [0.5, 0.2, 0.3], [0.2, 0.6, 0.2]])
"""The draft's."""
DEPTH = 3


def tree(rows, cut=lambda row: row):
    """Return the rows after all prefixes of at most two tokens, behind token 0."""
    last = [0, *range(3), *[token for _ in range(3) for token in range(3)]]
    return np.stack([cut(rows[token]) for token in last])


TARGET, DRAFT = TableLaw(tree(P)), TableLaw(tree(Q))


class Toy:
    """A model of torch whose next token depends on the last one."""

    config = SimpleNamespace(eos_token_id=-1)

    def __init__(self, rows, pair=False):
        self.logits, self.pair = torch.tensor(rows).log(), pair

    def __call__(self, ids):
        """Return logits (1, L, V), as transformers does or as a pair with a cache."""
        logits = self.logits[ids]
        return (logits, None) if self.pair else SimpleNamespace(logits=logits)


def rounds(step):
    """Return a sampler that makes each continuation by rounds of ``step(ids)``, which returns the longer ids."""

    def sample(prompts, n, seed):
        torch.manual_seed(seed)
        return [[one_text(step, prompt) for _ in range(n)] for prompt in prompts]

    return sample


def one_text(step, prompt):
    """Return one continuation."""
    ids = torch.tensor([prompt])
    while ids.shape[1] < len(prompt) + DEPTH:
        ids = step(ids)
    return ids[0, len(prompt) : len(prompt) + DEPTH].tolist()


def test_mini_infer_speculative_step(keeps_law):
    from mini_infer.speculative.verifier import speculative_step

    def step(ids):
        new, _ = speculative_step(Toy(P, pair=True), Toy(Q, pair=True), ids, k_draft=3, temperature=1.0)
        return torch.cat([ids, torch.tensor([new])], dim=1)

    keeps_law(rounds(step), TARGET, depth=DEPTH, within=0.05, draws=60_000, draft=DRAFT)


@pytest.mark.parametrize("name", ["standard_sd.standard_speculative_step", "capped_hsd.capped_hsd_step"])
def test_sequential_speculative_decoding(keeps_law, name):
    from importlib import import_module

    module, function = name.split(".")
    run = getattr(import_module(f"seqspecdecod.{module}"), function)

    def step(ids):
        return run(Toy(Q), Toy(P), ids, gamma=2, draft_temperature=1.0, target_temperature=1.0)[0]

    keeps_law(rounds(step), TARGET, depth=DEPTH, within=0.05, draws=60_000, draft=DRAFT)


@pytest.mark.parametrize("name", ["MinPSampler", "TopPSampler"])
def test_llm_samplers(keeps_law, name):
    import llm_samplers

    sampler = {"MinPSampler": lambda: llm_samplers.MinPSampler(0.5), "TopPSampler": lambda: llm_samplers.TopPSampler(0.6)}
    made = sampler[name]()
    processors = Processors(min_p=0.5) if name == "MinPSampler" else Processors(top_p=0.6)

    def sample(prompts, n, seed):
        torch.manual_seed(seed)
        return [
            made.sample(Toy(P), torch.tensor([prompt] * n), max_length=DEPTH)[:, len(prompt) :].tolist()
            for prompt in prompts
        ]

    keeps_law(sample, TableLaw(tree(P), processors=processors), depth=DEPTH, within=0.05, draws=60_000)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The tiny target and draft of ``../audit_software``, V = 64, with the prompts."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path_factory.mktemp("tiny")
    write_tiny_models(folder)
    target, draft = (AutoModelForCausalLM.from_pretrained(folder / name).eval() for name in ("target", "draft"))
    draft.generation_config.num_assistant_tokens = 3
    draft.generation_config.num_assistant_tokens_schedule = "constant"
    draft.generation_config.assistant_confidence_threshold = 0.0
    tokenizer = AutoTokenizer.from_pretrained(folder / "target")
    return target, draft, [tokenizer(text).input_ids for text in PROMPTS]


def test_transformers_assisted_generation(keeps_law, tiny):
    target, draft, prompts = tiny

    def sample(prompts, n, seed):
        torch.manual_seed(seed)
        given = {"do_sample": True, "top_k": 0, "max_new_tokens": DEPTH, "assistant_model": draft}
        found = []
        for prompt in prompts:
            ids = torch.tensor([prompt])
            texts = [target.generate(ids, attention_mask=torch.ones_like(ids), **given) for _ in range(n)]
            found.append([text[0, len(prompt) :].tolist() for text in texts])
        return found

    law, known = (ModelLaw(model, prompts, Processors()) for model in (target, draft))
    keeps_law(sample, law, depth=DEPTH, within=0.05, draws=1_000, draft=known)
