"""Train the aligned draft of flexspec once, with the base model as teacher: Section IV-A, Alg. 1, (4) to (6).

h_t and h_d (ω, π, H) are the hidden states in front of the heads of base model and draft, z_t and z_d (ω, π, V) their
logits; W_p (H, H) projects h_d in training. The paper prints no λ₁, λ₂, 𝒯 or MLP width; those here are ours.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from validation.models.aligned import build_aligned, fingerprint, save_aligned
from validation.training import loop
from validation.training.distil import divergence
from validation.training.recipes import SEED, Course
from validation.training.texts import Library, tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment(Course):
    """Shape of an aligned draft's own part, and the weights of its losses."""

    entry_layers: int
    entry_width: int = 0
    exit_width: int = 0
    own_head: bool = False
    feature_weight: float = 0.003  # λ₁; h_t has a squared norm of some hundreds
    divergence_weight: float = 1.0  # λ₂
    temperature: float = 1.0  # 𝒯


RATES: dict[str, Any] = {"matrix_rate": 0.01, "other_rate": 1e-3, "epochs": 0.157, "batch": 2, "warm_up": 0.03}
ALIGNED = {
    # a trainable block in front of the anchor: what ships, 0.72 M weights of its own
    "entry": Alignment(**RATES, entry_layers=1, entry_width=320),
    # as printed: embeddings, anchor, two-layer MLP, the frozen head
    "printed": Alignment(**RATES, entry_layers=0, exit_width=640),
    # as printed, with a vocabulary projection of its own
    "printed-head": Alignment(**RATES, entry_layers=0, exit_width=640, own_head=True),
}
"""Recipes of the aligned draft by name."""


def alignment_loss(base: Any, course: Alignment) -> loop.Loss:
    """Return the loss λ₁ (5) + λ₂ (6) with the base model as teacher; the draft needs ``feature_projection``, W_p."""

    def loss(model: Any, rows: torch.Tensor) -> torch.Tensor:
        ids = rows[:, :-1]
        with torch.no_grad(), torch.autocast(ids.device.type, torch.bfloat16):
            teacher_states = base.model(ids).last_hidden_state
            teacher_logits = base.lm_head(teacher_states).float()
        with torch.autocast(ids.device.type, torch.bfloat16):
            states = model.model(ids).last_hidden_state
            projected = model.feature_projection(states)
            logits = model.lm_head(states).float()
        feature = (projected.float() - teacher_states.float()).square().sum(dim=-1).mean()  # flexspec (5)
        soft = course.temperature**2 * divergence(teacher_logits, logits, course.temperature)  # flexspec (6)
        return course.divergence_weight * soft + course.feature_weight * feature

    return loss


def add_projection(draft: Any) -> None:
    """Give the draft a learnable W_p, which starts as the identity."""
    size = draft.config.hidden_size
    draft.feature_projection = torch.nn.Linear(size, size, bias=False)
    torch.nn.init.eye_(draft.feature_projection.weight)


def train_aligned(
    course: Alignment, library: Library, data: Path, out: Path, checkpoint: Path, *, start: Path | None = None
) -> None:
    """Train the aligned draft of ``out/large`` by Alg. 1; write its own weights and its record to ``out/aligned``."""
    from safetensors.torch import load_file

    torch.manual_seed(SEED)
    tokenizer = AutoTokenizer.from_pretrained(out / "large")
    documents, held = library.corpus(data)
    taught = tokens(tokenizer, documents)
    tested = {source: tokens(tokenizer, texts) for source, texts in held.items()}
    base = AutoModelForCausalLM.from_pretrained(out / "large", dtype=torch.bfloat16).eval()
    shape = {key: getattr(course, key) for key in ("entry_layers", "entry_width", "exit_width", "own_head")}
    draft = build_aligned(base, **shape)  # Alg. 1, step 1
    if start is not None:
        taught = taught[::-1]  # so that the same shuffle reads other texts first
        draft.load_state_dict(load_file(start / "model.safetensors"), strict=False)
    own = sum(weights.numel() for weights in draft.parameters() if weights.requires_grad)
    add_projection(draft)
    curve: list[dict[str, float]] = []

    def check() -> dict[str, float]:
        curve.append(
            {source: round(loop.held_out_acceptance(draft, base, texts, 4), 4) for source, texts in tested.items()}
        )
        return curve[-1]

    check()
    print(f"{own:,} own parameters, {loop.step_count(draft, course, taught)} steps, before {curve[0]}", flush=True)
    loss = alignment_loss(base, course)
    seconds = loop.fit(
        draft, course, taught, checkpoint, loss=loss, every=loop.CHECKPOINT_STEPS, check=check
    )  # Alg. 1, step 2
    del draft.feature_projection
    size = save_aligned(draft, out / "aligned", base="../large", mark=fingerprint(base, tokenizer))
    tokenizer.save_pretrained(out / "aligned")
    weighing = ("feature_weight", "divergence_weight", "temperature", "matrix_rate", "other_rate")
    record = {
        **loop.course_record(draft, course, taught, seconds),
        "texts": library.name,
        "own_parameters": own,
        "own_bytes": size,
        **{name: getattr(course, name) for name in weighing},
        "acceptance_curve": {"every_steps": loop.CHECKPOINT_STEPS, "points": curve},
        "held_out_acceptance": {s: round(loop.held_out_acceptance(draft, base, t), 4) for s, t in tested.items()},
        "held_out_nats_per_token": {s: round(loop.held_out_loss(draft, t, 40)[0], 4) for s, t in tested.items()},
    }
    if start is not None:
        record["earlier"] = json.loads((start / "training.json").read_text(encoding="utf-8"))
    loop.write_record(out / "aligned", record)
