"""Two greedy texts of a prompt: the place where they part, and the rounding that explains it."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.validation.command_line import run
from validation.audit.compare import partings, read_pairs
from validation.errors import UserError

ROWS = {(): [9.0, 8.96, 0.0, 1.0], (0,): [5.0, 1.0, 4.0, 2.0]}
LAW = SimpleNamespace(vocabulary=4, logits=lambda prompt, tokens: np.array(ROWS[tuple(tokens)]))


def test_the_first_difference_alone_is_judged() -> None:
    (near, far) = partings(LAW, [(0, [0, 1], [1, 3]), (1, [0, 2, 0], [0, 3]), (2, [0, 1], [0, 1, 2])])
    assert (near.prompt, near.place, near.tokens) == (0, 0, (0, 1))
    assert near.below == (0.0, pytest.approx(0.04))
    assert (near.gap, near.needed) == (pytest.approx(0.04), pytest.approx(0.004))
    assert (far.prompt, far.place, far.tokens, far.below, far.gap) == (1, 1, (2, 3), (1.0, 3.0), 1.0)
    assert far.needed == pytest.approx(3 / 6)
    with pytest.raises(UserError, match=r"outside 0\.\.3"):
        partings(LAW, [(0, [0, 4], [0, 3])])


def written(path: Path, texts: dict[int, list[int]]) -> Path:
    lines = [{"prompt": [prompt], "continuation": text} for prompt, text in texts.items()]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


def test_the_prompts_of_both_files_are_compared(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a", {1: [2], 5: [3], 7: [1]}), written(tmp_path / "b", {7: [1], 5: [4]})
    assert read_pairs(first, second) == ([[5], [7]], [(0, [3], [4]), (1, [1], [1])])
    with pytest.raises(UserError, match="no prompt in common"):
        read_pairs(first, written(tmp_path / "c", {2: [1]}))


def test_the_exit_code_says_what_rounding_explains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the built-in target: the likeliest token against a far one, and no difference."""
    monkeypatch.chdir(tmp_path)
    for name, texts in (("a", {5: [3, 9]}), ("b", {5: [4, 9]})):
        written(Path(name), texts)
    call = ("audit", "--target", "builtin/large", "--json", "--compare", "a")
    found = run(*call, "b", "--rounding", "0.01")
    (parting,) = json.loads(found.stdout)["partings"]
    assert (found.exit_code, parting["place"], parting["tokens"]) == (1, 0, [3, 4])
    assert 0.01 < parting["needed"] < max(parting["below"])
    assert run(*call, "b", "--rounding", "0.49").exit_code == (parting["needed"] > 0.49)
    assert run(*call, "a").exit_code == 0
