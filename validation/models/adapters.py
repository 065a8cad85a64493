"""Versions of a target model: adapters of peft over a base model, merged into it.

A version's folder holds ``adapter_config.json`` and ``adapter_model.safetensors``, and no config.json. Weights are read
here; peft reads no file. ``version.json`` may hold ``base_weights`` (:func:`base_mark`) and the ``fingerprint`` of the
merged model (:func:`validation.models.aligned.fingerprint`), which are compared.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from validation.errors import UserError, first_line
from validation.models.aligned import fingerprint, json_object

if TYPE_CHECKING:
    import torch

CONFIG, WEIGHTS, VERSION = "adapter_config.json", "adapter_model.safetensors", "version.json"
TAKEN = (
    *("r", "lora_alpha", "target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"),
    *("rank_pattern", "alpha_pattern", "fan_in_fan_out", "use_rslora", "bias", "modules_to_save"),
)
"""Settings that decide what is merged; any other that is not at its default is refused."""
IGNORED = frozenset(
    (
        *("auto_mapping", "base_model_name_or_path", "inference_mode", "init_lora_weights", "lora_dropout"),
        *("megatron_core", "peft_type", "peft_version", "qalora_group_size", "revision", "runtime_config", "task_type"),
    )
)
"""Settings that matter in training only, or that are checked apart."""
RESIDUAL = re.compile(r"pissa.*|olora|loftq|corda|lora_ga")
"""Initialisations that also change the base model's weights."""


def is_adapter(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and not (folder / "config.json").is_file()


def read_config(folder: Path) -> dict[str, Any]:
    found = _object(folder, CONFIG)
    if (kind := found.get("peft_type")) != "LORA":
        raise UserError(f"The adapter {str(folder)!r} has the type {kind!r}; only LORA adapters are merged.")
    if RESIDUAL.fullmatch(str(found.get("init_lora_weights"))):
        raise UserError(
            f"The adapter {str(folder)!r} was initialised by {found['init_lora_weights']!r}, which changes the base "
            "model too; convert it to a plain LoRA adapter with peft."
        )
    from peft import LoraConfig

    plain = vars(LoraConfig())
    for name, value in found.items():
        if name not in TAKEN and name not in IGNORED and value not in (None, False, {}, plain.get(name)):
            raise UserError(
                f"The adapter {str(folder)!r} sets {name} to {value!r:.40}, which is not merged here; merge it with "
                "peft, and give the merged model."
            )
    return found


def _object(folder: Path, name: str) -> dict[str, Any]:
    if (found := json_object(folder / name)) is None:
        raise UserError(f"{name} of {str(folder)!r} is not a JSON object; save the adapter again.")
    return found


def base_name(folder: Path, base: str = "") -> str:
    """Return where an adapter's base model lies: as given, else as its configuration names it."""
    named = base or _object(folder, CONFIG).get("base_model_name_or_path")
    if not isinstance(named, str) or not named:
        raise UserError(f"{CONFIG} of {str(folder)!r} names no base model; give it with --base.")
    if base:
        return base
    beside = folder.resolve() / named
    found = beside if beside.is_dir() else Path(named)
    if found.is_dir():
        if is_adapter(found):
            raise UserError(f"The base model {named!r} of {str(folder)!r} is an adapter itself; give a whole model.")
        return str(found)
    if not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", named):
        raise UserError(
            f"The adapter {str(folder)!r} was made for the base model {named!r}, and there is no such folder; give the "
            "base model with --base."
        )
    return named


def check_files(folder: Path) -> None:
    """Refuse an adapter whose weights are missing, in another form, in several files, or outside its folder."""
    if not (folder / WEIGHTS).is_file():
        raise UserError(
            f"The adapter {str(folder)!r} has no {WEIGHTS}, and weights in other files or as pickles are never read; "
            "save it again with safe_serialization=True."
        )
    if leads_out(folder, WEIGHTS):
        raise UserError(f"{WEIGHTS} of {str(folder)!r} is a link that leads out of the folder; copy the file there.")


def leads_out(folder: Path, name: str) -> bool:
    home = folder.resolve()
    allowed = [home, home.parent.parent / "blobs"] if home.parent.name == "snapshots" else [home]  # of a hub cache
    return not any((folder / name).resolve().is_relative_to(place) for place in allowed)


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    check_files(folder)
    try:
        found: dict[str, torch.Tensor] = load_file(folder / WEIGHTS)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{WEIGHTS} of {str(folder)!r} is damaged; save the adapter again.") from error
    return found


def merged(base: Any, folder: Path) -> Any:
    """Return the base model with an adapter merged into its weights: W + (α/r) B A. The base model is changed."""
    from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict

    settings, weights = read_config(folder), read_weights(folder)
    wrong = f"The adapter {str(folder)!r} was made for another base model"
    remedy = f"give its own base model ({settings.get('base_model_name_or_path')}) with --base."
    try:
        made = LoraConfig(**{name: settings[name] for name in TAKEN if name in settings}, init_lora_weights=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by names that will change
            model = get_peft_model(base, made)
    except (ValueError, TypeError, KeyError, re.error) as error:
        raise UserError(f"{wrong} ({first_line(error)}); {remedy}") from error
    needed = get_peft_model_state_dict(model, save_embedding_layers=False)  # else peft asks the hub
    for name in sorted(needed.keys() | weights.keys()):
        ours, theirs = (tuple(side[name].shape) if name in side else None for side in (needed, weights))
        if ours != theirs:
            raise UserError(f"{wrong}: {name} has the shape {theirs or 'none'}, and needs {ours or 'none'}; {remedy}")
    set_peft_model_state_dict(model, weights)
    found: Any = model.merge_and_unload()
    return found


def check_marks(folder: Path, base: str, model: Any, tokenizer: Any) -> None:
    """Compare the marks in ``version.json``, where there are any, with the base model and the merged model."""
    if not (folder / VERSION).is_file():
        return
    marks = _object(folder, VERSION)
    told = marks.get("base_weights")
    if told is not None and Path(base).is_dir() and base_mark(Path(base)) != told:
        raise UserError(
            f"The adapter {str(folder)!r} was made for a base model with other weights than {base!r} has; give its own "
            "base model with --base."
        )
    told = marks.get("fingerprint")
    if told is not None and model.config.model_type == "llama" and (found := fingerprint(model, tokenizer)) != told:
        raise UserError(
            f"The adapter {str(folder)!r} on {base!r} gives a model with the fingerprint {found[:12]}, but "
            f"{str(told)[:12]} was trained: the base model is another one; give its own with --base."
        )


def base_mark(folder: Path) -> str:
    """Return the SHA-256 of the names and bytes of a folder's ``*.safetensors`` files."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        digest.update(f"{file.name} {file.stat().st_size}".encode())
        with file.open("rb") as stored:
            hashlib.file_digest(stored, lambda: digest)
    return digest.hexdigest()
