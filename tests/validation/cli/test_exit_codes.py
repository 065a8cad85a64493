"""Exit code 1 is a verdict and nothing else: every command on malformed values and files ends with 0, 2, 3 or 130.

Each case is a command line that works, with one option replaced by a malformed value, or with one file replaced by a
malformed one. By default some cases of each command are drawn; SWEEP=200 runs so many of each command.
"""

import json
import os
import random
import signal
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from tests.validation.stored_traces import forged, stored
from validation.cli import start
from validation.cli.commands import main
from validation.cli.exits import VIOLATED, Verdict
from validation.trace.journal import read_journal

CASES = int(os.environ.get("SWEEP", "6"))
SECONDS = 5  # a command that runs longer has accepted its input
VALUES = (
    *("", " ", "9" * 30, "[" * 10**5, "../" * 40, "n" * 300, "no\x1b[2J", "\u202ereversed", "\udcff"),
    *("-1", "0", "nan", "-inf", "1e999", "1e308G", "1e-320", "1.5.2", "0x10", "1,,2", "[", "p99=", "p0=1ms", "text=2"),
    *("token=nan", "10**30", "a:b", "a.py:", ":", "s3://", "http://[", "ftp://x", "/dev/null", "/proc/self/mem", "."),
    *("empty", "zeros", "deep.json"),
)
CONTENTS = {
    **{"empty": b"", "zeros": bytes(1000), "not utf-8": b"\xff\xfe\x00", "deep": b"[" * 10**5},
    "deep objects": b'{"a":' * 10**5,
    **{"number": b"5", "null": b"null", "list": b"[]", "object": b"{}", "text": b'"x"'},
    "huge number": b'{"prompt": [0], "continuation": [' + b"9" * 5000 + b"]}",
    "1e999": b'{"prompt": [0], "continuation": [1e999], "target": [[1e999, 1]], "draft": 1e999}',
    "10**30": b'{"prompt": [0], "continuation": [' + b"1" + b"0" * 30 + b'], "prompts": 5, "target": [[0.5, 0.5]]}',
    "nan": b'{"target": [[NaN, 1]], "draft": [[NaN, 1]], "prompts": [NaN]}',
    "prompts 5": b'{"target": [[0.5, 0.5]], "prompts": 5, "end_tokens": "x"}',
    "ragged": b'{"target": [[0.5, 0.5], [1]], "prompts": [[[]]]}',
    "counters": b"vllm:spec_decode_num_drafts_total 1e999\nvllm:spec_decode_num_accepted_tokens_total -5\n",
    "histogram": b'{"acceptance_histogram": {"-1": 5, "x": 1e400}, "num_spec_tokens": -3}',
    "users": b"name,rate\na,1e308G\nb,1e308G\n",
    "weights": b"name,rate,weight\na,10M,1e-320\nb,10M,1e300\n",
    "link": b"time_s,throughput_mbps\n0,-1\n1,nan\n",
    "link of one": b"trace_id,time_s,throughput_mbps\na,0,1e308\n",
    "npy": b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (3,), }" + b" " * 50 + b"\n",
    "zip": b"PK\x03\x04" + b"\x00" * 60,
    "gguf": b"GGUF\x03\x00\x00\x00" + b"\xff" * 40,
    "logits": b"_logits_" + b"\xff" * 60,
    "escapes": b"name,rate\n\x1b[2J\x07\xe2\x80\xae,10M\n",
}
LINES: dict[str, str] = {
    "validate": "--trace trace --out out --no-figures -q",
    "collect": "--draft models --target models --out collected",
    "merge": "shards --out merged",
    "import": "--draft logits.npz:draft --target logits.npz:target --out imported",
    "acceptance": "counts.json --verify-time 30ms --draft-time 5ms",
    "top-k": "counts.json",
    "plan": "--trace trace --rate 10M --rtt 20ms",
    "audit": "--draws-from draws.jsonl --table table.json --depth 1 --draws 200",
    "claims": "batching",
    "decode": "hlm --run missing",
    "figure": "flexspec 2 --out pictures",
    "doctor": "--device nothing",
    "publish": "--run missing",
    "reproduce": "u-hlm --dry-run",
}
FILES = {
    *("counts.json", "draws.jsonl", "table.json", "users.csv", "link.csv", "logits.npz", "deep.json", "prompts.jsonl")
}
MORE = {  # lines that read a further file
    "plan": ("--trace trace --users users.csv --rtt 20ms", "--trace trace --link-csv link.csv --rtt 20ms"),
    "audit": ("--sampler sampler.py:sample --table table.json --depth 1 --draws 100",),
    "validate": ("--draft models --target models --prompts prompts.jsonl --out out -q",),
    "collect": ("--draft models --target models --prompts prompts.jsonl --out collected",),
}


