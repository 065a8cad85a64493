"""``hlm doctor`` on the stand-in accelerator: it works, or is broken and the command says how in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

from tests.device import stand_in
from tests.device.stand_in import Far
from validation.cli import doctor as module
from validation.cli.doctor import doctor
from validation.models import pair

Operation = Callable[[Any, Any, Any], Any]
RUN: Operation = stand_in._run


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try one of the two devices, and look for no driver on the machine of the tests."""
    monkeypatch.setattr(stand_in, "COUNT", 1)
    monkeypatch.setattr(module, "DRIVERS", {})


def said() -> tuple[Result, list[str]]:
    found = CliRunner().invoke(doctor, [])
    return found, found.output.strip().splitlines()


def test_a_device_that_works() -> None:
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


def _wrong(*names: str) -> Operation:
    """A device whose operations of these names are wrong by 1% in the last entries."""

    def run(operation: Any, args: Any, kwargs: Any) -> Any:
        found = RUN(operation, args, kwargs)
        if operation.name().partition(".")[0] in names and isinstance(found, Far) and found.is_floating_point():
            found.host[..., found.shape[-1] // 2 :] *= 1.01
        return found

    return run


def _raises(names: tuple[str, ...], error: Callable[[], Exception]) -> Operation:
    def run(operation: Any, args: Any, kwargs: Any) -> Any:
        if operation.name().startswith(names):
            raise error()
        return RUN(operation, args, kwargs)

    return run


MATRIX = ("aten::mm", "aten::addmm", "aten::linear", "aten::bmm")
BROKEN: dict[str, tuple[Operation, str]] = {
    "wrong models": (_wrong(*MATRIX), "the models' distributions differ from the host's by a total variation of"),
    "a wrong claim": (_wrong("aten::sub"), "truncation.tvd_sharp"),
    "an error": (
        _raises(MATRIX, lambda: RuntimeError("CUDA error: illegal memory access\nCompile with TORCH_USE_CUDA_DSA")),
        "RuntimeError: CUDA error: illegal memory access.",
    ),
    "out of memory": (
        _raises(MATRIX, lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")),
        "The GPU ran out of memory",
    ),
    "nothing works": (_raises(("aten::",), NotImplementedError), "NotImplementedError: nothing more is known."),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_device_is_named_in_one_sentence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operation, reason = BROKEN[name]
    monkeypatch.setattr(stand_in, "_run", operation)
    found, lines = said()
    assert found.exit_code == 1, found.output
    assert lines[-2].startswith("far:0 (far, memory unknown): fails")
    assert lines[-1].startswith("The GPU path fails on far:0: ")
    assert reason in lines[-1]
    assert lines[-1].endswith(".")
    assert "Traceback" not in found.output


def test_a_host_tensor_in_the_decoding_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
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
