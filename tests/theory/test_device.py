"""Nothing mixes host and device arrays: tested on a stand-in accelerator, since the tests have no real one."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import hlmtheory


def test_every_claim_and_function_works_on_a_device():
    """In a separate process, because torch's key for such a device cannot be released."""
    registration = pytest.importorskip("torch.utils.backend_registration")
    if not hasattr(registration, "_setup_privateuseone_for_python_backend"):
        pytest.skip("this torch takes no device in Python")
    root = Path(hlmtheory.__file__).parents[1]
    command = [sys.executable, "-W", "ignore", "-m", "tests.theory.on_device"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert set(hlmtheory.all_claims()) < set(found["checked"])
    assert not found["failures"], "\n\n".join(f"{name}\n{end}" for name, end in found["failures"].items())


def test_importing_the_stand_in_leaves_torch_as_it_is():
    """pytest imports the file to look for doctests; a replaced ``torch.tensor`` once broke all models loaded later."""
    torch = pytest.importorskip("torch")
    importlib.import_module("tests.theory.device_double")
    assert torch.tensor is torch._C._VariableFunctions.tensor
