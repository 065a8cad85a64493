"""Load a pair of language models that share a vocabulary: the built-in pair, folders, GGUF files or hub names.

torch and transformers are imported inside the functions, so this module imports quickly.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from validation.errors import UserError
from validation.models import aligned, devices, hub_weights, smollm2
from validation.models import chat as turns
from validation.models.devices import choose_device, memory_errors, require_memory, return_freed_memory, weight_bytes
from validation.models.rounding import SUFFIX, round_weights
from validation.models.sources import PAIRS_FOLDER, ModelSource, quiet

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DTYPES = ("float32", "bfloat16", "float16", "float64")


@dataclass(frozen=True, slots=True)
class PairSource:
    """Locations of the two models of a named pair: folders or hub names, with an optional ``@revision``."""

    draft: str
    target: str
    dtype: str | None = None  # on a CPU; None is float32


TINY_LLAMA = "TinyLlama/TinyLlama-1.1B-intermediate-step-1431k-3T"  # the base model; no paper uses a chat version
LLAMA_68M = "JackFram/llama-68m@0359bbda21c69b1426e785b7f64ba782c3296f31"  # the commit with the safetensors files
PAIRS = {
    # 1.6 M and 10 M parameters, Llama-style, trained on GSM8K, PEPs and English novels; ships with hlm
    "builtin": PairSource(str(PAIRS_FOLDER / "builtin" / "small"), str(PAIRS_FOLDER / "builtin" / "large")),
    # SmolLM2-135M-Instruct and its own weights at 3 bits; run 'python3 hlm setup smollm2' once
    smollm2.NAME: PairSource(f"{smollm2.NAME}@{SUFFIX}", smollm2.NAME),
    # SmolLM2-135M-Instruct and a draft of 9.4 M parameters that ships with hlm; set up as smollm2
    f"{smollm2.NAME}-small": PairSource(str(PAIRS_FOLDER / "smollm2" / "small"), smollm2.NAME),
    # Qwen2.5-Coder-0.5B-Instruct and 1.5B-Instruct, GGUF Q4_K_M: by hub name or --weights FOLDER
    hub_weights.QWEN_CODER: PairSource(hub_weights.QWEN_DRAFT, hub_weights.QWEN_TARGET, dtype="bfloat16"),
    # TinyLlama-1.1B and Llama-2-7B: u-hlm Section IV, cu-hlm Table I; Llama 2 is gated on the hub
    "tinyllama-llama2-7b": PairSource(TINY_LLAMA, "meta-llama/Llama-2-7b-hf"),
    # TinyLlama-1.1B and Llama-2-13B: cu-hlm's main pair; Llama 2 is gated on the hub
    "tinyllama-llama2-13b": PairSource(TINY_LLAMA, "meta-llama/Llama-2-13b-hf"),
    # GPT-Neo 125M and 1.3B: c-sqs, on the One Billion Word benchmark
    "gpt-neo-125m-1.3b": PairSource("EleutherAI/gpt-neo-125m", "EleutherAI/gpt-neo-1.3B"),
    # LLaMA-68M and LLaMA-7B: edge-sd Section IV, the smallest of its three pairs
    "llama-68m-7b": PairSource(LLAMA_68M, "huggyllama/llama-7b"),
}


@dataclass(frozen=True, slots=True)
class Pair:
    name: str
    draft: PreTrainedModel
    target: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    vocabulary: int  # size shared by both models and the tokenizer
    context: int  # in tokens, the smaller of the two models' contexts
    end_tokens: tuple[int, ...]  # any of them ends a sequence
    device: torch.device
    dtype: str
    draft_name: str
    target_name: str
    draft_parameters: int
    target_parameters: int
    notes: tuple[str, ...] = ()
    chat: bool | None = None  # whether prompts are turns by the chat template; None if the tokenizer has none

    def describe(self) -> dict[str, Any]:
        """Return name, sizes and dtype as plain values for manifests and reports; stored keys are small and large."""
        described = {
            "name": self.name,
            "small_name": self.draft_name,
            "large_name": self.target_name,
            "small_parameters": self.draft_parameters,
            "large_parameters": self.target_parameters,
            "vocabulary": self.vocabulary,
            "context": self.context,
        }
        sides = {"small_commit": self.draft, "large_commit": self.target}
        commits = {name: getattr(model.config, "_commit_hash", None) for name, model in sides.items()}
        known = {name: commit for name, commit in commits.items() if commit}
        turned = {} if self.chat is None else {"chat": self.chat}
        return described | known | turned | {"device": str(self.device), "dtype": self.dtype, "notes": list(self.notes)}


def load_pair(
    name: str | None = None,
    *,
    draft: str | Path | None = None,
    target: str | Path | None = None,
    base: str | Path | None = None,
    changed_anchor: bool = False,
    chat: bool = False,
    device: str = "cpu",
    dtype: str | None = None,
    memory: int | None = None,
    weights: Path | None = None,
    report: Callable[[str], None] | None = None,
) -> Pair:
    """Load two models that share a vocabulary: a key of ``PAIRS``, or folders, GGUF files or hub names.

    ``base`` is the base model of a target that is an adapter. ``changed_anchor`` accepts an aligned draft whose target
    has another last block, head or vocabulary. ``dtype`` is by default float32 on the CPU, elsewhere the stored type.
    ``memory`` limits the bytes of both models.
    """
    if dtype is not None and dtype not in DTYPES:
        raise UserError(f"Unknown dtype {dtype!r}; choose one of {', '.join(DTYPES)}.")
    name, draft, target = _resolve(name, draft, target)
    if weights is not None and not (hub_weights.is_hub_file(draft) or hub_weights.is_hub_file(target)):
        raise UserError(f"--weights holds GGUF files of the hub, which {name!r} has not; leave it out.")
    below = "" if base is None else str(base)
    sources = (ModelSource.parse(draft, weights=weights), ModelSource.parse(target, below, weights))
    where = choose_device(device)
    preferred = (PAIRS[name].dtype if name in PAIRS else None) or "float32"
    chosen = dtype or (preferred if where.type == "cpu" else "auto")
    with quiet(), memory_errors():
        tell = report or (lambda text: None)
        tokenizers, sizes = _inspect(sources, chosen, tell)
        if chat:
            turns.require_template(tokenizers[1], target)
        require_memory(sizes[0], sizes[1], where, memory)
        tell(f"loading {target}")
        big = sources[1].load_model(chosen).to(where)
        tell(f"loading {draft}")
        models = [_load_draft(sources, chosen, big).to(where).eval(), big.eval()]
        anchor = anchor_note(models[0], models[1], tokenizers[1], names=(draft, target), accept=changed_anchor)
    return_freed_memory()
    labels = (f"{name}/small", f"{name}/large") if name in PAIRS else (draft, target)
    return _pair_of(name, (models[0], models[1]), tokenizers[1], where, labels, [anchor], chat)


def _pair_of(
    name: str,
    models: tuple[Any, Any],
    tokenizer: Any,
    where: torch.device,
    labels: tuple[str, str],
    notes: list[str],
    chat: bool | None = None,
) -> Pair:
    for model in models:
        devices.multiply_in_float32(model)
    vocabulary = max(tokenizer.get_vocab().values()) + 1
    heads = [_head_note(label, model, vocabulary) for label, model in zip(("draft", "target"), models, strict=True)]
    talks = chat is not None and turns.has_template(tokenizer)
    notes = [*(heads if models[0] is not models[1] else heads[1:]), *notes]
    notes.append(turns.TURNS if chat else turns.PLAIN if talks else "")
    configs = [model.config.get_text_config() for model in models]
    return Pair(
        name=name,
        draft=models[0],
        target=models[1],
        tokenizer=tokenizer,
        vocabulary=vocabulary,
        context=min(getattr(own, "max_position_embeddings", None) or 2048 for own in configs),
        end_tokens=_end_tokens(models[1], tokenizer, vocabulary),
        device=where,
        dtype=str(models[1].dtype).removeprefix("torch."),
        draft_name=labels[0],
        target_name=labels[1],
        draft_parameters=models[0].num_parameters(),
        target_parameters=models[1].num_parameters(),
        notes=tuple(note for note in notes if note),
        chat=chat if talks else None,
    )


def load_single(name: str, *, device: str = "cpu", dtype: str | None = None, chat: bool | None = None) -> Pair:
    """Load one model of a device or a server, as a pair of the model with itself; ``chat`` is that of its prompts."""
    if dtype is not None and dtype not in DTYPES:
        raise UserError(f"Unknown dtype {dtype!r}; choose one of {', '.join(DTYPES)}.")
    source, where = ModelSource.parse(name), choose_device(device)
    with quiet(), memory_errors():
        tokenizer = source.load_tokenizer()
        if chat:
            turns.require_template(tokenizer, name)
        model = source.load_model(dtype or ("float32" if where.type == "cpu" else "auto")).to(where).eval()
    return _pair_of(name, (model, model), tokenizer, where, (name, name), [], chat)


def _resolve(name: str | None, draft: str | Path | None, target: str | Path | None) -> tuple[str, str, str]:
    if (draft is None) != (target is None):
        given, missing = ("draft", "target") if target is None else ("target", "draft")
        raise UserError(f"Only the {given} model was given ({draft or target}); name the {missing} one too.")
    if draft is not None and target is not None:
        if name is not None:
            raise UserError(f"Both the pair {name!r} and two models were given; give one or the other.")
        return _joint_name(Path(draft), Path(target)), str(draft), str(target)
    name = name or "builtin"
    if name not in PAIRS:
        raise UserError(f"Unknown pair {name!r}; choose one of {', '.join(PAIRS)}, or give a draft and a target model.")
    return name, PAIRS[name].draft, PAIRS[name].target


def _joint_name(draft: Path, target: Path) -> str:
    """Return the name of the pair at two locations; ``OUT/small`` and ``OUT/large``, from training, give ``OUT``."""
    folder = draft.parent
    if folder == target.parent and folder.name not in ("", *PAIRS) and (draft.name, target.name) == ("small", "large"):
        return folder.name
    return f"{draft.name} + {target.name}"


def _inspect(
    sources: tuple[ModelSource, ModelSource], dtype: str, tell: Callable[[str], None]
) -> tuple[list[Any], list[int | None]]:
    for source in sources:
        tell(f"looking for {source.name}")
        source.check_folder()
    if _same_weights(*sources):
        return [sources[1].load_tokenizer()] * 2, [weight_bytes(sources[1].load("AutoConfig"), dtype)] * 2
    sizes = [weight_bytes(source.load("AutoConfig"), dtype) for source in sources]
    tokenizers = [source.load_tokenizer() for source in sources]
    same_vocabulary(*tokenizers, names=(sources[0].name, sources[1].name))
    return tokenizers, sizes


def _same_weights(draft: ModelSource, target: ModelSource) -> bool:
    return replace(draft, rounded=False) == target


def _load_draft(sources: tuple[ModelSource, ModelSource], dtype: str, big: Any) -> Any:
    draft, target = sources
    if not _same_weights(draft, target):
        return draft.load_model(dtype)
    model = copy.deepcopy(big)
    if draft.rounded:
        round_weights(model)
    return model


def same_vocabulary(draft: Any, target: Any, *, names: tuple[str, str]) -> None:
    """Compare the tokenizers entry by entry; raise a UserError that names the lowest id that differs."""
    entries = [{index: token for token, index in tokenizer.get_vocab().items()} for tokenizer in (draft, target)]
    if entries[0] == entries[1]:
        return
    first = min(i for i in entries[0].keys() | entries[1].keys() if entries[0].get(i) != entries[1].get(i))
    ours, theirs = (repr(side[first]) if first in side else "missing" for side in entries)
    raise UserError(
        f"The vocabularies differ, first at id {first}: {ours} in {names[0]!r}, {theirs} in {names[1]!r} "
        f"({len(entries[0])} and {len(entries[1])} entries); choose two models of one family, or let "
        "`hlm decode common` draft the tokens that both have."
    )


def _head_note(label: str, model: Any, vocabulary: int) -> str:
    width = model.get_output_embeddings().weight.shape[0]
    if width < vocabulary:
        raise UserError(
            f"The {label} model gives {width} logits, but the tokenizer has {vocabulary} entries; "
            "remove the added tokens from the tokenizer, or choose another model."
        )
    if width == vocabulary:
        return ""
    return f"The {label} model gives {width} logits; the {width - vocabulary} beyond the vocabulary are cut."


def anchor_note(draft: Any, target: Any, tokenizer: Any, *, names: tuple[str, str], accept: bool) -> str:
    """Return the note about an aligned draft whose target changed the anchor; refuse it unless it is accepted."""
    known = getattr(draft.config, "fingerprint", "")
    if not known or getattr(draft.config, "model_type", "") != aligned.MODEL_TYPE:
        return ""
    same = target.config.model_type == "llama" and aligned.fingerprint(target, tokenizer) == known
    if same:
        return ""
    said = (
        f"The target {names[1]!r} changed the last block, the head or the vocabulary that the draft {names[0]!r} was "
        "aligned to, so fewer drafts may be accepted; the output still keeps the target's law"
    )
    if not accept:
        raise UserError(f"{said}. Align a draft to it, or accept the slower one with --changed-anchor.")
    return f"{said}."


def _end_tokens(model: Any, tokenizer: Any, vocabulary: int) -> tuple[int, ...]:
    from transformers import GenerationConfig

    found = model.generation_config.eos_token_id
    model.generation_config = GenerationConfig()
    found = tokenizer.eos_token_id if found is None else found
    ends = () if found is None else tuple(found) if isinstance(found, list | tuple) else (found,)
    for token in ends:
        if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < vocabulary:
            raise UserError(
                f"The eos_token_id of the target model is {found!r}, but the vocabulary has the tokens 0 to "
                f"{vocabulary - 1}; fix it in generation_config.json or config.json."
            )
    return ends
