"""A plan's expected counts are the loop's means over every text that it can write, wherever both are exact."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from hlmtheory.wire import DevicePolicy, DraftProbabilities, threshold_rule
from tests.validation.every_decision import Script, ScriptedNoise, every_outcome
from tests.validation.tiny_texts import all_texts, exact_law, halves, nodes, quarters, table_pair
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.catalogue import METHODS
from validation.decoding.methods.multi_draft import Dssd, FixedLength, GreedyDrafts
from validation.decoding.methods.planned import Planned
from validation.decoding.methods.quantized import KSqs
from validation.decoding.methods.rows import KEEPING, ROWS, STREAMED, Absent
from validation.decoding.methods.single_draft import CloudOnly, Hlm
from validation.decoding.methods.trees import SureTreeSd
from validation.decoding.random_streams import ACCEPT, DRAFT, REPLACE
from validation.decoding.records import SUMMED
from validation.planning import menu, message_length, positions, profile
from validation.planning.rounds import named
from validation.trace.reader import TraceChunk

V, WIDTH = 3, 2
LATTICE = positions.Lattice(2, k=2)
ELSEWHERE = {
    "small only": "each token is one draft, on both sides",
    "U-HLM": "a plan bins the uncertainty",
    "CU-HLM": "its messages are measured on a sample",
    "flexspec": "a plan's K is fixed: DSSD's rounds",
    "C-SQS": "its supports are a lattice's of a fixed threshold",
    "block verification": "test_profile has its rounds",
    "DSSD certified": "DSSD's rounds; its answers are measured on a sample",
    "shared seed": "races have no grid: test_profile plays them; a tree counts with a floor of its acceptance",
}
"""Methods with a row that are not enumerated here, by how their names begin."""


@dataclass(frozen=True)
class Case:
    make: Callable[[], Method]
    label: str  # of the option
    extra_bits: float = 0.0  # of a draft's message: what the paper's formula leaves out
    by_bytes: bool = False  # whether the plan counts bytes as encoded


CASES = {
    "cloud only": Case(CloudOnly, "one exchange a token", by_bytes=True),
    "HLM": Case(Hlm, ""),
    "fixed K": Case(lambda: FixedLength(2), "K = 2"),
    "greedy drafts": Case(lambda: GreedyDrafts(2), "K = 2"),
    "DSSD": Case(lambda: Dssd(2), "K = 2"),
    "Planned": Case(
        lambda: Planned(DevicePolicy(V, 1.0, threshold_rule(1, None), DraftProbabilities())),
        "q_d up, p down, K = 1",
        by_bytes=True,
    ),
    "K-SQS": Case(lambda: KSqs(2, resolution=2, budget_bits=1e6), f"{LATTICE.name}, K = 3", WIDTH),
}


def test_every_method_with_a_row_is_compared_or_says_where() -> None:
    rows = {name: info.method.row for name, info in METHODS.items() if info.method is not None}
    planned = {name for name, row in rows.items() if not isinstance(row, Absent)}
    assert planned >= {*CASES, "draft tree, sure"}
    assert all(name in CASES or name.startswith(("draft tree, sure", *ELSEWHERE)) for name in planned)
    assert all(row in ROWS or (isinstance(row, Absent) and row) for row in rows.values())
    assert {name for name, row in ROWS.items() if not row.no_method} == {rows[name] for name in planned}
    assert menu.MENU.keys() == ROWS.keys() - {STREAMED, KEEPING}  # with a setting's times; beside COLOCATED


def planned_counts(draft: np.ndarray, target: np.ndarray, length: int) -> dict[tuple[str, str], dict[str, float]]:
    """Return the counts of every option, in the mean over the target model's texts."""
    law, texts = exact_law(target, length), []
    for text in law:
        at = [0]
        for token in text[:-1]:
            at.append(at[-1] * V + token + 1)
        q, p = (np.log(np.maximum(table[at], 1e-300)) for table in (draft, target))
        tokens = np.array(text, dtype=np.int32)
        chunk = TraceChunk(q, p, tokens, np.zeros_like(tokens), np.arange(length, dtype=np.int32))
        texts.append(positions.positions_of(chunk, np.full(length, 0.5)))
    known = profile._joined([profile._counts(texts, V)], True, V, [str(number) for number in range(len(law))])
    weights = np.array(list(law.values()))
    found = menu.options(menu.Evidence(known))
    return {(one.family, one.label): {n: float(weights @ c) for n, c in named(one.counts).items()} for one in found}


def tables(seed: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return halves(rng, nodes(V, length)), quarters(rng, nodes(V, length))


@pytest.mark.parametrize("name", CASES)
def test_counts_of_rounds(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for module in (positions, profile, message_length, menu):
        monkeypatch.setattr(module, "LATTICES", (LATTICE, *positions.LATTICES[1:]))
    case, length = CASES[name], 2 if name in ("cloud only", "HLM", "Planned") else 3
    (draft, target), last = tables(0, length), 4
    if name == "K-SQS":  # a quantised row is of halves for any draft
        draft, target, last = np.random.default_rng(0).dirichlet(np.ones(V), len(draft)), draft, 2
    if name == "greedy drafts":  # accepted with p, and replaced from p without the draft
        draft, target, last = target, draft, 2
    cells = {DRAFT: 2, ACCEPT: 2, REPLACE: last}
    method = case.make()
    rows = all_texts(table_pair(draft, target), method, length, cells)
    expected = planned_counts(draft, target, length)[str(method.row), case.label]

    total = {field: float(np.mean([row.total(field) for row in rows])) for field in SUMMED}
    tokens, rounds = (float(np.mean([len(getattr(row, name)) for row in rows])) for name in ("tokens", "rounds"))
    found = {"tokens": tokens, "passes": rounds, "exchanges": rounds, "drafts": total["draft_passes"]}
    found |= {"verified": total["drafted"] + rounds, "skipped": total["skipped"]}
    assert {word: expected[word] for word in found} == pytest.approx(found, rel=1e-12)
    assert found["tokens"] == length
    assert rounds < length or name in ("cloud only", "HLM")
    up = expected["up_bits"]
    if name == "HLM":  # the paper's formula has 8 bits a probability, the plan and the bytes 32
        assert 0 <= 8.0 * total["bytes"] - up < 8.0 * rounds
    elif case.by_bytes:
        assert up == pytest.approx(8.0 * total["bytes"], rel=1e-12)
    else:
        assert up == pytest.approx(16.0 * rounds + total["bits"] + case.extra_bits * total["drafted"], rel=1e-12)
    assert expected["down_bits"] == pytest.approx(8.0 * total["down_bytes"], rel=1e-12)


def test_counts_of_trees() -> None:
    length, widths = 3, (2, 1)
    draft, target = tables(5, length)
    pair, method = table_pair(draft, target), SureTreeSd(widths)

    def run(script: Script) -> tuple[int, ...]:
        more: dict[str, Any] = {"noise": lambda seed, names, count: ScriptedNoise(script, names, count)}
        (row,) = decode(pair, [Prompt("0", "0", "all")], method, new_tokens=length, **more)
        return len(row.tokens), len(row.rounds), int(row.total("drafted")) + len(row.rounds)

    law = every_outcome(run)
    expected = planned_counts(draft, target, length)[str(method.row), f"tree {'-'.join(map(str, widths))}"]
    for place, name in enumerate(("tokens", "passes", "verified")):
        assert expected[name] == pytest.approx(sum(weight * outcome[place] for outcome, weight in law.items()))
