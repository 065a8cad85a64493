"""Import of a user's logits: every file type gives the same trace, and every fault is named."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import zarr
from safetensors.numpy import save_file

from tests.validation.stopping import stopped, stopped_and_resumed
from validation.collection import import_logits as module
from validation.collection.import_logits import import_logits
from validation.errors import UserError
from validation.trace.reader import Trace, open_trace

N, V = 50, 12
RNG = np.random.default_rng(3)
DRAFT, TARGET = (RNG.normal(0, 3, (N, V)).astype(np.float32) for _ in range(2))


def as_npy(folder: Path) -> tuple[str, str]:
    np.save(folder / "d.npy", DRAFT)
    np.save(folder / "t.npy", TARGET)
    return str(folder / "d.npy"), str(folder / "t.npy")


def as_columns(folder: Path) -> tuple[str, str]:
    np.save(folder / "d.npy", np.asfortranarray(DRAFT))
    np.save(folder / "t.npy", TARGET.astype(">f8"))
    return str(folder / "d.npy"), str(folder / "t.npy")


def as_safetensors(folder: Path) -> tuple[str, str]:
    save_file({"draft": DRAFT, "target": TARGET}, folder / "both.safetensors")
    return f"{folder}/both.safetensors:draft", f"{folder}/both.safetensors:target"


def as_zarr(folder: Path) -> tuple[str, str]:
    zarr.create_group(str(folder / "group.zarr")).create_array("draft", data=DRAFT, chunks=(7, 5))
    zarr.save_array(str(folder / "target.zarr"), TARGET)
    return f"{folder}/group.zarr:draft", f"{folder}/target.zarr"


KINDS = [as_npy, as_columns, as_safetensors, as_zarr]


@pytest.mark.parametrize("save", KINDS, ids=lambda save: save.__name__)
@pytest.mark.parametrize("block", [1, V * 7, 2**22])
def test_every_kind_of_file(tmp_path, monkeypatch, save, block):
    monkeypatch.setattr(module, "BLOCK_VALUES", block)
    draft, target = save(tmp_path)
    trace = import_logits(draft, target, tmp_path / "out")
    assert open_trace(tmp_path / "out", verify=True).positions == N
    assert np.array_equal(trace.arrays["draft_logits"], DRAFT.astype(np.float16))
    assert np.array_equal(trace.arrays["target_logits"], TARGET.astype(np.float16))
    assert set(trace.arrays["tokens"][:]) == {-1}
    assert trace.arrays["position"][:].tolist() == list(range(N))
    assert trace.manifest["pair"]["name"] == "imported"
    assert str(tmp_path) not in (tmp_path / "out" / "manifest.json").read_text()


def test_bfloat16(tmp_path):
    from safetensors.torch import save_file

    rows = torch.from_numpy(DRAFT).to(torch.bfloat16)
    save_file({"logits": rows}, tmp_path / "d.safetensors")
    trace = import_logits(f"{tmp_path}/d.safetensors", f"{tmp_path}/d.safetensors", tmp_path / "out")
    assert np.array_equal(trace.arrays["draft_logits"], rows.float().numpy().astype(np.float16))


def imported(tmp_path: Path, draft: Any = DRAFT, target: Any = TARGET, **options: Any) -> Trace:
    for name, array in (("d", draft), ("t", target)):
        np.save(tmp_path / f"{name}.npy", array)
    return import_logits(tmp_path / "d.npy", tmp_path / "t.npy", tmp_path / options.pop("out", "out"), **options)


def test_tokens_and_texts(tmp_path):
    tokens = RNG.integers(0, V, N)
    texts = np.repeat([7, 3, 9], [20, 1, 29])
    for name, array in (("tokens", tokens), ("texts", texts)):
        np.save(tmp_path / f"{name}.npy", array)
    trace = imported(tmp_path, tokens=tmp_path / "tokens.npy", texts=tmp_path / "texts.npy")
    assert np.array_equal(trace.arrays["tokens"], tokens)
    assert trace.arrays["prompt_index"][:].tolist() == [0] * 20 + [1] + [2] * 29
    assert trace.arrays["position"][:].tolist() == [*range(20), 0, *range(29)]


def test_large_values_are_kept_in_float32(tmp_path):
    large = DRAFT.copy()
    large[4, 5], large[9, 1] = 70_000, -1e30
    trace = imported(tmp_path, large)
    assert trace.manifest["dtype"] == "float32"
    assert trace.manifest["notes"][0] == "2 logits are beyond float16 (65504), so all are stored as float32."
    assert np.array_equal(trace.arrays["draft_logits"], large)
    with pytest.raises(
        UserError, match=r"d\.npy holds 2 values beyond float16 \(65504\), the first at row 4, column 5"
    ):
        imported(tmp_path, large, dtype="float16", out="half")
    with pytest.raises(UserError, match=r"d\.npy holds a value of magnitude 1e\+200, more than float32 holds"):
        imported(tmp_path, np.full((N, V), 1e200), out="huge")


@pytest.mark.parametrize(
    ("draft", "message"),
    [
        (
            DRAFT[:-1],
            r"The shapes differ: \(49, 12\) in .*d\.npy, \(50, 12\) in .*t\.npy; both models' logits are needed",
        ),
        (DRAFT[0], r"d\.npy has shape \(12,\); the draft logits must have shape \(N, V\), one row a position"),
        (DRAFT[None], r"d\.npy has shape \(1, 50, 12\); the draft logits must have shape"),
        (DRAFT[:0], r"d\.npy is empty \(shape \(0, 12\)\); give at least one row"),
        (DRAFT.astype(int), r"d\.npy holds int64, but the draft logits must be floating-point numbers"),
        (np.array([{}]), r"d\.npy holds Python objects \(a pickle\), which are never loaded"),
        (
            np.where(np.arange(V) == 2, np.nan, DRAFT),
            r"d\.npy holds 50 values that are not finite numbers, the first \(nan\) at row 0, column 2; replace them",
        ),
        (
            np.where((np.arange(V) == 2) & (np.arange(N)[:, None] == 30), -np.inf, DRAFT),
            r"holds 1 value that is not a finite number, the first \(-inf\) at row 30, column 2; .* such as -60000",
        ),
        (np.full((N, V), 1 / V), r"d\.npy looks like probabilities .*, but logits are needed; give their logarithms"),
    ],
)
def test_wrong_arrays(tmp_path, monkeypatch, draft, message):
    monkeypatch.setattr(module, "BLOCK_VALUES", 7 * V)
    with pytest.raises(UserError, match=message) as caught:
        imported(tmp_path, draft)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_wrong_files(tmp_path):
    target = as_npy(tmp_path)[1]
    both = Path(as_safetensors(tmp_path)[0].rpartition(":")[0])
    (tmp_path / "text.csv").write_text("1,2")
    (tmp_path / "torn.npy").write_bytes((tmp_path / "d.npy").read_bytes()[:-100])
    (tmp_path / "torn.safetensors").write_bytes(both.read_bytes()[:-100])
    (tmp_path / "empty").mkdir()
    for where, message in {
        "gone.npy": r"There is no file .*gone\.npy; check the path",
        "gone.zarr:x": r"There is no file .*gone\.zarr; check the path",
        "text.csv": r"text\.csv is not one of \.npy, \.safetensors, \.zarr or .*; save the logits as one of",
        "torn.npy": r"torn\.npy cannot be read \(.*\); check that it is complete",
        "torn.safetensors:draft": r"torn\.safetensors cannot be read \(.*\); check that it is complete",
        "empty": r"empty cannot be read \(.*\); check that it is complete",
        "d.npy:x": r"d\.npy holds one array without a name; leave out ':x'",
        "both.safetensors": r"both\.safetensors holds 2 arrays \(draft, target\); name one, as in both\.safetensors:",
        "both.safetensors:x": r"both\.safetensors holds no array 'x'; there are: draft, target",
    }.items():
        with pytest.raises(UserError, match=message) as caught:
            import_logits(f"{tmp_path}/{where}", target, tmp_path / "out")
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_wrong_tokens_and_texts(tmp_path):
    for name, option, array, message in [
        ("a", "tokens", np.zeros(N - 1, int), r"a\.npy holds int64 of shape \(49,\); tokens must be \(50,\) integers"),
        ("b", "tokens", np.zeros(N), r"b\.npy holds float64 of shape \(50,\); tokens must be \(50,\) integers"),
        ("c", "tokens", np.arange(N), r"c\.npy holds the token 12 at row 12; tokens lie in 0 to 11"),
        ("d", "texts", np.arange(N) % 2, r"The rows of text 0 in .*d\.npy lie apart; put the rows of a text together"),
    ]:
        (tmp_path / name).mkdir()
        np.save(tmp_path / f"{name}.npy", array)
        with pytest.raises(UserError, match=message):
            imported(tmp_path / name, **{option: tmp_path / f"{name}.npy"})


def test_an_import_that_was_stopped_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_VALUES", 4 * V)
    monkeypatch.setattr(module, "COMMIT_BLOCKS", 2)
    places = as_npy(tmp_path)

    make = partial(import_logits, *places)
    assert stopped_and_resumed(make, tmp_path, 21, during="storing")[0] == 28
    stopped(make, tmp_path / "out", 21, during="storing")
    with pytest.raises(UserError, match=r"unfinished trace of other settings .*\(asked_dtype: auto there, float32 now"):
        import_logits(*places, tmp_path / "out", dtype="float32")
    assert import_logits(*places, tmp_path / "out").positions == N
    os.utime(places[0], (1e9, 1e9))
    with pytest.raises(UserError, match=r"other settings .*\(draft: d\.npy \(2,528 bytes of .* now\); use those"):
        import_logits(*places, tmp_path / "out")
    assert import_logits(*places, tmp_path / "out", fresh=True).positions == N


PEAK = """
import resource, sys, zarr
import numpy as np
from pathlib import Path
from validation.collection.import_logits import import_logits
rows, folder = int(sys.argv[1]), Path(sys.argv[2])
array = zarr.create_array(str(folder / "x.zarr"), shape=(rows, 2000), chunks=(500, 2000), dtype="float16")
for start in range(0, rows, 1000):
    array[start : start + 1000] = np.random.default_rng(start).normal(size=(1000, 2000))
trace = import_logits(folder / "x.zarr", folder / "x.zarr", folder / "out")
for chunk in trace.chunks(500):
    pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "linux" else 2**20))
"""


@pytest.mark.skipif(os.name != "posix", reason="asks POSIX for the peak of memory")
def test_memory_does_not_grow_with_the_length(tmp_path):
    peaks = []
    for rows in (4000, 18_000):
        (tmp_path / str(rows)).mkdir()
        command = [sys.executable, "-c", PEAK, str(rows), str(tmp_path / str(rows))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout))
    assert peaks[1] - peaks[0] < 40, peaks
