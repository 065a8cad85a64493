"""``hlm doctor`` where torch finds no GPU; ``tests/device/test_doctor.py`` has the stand-in accelerator."""

import json

import pytest
import torch

from tests.validation.command_line import run
from validation.cli import doctor

pytestmark = pytest.mark.skipif(torch.accelerator.is_available(), reason="here is an accelerator")


def test_the_cpu_works_and_the_json_says_what_is_here(monkeypatch):
    monkeypatch.setattr(doctor, "DRIVERS", {})
    found = run("doctor", "--json")
    assert found.exit_code == 0, found.output
    answer = json.loads(found.stdout)
    assert answer["conclusion"] == "No GPU found: the CPU path works."
    assert answer["versions"]["torch"] == torch.__version__
    assert answer["cores"] >= 1
    assert answer["threads"] == torch.get_num_threads()
    (cpu,) = answer["devices"]
    assert 0 < cpu["device"]["free"] <= cpu["device"]["total"]
    assert (cpu["tokens"], cpu["distance"], cpu["reason"]) == (10, 0.0, "")


def test_a_cpu_that_fails_is_named(monkeypatch):
    def fail(_):
        raise MemoryError

    monkeypatch.setattr(doctor, "DRIVERS", {})
    monkeypatch.setattr(doctor, "_check_claim", fail)
    found = run("doctor")
    assert found.exit_code == 1
    assert found.output.strip().splitlines()[-1].startswith("The CPU path fails on cpu: This machine ran out of memory")
