"""``hlm doctor`` where torch finds no GPU; ``tests/device/test_doctor.py`` has the stand-in accelerator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.validation.command_line import run
from validation.cli import doctor
from validation.cli.doctor import Device, Health, conclusion, find_devices, unused_driver

pytestmark = pytest.mark.skipif(torch.accelerator.is_available(), reason="here is an accelerator")


def test_the_cpu_works_and_the_json_says_what_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_cpu_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise MemoryError

    monkeypatch.setattr(doctor, "DRIVERS", {})
    monkeypatch.setattr(doctor, "_check_claim", fail)
    found = run("doctor")
    assert found.exit_code == 1
    assert found.output.strip().splitlines()[-1].startswith("The CPU path fails on cpu: This machine ran out of memory")


def test_a_driver_that_torch_does_not_use_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "DRIVERS", {"NVIDIA": (str(tmp_path),)})
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "is built for the CPU alone; install" in unused_driver()
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert unused_driver().endswith("sees no GPU with CUDA_VISIBLE_DEVICES=.")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert "nvidia-smi" in unused_driver()
    works = [Health(one, "", 0.1) for one in find_devices()]
    assert conclusion(works, unused_driver()).startswith("The GPU path fails: a driver of NVIDIA is here, but torch")


def test_the_conclusion_names_the_first_device_that_fails() -> None:
    devices = [Health(Device(name, "", None, None), reason, 0.1) for name, reason in (("cpu", ""), ("cuda:0", "No."))]
    assert conclusion(devices) == "The GPU path fails on cuda:0: No."
    assert conclusion(devices[:1]) == "No GPU found: the CPU path works."
