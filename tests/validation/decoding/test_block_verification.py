"""Block verification in the loop: the exact law of its texts, its random numbers, and its tokens a round."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from hlmtheory.wire import DevicePolicy, LatticeRows, threshold_rule
from tests.validation.audit.defects import decode_with
from tests.validation.every_decision import Law, Script, Scripted, ScriptedNoise, every_outcome
from tests.validation.tiny_texts import distance, exact_law, nodes, table_pair
from validation.collection.prompts import Prompt
from validation.decoding import loop, verification
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import BlockVerification, FixedLength
from validation.decoding.methods.planned import Planned
from validation.decoding.methods.quantized import DenseQs
from validation.decoding.random_streams import Noise

END = (0,)


class QuantisedBlocks(DenseQs):
    by_block = True


def tables(seed: int, vocabulary: int = 2, positions: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return tuple(rng.dirichlet(np.ones(vocabulary), nodes(vocabulary, positions)) for _ in range(2))


class _Blocks:
    def __init__(self, script: Script) -> None:
        self.decisions = Scripted(script)

    def __lt__(self, passes: np.ndarray) -> np.ndarray:
        found = np.zeros(len(passes), dtype=bool)
        for i in reversed(range(len(passes))):
            found[i] = self.decisions.happens(float(passes[i]), 1.0)
            if found[i]:
                break
        return found


class _Numbers(ScriptedNoise):
    def blocks(self, sequence: int, position: int, count: int) -> Any:
        return _Blocks(self.script)


def law_of_all(
    monkeypatch: pytest.MonkeyPatch, method: Method, positions: int, seed: int = 2, defect: str | None = None
) -> Law:
    pair = table_pair(*tables(seed), end_tokens=END)

    def run(script: Script) -> tuple[int, ...]:
        def scripted(rows: torch.Tensor, uniform: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            found = [Scripted(script).token(row) for row in rows.double().numpy()]
            return np.array(found), rows.double().sum(dim=-1).numpy()

        def noise(seed: int, names: Sequence[str], count: int) -> Noise:
            return _Numbers(script, names, count)

        monkeypatch.setattr(loop, "draw", scripted)
        monkeypatch.setattr(verification, "draw", scripted)
        prompts, options = [Prompt("0", "1", "all")], {"new_tokens": positions, "noise": noise}
        if defect is None:
            (row,) = decode(pair, prompts, method, **options)
        else:
            (row,) = decode_with(defect, pair, prompts, max_draft_length=method.max_draft_length, **options)
        return tuple(row.tokens)

    return every_outcome(run)


PLANNED = Planned(DevicePolicy(2, 1.0, threshold_rule(2, None), LatticeRows(4, top_k=2), block=True))


@pytest.mark.parametrize(
    "method", [BlockVerification(2), BlockVerification(3), QuantisedBlocks(budget_bits=8.0), PLANNED]
)
def test_the_law_of_the_texts_is_the_targets(method, monkeypatch):
    law = law_of_all(monkeypatch, method, 3)
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
    assert distance(law, exact_law(tables(2)[1], 3, END)) < 1e-12


def test_the_token_rule_in_a_block_is_seen(monkeypatch):
    law = law_of_all(monkeypatch, BlockVerification(2), 3, defect="block_token_rule")
    assert distance(law, exact_law(tables(2)[1], 3, END)) > 0.01


def test_one_draft_or_greedy_drafts_are_verified_as_token_by_token():
    rng = np.random.default_rng(5)
    pair = table_pair(*(rng.dirichlet(np.ones(4), nodes(4, 6)) for _ in range(2)))
    prompts = [Prompt(str(i), "1", "same") for i in range(40)]
    for length, temperature in ((1, 1.0), (3, 0.0)):
        methods = BlockVerification(length), FixedLength(length)
        first, second = (decode(pair, prompts, m, new_tokens=4, temperature=temperature) for m in methods)
        assert [row.tokens for row in first] == [row.tokens for row in second]


def test_every_round_has_numbers_of_its_own():
    noise, other = (Noise(seed, ["one", "two"], 8) for seed in (1, 2))
    found = [noise.blocks(sequence, position, 4) for sequence in (0, 1) for position in range(8)]
    assert len(np.unique(found)) == 64
    np.testing.assert_array_equal(noise.blocks(0, 3, 2), found[3][:2])  # K changes nothing
    assert not np.isin(other.blocks(0, 0, 4), found).any()
