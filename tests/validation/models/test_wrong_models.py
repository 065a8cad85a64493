"""Models and devices with unusual faults: each gives one sentence."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.validation.command_line import one_sentence, run
from validation.errors import UserError
from validation.models.devices import choose_device
from validation.models.pair import load_pair


def changed(folder: Path, to: Path, file: str, **values: Any) -> Path:
    shutil.copytree(folder, to)
    content = json.loads((to / file).read_text()) if (to / file).exists() else {}
    (to / file).write_text(json.dumps(content | values))
    return to


def loaded(draft: Path, target: Path) -> tuple[tuple[int, ...] | None, str]:
    try:
        return load_pair(draft=draft, target=target).end_tokens, ""
    except UserError as error:
        return None, str(error)


@pytest.mark.parametrize("device", ["meta", "xpu", "mps", "hpu", "vulkan", "cpu:-2", ""])
def test_a_device_that_computes_nothing_is_refused(device):
    with pytest.raises(UserError, match=r"use .*'cpu'"):
        choose_device(device)
    one_sentence(run("validate", "--device", device), "'cpu'")


@pytest.mark.parametrize(
    "values",
    [
        {"num_attention_heads": 0},
        {"num_attention_heads": 3},
        {"hidden_size": "wide"},
        {"vocab_size": None},
        {"rope_scaling": 3},
        {"hidden_act": "none"},
        {"model_type": 7},
    ],
    ids=str,
)
def test_a_configuration_that_makes_no_model(folders, tmp_path, values):
    wrong = changed(folders[1], tmp_path / "wrong", "config.json", **values)
    one_sentence(run("validate", "--draft", folders[0], "--target", wrong), "wrong")


@pytest.mark.parametrize("value", ["end", -1, 300, 10**9, 10**30, [0, "x"], [[1]], True, 1.5, {}], ids=str)
@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
def test_an_end_that_is_no_token(folders, tmp_path, file, value):
    wrong = changed(folders[1], tmp_path / "wrong", file, eos_token_id=value)
    if file == "config.json":
        (wrong / "generation_config.json").unlink(missing_ok=True)
    ends, said = loaded(folders[0], wrong)
    if ends is None:
        assert "eos_token_id" in said or "wrong" in said
    else:
        assert ends in ((), (0,))  # what transformers itself leaves out or mends


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a": ' + "9" * 5000 + "}", "3", "", "\x00"], ids=range(5))
@pytest.mark.parametrize("file", ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"])
def test_json_that_is_none_or_too_deep(folders, tmp_path, file, content):
    wrong = tmp_path / "wrong"
    shutil.copytree(folders[1], wrong)
    (wrong / file).write_text(content)
    ends, said = loaded(folders[0], wrong)
    assert ends is not None or "wrong" in said


def test_a_number_of_layers_that_none_has_is_refused_at_once(folders, tmp_path):
    deep = changed(folders[0], tmp_path / "deep", "config.json", num_hidden_layers=1_000_000)
    assert "num_hidden_layers = 1,000,000; at most 10,000" in loaded(deep, folders[1])[1]
