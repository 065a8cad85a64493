"""Two greedy texts of each prompt: where they part, and whether rounding explains it.

Greedy decoding takes the token with the largest logit. A pass of several drafts adds its numbers in another order than
a pass of one token, so two correct runs may differ where the two largest logits are nearly equal. From there on the
texts have different prefixes: only the first difference says something.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from validation.audit.models import ModelLaw
from validation.audit.samplers import lines_of_draws
from validation.errors import UserError

Text = list[int]


@dataclass(frozen=True)
class Parting:
    prompt: int
    place: int  # tokens before the difference
    tokens: tuple[int, int]  # the token of each text
    gap: float  # the largest logit less the second largest
    below: tuple[float, float]  # the largest logit less that of each text's token
    needed: float  # the smallest relative rounding r that explains both, if a logit x may be off by r (1 + |x|)


def read_pairs(first: Path, second: Path) -> tuple[list[Text], list[tuple[int, Text, Text]]]:
    """Return the prompts that both files hold, and the pairs of their texts in order, with the prompt's number."""
    texts: list[dict[Any, list[Text]]] = [{}, {}]
    for path, of_file in zip((first, second), texts, strict=True):
        for prompt, continuations in lines_of_draws(path):
            of_file.setdefault(prompt, []).extend(continuations)
    if not (common := [prompt for prompt in texts[0] if prompt in texts[1]]):
        raise UserError(f"{first} and {second} have no prompt in common; continue the same prompts in both.")
    pairs = [(c, *pair) for c, one in enumerate(common) for pair in zip(texts[0][one], texts[1][one], strict=False)]
    return [list(one) for one in common], pairs


def partings(law: ModelLaw, pairs: Iterable[tuple[int, Sequence[int], Sequence[int]]]) -> list[Parting]:
    """Return the first difference of each pair of texts that has one; a text that is longer is not another one."""
    parted = []
    for prompt, *texts in pairs:
        place = next((i for i, tokens in enumerate(zip(*texts, strict=False)) if len(set(tokens)) > 1), None)
        if place is None:
            continue
        known = [int(token) for text in texts for token in text[: place + 1]]
        if not 0 <= min(known) <= max(known) < law.vocabulary:
            raise UserError(f"Prompt {prompt}: a token is outside 0..{law.vocabulary - 1}; use the target's tokenizer.")
        logits = law.logits(prompt, texts[0][:place])
        second, largest = np.partition(logits, -2)[-2:].tolist()
        tokens = int(texts[0][place]), int(texts[1][place])
        below = float(largest - logits[tokens[0]]), float(largest - logits[tokens[1]])
        parted.append(Parting(prompt, place, tokens, largest - second, below, max(below) / (1.0 + abs(largest))))
    return parted
