"""A small draft model that is stored in 4 bits and uses its target model's tokenizer.

A folder holds ``config.json`` of a plain Llama model, whose key ``draft`` names the kind ``int4`` and the target model,
and ``model.safetensors``: matrices with two weights a byte and, in ``NAME.scale``, a float16 number for 32 weights of a
row; vectors in float32. Loading gives a plain Llama model.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from validation.errors import UserError, first_line
from validation.models import smollm2
from validation.models.aligned import BASE_FOLDER, json_object

if TYPE_CHECKING:
    import torch

INT4 = "int4"
KEY, WEIGHTS, SCALE = "draft", "model.safetensors", ".scale"
BLOCK, LEVELS = 32, 7  # weights of a scale; a weight is -7, ..., 7 times it


def settings(folder: Path) -> dict[str, Any] | None:
    """Return what config.json says about such a draft; None if the folder holds another model or a faulty file."""
    told = (json_object(folder / "config.json") or {}).get(KEY)
    return told if isinstance(told, dict) else None


def target_name(folder: Path) -> str:
    named = (settings(folder) or {}).get("target")
    if named == smollm2.NAME:
        return smollm2.NAME
    if not isinstance(named, str) or not BASE_FOLDER.fullmatch(named):
        raise UserError(
            f"config.json of {str(folder)!r} names the target model {named!r}; {smollm2.NAME}, or a folder beside it "
            "such as ../large, is needed."
        )
    found = folder.resolve().parent / named.removeprefix("../")
    if not (found / "config.json").is_file() or settings(found) is not None:
        raise UserError(f"The target model of {str(folder)!r} is missing: {named} beside it holds no whole model.")
    return str(found)


def unpack(stored: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights in float32 of what is stored in 4 bits."""
    import torch

    found = {}
    for name, values in stored.items():
        if name + SCALE in stored:
            steps = torch.stack([values & 15, values >> 4], dim=2).flatten(1).to(torch.int8)
            steps = torch.where(steps > LEVELS, steps - 16, steps)
            scale = stored[name + SCALE].float().repeat_interleave(BLOCK, dim=1)
            found[name] = steps.float() * scale[:, : steps.shape[1]]
        elif not name.endswith(SCALE):
            found[name] = values.float()
    return found


def read(folder: Path, config: Any, dtype: str) -> Any:
    """Return the model of a draft's folder, with the configuration of its config.json; the dtype is as in load_pair."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file
    from transformers import LlamaForCausalLM

    if (kind := (settings(folder) or {}).get("kind")) != INT4:
        raise UserError(f"config.json of {str(folder)!r} names the kind {kind!r}; {INT4} is needed.")
    try:
        weights = unpack(load_file(folder / WEIGHTS))
        model = LlamaForCausalLM(config)
        left = set(model.load_state_dict(weights, strict=False).missing_keys)
        if left - ({"lm_head.weight"} if config.tie_word_embeddings else set()):
            raise KeyError(min(left))
    except (SafetensorError, OSError, KeyError, RuntimeError) as error:
        raise UserError(f"{WEIGHTS} of {str(folder)!r} is damaged ({first_line(error):.120}); restore it.") from error
    model.tie_weights()
    return model.to(torch.float32 if dtype == "auto" else getattr(torch, dtype))
