"""``hlm device``: prompts as turns, and texts that are stored."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hlmtheory.policy import DevicePolicy, SeededTokens, threshold_rule
from tests.validation.link.served import served
from validation.cli.commands import main
from validation.collection.fingerprint import marks_of_model
from validation.collection.prompts import builtin_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import FLEXSPEC_DRAFT_S, FlexSpec
from validation.decoding.methods.quantized import CSqs, KSqs
from validation.decoding.methods.single_draft import CuHlmCertified, CuHlmOffline, CuHlmOnline, UHlm
from validation.decoding.methods.split import DssdCertified
from validation.decoding.policy_file import write_policy
from validation.link.device import Device
from validation.link.device_records import ALONE, LinkRecord
from validation.models.chat import PLAIN
from validation.models.pair import PAIRS_FOLDER, load_pair

BUILTIN = PAIRS_FOLDER / "builtin"
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}assistant:"


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


def test_the_default_method_has_a_reference_of_hlm_decode(address: str, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("Tom has three apples and\nThe sum of two\n")
    line = ["--prompts", str(tmp_path / "p.txt"), "--new-tokens", "12", "--json"]
    done = CliRunner().invoke(main, ["device", "--server", address, *line])
    only = ["--run", str(tmp_path / "run"), "--method", "shared seed (K = 4)"]
    decoded = CliRunner().invoke(main, ["decode", "reference", *only, *line])
    assert decoded.exit_code == 0, decoded.output
    file = Path(json.loads(decoded.stdout)["texts"])
    texts = [text["text"] for text in map(json.loads, file.read_text().splitlines())]
    assert texts == [text["text"] for text in json.loads(done.stdout)["texts"]]


NUMBERS: list[tuple[str, dict[str, float], Callable[[], Method]]] = [
    ("U-HLM", {"threshold": 0.431}, lambda: UHlm(0.431)),
    ("CU-HLM offline", {"threshold": 0.6, "k": 30}, lambda: CuHlmOffline(0.6, 30)),
    (
        "CU-HLM online",
        {"threshold": 0.6, "slope": 0.5, "intercept": -0.1, "distortion_tolerance": 0.2},
        lambda: CuHlmOnline(0.6, slope=0.5, intercept=-0.1, distortion_tolerance=0.2),
    ),
    ("CU-HLM certified", {"threshold": 0.6, "bias_tolerance": 0.3}, lambda: CuHlmCertified(0.6, bias_tolerance=0.3)),
    ("DSSD certified", {"limit": 0.05}, lambda: DssdCertified(0.05, 4)),
    ("K-SQS", {"k": 8, "resolution": 50}, lambda: KSqs(8, resolution=50)),
    ("C-SQS", {"threshold": 0.01, "learning_rate": 0.002}, lambda: CSqs(0.01, learning_rate=0.002)),
    (
        "flexspec linear, printed acceptance",
        {"max_draft_length": 3, "propagation_s": 0.3},
        lambda: FlexSpec(
            "linear",
            printed_acceptance=True,
            max_draft_length=3,
            costs={"propagation_s": 0.3, "edge_slope_s": FLEXSPEC_DRAFT_S},
        ),
    ),
]


@pytest.mark.parametrize(("name", "numbers", "make"), NUMBERS, ids=[one[0] for one in NUMBERS])
def test_a_method_with_stated_numbers_writes_the_text_of_the_loop(
    address: str, name: str, numbers: dict[str, float], make: Callable[[], Method]
) -> None:
    given = [word for number, value in numbers.items() for word in ("--set", f"{number}={value}")]
    line = ["device", "--server", address, "--texts", "1", "--new-tokens", "8", "--json", "--method", name, *given]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["texts"]
    (expected,) = decode(load_pair("builtin"), builtin_prompts(limit=1), make(), new_tokens=8, seed=1, batch=1)
    assert found["tokens"] == expected.tokens
    assert 0 < found["came"]["tokens"] <= 8
    assert 0 < found["came"]["first_s"] <= found["came"]["last_s"] <= found["seconds"]
    assert (found["drafted"], found["skipped"]) == (expected.total("drafted"), expected.total("skipped"))
    assert found["method"] == f"{name} ({', '.join(f'{number} = {value}' for number, value in numbers.items())})"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--method", "U-HLM"], "needs --set threshold=VALUE"),
        (["--method", "U-HLM", "--set", "k=3"], "has no number 'k'; it takes threshold (0 to 1)"),
        (["--method", "U-HLM", "--set", "threshold=2"], "must be a number (0 to 1)"),
        (["--method", "HLM", "--set", "threshold=0.5"], "has no numbers to set"),
        (["--method", "server", "--set", "threshold=0.5"], "--set is about a method of --method"),
        (["--policy", "policy.json", "--set", "threshold=0.5"], "--set is about a method of --method"),
        (["--adapt", "8", "--set", "threshold=0.5"], "--set is about a method of --method"),
    ],
)
def test_numbers_that_cannot_be_set_are_refused(given: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["device", *given])
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


def test_stored_texts_are_of_the_numbers(address: str, tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "texts.jsonl"), "--texts", "1", "--new-tokens", "2", "--method", "U-HLM"]
    first, again = (
        CliRunner().invoke(main, ["device", "--server", address, *out, "--set", f"threshold={value}"])
        for value in (0.5, 0.6)
    )
    assert first.exit_code == 0, first.output
    assert again.exit_code == 2
    assert "other models, prompts or settings" in again.output


@pytest.mark.parametrize("alone", ["the option", "the policy", ""])
def test_tokens_of_the_draft_alone_are_named(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: str
) -> None:
    pair, generate = load_pair("builtin"), Device.generate
    tokenizer, target = marks_of_model(pair)
    with served(pair, tokenizer=tokenizer, target=target) as running:

        def first_with_the_server(*given: Any, **options: Any) -> LinkRecord:
            found = generate(*given, **options)
            running.stop()
            return found

        monkeypatch.setattr(Device, "generate", first_with_the_server)
        given = [
            *words,
            "--server",
            running.address,
            "--patience",
            "0.2s",
            *(["--alone"] if alone == "the option" else []),
        ]
        planned = DevicePolicy(pair.vocabulary, 1.0, threshold_rule(4), SeededTokens(), alone=alone == "the policy")
        given += ["--policy", str(write_policy(planned, tmp_path / "policy.json"))]
        done = CliRunner().invoke(main, given)
    if not alone:  # neither the option nor the policy
        assert done.exit_code == 2
        assert "did not answer for 0.2 s" in done.output
        return
    assert done.exit_code == 0, done.output
    told = [line for line in done.output.splitlines() if "4 tokens in" in line]
    assert ["by the draft alone" in line for line in told] == [False, True]
    assert told[1].endswith("; by the draft alone, with its law: tokens 1 to 4")
    stored = [json.loads(line) for line in Path(words[words.index("--out") + 1]).read_text().splitlines()]
    assert [one["writers"] for one in stored] == [[[0, "target"]], [[0, ALONE]]]
    assert [one["alone"] for one in stored] == [[], [[0, 4]]]


@pytest.mark.parametrize(
    ("more", "said"), [(["--openai", "127.0.0.1:0"], "has turns"), (["--draft", str(BUILTIN / "small")], "no chat")]
)
def test_turns_that_cannot_be_are_refused(words: list[str], more: list[str], said: str) -> None:
    done = CliRunner().invoke(main, [*words, "--chat", *more])
    assert done.exit_code == 2
    assert said in done.output
