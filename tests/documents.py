"""The code blocks of the pages, and how the command lines in them run as tests.

A line of a bash block runs word for word, unless it stands in one of four lists: ``SMALLER`` runs with options that
make it small, ``LAUNCHED`` runs up to pip and pytest, ``ELSEWHERE`` is run by the test that it names, and ``NOT_RUN``
says why no test can run it. ``tests/test_page_lines.py`` runs all pages but those whose own test does it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.test_hlm import load
from validation.benchmarks import scale
from validation.cli.commands import main
from validation.site.pages import pages

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted({"README.md", "CONTRIBUTING.md", *(name for name in pages() if name.startswith("docs/"))})
BLOCK = re.compile(r"^( *)```(\S*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)

OWN_TEST = {
    "docs/plan.md": "tests/test_plan_docs.py",
    "docs/engines.md": "tests/test_engine_recipes.py",
    "docs/run.md": "tests/test_run_page.py",
}
"""The pages with a test of their own, which runs all blocks in order and writes the files that they show."""

MEASURE = "python -m validation.benchmarks.scale"
STREAM = "--positions 600 --vocabulary 20"
PAIR = "--positions 60 --new-tokens 8"
SHARD = "--batches 3 --new-tokens 4 --prompts prompts.txt"
DECODE = "--new-tokens 4 --prompts prompts.txt"
DRAWS = "--draws 16"
SMALLER = {
    "python3 hlm validate": PAIR,
    "python3 hlm validate --draft FOLDER --target FOLDER --prompts prompts.txt": PAIR,
    "python3 hlm validate --draft aligned --target versions/math": PAIR,
    "python3 hlm validate --draft aligned --target versions/math --out runs/math": PAIR,
    "python3 hlm validate --dry-run --draft FOLDER --target FOLDER --positions 5000 --memory 8G": PAIR,
    "python3 hlm collect --out s3://bucket/builtin": f"{PAIR} --prompts prompts.txt",
    **{f"python3 hlm collect --shard {i}/3 --draft DRAFT --target TARGET --out shard{i}": SHARD for i in (1, 2, 3)},
    "python3 hlm decode hlm": DECODE,
    "python3 hlm decode hlm --policy policy.json": f"{DECODE} --method planned",
    "python3 hlm decode hlm --draft aligned --target versions/math --run runs/math": f"{DECODE} --method HLM",
    "python3 hlm audit --sampler mine.py:sample --target models/llama": DRAWS,
    "python3 hlm audit --sampler mine.py:sample --target models/llama --prompts prompts.txt": DRAWS,
    "python3 hlm audit --generate --assistant builtin/small --target builtin/large --temperature 0.7 --top-k 50": DRAWS,
    'python3 hlm audit --method "fixed K" --draws 5000': DRAWS,
    f"{MEASURE} modules --vocabulary 32000 --rows 16": "--vocabulary 20 --repeats 1",
    f"{MEASURE} claims --vocabulary 512": "--vocabulary 20 --rows 8 --repeats 1",
    f"{MEASURE} memory --positions 10000000 --kept runs/ten-million --seconds 280": STREAM,
    f"{MEASURE} memory --positions 100000 --vocabulary 32000 --kept runs/wide --seconds 280": STREAM,
}
"""Options that are added to a line; the last value of an option counts."""

CODES = {
    "python3 hlm audit --draws-from draws.jsonl --target models/llama --top-p 0.9": 3,
    **{line: 3 for line, added in SMALLER.items() if added == DRAWS},
}
"""Exit codes other than 0: an audit of a few draws says that they are too few."""

LAUNCHED = ("python3 hlm setup *", "python3 hlm test*", "HYPOTHESIS_PROFILE=* python3 hlm test")
"""Lines that install packages or run tests; they run up to pip and pytest. Here and below, * is any text."""

ELSEWHERE = {
    "python3 hlm validate --draft draft-q4.gguf --target target.gguf": (
        "tests/test_engine_recipes.py::test_llama_cpp_from_its_stores_and_gguf_files_on"
    ),
    "python3 hlm validate --pair smollm2 *": (
        "tests/validation/models/test_smollm2.py::test_the_command_of_the_readme_ends_with_its_report"
    ),
    "python3 hlm serve": "tests/test_run_page.py::test_the_page_runs",
    "python3 hlm acceptance http://*": "tests/validation/acceptance/test_server.py::test_the_command_reads_an_address",
    ".venv/bin/torchrun *": (
        "tests/validation/collection/test_ranks.py::test_two_ranks_of_torchruns_agent_which_restarts_them"
    ),
    ".venv/bin/dask *": "tests/validation/claims/test_cluster.py::test_workers_find_what_one_process_finds",
    "python3 hlm validate --trace /shared/trace --scheduler tcp://*": (
        "tests/validation/claims/test_cluster.py::test_workers_find_what_one_process_finds"
    ),
}
"""The test that does what a line says."""

NOT_RUN = {
    "pip install .": "installs the library from a package index",
    ".venv/bin/python -m ruff check . && .venv/bin/python -m ruff format . *": "rewrites the files of the repository",
    "bash .ci/run": "runs all tests, this one too",
    "bash figures/studies/gguf/recipe.sh *": "downloads llama.cpp and builds it for ten minutes",
    "python3 SOURCE/convert_hf_to_gguf.py *": "needs llama.cpp",
    "BUILD/bin/llama-*": "needs llama.cpp",
    "vllm serve *": "needs vLLM and a GPU",
    "curl -s localhost:8000/metrics *": "needs a server of vLLM",
    f"{MEASURE} speed *": "measures how much faster two workers are",
}
"""Why no test can run a line."""


def blocks(file: str) -> list[tuple[str, str]]:
    """Return kind and content of each block of a page."""
    return of_text((ROOT / file).read_text(encoding="utf-8"))


def of_text(text: str) -> list[tuple[str, str]]:
    """Return kind and content of each block of a text."""
    return [(kind, content) for _, kind, content in BLOCK.findall(text)]


def lines_of(content: str) -> list[str]:
    r"""Return the commands of a bash block, without comments.

    >>> lines_of("a  # one\n\n# two\nb \\\n  c\n")
    ['a', 'b c']
    """
    joined = re.sub(r"\s*\\\n\s*", " ", content)
    bare = (re.sub(r"(^|\s+)#.*", "", line).strip() for line in joined.splitlines())
    return [line for line in bare if line]


def lines(file: str) -> list[str]:
    """Return the commands of all bash blocks of a page."""
    return [line for kind, content in blocks(file) if kind == "bash" for line in lines_of(content)]


def sections(file: str) -> dict[str, list[str]]:
    """Return the commands of a page under each heading of the first two levels."""
    parts = re.split(r"^##? (.*)$", (ROOT / file).read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = {
        title: [line for kind, content in of_text(text) if kind == "bash" for line in lines_of(content)]
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    return {title: commands for title, commands in found.items() if commands}


def listed(line: str, patterns: Iterable[str]) -> str | None:
    """Return the pattern that a line matches."""
    return next((pattern for pattern in patterns if fnmatchcase(line, pattern)), None)


def run(line: str, replaced: Mapping[str, str] | None = None) -> str | None:
    """Run one line in the current folder; return what it prints, or None if it is run elsewhere or nowhere.

    Parameters
    ----------
    line : str
    replaced : mapping, optional
        Words of the line, and what stands in their place.
    """
    if listed(line, [*ELSEWHERE, *NOT_RUN]):
        return None
    if listed(line, LAUNCHED):
        return launched(line)
    if line.startswith("export "):
        assert re.fullmatch(r"export \w+=\w+", line)
        return ""
    wanted = line
    for old, new in (replaced or {}).items():
        wanted = wanted.replace(old, new)
    words = shlex.split(wanted)
    target = words[words.index(">") + 1] if ">" in words else None
    words = words[: words.index(">")] if target else words
    command, words = (main, words[2:]) if words[:2] == ["python3", "hlm"] else (scale.main, words[3:])
    assert wanted.startswith(("python3 hlm ", "python -m validation.benchmarks.scale ")), line
    done = CliRunner().invoke(command, [*words, *shlex.split(SMALLER.get(line, ""))])
    assert done.exit_code == CODES.get(line, 0), (line, done.output, done.exception)
    if target:
        Path(target).write_text(done.stdout, encoding="utf-8")
    return done.output


def launched(line: str) -> str:
    """Give a line to the launcher, with pip and pytest replaced; return what it would install and start."""
    words, hlm = shlex.split(line), load()
    done: list[str] = []
    hlm.set_up = lambda root, environment, extras, *, terminal: done.append(f"pip {' '.join(extras)}")
    hlm.replace_by = lambda command, cwd=None: done.append(" ".join(command[2:]))
    with pytest.MonkeyPatch.context() as patch:
        for variable in words[: words.index("python3")]:
            patch.setenv(*variable.split("=", 1))
        assert hlm.main(words[words.index("python3") + 2 :]) == 0, line
    return "\n".join(done)
