"""``hlm serve`` with TLS, with keys in a file, and with versions of the target that a file names."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from tests.validation.link.commands import serving
from tests.validation.link.served import LONGEST_S, until
from validation.cli.commands import main
from validation.collection.collect import encode_prompts
from validation.collection.fingerprint import marks_of_model
from validation.collection.prompts import builtin_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import FixedLength
from validation.link.device import Device
from validation.link.remote import Remote
from validation.link.server import Server
from validation.models.pair import PAIRS_FOLDER, load_pair, load_single
from validation.models.versions import versioned_pair

LARGE = PAIRS_FOLDER / "builtin" / "large"


def certificate(folder: Path, name: str, *, host: str = "localhost") -> tuple[Path, Path]:
    """Make a certificate that signs itself, as docs/run.md does; return it and its key."""
    made = folder / f"{name}.pem", folder / f"{name}.key"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    words += ["-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}", "-out", made[0], "-keyout", made[1]]
    subprocess.run(words, check=True, capture_output=True, timeout=LONGEST_S)
    return made


def device(address: str, *words: str) -> tuple[int, str]:
    """Run ``hlm device`` for a few tokens; return its exit code and output."""
    few = ["--texts", "1", "--new-tokens", "4", "--patience", "20s", "--json"]
    done = CliRunner().invoke(main, ["device", "--server", address, *few, *words])
    return done.exit_code, done.output


def test_a_device_trusts_the_certificate_that_it_is_given_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
            assert "give --ca" in said
        _, said = device(f"ws://localhost:{port}")
        assert f"answers with TLS; write wss://localhost:{port}." in said
    with serving(monkeypatch) as server:
        port = server.address[1]
        for words in ([], ["--try"]):
            _, said = device(f"wss://127.0.0.1:{port}", "--ca", str(cert), *words)
            assert f"answers without TLS; write ws://127.0.0.1:{port}." in said
    assert time.monotonic() - began < 60  # three times the patience


def test_slower_passes_change_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = ("--pass-time", "150ms", "--draft", "builtin", "--draft-time", "50ms")
    with serving(monkeypatch) as server:
        (_, plain), (_, plain_own) = (device(_ws(server), *words) for words in ((), ("--method", "server")))
    with serving(monkeypatch, *slow) as server:
        (_, slower), (_, own) = (
            device(_ws(server), "--draft-time", "50ms", *words) for words in ((), ("--method", "server"))
        )
    for fast, late in ((plain, slower), (plain_own, own)):
        (before,), (after,) = (json.loads(said)["texts"] for said in (fast, late))
        assert after["tokens"] == before["tokens"]
        assert after["seconds"] > 0.3  # the prompt and a round at the server, and drafts


def _ws(server: Server) -> str:
    return "ws://{}:{}".format(*server.address)


def test_certificates_that_cannot_be_are_refused(tmp_path: Path) -> None:
    (cert, key), (_, other_key) = (certificate(tmp_path, name) for name in ("server", "other"))
    (tmp_path / "text").write_text("no certificate")
    missing = str(tmp_path / "missing")
    for words, said in (
        (["serve", "--tls", str(cert), str(other_key)], "are no certificate and its key"),
        (["serve", "--tls", missing, str(key)], missing),
        (["device", "--server", "wss://localhost:1", "--ca", str(tmp_path / "text")], "is no certificate"),
        (["device", "--server", "wss://localhost:1", "--ca", missing], missing),
        (["device", "--server", "ws://localhost:1", "--ca", str(cert)], "wss://"),
    ):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 2, done.output
        assert said in done.output


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built-in target with one matrix changed."""
    folder = tmp_path_factory.mktemp("versions") / "second"
    shutil.copytree(LARGE, folder)
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in sorted(weights) if "layers.0" in name and "down_proj" in name)
    weights[name] = weights[name].roll(1, 0)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def test_a_file_switches_the_version_within_a_text(
    second: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    in_use, prompts = tmp_path / "version.txt", builtin_prompts(limit=1)
    in_use.write_text("target\n")
    with serving(monkeypatch, "--version", f"v2={second}", "--in-use", str(in_use)) as server:
        in_use.write_text("v3")
        until(lambda: "The version stays target: There is no version 'v3'" in caplog.text)
        pair, told = load_single(str(PAIRS_FOLDER / "builtin" / "small")), list[int]()
        tokenizer, draft = marks_of_model(pair)

        def switch(tokens: list[int]) -> None:
            told.extend(tokens)
            wanted = "v2" if 6 <= len(told) < 14 else "target"
            in_use.write_text(wanted)
            wait_for(server, wanted)

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


def wait_for(server: Server, name: str) -> None:
    """Wait until a server uses a version."""
    until(lambda: server.version.name == name)


def test_versions_that_cannot_be_are_refused(second: Path, tmp_path: Path) -> None:
    (tmp_path / "in_use").write_text("v3")
    v2 = ["--version", f"v2={second}"]
    for words, said in (
        (["--version", "v2"], "write NAME=MODEL"),
        ([*v2, *v2], "another name for each"),
        (["--version", f"target={second}"], "cannot be called 'target'"),
        ([*v2, "--in-use", str(tmp_path / "in_use")], "There is no version 'v3'"),
        ([*v2, "--in-use", str(tmp_path / "missing")], "There is no file"),
        (["--version", f"v2={tmp_path}"], str(tmp_path)),
    ):
        done = CliRunner().invoke(main, ["serve", "--listen", "127.0.0.1:0", *words])
        assert done.exit_code == 2, done.output
        assert said in done.output


def test_a_version_with_another_tokenizer_is_refused(second: Path, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    shutil.copytree(second, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    first, last = list(tokenizer["model"]["vocab"])[-2:]
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary[first], vocabulary[last] = vocabulary[last], vocabulary[first]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    done = CliRunner().invoke(main, ["serve", "--listen", "127.0.0.1:0", "--version", f"v2={folder}"])
    assert done.exit_code == 2, done.output
    assert "has another tokenizer" in done.output
