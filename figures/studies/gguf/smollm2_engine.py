"""Call llama.cpp for ``measure_smollm2.py``, each call in a process of its own so that its memory is known.

``smollm2.sh`` fetches the libraries. All run on one thread; a server listens on the loopback interface.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

FILE_TYPES = {"F16": 1, "Q4_0": 2, "Q8_0": 7, "Q2_K": 10, "Q3_K_M": 12}
"""Numbers of the mixtures that ``llama-quantize`` knows (``llama_ftype`` in llama.h)."""

LIBRARY = "wheel/xllamacpp/xllamacpp.abi3.so"
QUANTISING = [f"package/bins/linux-x64/{name}.so" for name in ("libggml-base", "libggml.v0.5.0", "libllama.v0.5.0")]
SETTINGS = {"temperature": 1.0, "samplers": ["temperature"], "cache_prompt": False, "return_tokens": True}
"""The target's own distribution, and no prefix kept between prompts."""


class QuantizeOptions(ctypes.Structure):
    """``llama_model_quantize_params`` of llama.h, with room for fields that a later version may add."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("threads", "file_type", "output_type", "embedding_type")),
        *((name, ctypes.c_bool) for name in ("requantize", "quantize_output", "copy", "pure", "split", "dry")),
        *((name, ctypes.c_void_p) for name in ("imatrix", "overrides", "types", "prune")),
        ("room", ctypes.c_uint8 * 128),
    ]


def scoring(work: Path) -> ctypes.CDLL:
    """Return the functions of ``score.cpp``."""
    ctypes.CDLL(str(work / LIBRARY), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(work / "score.so"))


def quantise(work: Path, source: str, to: str, kind: str) -> None:
    """Write a model at another mixture of types, from weights that may be quantised."""
    for name in QUANTISING:
        library = ctypes.CDLL(str(work / name), mode=ctypes.RTLD_GLOBAL)
    library.llama_model_quantize_default_params.restype = QuantizeOptions
    options = library.llama_model_quantize_default_params()
    options.threads, options.requantize, options.file_type = 1, True, FILE_TYPES[kind]
    if library.llama_model_quantize(source.encode(), to.encode(), ctypes.byref(options)):
        raise RuntimeError(f"{source} was not quantised to {kind}")


def store(work: Path, model: str, text: str, to: str, context: str, chunks: str, exact: str, repack: str) -> None:
    """Write the store of ``llama-perplexity --kl-divergence-base`` on a text."""
    words = Path(text).read_text(encoding="utf-8").encode()
    counts = [int(value) for value in (context, chunks, exact, repack)]
    if scoring(work).store(model.encode(), words, f"{to}.part".encode(), *counts):
        raise RuntimeError(f"{model} was not scored")
    Path(f"{to}.part").rename(to)


def tensors(work: Path, model: str, tokens: str, folder: str, exact: str, repack: str) -> None:
    """Write the tensors of one pass."""
    ids = np.array(json.loads(tokens), np.int32)
    Path(folder).mkdir(exist_ok=True)
    arguments = (model.encode(), ids.ctypes.data_as(ctypes.c_void_p), len(ids), folder.encode())
    if getattr(scoring(work), "pass")(*arguments, int(exact), int(repack)):
        raise RuntimeError(f"{model} did not run")


def logits(work: Path, model: str, answers: str, to: str, vocabulary: str) -> None:
    """Write the logits before each emitted token of a server's answers, shape (tokens, V), at its settings."""
    texts = [json.loads(line) for line in Path(answers).read_text(encoding="utf-8").splitlines()]
    whole = [[*text["prompt_tokens"], *text["tokens"]][:-1] for text in texts]
    lengths, firsts = (
        np.array(values, np.int32) for values in ([*map(len, whole)], [len(t["prompt_tokens"]) - 1 for t in texts])
    )
    ids, out = (
        np.concatenate(whole).astype(np.int32),
        np.empty((int((lengths - firsts).sum()), int(vocabulary)), np.float32),
    )
    places = [array.ctypes.data_as(ctypes.c_void_p) for array in (ids, lengths, firsts, out)]
    if scoring(work).rows(model.encode(), *places[:3], len(texts), places[3], 0):
        raise RuntimeError(f"{model} did not run")
    np.save(to, out)


def server(work: Path, target: str, draft: str, kind: str, sampling: str, length: str) -> Any:
    """Return a running server with one slot; the engine's own names choose how it drafts."""
    sys.path.insert(0, str(work / "wheel"))
    import xllamacpp

    options = xllamacpp.CommonParams()
    options.model.path, options.n_ctx, options.n_parallel, options.ui = target, 512, 1, False
    options.warmup, options.fit_params, options.cache_ram_mib, options.n_threads_http = False, False, 0, 2
    options.endpoint_metrics, options.verbosity = True, 4  # with accepted drafts by position
    speculative = options.speculative
    for threads in (
        options.cpuparams,
        options.cpuparams_batch,
        speculative.draft.cpuparams,
        speculative.draft.cpuparams_batch,
    ):
        threads.n_threads = 1
    speculative.types = [getattr(xllamacpp.common_speculative_type, f"COMMON_SPECULATIVE_TYPE_{kind}")]
    if draft:
        speculative.draft.mparams.path, speculative.draft.probabilistic = draft, sampling == "probabilistic"
    speculative.draft.n_max = int(length)
    return xllamacpp.Server(options)


def serve(
    work: Path, target: str, draft: str, kind: str, sampling: str, length: str, prompts: str, emitted: str, to: str
) -> None:
    """Let a server answer prompts; write its answers and its metrics. Its log goes to the error output."""
    running = server(work, target, draft, kind, sampling, length)

    def ask(path: str, body: dict[str, Any] | None = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(running.listening_address + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            return bytes(answer.read())

    with Path(to).open("w", encoding="utf-8") as file:
        for seed, prompt in enumerate(json.loads(Path(prompts).read_text(encoding="utf-8"))):
            ids = json.loads(ask("/tokenize", {"content": prompt}))["tokens"]
            body = SETTINGS | {"prompt": ids, "n_predict": int(emitted), "seed": seed}
            found = json.loads(ask("/completion", body))
            kept = {name: found[name] for name in ("tokens", "timings", "stop_type")} | {"prompt_tokens": ids}
            file.write(json.dumps(kept) + "\n")
            file.flush()
    Path(to).with_suffix(".metrics").write_bytes(ask("/metrics"))


def call(work: Path, name: str, *arguments: Any, log: Path) -> dict[str, float]:
    """Run a function of this file in its own process; return its peak memory and its times."""
    command = [sys.executable, __file__, str(work), name, *map(str, arguments)]
    with log.open("w", encoding="utf-8") as errors:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    if done.returncode:
        raise RuntimeError(f"{name} failed; see {log}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Run one function, and print what it took."""
    work, name, *arguments = sys.argv[1:]
    began = time.perf_counter()
    globals()[name](Path(work), *arguments)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    took = {"peak_mb": round(usage.ru_maxrss / 1000), "cpu_s": round(usage.ru_utime + usage.ru_stime, 1)}
    print("\n" + json.dumps(took | {"wall_s": round(time.perf_counter() - began, 1)}), flush=True)
    os._exit(0)  # the server's threads do not end


if __name__ == "__main__":
    main()
