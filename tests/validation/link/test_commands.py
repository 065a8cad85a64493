"""``hlm serve`` with TLS and versions; ``hlm device`` with turns, stored texts and stated numbers."""

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from hlmtheory.wire import DevicePolicy, SeededTokens, threshold_rule
from tests.validation.command_line import run
from tests.validation.link.served import LONGEST_S, Running, serving
from tests.validation.stopping import until
from validation.collection.collect import encode_prompts
from validation.collection.fingerprint import marks_of_model
from validation.collection.prompts import builtin_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import FixedLength
from validation.decoding.methods.planned import write_policy
from validation.decoding.methods.single_draft import CuHlmOnline
from validation.link.device import Device
from validation.link.device_records import ALONE
from validation.link.remote import Remote
from validation.models.chat import PLAIN
from validation.models.pair import PAIRS_FOLDER, load_pair, load_single
from validation.models.versions import versioned_pair

LARGE = PAIRS_FOLDER / "builtin" / "large"


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate that signs itself, as docs/run.md does; return it and its key."""
    made = folder / f"{name}.pem", folder / f"{name}.key"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-out", made[0], "-keyout", made[1]]
    subprocess.run(words, check=True, capture_output=True, timeout=LONGEST_S)
    return made


def device(address: str, *words: str) -> tuple[int, str]:
    few = ["--server", address, "--texts", "1", "--new-tokens", "4", "--patience", "20s", "--json"]
    done = run("device", *few, *words)
    return done.exit_code, done.output


def test_a_device_trusts_the_certificate_that_it_is_given_and_no_other(tmp_path, monkeypatch):
    (cert, key), (other, _) = (certificate(tmp_path, name) for name in ("server", "other"))
    with serving(monkeypatch, "--tls", str(cert), str(key)) as server:
        port = server.address[1]
        code, said = device(f"wss://localhost:{port}", "--ca", str(cert))
        assert code == 0, said
        assert len(json.loads(said)["texts"][0]["tokens"]) == 4
        began = time.monotonic()
        for host, words in (
            ("localhost", ["--ca", str(other)]),
            ("localhost", []),
            ("127.0.0.1", ["--ca", str(cert)]),  # the certificate names another host
        ):
            code, said = device(f"wss://{host}:{port}", *words)
            assert code == 2, said
            assert said.startswith(f"Error: The certificate of wss://{host}:{port} is not trusted"), said
        _, said = device(f"ws://localhost:{port}")
        assert f"answers with TLS; write wss://localhost:{port}." in said
    with serving(monkeypatch) as server:
        port = server.address[1]
        for words in ([], ["--try"]):
            _, said = device(f"wss://127.0.0.1:{port}", "--ca", str(cert), *words)
            assert f"answers without TLS; write ws://127.0.0.1:{port}." in said
    assert time.monotonic() - began < 60  # three times the patience


@pytest.fixture(scope="module")
def second(tmp_path_factory):
    folder = tmp_path_factory.mktemp("versions") / "second"
    shutil.copytree(LARGE, folder)
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in sorted(weights) if "layers.0" in name and "down_proj" in name)
    weights[name] = weights[name].roll(1, 0)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def test_a_file_switches_the_version_within_a_text(second, tmp_path, monkeypatch, caplog):
    in_use, prompts = tmp_path / "version.txt", builtin_prompts(limit=1)
    in_use.write_text("target\n")
    with serving(monkeypatch, "--version", f"v2={second}", "--in-use", str(in_use)) as server:
        in_use.write_text("v3")
        until(lambda: "The version stays target: There is no version 'v3'" in caplog.text)
        pair, told = load_single(str(LARGE.parent / "small")), list[int]()
        tokenizer, draft = marks_of_model(pair)

        def switch(tokens):
            told.extend(tokens)
            wanted = "v2" if 6 <= len(told) < 14 else "target"
            in_use.write_text(wanted)
            until(lambda: server.version.name == wanted)

        with Remote("ws://{}:{}".format(*server.address)) as remote:
            (ids,) = encode_prompts(pair, prompts, 24)
            run = Device(pair, remote, tokenizer=tokenizer, draft=draft).generate
            found = run(FixedLength(3), ids, name=prompts[0].id, seed=1, new_tokens=24, on_tokens=switch)
    assert [who for _, who in found.writers] == ["target", "v2", "target"]
    whole = versioned_pair(load_pair("builtin"), {"target": LARGE, "v2": second}, found.writers, pin="position")
    (expected,) = decode(whole, prompts, FixedLength(3), new_tokens=24, seed=1)
    assert found.tokens == expected.tokens == told
    plain = decode(load_pair("builtin"), prompts, FixedLength(3), new_tokens=24, seed=1)
    assert plain[0].tokens != found.tokens


def test_a_version_with_another_tokenizer_is_refused(second, tmp_path):
    folder = tmp_path / "other"
    shutil.copytree(second, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    first, last = list(vocabulary)[-2:]
    vocabulary[first], vocabulary[last] = vocabulary[last], vocabulary[first]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    done = run("serve", "--listen", "127.0.0.1:0", "--version", f"v2={folder}")
    assert done.exit_code == 2, done.output
    assert "has another tokenizer" in done.output


TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}assistant:"


@pytest.fixture
def words(address, tmp_path):
    draft = tmp_path / "small"
    shutil.copytree(LARGE.parent / "small", draft)
    (draft / "chat_template.jinja").write_text(TEMPLATE)
    (tmp_path / "prompts.txt").write_text("One.\nTwo.\n")
    files = ["--draft", str(draft), "--prompts", str(tmp_path / "prompts.txt"), "--out", str(tmp_path / "texts.jsonl")]
    return ["device", "--server", address, "--new-tokens", "4", *files]


def texts_of(words: list[str]) -> list[list[int]]:
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    return [one["tokens"] for one in json.loads(done.stdout)["texts"]]


def test_prompts_are_turns_if_they_are_asked_for(words, tmp_path):
    out, prompts = tmp_path / "texts.jsonl", tmp_path / "prompts.txt"
    turns = texts_of([*words, "--chat"])
    out.unlink()
    assert run(*words).stderr.count(PLAIN) == 1
    stored = out.read_text()
    again = texts_of(words)  # they are there
    assert out.read_text() == stored
    prompts.write_text("One.\nThree.\n")
    other = run(*words)
    assert other.exit_code == 2
    assert "other models, prompts or settings" in other.output
    out.unlink()
    prompts.write_text("user: One. assistant:\nuser: Two. assistant:\n")
    assert texts_of(words) == turns != again


def test_a_method_with_stated_numbers_writes_the_text_of_the_loop(address):
    numbers = {"threshold": 0.6, "slope": 0.5, "intercept": -0.1, "distortion_tolerance": 0.2}
    given = [word for number, value in numbers.items() for word in ("--set", f"{number}={value}")]
    line = ["device", "--server", address, "--texts", "1", "--new-tokens", "8", "--json", "--method", "CU-HLM online"]
    done = run(*line, *given)
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["texts"]
    (expected,) = decode(load_pair("builtin"), builtin_prompts(limit=1), CuHlmOnline(**numbers), new_tokens=8, seed=1)
    assert found["tokens"] == expected.tokens
    assert 0 < found["came"]["tokens"] <= 8
    assert 0 < found["came"]["first_s"] <= found["came"]["last_s"] <= found["seconds"]
    assert (found["drafted"], found["skipped"]) == (expected.total("drafted"), expected.total("skipped"))
    assert found["method"] == f"CU-HLM online ({', '.join(f'{number} = {value}' for number, value in numbers.items())})"


@pytest.mark.parametrize("alone", ["the option", "the policy", ""])
def test_tokens_of_the_draft_alone_are_named(words, tmp_path, monkeypatch, alone):
    pair, generate = load_pair("builtin"), Device.generate
    tokenizer, target = marks_of_model(pair)
    with Running(pair, tokenizer=tokenizer, target=target) as running:

        def first_with_the_server(*given, **options):
            found = generate(*given, **options)
            running.stop()
            return found

        monkeypatch.setattr(Device, "generate", first_with_the_server)
        given = [*words, "--server", running.address, "--patience", "0.2s"]
        given += ["--alone"] if alone == "the option" else []
        planned = DevicePolicy(pair.vocabulary, 1.0, threshold_rule(4), SeededTokens(), alone=alone == "the policy")
        given += ["--policy", str(write_policy(planned, tmp_path / "policy.json"))]
        done = run(*given)
    if not alone:  # neither the option nor the policy
        assert done.exit_code == 2
        return
    assert done.exit_code == 0, done.output
    stored = [json.loads(line) for line in Path(words[words.index("--out") + 1]).read_text().splitlines()]
    assert [one["writers"] for one in stored] == [[[0, "target"]], [[0, ALONE]]]
    assert [one["alone"] for one in stored] == [[], [[0, 4]]]
