"""``hlm device``: prompts as turns, and texts that are stored."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.validation.link.served import served
from validation.cli.commands import main
from validation.collection.fingerprint import marks_of_model
from validation.models.chat import PLAIN
from validation.models.pair import PAIRS_FOLDER, load_pair

BUILTIN = PAIRS_FOLDER / "builtin"
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}assistant:"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory):
    """A server of the built-in target."""
    pair = load_pair("builtin")
    tokenizer, target = marks_of_model(pair)
    with served(pair, tokenizer=tokenizer, target=target) as running:
        yield running.address


@pytest.fixture
def words(address: str, tmp_path: Path) -> list[str]:
    """A device whose tokenizer has a chat template, two prompts, and four new tokens."""
    draft = tmp_path / "small"
    shutil.copytree(BUILTIN / "small", draft)
    (draft / "chat_template.jinja").write_text(TEMPLATE)
    (tmp_path / "prompts.txt").write_text("One.\nTwo.\n")
    files = ["--draft", str(draft), "--prompts", str(tmp_path / "prompts.txt"), "--out", str(tmp_path / "texts.jsonl")]
    return ["device", "--server", address, "--new-tokens", "4", *files]


def test_prompts_are_turns_if_they_are_asked_for(words: list[str], tmp_path: Path) -> None:
    turns = CliRunner().invoke(main, [*words, "--chat", "--json"])
    assert turns.exit_code == 0, turns.output
    assert PLAIN not in turns.stderr
    (tmp_path / "texts.jsonl").rename(tmp_path / "turns.jsonl")
    plain = CliRunner().invoke(main, [*words, "--json"])
    assert plain.stderr.count(PLAIN) == 1
    (tmp_path / "prompts.txt").write_text("user: One. assistant:\nuser: Two. assistant:\n")
    (tmp_path / "texts.jsonl").unlink()
    written = CliRunner().invoke(main, [*words, "--json"])
    texts = [[one["tokens"] for one in json.loads(done.stdout)["texts"]] for done in (turns, plain, written)]
    assert texts[0] == texts[2] != texts[1]


def test_a_stored_text_is_of_its_prompt(words: list[str], tmp_path: Path) -> None:
    first = CliRunner().invoke(main, [*words, "--json"])
    stored = (tmp_path / "texts.jsonl").read_text()
    assert json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout) == json.loads(first.stdout)
    assert (tmp_path / "texts.jsonl").read_text() == stored
    (tmp_path / "prompts.txt").write_text("One.\nThree.\n")
    again = CliRunner().invoke(main, words)
    assert again.exit_code == 2
    assert "other models, prompts or settings" in again.output


@pytest.mark.parametrize(
    ("more", "said"), [(["--openai", "127.0.0.1:0"], "has turns"), (["--draft", str(BUILTIN / "small")], "no chat")]
)
def test_turns_that_cannot_be_are_refused(words: list[str], more: list[str], said: str) -> None:
    done = CliRunner().invoke(main, [*words, "--chat", *more])
    assert done.exit_code == 2
    assert said in done.output
