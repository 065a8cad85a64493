"""The blocks of docs/plan.md run as they stand, in order, on a small trace in place of the built-in pair's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.documents import ROOT, blocks, lines_of, run
from tests.validation.stored_traces import stored

TEXT = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")


def test_every_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / "runs" / "builtin" / "trace")
    printed: dict[str, str] = {}
    for kind, content in blocks("docs/plan.md"):
        if kind == "json":
            Path("answers.jsonl").write_text(content, encoding="utf-8")
        elif kind == "python":
            exec(compile(content, "docs/plan.md", "exec"), {"__name__": "recipe"})
        else:
            assert kind == "bash"
            printed |= {line: run(line) or "" for line in lines_of(content)}
    assert len(printed) == 7
    shared = next(said for line, said in printed.items() if "--users 8" in line)
    assert "at most 4 rounds (--server-batch)" in shared
    assert all("round trip" in said for said in printed.values())
    limited = next(said for line, said in printed.items() if "--latency" in line)
    assert "--risk" in limited.split("se ", 1)[1]  # the limit decides in this example
    for page in ("plan.html", "counts.html"):
        assert "Content-Security-Policy" in Path(page).read_text(encoding="utf-8")
    assert json.loads(Path("policy.json").read_text(encoding="utf-8"))


def test_the_columns_that_it_explains_are_those_of_the_screen_and_the_page() -> None:
    from validation.cli.plan import HEADS

    explained = " ".join(re.findall(r"^\| ([^|]+) \|", TEXT.split("## How to read it")[1], re.MULTILINE))
    template = (ROOT / "validation" / "planning" / "templates" / "plan.html.j2").read_text(encoding="utf-8")
    heads = re.findall(r'<th scope="col">([^<]+)</th>', template)
    assert [head.replace("text risk", "risk") for head in HEADS] == heads
    for head in HEADS[1:]:
        words = head.replace("tok/s 95%", "95%").replace("k 95%", "k 95%")
        assert words in explained, head


def test_the_readme_links_it() -> None:
    assert "(docs/plan.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
