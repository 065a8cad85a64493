"""The study of SmolLM2's LoRA versions: what is compared, and what its page says."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.validation.plots.test_flexspec_counted import columns, rows, same
from tests.validation.plots.test_flexspec_decoded import NEW_TOKENS, prompts_of
from tests.validation.plots.test_flexspec_decoded import tables as tables_of
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import FLEXSPEC_DRAFT_S, Dssd, FixedLength, FlexSpec
from validation.decoding.methods.single_draft import CloudOnly, Hlm
from validation.decoding.studies import flexspec_links
from validation.plots.flexspec import counted as c
from validation.plots.flexspec import counted_lines as k

STUDY = Path(__file__).resolve().parents[3] / "figures" / "studies" / "smollm2_versions"
STORED = json.loads((STUDY / "smollm2.json").read_text(encoding="utf-8"))
SETS = {"math": "GSM8K", "code": "HumanEval and PEP code", "general": "novels and PEPs"}


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"{name}_of_versions", STUDY / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass looks its module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def measure() -> Any:
    return script("measure")


@pytest.fixture(scope="module")
def tables() -> Any:
    return script("tables")


def law_of(*laws: list[float]) -> Any:
    """A model whose distribution at position i is the i-th law, whatever the text."""
    logits = torch.tensor(laws).log()
    return lambda ids: SimpleNamespace(logits=logits[None, : ids.shape[1]])


def test_acceptance_and_drift_are_those_of_the_laws(measure: Any) -> None:
    texts = {"math": [np.array([0, 1]), np.array([1])]}
    base, draft, version = (
        law_of([0.5, 0.5], [0.5, 0.5]),
        law_of([0.75, 0.25], [1.0, 0.0]),
        law_of([1.0, 0.0], [0.5, 0.5]),
    )
    rows = {"3-bit": measure.rows_of(draft, texts, torch.float16)}
    found = measure.compare(version, texts, measure.rows_of(base, texts, torch.float16), rows)["math"]
    assert (found["texts"], found["positions"]) == (2, 3)
    assert found["tv"]["value"] == pytest.approx(1.0 / 3.0, abs=1e-4)  # 0.5 at the first positions, 0 at the other
    told = found["drafts"]["3-bit"]
    assert told["accept"]["value"] == pytest.approx((0.75 + 0.5 + 0.75) / 3.0, abs=1e-4)
    assert told["accept_version_0"]["value"] == pytest.approx((0.75 + 0.5 + 0.75) / 3.0, abs=1e-4)
    assert told["loss"]["value"] == pytest.approx(0.0, abs=1e-4)
    assert found["tv"]["low"] <= found["tv"]["value"] <= found["tv"]["high"]


def ranged(found: dict[str, float]) -> str:
    value, low, high = (f"{found[key]:.3f}".replace("0.", ".", 1).replace("-", "−") for key in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


# ---------------------------------------------------------------------------------------------- Tables III and IV


def case_of(records: list[Any], temperature: float, most: int) -> k.Case:
    """Return the case of texts that HLM wrote over three tokens."""
    about = {"vocabulary": 3, "max_draft_length": 8, "prompts": [{"source": "GSM8K"}] * len(records)}
    fates = [c.fate_of(rows.flags(one), most) for one in records]
    return k.Case(c.Counted(about, {}, {(k.BASE, temperature, k.PLAIN): fates}), temperature)


@pytest.mark.parametrize("seed", range(3))
def test_the_replayed_lines_at_temperature_0_are_those_of_the_loop(tables: Any, seed: int) -> None:
    pair, prompts = tables_of(seed), prompts_of(3)
    settings: dict[str, Any] = {"temperature": 0.0, "new_tokens": NEW_TOKENS, "times": (0.0, 0.0)}
    found = tables.lines(case_of(decode(pair, prompts, Hlm(), **settings), 0.0, NEW_TOKENS), "WiFi")
    costs = {"propagation_s": c.DELAYS_S["WiFi"], "edge_slope_s": FLEXSPEC_DRAFT_S, "header_bits": 0.0}
    methods = {k.CLOUD: CloudOnly(), k.STANDARD: FixedLength(4), k.DSSD: Dssd(4)}
    for name, method in methods.items():
        same(found[name], columns(decode(pair, prompts, method, **settings)))
    rule = FlexSpec("linear", printed_acceptance=True, costs=costs)
    same(found[k.FLEXSPEC], columns(decode(pair, prompts, rule, link=flexspec_links()[2], **settings)))
    assert found[tables.STREAM].rounds.tolist() == [1.0] * 3


def test_at_temperature_1_a_draft_of_standard_sd_carries_its_distribution(tables: Any) -> None:
    settings: dict[str, Any] = {"temperature": 1.0, "new_tokens": 5, "times": (0.0, 0.0)}
    seen = 0
    for record in decode(tables_of(1), prompts_of(40), FixedLength(4), **settings):
        if len(record.rounds) == 1 and record.rounds[0].accepted == 4:
            found = tables.lines(
                case_of(
                    [
                        SimpleNamespace(
                            rounds=[SimpleNamespace(accepted=1)] * 4 + [SimpleNamespace(accepted=0)], ended=False
                        )
                    ],
                    1.0,
                    5,
                ),
                "4G",
            )[k.STANDARD]
            assert (found.bytes[0], found.down_bytes[0]) == (record.rounds[0].bytes, record.rounds[0].down_bytes)
            seen += 1
    assert seen


def test_seconds_by_hand(tables: Any) -> None:
    one = c.Texts(*(np.array([float(v)]) for v in (10, 4, 12, 6, 3, 12, 4, 100, 25)))
    expected = 4 * c.DELAYS_S["4G"] + 12 * 0.01 + 4 * 0.1 + (12 + 4 * 8) * 0.001 + 8 * 125 / 50e6
    assert tables.Times(0.01, 0.1, 0.001).seconds(one, "4G", 7)[0] == pytest.approx(expected)


def test_the_tables_are_those_of_the_stored_counts(tables: Any) -> None:
    stored = json.loads(tables.STORED.read_text(encoding="utf-8"))
    assert tables.measure() == stored
    page = (STUDY / "README.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in tables.markdown(stored) if line not in page] == []


# ------------------------------------------------------------------------------------------------------- the page


def table() -> list[str]:
    """Return the lines of the table: each version on its own texts."""
    lines = []
    for record in STORED["versions"].values():
        name = f"{SETS[record['domain']]}, LoRA {record['rank']}"
        found = record["sets"][record["domain"]]
        for draft, told in found["drafts"].items():
            cells = (found["tv"], told["accept_version_0"], told["accept"], told["loss"])
            lines.append(f"| {name} | {SETS[record['domain']]} | {draft} | {' | '.join(map(ranged, cells))} |")
    return lines


def test_the_page_says_what_is_stored() -> None:
    page = (STUDY / "README.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if re.match(r"\| (GSM8K|HumanEval)", line)] == table()
    for record in STORED["versions"].values():
        assert f"{record['steps']} steps" in page
        assert f"seed {record['seed']}" in page
        assert f"{record['cpu_seconds']:.0f} CPU s" in page
        assert f"{record['own_parameters']:,} weights" in page
        assert record["keeps_the_anchor"]
