"""A user's sampler runs in a process of its own: however it fails, the audit names it and gives no verdict."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlmtheory.truncation import online_size
from tests.validation.command_line import one_sentence, run
from validation.audit import samplers
from validation.audit.samplers import file_prompts, method_named
from validation.errors import UserError
from validation.sampler_process import function_named

HEAD = "import os, signal, sys, time\nimport numpy as np\n\nclass Odd(BaseException):\n    pass\n\n"
GOOD = "return [np.random.default_rng(seed).integers(2, size=(n, 1)) for _ in prompts]"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.savez("toy.npz", target=np.array([[0.5, 0.5]]))
    return tmp_path


def audit(body: str, *options: str, head: str = HEAD):
    Path("mine.py").write_text(f"{head}def sample(prompts, n, seed):\n    {body}\n", encoding="utf-8")
    return run("audit", "--sampler", "mine.py:sample", "--table", "toy.npz", "--depth", "1", *options)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit(0)", "raised SystemExit (0)"),
        ("os._exit(0)", "ended its process with code 0"),
        ("raise Odd('odd')", "raised Odd (odd)"),
        ("os.kill(os.getpid(), 9)", "ended its process by signal 9"),
        ("sys.stdout.close(); os.close(1); return None", "returned NoneType"),
        ("os.closerange(0, 100); " + GOOD, "ended its process"),
        ("pass", "returned NoneType"),
        ("return [[[10**30]] * n for _ in prompts]", "outside 0..1"),
        ("return [[[float('nan')]] * n for _ in prompts]", "return a list of token ids"),
        ("time.sleep(60)", "gave no answer; a call may take 1 seconds"),
    ],
)
def test_a_sampler_that_ends_early_is_no_verdict(folder: Path, body: str, said: str) -> None:
    found = audit(body, *(("--call-time", "1s") if "sleep(60)\n" in body + "\n" else ()))
    one_sentence(found, "mine.py:sample", said)
    assert "ept" not in found.output.replace("except", "")


@pytest.mark.skipif(os.name != "posix", reason="forks")
@pytest.mark.parametrize("child", ["pass", "time.sleep(0.2)"])
def test_a_sampler_that_comes_back_twice_is_no_verdict(folder: Path, child: str) -> None:
    found = audit(f"os.fork() or {child.replace('pass', 'None')}; {GOOD}", "--draws", "20000")
    one_sentence(found, "mine.py:sample", "came back in two processes")


def test_what_a_sampler_reads_and_prints_is_not_the_commands(folder: Path) -> None:
    found = audit(f"print('loud'); sys.stdin.read(); os.write(1, b'loud'); {GOOD}", "--json", "--draws", "20000")
    assert found.exit_code == 0, found.output
    assert '"verdict": "kept"' in found.stdout


@pytest.mark.parametrize(
    "line",
    [
        '{"prompt": [0], "continuation": [true]}',
        '{"prompt": [0], "continuation": ["1"]}',
        '{"prompt": [0], "continuation": [1e999]}',
        '{"prompt": [0], "continuation": [1' + "0" * 30 + "]}",
        "[" * 100_000,
        "\udcff",
        "5",
    ],
)
def test_a_line_of_draws_that_is_none_is_refused(folder: Path, line: str) -> None:
    Path("draws.jsonl").write_text(f"{line}\n", encoding="utf-8", errors="surrogateescape")
    one_sentence(run("audit", "--draws-from", "draws.jsonl", "--table", "toy.npz", "--depth", "1"), "line 1: write")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('{"target": [[0.5, 0.5]], "prompts": 5}', "they must be lists of token ids"),
        ('{"target": [[0.5, 0.5]], "prompts": [[1e30]]}', "they must be lists of token ids"),
        ('{"target": [[0.5, 0.5]], "end_tokens": [2]}', "outside 0..1"),
        ('{"target": ' + "[" * 100_000, "is no table"),
    ],
)
def test_a_table_that_is_none_is_refused(folder: Path, table: str, said: str) -> None:
    Path("toy.json").write_text(table, encoding="utf-8")
    Path("draws.jsonl").write_text('{"prompt": [0], "continuation": [1]}\n', encoding="utf-8")
    Path("mine.py").write_text(f"import numpy as np\ndef sample(prompts, n, seed):\n    {GOOD}\n", encoding="utf-8")
    one_sentence(run("audit", "--sampler", "mine.py:sample", "--table", "toy.json", "--depth", "1"), said)


def test_a_method_without_a_fit_takes_the_uncertainty_for_the_rejection() -> None:
    method: Any = method_named("CU-HLM online")
    q, tokens, uncertainty = np.tile([0.9, 0.05, 0.03, 0.02], (2, 1)), np.array([0, 0]), np.array([0.01, 0.9])
    expected = online_size(q, tokens, uncertainty, 0.1, sharpness=5.0)
    np.testing.assert_array_equal(method.choose_top_k(q, tokens, uncertainty)[0], expected)
    assert expected[0] != expected[1]


def test_a_missing_module_is_told_from_its_importer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)
    Path("imports_it.py").write_text("import no_such_module", encoding="utf-8")
    with pytest.raises(UserError, match="no module 'no_such_module'"):
        function_named("no_such_module:sample")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        function_named("imports_it:sample")


def test_a_file_of_very_many_prompts_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f'{{"prompt": [{number}], "continuation": [0]}}' for number in range(3)]
    (tmp_path / "draws.jsonl").write_text("\n".join(lines))
    assert file_prompts(tmp_path / "draws.jsonl") == [[0], [1], [2]]
    monkeypatch.setattr(samplers, "MOST_PROMPTS", 2)
    with pytest.raises(UserError, match="more than 2 prompts"):
        file_prompts(tmp_path / "draws.jsonl")
