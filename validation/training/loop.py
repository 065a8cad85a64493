"""Train a model with two optimizers, one schedule and checkpoints, and compute its held-out metrics."""

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from validation.errors import UserError
from validation.training.recipes import SEED, Course
from validation.training.texts import blocks

CHECKPOINT_STEPS = 200
Documents = list[np.ndarray]
Loss = Callable[[Any, torch.Tensor], torch.Tensor]
"""Function that returns the loss of a model on rows of context + 1 tokens."""


def text_loss(model: Any, rows: torch.Tensor) -> torch.Tensor:
    """Return the mean negative log-likelihood of the text, in nats per token."""
    return cross_entropy(logits_of(model, rows[:, :-1]), rows)


def logits_of(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Return a model's logits in float32, computed in bf16."""
    with torch.autocast(ids.device.type, torch.bfloat16):
        logits: torch.Tensor = model(ids).logits
    return logits.float()


def cross_entropy(logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


def _optimizers(model: Any, course: Course) -> list[torch.optim.Optimizer]:
    free = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    matrices = [p for n, p in free if p.ndim == 2 and "embed" not in n and "lm_head" not in n]
    ids = {id(p) for p in matrices}
    others = [p for _, p in free if id(p) not in ids]
    found: list[torch.optim.Optimizer] = []
    if matrices:
        found.append(torch.optim.Muon(matrices, lr=course.matrix_rate, weight_decay=0.02, momentum=0.95))
    if others:
        found.append(torch.optim.AdamW(others, lr=course.other_rate, weight_decay=0.01, betas=(0.9, 0.95)))
    return found


def _schedule(step: int, steps: int, warm_up: float) -> float:
    """Return the learning-rate factor: linear warm-up, then constant, then linear decay to zero over the last 45%."""
    warm, cool = max(1, int(steps * warm_up)), max(1, int(steps * 0.45))
    return min(1.0, (step + 1) / warm, max(0.0, (steps - step) / cool))


def step_count(model: Any, course: Course, taught: Documents) -> int:
    count = sum(map(len, taught))
    width: int = model.config.max_position_embeddings + 1
    if count < width:
        raise UserError(f"The texts have {count} tokens, fewer than one row of {width}; give more text.")
    return math.ceil(course.epochs * count / (course.batch * width))


def fit(
    model: Any,
    course: Course,
    taught: Documents,
    checkpoint: Path,
    *,
    loss: Loss = text_loss,
    every: int = CHECKPOINT_STEPS,
    check: Callable[[], object] = lambda: "",
) -> float:
    """Train a model in place; a run resumed from ``checkpoint`` gives the result of an uninterrupted run."""
    steps, context = step_count(model, course, taught), model.config.max_position_embeddings
    optimizers = _optimizers(model, course)
    groups = [group for o in optimizers for group in o.param_groups]
    rates = [group["lr"] for group in groups]
    state: dict[str, Any] = torch.load(checkpoint, weights_only=True) if checkpoint.exists() else {}
    if state:
        if state.get("course") != asdict(course):
            raise UserError(
                f"{checkpoint} is a checkpoint of another recipe; remove it, or give another --work folder."
            )
        model.load_state_dict(state["weights"])
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
    start, spent = int(state.get("step", 0)), float(state.get("cpu_seconds", 0.0))
    groups = [group for o in optimizers for group in o.param_groups]  # loading a checkpoint creates new groups
    began, running, epoch = time.process_time(), 0.0, -1
    rows_per_epoch = sum(map(len, taught)) // (context + 1)
    for step in range(start, steps):
        first = step * course.batch
        if first // rows_per_epoch != epoch:
            epoch = first // rows_per_epoch
            rows = blocks(taught, np.random.default_rng([SEED, epoch]), context)
        local = (first % rows_per_epoch + np.arange(course.batch)) % rows_per_epoch
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate * _schedule(step, steps, course.warm_up)
        value = loss(model, torch.from_numpy(rows[local]).to(next(model.parameters()).device))
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        running = value.item() if step == start else 0.98 * running + 0.02 * value.item()
        now = time.process_time() - began
        if (step + 1) % every == 0 or step + 1 == steps:
            state = {"weights": model.state_dict(), "optimizers": [one.state_dict() for one in optimizers]}
            state |= {"course": asdict(course), "step": step + 1, "cpu_seconds": spent + now}
            checkpoint.parent.mkdir(parents=True, exist_ok=True)
            torch.save(state, checkpoint.with_suffix(".tmp"))
            os.replace(checkpoint.with_suffix(".tmp"), checkpoint)  # a killed run leaves the previous checkpoint
            print(f"{checkpoint.stem} {step + 1}/{steps} loss {running:.3f} {check()}", flush=True)
    return spent + time.process_time() - began


def course_record(model: Any, course: Course, taught: Documents, seconds: float) -> dict[str, Any]:
    steps, context = step_count(model, course, taught), model.config.max_position_embeddings
    return {
        "parameters": sum(weights.numel() for weights in model.parameters()),
        "vocabulary": model.config.vocab_size,
        "context": context,
        "seed": SEED,
        "steps": steps,
        "tokens": steps * course.batch * context,
        "epochs": course.epochs,
        "cpu_seconds": round(seconds),
    }


def write_record(folder: Path, record: dict[str, Any], name: str = "training.json") -> None:
    (folder / name).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def held_out_loss(model: Any, documents: Documents, limit: int = 200) -> tuple[float, int]:
    """Return the mean negative log-likelihood in nats per token and the token count; each document is scored alone."""
    total, count = 0.0, 0
    model.eval()
    for document in documents[:limit]:
        ids = torch.from_numpy(document[: model.config.max_position_embeddings])[None].to(model.device)
        with torch.no_grad():
            loss = cross_entropy(logits_of(model, ids)[:, :-1], ids)
        total += loss.item() * (ids.shape[1] - 1)
        count += ids.shape[1] - 1
    model.train()
    return total / count, count


def held_out_acceptance(draft_model: Any, target_model: Any, documents: Documents, limit: int = 40) -> float:
    """Return the mean of 1 - TV(q, p), the expected acceptance rate, over the positions of held-out texts."""
    total, count = 0.0, 0
    modes = draft_model.training, target_model.training
    draft_model.eval(), target_model.eval()
    for document in documents[:limit]:
        ids = torch.from_numpy(document[: draft_model.config.max_position_embeddings])[None].to(draft_model.device)
        with torch.no_grad():
            draft, target = (model(ids).logits.float().softmax(dim=-1) for model in (draft_model, target_model))
        total += torch.minimum(draft, target).sum().item()
        count += ids.shape[1]
    draft_model.train(modes[0]), target_model.train(modes[1])
    return total / count
