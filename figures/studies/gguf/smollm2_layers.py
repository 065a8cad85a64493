"""Compare what llama.cpp computes in each type of layer with the dequantised weights, and with transformers."""

from __future__ import annotations

import ctypes
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.models.gguf_files import read_header

Rows = NDArray[np.float64]

MATRICES = {
    # a layer's output: its input, its weights
    "Qcur": ("attn_norm", "attn_q"),
    "Kcur": ("attn_norm", "attn_k"),
    "Vcur": ("attn_norm", "attn_v"),
    "attn_out": ("kqv_out", "attn_output"),
    "ffn_gate": ("ffn_norm", "ffn_gate"),
    "ffn_up": ("ffn_norm", "ffn_up"),
    "ffn_out": ("ffn_swiglu", "ffn_down"),
}


def relative(found: Rows, expected: Rows) -> float:
    """Return the norm of the difference as a share of the norm of what is expected."""
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def weights_of(file: Path) -> dict[str, Rows]:
    """Return the tensors of a file, dequantised by the package ``gguf``."""
    from gguf import GGUFReader
    from gguf.quants import dequantize

    return {
        tensor.name: dequantize(tensor.data, tensor.tensor_type).astype(np.float64)
        for tensor in GGUFReader(file).tensors
    }


def dequantised_alike(file: Path, library: ctypes.CDLL) -> dict[str, Any]:
    """Return by type how many tensors there are, and the largest difference between two dequantisations of them."""
    from gguf import GGUFReader
    from gguf.quants import dequantize

    library.dequantise.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    found: dict[str, dict[str, Any]] = defaultdict(lambda: {"tensors": 0, "largest_difference": 0.0})
    for tensor in GGUFReader(file).tensors:
        entry = found[tensor.tensor_type.name]
        entry["tensors"] += 1
        if tensor.tensor_type.name == "F32":
            continue
        ours = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        theirs, raw = np.empty_like(ours), np.ascontiguousarray(tensor.data)
        if library.dequantise(int(tensor.tensor_type), raw.ctypes.data, theirs.ctypes.data, theirs.size):
            raise RuntimeError(f"{tensor.name} was not dequantised")
        entry["largest_difference"] = max(entry["largest_difference"], float(np.abs(ours - theirs).max()))
    return dict(found)


def stored_as(file: Path) -> dict[str, int]:
    """Return the number of tensors of each type."""
    return dict(Counter(read_header(file).types.values()).most_common())


class Pass:
    """The tensors of one pass over a text."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count = folder, count

    def __call__(self, name: str) -> Rows:
        """Return the first tensor of a name, shape (tokens, width)."""
        flat = np.fromfile(self.folder / f"{name}.0.f32", np.float32)
        return flat.reshape(self.count, -1).astype(np.float64)


def layers(file: Path, folder: Path, tokens: NDArray[np.int64], model: Any) -> dict[str, Any]:
    """Return the relative difference at each type of layer, and of the residual stream from transformers'.

    A layer's output is compared with its input, as llama.cpp computed it, times the dequantised weights in float64.
    What remains is the rounding of activations and of sums. Values are the median and the largest over the blocks.
    """
    import torch

    header, weights, tensor = read_header(file), weights_of(file), Pass(folder, len(tokens))
    blocks, scale = int(header.setting("block_count")), float(header.setting("attention.layer_norm_rms_epsilon"))
    apart: dict[str, list[float]] = defaultdict(list)
    apart["token embedding"].append(relative(tensor("embd"), weights["token_embd.weight"][tokens]))

    def normed(value: Rows, name: str) -> Rows:
        return np.asarray(value / np.sqrt((value**2).mean(axis=-1, keepdims=True) + scale) * weights[name])

    for block in range(blocks):
        before = tensor("embd") if block == 0 else tensor(f"l_out-{block - 1}")
        for at, value in (("attn_norm", before), ("ffn_norm", tensor(f"ffn_inp-{block}"))):
            apart["norms"].append(relative(tensor(f"{at}-{block}"), normed(value, f"blk.{block}.{at}.weight")))
        for output, (given, name) in MATRICES.items():
            expected = tensor(f"{given}-{block}") @ weights[f"blk.{block}.{name}.weight"].T
            apart[name].append(relative(tensor(f"{output}-{block}"), expected))
        gate, up = (tensor(f"{name}-{block}") for name in ("ffn_gate", "ffn_up"))
        apart["ffn gate x up"].append(relative(tensor(f"ffn_swiglu-{block}"), gate / (1 + np.exp(-gate)) * up))
    last = tensor(f"l_out-{blocks - 1}")
    apart["norms"].append(relative(tensor("result_norm"), normed(last, "output_norm.weight")))
    apart["output head"].append(
        relative(tensor("result_output"), tensor("result_norm") @ weights["token_embd.weight"].T)
    )

    with torch.inference_mode():
        read = model(torch.from_numpy(tokens)[None], output_hidden_states=True)
    stream = [
        relative(tensor(f"l_out-{block}"), read.hidden_states[block + 1][0].double().numpy())
        for block in range(blocks - 1)
    ]
    head = relative(tensor("result_output"), read.logits[0].double().numpy())
    table = {name: [float(f"{np.median(values):.2g}"), float(f"{max(values):.2g}")] for name, values in apart.items()}
    return {
        "tokens": len(tokens),
        "against_dequantised_weights": table,
        "types": {name: header.types[f"blk.0.{name}.weight"] for _, name in MATRICES.values()}
        | {"token embedding": header.types["token_embd.weight"], "output head": header.types["token_embd.weight"]},
        "residual_stream_against_transformers": [float(f"{value:.2g}") for value in stream],
        "logits_against_transformers": float(f"{head:.2g}"),
    }
