"""Folders of DistillKit, written here field by field as its source does."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
import yaml
from pyarrow import parquet

from hlmtheory.truncation.boxes import box_distance
from hlmtheory.verification import softmax, total_variation
from tests.validation.stopping import damage
from validation.collection.distillkit import CONFIG, open_distillkit
from validation.collection.top_k import pair_lists
from validation.errors import UserError

V, K, EXACT, TEXTS, LENGTH = 100, 12, 8, 3, 7
TERMS = [0, 1, "sqrt"]
BINS = [{"scale_dtype": "float16", "element_bits": 3, "num_elements": 3}]


def packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    found = (numbers[..., None] >> np.arange(bits - 1, -1, -1)) & 1
    return np.packbits(found.reshape(len(numbers), -1).astype(np.uint8), axis=1)


def write(folder: Path, rows: list[np.ndarray], texts: list[list[int]], **changes: Any) -> Path:
    config = {
        "d": V,
        "k": K,
        "exact_k": EXACT,
        "exact_dtype": "float32",
        "polynomial_terms": TERMS,
        "term_dtype": "float32",
        "residual_bins": BINS,
        "delta_encoding": False,
        "error_diffusion": False,
        "normalize_t": False,
    } | changes
    folder.mkdir(exist_ok=True)
    (folder / CONFIG).write_text(yaml.safe_dump(config))
    columns: dict[str, list[Any]] = {name: [] for name in ("input_ids", "compressed_logprobs", "bytepacked_indices")}
    for p, text in zip(rows, texts, strict=True):
        order = np.argsort(-p, axis=1)[:, :K]
        values = np.float32(np.log(np.take_along_axis(p, order, 1)))
        if config["delta_encoding"]:
            values = np.diff(values, axis=1, prepend=0).astype(np.float32)
        rest = np.zeros((len(p), 4 * 3 + 2 + 2), np.uint8)  # polynomial, scale and nine bits: never read
        exact = torch.tensor(values[:, :EXACT], dtype=torch.float32).to(getattr(torch, config["exact_dtype"]))
        exact = exact.contiguous().view(torch.uint8).reshape(len(values), -1)
        content = np.concatenate([exact.numpy(), rest], axis=1)
        columns["input_ids"].append(text)
        columns["compressed_logprobs"].append(content.tolist())
        columns["bytepacked_indices"].append(packed(order, math.ceil(math.log2(V))).tolist())
    schema = pyarrow.schema(
        [
            ("input_ids", pyarrow.list_(pyarrow.uint64())),
            ("compressed_logprobs", pyarrow.list_(pyarrow.list_(pyarrow.uint8()))),
            ("bytepacked_indices", pyarrow.list_(pyarrow.list_(pyarrow.uint8()))),
        ]
    )
    for number in range(len(rows)):
        part = {name: column[number : number + 1] for name, column in columns.items()}
        parquet.write_table(
            pyarrow.table(part, schema), folder / f"data_{number}.parquet", write_page_checksum=True, compression="none"
        )
    return folder


def drawn(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [softmax(rng.normal(0, 3, (LENGTH - 1, V))) for _ in range(TEXTS)]


TOKENS = np.random.default_rng(9).integers(0, V, (TEXTS, LENGTH)).tolist()


@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_the_exact_entries_are_read_and_hold_the_truth(tmp_path, dtype, delta):
    q, p = drawn(1), drawn(2)
    sources = [
        open_distillkit(write(tmp_path / name, rows, TOKENS, exact_dtype=dtype, delta_encoding=delta))
        for name, rows in (("q", q), ("p", p))
    ]
    pair = pair_lists(*sources, None)
    assert (pair.vocabulary, pair.rows, pair.texts, pair.draft_k) == (V, TEXTS * (LENGTH - 1), TEXTS, EXACT)
    ((lists, tokens, number, position),) = pair.blocks()
    assert tokens.tolist() == [token for text in TOKENS for token in text[1:]]
    assert number.tolist() == np.repeat(range(TEXTS), LENGTH - 1).tolist()
    assert position.tolist() == list(range(LENGTH - 1)) * TEXTS
    whole = np.concatenate(q)
    order = np.argsort(-whole, axis=1)[:, :EXACT]
    assert lists.draft_tokens.tolist() == order.tolist()
    error = np.abs(lists.draft_log_probabilities - np.log(np.take_along_axis(whole, order, 1)))
    assert (error <= lists.draft_rounding.of(lists.draft_log_probabilities)).all()
    boxes = lists.boxes()
    apart = box_distance(boxes.target.lower, boxes.target.upper, boxes.draft.lower, boxes.draft.upper, boxes.count)
    true = total_variation(np.concatenate(p), whole)
    assert ((apart.lower <= true) & (true <= apart.upper)).all()


def read(folder: Path) -> Any:
    source = open_distillkit(folder)
    return pair_lists(source, source, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d": 2**31}, r"compression_config\.yaml: d is 2147483648; it must be a whole number"),
        ({"k": 10**9}, r"k is 1000000000; it must be a whole number, 1 to 100"),
        ({"exact_k": 0}, "exact_k = 0: every value is a polynomial's"),
        ({"exact_k": K + 1}, "exact_k is 13"),
        ({"exact_dtype": "int8"}, "'int8' is no type of a value"),
        ({"residual_bins": [{"scale_dtype": "float16", "element_bits": 99, "num_elements": 1}]}, "element_bits is 99"),
        ({"residual_bins": 3}, "residual_bins must be a list"),
        ({"delta_encoding": 2}, "delta_encoding is 2"),
        ({"k": K + 8}, r"row 0: bytepacked_indices has 11 bytes a position, but .* needs 18"),
        ({"term_dtype": "float16"}, r"row 0: compressed_logprobs has 48 bytes a position, but .* needs 42"),
        (
            {"delta_encoding": True},
            r"data_0\.parquet, row 0, place 1: its 8 probabilities leave more than the other 92",
        ),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(tmp_path, change, message):
    folder = write(tmp_path / "q", drawn(1), TOKENS)
    config = yaml.safe_load((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(yaml.safe_dump(config | change))
    with pytest.raises(UserError, match=message):
        read(folder)


def test_missing_and_foreign_files_are_named(tmp_path):
    folder = write(tmp_path / "q", drawn(1), TOKENS)
    (folder / "data_1.parquet").unlink()
    with pytest.raises(UserError, match=r"has no data_1\.parquet"):
        read(folder)
    parquet.write_table(pyarrow.table({"a": [1]}), folder / "data_1.parquet")
    with pytest.raises(UserError, match=r"data_1\.parquet has no column input_ids"):
        read(folder)
    parquet.write_table(
        pyarrow.table({"input_ids": [[1, 2]], "compressed_logprobs": [3], "bytepacked_indices": [[[1], [1, 2]]]}),
        folder / "data_1.parquet",
    )
    with pytest.raises(UserError, match=r"data_1\.parquet, row 0: compressed_logprobs is no list of bytes"):
        read(folder)
    (folder / CONFIG).write_text("a: [")
    with pytest.raises(UserError, match="is not YAML"):
        read(folder)
    (folder / CONFIG).write_text("#" * 2**17)
    with pytest.raises(UserError, match="more than 65,536 bytes"):
        read(folder)


def test_every_cut_and_flipped_byte_is_refused_by_its_file_or_changes_nothing(tmp_path):
    folder = write(tmp_path / "q", drawn(1)[:1], TOKENS[:1])
    ((expected, tokens, _, _),) = read(folder).blocks()
    size = (folder / "data_0.parquet").stat().st_size
    kept = damage(lambda: list(read(folder).blocks()), folder / "data_0.parquet", 67, 23)
    for ((lists, again, _, _),) in kept:
        assert np.array_equal(lists.draft_tokens, expected.draft_tokens)
        assert np.array_equal(lists.draft_log_probabilities, expected.draft_log_probabilities)
        assert again.tolist() == tokens.tolist()
    assert len(kept) < (size / 67 + size / 23) / 2
