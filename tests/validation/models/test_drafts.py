"""Drafts that lean on a target model: 8-bit weights, early exits, folders and refusals, on tiny random models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.single_draft import Hlm
from validation.errors import UserError
from validation.models import drafts, smollm2
from validation.models.pair import load_pair
from validation.models.sources import ModelSource
from validation.training.recipes import Recipe, build_model

IDS = torch.arange(3, 15)[None]


@pytest.fixture
def place(folders: tuple[Path, Path], tmp_path: Path) -> Path:
    """A folder with the target model in ``large``."""
    shutil.copytree(folders[1], tmp_path / "large")
    return tmp_path


@pytest.fixture
def target(place: Path) -> Any:
    return ModelSource(str(place / "large")).load_model("float32").eval()


def tied() -> Any:
    """Return a small model whose head is its embedding."""
    shape = Recipe(hidden=8, feed_forward=16, layers=1, heads=2, context=64, matrix_rate=0.0, other_rate=0.0)
    return build_model(shape, 300).eval()


def write_int4(place: Path, model: Any, **told: Any) -> Path:
    folder = place / "small"
    drafts.save(folder, model.config, drafts.pack(model), {"kind": "int4", "target": "../large"} | told)
    return folder


def write_exit(place: Path, target: Any, layers: int = 1, **told: Any) -> tuple[Path, torch.Tensor]:
    size = target.config.hidden_size
    weights = torch.randn(size, size, generator=torch.Generator().manual_seed(1)).half()
    mark = drafts.fingerprint(target, layers)
    config = type(target.config)(
        **target.config.to_dict() | {"num_hidden_layers": layers, "tie_word_embeddings": False}
    )
    drafts.save(
        place / "exit", config, {"exit.weight": weights}, {"kind": "exit", "target": "../large", "mark": mark} | told
    )
    return place / "exit", weights.float()


# ---------------------------------------------------------------------------------------------- 4 bits


def test_four_bits_keep_each_weight_within_half_a_step():
    model = tied()
    stored = drafts.pack(model)
    assert {v.dtype for n, v in stored.items() if not n.endswith(".scale")} == {torch.uint8, torch.float32}
    assert "lm_head.weight" not in stored  # tied
    found = drafts.unpack(stored)
    for name, weights in model.named_parameters():
        if weights.ndim == 1:
            assert torch.equal(found[name], weights)
            continue
        step = weights.detach().abs().amax(dim=1, keepdim=True) / 7  # rows shorter than a block
        assert ((found[name] - weights).abs() <= 0.503 * step).all()  # the scale is rounded to float16


def test_each_block_of_32_weights_has_its_own_scale():
    layer = torch.nn.Linear(70, 2, bias=False)
    wanted = torch.tensor([[7.0] * 31 + [-7.0] + [14.0] * 32 + [70.0, 10.0] * 3, [-1.0] * 32 + [0.0] * 38])
    with torch.no_grad():
        layer.weight.copy_(wanted)
    stored = drafts.pack(layer)
    assert stored["weight"].shape == (2, 35)
    assert torch.equal(stored["weight.scale"][0], torch.tensor([1.0, 2.0, 10.0]).half())
    assert stored["weight"][0, 15].item() == (16 - 7) << 4 | 7  # the second of two weights is in the high half
    found = drafts.unpack(stored)["weight"]
    torch.testing.assert_close(found, wanted, rtol=2e-3, atol=0.0)


def test_a_row_of_zeros_stays_zero():
    layer = torch.nn.Linear(4, 3, bias=False)
    with torch.no_grad():
        layer.weight[1] = 0.0
    assert torch.equal(drafts.unpack(drafts.pack(layer))["weight"][1], torch.zeros(4))


@pytest.mark.parametrize("shares_head", [True, False])
def test_a_folder_in_4_bits_loads_as_its_dequantised_model(place, folders, shares_head):
    model = tied() if shares_head else ModelSource(str(folders[0])).load_model("float32").eval()
    folder = write_int4(place, model)
    loaded = ModelSource(str(folder)).load_model("float32").eval()
    model.load_state_dict(drafts.unpack(drafts.pack(model)), strict=False)
    with torch.no_grad():
        assert torch.equal(loaded(IDS).logits, model(IDS).logits)
    assert (loaded.lm_head.weight is loaded.model.embed_tokens.weight) is shares_head
    assert ModelSource(str(folder)).load_model("bfloat16").dtype == torch.bfloat16


# ---------------------------------------------------------------------------------------------- the early exit


def test_an_exit_is_the_first_blocks_the_map_and_the_head(place, target):
    folder, weights = write_exit(place, target)
    with torch.no_grad():
        states = target(IDS, output_hidden_states=True).hidden_states[1]
        expected = target.lm_head(target.model.norm(states) @ weights.T)
    loaded = ModelSource(str(folder)).load_model("float32").eval()
    with torch.no_grad():
        torch.testing.assert_close(loaded(IDS).logits, expected, rtol=1e-4, atol=1e-5)
        first = loaded(IDS[:, :7], use_cache=True)
        step = loaded(IDS[:, 7:8], past_key_values=first.past_key_values, use_cache=True)
        torch.testing.assert_close(step.logits[:, 0], expected[:, 7], rtol=1e-4, atol=1e-5)
    assert loaded.config.num_hidden_layers == 1


def test_both_kinds_draft_for_their_target_with_its_tokenizer(place, folders, target):
    own = ModelSource(str(folders[0])).load_model("float32")
    for folder in (write_int4(place, own), write_exit(place, target)[0]):
        assert {file.name for file in folder.iterdir()} == {"config.json", "model.safetensors"}
        pair = load_pair(draft=folder, target=place / "large")
        (record,) = decode(pair, [Prompt("a", "one two", "toy")], Hlm(), new_tokens=6)
        assert record.tokens


def test_a_target_that_changed_is_refused(place, target, folders):
    folder, _ = write_exit(place, target)
    with torch.no_grad():
        target.model.layers[0].mlp.up_proj.weight[0, 0] += 1.0
    target.save_pretrained(place / "large")
    with pytest.raises(UserError, match=r"was fitted to a target model with the fingerprint"):
        ModelSource(str(folder)).load_model("float32")


@pytest.mark.parametrize(("layers", "size"), [(0, None), (99, None), (1, 3)])
def test_a_map_or_depth_that_does_not_fit_is_refused(target, layers, size):
    size = size or target.config.hidden_size
    with pytest.raises(UserError, match="does not fit a target"):
        drafts.cut(target, layers, torch.eye(size))


def test_the_fingerprint_counts_what_the_exit_uses_and_no_more(target):
    before = drafts.fingerprint(target, 1)
    with torch.no_grad():
        target.model.layers[-1].mlp.up_proj.weight += 1.0
    assert drafts.fingerprint(target, 1) == before
    with torch.no_grad():
        target.model.norm.weight += 1.0
    assert drafts.fingerprint(target, 1) != before


# ---------------------------------------------------------------------------------------------- folders


def test_the_wheels_model_is_a_target_by_its_name(place, folders, monkeypatch):
    monkeypatch.setattr(smollm2, "weights_file", lambda: place / "large")
    folder = write_int4(place, ModelSource(str(folders[0])).load_model("float32"), target="smollm2")
    assert ModelSource(str(folder)).leaned_on == ModelSource(str(place / "large"))
    assert ModelSource(str(place / "large")).leaned_on is None


@pytest.mark.parametrize("named", ["/etc", "../../large", "owner/model", 3, None])
def test_only_the_wheels_model_and_a_folder_beside_it_are_targets(place, folders, named):
    folder = write_int4(place, ModelSource(str(folders[0])).load_model("float32"), target=named)
    with pytest.raises(UserError, match="names the target model"):
        ModelSource(str(folder)).load_tokenizer()


def test_a_missing_target_and_a_draft_as_target_are_refused(place, folders):
    model = ModelSource(str(folders[0])).load_model("float32")
    for named in ("../none", "../small"):
        folder = write_int4(place, model, target=named)
        with pytest.raises(UserError, match="holds no whole model"):
            ModelSource(str(folder)).load_tokenizer()


def test_an_unknown_kind_and_damaged_weights_are_refused(place, folders, target):
    model = ModelSource(str(folders[0])).load_model("float32")
    with pytest.raises(UserError, match="names the kind 'int8'"):
        ModelSource(str(write_int4(place, model, kind="int8"))).load_model("float32")
    folder = write_int4(place, model)
    stored = load_file(folder / "model.safetensors")
    del stored["model.norm.weight"]
    save_file(stored, folder / "model.safetensors")
    with pytest.raises(UserError, match=r"is damaged \('?model\.norm\.weight"):
        ModelSource(str(folder)).load_model("float32")
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(UserError, match="is damaged"):
        ModelSource(str(folder)).load_model("float32")
    folder, _ = write_exit(place, target)
    save_file({"other": torch.zeros(1)}, folder / "model.safetensors")
    with pytest.raises(UserError, match="is damaged"):
        ModelSource(str(folder)).load_model("float32")


def test_what_the_folder_says_is_read_defensively(tmp_path):
    assert drafts.settings(tmp_path) is None
    for text in ("{", "[]", json.dumps({"draft": "int4"})):
        (tmp_path / "config.json").write_text(text)
        assert drafts.settings(tmp_path) is None
