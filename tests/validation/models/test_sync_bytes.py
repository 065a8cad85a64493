"""Bytes that are sent of a version, on real files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.validation.models.test_adapters import made  # noqa: F401
from validation.errors import UserError
from validation.models.aligned import build_aligned
from validation.models.sources import ModelSource
from validation.models.sync_bytes import anchor_bytes, measure_download


def test_weights_and_their_settings_are_counted_and_nothing_else(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(3, 4), "b": torch.zeros(5)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    for name in ("README.md", "tokenizer.json", "training.json", "version.json", "weights.bin"):
        (tmp_path / name).write_text("x" * 1000)
    (tmp_path / "step-006").mkdir()
    save_file({"a": torch.zeros(99)}, tmp_path / "step-006" / "adapter_model.safetensors")
    found = measure_download(tmp_path)
    assert found.parameters == 17
    weights = (tmp_path / "model.safetensors").stat().st_size
    assert found.files == {"model.safetensors": weights, "config.json": 2}
    assert found.bytes == weights + 2
    assert found.seconds() == {name: pytest.approx(8 * found.bytes / rate) for name, rate in RATES.items()}


RATES = {"WiFi": 10e6, "4G": 50e6, "5G": 300e6}


def test_a_folder_without_readable_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no \*\.safetensors in"):
        measure_download(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"damaged!")
    with pytest.raises(UserError, match=r"model\.safetensors of .* is damaged"):
        measure_download(tmp_path)


def test_an_adapter_and_an_aligned_draft_are_a_part_of_the_target(made: Path) -> None:  # noqa: F811
    whole, adapter, aligned = (measure_download(made / name) for name in ("large", "math", "aligned"))
    assert adapter.parameters == sum(x.numel() for x in load_file(made / "math" / "adapter_model.safetensors").values())
    assert adapter.parameters < whole.parameters
    assert aligned.parameters < whole.parameters
    assert set(adapter.files) == {"adapter_model.safetensors", "adapter_config.json"}


def test_the_shared_part_is_last_block_norm_and_head_in_the_stored_type(made: Path) -> None:  # noqa: F811
    base = ModelSource(str(made / "large")).load_model("auto")
    draft = build_aligned(base, entry_layers=0, entry_width=0, exit_width=4)
    own = sum(weights.numel() for weights in draft.parameters() if weights.requires_grad)
    assert anchor_bytes(made / "large") == 2 * (draft.num_parameters() - own)
