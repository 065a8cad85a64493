"""Shards of a trace: merged, they are the trace of one process bit for bit; anything else is refused."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from validation.collection import merge as merging
from validation.collection.collect import collect, settings_of
from validation.collection.merge import merge_shards
from validation.collection.prompts import Prompt
from validation.collection.shards import ShardNumber, collect_shard, its_share
from validation.errors import UserError
from validation.models.pair import Pair
from validation.trace.reader import open_trace

TEXTS = ["two and", "what is the sum of three", "it", "four apples?", "the best of times was it", "of", "three"]
PROMPTS = [Prompt(f"p{i}", text, "test") for i, text in enumerate(TEXTS)]
SETTINGS: dict[str, Any] = {"positions": 60, "new_tokens": 8, "batch": 2, "seed": 1}
OWN = {"created", "command", "speed", "shards"}
"""Entries of the manifest that differ from those of one process."""


@pytest.fixture(scope="module")
def ending(pair):
    return dataclasses.replace(pair, end_tokens=tuple(range(0, 300, 25)))


def shard(pair: Pair, folder: Path, place: ShardNumber, batches: int | None = None, **changed: Any) -> list[int]:
    prompts = changed.pop("prompts", PROMPTS)
    more = {name: changed.pop(name) for name in ("fresh", "progress", "go_on") if name in changed}
    settings, encoded = settings_of(pair, prompts, **(SETTINGS | changed))
    rule = {"go_on": its_share(settings, place, batches)} | more
    return collect_shard(pair, prompts, settings, encoded, folder, place, **rule)


def shards(pair: Pair, base: Path, of: int, batches: int | None = None, **changed: Any) -> list[Path]:
    folders = [base / f"{number}-of-{of}" for number in range(1, of + 1)]
    for number, folder in enumerate(folders, start=1):
        shard(pair, folder, ShardNumber(number, of), batches, **changed)
    return folders


def array_bytes(trace: Path) -> dict[str, bytes]:
    files = [file for file in (trace / "arrays").rglob("*") if file.is_file()]
    return {file.relative_to(trace).as_posix(): file.read_bytes() for file in files}


def assert_same(trace: Path, expected: Path) -> None:
    assert array_bytes(trace) == array_bytes(expected)
    found, wanted = (json.loads((path / "manifest.json").read_text()) for path in (trace, expected))
    assert {**found, **dict.fromkeys(OWN)} == {**wanted, **dict.fromkeys(OWN)}
    assert [name for name in found if name not in OWN] == [name for name in wanted if name not in OWN]
    assert open_trace(trace, verify=True).positions == wanted["positions"]


@pytest.mark.parametrize("of", [1, 2, 3])
@pytest.mark.parametrize("positions", [60, None])
def test_merged_shards_are_the_trace_of_one_process(ending, tmp_path, of, positions):
    one = collect(ending, PROMPTS, tmp_path / "one", **(SETTINGS | {"positions": positions}))
    folders = shards(ending, tmp_path, of, None if positions is None else 12, positions=positions)
    merged = merge_shards(folders[::-1], tmp_path / "merged")
    assert_same(merged.path, one.path)
    assert sum(entry["batches"] for entry in merged.manifest["shards"]) == (4 if positions is None else 12)
    assert len(merged.manifest["prompts"]) == 7
    calls = []
    again = collect(ending, PROMPTS, merged.path, **(SETTINGS | {"positions": positions}), progress=calls.append)
    assert again.positions == merged.positions
    assert not calls  # one process takes the merged trace for its own


def test_a_shard_stops_at_its_share_and_an_incomplete_one_is_named(ending, tmp_path):
    one = collect(ending, PROMPTS, tmp_path / "one", **SETTINGS)
    folders = [tmp_path / "a", tmp_path / "b"]
    counts = shard(ending, folders[0], ShardNumber(1, 2))
    assert sum(counts) * 2 >= 60 > sum(counts[:-1]) * 2
    shard(ending, folders[1], ShardNumber(2, 2), 2)
    with pytest.raises(UserError, match=r"Shard 2/2 at .*b has 1 of its \d batches: continue .* --batches \d+") as it:
        merge_shards(folders, tmp_path / "merged")
    assert not (tmp_path / "merged").exists()
    batches = int(str(it.value).split("--batches ")[1].split(",")[0])
    for number, folder in enumerate(folders, start=1):
        shard(ending, folder, ShardNumber(number, 2), batches)
    assert_same(merge_shards(folders, tmp_path / "merged").path, one.path)


def test_a_stopped_merge_goes_on_by_itself_or_by_one_process(ending, tmp_path, monkeypatch):
    one = collect(ending, PROMPTS, tmp_path / "one", **SETTINGS)
    folders = shards(ending, tmp_path, 2, 12)
    copy, copied = merging._copy, []

    def stopped(*args):
        copied.append(args[1])
        if len(copied) == 4:
            raise KeyboardInterrupt
        copy(*args)

    for name in ("merge", "collect"):
        copied.clear()
        with monkeypatch.context() as patch:
            patch.setattr(merging, "_copy", stopped)
            with pytest.raises(KeyboardInterrupt):
                merge_shards(folders, tmp_path / name)
        assert not (tmp_path / name / "manifest.json").exists()
    merge_shards(folders, tmp_path / "merge")
    collect(ending, PROMPTS, tmp_path / "collect", **SETTINGS)
    assert_same(tmp_path / "merge", one.path)
    assert_same(tmp_path / "collect", one.path)


@pytest.fixture(scope="module")
def two(ending, tmp_path_factory):
    return shards(ending, tmp_path_factory.mktemp("two"), 2, 12)


def refused(message: str, folders: list[Path], out: Path) -> None:
    with pytest.raises(UserError, match=message) as caught:
        merge_shards(folders, out)
    assert "\n" not in str(caught.value)
    assert not out.exists()


def test_shards_of_other_collections_are_refused(ending, pair, two, tmp_path):
    others = {
        r"seed: 1 and 2": {"seed": 2},
        r"new_tokens: 8 and 9": {"new_tokens": 9},
        r"batch: 2 and 3": {"batch": 3},
        r"positions: 60 and 61": {"positions": 61},
        r"prompts: \w{16} and \w{16}": {"prompts": PROMPTS[:5]},
    }
    for number, (message, changed) in enumerate(others.items()):
        shard(ending, tmp_path / str(number), ShardNumber(2, 2), **changed)
        refused(rf"are shards of different collections \({message}\)", [two[0], tmp_path / str(number)], tmp_path / "m")
    shard(dataclasses.replace(ending, target=pair.draft), tmp_path / "model", ShardNumber(2, 2), 2)
    refused(r"\(large_weights: \w{16} and \w{16}\)", [two[0], tmp_path / "model"], tmp_path / "m")
    shard(ending, tmp_path / "three", ShardNumber(2, 3), 2)
    refused(r"\(shards: 2 and 3\)", [two[0], tmp_path / "three"], tmp_path / "m")


def test_missing_double_and_foreign_shards_are_refused(ending, two, tmp_path):
    refused("Of 2 shards, number 2 is missing; give the folders of all 2", two[:1], tmp_path / "m")
    refused("Shard 2/2 was given twice, at .* and .*; give it once", [*two, two[1]], tmp_path / "m")
    refused("There are no shards", [], tmp_path / "m")
    refused("There is no shard at .*nowhere", [two[0], tmp_path / "nowhere"], tmp_path / "m")
    whole = collect(ending, PROMPTS, tmp_path / "whole", **SETTINGS)
    refused("There is a whole trace at", [two[0], whole.path], tmp_path / "m")
    with pytest.raises(UserError, match=r"A trace of other settings lies at .*seed: 3 there, 1 now.*--fresh"):
        merge_shards(two, collect(ending, PROMPTS, tmp_path / "third", **(SETTINGS | {"seed": 3})).path)


def test_damage_is_named(ending, tmp_path):
    folders = shards(ending, tmp_path, 2, 12)
    file = folders[1] / "shard.json"
    before = file.read_text()
    file.write_text(before.replace('"seed": 1', '"seed": 2'))
    refused(r"shard.json is damaged: it does not match its checksum", folders, tmp_path / "m")
    file.write_text(before)
    (folders[0] / "rows").rename(tmp_path / "rows")
    (folders[1] / "rows").rename(folders[0] / "rows")
    refused("rows does not belong to .*shard.json", folders, tmp_path / "m")
    (tail,) = (tmp_path / "rows").glob("tail-*.npz")
    content = tail.read_bytes()
    tail.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (folders[0] / "rows").rename(folders[1] / "rows")
    (tmp_path / "rows").rename(folders[0] / "rows")
    refused("tail-.* is damaged", folders, tmp_path / "m")
