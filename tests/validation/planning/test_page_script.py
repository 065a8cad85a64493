"""The page's script makes the command's choice, also of a device that drafts on, whose passes follow the times."""

from __future__ import annotations

import json
import re
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
  const s = withLink({ ...start, ...own }), aims = aimsOf(s), aim = aims[s.objective === "capacity" ? 1 : 0];
  return { verdict: verdict(aims, aim), best: aim.best.policy, rows: aim.rows.map((one) => rowOf(one, aim)) };
});
console.log(JSON.stringify(answers));
"""
NUMBER = re.compile(r"\d[\d,]*\.?\d*(?:e[+-]?\d+)?")
SETTINGS = [
    (1e6, 0.020, 0.012, 0.030),
    (1e4, 0.020, 0.012, 0.030),
    (2e3, 0.020, 0.012, 0.030),  # a message takes longer than a draft
    (1e7, 0.100, 0.040, 0.030),
    (1e7, 0.001, 0.005, 0.004),
]


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("--objective", "capacity", "--server-batch", "4"),
        ("--verify-us-per-token", "300", "--risk", "token=.1", "--down-rate", "60k", "--no-shared-seed"),
        ("--risk", "text=.5", "--fading", "rayleigh"),
    ],
    ids=["lossless", "capacity", "certified", "skips"],
)
def test_the_script_chooses_what_the_command_chooses(tmp_path: Path, more: tuple[str, ...]) -> None:
    assert len(compared(tmp_path, *more)) > 1  # the settings decide


def compared(tmp_path: Path, *more: str) -> set[str]:
    """Compare the page with the command in every setting, and return the plans that were chosen."""
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
    chosen = set()
    for (rate, trip, draft, verify), mine in zip(SETTINGS, json.loads(found.stdout), strict=True):
        link = ("--rate", f"{rate / 1e6}M", "--rtt", f"{1e3 * trip}ms")
        own = json.loads(run(*words, *link, "--draft-ms", str(1e3 * draft), "--verify-ms", str(1e3 * verify)).stdout)
        assert [row["policy"] for row in mine["rows"]] == [row["policy"] for row in own["rows"]]
        for here, there in zip(mine["rows"], own["rows"], strict=True):
            assert here["label"] == there["option"]
            pairs = {"median": "tokens_per_s_median", "kilobytes": "kilobytes_per_token", "gain": "gain"}
            for name, field in pairs.items():
                assert (here["cells"][name][0] or 0) == pytest.approx(there[field]["value"] or 0, rel=1e-8)
            assert here["cells"]["server"][0] == pytest.approx(1e3 * there["server_s_per_token"]["value"], rel=1e-8)
        assert NUMBER.sub("#", mine["verdict"]) == NUMBER.sub("#", own["verdict"])
        chosen.add(mine["verdict"].split(":")[1])
    return chosen
