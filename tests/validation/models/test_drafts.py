"""The small draft in 4 bits that leans on a target model, on tiny random models."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from validation.errors import UserError
from validation.models import drafts, smollm2
from validation.models.sources import ModelSource
from validation.training.recipes import Recipe, build_model

IDS = torch.arange(3, 15)[None]


@pytest.fixture
def place(folders, tmp_path):
    shutil.copytree(folders[1], tmp_path / "large")
    return tmp_path


def tied() -> Any:
    shape = Recipe(hidden=8, feed_forward=16, layers=1, heads=2, context=64, matrix_rate=0.0, other_rate=0.0)
    return build_model(shape, 300).eval()


def write_int4(place: Path, model: Any, **told: Any) -> Path:
    folder = place / "small"
    folder.mkdir(exist_ok=True)
    save_file({name: values.contiguous() for name, values in pack(model).items()}, folder / "model.safetensors")
    known = model.config.to_dict() | {"draft": {"kind": "int4", "target": "../large"} | told, "dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(known))
    return folder


def pack(model: Any) -> dict[str, torch.Tensor]:
    """Return a model's weights in 4 bits: two of a row in one byte, and the largest of each block of 32 over 7."""
    found = {}
    for name, weights in model.named_parameters():  # a tied head is named once
        values = weights.detach().float()
        if values.ndim != 2:
            found[name] = values.contiguous()
            continue
        scale = torch.stack([block.abs().amax(dim=1) for block in values.split(32, dim=1)], dim=1) / 7
        scale = scale.clamp_min(2.0**-24).half()
        each = scale.float().repeat_interleave(32, dim=1)[:, : values.shape[1]]
        steps = (values / each).round().clamp(-7, 7).to(torch.uint8) & 15
        found[name], found[name + ".scale"] = steps[:, ::2] | steps[:, 1::2] << 4, scale
    return found


def test_four_bits_keep_each_weight_within_half_a_step():
    model = tied()
    stored = pack(model)
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
    stored = pack(layer)
    assert stored["weight"].shape == (2, 35)
    assert torch.equal(stored["weight.scale"][0], torch.tensor([1.0, 2.0, 10.0]).half())
    assert stored["weight"][0, 15].item() == (16 - 7) << 4 | 7  # the second of two weights is in the high half
    torch.testing.assert_close(drafts.unpack(stored)["weight"], wanted, rtol=2e-3, atol=0.0)


@pytest.mark.parametrize("shares_head", [True, False])
def test_a_folder_in_4_bits_loads_as_its_dequantised_model(place, folders, shares_head):
    model = tied() if shares_head else ModelSource(str(folders[0])).load_model("float32").eval()
    folder = write_int4(place, model)
    loaded = ModelSource(str(folder)).load_model("float32").eval()
    model.load_state_dict(drafts.unpack(pack(model)), strict=False)
    with torch.no_grad():
        assert torch.equal(loaded(IDS).logits, model(IDS).logits)
    assert (loaded.lm_head.weight is loaded.model.embed_tokens.weight) is shares_head
    assert ModelSource(str(folder)).load_model("bfloat16").dtype == torch.bfloat16


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


def test_an_unknown_kind_and_damaged_weights_are_refused(place, folders):
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


def test_what_the_folder_says_is_read_defensively(tmp_path):
    assert drafts.settings(tmp_path) is None
    for text in ("{", "[]", json.dumps({"draft": "int4"})):
        (tmp_path / "config.json").write_text(text)
        assert drafts.settings(tmp_path) is None
