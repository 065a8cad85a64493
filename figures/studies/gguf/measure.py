"""Compare transformers' reading of GGUF files with llama.cpp, and measure what a quantised draft model costs.

Reads what ``recipe.sh`` made. Three parts:

- ``routes``: at the same prefixes, the log-probabilities in llama.cpp's store beside those of transformers for the same
  file, and the acceptance that follows from each;
- ``verdicts``: every claim that is checked on measured arrays, on the imported stores and on transformers' own rows;
- ``cost``: on the texts of a trace, the acceptance 1 - TV(q, p) and the smallest certified k with the draft model
  quantised, and their change from the draft model in its folder, with 95% intervals over prompts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory import all_claims
from hlmtheory.truncation import certified_size
from hlmtheory.verification import softmax, total_variation
from validation.claims.check import check_trace
from validation.claims.instances import scenarios
from validation.collection.collect import encode_prompts
from validation.collection.import_logits import import_logits
from validation.collection.llama_cpp import HEADER, Store, open_store
from validation.collection.prompts import Prompt
from validation.models.gguf_files import read_header
from validation.models.pair import PAIRS, Pair, load_pair
from validation.plots.common.skipping.sample import ClusteredEstimate, mean
from validation.trace.reader import Trace, open_trace

Rows = NDArray[np.float64]

TYPES = ("F32", "Q8_0", "Q4_K", "Q4_0")
BIASES = (0.1, 0.02)
"""Tolerances ε of the certified k."""

CHECKED = 6
"""Chunks of 127 rows on which the claims are checked."""


def chunk_tokens(store: Store) -> NDArray[np.int64]:
    """Return all tokens of a store, shape (chunks, n_ctx); ``Store.tokens`` leaves out those without a row."""
    flat = np.fromfile(store.path, np.int32, store.chunks * store.context, offset=HEADER)
    return flat.reshape(store.chunks, store.context).astype(np.int64)


def log_probabilities(model: Any, tokens: NDArray[np.int64]) -> Rows:
    """Return a model's log-probabilities after each token, shape (n, V)."""
    import torch

    with torch.inference_mode():
        found = torch.log_softmax(model(torch.from_numpy(tokens)[None]).logits[0].double(), dim=-1)
    return np.asarray(found.numpy())


def chunks_of(store: Store) -> Iterator[tuple[NDArray[np.int64], slice]]:
    """Yield the tokens of each chunk and the rows of the store that belong to it."""
    kept = store.rows // store.chunks
    for index, tokens in enumerate(chunk_tokens(store)):
        yield tokens, slice(index * kept, (index + 1) * kept)


