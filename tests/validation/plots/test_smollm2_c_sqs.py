"""The study of c-sqs's figures on SmolLM2: what it decodes once, and what its page says."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from validation.plots.c_sqs.runs import NAMES
from validation.plots.c_sqs.texts_file import read

STUDIES = Path(__file__).resolve().parents[3] / "figures" / "studies"


def script(folder: str, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"{folder}_{name}", STUDIES / folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tables() -> Any:
    return script("smollm2_c_sqs", "tables")


@pytest.fixture(scope="module")
def decode_texts() -> Any:
    return script("c_sqs", "decode_texts")


def test_methods_that_keep_one_entry_are_decoded_once_at_temperature_0(decode_texts: Any) -> None:
    """On the built-in pair, where each was decoded, their texts and bits are the same."""
    stored = read(json.loads(decode_texts.STORED.read_text(encoding="utf-8")))
    keys: dict[str, str] = {}
    kept = decode_texts.alike(lambda key, decode: keys.setdefault(decode, key))
    for name in decode_texts.ASKED:
        for t in (0.0, 1.0):
            kept(f"c{NAMES.index(name)}-{t:g}", f"{name}, {t:g}")
    assert len({keys[f"{name}, 1"] for name in decode_texts.ASKED}) == len(decode_texts.ASKED)
    groups: dict[str, list[str]] = {}
    for name in decode_texts.ASKED:
        groups.setdefault(keys[f"{name}, 0"], []).append(name)
    assert sorted(map(len, groups.values())) == [1, 1, 1, 1, 9]
    for names in groups.values():
        first, *others = [stored.cells[name, 0.0] for name in names]
        for other in others:
            assert [len(row.rounds) for row in first.rows] == [len(row.rounds) for row in other.rows]
            for field in ("drafted", "accepted", "resampled", "bits"):
                assert first.totals(field).tolist() == other.totals(field).tolist()


def test_the_tables_are_those_of_the_stored_texts(tables: Any) -> None:
    stored = json.loads(tables.STORED.read_text(encoding="utf-8"))
    assert {name: tables.measure(study) for name, study in tables.studies().items()} == stored
    page = (tables.HERE / "README.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in tables.markdown(stored) if line not in page] == []
