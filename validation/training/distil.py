"""Distil the target model's distributions into a draft model, on texts that both models were trained on.

The loss of a position is KL(p ‖ q) (arXiv:1503.02531). By Pinsker's inequality it bounds the acceptance rate:
1 - TV ≥ 1 - √(KL/2).
"""

from typing import Any

import torch

from validation.training.loop import Loss, logits_of


def divergence(teacher_logits: torch.Tensor, logits: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """Return the mean KL(p_T ‖ q_T) over all positions, in nats, from logits (..., V)."""
    target, draft = ((rows / temperature).log_softmax(dim=-1).flatten(0, -2) for rows in (teacher_logits, logits))
    return torch.nn.functional.kl_div(draft, target, log_target=True, reduction="batchmean")


def distillation_loss(teacher: Any) -> Loss:
    """Return the draft model's loss with the target model as teacher, for :func:`validation.training.loop.fit`."""

    def loss(model: Any, rows: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            target = logits_of(teacher, rows[:, :-1])
        return divergence(target, logits_of(model, rows[:, :-1]))

    return loss
