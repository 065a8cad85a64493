"""Train Medusa's heads or EAGLE's layer on a frozen base model.

Medusa (cai2024medusa (2)): cross-entropy of head k with the token k + 1 places on, weighted by 0.8^k. EAGLE
(li2024eagle (5)): smooth L1 distance of the predicted hidden state, plus its distribution's cross-entropy.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from validation.models.heads import EAGLE, MEDUSA, build_heads, save_heads
from validation.training.loop import Documents, Loss, course_record, fit, step_count, write_record
from validation.training.recipes import SEED, Course
from validation.training.texts import LIBRARIES, tokens

BEST = 8
"""Of how many likeliest tokens of each head the share of hits is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadCourse(Course):
    """Training settings of the heads."""

    heads: int = 1
    decay: float = 0.8  # λ of Medusa: weight λ^k of head k
    divergence_weight: float = 1.0  # w_cls of EAGLE, 0.1 as printed
    noise: float = 0.1  # width of the uniform noise on the states, half to each side


COURSES = {
    MEDUSA: HeadCourse(matrix_rate=0.01, other_rate=1e-3, epochs=0.059, batch=1, warm_up=0.05, heads=4),
    EAGLE: HeadCourse(matrix_rate=0.01, other_rate=1e-3, epochs=0.059, batch=1, warm_up=0.05),
}


def base_states(base: Any, ids: torch.Tensor) -> torch.Tensor:
    """Return the base model's last hidden states (b, m, H) in float32, computed in bf16."""
    with torch.no_grad(), torch.autocast(ids.device.type, torch.bfloat16):
        states: torch.Tensor = base.model(ids).last_hidden_state
    return states.float()


def medusa_loss(base: Any, course: HeadCourse) -> Loss:
    """Return Σ_k λ^k CE(head k at t, x_{t+1+k}) over the mean of the positions, for ``fit``."""

    def loss(part: Any, rows: torch.Tensor) -> torch.Tensor:
        states = base_states(base, rows[:, :-1])
        total = torch.zeros(())
        for k, head in enumerate(part.heads, 1):
            with torch.autocast(rows.device.type, torch.bfloat16):
                logits = head(states[:, : states.shape[1] - k])
            following = rows[:, 1 + k :]
            value = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), following.flatten())
            total = total + course.decay**k * value
        return total

    return loss


def eagle_loss(base: Any, course: HeadCourse) -> Loss:
    """Return smooth L1 of the hidden states plus the weighted cross-entropy with the base model's law, for ``fit``."""

    def loss(part: Any, rows: torch.Tensor) -> torch.Tensor:
        states = base_states(base, rows[:, :-1])
        read, wanted = states[:, :-1], states[:, 1:]
        if part.training:
            read = read + course.noise * (torch.rand_like(read) - 0.5)
        with torch.no_grad(), torch.autocast(rows.device.type, torch.bfloat16):
            law = base.lm_head(wanted).float().softmax(dim=-1)
        with torch.autocast(rows.device.type, torch.bfloat16):
            found = part(rows[:, 1:-1], read)
        distance = torch.nn.functional.smooth_l1_loss(found.hidden_states[0].float(), wanted)
        entropy = -(law * found.logits.float().log_softmax(dim=-1)).sum(dim=-1).mean()
        return distance + course.divergence_weight * entropy

    return loss


def hits(kind: str, part: Any, base: Any, documents: Documents, limit: int = 20) -> list[list[float]]:
    """Return, for each head, how often its i-th likeliest token is the base model's own choice, i up to ``BEST``."""
    found: list[Any] = []
    part.eval()
    for document in documents[:limit]:
        ids = torch.from_numpy(document[: base.config.max_position_embeddings])[None].to(base.device)
        with torch.no_grad():
            states = base_states(base, ids)
            right = base.lm_head(states.to(base.dtype)).argmax(dim=-1)[0]
            if kind == MEDUSA:
                guesses = [head(states)[0].topk(BEST).indices for head in part.heads]
            else:
                guesses = [part(ids[:, 1:], states[:, :-1]).logits[0].topk(BEST).indices]
        for k, tokens_of_head in enumerate(guesses, 1):
            count = len(right) - k
            if len(found) < k:
                found.append([])
            found[k - 1].append((tokens_of_head[:count] == right[k:, None]).float())
    part.train()
    return [torch.cat(one).mean(dim=0).tolist() for one in found]


def train_heads(kind: str, course: HeadCourse, data: Path, base_folder: Path, out: Path, checkpoint: Path) -> None:
    """Train a part and write its weights, settings and training record to a folder."""
    torch.manual_seed(SEED)
    tokenizer = AutoTokenizer.from_pretrained(base_folder)
    documents, held = LIBRARIES["plain"].corpus(data)
    taught = tokens(tokenizer, documents)
    tested = {name: tokens(tokenizer, texts[:20]) for name, texts in held.items()}
    base = AutoModelForCausalLM.from_pretrained(base_folder, dtype=torch.float32).eval().requires_grad_(False)
    part = build_heads(kind, base.config, course.heads)
    part.start_from(base)
    count = sum(p.numel() for p in part.parameters())
    print(f"{count:,} parameters, {step_count(part, course, taught)} steps", flush=True)
    make = medusa_loss if kind == MEDUSA else eagle_loss
    seconds = fit(part, course, taught, checkpoint, loss=make(base, course), every=50)
    shares = {name: hits(kind, part, base, texts) for name, texts in tested.items()}
    calibration = hits(kind, part, base, taught[:60], 60)  # training texts: a tree is chosen without held-out ones
    size = save_heads(part, out, kind, base, hits=[[round(v, 5) for v in one] for one in calibration])
    record = {
        "kind": kind,
        **course_record(part, course, taught, seconds),
        "bytes": size,
        "course": asdict(course),
        "held_out_hits": {n: [[round(v, 4) for v in one] for one in table] for n, table in shares.items()},
    }
    write_record(out, record)
