"""What each law of drafting and verifying accepts on a trace, against closed forms and rounds that are drawn."""

import numpy as np
import pytest

from validation.errors import UserError
from validation.planning.laws import lengths_by_law
from validation.trace.reader import TraceWriter, open_trace, probabilities

K, TEXTS, LENGTH = 2, 40, 60
TARGET_LOGITS = np.array([2.0, 1.0, 0.5, 0.0, -1.0], dtype=np.float16)
DRAFT_LOGITS = np.array([1.0, 2.0, 0.0, 0.5, -1.0], dtype=np.float16)


def written(path, rows):
    """A trace of texts drawn from the target rows; ``rows`` gives draft and target logits of one text."""
    rng = np.random.default_rng(5)
    with TraceWriter(path, len(TARGET_LOGITS)) as writer:
        for text in range(TEXTS):
            draft, target = rows(rng)
            p = probabilities(target)
            tokens = np.array([rng.choice(len(one), p=one / one.sum()) for one in p], dtype=np.int32)
            index = np.full(len(tokens), text, dtype=np.int32)
            writer.append(draft, target, tokens, index, np.arange(len(tokens), dtype=np.int32))
    return open_trace(path)


@pytest.fixture(scope="module")
def constant(tmp_path_factory):
    """A trace with one q and one p at all positions: each law's acceptance is one number."""
    both = [np.tile(one, (LENGTH, 1)) for one in (DRAFT_LOGITS, TARGET_LOGITS)]
    return written(tmp_path_factory.mktemp("laws") / "trace", lambda rng: both)


def test_one_law_at_all_positions_gives_the_closed_form(constant):
    found = lengths_by_law(constant, K, 0.999)
    q, p = probabilities(DRAFT_LOGITS[None])[0], probabilities(TARGET_LOGITS[None])[0]
    for name, alpha in {"greedy": p[q.argmax()], "rejection": np.minimum(q, p).sum(), "match": q @ p}.items():
        assert found[name].low <= 1 + alpha + alpha**2 <= found[name].high
    assert found["rejection"].value > found["greedy"].value


def steps_of(alpha, starts=0, most=K):
    """The expected tokens and steps of a text, by recursion over where a whole step begins."""
    if starts + most >= len(alpha):
        return np.zeros(2)
    total, alive = np.array([1.0, 1.0]), 1.0
    for j in range(most):
        total += alive * (1 - alpha[starts + j]) * steps_of(alpha, starts + j + 1, most)
        alive *= alpha[starts + j]
        total[0] += alive
    return total + alive * steps_of(alpha, starts + most + 1, most)


def test_rows_that_vary_give_the_steps_of_a_recursion(tmp_path):
    def rows(rng):
        target = rng.normal(scale=2, size=(rng.integers(1, 9), 5))
        return (target + rng.normal(size=target.shape)).astype(np.float16), target.astype(np.float16)

    trace = written(tmp_path / "trace", rows)
    q, p = (probabilities(trace.arrays[name][:]) for name in ("draft_logits", "target_logits"))
    tokens, position = trace.arrays["tokens"][:], trace.arrays["position"][:]
    at = np.arange(len(tokens)), tokens
    chances = {"greedy": q.argmax(axis=1) == tokens, "rejection": np.minimum(1, q[at] / p[at]), "match": q[at]}
    cuts = np.flatnonzero(np.diff(position, prepend=np.inf) <= 0)[1:]
    found = lengths_by_law(trace, K)
    for name, chance in chances.items():
        total = sum(steps_of(text) for text in np.split(chance.astype(float), cuts))
        assert found[name].value == pytest.approx(total[0] / total[1])


def test_a_trace_that_cannot_be_replayed_is_refused(constant, monkeypatch):
    with pytest.raises(UserError, match="No text of the trace has 61 tokens"):
        lengths_by_law(constant, 60)
    monkeypatch.setitem(constant.manifest, "texts", "corpus")
    with pytest.raises(UserError, match="The texts are a corpus's"):
        lengths_by_law(constant, K)
    monkeypatch.setitem(constant.manifest, "texts", 1)
    monkeypatch.setitem(constant.manifest, "kind", "top-k")
    with pytest.raises(UserError, match="most probable tokens only"):
        lengths_by_law(constant, K)