def agreement(store: Store, other: Any) -> dict[str, Any]:
    """Compare a store with a model of transformers, or with another store of the same text."""
    largest, difference, apart, groups = 0.0, [], [], []
    for index, (tokens, at) in enumerate(chunks_of(store)):
        stored = store.log_probabilities(at.start, at.stop).astype(np.float64)
        if isinstance(other, Store):
            rows = other.log_probabilities(at.start, at.stop).astype(np.float64)
        else:
            rows = log_probabilities(other, tokens)[store.context // 2 : -1]
        above = stored > stored.min(axis=1, keepdims=True)  # level 0 says only how large the value is at most
        gaps = np.abs(stored - rows)[above]
        largest = max(largest, float(gaps.max()))
        difference.append(float(gaps.mean()))
        apart.append(total_variation(softmax(stored), softmax(rows)))
        groups.append(np.full(len(rows), index))
    distances = np.concatenate(apart)
    return {
        "largest_difference": float(f"{largest:.3g}"),
        "mean_difference": float(f"{np.mean(difference):.3g}"),
        "largest_tv": float(f"{distances.max():.3g}"),
        "tv": shown(mean(distances, np.concatenate(groups))),
        "rounding_of_the_store": float(f"{store.slack():.3g}"),
    }


def acceptances(draft: Store, target: Store, read: Any) -> dict[str, Any]:
    """Return the acceptance of llama.cpp's draft rows and of transformers', for llama.cpp's target rows at F32."""
    theirs, ours, groups = [], [], []
    for index, (tokens, at) in enumerate(chunks_of(draft)):
        p = softmax(target.log_probabilities(at.start, at.stop).astype(np.float64))
        theirs.append(1 - total_variation(softmax(draft.log_probabilities(at.start, at.stop).astype(np.float64)), p))
        ours.append(1 - total_variation(softmax(log_probabilities(read, tokens)[draft.context // 2 : -1]), p))
        groups.append(np.full(len(p), index))
    chunks, values = np.concatenate(groups), [np.concatenate(each) for each in (theirs, ours)]
    return {
        "acceptance, llama.cpp": shown(mean(values[0], chunks)),
        "acceptance, transformers": shown(mean(values[1], chunks)),
        "acceptance, difference": shown(mean(values[1] - values[0], chunks)),
    }


def shown(estimate: ClusteredEstimate) -> list[float]:
    """Return a mean and the ends of its interval."""
    return [float(f"{value:.4g}") for value in (estimate.value, estimate.low, estimate.high)]


def routes(work: Path) -> dict[str, Any]:
    """Return how far transformers and llama.cpp are apart for each file, and llama.cpp from itself."""
    found: dict[str, Any] = {}
    for model, role in (("small", "draft"), ("large", "target")):
        folder = getattr(PAIRS["builtin"], role)
        for kind in TYPES:
            file = work / f"{model}-{kind}.gguf"
            store = open_store(work / f"{model}-{kind}.kld")
            read = load_pair(draft=file, target=file).draft
            entry: dict[str, Any] = {"stored_as": dict(Counter(read_header(file).types.values()).most_common())}
            entry["transformers, same file"] = agreement(store, read)
            if kind != "F32":
                entry["llama.cpp, F32"] = agreement(store, open_store(work / f"{model}-F32.kld"))
            if (other := work / f"{model}-{kind}-default.kld").exists():
                entry["llama.cpp, its default cache"] = agreement(store, open_store(other))
            if kind == "F32":
                exact = load_pair(draft=folder, target=folder, dtype="float64").draft
                entry["transformers, folder, float64"] = agreement(store, exact)
            if role == "draft":
                entry |= acceptances(store, open_store(work / "large-F32.kld"), read)
            found[f"{role} {kind}"] = entry
            print(f"{role} {kind}", json.dumps(entry), flush=True)
    return found


def first_chunks(store: Store, path: Path) -> Store:
    """Write the first ``CHECKED`` chunks of a store as a store of their own."""
    counts = np.array([store.context, store.vocabulary, CHECKED], np.int32)
    before = store.path.stat().st_size - HEADER - 4 * store.chunks * store.context
    with store.path.open("rb") as file:
        head = file.read(HEADER)[:-12] + counts.tobytes() + file.read(4 * CHECKED * store.context)
        file.seek(HEADER + 4 * store.chunks * store.context)
        path.write_bytes(head + file.read(before // store.chunks * CHECKED))
    return open_store(path)


def own_trace(store: Store, work: Path) -> Trace:
    """Return the trace of the same rows as a store's, computed by transformers from the folders."""
    pair = load_pair()
    rows = {
        name: np.concatenate(
            [log_probabilities(model, tokens)[store.context // 2 : -1] for tokens, _ in chunks_of(store)]
        )
        for name, model in (("draft", pair.draft), ("target", pair.target))
    }
    for name, values in {**rows, "tokens": store.tokens, "texts": store.texts}.items():
        np.save(work / f"{name}.npy", values.astype(np.float32) if name in rows else values)
    arrays = {name: work / f"{name}.npy" for name in ("draft", "target", "tokens", "texts")}
    draft, target = arrays.pop("draft"), arrays.pop("target")
    return import_logits(draft, target, work / "own", **arrays, dtype="float32", text_origin="corpus", fresh=True)


def verdicts(work: Path) -> dict[str, Any]:
    """Return the verdicts on the imported stores and on transformers' own rows, and where they differ.

    The stored rows are taken as exact first, and then as known up to their rounding: fewer claims are then decided.
    """
    stores = [
        first_chunks(open_store(work / f"{model}-F32.kld"), work / f"{model}.kld") for model in ("small", "large")
    ]
    imported = import_logits(stores[0].path, stores[1].path, work / "imported", dtype="float32", fresh=True)
    claims = {name: claim for name, claim in all_claims().items() if name not in scenarios()}
    own = own_trace(stores[1], work)
    outcomes = [
        {
            name: tally.outcome
            for name, tally in check_trace(trace, seed=1, claims=claims, stored_rows=exact).tallies.items()
        }
        for trace, exact in ((imported, True), (own, False), (imported, False))
    ]
    decided = {name: outcome for name, outcome in outcomes[2].items() if outcome != "out of scope"}
    return {
        "positions": imported.positions,
        "claims": len(claims),
        "outcomes": dict(Counter(outcomes[0].values())),
        "decided_otherwise": {
            name: [each[name] for each in outcomes[:2]] for name in claims if outcomes[0][name] != outcomes[1][name]
        },
        "decided_with_rounding": dict(Counter(decided.values())),
        "decided_otherwise_with_rounding": {
            name: [outcome, outcomes[1][name]] for name, outcome in decided.items() if outcome != outcomes[1][name]
        },
    }


def texts_of(trace: Trace, pair: Pair) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """Yield the prompt, its length in tokens and all tokens of each text of a trace."""
    prompts = [Prompt(**prompt) for prompt in trace.manifest["prompts"]]
    encoded = encode_prompts(pair, prompts, 1)
    tokens, index, position = (trace.arrays[name][:] for name in ("tokens", "prompt_index", "position"))
    starts = np.flatnonzero(position == 0)
    for start, stop in zip(starts, [*starts[1:], len(tokens)], strict=True):
        before = encoded[index[start]]
        yield int(index[start]), len(before), np.array([*before, *tokens[start:stop]], np.int64)


def cost(work: Path, trace: Trace) -> dict[str, Any]:
    """Return acceptance and certified k for each draft model, with the change from the folder's."""
    pair = load_pair()
    drafts = {"folder": pair.draft}
    for kind in TYPES:
        file = work / f"small-{kind}.gguf"
        drafts[kind] = load_pair(draft=file, target=file).draft
    measured: dict[str, dict[str, list[Any]]] = {kind: {} for kind in drafts}
    groups = []
    for prompt, length, tokens in texts_of(trace, pair):
        target = np.exp(log_probabilities(pair.target, tokens[:-1])[length - 1 :])
        groups.append(np.full(len(target), prompt))
        for kind, model in drafts.items():
            q = np.exp(log_probabilities(model, tokens[:-1])[length - 1 :])
            values = {"acceptance": 1 - total_variation(q, target)}
            values |= {f"k at {bias:g}": certified_size(q, bias) for bias in BIASES}
            for name, value in values.items():
                measured[kind].setdefault(name, []).append(value)
    prompts = np.concatenate(groups)
    columns = {kind: {name: np.concatenate(parts) for name, parts in each.items()} for kind, each in measured.items()}
    table: dict[str, Any] = {"positions": len(prompts), "prompts": len(np.unique(prompts))}
    for kind, each in columns.items():
        table[kind] = {name: shown(mean(values, prompts)) for name, values in each.items()}
        if kind != "folder":
            changes = {name: mean(values - columns["folder"][name], prompts) for name, values in each.items()}
            table[kind] |= {f"change of {name}": shown(change) for name, change in changes.items()}
            table[kind]["bytes"] = (work / f"small-{kind}.gguf").stat().st_size
        print(kind, json.dumps(table[kind]), flush=True)
    return table


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("runs/llama.cpp"), help="the folder that recipe.sh filled")
    parser.add_argument("--trace", type=Path, default=Path("runs/builtin/trace"), help="of the built-in pair")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("builtin.json"))
    parser.add_argument("--only", choices=("routes", "cost", "verdicts"), help="measure one part, keep the others")
    options = parser.parse_args()
    parts = {
        "routes": lambda: routes(options.work),
        "cost": lambda: cost(options.work, open_trace(options.trace)),
        "verdicts": lambda: verdicts(options.work),
    }
    found = json.loads(options.out.read_text(encoding="utf-8")) if options.only else {}
    seconds = found.get("seconds", {})
    for name in [options.only] if options.only else parts:
        began = time.perf_counter()
        found[name] = parts[name]()
        seconds[name] = round(time.perf_counter() - began)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    head = {
        "command": "python3 figures/studies/gguf/measure.py --work runs/llama.cpp --trace runs/builtin/trace",
        "commit": commit,
        "pair": "builtin",
        "seconds": seconds,
    }
    ordered = head | {name: found[name] for name in parts if name in found}
    options.out.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
