"""Waits for processes that a busy machine meets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.validation.claims.dask_processes import LIMIT_S
from validation import workers


@pytest.fixture(autouse=True, scope="module")
def patient() -> Iterator[None]:
    """Wait long for schedulers and workers; a test that is about a wait sets its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "WAIT_S", LIMIT_S)
        yield
