"""Records on another link equal those decoded over it, and are refused if the texts would differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hlmtheory.channel import Rayleigh, Rician
from validation.collection.prompts import Prompt
from validation.decoding.links import FadingLink, Way
from validation.decoding.loop import PAPER_TIMES, decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import FixedLength, FlexSpec
from validation.decoding.methods.quantized import KSqs
from validation.decoding.methods.shared_seed import SharedSeedStreamed
from validation.decoding.methods.single_draft import CloudOnly, CuHlmOffline, DraftOnly, Hlm, UHlm
from validation.decoding.records import GenerationRecord
from validation.decoding.retiming import retime
from validation.errors import UserError
from validation.models.pair import Pair

PROMPTS = [Prompt(name, text, "test") for name, text in (("a", "two and two"), ("b", "what is"), ("c", "the times"))]
SETTINGS: dict[str, Any] = {"new_tokens": 8, "batch": 2, "times": PAPER_TIMES}
LINKS: list[FadingLink] = [
    FadingLink("rayleigh", 1e6, Rayleigh(0.1), Way(0.01, 1e6)),
    FadingLink("rician", 1e7, Rician(10.0, 10.0)),
    FadingLink("still", 1e7, 3.0),
]
MAKERS: list[Callable[[], Method]] = [
    Hlm,
    lambda: UHlm(0.7),
    lambda: KSqs(8, budget_bits=400.0),
    lambda: KSqs(8, budget_bits=400.0, by_bytes=True),
    lambda: CuHlmOffline(0.6, 5),
    lambda: FixedLength(3),
    CloudOnly,
    DraftOnly,
    SharedSeedStreamed,
]


def bare(rows: list[GenerationRecord]) -> list[dict[str, Any]]:
    return [row.plain() | {"prefill_s": None} for row in rows]


@pytest.mark.parametrize("make", MAKERS)
def test_a_row_put_on_a_link_is_the_row_decoded_over_it(pair: Pair, make: Callable[[], Method]) -> None:
    without = decode(pair, PROMPTS, make(), **SETTINGS)
    for link in LINKS:
        there = decode(pair, PROMPTS, make(), link=link, **SETTINGS)
        assert bare(retime(without, link, [make()])) == bare(there)
        assert bare(retime(there, None, [make()])) == bare(without)
    assert all(row.link == "none" for row in without)  # what was given is as it was


def test_other_times_are_those_of_a_run_with_them(pair: Pair) -> None:
    for make in (Hlm, MAKERS[1], MAKERS[2], SharedSeedStreamed):
        measured = decode(pair, PROMPTS, make(), **(SETTINGS | {"times": None}))
        for link in (None, LINKS[-1]):
            assert bare(retime(measured, link, [make()], times=(0.1, 0.3))) == bare(
                decode(pair, PROMPTS, make(), link=link, **(SETTINGS | {"times": (0.1, 0.3)}))
            )


def test_several_methods_keep_their_order_and_another_seed_is_other_fading(pair: Pair) -> None:
    methods = [Hlm(), FixedLength(2)]
    rows = [row for method in methods for row in decode(pair, PROMPTS, method, **SETTINGS)]
    mixed = rows[::-1]
    timed = retime(mixed, LINKS[0], methods)
    assert [(row.method, row.prompt) for row in timed] == [(row.method, row.prompt) for row in mixed]
    assert bare(timed) == bare([retime([row], LINKS[0], methods)[0] for row in mixed])  # for any other rows in the list
    other = retime(mixed, LINKS[0], methods, seed=7)
    assert all(a.tokens == b.tokens and a.seconds != b.seconds for a, b in zip(timed, other, strict=True))
    assert retime([], LINKS[0], methods) == []


def test_what_would_be_another_text_is_refused(pair: Pair) -> None:
    rows = decode(pair, PROMPTS[:1], FlexSpec("exact"), **SETTINGS)
    with pytest.raises(UserError, match=r"drafts of 'flexspec exact' depend on the rate of its link, here 'none'"):
        retime(rows, LINKS[0], [FlexSpec("exact")])
    with pytest.raises(UserError, match="'flexspec exact', which is not among the methods"):
        retime(rows, LINKS[0], [Hlm()])
    with pytest.raises(UserError, match=r"times of the models are \(-1, 0\)"):
        retime(rows, None, [Hlm()], times=(-1, 0))
