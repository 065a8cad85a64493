"""The page's script makes the command's choice, also of a device that drafts on, whose passes follow the times."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.validation.command_line import run
from tests.validation.stored_traces import stored
from validation.planning.page import TEMPLATES, page_data

NODE = shutil.which("node")
if NODE is None:
    pytest.skip("there is no node to run the page's script", allow_module_level=True)

DOCUMENT = """
const nothing = new Proxy(function () {}, { get: (of, name) => name === Symbol.toPrimitive ? () => 0
  : name === "textContent" ? data_text : nothing, set: () => true, apply: () => nothing });
const document = { getElementById: () => nothing, createElementNS: () => nothing };
const addEventListener = () => {}, requestAnimationFrame = () => {};
"""
ANSWER = """
const answers = settings.map((own) => {
  const s = withLink({ ...start, ...own }), base = rival(s), row = rowOf(OURS, s, base);
  return { option: row.label, speed: row.cells.median[0], kilobytes: row.cells.kilobytes[0], rival: base.policy,
    gains: standing(s).gains, gain: row.cells.gain[0] };
});
console.log(JSON.stringify(answers));
"""
SETTINGS = [
    (1e6, 0.020, 0.012, 0.030),
    (1e4, 0.020, 0.012, 0.030),
    (2e3, 0.020, 0.012, 0.030),  # a message takes longer than a draft
    (1e7, 0.100, 0.040, 0.030),
    (1e7, 0.001, 0.005, 0.004),
]


def test_the_script_chooses_what_the_command_chooses(tmp_path: Path) -> None:
    chosen = {option.startswith("shared seed, streamed") for option in compared(tmp_path)}
    assert chosen == {True, False}


def test_the_script_knows_certified_answers_and_trees(tmp_path: Path) -> None:
    more = ("--verify-us-per-token", "300", "--risk", "token=.1", "--down-rate", "60k", "--no-shared-seed")
    assert any(option.startswith("DSSD certified") for option in compared(tmp_path, *more))


def compared(tmp_path: Path, *more: str) -> list[str]:
    """Compare the page with the command in every setting, and return the plans."""
    stored(tmp_path / "trace", noise=0.5)
    words = ("plan", "--trace", tmp_path / "trace", "--server-draft-ms", "4", "--between-ms", "2", *more, "--json")
    plan = json.loads(run(*words).stdout)
    names = ("rate", "roundTrip", "draft", "verify")
    settings = [dict(zip(names, one, strict=True)) for one in SETTINGS]
    script = [
        f"const data_text = {json.dumps(json.dumps(page_data(plan)))}, settings = {json.dumps(settings)};",
        DOCUMENT,
    ]
    script += [(TEMPLATES / "plan.js").read_text(encoding="utf-8").replace('"use strict";', ""), ANSWER]
    (tmp_path / "page.js").write_text("\n".join(script), encoding="utf-8")
    found = subprocess.run([NODE, tmp_path / "page.js"], capture_output=True, text=True, check=True)
    chosen = []
    for (rate, trip, draft, verify), mine in zip(SETTINGS, json.loads(found.stdout), strict=True):
        link = ("--rate", f"{rate / 1e6}M", "--rtt", f"{1e3 * trip}ms")
        own = json.loads(run(*words, *link, "--draft-ms", str(1e3 * draft), "--verify-ms", str(1e3 * verify)).stdout)
        row = next(one for one in own["rows"] if one["policy"] == "ours")
        assert mine["option"] == row["option"]
        assert mine["speed"] == pytest.approx(row["tokens_per_s_median"]["value"], rel=1e-8)
        assert mine["kilobytes"] == pytest.approx(row["kilobytes_per_token"]["value"], rel=1e-8)
        assert mine["gain"] == pytest.approx(row["gain"]["value"], rel=1e-8)
        assert (mine["rival"], mine["gains"]) == (own["standing"]["rival"], own["standing"]["gains"])
        chosen.append(row["option"])
    return chosen
