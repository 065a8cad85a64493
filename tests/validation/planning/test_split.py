"""Whatever a plan calibrates, predicts or bounds counts prompts: equal texts of a prompt add nothing."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.validation.command_line import run
from tests.validation.stored_traces import TEXTS, stored
from validation.decoding.methods.rows import CERTIFIED, DEVICE, OURS
from validation.planning.option import Option
from validation.planning.plan import Planner
from validation.planning.profile import _names
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting, constant_link
from validation.planning.split import split_prompts

SETTING = Setting(constant_link(1e7, 0.02), 0.012, 0.03)


def planned(folder, *words):
    result = run("plan", "--trace", folder / "trace", "--json", *words)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def alike(once, thrice):
    assert once.keys() == thrice.keys()
    for name, value in once.items():
        if isinstance(value, dict):
            alike(value, thrice[name])
        elif isinstance(value, float):
            assert thrice[name] == pytest.approx(value, rel=1e-7, abs=1e-9), name
        else:
            assert thrice[name] == value, name


def test_three_equal_texts_of_each_prompt_change_no_number(tmp_path):
    for repeat in (1, 3):
        stored(tmp_path / str(repeat) / "trace", repeat=repeat)
    once, thrice = plans = [planned(tmp_path / repeat, "--risk", "text=.5") for repeat in ("1", "3")]
    assert thrice["evidence"]["texts"] == 3 * TEXTS
    assert thrice["prompts"] == once["prompts"] == {"train": 14, "calibrate": 13, "test": 13}
    assert thrice["split"] == once["split"]
    for one, three in zip(once["rows"], thrice["rows"], strict=True):
        if one["policy"] not in ("U-HLM", "CU-HLM", CERTIFIED):  # they depend on a sample of positions, or drawn tokens
            alike(one, three)
    allowed = [[one["allowed"] for one in plan["menu"] if one["policy"] == OURS] for plan in plans]
    assert allowed[0] == [pytest.approx(one) for one in allowed[1]]


def test_a_limit_that_the_prompts_cannot_carry_allows_nothing(tmp_path):
    """13 calibration prompts allow no limit below 1/14, whatever they lose; 39 texts would seem to allow 1/40."""
    stored(tmp_path / "trace", noise=0.001, repeat=3)
    shown = run("plan", "--trace", tmp_path / "trace", "--risk", "text=.05").output
    assert "13 calibration prompts, and 19 are needed; the plan is lossless" in shown
    assert "13 held-out prompts" in shown
    row = next(one for one in planned(tmp_path, "--risk", "text=.05")["rows"] if one["policy"] == CERTIFIED)
    assert row["option"].startswith("ε = 0.005, ")  # what its answers lose is proved, not calibrated
    assert (row["threshold"]["value"], row["text_risk"]["basis"]) == (None, "proved")
    assert planned(tmp_path, "--risk", "text=.1")["rows"][-1]["text_risk"]["basis"] == "calibrated on 13 prompts"


def worst(rng, levels, prompts, texts):
    """Options whose loss is 1 from a number u of each prompt on, u ~ U(0, 1): the mean loss at a threshold is it."""
    u = np.repeat(rng.random(prompts), texts)
    counts = np.ones((len(u), len(COUNTS)))
    return [
        Option(OURS, f"u ≤ {at:g}", counts, 1, at, 1.0 * (u <= at), 1.0 * (u <= at), (1, 1), 0) for at in levels
    ] + [Option(DEVICE, "", counts, 0, np.inf, u * 0 + 1, u * 0 + 1, (0, 0))]


@pytest.mark.parametrize("limit", [0.03, 0.07, 0.12])
def test_the_next_prompt_loses_no_more_than_the_limit_in_the_worst_case(limit):
    """20 calibration prompts of three equal texts; with 60 texts for n the mean loss at 0.07 is 2/21."""
    rng = np.random.default_rng(5)
    levels, losses = np.arange(1, 100) / 100, []
    split = split_prompts(np.repeat(np.arange(60), 3))
    setting = replace(SETTING, risk_limit=limit)
    for _ in range(300):
        planner = Planner(worst(rng, levels, 60, 3), setting, split)
        losses.append(max(planner.threshold(setting), 0.0))
    assert split.prompts == {"train": 20, "calibrate": 20, "test": 20}
    assert np.mean(losses) <= limit + 3 * np.std(losses) / np.sqrt(len(losses))
    assert (np.mean(losses) > 0) == (limit > 1 / 21)


def test_a_prompt_that_a_file_repeats_is_one_prompt():
    lines = [{"id": "x", "text": "one"}, {"id": "y", "text": "two"}, {"id": "z", "text": "one"}, {"id": "w"}, {}]
    assert _names(lines) == {0: "x", 1: "y", 2: "x", 3: "w"}
