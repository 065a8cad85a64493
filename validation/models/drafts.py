"""Draft models that lean on a target model: an early exit, and a small model stored in 4 bits.

A folder holds ``config.json``, that of a plain Llama model, and ``model.safetensors``. The key ``draft`` of config.json
says what the weights are, and names the target model, whose tokenizer the draft uses: ``"smollm2"``, or a model folder
beside the draft's, such as ``"../large"``.

=========  =============================================================================================================
``kind``   ``model.safetensors``
=========  =============================================================================================================
``exit``   ``exit.weight`` (H, H) float16, the fitted map W. The draft is the target's first n blocks and final norm;
           its head is E W with the target's head E, so the logits are E W norm(h_n). ``mark`` in ``draft`` is the
           fingerprint of the target's weights that it uses, and a target with another one is refused.
``int4``   every matrix in 4 bits: two weights a byte, and in ``NAME.scale`` one float16 number for 32 weights of a row;
           every vector in float32
=========  =============================================================================================================

Loading gives a plain Llama model in either case.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from validation.errors import UserError
from validation.models import smollm2
from validation.models.aligned import BASE_FOLDER

if TYPE_CHECKING:
    import torch

EXIT, INT4 = "exit", "int4"
KEY, WEIGHTS, SCALE = "draft", "model.safetensors", ".scale"
BLOCK, LEVELS = 32, 7  # weights of a scale; a weight is -7, ..., 7 times it


def settings(folder: Path) -> dict[str, Any] | None:
    """Return what config.json says about such a draft; None if the folder holds another model or a faulty file."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    told = found.get(KEY) if isinstance(found, dict) else None
    return told if isinstance(told, dict) else None


def target_name(folder: Path) -> str:
    """Return the name or the folder of the draft's target model.

    Raises
    ------
    UserError
        config.json names neither ``smollm2`` nor a whole model's folder beside the draft's.
    """
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


def fingerprint(target: Any, layers: int) -> str:
    """Return the SHA-256 of a target model's weights that an early exit uses, by their values in float32.

    Parameters
    ----------
    target : transformers model
        Llama-style.
    layers : int
        Number of its first blocks.
    """
    digest = hashlib.sha256()
    kept = {f"model.layers.{i}." for i in range(layers)} | {"model.embed_tokens.", "model.norm.", "lm_head."}
    for name, weights in sorted(target.state_dict().items()):
        if any(name.startswith(start) for start in kept):
            digest.update(f"{name} {tuple(weights.shape)}".encode())
            digest.update(weights.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def cut(target: Any, layers: int, weights: torch.Tensor) -> Any:
    """Turn a target model into its early exit, in place, and return it.

    Parameters
    ----------
    target : transformers model
        Llama-style.
    layers : int
        n, at least 1 and fewer than the target has.
    weights : torch.Tensor, shape (H, H)
        W.

    Raises
    ------
    UserError
        The target is not Llama-style, has too few blocks, or another hidden size than W.
    """
    import torch

    config = target.config
    size, blocks = config.hidden_size, config.num_hidden_layers
    if config.model_type != "llama" or not 0 < layers < blocks or tuple(weights.shape) != (size, size):
        raise UserError(
            f"An early exit behind {layers} blocks with a map of shape {tuple(weights.shape)} does not fit a target of "
            f"type {config.model_type!r} with {blocks} blocks and the hidden size {size}; give its own target model."
        )
    head = target.get_output_embeddings().weight.detach()
    target.model.layers = target.model.layers[:layers]
    target.lm_head = torch.nn.Linear(size, head.shape[0], bias=False, dtype=head.dtype, device=head.device)
    with torch.no_grad():
        target.lm_head.weight.copy_(head.float() @ weights.to(head.device).float())
    config.num_hidden_layers, config.tie_word_embeddings = layers, False
    return target


def pack(model: Any) -> dict[str, torch.Tensor]:
    """Return a model's weights in 4 bits.

    Parameters
    ----------
    model : transformers model
        Its matrices have rows of even length. A tied head is left out.

    Returns
    -------
    dict of torch.Tensor
        Of a matrix (m, n): uint8 (m, n / 2), the weights 2i and 2i + 1 in the low and the high half of byte i, and
        float16 (m, ⌈n / 32⌉), the largest weight of each block of 32 over 7. Vectors stay in float32.
    """
    import torch

    found = {}
    for name, weights in model.named_parameters():  # a tied head is named once
        values = weights.detach().float()
        if values.ndim != 2:
            found[name] = values.contiguous()
            continue
        scale = torch.stack([block.abs().amax(dim=1) for block in values.split(BLOCK, dim=1)], dim=1) / LEVELS
        scale = scale.clamp_min(2.0**-24).half()
        steps = (values / _each(scale, values.shape[1])).round().clamp(-LEVELS, LEVELS).to(torch.uint8) & 15
        found[name] = steps[:, ::2] | steps[:, 1::2] << 4
        found[name + SCALE] = scale
    return found


def unpack(stored: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights in float32 from what :func:`pack` returned."""
    import torch

    found = {}
    for name, values in stored.items():
        if name + SCALE in stored:
            steps = torch.stack([values & 15, values >> 4], dim=2).flatten(1).to(torch.int8)
            steps = torch.where(steps > LEVELS, steps - 16, steps)
            found[name] = steps.float() * _each(stored[name + SCALE], steps.shape[1])
        elif not name.endswith(SCALE):
            found[name] = values.float()
    return found


def _each(scale: torch.Tensor, width: int) -> torch.Tensor:
    """Return the scale of each weight of a row, in float32."""
    return scale.float().repeat_interleave(BLOCK, dim=1)[:, :width]


def save(folder: Path, config: Any, stored: dict[str, torch.Tensor], told: dict[str, Any]) -> int:
    """Write a draft's folder, and return the bytes of its weights.

    Parameters
    ----------
    folder : Path
        Created if missing.
    config : transformers configuration
        Of the model that loading gives.
    stored : dict of torch.Tensor
        The weights, as in the table of the module.
    told : dict
        ``kind``, ``target`` and, for an early exit, ``mark``.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: values.contiguous() for name, values in stored.items()}, folder / WEIGHTS)
    known = {
        key: value for key, value in config.to_dict().items() if key not in ("quantization_config", "_name_or_path")
    }
    known |= {"architectures": ["LlamaForCausalLM"], "dtype": "float32", KEY: told}
    (folder / "config.json").write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return (folder / WEIGHTS).stat().st_size


