"""Reading prompts, and every refusal with file and line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from validation.errors import UserError
from validation.prompts import Prompt, builtin_prompts, read_prompts


def test_jsonl(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('{"id": "a", "prompt": "one", "source": "s"}\n{"prompt": "zwei ü"}\n', encoding="utf-8")
    assert read_prompts(file) == [Prompt("a", "one", "s"), Prompt("line-2", "zwei ü", "p.jsonl")]
    assert len(read_prompts(file, limit=1)) == 1


def test_gzip(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl.gz"
    file.write_bytes(gzip.compress(json.dumps({"prompt": "one"}).encode()))
    assert read_prompts(str(file)) == [Prompt("line-1", "one", "p.jsonl.gz")]


def test_text(tmp_path: Path) -> None:
    file = tmp_path / "p.txt"
    file.write_bytes(b"one\r\n  two\n")
    assert [prompt.text for prompt in read_prompts(file)] == ["one", "  two"]


def test_builtin() -> None:
    prompts = builtin_prompts()
    assert len(prompts) >= 200
    assert len({prompt.source for prompt in prompts}) == 3
    assert builtin_prompts(limit=3) == prompts[:3]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.jsonl", b"", r"p\.jsonl is empty; put at least one prompt into it"),
        ("p.txt", b"", r"p\.txt is empty"),
        ("p.jsonl", b'{"prompt": "a"}\nnonsense\n', r"p\.jsonl, line 2: not JSON \(Expecting value: 'nonsense'\)"),
        ("p.jsonl", b'{"prompt": "a"}\n\n', r"p\.jsonl, line 2: not JSON"),
        ("p.jsonl", b'{"text": "a"}\n', r"p\.jsonl, line 1: the field 'prompt' is missing; write lines like \{"),
        ("p.jsonl", b'["a"]\n', r"p\.jsonl, line 1: the field 'prompt' is missing"),
        ("p.jsonl", b'{"prompt": 3}\n', r"p\.jsonl, line 1: the prompt is 3, not a text"),
        ("p.jsonl", b'{"prompt": " "}\n', r"p\.jsonl, line 1: the prompt is empty; remove the line or fill it in"),
        ("p.txt", b"a\n\nb\n", r"p\.txt, line 2: the prompt is empty"),
        ("p.jsonl", b'{"id": 1, "prompt": "a"}\n{"id": "1", "prompt": "b"}', "line 2: the id '1' was used before"),
        ("p.txt", b"a\n\xff\n", r"p\.txt, after line \d: the text is not UTF-8"),
        ("p.jsonl.gz", b"not gzip", r"p\.jsonl\.gz, after line 0: cannot be read \(Not a gzipped file"),
        ("p.csv", b"a\n", r"p\.csv does not end in \.jsonl, \.jsonl\.gz or \.txt"),
    ],
)
def test_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_prompts(tmp_path / name)


def test_missing_file_and_limit(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"There is no prompt file .*gone\.txt; check the path"):
        read_prompts(tmp_path / "gone.txt")
    with pytest.raises(UserError, match="The limit of prompts is 0; it must be at least 1"):
        read_prompts(tmp_path / "gone.txt", limit=0)
