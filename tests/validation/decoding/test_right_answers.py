"""Answers are read in the forms in which SmolLM2 and the prompt sets give them; a text without one is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from validation.collection.prompts import Prompt
from validation.decoding import scoring
from validation.decoding.records import GenerationRecord
from validation.decoding.right_answers import is_right, number_of, right_answers, without_similarity, yes_or_no_of
from validation.errors import UserError

NUMBERS = {
    "Natalia sold 48/2 = <<48/2=24>>24 clips in May.\nIn all she sold <<48+24=72>>72.\n#### 72": 72,
    "#### 1,450": 1450,
    "So she has to pay $64.": 64,
    "He sold 12 of 30, so the answer is 18. Check: 18 + 12 = 30.": 18,
    "The final answer is: **18** apples, of 20.": 18,
    "**Answer:** 42\n\nLet me know if you need 5 more.": 42,
    "Therefore \\boxed{-5} degrees, not 7.": -5,
    "\\boxed{\\$18} of 20": 18,
    "She walks 5-3 = 2 miles.": 2,
    "It costs $12.50.": Fraction(25, 2),
    "That is −3 degrees": -3,
    "He ate 3/4 of it.": Fraction(3, 4),
    "It grew by 150%.": 150,
    "1. Add them.\n2. They make 9 eggs.": 9,
    "Nobody knows.": None,
    "": None,
}


@pytest.mark.parametrize(("text", "wanted"), NUMBERS.items())
def test_a_number_is_read(text: str, wanted: object) -> None:
    assert number_of(text) == wanted


def test_of_a_cut_text_only_a_marked_number_counts() -> None:
    assert number_of("There are 16 eggs, and she eats 3", finished=False) is None
    assert number_of("The answer is 13. She sells 13 eggs for 2", finished=False) == 13


ANSWERS = {
    "Yes.": True,
    "No, it cannot.": False,
    "**No**": False,
    "yes": True,
    " True.": True,
    "Incorrect. A fax needs a line.": False,
    "The answer is yes, because they were.": True,
    "Yes, one may think so, but the answer is no.": False,
    "Answer: No": False,
    "This claim is false.": False,
    "The statement 'Fax needs no line' is not true.": False,
    "It isn't true that a dog can fly.": False,
    "It's actually true.": True,
    "That is not entirely correct.": False,
    "The claim is not false.": True,
    "No one can say.": None,
    "There is no evidence.": None,
    "Notably, dogs bark.": None,
    "It depends.": None,
    "No: A dog is only able to receive a click.": False,
    "No. In fact, no human animal can.": False,
    "The claim is debatable. Kesha is an artist.": None,
    "I am not able to give a answer directly.": None,
    "": None,
}


@pytest.mark.parametrize(("text", "wanted"), ANSWERS.items())
def test_yes_or_no_is_read(text: str, wanted: bool | None) -> None:
    assert yes_or_no_of(text) is wanted


def test_the_right_answers_come_from_the_references() -> None:
    prompts = [
        Prompt("g", "?", "GSM8K", "so 2 + 5\n#### 7"),
        Prompt("s", "?", "StrategyQA", "no"),
        Prompt("c", "?", "CREAK", "true"),
        Prompt("open", "?", "GSM8K"),
        Prompt("novel", "?", "English novels", "yes"),
    ]
    found = right_answers(prompts)
    assert found == {"g": 7, "s": False, "c": True}
    assert is_right("GSM8K", "It takes 7 days.", found["g"], finished=True)
    assert not is_right("GSM8K", "It takes 7 days.", found["g"], finished=False)
    assert is_right("CREAK", "True", True, finished=False)
    assert not is_right("StrategyQA", "I do not know", False, finished=True)
    references = {one.id: one.reference or "" for one in prompts}
    assert set(without_similarity(references, prompts)) == {"g", "open", "novel"}
    with pytest.raises(UserError, match="reference of the prompt 'x' of CREAK, 'perhaps', holds no answer"):
        right_answers([Prompt("x", "?", "CREAK", "perhaps")])


class Tokens:
    """A tokenizer whose text of [n] is ``TEXTS[n]``."""

    TEXTS = ("It costs $7.", "Yes.", "No.", "Who knows?")

    def decode(self, tokens: list[int], skip_special_tokens: bool) -> str:
        assert skip_special_tokens
        return self.TEXTS[tokens[0]]


def test_a_study_has_the_share_of_right_answers_of_a_pair_that_takes_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = [
        Prompt("g", "?", "GSM8K", "#### 7"),
        Prompt("s", "?", "StrategyQA", "yes"),
        Prompt("c", "?", "CREAK", "yes"),
        Prompt("novel", "?", "English novels"),
    ]
    records = [
        GenerationRecord("HLM", prompt.id, "none", 1, 1.0, 1.0, tokens=[number], ended=True)
        for number, prompt in enumerate(prompts)
    ]
    monkeypatch.setattr(scoring, "perplexity", lambda _, __, given, **___: SimpleNamespace(nats=np.ones(len(given))))

    def embed(texts: Sequence[str]) -> np.ndarray:
        return np.array([[len(text), 1.0] for text in texts])

    def scores(chat: bool | None, known: Any = None) -> dict[str, dict[str, Any]]:
        pair: Any = SimpleNamespace(chat=chat, tokenizer=Tokens())
        return scoring.score(pair, prompts, records, records, embed=embed, known=known)

    found = scores(True)
    assert [found[f"HLM | {one.id} | none"].get("right") for one in prompts] == [1.0, 1.0, 0.0, None]
    assert ["similarity_reference" in found[f"HLM | {one.id} | none"] for one in prompts] == [True, False, False, False]
    prompts[2] = Prompt("c", "?", "CREAK", "no")  # another answer is scored again
    assert scores(True, found)["HLM | c | none"]["right"] == 1.0
    plain = scores(None)
    assert not any("right" in one for one in plain.values())
    assert all("similarity_reference" in plain[f"HLM | {name} | none"] for name in "gsc")
