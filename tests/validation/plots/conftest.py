"""Traces of random or given logits, and a small one that the figures share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validation.trace.reader import Trace, TraceWriter, open_trace

Maker = Callable[..., Trace]


def write_trace(
    folder: Path,
    positions: int = 60,
    vocabulary: int = 50,
    *,
    draft: Any = None,
    target: Any = None,
    texts: int = 5,
    prompts: int = 5,
    **pair: Any,
) -> Trace:
    """Return a trace in texts of one length; the rows are random unless they are given."""
    rng = np.random.default_rng(0)
    if draft is None:
        draft = rng.normal(0, 1, (positions, vocabulary)) * rng.gamma(2, 1.5, (positions, 1))
    if target is None:
        target = draft + rng.normal(0, 1, draft.shape)
    length = len(draft) // texts
    text, position = np.repeat(np.arange(texts), length), np.tile(np.arange(length), texts)
    with TraceWriter(folder / "trace", draft.shape[1], {"pair": {"name": "a pair", **pair}}) as writer:
        writer.append(draft, target, np.zeros(len(draft), dtype=np.int32), text % prompts, position)
    return open_trace(folder / "trace")


@pytest.fixture(scope="module")
def make_trace(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """Return :func:`write_trace` with a folder of its own for each trace."""
    return lambda *sizes, **given: write_trace(tmp_path_factory.mktemp("traces"), *sizes, **given)


@pytest.fixture(scope="module")
def trace(make_trace: Maker) -> Trace:
    """Five texts of twelve tokens over 50 entries."""
    return make_trace()
