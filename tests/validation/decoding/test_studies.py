"""Studies: what they decode, keep, continue and read again."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hlmtheory.wire import DevicePolicy, DraftProbabilities, threshold_rule
from tests.validation.stored_traces import stored
from validation.cli.commands import main
from validation.collection.fingerprint import fingerprints
from validation.collection.prompts import Prompt
from validation.decoding import scoring
from validation.decoding.fitting import fitted_to
from validation.decoding.methods.planned import Planned, models_mark, write_policy
from validation.decoding.methods.single_draft import TargetOnly
from validation.decoding.studies import CLOUD_ONLY_S, CLOUD_S, flexspec_links, open_study
from validation.errors import UserError
from validation.plots import Decoding, Tag, draw

PROMPTS = [Prompt("a", "two and two", "sums", "make four"), Prompt("b", "it was the best", "novels")]
TOKENS = 4


@pytest.fixture(autouse=True)
def letters(monkeypatch):
    monkeypatch.setattr(scoring, "load_embedding", lambda: embedded)


def embedded(texts: list[str]) -> np.ndarray:
    return np.array([[1 + text.count(letter) for letter in "aeio"] for text in texts])


@pytest.fixture
def run_folder(tmp_path, folders):
    stored(tmp_path / "run" / "trace")
    lines = [{"id": p.id, "prompt": p.text, "source": p.source, "reference": p.reference} for p in PROMPTS]
    (tmp_path / "prompts.jsonl").write_text("\n".join(map(json.dumps, lines)))

    def decode(*more):
        words = ["--run", str(tmp_path / "run"), "--draft", str(folders[0]), "--target", str(folders[1])]
        words += ["--prompts", str(tmp_path / "prompts.jsonl"), "--new-tokens", str(TOKENS), *more]
        return CliRunner().invoke(main, ["decode", *words])

    return decode


def test_a_study_is_decoded_once_and_read_again(run_folder, tmp_path):
    done = run_folder("hlm")
    assert done.exit_code == 0, done.output
    assert "U-HLM risk-prone" in done.output
    study = open_study(tmp_path / "run" / "decoded" / "hlm")
    assert study.sources == ["sums", "novels"]
    assert len(study.records) == 2 * len(study.about["methods"])
    assert [method.name for method in study.methods] == study.about["methods"]
    assert [row.prompt for row in study.by_method[TargetOnly.name, "none"]] == ["a", "b"]
    assert {row.prompt for row in study.of_source("novels").records} == {"b"}
    assert set(study.scores) == {f"{row.method} | {row.prompt} | none" for row in study.records}
    first, second = (study.scores[f"{TargetOnly.name} | {prompt} | none"] for prompt in "ab")
    assert set(second) == {"of", "nats", "nats_total", "similarity_large"}
    assert set(first) - set(second) == {"similarity_reference"}
    assert first["nats_total"] == pytest.approx(TOKENS * first["nats"])
    journal = (tmp_path / "run" / "decoded" / "hlm" / "journal.jsonl").read_bytes()
    assert run_folder("hlm").exit_code == 0
    assert (tmp_path / "run" / "decoded" / "hlm" / "journal.jsonl").read_bytes() == journal


def test_methods_that_follow_the_rate_are_decoded_over_every_network(run_folder, tmp_path):
    assert run_folder("greedy", "--method", "flexspec exact", "--method", "cloud only").exit_code == 0
    study = open_study(tmp_path / "run" / "decoded" / "greedy")
    links = [link.name for link in flexspec_links()]
    assert list(study.by_method) == [("cloud only", "none"), *(("flexspec exact", name) for name in links)]
    assert all(row.temperature == 0 for row in study.records)


def test_a_policy_is_decoded_beside_the_methods_of_a_study(run_folder, tmp_path, pair):
    mark = models_mark(fingerprints(pair, [], []))
    policy = DevicePolicy(pair.vocabulary, 1.0, threshold_rule(2), DraftProbabilities(), planned_for=mark)
    file, name = write_policy(policy, tmp_path / "policy.json"), Planned(policy).name
    done = run_folder("hlm", "--policy", str(file), "--method", "planned", "--method", "HLM", "--json")
    assert done.exit_code == 0, done.output
    assert [line["method"] for line in json.loads(done.stdout)["methods"]] == ["HLM", name]
    assert len(open_study(tmp_path / "run" / "decoded" / "hlm").by_method[name, "none"]) == 2
    assert "no method 'planned'" in run_folder("hlm", "--method", "planned").output
    assert "is for temperature 1 and top-p 1" in run_folder("greedy", "--policy", str(file)).output
    write_policy(replace(policy, planned_for="300 other models"), file)
    assert "planned for other models" in run_folder("hlm", "--policy", str(file), "--method", "planned").output
    assert "There is no policy at" in run_folder("hlm", "--policy", "nowhere").output


def test_cloud_only_takes_what_flexspec_prints():
    for link in flexspec_links():
        assert CLOUD_S + 2 * link.way.propagation_s == pytest.approx(CLOUD_ONLY_S[link.name])


def test_what_cannot_be_is_refused(run_folder, tmp_path, pair):
    assert "choose one of: hlm, design, greedy, nucleus" in run_folder("best").output
    assert "has no method 'magic'; choose of: small only" in run_folder("hlm", "--method", "magic").output
    with pytest.raises(UserError, match=r"no finished study .* `python3 hlm decode hlm`"):
        open_study(tmp_path / "decoded" / "hlm")
    exhibit = Decoding(
        tag=Tag.MEASURED,
        number="1", paper="cu-hlm", source="oh2025cuhlm", title="t", message="m",
        study="hlm",
        measure=lambda studies, seed: {},
    )  # fmt: skip
    with pytest.raises(UserError, match="drawn from texts; decode them with `python3 hlm decode hlm`"):
        draw(exhibit, None, tmp_path, command="", seed=1)


def test_without_the_extra_there_is_no_accuracy_and_the_screen_says_so(run_folder, tmp_path, monkeypatch):
    def missing():
        raise UserError("not installed")

    monkeypatch.setattr(scoring, "load_embedding", missing)
    said = run_folder("hlm", "--method", TargetOnly.name).output
    assert "No inference accuracy: it takes `python3 hlm setup validation accuracy`" in said
    scores = open_study(tmp_path / "run" / "decoded" / "hlm").scores
    assert [set(values) for values in scores.values()] == [{"of", "nats", "nats_total"}] * 2
    monkeypatch.setattr(scoring, "load_embedding", lambda: embedded)
    assert "No inference accuracy" not in run_folder("hlm", "--method", TargetOnly.name).output
    scores = open_study(tmp_path / "run" / "decoded" / "hlm").scores
    assert all("similarity_large" in values for values in scores.values())


@pytest.fixture
def decoded(run_folder, tmp_path):
    done = run_folder("hlm", "--method", TargetOnly.name, "--method", "HLM")
    assert done.exit_code == 0, done.output
    return tmp_path / "run" / "decoded" / "hlm"


def changed_digit(content: bytes) -> bytes:
    place = max(i for i, byte in enumerate(content) if chr(byte).isdigit())
    return content[:place] + (b"1" if content[place : place + 1] != b"1" else b"2") + content[place + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a changed digit": changed_digit,
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "an empty object": lambda content: b"{}",
    "a list": lambda content: b"[]",
}


@pytest.mark.parametrize("mended", ["a changed digit", "cut"])
@pytest.mark.parametrize("name", ["scores.json", "study.json"])
def test_a_damaged_file_of_a_study_is_noticed_and_made_anew(decoded, run_folder, name, mended):
    before = open_study(decoded)
    journal, content = (decoded / "journal.jsonl").read_bytes(), (decoded / name).read_bytes()
    for damage in (*DAMAGES, mended):  # the last damage is the one to repair
        (decoded / name).write_bytes(DAMAGES[damage](content))
        with pytest.raises(UserError, match=rf"{name} is damaged: .* `python3 hlm decode hlm`") as caught:
            open_study(decoded)
        assert "\n" not in str(caught.value)
    again = run_folder("hlm", "--method", TargetOnly.name, "--method", "HLM")
    assert again.exit_code == 0, again.output
    assert open_study(decoded).scores == before.scores
    assert open_study(decoded).records == before.records
    assert (decoded / "journal.jsonl").read_bytes() == journal  # no text was decoded again


@pytest.mark.parametrize("lines", [1, 3])
def test_a_journal_that_is_cut_is_noticed_and_the_missing_texts_are_decoded(decoded, run_folder, lines):
    before = open_study(decoded)
    journal = decoded / "journal.jsonl"
    whole = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(whole[:-lines]))  # at the end of a line, so that no line is torn
    with pytest.raises(UserError, match=rf"journal\.jsonl is cut: {lines} of 4 texts are missing; decode them again"):
        open_study(decoded)
    journal.write_bytes(b"".join(whole)[:-7])
    with pytest.raises(UserError, match=r"journal\.jsonl is cut: 1 of 4 texts"):
        open_study(decoded)
    journal.write_bytes(b"".join(whole[:-lines]))
    again = run_folder("hlm", "--method", TargetOnly.name, "--method", "HLM")
    assert again.exit_code == 0, again.output
    assert [row.tokens for row in open_study(decoded).records] == [row.tokens for row in before.records]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_fit_is_fitted_again(tmp_path, damage):
    trace, file = stored(tmp_path / "trace"), tmp_path / "fitted.json"
    fitted = fitted_to(trace, file)
    content = file.read_bytes()
    file.write_bytes(DAMAGES[damage](content))
    assert fitted_to(trace, file) == fitted
    assert file.read_bytes() == content


def test_the_numbers_are_the_same_twice(run_folder, tmp_path):
    words = ("hlm", "--method", "HLM", "--method", "large only", "--quiet", "--json")
    first, second = run_folder(*words), run_folder(*words)
    assert first.exit_code == 0, first.output
    assert first.stdout == second.stdout
    plain = json.loads(first.stdout)
    times = plain["passes"]
    (target,) = (line for line in plain["methods"] if line["method"] == "large only")
    assert target["tokens_per_s"]["value"] == pytest.approx(1 / times["large"]["median_s"])
    assert target["risk_per_token"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    lines = [json.loads(line) for line in Path(plain["texts"]).read_text(encoding="utf-8").splitlines()]
    assert [(line["method"], line["id"]) for line in lines] == [
        (method, prompt) for method in ("large only", "HLM") for prompt in "ab"
    ]
    assert all(isinstance(line["text"], str) and line["tokens"] for line in lines)
