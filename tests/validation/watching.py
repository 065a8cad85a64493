"""A decoding method that records its rounds."""

from collections.abc import Sequence
from typing import Any

from tests.validation.tiny_texts import PROMPTS
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.records import GenerationRecord
from validation.decoding.session import Draft, Message, Outcome
from validation.models.pair import Pair

FOUR = PROMPTS[:4]


class Watched:
    def __init__(self, method: Method) -> None:
        self.rounds: list[tuple[list[Draft], Message]] = []
        self.outcomes: list[Outcome] = []
        message, learn = method.message, method.learn

        def kept(drafts: list[Draft]) -> Message:
            found = message(drafts)
            self.rounds.append((list(drafts), found))
            return found

        def noted(outcome: Outcome) -> Any:
            self.outcomes.append(outcome)
            return learn(outcome)

        method.message, method.learn = kept, noted
        self.method = method


def watched(
    pair: Pair, method: Method, prompts: Sequence[Prompt] = FOUR, **options: Any
) -> tuple[Watched, list[GenerationRecord]]:
    """Return the rounds and the records of some prompts; an outcome numbers a text by its place in the batch."""
    watch = Watched(method)
    return watch, decode(pair, prompts, method, **({"new_tokens": 10} | options))
