"""The command ``hlm audit`` on a toy law: verdicts, exit codes, JSON, files of draws, refusals, Ctrl-C, help."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from inspect import getsource
from pathlib import Path

import numpy as np
import pytest

from tests.validation.audit.test_repeats import drawn
from tests.validation.command_line import run

V, D = 3, 2
ROOT = Path(__file__).resolve().parents[3]
SAMPLERS = (
    f"import time\nimport numpy as np\n{getsource(drawn)}"
    + """
with np.load("toy.npz") as stored:
    TARGET, DRAFT = stored["target"], stored["draft"]


def good(prompts, n, seed, table=TARGET):
    return [drawn(table, 2, n, np.random.default_rng(seed + c)) for c in range(len(prompts))]

def bad(prompts, n, seed):
    return good(prompts, n, seed, DRAFT)

def endless(prompts, n, seed):
    time.sleep(0.05)
    return good(prompts, n, seed)
"""
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    target, draft = np.random.default_rng(1).dirichlet(np.ones(V), (2, 1 + V))
    np.savez(tmp_path / "toy.npz", target=target, draft=draft)
    (tmp_path / "toy.py").write_text(SAMPLERS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def audit(*options: str):
    return run("audit", "--table", "toy.npz", "--depth", "2", *options)


@pytest.mark.parametrize(
    ("sampler", "draws", "code", "said"),
    [("good", "60000", 0, "Kept: "), ("bad", "60000", 1, "Not kept: "), ("good", "100", 3, "Not enough draws: ")],
)
def test_the_exit_code_is_the_verdict(folder, sampler, draws, code, said):
    found = audit("--sampler", f"toy.py:{sampler}", "--draws", draws)
    assert (found.exit_code, said in found.stdout) == (code, True), found.output


def test_no_difference_in_the_cells_is_no_success_unless_it_is_accepted(folder):
    """Of 5,000 tokens, each as likely as the others, an audit forms a few groups."""
    np.savez("toy.npz", target=np.full((1, 5_000), 1 / 5_000))
    Path("flat.py").write_text(
        "import numpy as np\n\ndef sample(prompts, n, seed):\n"
        "    return [np.random.default_rng(seed).integers(5_000, size=(n, 1)) for _ in prompts]\n"
    )
    call = ("audit", "--table", "toy.npz", "--depth", "1", "--sampler", "flat.py:sample", "--draws", "1000")
    found = run(*call, "--epsilon", "0.4")
    assert (found.exit_code, "No difference found in the cells: " in found.stdout) == (3, True), found.output
    accepted = run(*call, "--epsilon", "0.4", "--accept-cells", "--json")
    assert (accepted.exit_code, json.loads(accepted.stdout)["verdict"]) == (0, "no difference found in the cells")
    assert run(*call, "--epsilon", "0.001", "--accept-cells").exit_code == 3


def test_draws_from_a_file(folder):
    rng = np.random.default_rng(2)
    lines = [{"prompt": [0], "continuation": rng.integers(V, size=D).tolist()} for _ in range(500)]
    lines.append({"prompt": [0], "continuations": rng.integers(V, size=(500, D)).tolist()})
    (folder / "draws.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    found = audit("--draws-from", "draws.jsonl", "--json")
    assert found.exit_code == 1, found.output
    assert json.loads(found.stdout)["draws"] == 1000


def interrupted(run):
    """Press Ctrl-C, up to three times, and return the output: Python drops one that comes within a destructor."""
    for _ in range(3):
        run.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return run.communicate(timeout=30)[0]
    run.kill()
    return run.communicate()[0]


def heed_ctrl_c():
    """Take SIGINT: a process whose parent was started in the background ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_prints_what_is_known(folder):
    command = [sys.executable, "-m", "validation", "audit", "--table", "toy.npz", "--depth", "2"]
    command += ["--sampler", "toy.py:endless", "--epsilon", "0.001", "--draws", "100000000"]
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=surroundings, preexec_fn=heed_ctrl_c
    ) as run:
        assert run.stderr is not None
        while "TV at least" not in run.stderr.readline():
            assert run.poll() is None
        said = interrupted(run)
    assert run.returncode == 130
    assert "Not enough draws: " in said
