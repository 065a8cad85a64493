"""Read the answer of a text and compare it with the right one: yes or no for StrategyQA and CREAK, a number for GSM8K.

A text is scored this way if its pair was tuned for turns (``pair.chat``), so that it answers what it is asked. What the
built-in pair writes is scored by similarity and by likelihood alone.

A text without an answer that can be read is wrong. Where a text was cut at its token limit, only a marked answer counts
("The answer is 7", "#### 7", or 7 in a box): the last number of a cut text is not its answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from validation.errors import UserError

if TYPE_CHECKING:
    from validation.collection.prompts import Prompt

Answer = Fraction | bool

_NUMBER = r"[-−]?\s?[$€£]?\s?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+|/[1-9]\d*)?"
_FREE = re.compile(rf"(?<![\w.]){_NUMBER}")
_MARKS = (r"####\s*", r"\\boxed\{\s*\\?", r"\banswer(?:\s+is|\s*[:=])[\s*:_\"'$\\({]*")
_LEADING = re.compile(
    r"[\W_]*(yes|no|true|false|correct|incorrect)\b(?!\s+(?:one|body|matter|doubt|longer|more)\b)", re.I
)
_MARKED = re.compile(_MARKS[2] + r"(yes|no|true|false)\b", re.I)
_VERDICT = re.compile(
    r"(?:\b(?:is|was)|['’]s|\bwould be)(?P<short>n['’]t)?\s+(?:\w+ly\s+)?(?P<negated>not\s+)?(?:\w+ly\s+)?[*_\"']*"
    r"(?P<word>true|false|correct|incorrect|untrue)\b",
    re.I,
)
_POSITIVE = {
    "yes": True,
    "true": True,
    "correct": True,
    "no": False,
    "false": False,
    "incorrect": False,
    "untrue": False,
}


def number_of(text: str, *, finished: bool = True) -> Fraction | None:
    """Return the number that a text gives as its answer, or None.

    The last marked number counts; without a mark, the last number of a text that is not cut.

    Parameters
    ----------
    text : str
    finished : bool
        Whether the text ended by itself.

    Examples
    --------
    >>> number_of("She has 3 + 4 = 7 apples, which cost $1,050.50 in all.")
    Fraction(2101, 2)
    >>> number_of("The answer is 12. Check: 4 * 3 = 12 of 20"), number_of("so 5 + 5", finished=False)
    (Fraction(12, 1), None)
    """
    marked = [found for mark in _MARKS for found in re.finditer(f"{mark}({_NUMBER})", text, re.I)]
    if marked:
        return _fraction(max(marked, key=lambda found: found.start()).group(1))
    numbers = _FREE.findall(text) if finished else []
    return _fraction(numbers[-1]) if numbers else None


def yes_or_no_of(text: str, *, finished: bool = True) -> bool | None:
    """Return whether a text answers yes, None if it answers neither yes nor no.

    The last marked answer counts, then the first word, then the first verdict such as "the claim is not true".

    Parameters
    ----------
    text : str
    finished : bool
        Not used: an answer that was given stays one if the text is cut.

    Examples
    --------
    >>> yes_or_no_of("**Yes**, it can."), yes_or_no_of("This statement is not true."), yes_or_no_of("There is no dog.")
    (True, False, None)
    """
    if marked := _MARKED.findall(text):
        return _POSITIVE[marked[-1].lower()]
    if leading := _LEADING.match(text):
        return _POSITIVE[leading.group(1).lower()]
    if verdict := _VERDICT.search(text):
        return _POSITIVE[verdict["word"].lower()] != bool(verdict["short"] or verdict["negated"])
    return None


@dataclass(frozen=True, slots=True)
class Task:
    """How the answers of a prompt set are read: those of the texts, and that of the set."""

    read: Callable[..., Answer | None]
    similar: bool  # whether the set's answer is a text that a similarity means something for


TASKS = {"GSM8K": Task(number_of, True), "StrategyQA": Task(yes_or_no_of, False), "CREAK": Task(yes_or_no_of, False)}
"""By the source of a prompt."""


def right_answers(prompts: Sequence[Prompt]) -> dict[str, Answer]:
    """Return the right answer of each prompt that is scored by its answer, by prompt id.

    Parameters
    ----------
    prompts : sequence of Prompt

    Raises
    ------
    UserError
        The reference of such a prompt holds no answer.
    """
    found: dict[str, Answer] = {}
    for prompt in prompts:
        if prompt.source not in TASKS or prompt.reference is None:
            continue
        answer = TASKS[prompt.source].read(prompt.reference)
        if answer is None:
            raise UserError(
                f"The reference of the prompt {prompt.id!r} of {prompt.source}, {prompt.reference[:40]!r}, holds no "
                "answer; give a number for GSM8K, and yes or no for the others."
            )
        found[prompt.id] = answer
    return found


def is_right(source: str, text: str, answer: Answer, *, finished: bool) -> bool:
    """Return whether a text gives the right answer.

    Parameters
    ----------
    source : str
        A key of ``TASKS``.
    text : str
    answer : Fraction or bool
        Of :func:`right_answers`.
    finished : bool
        Whether the text ended by itself.

    Examples
    --------
    >>> is_right("GSM8K", "That makes $7.", Fraction(7), finished=True), is_right("CREAK", "Yes.", False, finished=True)
    (True, False)
    """
    return TASKS[source].read(text, finished=finished) == answer


def without_similarity(references: Mapping[str, str], prompts: Sequence[Prompt]) -> dict[str, str]:
    """Return the references without those that are a single word, to which no text is similar."""
    words = {one.id for one in prompts if one.source in TASKS and not TASKS[one.source].similar}
    return {name: text for name, text in references.items() if name not in words}


def _fraction(text: str) -> Fraction:
    return Fraction(re.sub(r"[^\d./\-]", "", text.replace("−", "-")))
