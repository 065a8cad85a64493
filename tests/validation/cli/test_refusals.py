"""Errors of the system and of unusual files, under real conditions: one sentence with path and remedy, code 2."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.validation.command_line import one_sentence, run
from tests.validation.stored_traces import stored
from validation import plots

ROOT = Path(__file__).resolve().parents[3]
FULL = Path("/dev/full")
PLACES = ("n" * 300, "n" * 300 + "/x", "file/x", "loop", "loop/x")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")

COMMANDS = {
    "validate": ("validate", "--trace", "trace", "--out", "{}"),
    "figure": ("figure", "cu-hlm", "6", "--trace", "trace", "--out", "{}"),
    "simulation": ("figure", "flexspec", "2", "--out", "{}"),
    "import": ("import", "--draft", "logits.npy", "--target", "logits.npy", "--out", "{}"),
    "trace of figure": ("figure", "cu-hlm", "6", "--trace", "{}"),
    "prompts": ("validate", "--prompts", "{}"),
    "small": ("validate", "--draft", "{}", "--target", "{}"),
    "draft": ("import", "--draft", "{}", "--target", "logits.npy", "--out", "new"),
    "run": ("decode", "hlm", "--run", "{}"),
    "publish": ("publish", "--run", "{}"),
    "pair": ("validate", "--pair", "{}"),
}


@pytest.mark.parametrize("command", list(COMMANDS))
def test_a_place_that_cannot_be_is_one_sentence(trace, command):
    for place in PLACES:
        one_sentence(run(*(word.format(place) for word in COMMANDS[command])))


@pytest.mark.parametrize("command", ["validate", "figure", "simulation", "import"])
def test_a_file_where_the_folder_goes_is_named_and_kept(trace, command):
    np.save("logits.npy", np.zeros((2, 3)))
    one_sentence(run(*(word.format("file") for word in COMMANDS[command])), "file")
    assert Path("file").read_text() == "mine"


@needs_full
def test_a_disk_that_fills_up_while_drawing_loses_no_verdict(trace, monkeypatch):
    real = plots.save
    monkeypatch.setattr(plots, "save", lambda figure, path: FULL.write_bytes(b"a picture"))
    one_sentence(run("validate", "--trace", trace, "--out", "run"), "the disk is full", "run")
    tallies = json.loads(Path("run/claims.json").read_text())["tallies"]
    assert set(tallies) == {"verification.tokens", "truncation.softplus"}
    assert not Path("run/report.html").exists()
    monkeypatch.setattr(plots, "save", real)
    assert run("validate", "--trace", trace, "--out", "run").exit_code == 0
    assert Path("run/report.html").exists()


@needs_full
@pytest.mark.parametrize("suffix", ["svg", "json"])
def test_a_full_disk_is_told_with_the_file(trace, suffix):
    Path("out").mkdir()
    Path(f"out/cu-hlm-fig6.{suffix}").symlink_to(FULL)
    one_sentence(run("figure", "cu-hlm", "6", "--trace", trace, "--out", "out"), "cu-hlm-fig6", "free some space")


def test_bytes_that_are_no_text_in_a_path(trace):
    command = [sys.executable, "-m", "validation", "figure", "cu-hlm", "6", "--trace", "trace", "--out", b"o\xffut"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True)
    assert done.returncode == 0, done.stderr
    (sidecar,) = Path(os.fsdecode(b"o\xffut")).glob("*.json")
    assert "udcff" in json.loads(sidecar.read_text(encoding="utf-8"))["command"]


@pytest.mark.parametrize("content", ["[" * 100_000, '{"positions": ' + "9" * 5000 + "}", "", "[1]"], ids=range(4))
def test_json_of_ours_that_is_damaged_is_refused(tmp_path, content):
    run_folder = tmp_path / "run"
    (run_folder / "trace").mkdir(parents=True)
    (run_folder / "trace" / "manifest.json").write_text(content)
    one_sentence(run("validate", "--trace", run_folder / "trace"), "run/trace")
    stored(tmp_path / "other" / "trace")
    (tmp_path / "other" / "claims.json").write_text(content)
    one_sentence(run("publish", "--run", tmp_path / "other"), "claims.json", "run `python3 hlm validate` again")
