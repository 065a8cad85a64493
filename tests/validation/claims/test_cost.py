"""What a run of a pair costs: counts, origins, limits; no time is asserted but that it is one."""

import json
from pathlib import Path

import pytest

from tests.validation.command_line import run
from validation.claims.cost import ASSUMED, MEASURED, Asked, cost_of_pair
from validation.collection.collect import Text

ROOT = Path(__file__).resolve().parents[3]
PROMPTS = [[5, 6, 7], [8, 9], [10, 11, 12, 13]]
ASKED = Asked(positions=100, new_tokens=20, prompts=3)


@pytest.fixture(scope="module")
def cost(pair):
    return cost_of_pair(pair, PROMPTS, ASKED, 1, 2.5, lambda text: None)


def test_the_positions_are_those_of_whole_batches():
    assert (ASKED.batch, ASKED.batches, ASKED.texts) == (3, 2, 6)
    assert Asked(positions=20_000, new_tokens=160, prompts=500).batches == 4
    assert Asked(positions=100, new_tokens=20, prompts=3).expected == 120
    assert Asked(positions=1, new_tokens=160, prompts=500).texts == 32


def test_each_step_is_counted_and_timed(cost, pair):
    texts = 3 * cost.batches
    assert cost.vocabulary == pair.vocabulary
    assert 100 <= cost.positions <= 20 * texts
    assert {step.name: step.count for step in cost.steps} == {
        "starting and loading": 1,
        "the target model writes": 20 * cost.batches,
        "it reads the prompts": cost.batches,
        "the draft model reads": texts,
        "the target model reads": texts,
        "storing": cost.positions,
        "the check": cost.positions,
        "figures and report": 1,
    }
    assert [step.origin for step in cost.steps] == [MEASURED] * 7 + [ASSUMED]
    assert cost.steps[0].cpu_s == 2.5
    assert all(step.each_s >= 0 for step in cost.steps)
    assert cost.cpu_s == pytest.approx(sum(step.cpu_s for step in cost.steps))
    assert cost.wall_s <= cost.cpu_s


def test_dear_prompts_are_timed_on_one_text(pair, monkeypatch):
    monkeypatch.setattr("validation.claims.cost.TRIAL_S", 0.0)
    cost = cost_of_pair(pair, PROMPTS, ASKED, 1, 2.5, lambda text: None)
    (reading,) = (step for step in cost.steps if step.name == "it reads the prompts")
    assert reading.source == "1 text"
    assert reading.each_s > 0


def test_texts_that_end_take_more_batches():
    """Half of ten texts ended within ten tokens: a token ends a text with 5.5/76."""
    texts = [Text(0, "a", [1, 5, *([7] * 4), 9], 2)] * 5 + [Text(0, "b", [1, 5, *([7] * 10)], 2)] * 5
    found = ASKED.ending(texts, (9,))
    rate = 5.5 / 76
    assert found.length == pytest.approx(sum((1 - rate) ** t for t in range(20)))
    assert found.batches == -(-100 // (3 * found.length))
    assert found.expected == round(found.texts * found.length)
    never = ASKED.ending([Text(0, "b", [1, *([7] * 1000)], 1)] * 10, (9,))
    assert 19.9 < never.length < 20


@pytest.fixture
def words(folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("two and two\nthe sum of three\n")
    return [
        *("validate", "--dry-run", "--draft", str(folders[0]), "--target", str(folders[1])),
        *("--prompts", str(prompts), "--new-tokens", "16", "--positions", "64"),
    ]


def test_the_command_prints_the_cost_and_starts_nothing(words, tmp_path):
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert "V = 300. Disk: " in result.output
    for said in ("the target model writes", "measured: 2 texts", "the check", "assumed: ", "Nothing was started."):
        assert said in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["prompts.txt"]
    found = json.loads(run(*words, "--positions", "640", "--json").stdout)
    assert found["positions"] >= 640
    assert found["batches"] >= 20
    assert found["cpu_s"] == pytest.approx(sum(step["cpu_s"] for step in found["steps"]))
