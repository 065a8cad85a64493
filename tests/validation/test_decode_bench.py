"""The measurements run and are of what they say; how fast anything is is not tested."""

from __future__ import annotations

from validation.decoding.bench import measure_loop, measure_verification
from validation.methods import FixedLength, Hlm
from validation.models import Pair
from validation.prompts import Prompt


def test_the_loop_is_measured_beside_the_passes(pair: Pair) -> None:
    found = measure_loop(pair, [Prompt("a", "two and two", "test")], [FixedLength(2), Hlm()], new_tokens=3)
    assert [one.what.split(":")[0] for one in found] == ["fixed K = 2"] * 3 + ["HLM"] * 3
    assert all(one.value > 0 and one.ratio > 0 and one.against == "forward passes" for one in found)


def test_verification_is_measured_beside_that_of_transformers() -> None:
    found = measure_verification(50, 2, repeats=2)
    assert len(found) == 6
    assert [one.ratio for one in found[2::3]] == [1.0, 1.0]
    assert found[1].value > found[0].value
