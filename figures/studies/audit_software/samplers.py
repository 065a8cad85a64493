"""Samplers of other people's software, each as a function ``sample(prompts, n, seed)``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

Sampler = Callable[..., list[list[list[int]]]]
NEW_TOKENS = 5
SETTINGS: dict[str, dict[str, float]] = {
    "temperature 1": {},
    "temperature 0.7": {"temperature": 0.7},
    "top-k 50": {"top_k": 50},
    "top-p 0.9": {"top_p": 0.9},
}


@dataclass(frozen=True)
class Models:
    """A target and its drafts, loaded, with the prompts' token ids."""

    folder: Path
    target: Any
    draft: Any
    tokenizer: Any
    prompts: list[list[int]]
    draft_folder: Path
    other_draft: Any
    other_tokenizer: Any


@dataclass(frozen=True)
class Case:
    """One sampler at one setting, on one pair."""

    package: str
    call: str
    pair: str
    setting: str
    sampler: Sampler
    depth: int = 4
    draws: int = 4_000
    rounding: float = 1e-5
    """Relative rounding of the software's probabilities beside transformers' in float32."""

    @property
    def name(self) -> str:
        return f"{self.package}: {self.call}, {self.setting}, {self.pair} pair"


def version_of(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:  # llama-cpp-python's folder may be on the path without being installed
        if package == "llama-cpp-python" and find_spec("llama_cpp"):
            return str(import_module("llama_cpp").__version__)
        return None


def load_models(target: Path, draft: Path, prompts: tuple[str, ...], other: Path | None) -> Models:
    """Load a pair, with a draft of another tokenizer if there is one."""

    def model(folder: Path) -> Any:
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    tokenizer = AutoTokenizer.from_pretrained(target)
    ids = [tokenizer(text).input_ids for text in prompts]
    strange = (model(other), AutoTokenizer.from_pretrained(other)) if other else (None, None)
    return Models(target, model(target), model(draft), tokenizer, ids, draft, *strange)


def by_call(models: Models, draw: Callable[[torch.Tensor], list[int]]) -> Sampler:
    """Return a sampler that calls ``draw(ids)`` (ids of shape (1, L)) once for each continuation."""

    def sample(prompts: list[list[int]], n: int, seed: int) -> list[list[list[int]]]:
        torch.manual_seed(seed)
        with torch.inference_mode():
            return [[draw(torch.tensor([prompt])) for _ in range(n)] for prompt in prompts]

    return sample


def transformers_cases(models: Models, pair: str, draws: int) -> Iterator[Case]:
    """Yield assisted generation, prompt lookup, and an assistant of another tokenizer."""
    drafts: dict[str, dict[str, Any]] = {
        "generate(assistant_model=...)": {"assistant_model": models.draft},
        "generate(prompt_lookup_num_tokens=3)": {"prompt_lookup_num_tokens": 3},
    }
    if models.other_draft is not None:
        drafts["generate(assistant_model=..., assistant_tokenizer=...)"] = {
            "assistant_model": models.other_draft,
            "tokenizer": models.tokenizer,
            "assistant_tokenizer": models.other_tokenizer,
        }
    for one in (models.draft, models.other_draft):
        if one is not None:  # three drafts in every round, whatever the confidence
            one.generation_config.num_assistant_tokens = 3
            one.generation_config.num_assistant_tokens_schedule = "constant"
            one.generation_config.assistant_confidence_threshold = 0.0
    for call, more in drafts.items():
        for setting, options in SETTINGS.items():
            given = {"do_sample": True, "top_k": 0, "max_new_tokens": NEW_TOKENS, **options, **more}

            def draw(ids: torch.Tensor, given: dict[str, Any] = given) -> list[int]:
                texts = models.target.generate(ids, attention_mask=torch.ones_like(ids), **given)
                return list(texts[0, ids.shape[1] :].tolist())

            yield Case("transformers", call, pair, setting, by_call(models, draw), draws=draws)


def rounds(ids: torch.Tensor, step: Callable[[torch.Tensor], torch.Tensor], end: int | None) -> list[int]:
    """Return a continuation made by rounds of ``step``, cut behind the first end-of-text token."""
    start = ids.shape[1]
    while ids.shape[1] - start < NEW_TOKENS and not (end is not None and end in ids[0, start:].tolist()):
        ids = step(ids)
    tokens: list[int] = ids[0, start:].tolist()
    return tokens[: tokens.index(end) + 1] if end is not None and end in tokens else tokens


def seqspecdecod_cases(models: Models, pair: str, draws: int) -> Iterator[Case]:
    """Yield the three verifiers of sequential-speculative-decoding, one round after another."""
    from seqspecdecod.capped_hsd import capped_hsd_step
    from seqspecdecod.naive_hsd import naive_hsd_step
    from seqspecdecod.standard_sd import standard_speculative_step

    for one in (standard_speculative_step, naive_hsd_step, capped_hsd_step):
        for setting in ("temperature 1", "temperature 0.7"):
            heat = SETTINGS[setting].get("temperature", 1.0)

            def draw(ids: torch.Tensor, one: Any = one, heat: float = heat) -> list[int]:
                def step(ids: torch.Tensor) -> torch.Tensor:
                    return one(
                        models.draft, models.target, ids, gamma=3, draft_temperature=heat, target_temperature=heat
                    )[0]

                return rounds(ids, step, 0)

            yield Case(
                "sequential-speculative-decoding", one.__name__, pair, setting, by_call(models, draw), draws=draws
            )


def flashspec_cases(models: Models, pair: str, draws: int) -> Iterator[Case]:
    """Yield flashspec's engine with one text and with a batch, which take different paths."""
    from flashspec import BanditConfig, FlashSpecConfig, SamplingConfig, SpeculativeEngine
    from flashspec.engine.hf_drafter import HuggingFaceDrafter
    from flashspec.engine.verifier import TargetModel

    for batch, setting in ((1, "temperature 1"), (64, "temperature 1"), (64, "temperature 0.7"), (64, "top-p 0.9")):
        options = SETTINGS[setting]
        heat, share = options.get("temperature", 1.0), options.get("top_p", 1.0)
        drafter = HuggingFaceDrafter(str(models.draft_folder), device="cpu", temperature=heat, model=models.draft)
        target = TargetModel(str(models.folder), device=torch.device("cpu"), dtype=torch.float32, model=models.target)
        config = FlashSpecConfig(
            device="cpu",
            sampling=SamplingConfig(gamma=3, temperature=heat, top_p=share),
            max_new_tokens=NEW_TOKENS,
            bandit=BanditConfig(n_arms=1),
        )
        engine = SpeculativeEngine(config, [drafter], target)

        def sample(
            prompts: list[list[int]], n: int, seed: int, batch: int = batch, engine: Any = engine
        ) -> list[list[list[int]]]:
            torch.manual_seed(seed)
            found = []
            for prompt in prompts:
                texts: list[list[int]] = []
                while len(texts) < n:
                    ids = torch.tensor([prompt]).repeat(min(batch, n - len(texts)), 1)
                    made = engine.generate(ids, max_new_tokens=NEW_TOKENS, eos_token_ids=[0]).output_ids
                    texts += made.tolist()
                found.append(texts)
            return found

        call = "SpeculativeEngine.generate, " + ("one text" if batch == 1 else f"batch of {batch}")
        yield Case("flashspec", call, pair, setting, sample, draws=draws)


def rotalabs_cases(models: Models, pair: str, draws: int) -> Iterator[Case]:
    """Yield rotalabs-accel's exported ``rejection_sample`` for one token; its ``speculative_decode`` raises."""
    from rotalabs_accel.speculative import rejection_sample

    def draw(ids: torch.Tensor) -> list[int]:
        q = models.draft(ids).logits[0, -1].softmax(-1)
        logits = models.target(ids).logits[0, -1]
        token = torch.multinomial(q, 1)[0]
        _, kept = rejection_sample(logits.softmax(-1)[token], q[token], token, logits)
        return [int(kept)]

    yield replace(
        Case("rotalabs-accel", "rejection_sample", pair, "temperature 1", by_call(models, draw), draws=draws), depth=1
    )


def llama_cpp_engine(gguf: Path, **options: Any) -> Any:
    """Return llama-cpp-python's engine of a GGUF file, on one thread, with its cache in float32 as in transformers."""
    from llama_cpp import Llama

    return Llama(
        model_path=str(gguf),
        n_ctx=64,
        n_threads=1,
        n_threads_batch=1,
        type_k=0,
        type_v=0,
        flash_attn=False,
        verbose=False,
        **options,
    )


def llama_cpp_cases(models: Models, pair: str, draws: int, gguf: Path, new_tokens: int = NEW_TOKENS) -> Iterator[Case]:
    """Yield llama-cpp-python with and without its prompt lookup, on the target as a GGUF file."""
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    for lookup in (True, False):
        drafts = LlamaPromptLookupDecoding(num_pred_tokens=3) if lookup else None
        engine = llama_cpp_engine(gguf, logits_all=lookup, draft_model=drafts)
        for setting, options in SETTINGS.items():
            chain = {"temp": options.get("temperature", 1.0), "top_k": int(options.get("top_k", 0)), "min_p": 0.0}
            chain |= {"top_p": options.get("top_p", 1.0), "repeat_penalty": 1.0}

            def sample(
                prompts: list[list[int]], n: int, seed: int, engine: Any = engine, chain: dict[str, Any] = chain
            ) -> list[list[list[int]]]:
                found = []
                seeds = torch.Generator().manual_seed(seed)
                for prompt in prompts:
                    texts = []
                    for _ in range(n):  # each call starts its random numbers from the seed
                        engine.set_seed(int(torch.randint(2**31, (), generator=seeds)))
                        text: list[int] = []
                        for token in engine.generate(prompt, reset=True, **chain):
                            text.append(int(token))
                            if len(text) == new_tokens or token == models.tokenizer.eos_token_id:
                                break
                        texts.append(text)
                    found.append(texts)
                return found

            call = "generate, LlamaPromptLookupDecoding(3)" if lookup else "generate, without drafts"
            yield Case("llama-cpp-python", call, pair, setting, sample, draws=draws, rounding=1e-2)
