"""Sweeps: every record is decoded once, stored when it is finished, and kept after a kill."""

from typing import Any

import pytest

from validation.collection.prompts import Prompt
from validation.decoding.links import FadingLink
from validation.decoding.methods.multi_draft import FixedLength
from validation.decoding.methods.single_draft import DraftOnly, Hlm, UHlm
from validation.decoding.sweep import read_records, sweep
from validation.errors import UserError

PROMPTS = [Prompt(name, text, "test") for name, text in (("a", "two and two"), ("b", "what is"), ("c", "the times"))]
LINKS = [FadingLink("near", 1e7, 10.0), FadingLink("far", 1e5, 0.1)]
SETTINGS: dict[str, Any] = {"new_tokens": 4, "batch": 2, "times": (0.01, 0.02), "links": LINKS}


def test_every_row_is_there_once_and_a_second_run_decodes_nothing(pair, tmp_path):
    said = []
    methods = [FixedLength(2), Hlm(), DraftOnly()]
    rows = sweep(pair, PROMPTS, methods, tmp_path, progress=lambda *told: said.append(told), **SETTINGS)
    keys = [(row.method, row.link, row.prompt) for row in rows]
    assert keys == [(m.name, k.name, p.id) for m in methods for k in LINKS for p in PROMPTS]
    assert sorted({told[0] for told in said}) == list(range(19))  # it moves with each text
    assert [told[0] for told in said] == sorted(told[0] for told in said)
    said.clear()
    again = sweep(pair, PROMPTS, methods, tmp_path, progress=lambda *told: said.append(told), **SETTINGS)
    assert again == rows
    assert [told[2] for told in said] == ["decoding", "done"]
    assert sorted(map(str, read_records(tmp_path))) == sorted(map(str, rows))
    assert sweep(pair, PROMPTS, [*methods, UHlm(0.5)], tmp_path, **SETTINGS)[: len(rows)] == rows


def test_a_killed_sweep_goes_on_to_the_same_rows(pair, tmp_path):
    whole = sweep(pair, PROMPTS, [FixedLength(2), Hlm()], tmp_path / "whole", **SETTINGS)
    cut = tmp_path / "cut"
    sweep(pair, PROMPTS, [FixedLength(2), Hlm()], cut, **SETTINGS)
    journal = cut / "journal.jsonl"
    content = journal.read_bytes()
    for share in (0.05, 0.3, 0.7, 0.999):
        journal.write_bytes(content[: int(share * len(content))])  # killed while it wrote a line
        assert sweep(pair, PROMPTS, [FixedLength(2), Hlm()], cut, **SETTINGS) == whole


def test_what_would_be_mixed_is_refused(pair, tmp_path):
    sweep(pair, PROMPTS, [UHlm(0.5)], tmp_path, **SETTINGS)
    for prompts, methods, change, said in (
        (PROMPTS, [UHlm(0.5)], {"seed": 2}, "seed was 1, and is now 2"),
        (PROMPTS, [UHlm(0.6)], {}, "'U-HLM' over 'near' with other parameters"),
        (PROMPTS, [UHlm(0.5)], {"links": [FadingLink("near", 1e7, 11.0)]}, "with other parameters"),
        ([Prompt("a", "of apples", "test")], [UHlm(0.5)], {}, "another prompt called 'a'"),
        (PROMPTS, [UHlm(0.5), UHlm(0.6)], {}, "Two methods are called 'U-HLM'"),
        (PROMPTS, [Hlm()], {"links": [LINKS[0], LINKS[0]]}, "Two links are called 'near'"),
    ):
        with pytest.raises(UserError, match=said):
            sweep(pair, prompts, methods, tmp_path, **(SETTINGS | change))


def test_a_damaged_journal_and_none_are_named(pair, tmp_path):
    sweep(pair, PROMPTS, [Hlm()], tmp_path, **SETTINGS)
    journal = tmp_path / "journal.jsonl"
    content = bytearray(journal.read_bytes())
    content[len(content) // 2] ^= 1
    journal.write_bytes(content)
    with pytest.raises(UserError, match=r"damaged at line \d"):
        read_records(tmp_path)
    with pytest.raises(UserError, match="no sweep"):
        read_records(tmp_path / "none")
