"""Reading prompts, and every refusal with file and line."""

import gzip
import json
import tracemalloc

import pytest

from validation.collection.prompts import Prompt, read_prompts
from validation.errors import UserError


def test_jsonl(tmp_path):
    file = tmp_path / "p.jsonl"
    file.write_text('{"id": "a", "prompt": "one", "source": "s"}\n{"prompt": "zwei ü"}\n', encoding="utf-8")
    assert read_prompts(file) == [Prompt("a", "one", "s"), Prompt("line-2", "zwei ü", "p.jsonl")]
    assert len(read_prompts(file, limit=1)) == 1


@pytest.mark.parametrize("name", ["p.txt", "p.jsonl", "p.jsonl.gz"])
def test_a_byte_order_mark_is_no_part_of_the_first_prompt(tmp_path, name):
    text = "one\ntwo\n" if name == "p.txt" else '{"prompt": "one"}\n{"prompt": "two"}\n'
    content = text.encode("utf-8-sig")
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert [prompt.text for prompt in read_prompts(tmp_path / name)] == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.jsonl", b"", r"p\.jsonl is empty; put at least one prompt into it"),
        ("p.txt", b"", r"p\.txt is empty"),
        ("p.jsonl", b'{"prompt": "a"}\nnonsense\n', r"p\.jsonl, line 2 is not JSON \(Expecting value"),
        ("p.jsonl", b'{"prompt": "a"}\n\n', r"p\.jsonl, line 2 is not JSON"),
        ("p.jsonl", b'{"text": "a"}\n', r"p\.jsonl, line 1: the field 'prompt' is missing; write lines like \{"),
        ("p.jsonl", b'["a"]\n', r"p\.jsonl, line 1: the field 'prompt' is missing"),
        ("p.jsonl", b'{"prompt": 3}\n', r"p\.jsonl, line 1: the prompt is 3, not a text"),
        ("p.jsonl", b'{"prompt": " "}\n', r"p\.jsonl, line 1: the prompt is empty; remove the line or fill it in"),
        ("p.txt", b"a\n\nb\n", r"p\.txt, line 2: the prompt is empty"),
        ("p.jsonl", b'{"id": 1, "prompt": "a"}\n{"id": "1", "prompt": "b"}', "line 2: the id '1' was used before"),
        ("p.txt", b"a\n\xff\n", r"p\.txt, after line \d: cannot be read \(.*utf-8"),
        ("p.jsonl.gz", b"not gzip", r"p\.jsonl\.gz, after line 0: cannot be read \(Not a gzipped file"),
        ("p.csv", b"a\n", r"p\.csv does not end in \.jsonl, \.jsonl\.gz or \.txt"),
    ],
)
def test_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_prompts(tmp_path / name)


@pytest.mark.parametrize("field", ["prompt", "id", "source", "reference"])
def test_half_a_surrogate_pair_is_refused_with_its_line(tmp_path, field):
    file = tmp_path / "p.jsonl"
    row = {"prompt": "a", "id": "b", "source": "c", "reference": "d"}
    file.write_text(json.dumps(row) + "\n" + json.dumps(row | {"id": "e"} | {field: "x\ud800y"}) + "\n")
    message = rf"p\.jsonl, line 2: the {field} holds '\\ud800' \(character 2\), half of a surrogate pair"
    with pytest.raises(UserError, match=message):
        read_prompts(file)
    file.write_text(json.dumps(row | {field: "\U0001f600"}) + "\n")  # a whole pair in JSON is a character
    assert "\U0001f600" in str(read_prompts(file)[0])


@pytest.mark.parametrize("name", ["p.txt", "p.jsonl", "p.jsonl.gz"])
def test_a_line_that_is_too_long_is_refused_before_it_is_read_whole(tmp_path, name):
    first = "one\n" if name == "p.txt" else '{"prompt": "one"}\n'
    content = first.encode() + b"a" * 10**8
    (tmp_path / name).write_bytes(gzip.compress(content, 1) if name.endswith("gz") else content)
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match=rf"{name}, line 2: it is longer than 4,194,304 characters; shorten"):
            read_prompts(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < 10**8
    finally:
        tracemalloc.stop()


def test_missing_file_and_limit(tmp_path):
    with pytest.raises(UserError, match=r"There is no file .*gone\.txt; check the path"):
        read_prompts(tmp_path / "gone.txt")
    with pytest.raises(UserError, match="The limit of prompts is 0; it must be at least 1"):
        read_prompts(tmp_path / "gone.txt", limit=0)
