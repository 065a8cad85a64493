"""Distil the target model's distributions into a draft model, on texts that both models were trained on.

The loss of a position is λ T² KL(p_T ‖ q_T) + (1 - λ) (-ln q(next token)), at temperature T (arXiv:1503.02531).
By Pinsker's inequality the KL divergence at T = 1 bounds the acceptance rate: 1 - TV ≥ 1 - √(KL/2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from validation.training.loop import Loss, cross_entropy, logits_of
from validation.training.recipes import Distillation

if TYPE_CHECKING:
    import torch


def divergence(teacher_logits: torch.Tensor, logits: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """Return the mean KL(p_T ‖ q_T) over all positions, in nats, from logits (..., V)."""
    import torch

    target, draft = ((rows / temperature).log_softmax(dim=-1).flatten(0, -2) for rows in (teacher_logits, logits))
    return torch.nn.functional.kl_div(draft, target, log_target=True, reduction="batchmean")


def distillation_loss(teacher: Any, course: Distillation) -> Loss:
    """Return the draft model's loss with the target model as teacher, for :func:`validation.training.loop.fit`."""
    import torch

    def loss(model: Any, rows: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            target = logits_of(teacher, rows[:, :-1])
        logits = logits_of(model, rows[:, :-1])
        soft = course.temperature**2 * divergence(target, logits, course.temperature)
        if course.mixing == 1.0:
            return soft
        return course.mixing * soft + (1.0 - course.mixing) * cross_entropy(logits, rows)

    return loss
