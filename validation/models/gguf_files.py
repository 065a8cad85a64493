"""Check the header of a GGUF file before transformers reads it, and build its tokenizer.

Little-endian: ``GGUF``, version, numbers of tensors and metadata entries; the entries; name, dimensions, type and
offset of each tensor; the data, padded to ``general.alignment``. Counts, lengths and offsets are compared with the
bytes that are left, so a damaged file is refused at its fault. The format has no checksum: changed weights pass.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from validation.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MAGIC = b"GGUF"
VERSIONS = (2, 3)
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
MOST_DIMENSIONS, LARGEST_ALIGNMENT = 4, 2**20
PACKAGES = ("gguf", "accelerate")  # of the extra gguf
DEQUANTISED_BYTES = 2**18  # at a time: the values stay in the processor's cache
ROPE_FACTORS = "rope_freqs.weight"
UNREAD_TENSORS = ("rope_factors_long.weight", "rope_factors_short.weight")

# Names of pre-tokenizers in llama.cpp (src/llama-vocab.cpp) that cut texts as GPT-2 does, and of those that split off
# each digit first. transformers has a table of others.
GPT2_SPLITS = frozenset(
    (
        *("gpt-2", "phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "gigachat", "a.x-4.0", "mellum", "mpt"),
        *("olmo", "jais", "trillion", "granite-docling"),
    )
)
DIGIT_SPLITS = frozenset(("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"))


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """The checked header of a GGUF file."""

    path: Path
    metadata: dict[str, Any]  # Numbers, strings and lists of strings by their keys. Of a list of numbers, the length
    tensors: dict[str, tuple[int, ...]]  # the shape of each tensor, in torch's order

    @property
    def architecture(self) -> str:
        return str(self.metadata["general.architecture"])

    def setting(self, name: str) -> Any:
        """Return a setting of the architecture, such as ``block_count``, or None."""
        return self.metadata.get(f"{self.architecture}.{name}")


def read_header(path: Path) -> GgufHeader:
    for name in PACKAGES:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    status = path.stat()
    return _read_header(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=2)
def _read_header(path: Path, size: int, changed: int) -> GgufHeader:
    with path.open("rb") as file:
        start = file.read(24)
        if not start.startswith(MAGIC):
            raise UserError(f"{path} is not a GGUF file: it begins with {start[:4]!r}, not {MAGIC!r}.")
        if len(start) < 24:
            raise UserError(f"{path} ends at byte {len(start)}, within the counts of the header; copy it again.")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            header = _Cursor(path, data).header()
    _check_settings(header)
    return header


class _Cursor:
    """Reads a header from front to back; every length is compared with the bytes that are left."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.at, self.size = path, data, len(MAGIC), len(data)

    def fault(self, what: str) -> UserError:
        return UserError(f"{self.path} is damaged at byte {self.at:,}: {what}; copy it again.")

    def number(self, code: str, what: str) -> Any:
        width = struct.calcsize(f"<{code}")
        if self.at + width > self.size:
            raise UserError(f"{self.path} ends at byte {self.size:,}, within {what}; copy it again.")
        (value,) = struct.unpack_from(f"<{code}", self.data, self.at)
        self.at += width
        return value

    def room(self, count: int, width: int, what: str) -> None:
        """Refuse a count of items that do not fit into the rest of the file."""
        if count * width > self.size - self.at:
            raise self.fault(
                f"{what} is said to have {count:,} entries, but only {self.size - self.at:,} bytes are left"
            )

    def string(self, what: str) -> str:
        length = self.number("Q", what)
        self.room(length, 1, what)
        raw = self.data[self.at : self.at + length]
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise self.fault(f"{what} is not UTF-8") from error
        self.at += length
        return text

    def value(self, kind: int, key: str) -> Any:
        if kind in SCALARS:
            return self.number(SCALARS[kind], key)
        if kind == STRING:
            return self.string(key)
        if kind != ARRAY:
            raise self.fault(f"{key} has the unknown type {kind}")
        inner, count = self.number("I", key), self.number("Q", key)
        if inner == STRING:
            self.room(count, 8, key)
            return [self.string(f"entry {index} of {key}") for index in range(count)]
        if inner not in SCALARS:
            raise self.fault(f"{key} is an array of the unknown type {inner}")
        width = struct.calcsize(SCALARS[inner])
        self.room(count, width, key)
        self.at += count * width
        return count

    def header(self) -> GgufHeader:
        if (version := self.number("I", "the version")) not in VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
            reason = "is from a machine with another byte order" if swapped else f"has the GGUF version {version}"
            raise UserError(f"{self.path} {reason}, which is not read; convert the model again on this machine.")
        tensor_count, entries = self.number("Q", "the counts"), self.number("Q", "the counts")
        self.room(entries, 13, "the metadata")
        metadata: dict[str, Any] = {}
        for index in range(entries):
            key = self.string(f"the name of entry {index} of the metadata")
            if key in metadata:
                raise self.fault(f"{key} occurs twice")
            metadata[key] = self.value(self.number("I", key), key)
        self.room(tensor_count, 32, "the table of tensors")
        return self.table(tensor_count, metadata)

    def table(self, count: int, metadata: dict[str, Any]) -> GgufHeader:
        """Read the table of tensors; their data must lie one after the other and end within the file."""
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 8 <= alignment <= LARGEST_ALIGNMENT or alignment & (alignment - 1):
            raise self.fault(f"general.alignment is {alignment!r}, not a power of two from 8 on")
        shapes: dict[str, tuple[int, ...]] = {}
        offset = 0
        for index in range(count):
            name = self.string(f"the name of tensor {index}")
            dimensions = self.number("I", name)
            if name in shapes or not 1 <= dimensions <= MOST_DIMENSIONS:
                fault = "occurs twice" if name in shapes else f"has {dimensions} dimensions"
                raise self.fault(f"the tensor {name!r} {fault}")
            shape = [self.number("Q", name) for _ in range(dimensions)]
            kind, place = self.number("I", name), self.number("Q", name)
            if kind not in GGMLQuantizationType.__members__.values():
                raise self.fault(f"the tensor {name!r} has the unknown type {kind}")
            block, width = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
            if place != offset or 0 in shape or shape[0] % block:
                raise self.fault(
                    f"the tensor {name!r} has the shape {shape}, the type {GGMLQuantizationType(kind).name} and the "
                    f"offset {place:,}; expected are the offset {offset:,} and rows that {block} divides"
                )
            shapes[name] = tuple(reversed(shape))
            end = offset + math.prod(shape) // block * width
            offset = -(-end // alignment) * alignment
            if end > self.size:
                raise UserError(
                    f"{self.path} has {self.size:,} bytes, but its tensor {name!r} alone needs the bytes up to "
                    f"{end:,}; copy it again."
                )
        needed = -(-self.at // alignment) * alignment + (end if count else 0)
        if needed > self.size:
            raise UserError(
                f"{self.path} has {self.size:,} bytes, but its tensors need {needed:,}; it was cut: copy it again."
            )
        return GgufHeader(self.path, metadata, shapes)


def _check_settings(header: GgufHeader) -> None:
    """Refuse settings that contradict the tensors, a part of a model, and positions that transformers does not read."""
    path, metadata = header.path, header.metadata
    if not isinstance(metadata.get("general.architecture"), str):
        raise UserError(f"{path} has no general.architecture in its metadata; convert the model again.")
    if (parts := metadata.get("split.count", 1)) != 1:
        raise UserError(f"{path} is one of {parts} parts of a model; join them with llama-gguf-split --merge.")
    embedding = header.tensors.get("token_embd.weight")
    if embedding is None or len(embedding) != 2:
        raise UserError(f"{path} has no tensor 'token_embd.weight' with two dimensions, so it holds no language model.")
    layers = {name.split(".")[1] for name in header.tensors if name.startswith("blk.")}
    for name, value, holds in (
        ("embedding_length", header.setting("embedding_length"), embedding[1]),
        ("block_count", header.setting("block_count"), len(layers)),
    ):
        if value != holds:
            raise UserError(
                f"{path} says {header.architecture}.{name} = {value!r}, but its tensors have {holds}; convert the "
                "model again."
            )
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not 1 <= len(tokens) <= embedding[0]:
        raise UserError(
            f"{path} has {len(tokens) if isinstance(tokens, list) else 'no'} tokens in tokenizer.ggml.tokens, and "
            f"embeddings for {embedding[0]}; convert the model again."
        )
    _check_positions(header)


def _check_positions(header: GgufHeader) -> None:
    """Refuse scaled positions that transformers ignores: its probabilities would be those of another model."""
    kind = header.setting("rope.scaling.type")
    ignored = [name for name in UNREAD_TENSORS if name in header.tensors]
    if header.architecture != "gpt-oss" and (kind not in (None, "none") or ignored):
        what = f"the tensor {ignored[0]}" if ignored else f"{header.architecture}.rope.scaling.type = {kind!r}"
        raise UserError(
            f"{header.path} scales its positions ({what}), which transformers does not read from GGUF; give the "
            "model's folder, or run it in llama.cpp and use hlm import."
        )


@contextmanager
def isolated(path: Path) -> Iterator[str]:
    """Yield a temporary folder with a link to the file; transformers reads it with less memory and its names once.

    In the file's own folder, transformers would also read the tokenizer or the adapter of another model.
    """
    import gguf
    from transformers import modeling_gguf_pytorch_utils as reading

    readers: dict[str, Any] = {
        "get_tensor_name_map": cache(gguf.get_tensor_name_map),
        "dequantize": partial(_by_rows, gguf.dequantize),
        "GGUFReader": _compact(gguf.GGUFReader),
    }
    parsed = partial(_parsed, reading._gguf_parse_value)
    changed: dict[str, Any] = {"tqdm": lambda items, **_: items, "np": _Arrays(), "_gguf_parse_value": parsed}
    with TemporaryDirectory(prefix="gguf-") as folder:
        link = Path(folder) / path.name
        try:
            link.symlink_to(path.resolve())
        except OSError:  # Windows allows links only to some users
            os.link(path.resolve(), link)
        with patch.multiple(gguf, **readers), patch.multiple(reading, **changed):
            yield folder


def _compact(reader: Any) -> Any:
    """Return a reader that keeps the strings of a list as bytes: as views, those of a vocabulary take 400 MB."""

    class Compact(reader):  # type: ignore[misc]
        def _get_field_parts(self, start: int, kind: int) -> Any:
            if kind != ARRAY:
                return super()._get_field_parts(start, kind)
            head, at, parts = memoryview(self.data), start + 12, list[Any]()
            inner, count = struct.unpack_from("<IQ", head, start)
            for _ in range(count if inner == STRING else 0):
                (length,) = struct.unpack_from("<Q", head, at)
                parts.append(bytes(head[at + 8 : at + 8 + length]))
                at += 8 + length
            if inner != STRING:
                end = at + count * struct.calcsize(f"<{SCALARS[inner]}")
                parts, at = list(struct.iter_unpack(f"<{SCALARS[inner]}", head[at:end])), end
            return at - start, parts, list(range(count)), [ARRAY, inner]

    return Compact


def _by_rows(dequantize: Callable[..., Any], data: Any, kind: Any) -> Any:
    """Dequantise some rows at a time, and let go of the file's pages: at once, a tensor is held twice in float32."""
    import numpy as np

    if data.ndim != 2:
        return dequantize(data, kind)
    plain, rows = data.view(np.ndarray), max(DEQUANTISED_BYTES // data.shape[1], 1)
    values = np.empty((len(data), dequantize(plain[:1], kind).shape[1]), dtype=np.float32)
    for start in range(0, len(data), rows):  # blocks never cross a row, so that some rows are one
        part = values[start : start + rows]
        part[:] = dequantize(plain[start : start + rows].reshape(1, -1), kind).reshape(part.shape)
    if hasattr(mmap, "MADV_DONTNEED"):
        data._mmap.madvise(mmap.MADV_DONTNEED)
    return values


def _parsed(parse: Callable[..., Any], value: Any, kinds: Any) -> Any:
    """Return an entry as transformers parses it, without its loop over the bytes of a string."""
    return value.decode() if isinstance(value, bytes) else parse(value, kinds)


class _Arrays:
    """Numpy, but an array that owns its values is not copied: transformers copies each tensor that it has just made."""

    def __getattr__(self, name: str) -> Any:
        import numpy as np

        return getattr(np, name)

    def copy(self, values: Any) -> Any:
        return values if values.flags.owndata and values.flags.writeable else values.copy()


def apply_rope_factors(header: GgufHeader, model: PreTrainedModel) -> None:
    """Divide a model's rotary frequencies by the factors in its file, which transformers ignores (since Llama 3.1)."""
    if ROPE_FACTORS not in header.tensors:
        return
    import torch
    from gguf import GGUFReader

    tensor = next(tensor for tensor in GGUFReader(header.path).tensors if tensor.name == ROPE_FACTORS)
    factors = torch.tensor(tensor.data, dtype=torch.float32)
    rotary = getattr(model.base_model, "rotary_emb", None)
    frequencies = getattr(rotary, "inv_freq", None)
    if rotary is None or frequencies is None or frequencies.shape != factors.shape:
        raise UserError(
            f"{header.path} has the tensor {ROPE_FACTORS}, which transformers does not read for this architecture; "
            "give the model's folder instead."
        )
    rotary.inv_freq = frequencies / factors.to(frequencies.device)
    rotary.original_inv_freq = rotary.inv_freq


def load_tokenizer(header: GgufHeader, load: Callable[[], PreTrainedTokenizerBase]) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a GGUF file, which cuts and begins texts as llama.cpp does."""
    tokenizer = _split_as_told(header, load())
    begins = header.metadata.get("tokenizer.ggml.add_bos_token")
    if isinstance(begins, bool) and tokenizer.bos_token is not None:
        _begin_with(tokenizer, begins)
    return tokenizer


def _begin_with(tokenizer: PreTrainedTokenizerBase, begins: bool) -> None:
    from tokenizers import processors

    token, number = str(tokenizer.bos_token), int(tokenizer.bos_token_id)
    if (tokenizer("a").input_ids[:1] == [number]) != begins:
        head, known = (f"{token} ", [(token, number)]) if begins else ("", [])
        template = processors.TemplateProcessing(single=f"{head}$A", pair=f"{head}$A $B:1", special_tokens=known)
        tokenizer.backend_tokenizer.post_processor = template


def _split_as_told(header: GgufHeader, tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    name = header.metadata.get("tokenizer.ggml.pre")
    known = name in GPT2_SPLITS or name in GGUF_PRE_TOKENIZER_SPLITS
    if known or header.metadata.get("tokenizer.ggml.model") != "gpt2":
        return tokenizer
    if name in DIGIT_SPLITS:
        from tokenizers import pre_tokenizers

        digits, words = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
        return tokenizer
    raise UserError(
        f"{header.path} cuts texts by the pre-tokenizer {name!r}, which transformers does not read from GGUF; give the "
        "model's folder."
    )
