"""The stand-in accelerator as a fixture; the tests of this folder run only in a process of their own.

``tests/test_on_device.py`` starts it. By hand: ``STAND_IN=1 python -m pytest tests/device``.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.validation.conftest import folders, save_model

__all__ = ["folders", "save_model"]

ALONE = os.environ.get("STAND_IN") == "1"


def pytest_ignore_collect(collection_path: Path, config: Any) -> bool | None:
    """Leave the folder out in other processes, whose torch must stay as it is."""
    return None if ALONE else True


@pytest.fixture(scope="session", autouse=True)
def stand_in():
    from tests.device.stand_in import install

    return install()
