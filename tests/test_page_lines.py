"""Every command line of every page runs: the lines of a section in order, in a folder with what they name."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlmtheory
from tests import documents
from tests.documents import CODES, ELSEWHERE, FILES, LAUNCHED, NOT_RUN, OWN_TEST, ROOT, SMALLER, blocks, listed, run
from tests.validation.conftest import make_model, make_tokenizer
from tests.validation.models.test_adapters import edit, make_adapter
from tests.validation.trace.store_stand_in import known_bucket
from validation import plots
from validation.claims import check

SECTIONS = [(file, title) for file in FILES if file not in OWN_TEST for title in documents.sections(file)]
EVERY = [line for file in FILES for line in documents.lines(file)]
CLAIMS = ("verification.tokens", "truncation.softplus", "truncation.certificate")
STORES = ROOT / "tests" / "validation" / "collection" / "llama_cpp_stores"
WRITTEN = ("--out", "--policy", "--page", "--profile")
RUN_THERE = {
    ("README.md", "Two commands"),
    ("README.md", "What it does for you"),
    ("docs/commands.md", "Figures"),
    ("docs/commands.md", "Text by the methods"),
    ("docs/deploy.md", "Deploy a policy"),
    ("docs/start.md", "The built-in pair: one command"),
    ("docs/start.md", "What it buys on your link"),
}
"""Sections whose reader has run ``python3 hlm validate``, or does it there: the run of the fixture is continued."""

BEFORE = {
    ("docs/verdict.md", "For scripts"): [
        "python3 hlm import --draft draft.npy --target target.npy --out traces/mine",
    ],
}
"""Lines that a section supposes: those of the page that it links."""

SAMPLER = '''
import numpy as np
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("models/llama").eval()


def sample(prompts, n, seed):
    """Draw from models/llama, and for the prompt of toy.npz two tokens that are equally likely."""
    if prompts == [[0]]:
        return [np.random.default_rng(seed).integers(2, size=(n, 4)).tolist()]
    torch.manual_seed(seed)
    found = []
    for prompt in prompts:
        ids = torch.tensor([prompt] * n)
        call = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 4, "do_sample": True, "top_k": 0}
        found.append([text[len(prompt) :].tolist() for text in model.generate(ids, **call)])
    return found
'''
COUNTS = """\
vllm:spec_decode_num_drafts_total{{engine="0",model_name="m"}} {0}
vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="m"}} {1}
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} {2}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="0"}} {2}
"""


def save(folder: Path, seed: int, hidden: int) -> None:
    """Write a Llama of random weights that can read the built-in prompts."""
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        make_model(hidden=hidden, context=2048).to(torch.bfloat16).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)


def answers(seed: int) -> dict[str, Any]:
    """Return what vLLM answers with the two likeliest tokens of three positions."""
    first, second = np.sort(np.random.default_rng(seed).dirichlet([1.0] * 3, size=3))[:, :0:-1].T
    tokens = [{"3": {"logprob": float(np.log(a)), "rank": 1}, "1": {"logprob": float(np.log(b)), "rank": 2}}
              for a, b in zip(first, second, strict=True)]  # fmt: skip
    return {"prompt_logprobs": [None, *tokens]}


def drawn(here: Path) -> list[dict[str, list[int]]]:
    """Return draws of models/llama from its nucleus of 0.9."""
    import torch
    from transformers import AutoModelForCausalLM

    model, prompt = AutoModelForCausalLM.from_pretrained(here / "models" / "llama").eval(), [5, 17]
    call: dict[str, Any] = {"max_new_tokens": 4, "do_sample": True, "top_k": 0, "top_p": 0.9}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        texts = model.generate(torch.tensor([prompt] * 16), attention_mask=torch.ones(16, 2), **call)
    return [{"prompt": prompt, "continuation": text[2:].tolist()} for text in texts]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the lines name, without those that lines make."""
    here = tmp_path_factory.mktemp("page")
    for name, seed, hidden in (("FOLDER", 1, 8), ("DRAFT", 1, 8), ("TARGET", 2, 16), ("models/llama", 2, 16)):
        save(here / name, seed, hidden)
    (here / "prompts.txt").write_text("two and two\nwhat is the sum\nthe best of times\n", encoding="utf-8")
    rng = np.random.default_rng(0)
    draft = rng.normal(scale=4, size=(300, 50)).astype(np.float32)
    np.save(here / "draft.npy", draft)
    np.save(here / "target.npy", draft + rng.normal(size=draft.shape).astype(np.float32))
    (here / "before.txt").write_text(COUNTS.format(10, 10, 7), encoding="utf-8")
    (here / "after.txt").write_text(COUNTS.format(1010, 1010, 700), encoding="utf-8")
    for model, store, seed in (("q", "draft", 1), ("p", "target", 2)):
        (here / f"{model}.json").write_text(json.dumps(answers(seed)), encoding="utf-8")
        (here / f"{model}.jsonl").write_text(json.dumps(answers(seed)) + "\n", encoding="utf-8")
        shutil.copy(STORES / f"{store}.kld", here / f"{model}.kld")
    (here / "mine.py").write_text(SAMPLER, encoding="utf-8")
    np.savez(here / "toy.npz", target=np.full((15, 2), 0.5))  # the prefixes of up to three of two tokens
    (here / "draws.jsonl").write_text("".join(f"{json.dumps(draw)}\n" for draw in drawn(here)), encoding="utf-8")
    return here


