"""Control and direction characters of files reach neither the terminal nor a page: planted in names of all kinds."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from markupsafe import Markup
from rich.table import Table

from tests.validation.command_line import one_sentence, run
from validation.cli.display import open_console
from validation.cli.run import print_json
from validation.errors import UserError
from validation.planning.setting import PlanLink, Setting
from validation.planning.users import read_users
from validation.printable import printable

OBEYED = "\x00\x07\x1b[31m\x7f\x9b\u061c\u200b\u202e\u2066\u2028\ufeff"


def obeyed(text: str) -> set[str]:
    return {one for one in OBEYED if not one.isprintable()} & set(text)


def test_what_is_obeyed_is_escaped_and_words_are_not():
    assert printable(OBEYED) == r"\x00\x07\x1b[31m\x7f\x9b\u061c\u200b\u202e\u2066\u2028\ufeff"
    assert printable("\ud800") == r"\ud800"
    for word in ("naïve – ok\tα\n", "می\u200cخواهم", "👩\u200d🔬", "a b"):
        assert printable(word) == word
    assert printable("a\nb\r", keep="") == r"a\x0ab\x0d"
    assert isinstance(printable(Markup("<b>\x1b</b>")), Markup)
    assert printable(Markup("<b>\x1b</b>")) == r"<b>\x1b</b>"


@pytest.mark.parametrize("terminal", [True, False])
def test_the_screen_escapes_what_it_prints(terminal, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("TERM", "dumb")
    console = open_console()
    table = Table(title=OBEYED)
    table.add_column(OBEYED)
    table.add_row(f"user {OBEYED}")
    console.print(table)
    console.print(f"name {OBEYED}", soft_wrap=True)
    assert "name \\x00\\x1b[31m\\x7f" in stream.getvalue()
    assert not obeyed(stream.getvalue())


def test_errors_and_json_are_escaped(capsys):
    assert not obeyed(str(UserError(f"There is no model {OBEYED}.")))
    print_json({"user": OBEYED, "plain": "α"})
    out = capsys.readouterr().out
    assert not obeyed(out)
    assert json.loads(out) == {"user": OBEYED, "plain": "α"}


def test_names_of_users_are_escaped_where_they_are_read(tmp_path):
    with (tmp_path / "users.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["name", "rate"], [f"a{OBEYED}\nKept: b".replace("\x00", ""), "1M"]])
    (user,) = read_users(tmp_path / "users.csv", Setting(PlanLink("mine", np.array([1e6]), 0.02, 1e6), 0.01, 0.03))
    assert not obeyed(user.name)
    assert "\n" not in user.name


def test_the_name_of_a_sampler_is_escaped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("toy.npz", target=np.array([[0.5, 0.5]]))
    name = "bad\x1b[31m\u202e.py"
    Path(name).write_text("def sample(prompts, n, seed):\n    raise ValueError('a\\x1b[31mb')\n")
    found = run("audit", "--sampler", f"{name}:sample", "--table", "toy.npz", "--depth", "1")
    one_sentence(found, r"bad\x1b[31m\u202e.py:sample raised ValueError (a\x1b[31mb)")
    assert not obeyed(found.output)
