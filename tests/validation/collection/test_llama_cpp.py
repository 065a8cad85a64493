"""Stores of llama-perplexity, written here field by field as its source does."""

from pathlib import Path

import numpy as np
import pytest

from hlmtheory import all_claims
from hlmtheory.verification import softmax, total_variation
from validation.claims.check import check_trace
from validation.collection.import_logits import import_logits
from validation.collection.llama_cpp import HEADER, MAGIC, open_store
from validation.errors import UserError

CONTEXT, CHUNKS = 12, 3
KEPT = CONTEXT - 1 - CONTEXT // 2


def packed(logits: np.ndarray) -> bytes:
    top, low = float(logits.max()), max(float(logits.min()), float(logits.max()) - 16)
    log_sum = np.log(np.exp(logits.astype(np.float64) - top).sum())
    step = np.float32((top - low) / 65535)
    levels = np.where(logits > low, np.rint((logits - low) / step) if step else 0, 0).astype(np.uint16)
    head = np.array([step, low - top - log_sum], np.float32).tobytes()
    return head + levels.tobytes() + b"\x00\x00" * (len(levels) % 2)


def write(path: Path, logits: np.ndarray, tokens: np.ndarray) -> Path:
    head = MAGIC + np.array([tokens.shape[1], logits.shape[1], tokens.shape[0]], np.int32).tobytes()
    path.write_bytes(head + tokens.astype(np.int32).tobytes() + b"".join(map(packed, logits)))
    return path


def drawn(seed: int, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    logits = np.random.default_rng(seed).normal(0, 4, (CHUNKS * KEPT, vocabulary))
    logits[:, ::7] -= 30
    return logits, np.random.default_rng(1).integers(0, vocabulary, (CHUNKS, CONTEXT))


@pytest.fixture(params=[64, 65], ids=["even V", "odd V"])
def stores(request, tmp_path):
    (draft, tokens), (target, _) = drawn(2, request.param), drawn(3, request.param)
    return write(tmp_path / "draft.kld", draft, tokens), write(tmp_path / "target.kld", target, tokens), draft, target


def test_rows_and_tokens_are_those_that_were_written(stores):
    path, _, logits, _ = stores
    store = open_store(path)
    assert (store.rows, store.vocabulary, store.context, store.chunks) == (*logits.shape, CONTEXT, CHUNKS)
    _, tokens = drawn(2, logits.shape[1])
    assert store.tokens.reshape(CHUNKS, KEPT).tolist() == tokens[:, CONTEXT // 2 + 1 :].tolist()
    found = store.log_probabilities(0, store.rows)
    truth = np.log(softmax(logits))
    floored = logits - logits.max(axis=1, keepdims=True) < -16
    assert np.abs(found - truth)[~floored].max() <= 16 / 65535 / 2 + 2e-6
    assert (truth[floored] <= found[floored] + 1e-4).all()
    np.testing.assert_array_equal(store.log_probabilities(4, 9), found[4:9])


def test_a_pair_becomes_a_trace(stores, tmp_path):
    draft, target, draft_logits, target_logits = stores
    trace = import_logits(draft, target, tmp_path / "trace")
    assert (trace.positions, trace.vocabulary) == draft_logits.shape
    assert trace.manifest["texts"] == "corpus"
    assert set(trace.manifest["rounding"]) == {"draft", "target"}
    values, note, corpus = trace.manifest["notes"]
    assert "raw_logprobs at temperature=1 (the default" in values
    assert "The stores round." in note
    assert "a corpus's" in corpus
    assert trace.manifest["dtype"] == "float32"
    (chunk,) = trace.chunks()
    assert chunk.prompt_index.tolist() == np.repeat(np.arange(CHUNKS), KEPT).tolist()
    for stored, logits in ((chunk.draft_logits, draft_logits), (chunk.target_logits, target_logits)):
        assert total_variation(softmax(stored.astype(np.float64)), softmax(logits)).max() < 3e-4
    claims = {name: all_claims()[name] for name in ("truncation.certificate", "truncation.tvd_sharp")}
    assert {tally.outcome for tally in check_trace(trace, seed=1, claims=claims).tallies.values()} == {"holds"}


def test_two_stores_of_different_texts_are_refused(stores, tmp_path):
    draft, _, logits, _ = stores
    tokens = drawn(2, logits.shape[1])[1]
    other = tokens.copy()
    other[1, CONTEXT // 2 + 2] += 1
    write(tmp_path / "other.kld", logits, other)
    with pytest.raises(UserError, match=f"The token at row {KEPT + 1} is"):
        import_logits(draft, tmp_path / "other.kld", tmp_path / "trace")
    short = write(tmp_path / "short.kld", logits[: 3 * 4], tokens[:, :10])
    with pytest.raises(UserError, match=r"same -c|shapes differ"):
        import_logits(draft, short, tmp_path / "trace")


def test_every_cut_and_every_flip_of_the_header_is_refused(stores):
    path = stores[0]
    whole = path.read_bytes()
    for end in [*range(HEADER + 8), *range(HEADER + 8, len(whole), 97)]:
        path.write_bytes(whole[:end])
        with pytest.raises(UserError, match=path.name):
            open_store(path)
    for bit in range(8 * HEADER):
        path.write_bytes(whole[: bit // 8] + bytes([whole[bit // 8] ^ 1 << bit % 8]) + whole[bit // 8 + 1 :])
        with pytest.raises(UserError, match=path.name):
            open_store(path)


def test_a_row_that_is_none_is_refused_by_its_number(stores):
    path = stores[0]
    whole, width = bytearray(path.read_bytes()), 2 * (2 * ((stores[2].shape[1] + 1) // 2) + 4)
    at = HEADER + 4 * CONTEXT * CHUNKS + 5 * width
    for step, floor in ((np.nan, -3), (-1, -3), (1e-4, np.inf), (1.0, 5.0)):
        whole[at : at + 8] = np.array([step, floor], np.float32).tobytes()
        path.write_bytes(whole)
        with pytest.raises(UserError, match=r"row 5: step"):
            open_store(path).log_probabilities(3, 9)


def test_another_byte_order_is_named(stores):
    path = stores[0]
    whole = path.read_bytes()
    path.write_bytes(MAGIC + np.frombuffer(whole[8:HEADER], np.int32).byteswap().tobytes() + whole[HEADER:])
    with pytest.raises(UserError, match="byte order"):
        open_store(path)


def test_an_absurd_header_takes_no_memory(tmp_path):
    path = tmp_path / "huge.kld"
    path.write_bytes(MAGIC + np.array([2**31 - 1, 2**31 - 1, 2**31 - 1], np.int32).tobytes() + bytes(100))
    with pytest.raises(UserError, match="contradicts its header"):
        open_store(path)
