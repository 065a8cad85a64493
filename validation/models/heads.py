"""Drafting parts that read a base model's last hidden states: Medusa's heads and EAGLE's layer.

A folder holds ``heads.safetensors`` (bf16) and ``heads.json``: kind, shape, and ``base``, a fingerprint of the base
model that the part was trained for. f_t is the base model's last hidden state at t, in front of its head, and e(x) the
embedding of a token, both (H,); embeddings and head are the base model's.
"""

import copy
import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from validation.errors import UserError
from validation.models.aligned import digest_of, json_object
from validation.provenance import file_digest

WEIGHTS, SETTINGS = "heads.safetensors", "heads.json"
MEDUSA, EAGLE = "medusa", "eagle"


@cache
def classes() -> SimpleNamespace:
    import torch
    from torch import nn
    from transformers.models.llama.modeling_llama import LlamaModel

    class MedusaHead(nn.Module):  # type: ignore[misc]
        """One head: W₂ (f + SiLU(W₁ f)) with W₁ = 0 and W₂ the base model's head at the start (cai2024medusa (1))."""

        def __init__(self, hidden: int, vocabulary: int) -> None:
            super().__init__()
            self.block = nn.Linear(hidden, hidden)
            self.lm_head = nn.Linear(hidden, vocabulary, bias=False)

        def forward(self, features: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.lm_head(features + nn.functional.silu(self.block(features)))
            return found

    class MedusaHeads(nn.Module):  # type: ignore[misc]
        """Heads 1 to K; head k at f_t predicts the token x_{t+1+k}."""

        def __init__(self, config: Any, heads: int) -> None:
            super().__init__()
            self.config = config
            self.heads = nn.ModuleList(MedusaHead(config.hidden_size, config.vocab_size) for _ in range(heads))

        def forward(self, features: torch.Tensor) -> torch.Tensor:
            """Return logits (..., K, V) from hidden states (..., H)."""
            return torch.stack([head(features) for head in self.heads], dim=-2)

        def start_from(self, base: Any) -> None:
            with torch.no_grad():
                for head in self.heads:
                    head.block.weight.zero_()
                    head.block.bias.zero_()
                    head.lm_head.weight.copy_(base.get_output_embeddings().weight)

    class EagleLayer(nn.Module):  # type: ignore[misc]
        """One block that predicts f_{t+1} from f_t and e(x_{t+1}), t up to the present (li2024eagle Section 4.1)."""

        def __init__(self, config: Any) -> None:
            super().__init__()
            own = copy.deepcopy(config)
            own.num_hidden_layers, own.vocab_size = 1, 1  # the embeddings are the base model's
            own.pad_token_id = None
            self.config = config
            self.join = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
            self.block = LlamaModel(own)
            del self.block.embed_tokens
            self._base: list[Any] = []  # not a part of the module

        @property
        def dtype(self) -> torch.dtype:
            return self.join.weight.dtype

        def attach(self, base: Any) -> None:
            self._base = [base]

        def start_from(self, base: Any) -> None:
            """Set the block and the norm to the base model's last ones, and the join to the sum."""
            with torch.no_grad():
                self.block.layers[0].load_state_dict(base.model.layers[-1].state_dict())
                self.block.norm.load_state_dict(base.model.norm.state_dict())
                eye = torch.eye(self.config.hidden_size)
                self.join.weight.copy_(torch.cat([eye, eye], dim=1))
            self.attach(base)

        def forward(self, input_ids: torch.Tensor, previous: torch.Tensor, **options: Any) -> SimpleNamespace:
            """Return logits and the predicted hidden states, from tokens x_{t+1} (b, m) and states f_t (b, m, H)."""
            (base,) = self._base
            options.pop("output_hidden_states", None)
            embedded = base.get_input_embeddings()(input_ids).to(previous.dtype)
            found = self.block(inputs_embeds=self.join(torch.cat([previous, embedded], dim=-1)), **options)
            states = found.last_hidden_state
            head = base.get_output_embeddings().weight
            return SimpleNamespace(logits=nn.functional.linear(states, head.to(states.dtype)), hidden_states=(states,))

    return SimpleNamespace(Medusa=MedusaHeads, Eagle=EagleLayer)


def build_heads(kind: str, config: Any, heads: int = 1) -> Any:
    """Return a part with random weights for a base model with this configuration (of type llama)."""
    if config.model_type != "llama":
        raise UserError(f"The base model has the type {config.model_type!r}; heads need a Llama-style model.")
    return classes().Medusa(config, heads) if kind == MEDUSA else classes().Eagle(config)


def base_mark(base: Any) -> str:
    """Return a fingerprint of all weights of a model, by their values in float32."""
    return str(digest_of(base.state_dict()).hexdigest())[:16]


def save_heads(part: Any, folder: Path, kind: str, base: Any, **more: Any) -> int:
    """Write a part and its settings, and return the bytes of the weights."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.to(torch.bfloat16).contiguous() for name, value in part.state_dict().items()}
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    shape = {"hidden": base.config.hidden_size, "vocabulary": base.config.vocab_size}
    heads = {"heads": len(part.heads)} if kind == MEDUSA else {}
    told = {"kind": kind, "base": base_mark(base), **shape, **heads, **more}
    (folder / SETTINGS).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return (folder / WEIGHTS).stat().st_size


def read_settings(folder: Path, kind: str) -> dict[str, Any]:
    found = json_object(folder / SETTINGS)
    if found is None:
        raise UserError(f"{folder} holds no {SETTINGS} of drafting heads; check the path, or train them.")
    if found.get("kind") != kind:
        raise UserError(f"{folder} holds heads of the kind {found.get('kind')!r}; {kind!r} is needed.")
    if not (folder / WEIGHTS).is_file():
        others = sorted(one.name for one in folder.iterdir() if one.suffix in (".bin", ".pt", ".pth", ".pkl"))
        which = f"; {others[0]} is a pickle, which may run code and is not read" if others else ""
        raise UserError(f"{folder} has no {WEIGHTS}{which}.")
    return found


def weights_mark(folder: Path) -> str:
    return file_digest(folder / WEIGHTS)[:16]


def load_heads(folder: Path, kind: str, base: Any, *, any_base: bool = False) -> Any:
    """Return a part in eval mode and float32, attached to a base model."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    told = read_settings(folder, kind)
    shape = {"hidden": base.config.hidden_size, "vocabulary": base.config.vocab_size}
    for name, value in shape.items():
        if told.get(name) != value:
            raise UserError(f"The heads at {folder} have {name} {told.get(name)}, but the base model has {value}.")
    if not any_base and told.get("base") != base_mark(base):
        raise UserError(
            f"The heads at {folder} were trained for another version of the target model (its fingerprint is "
            f"{told.get('base')}, and this one's is {base_mark(base)}); train them again, or allow any base."
        )
    part = build_heads(kind, base.config, int(told.get("heads", 1)))
    try:
        part.load_state_dict({name: value.float() for name, value in load_file(folder / WEIGHTS).items()})
    except (SafetensorError, RuntimeError) as error:
        raise UserError(f"{folder / WEIGHTS} does not hold the weights of these heads: {error}") from error
    part = part.to(base.device).eval()
    if kind == EAGLE:
        part.attach(base)
    return part