def read(folder: Path, config: Any, load_target: Callable[[], Any], dtype: str) -> Any:
    """Return the model of a draft's folder.

    Parameters
    ----------
    folder : Path
    config : transformers configuration
        Of the draft's own config.json.
    load_target : callable
        Returns the target model in float32. It is called for an early exit alone, which changes that model.
    dtype : str
        As in ``load_pair``; ``"auto"`` is float32.

    Raises
    ------
    UserError
        Damaged or missing weights, or a target model that is not the one of the early exit.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    told = settings(folder) or {}
    kind = told.get("kind")
    if kind not in (EXIT, INT4):
        raise UserError(f"config.json of {str(folder)!r} names the kind {kind!r}; {EXIT} or {INT4} is needed.")
    try:
        stored = load_file(folder / WEIGHTS)
        model: Any = _whole(config, unpack(stored)) if kind == INT4 else None
        weights = stored["exit.weight"] if kind == EXIT else None
    except (SafetensorError, OSError, KeyError, RuntimeError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"{WEIGHTS} of {str(folder)!r} is damaged ({first:.120}); restore it.") from error
    if weights is not None:
        model = load_target()
        found = fingerprint(model, config.num_hidden_layers)
        if found != told.get("mark"):
            raise UserError(
                f"The early exit {str(folder)!r} was fitted to a target model with the fingerprint "
                f"{str(told.get('mark'))[:12]}, but {told.get('target')} has {found[:12]}; use that target model, or "
                "fit it again."
            )
        model = cut(model, config.num_hidden_layers, weights)
    return model.to(torch.float32 if dtype == "auto" else getattr(torch, dtype))


def _whole(config: Any, weights: dict[str, torch.Tensor]) -> Any:
    """Return a Llama model with these weights; a tied head may be left out."""
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM(config)
    left = set(model.load_state_dict(weights, strict=False).missing_keys)
    if left - ({"lm_head.weight"} if config.tie_word_embeddings else set()):
        raise KeyError(min(left))
    model.tie_weights()
    return model