@pytest.fixture(autouse=True)
def no_other_threads(monkeypatch):
    """With other threads running, an interrupted command ends the process at once, and with it the tests."""
    monkeypatch.setattr(start.threading, "active_count", lambda: 1)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    stored(folder / "trace")
    rows = np.random.default_rng(0).normal(size=(2, 20, 8)).astype(np.float32)
    np.savez(folder / "logits.npz", draft=rows[0], target=rows[1])
    (folder / "table.json").write_text('{"target": [[0.5, 0.5]], "draft": [[0.25, 0.75]]}')
    drawn = np.random.default_rng(1).integers(2, size=200).tolist()  # in turn they would be no independent draws
    lines = [json.dumps({"prompt": [0], "continuation": [token]}) for token in drawn]
    (folder / "draws.jsonl").write_text("\n".join(lines))
    counts = {"num_spec_steps": 10, "num_accepted_draft_tokens": 8, "num_draft_tokens": 20}
    counts["acceptance_histogram_by_draft_length"] = {"2": [5, 2, 3]}
    (folder / "counts.json").write_text(json.dumps({"metrics": {"speculative_decoding": counts}}))
    (folder / "users.csv").write_text("name,rate\na,10M\nb,20M\n")
    (folder / "link.csv").write_text("time_s,throughput_mbps\n0,5\n1,6\n2,4\n")
    (folder / "prompts.jsonl").write_text('{"prompt": "two and two"}\n')
    (folder / "sampler.py").write_text("import sys\ndef sample(prompt, n, seed):\n    sys.exit(1)\n")
    for name in ("models", "shards", "empty"):
        (folder / name).mkdir()
    for name in ("models/config.json", "deep.json"):
        (folder / name).write_bytes(CONTENTS["deep"])
    (folder / "zeros").write_bytes(bytes(1000))
    return folder


def cases_of(name: str) -> list[tuple[str, list[str], tuple[str, bytes] | None]]:
    command = main.commands[name]
    lines = [LINES[name].split(), *(line.split() for line in MORE.get(name, ()))]
    options = [option for option in command.params if isinstance(option, click.Option) and not option.is_flag]
    found: list[tuple[str, list[str], tuple[str, bytes] | None]] = [
        (f"{option.opts[0]}={value[:20]!r}", [*lines[0], option.opts[0], value], None)
        for option in options
        for value in VALUES
    ]
    for line in lines:
        for file in {word.split(":")[0] for word in line} & FILES:
            found += [(f"{file}: {what}", line, (file, content)) for what, content in CONTENTS.items()]
    found += [(f"argument {value[:20]!r}", [value, *lines[0][1:]], None) for value in VALUES]
    return found


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def code_of(words: list[str]) -> Any:
    with pytest.MonkeyPatch.context() as patch, at_most(SECONDS):
        patch.setattr(sys, "argv", ["hlm", *words])
        with pytest.raises(SystemExit) as end:
            start.start(start._commands)
    return end.value.code


@pytest.mark.filterwarnings("ignore:(?s).*KeyboardInterrupt:pytest.PytestUnraisableExceptionWarning")  # of at_most
@pytest.mark.parametrize("name", LINES)
def test_a_malformed_input_is_no_verdict(name, files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    cases = cases_of(name)
    random.Random(zlib.crc32(name.encode())).shuffle(cases)
    wrong, unexpected = [], []
    for label, line, replaced in cases[:CASES]:
        kept = Path(replaced[0]).read_bytes() if replaced else b""
        if replaced:
            Path(replaced[0]).write_bytes(replaced[1])
        try:
            code = code_of([name, *line])
        finally:
            if replaced:
                Path(replaced[0]).write_bytes(kept)
        said = capsys.readouterr().err
        if code not in (0, 2, 3, 130):
            wrong.append((label, code, said[-300:]))
        if "defect of hlm" in said:
            unexpected.append((label, said[-300:]))
    if os.environ.get("SWEEP") and unexpected:
        print(*unexpected, sep="\n")
    assert not wrong
    assert not unexpected, unexpected


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        *((one, 2) for one in (ValueError("what"), SystemExit(1), SystemExit("what"), RecursionError(), MemoryError())),
        *((one, 2) for one in (click.exceptions.Exit(1), type("PanicException", (BaseException,), {})("what"))),
        *((SystemExit(3), 3), (SystemExit(), 0), (KeyboardInterrupt(), 130), (Verdict(), VIOLATED)),
    ],
)
def test_the_one_place_that_decides_the_code(raised, code, capsys):
    def commands(**_):
        raise raised

    with pytest.raises(SystemExit) as end:
        start.start(commands)
    assert end.value.code == code
    assert (
        capsys.readouterr().err.count("\n")
        == (code == 2 and not (isinstance(raised, SystemExit) and raised.code == 1)) + (code == 130) * 2
    )


@pytest.mark.parametrize(
    "manifest", [b"[]", b"5", b'{"format": "hlm-trace", "version": 2, "vocabulary": "x"}', b"[" * 10**5]
)
def test_a_manifest_of_another_form_is_refused(manifest, tmp_path, monkeypatch, capsys):
    """The checksum of a manifest can be right although its content is not."""
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / "trace")
    sealed(tmp_path / "trace", "manifest.json", manifest)
    assert code_of(["validate", "--trace", "trace", "-q"]) == 2
    assert "The manifest of trace" in capsys.readouterr().err


def sealed(trace: Path, name: str, content: bytes) -> None:
    (trace / name).write_bytes(content)
    forged(trace, files=read_journal(trace).files | {name: (len(content), zlib.crc32(content))})
