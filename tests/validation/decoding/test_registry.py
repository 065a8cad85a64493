"""The registry of decoding methods: complete, with distinct names and styles, and consistent with stored journals."""

from __future__ import annotations

import inspect

import pytest

from validation.decoding.methods import METHODS, MODULES
from validation.decoding.methods.base import Method
from validation.decoding.methods.planned import Audited
from validation.decoding.methods.quantized import AdaptiveSqs, Sqs
from validation.decoding.methods.registry import Family, Fitted, MethodInfo, PlotStyle, info_of, register
from validation.decoding.methods.trees import SampledTree
from validation.decoding.studies import STUDIES
from validation.decoding.sweep import mark_of
from validation.errors import UserError

FITTED = Fitted(1.1, 0.02, 0.5, 0.1, 0.5, 0.3, 17)
BASES = (Method, Sqs, AdaptiveSqs, SampledTree, Audited)  # base classes, and a policy that is audited


def test_every_method_of_the_folder_is_registered() -> None:
    found = {
        each
        for module in MODULES
        for each in vars(module).values()
        if inspect.isclass(each) and issubclass(each, Method) and not inspect.isabstract(each)
    }
    assert found - set(BASES) == {info.method for info in METHODS.values()}


@pytest.mark.parametrize("name", STUDIES)
def test_a_stored_name_finds_the_entry_that_made_it(name: str) -> None:
    for method in STUDIES[name].methods(FITTED):
        info = info_of(method.name)
        assert info.method is type(method)
        assert method.name == info.name or method.name.removeprefix(info.name)[0] in " ,"


def test_a_name_is_registered_once_and_an_unknown_one_is_refused() -> None:
    info = MethodInfo("HLM", Family.HLM, PlotStyle("black", "o"))
    with pytest.raises(ValueError, match="already registered as 'HLM'"):
        register(info)(Method)
    with pytest.raises(UserError, match="No method is registered as 'HLMX "):
        info_of("HLMX (k = 3)")


def test_the_parameters_that_a_journal_stores_keep_their_names() -> None:
    marks = {method.name: mark_of(method, None) for method in STUDIES["greedy"].methods(FITTED)}
    assert {name: marks[name] for name in MARKS} == MARKS


MARKS = {
    "small only": "dc24a31b",
    "large only": "3ea64a6c",
    "HLM": "13e550da",
    "Rand-HLM (0.5)": "0ec78d0a",
    "U-HLM risk-prone": "85b2758f",
    "CU-HLM offline (k = 17)": "95d716a2",
    "CU-HLM online": "0c42e348",
    "CU-HLM certified (bias 0.1)": "25b77193",
    "K-SQS (K = 64)": "fcc37321",
    "C-SQS (τ₁ = 0, as printed)": "92f7f747",
    "SQS allocated (500 bits)": "f024c3b0",
    "fixed K = 4": "8ebe75a9",
    "DSSD (K = 4)": "07cd3bca",
    "flexspec exact": "f6221613",
    "prompt lookup (n = 3, K = 4)": "32e9e11a",
    "Lookahead (K = 4)": "058c0c67",
}
