"""Reading traces: what was written is read back, and everything that is not a finished trace is refused."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hlmtheory
from hlmtheory import traces
from validation.trace.reader import TraceWriter

POSITIONS, VOCABULARY = 700, 50
PROMPTS = [{"id": "a", "text": "Once"}, {"id": "b", "text": "Twice"}]


def rows(positions: int = POSITIONS) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, positions, VOCABULARY)).astype(np.float16)
    tokens = rng.integers(0, VOCABULARY, positions).astype(np.int32)
    text = np.arange(positions, dtype=np.int32) // (positions // 2)
    place = np.arange(positions, dtype=np.int32) % (positions // 2)
    found = {"draft_logits": logits[0], "target_logits": logits[1]}
    return found | {"tokens": tokens, "prompt_index": text, "position": place}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "t"
    with TraceWriter(path, VOCABULARY, {"prompts": PROMPTS}) as writer:
        writer.append(**rows())
    return path


@pytest.mark.parametrize("kind", [Path, str])
def test_what_was_written_comes_back(kind, stored):
    trace = hlmtheory.open_trace(kind(stored))
    for name, values in rows().items():
        found = getattr(trace, name)
        assert found.shape == values.shape
        np.testing.assert_array_equal(found[5:600], values[5:600])
        assert found[5:600].dtype == values.dtype
    assert [prompt["text"] for prompt in trace.prompts] == ["Once", "Twice"]


def damaged(stored: Path, path: Path, change) -> Path:
    shutil.copytree(stored, path)
    change(path)
    return path


def rewritten(**changes):
    def change(path: Path) -> None:
        about = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
        (path / "manifest.json").write_text(json.dumps(about | changes), encoding="utf-8")

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: (path / "manifest.json").unlink(), "which has no manifest.json; collect one with"),
        (lambda path: (path / "manifest.json").write_text("{"), "which has no readable manifest.json"),
        (lambda path: (path / "manifest.json").write_text("[]"), "whose manifest does not describe a trace"),
        (rewritten(format="other"), "whose manifest does not describe a trace"),
        (rewritten(version=3), "whose format version is 3, not 2; collect the trace again"),
        (rewritten(positions=9), r"whose arrays have lengths \{'draft_logits': 700, .*, not 9; restore it"),
        (lambda path: (path / "arrays/target_logits/c.0.0").unlink(), "which has 2 of 3 chunks of target_logits"),
        (lambda path: shutil.rmtree(path / "arrays/tokens"), "where tokens cannot be read"),
    ],
)
def test_what_is_no_finished_trace_is_refused(change, words, stored, tmp_path):
    path = damaged(stored, tmp_path / "t", change)
    with pytest.raises(ValueError, match=rf"^path must be the folder of a finished trace; got '.*', {words}"):
        traces.open_trace(path)


def test_a_changed_chunk_is_noticed_when_it_is_read(stored, tmp_path):
    def change(path):
        file = path / "arrays/draft_logits/c.1.0"
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)

    trace = traces.open_trace(damaged(stored, tmp_path / "t", change))
    assert trace.draft_logits[:256].shape == (256, VOCABULARY)
    with pytest.raises(Exception, match=r"(?i)checksum|crc"):
        trace.draft_logits[:300]


def test_without_zarr_it_says_what_to_install(stored):
    code = f"import sys; sys.modules['zarr'] = None\nimport hlmtheory; hlmtheory.open_trace({str(stored)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError: A trace is read with zarr; install it: pip install zarr" in done.stderr


def test_an_address_is_refused_with_what_opens_it():
    with pytest.raises(
        ValueError, match=r"path must be a folder; got 's3://bucket/x', an address; give it to validation"
    ):
        traces.open_trace("s3://bucket/x")
