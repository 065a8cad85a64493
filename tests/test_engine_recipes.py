"""The recipes of docs/engines.md run as they stand, in order: files are written, code and commands are run."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import hlmtheory
from tests.documents import LAUNCHED, ROOT, lines_of, listed, run
from tests.validation.gguf_writing import write_gguf
from validation import plots
from validation.claims import check
from validation.trace.reader import open_trace

TEXT = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
SECTIONS = {part.split("\n", 1)[0]: part for part in TEXT.split("\n## ")[1:]}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"`([\w.]+\.(?:json|jsonl|txt|csv))`")
FILES = ("json", "prometheus", "csv")
CLAIMS = ("verification.tokens", "truncation.softplus", "truncation.certificate")
NOT_RUN = ("SGLang", "TensorRT-LLM")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that sees the repository's models, with a check of three claims and one figure."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "validation").symlink_to(ROOT / "validation")
    known = hlmtheory.all_claims()
    real: Callable[..., object] = check.check_trace
    few = {name: known[name] for name in CLAIMS}
    monkeypatch.setattr(check, "check_trace", lambda trace, **more: real(trace, **{"claims": few, **more}))
    monkeypatch.setattr(plots, "FIGURES", dict(list(plots.FIGURES.items())[:1]))
    return tmp_path


def names_before(section: str, start: int) -> list[str]:
    """The files that the paragraph before a block names, and before the blocks of files that precede it."""
    before = section[:start].rstrip()
    while before.endswith("```"):
        before = before[: before.rindex("```", 0, -3)].rstrip()
    return NAME.findall(before.rsplit("\n\n", 1)[-1])


def followed(title: str) -> list[str]:
    """Do what a section says; return what its commands print."""
    section, printed, written = SECTIONS[title], [], 0
    namespace: dict[str, object] = {"__name__": "recipe"}
    for block in BLOCK.finditer(section):
        kind, content = block.groups()
        if kind in FILES:
            names = names_before(section, block.start())
            Path(names[written % len(names)]).write_text(content, encoding="utf-8")
            written += 1
            continue
        written = 0
        if kind == "python":
            exec(compile(content, f"docs/engines.md, {title}", "exec"), namespace)
        elif kind == "bash":
            done = [(line, run(line)) for line in lines_of(content)]
            printed += [said for line, said in done if said is not None and not listed(line, LAUNCHED)]
    return printed


def test_every_section_is_tested_or_only_links() -> None:
    tested = {"An array", "transformers", "llama.cpp", "vLLM", *NOT_RUN, "Two engines, one pair"}
    linking = ("Three traps", "Other planners", "Benchmarks")
    assert set(SECTIONS) == tested | set(linking)
    assert all("*Not run here.*" in SECTIONS[title] for title in NOT_RUN)
    assert all("```" not in SECTIONS[title] for title in linking)


def test_an_array(here: Path) -> None:
    imported, validated = followed("An array")
    trace = open_trace(here / "traces" / "array")
    assert (trace.manifest["positions"], trace.manifest["vocabulary"]) == (300, 500)
    assert (here / "runs" / "array" / "report.html").is_file()
    assert "300" in imported
    assert "Acceptance rate" in validated


def test_assisted_generation_of_the_built_in_pair(here: Path) -> None:
    """Recorded, counted and checked; the claims hold on its rows."""
    counted, validated = followed("transformers")
    assert "Drafts: sampled." in counted
    assert "Verification: standard, lossless." in counted
    assert "Best draft length" in counted
    manifest = open_trace(here / "traces" / "recorded").manifest
    assert manifest["vocabulary"] == 4096
    assert manifest["positions"] > 30
    assert manifest["recorded"]["settings"]["top_k"] == 0
    records = [json.loads(line)["spec_decode_acceptance"] for line in Path("recorded.jsonl").read_text().splitlines()]
    assert len(records) == 4
    assert max(length for record in records for length in record["per_step_drafted"]) == 4
    verdicts = json.loads((here / "runs" / "recorded" / "claims.json").read_text())
    assert set(CLAIMS) <= set(json.dumps(verdicts).split('"'))
    assert "Acceptance rate" in validated


def test_llama_cpp_from_its_stores_and_gguf_files_on(here: Path) -> None:
    """The steps that llama.cpp does itself are those of the script; the stores here are its own, of 7 rows."""
    for name in ("draft", "target"):
        shutil.copy(ROOT / "tests" / "validation" / "collection" / "llama_cpp_stores" / f"{name}.kld", here)
    pair = ROOT / "validation" / "pairs" / "builtin"
    write_gguf(pair / "small", here / "draft-q4.gguf", "Q4_0", pre="smollm")
    write_gguf(pair / "large", here / "target.gguf", pre="smollm")
    imported, checked, collected, counted = followed("llama.cpp")
    assert "7 positions, V = 4,096" in imported
    assert "Acceptance rate" in checked
    assert "Acceptance rate" in collected
    assert open_trace(here / "runs" / "gguf" / "trace").manifest["pair"]["small_name"] == "draft-q4.gguf"
    assert "40 steps of 2 records accepted 54 drafts" in counted
    assert "is not identified" in counted


def test_the_script_of_llama_cpp_runs_the_commands_of_the_recipe() -> None:
    script = (ROOT / "figures" / "studies" / "gguf" / "recipe.sh").read_text(encoding="utf-8")
    section = SECTIONS["llama.cpp"]
    assert "bash figures/studies/gguf/recipe.sh" in section
    for words in (
        "-ctk f32 -ctv f32 -fa off",
        "-c 256 -b 256",
        "--kl-divergence-base",
        "--outtype f32",
        "llama-quantize",
    ):
        assert words in section
        assert words in script


def test_vllm(here: Path) -> None:
    scrapes, loaded, answers, top_k = followed("vLLM")
    assert "1,000 steps of 1 records accepted 1,500 drafts" in scrapes
    assert '"num_speculative_tokens_per_batch_size": [[1, 64, 3]]' in scrapes
    assert "drafting loses from a batch of" in loaded
    ranges = json.loads(Path("schedule.json").read_text())["num_speculative_tokens_per_batch_size"]
    assert (ranges[0][0], ranges[-1][1], ranges[0][2]) == (1, 128, 3)
    assert "8 steps" in answers
    assert json.loads(Path("speculation_profile.json").read_text())["verification_method"] == "standard"
    assert "acceptance" in top_k.lower()


def test_two_engines_of_one_pair(here: Path) -> None:
    """They accept alike, but one drafts 5 tokens and the other 3, and counts the prefill's token."""
    (printed,) = followed("Two engines, one pair")
    said = " ".join(printed.split())
    assert "vllm (A) 2.675 (tokens a step, the target's own included), sglang (B) 2.502 (tokens of the answer" in said
    assert "They draft up to 5 and 3 tokens a step" in said
    assert "Counted alike (tokens a step at the shorter K) the intervals do not tell them apart" in said


def test_sglang(here: Path) -> None:
    (printed,) = followed("SGLang")
    assert "43 steps of 1 records accepted 10 drafts" in printed
    assert "Verification: standard, lossless." in printed
    assert "not 1 - TV(q, p)" in printed


def test_tensorrt(here: Path) -> None:
    (printed,) = followed("TensorRT-LLM")
    assert "10 steps of 1 records accepted 15 drafts" in printed
    assert "is not identified" in printed


def test_the_python_of_an_engine_that_is_not_run_is_python() -> None:
    blocks = [
        content for title in ("vLLM", *NOT_RUN) for kind, content in BLOCK.findall(SECTIONS[title]) if kind == "text"
    ]
    code = [block for block in blocks if block.startswith("import")]
    assert len(code) == 1
    for block in code:
        compile(block, "docs/engines.md", "exec")


def test_the_readme_links_the_recipes() -> None:
    assert "(docs/engines.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