@pytest.fixture(scope="module")
def few() -> Iterator[None]:
    """A check of three claims and one figure, and one figure of edge-sd in place of all."""
    known = hlmtheory.all_claims()
    real: Callable[..., object] = check.check_trace
    claims = {name: known[name] for name in CLAIMS}
    exhibits = {key: one for key, one in plots.EXHIBITS.items() if key[0] != "edge-sd" or key[1] == "5"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "check_trace", lambda trace, **more: real(trace, **{"claims": claims, **more}))
        patch.setattr(check, "SCENARIO_BATCHES", 1)
        figures = {key: one for key, one in plots.FIGURES.items() if one.stem == "cu-hlm-fig5a"}  # a quick one
        patch.setattr(plots, "FIGURES", figures)
        patch.setattr(plots, "EXHIBITS", exhibits)
        yield


@pytest.fixture(scope="module")
def builtin(few: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of the built-in pair that ``python3 hlm validate`` makes, once for all sections."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert "Collected" in str(run("python3 hlm validate"))
    return folder / "runs" / "builtin"


@pytest.fixture
def here(few: None, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket on this machine, in place of Amazon's; its address."""
    with known_bucket(monkeypatch) as server:
        yield f"{server.address}/bucket"


def adapter(folder: Path) -> None:
    """Write an adapter for the built-in target model."""
    target = ROOT / "validation" / "pairs" / "builtin" / "large"
    make_adapter(target, folder, lora_alpha=0.01)  # nearly the target model: these weights are random
    edit(folder / "adapter_config.json", base_model_name_or_path=str(target))


@pytest.mark.parametrize(("file", "title"), SECTIONS)
def test_the_lines_of_a_section_run(file: str, title: str, here: Path, request: pytest.FixtureRequest) -> None:
    """In order, and every file and folder that a line says that it writes is there."""
    lines, replaced = documents.sections(file)[title], {}
    text = "\n".join(lines)
    if (file, title) in RUN_THERE:
        shutil.copytree(request.getfixturevalue("builtin"), here / "runs" / "builtin")
    if "versions/math" in text:
        (here / "aligned").symlink_to(ROOT / "validation" / "pairs" / "builtin" / "aligned")
        adapter(here / "versions" / "math")
    if "s3://" in text:
        if find_spec("obstore") is None:
            pytest.skip("obstore comes with the extra remote")
        replaced = {"https://host/traces": request.getfixturevalue("store")}
    for line in [*BEFORE.get((file, title), ()), *lines]:
        printed = run(line, replaced)
        if printed is None:
            continue
        assert "Traceback" not in printed, line
        words = shlex.split(line)
        for option, name in pairwise(words):
            if option in WRITTEN and "://" not in name:
                assert (here / name).exists(), (line, name)


def test_the_lists_hold_lines_of_the_pages_and_each_line_is_in_one() -> None:
    for line in {*SMALLER, *CODES}:
        assert line in EVERY
    lists = (LAUNCHED, ELSEWHERE, NOT_RUN, SMALLER)
    for line in EVERY:
        assert sum(line in names or listed(line, names) is not None for names in lists) <= 1, line
    for pattern in (*LAUNCHED, *ELSEWHERE, *NOT_RUN):
        assert any(listed(line, [pattern]) for line in EVERY), pattern
    assert len(NOT_RUN) < 10


@pytest.mark.parametrize("named", sorted({*ELSEWHERE.values(), *OWN_TEST.values()}))
def test_the_tests_that_are_named_exist(named: str) -> None:
    file, _, function = named.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert function in names if function else any(name.startswith("test_") for name in names)


def test_the_lines_that_suppose_another_stand_in_a_page() -> None:
    assert {*BEFORE, *RUN_THERE} <= set(SECTIONS)
    assert {line for lines in BEFORE.values() for line in lines} <= set(EVERY)


def test_the_launcher_installs_and_starts_what_a_line_says() -> None:
    assert run("python3 hlm test tests/test_hlm.py -k stamp") == (
        f"pip validation test\n{ROOT / 'tests' / 'run.py'} tests/test_hlm.py -k stamp"
    )
    assert run("python3 hlm setup validation gguf") == "pip validation gguf"


def test_a_line_that_fails_is_found(here: Path) -> None:
    for line in ("python3 hlm plan --rate 10M", "python3 hlm claims truncation.none"):
        with pytest.raises(AssertionError):
            run(line)


@pytest.mark.parametrize("file", FILES)
def test_files_that_a_page_shows_are_read_by_its_own_test(file: str) -> None:
    """A block of JSON is one object, or one a line; the tests of these pages give it to the command that reads it."""
    for kind, content in blocks(file):
        if kind in ("json", "prometheus"):
            assert file in OWN_TEST
        if kind == "json":
            for line in content.splitlines():
                assert isinstance(json.loads(line), dict | list)


def test_no_command_is_hidden_in_a_block_of_text() -> None:
    shell = re.compile(r"^\s*(?:\$ |(?:\w+=\S+ )?(?:python3?|hlm|pip|bash|curl|vllm|\S*bin/\S+) )", re.MULTILINE)
    for file in FILES:
        assert not [content for kind, content in blocks(file) if kind == "text" and shell.search(content)], file
