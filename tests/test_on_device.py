"""Nothing mixes host and device arrays: tested on a stand-in accelerator, since the tests have no real one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("part", sorted(path.name for path in (ROOT / "tests/device").glob("test_*.py")))
def test_a_part_works_on_the_stand_in(part):
    """In a separate process, because torch's key for such a device cannot be released."""
    registration = pytest.importorskip("torch.utils.backend_registration")
    if not hasattr(registration, "_setup_privateuseone_for_python_backend"):
        pytest.skip("this torch takes no device in Python")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/device/{part}"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "STAND_IN": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
