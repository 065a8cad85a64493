"""The pages: commands and options are known, links lead somewhere, code runs, every file has a licence."""

import json
import re
import shlex
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import click
import pytest

from validation.cli.commands import main
from validation.site.pages import OTHERS, pages, relinked

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted({"README.md", "CONTRIBUTING.md", *(name for name in pages() if name.startswith("docs/"))})
BLOCK = re.compile(r"^( *)```(\S*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)

RUN_ELSEWHERE = {
    "README.md": "tests/test_repository.py",
    "CONTRIBUTING.md": "tests/test_repository.py",
    "docs/audit.md": "tests/validation/audit/test_document.py",
    "docs/versions.md": "tests/validation/decoding/test_versions.py",
}
"""The test that runs the python blocks of a page."""

NEED_A_RUN = ("docs/engines.md", "docs/plan.md", "docs/run.md")
"""Pages whose python blocks read what commands on the page write; they are compiled here."""

SETUP = {"setup": ["validation", "docs"], "test": []}
"""Commands of the launcher alone, which takes other words than options."""


def blocks(file: str) -> list[tuple[str, str]]:
    return [(kind, content) for _, kind, content in BLOCK.findall((ROOT / file).read_text(encoding="utf-8"))]


def lines(file: str) -> list[str]:
    joined = "\n".join(re.sub(r"\s*\\\n\s*", " ", content) for kind, content in blocks(file) if kind == "bash")
    bare = (re.sub(r"(^|\s+)#.*", "", line).strip() for line in joined.splitlines())
    return [line for line in bare if line]


def commands(file: str) -> list[str]:
    """Return the lines of a page's bash blocks that call hlm, and the commands in its sentences."""
    text = (ROOT / file).read_text(encoding="utf-8")
    inline = [" ".join(line.split()) for line in re.findall(r"`(python3 hlm [^`]+)`", text) if "COMMAND" not in line]
    return [*(line for line in lines(file) if line.startswith("python3 hlm ")), *inline]


def parsed(line: str) -> click.Command | None:
    """Parse a command line with the options of its command, without running it; None for the launcher's own."""
    words = shlex.split(line)[2:]
    words = words[: words.index(">")] if ">" in words else words
    if words[0].startswith("-") or words[0] in SETUP:
        return None
    command = main.commands[words[0]]
    command.make_parser(click.Context(command)).parse_args(words[1:])
    return command


@pytest.mark.parametrize("file", [file for file in FILES if commands(file)])
def test_every_command_is_known_with_its_options(file):
    for line in commands(file):
        parsed(line)


@pytest.mark.parametrize("file", [file for file in FILES if file not in RUN_ELSEWHERE])
def test_the_python_of_a_page_runs(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for kind, text in blocks(file):
        if kind == "python":
            code = compile(text, file, "exec")
            if file not in NEED_A_RUN:
                exec(code, names)


@pytest.mark.parametrize("file", sorted({*FILES, *OTHERS}))
def test_no_link_of_a_page_is_dead(file):
    relinked((ROOT / file).read_text(encoding="utf-8"), file, pages() | {file: pages().get(file, "readme")})


def test_the_list_of_commands_is_complete():
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|(`[^|]*`)\|", text.split("## Models")[0], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([^`]+)`", row)} == {*main.commands, *SETUP}


TEXTS = re.compile(r"\.(pyi?|c(pp)?|md|json|toml|ya?ml|txt|bib|cff|css|js|j2|sh|csv|typed|mplstyle|svg|ipynb|log)")


def licences() -> list[list[str]]:
    text = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:2] == "| "]
    return rows[1:]


def test_every_file_that_is_no_text_has_a_licence_of_its_own():
    """Texts of ours are in the first row; weights, tokenizers, prompts, logits and figures have rows of their own."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout, so which files belong to the project is not known")
    first, *others = licences()
    patterns = [pattern for row in others for pattern in re.findall(r"`(\S*[*/]\S*)`", row[0])]
    files = [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    assert {pattern for pattern in patterns for name in files if fnmatch(name, pattern)} == set(patterns)
    for name in files:
        path = Path(name)
        if any(fnmatch(name, pattern) for pattern in patterns):
            continue
        assert TEXTS.fullmatch(path.suffix) or path.name in {"LICENSE", "SHA256SUMS", "hlm", "run", ".gitignore"}, name
        assert not re.search(rb"\.(?:woff2?|ttf|otf)\b", (ROOT / name).read_bytes()) or path.suffix == ".py", name
    assert "Apache-2.0" in first[3]


def test_every_prompt_that_is_shipped_has_the_licence_of_the_list():
    text = (ROOT / "validation" / "pairs" / "builtin" / "prompts.jsonl").read_text(encoding="utf-8")
    told = {(row["source"], row["licence"]) for row in map(json.loads, text.splitlines())}
    listed = {(found[1], row[3]) for row in licences() if (found := re.search(r"source `([^`]+)`", row[0]))}
    assert told == listed
