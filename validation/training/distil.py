"""Distil the target model's distributions into a draft model, on texts that both models were trained on.

The loss of a position is λ T² KL(p_T ‖ q_T) + (1 - λ) (-ln q(next token)), where p_T and q_T are the distributions
of the target and the draft model at temperature T (Hinton et al. 2015, arXiv:1503.02531, Section 2). T² keeps the
gradient's size as T grows. At T = 1 and λ = 1 the loss is the KL divergence. By Pinsker's inequality it bounds the
acceptance rate 1 - TV from below: 1 - TV ≥ 1 - √(KL/2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from validation.training.loop import Loss, cross_entropy, logits_of
from validation.training.recipes import Distillation

if TYPE_CHECKING:
    import torch


def divergence(teacher_logits: torch.Tensor, logits: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """Return the mean KL(p_T ‖ q_T) over all positions, in nats, from logits (..., V).

    >>> import torch
    >>> p, q = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.25, 0.75]])
    >>> round(divergence(p.log(), q.log()).item(), 4)  # ½ ln(½ / ¼) + ½ ln(½ / ¾)
    0.1438
    """
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
