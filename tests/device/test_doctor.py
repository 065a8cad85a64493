"""``hlm doctor`` on the stand-in accelerator: it works, or is broken and the command says how in one sentence."""

import json

import pytest
import torch
from click.testing import CliRunner, Result

from tests.device import stand_in
from validation.cli import doctor as module
from validation.cli.doctor import doctor
from validation.models import pair


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch):
    monkeypatch.setattr(module, "DRIVERS", {})


def said() -> tuple[Result, list[str]]:
    found = CliRunner().invoke(doctor, [])
    return found, found.output.strip().splitlines()


def test_a_device_that_works():
    found = CliRunner().invoke(doctor, ["--json"])
    assert found.exit_code == 0, found.output
    answer = json.loads(found.stdout)
    assert answer["works"]
    assert answer["conclusion"] == "The GPU path works on far:0, and so does the CPU path."
    here, there = answer["devices"]
    assert (here["device"]["name"], there["device"]["name"]) == ("cpu", "far:0")
    assert here["tokens"] == there["tokens"] == module.TOKENS
    assert there["distance"] < 1e-6
    assert there["reason"] == ""


def test_a_host_tensor_in_the_decoding_is_found(monkeypatch):
    """A mutant of our own code: one weight stays on the host."""
    kept = pair.load_pair
    monkeypatch.setattr(pair, "load_pair", lambda *args, **kwargs: _with_target_on_host(kept(*args, **kwargs)))
    found, lines = said()
    assert found.exit_code == 1
    assert "on the same device" in lines[-1]


def _with_target_on_host(loaded: pair.Pair) -> pair.Pair:
    if loaded.device.type == stand_in.NAME:
        head = loaded.target.get_output_embeddings()
        head._parameters["weight"] = torch.nn.Parameter(head.weight.detach().cpu(), requires_grad=False)
    return loaded
