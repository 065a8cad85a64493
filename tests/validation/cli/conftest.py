"""A short check for the tests of the commands."""

from pathlib import Path

import numpy as np
import pytest

from tests.validation.stored_traces import stored
from validation import plots
from validation.claims import check


@pytest.fixture
def trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / "trace")
    rng = np.random.default_rng(0)
    np.savez("logits.npz", draft=rng.normal(size=(40, 20)), target=rng.normal(size=(40, 20)))
    Path("file").write_text("mine")
    Path("loop").symlink_to("loop")
    known = check.hlmtheory.all_claims()
    few = {name: known[name] for name in ("verification.tokens", "truncation.softplus")}
    real = check.check_trace
    monkeypatch.setattr(check, "check_trace", lambda trace, **more: real(trace, **{**more, "claims": few}))
    monkeypatch.setattr(plots, "FIGURES", dict(list(plots.FIGURES.items())[:2]))
    return tmp_path / "trace"
