"""Table VI of ours: which methods it has, and that its numbers are those of the records and of the bills."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validation.collection.prompts import Prompt
from validation.decoding.methods import METHODS
from validation.decoding.methods.registry import Family, Fitted
from validation.models.pair import Pair
from validation.plots import EXHIBITS, draw
from validation.plots.ours import bill_table
from validation.plots.ours.bill_table import MethodTexts, Scale, is_lossy, methods

PROMPTS = [Prompt(text, text, "test") for text in ("two and two make", "it was the best of", "what is the sum")]
SCALE = Scale(prompts=3, new_tokens=6, drafts=4)
FITTED = Fitted(0.57, -0.01, 0.53, 0.02, 0.97, 0.58, 105)


@pytest.fixture(scope="module")
def texts(pair: Pair) -> Iterator[tuple[str, int, tuple[MethodTexts, ...]]]:
    """Three texts by every method on the tiny pair, which the exhibit then uses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bill_table, "load_pair", lambda: pair)
        patch.setattr(bill_table, "some_prompts", lambda count: PROMPTS[:count])
        found = bill_table.decoded(FITTED, 1, SCALE)
        counts = [one.counts for one in found[2]]
        value = json.loads(json.dumps(bill_table.plain_counts("tiny", pair.vocabulary, SCALE, counts)))
        patch.setattr(bill_table, "stored", lambda name: (value, {}))
        yield found


def test_every_lossy_method_is_there_and_two_lossless_ones():
    chosen = methods(FITTED)
    assert len({method.name for method in chosen}) == len(chosen)
    assert [is_lossy(method) for method in chosen] == [True] * (len(chosen) - 2) + [False] * 2
    names = {info.name for info in METHODS.values() if any(method.name.startswith(info.name) for method in chosen)}
    families = {Family.RAND_HLM, Family.U_HLM, Family.CU_HLM}
    lossy = {info.name for info in METHODS.values() if info.family in families and info.default is not None}
    assert lossy <= names
    assert {"small only", "flexspec linear, printed acceptance", "flexspec exact, printed acceptance"} <= names


def test_the_rows_are_sums_over_records_and_bills(texts: tuple[str, int, tuple[MethodTexts, ...]]):
    _, _, found = texts
    numbers = bill_table.simulate(1)
    by_name = {row["method"]: row for row in numbers["statistics"]["methods"]}
    assert list(by_name) == [one.method for one in found]
    for one in found:
        row, tokens = by_name[one.method], sum(len(record.tokens) for record in one.records)
        assert row["tokens"] == tokens
        assert row["risk"]["value"] == pytest.approx(sum(r.total("risk") for r in one.records) / tokens, rel=1e-4)
        assert row["bill"]["value"] == pytest.approx(sum(b.bill for b in one.bills) / tokens, rel=1e-4)
        assert row["bound"]["value"] >= row["bill"]["value"] * (1 - 1e-4)
        assert row["bill_text"]["value"] == pytest.approx(np.mean([b.bill for b in one.bills]), rel=1e-4)


def test_what_is_exact_agrees(texts: tuple[str, int, tuple[MethodTexts, ...]]):
    """flexspec's printed acceptance records its bill; a lossless method has neither; small only has its own TV."""
    _, _, found = texts
    by_name = {one.method: one for one in found}
    for name, one in by_name.items():
        if name.endswith("printed acceptance"):
            risks = [record.total("risk") for record in one.records]
            np.testing.assert_allclose([bill.bill for bill in one.bills], risks, rtol=1e-4, atol=1e-9)
            assert sum(risks) > 0
    for method in bill_table.LOSSLESS:
        assert all(bill.bill == bill.bound == 0.0 for bill in by_name[method.name].bills)
        assert all(record.total("risk") == 0.0 for record in by_name[method.name].records)
    assert all(bill.bill > 0 for bill in by_name["small only"].bills)


def test_the_table_is_drawn(texts: tuple[str, int, tuple[MethodTexts, ...]], tmp_path: Path):
    (sidecar,) = draw(EXHIBITS["ours", "VI"], None, tmp_path, command="hlm figure ours VI", seed=1, commit="c")
    found: dict[str, Any] = json.loads(sidecar.read_text(encoding="utf-8"))
    (table,) = found["tables"]
    assert len(table["rows"]) == len(texts[2])
    assert all("-0.0000 " not in cell for row in table["rows"] for cell in row)
    free = found["findings"].partition("The bill is 0 for ")[2].partition(". Its sum")[0]
    assert all(method.name in free for method in bill_table.LOSSLESS)
    assert "small only" not in free
    rows = found["statistics"]["methods"]
    below = sum(row["risk_below"] for row in rows)
    assert f": {below} of {3 * sum(row['bill']['value'] > 0 for row in rows)} texts record less" in found["findings"]
