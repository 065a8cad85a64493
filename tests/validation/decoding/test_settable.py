"""The numbers of methods that a command may set."""

import inspect
import math
from typing import Any

import pytest

from hlmtheory.draft_length import round_costs
from tests.validation.link.served import small_pair
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.catalogue import METHODS, info_of
from validation.decoding.methods.multi_draft import FlexSpec
from validation.decoding.methods.settable import SETTABLE, method_with, needed
from validation.errors import UserError

LENGTHS = {"max_draft_length"}
"""Set by ``--draft-length``."""


@pytest.fixture(scope="module")
def pair():
    return small_pair(4)


def numbers_of(method: Any) -> set[str]:
    found = set[str]()
    for one in method.__mro__:
        if "__init__" in vars(one):
            given = inspect.signature(one.__init__).parameters.values()
            found |= {each.name for each in given if each.annotation in ("int", "float", "int | None")}
            if not any(each.kind is each.VAR_KEYWORD for each in given):
                break
    return found


@pytest.mark.parametrize("name", SETTABLE)
def test_every_number_of_a_method_can_be_set(name):
    numbers = set(SETTABLE[name])
    if (method := METHODS[name].method) is FlexSpec:  # its costs are one argument
        assert numbers - set(inspect.signature(round_costs).parameters) == numbers_of(FlexSpec)
    else:
        assert numbers == numbers_of(method) - LENGTHS


@pytest.mark.parametrize("name", SETTABLE)
def test_the_ends_of_every_range_run(pair, name):
    usual = dict.fromkeys(needed(name), "0.5") | ({"k": "2"} if name == "K-SQS" else {})
    for word, values in SETTABLE[name].items():
        margin = 1e-3 if values.inside else 0.0
        for end in (values.least + margin, min(values.most, max(values.least, 3.0)) - margin):
            if not math.isfinite(end) or (word == "k" and end > pair.vocabulary):
                continue
            given = usual | {word: f"{int(end) if values.whole else end}"}
            method = method_with(name, [f"{one}={value}" for one, value in given.items()])
            assert f"{word} = " in method.name
            assert info_of(method.name).name == name
            assert decode(pair, [Prompt("a", "0", "")], method, new_tokens=4, seed=2, times=(1.0, 1.0))[0].tokens


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("U-HLM", [], "needs --set threshold=VALUE"),
        ("CU-HLM online", ["threshold=0.8"], "needs --set slope=VALUE"),
        ("U-HLM", ["k=3"], r"has no number 'k'; it takes threshold \(0 to 1\)"),
        ("U-HLM", ["threshold"], "is no NAME=VALUE"),
        ("U-HLM", ["threshold=0.1", "threshold=0.2"], "threshold is given twice"),
        ("U-HLM", ["threshold=1.5"], r"threshold of U-HLM is '1.5'; it must be a number \(0 to 1\)"),
        ("U-HLM", ["threshold=nan"], "must be a number"),
        ("C-SQS", ["epsilon=0"], r"above 0 and below 1"),
        ("K-SQS", ["k=0"], r"whole, 1 to 1,048,576"),
        ("K-SQS", ["k=2.5"], "whole"),
        ("K-SQS", ["k=1" + "0" * 400], "whole, 1 to 1,048,576"),  # no float holds it
        ("fixed K", ["k=3"], "has no numbers to set"),
        ("KSQS", ["k=3"], "has no numbers to set"),
    ],
)
def test_what_cannot_be_set_is_refused_by_name(name, given, said):
    with pytest.raises(UserError, match=said):
        method_with(name, given)
