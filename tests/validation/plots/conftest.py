"""Traces of random or given logits, and a small one that the figures share."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validation.collection.prompts import Prompt
from validation.decoding.loop import PAPER_TIMES, decode
from validation.decoding.methods.registry import Fitted
from validation.decoding.studies import STUDIES, Decoded
from validation.models.pair import Pair
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
    return lambda *sizes, **given: write_trace(tmp_path_factory.mktemp("traces"), *sizes, **given)


@pytest.fixture(scope="module")
def trace(make_trace: Maker) -> Trace:
    return make_trace()


def decoded_study(
    name: str, pair: Pair, prompts: Sequence[Prompt], keep: Callable[[str], bool], new_tokens: int = 6
) -> Decoded:
    """Return a study without scores, of all methods of ``hlm`` or some of ``design``."""
    fitted = Fitted(0.5, 0.05, 0.4, 0.1, 0.95, 0.94, 20)
    methods = [one for one in STUDIES[name].methods(fitted) if name == "hlm" or keep(one.name)]
    settings: dict[str, Any] = {"new_tokens": new_tokens, "batch": len(prompts), "seed": 3, "times": PAPER_TIMES}
    rows = [row for method in methods for row in decode(pair, prompts, method, risk=True, **settings)]
    about = {
        "pair": pair.describe(),
        "new_tokens": new_tokens,
        "seed": 3,
        "fitted": asdict(fitted),
        "methods": [method.name for method in methods],
        "prompts": [{"id": prompt.id, "source": prompt.source} for prompt in prompts],
    }
    return Decoded(name, about, rows, {})
