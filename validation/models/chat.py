"""Prompts of a model that was tuned for turns: the chat template that its tokenizer carries."""

from collections.abc import Sequence
from typing import Any

from validation.errors import UserError, first_line

TURNS = "Each prompt is a turn of the user, written by the tokenizer's chat template."
PLAIN = (
    "The tokenizer has a chat template, so the target was tuned for turns, but the prompts are plain text; --chat "
    "makes each a turn of the user."
)


def has_template(tokenizer: Any) -> bool:
    return bool(getattr(tokenizer, "chat_template", None))


def require_template(tokenizer: Any, name: str) -> None:
    """Refuse a tokenizer without a chat template; ``name`` is the model's."""
    if not has_template(tokenizer):
        raise UserError(
            f"The tokenizer of {name!r} has no chat template, which --chat applies; leave out --chat, or give the "
            "model's own tokenizer with its chat_template.jinja."
        )


def turn_ids(tokenizer: Any, messages: Sequence[tuple[str, str]], name: str) -> list[int]:
    """Return the tokens of a conversation up to where the assistant's turn begins."""
    plain = [{"role": role, "content": content} for role, content in messages]
    try:
        ids = tokenizer.apply_chat_template(plain, add_generation_prompt=True, tokenize=True, return_dict=False)
    except Exception as error:  # a template may raise anything
        why = f"The chat template cannot write the prompt {name!r} ({first_line(error)})"
        raise UserError(f"{why}; change its messages, or leave out --chat.") from error
    return [int(one) for one in ids]
