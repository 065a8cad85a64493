"""How often a draft by a shared seed matches, and what a message could add; run by hand on a trace.

PYTHONPATH=. python3 figures/studies/shared_seed/measure.py TRACE builtin.json

Of a trace of another pair than the built-in one, nothing is decoded.

Three things are measured at every fourth position: the exact probability that device and server draw the same token, by
rule; the certified k for a bias; the acceptance of rejection sampling with lattice messages, Σ min(q̂, p). Lists are simulated with the stream
at every twentieth position, because their exact probability takes V² steps. If one side's logits are rounded, the
probability of another winner is exact as well: 1 - P(a = b) of a row and the row of the rounded logits. The trace holds
float16 logits, so the target model computes them again in float32, for texts that the pair writes with a shared seed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory import lattice, shared_seed, truncation
from validation.plots.common.record import plain
from validation.trace.identity import fingerprint
from validation.trace.reader import Trace, open_trace, probabilities

Array = NDArray[Any]
ROWS, EVERY, SPARSE, SEEDS = 256, 4, 20, 8
SIZES = (1, 2, 4)
BIAS = 0.05
BUDGETS = (50.0, 100.0, 200.0, 500.0, 1000.0, 5000.0)
PROMPTS, TOKENS = 24, 100


def common_uniform(p: Array, q: Array) -> Array:
    """Return the probability of a match if both sides invert their distribution functions at one uniform number.

    >>> common_uniform(np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]])).tolist()
    [0.75]
    """
    high = np.minimum(np.cumsum(p, axis=-1), np.cumsum(q, axis=-1))
    low = np.maximum(np.cumsum(p, axis=-1) - p, np.cumsum(q, axis=-1) - q)
    return np.asarray(np.maximum(high - low, 0.0).sum(axis=-1))


def by_rule(p: Array, q: Array) -> dict[str, Array]:
    """Return the acceptance at each position, by rule."""
    rules = shared_seed.match_rules(p, q)
    found = {name: np.asarray(getattr(rules, name)) for name in rules.__slots__}
    found["common_uniform"] = common_uniform(p, q)
    found["floor"] = np.asarray(shared_seed.match_floor(np.minimum(1.0 - found["rejection"], 1.0)))
    found["certified_size"] = np.asarray(truncation.certified_size(q, BIAS), dtype=np.float64)  # cu-hlm's k for a bias
    found["message_value"] = np.asarray(shared_seed.message_value(1.0 - found["rejection"]))
    for size in SIZES[1:]:
        found[f"list_bound_{size}"] = np.asarray(shared_seed.list_match_bound(p, q, size))
    return found


def by_budget(p: Array, q: Array) -> dict[str, Array]:
    """Return the acceptance of rejection sampling with drafts from the best lattice row of each budget."""
    found = {}
    for budget in BUDGETS:
        chosen = lattice.allocate(q, budget)
        kept = lattice.top_support(q, chosen.k)
        decoded = lattice.quantize(q, support=kept, resolution=chosen.resolution) / chosen.resolution[:, None]
        found[f"lattice_{budget:g}"] = np.minimum(decoded, p).sum(axis=-1)
    return found


def by_list(p: Array, q: Array, rows: Array) -> dict[str, Array]:
    """Return the share of draws whose winner for the server is among the L first of the device."""
    hits = np.zeros((len(SIZES), len(rows)))
    for seed in range(SEEDS):
        times = shared_seed.exponentials(seed, rows, p.shape[-1])
        with np.errstate(divide="ignore"):
            winner = np.argmin(times / p, axis=-1)
            first = np.argsort(times / q, axis=-1)[:, : SIZES[-1]]
        hits += [(first[:, :size] == winner[:, None]).any(axis=-1) for size in SIZES]
    return {f"list_{size}": hit / SEEDS for size, hit in zip(SIZES, hits, strict=True)}


def means(parts: list[dict[str, Array]], prompts: Array) -> dict[str, Any]:
    """Return the mean of each column with a 95% interval of a bootstrap over prompts."""
    index = np.unique(prompts, return_inverse=True)[1]
    picks = np.random.default_rng(1).integers(0, index.max() + 1, (2_000, index.max() + 1))
    found = {}
    for name in parts[0]:
        values = np.concatenate([part[name] for part in parts])
        sums, counts = np.bincount(index, values), np.bincount(index)
        low, high = np.quantile(sums[picks].sum(axis=1) / counts[picks].sum(axis=1), [0.025, 0.975])
        found[name] = plain([values.mean(), low, high], 5)
    return found


def of_trace(trace: Trace) -> dict[str, Any]:
    """Return the means over every fourth position, and those of lists over every twentieth."""
    prompts, rows = np.asarray(trace.arrays["prompt_index"][:]), np.arange(0, trace.positions, EVERY)
    parts, lists = [], []
    for some in np.array_split(rows, -(-len(rows) // ROWS)):
        whole = slice(int(some[0]), int(some[-1]) + 1)
        q, p = (
            probabilities(np.asarray(trace.arrays[f"{side}_logits"][whole])[::EVERY]) for side in ("draft", "target")
        )
        parts.append(by_rule(p, q) | by_budget(p, q))
        few = some % SPARSE == 0
        lists.append(by_list(p[few], q[few], some[few]))
    return means(parts, prompts[rows]) | means(lists, prompts[::SPARSE])


def of_texts() -> dict[str, Any]:
    """Return acceptance in decoded texts, whether other drafts give the same texts, and what rounded logits change."""
    from dataclasses import replace

    import torch

    from validation.collection.collect import encode_prompts
    from validation.collection.prompts import builtin_prompts
    from validation.decoding.loop import decode
    from validation.decoding.methods.shared_seed import SharedSeed
    from validation.models.pair import load_pair

    pair = load_pair("builtin")
    prompts = builtin_prompts(limit=PROMPTS)
    rows = decode(pair, prompts, SharedSeed(4), new_tokens=TOKENS)
    others = {
        "K = 1": (pair, SharedSeed(1)),
        "K = 8": (pair, SharedSeed(8)),
        "the target as its own draft": (replace(pair, draft=pair.target), SharedSeed(4)),
    }
    same = {
        name: sum(
            a.tokens == b.tokens for a, b in zip(rows, decode(one, prompts, method, new_tokens=TOKENS), strict=True)
        )
        for name, (one, method) in others.items()
    }
    changed: dict[str, list[Array]] = {"float16": [], "bfloat16": []}
    for prompt, row in zip(encode_prompts(pair, prompts, TOKENS), rows, strict=True):
        ids = torch.tensor([[*prompt, *row.tokens]])
        with torch.inference_mode():
            logits = pair.target(ids).logits[0, -len(row.tokens) - 1 : -1].float()
        p = logits.double().softmax(dim=-1)
        for kind, parts in changed.items():
            rounded = logits.to(getattr(torch, kind)).double().softmax(dim=-1)
            parts.append(1.0 - shared_seed.match_probability(p, rounded).numpy())
    index = np.concatenate([np.full(len(row.tokens), i) for i, row in enumerate(rows)])
    values = [{kind: np.concatenate(parts) for kind, parts in changed.items()}]
    return {
        "texts": len(rows),
        "tokens": sum(len(row.tokens) for row in rows),
        "accepted": sum(row.total("accepted") for row in rows),
        "rejected": sum(row.total("resampled") for row in rows),
        "bits": sum(row.total("bits") for row in rows),
        "drafted": sum(row.total("drafted") for row in rows),
        "same_texts": same,
        "another_winner": means(values, index),
    }


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    trace = open_trace(given.trace)
    about = {
        "kind": "measured",
        "pair": trace.manifest.get("pair", {}).get("name"),
        "trace": fingerprint(trace),
        "positions": -(-trace.positions // EVERY),
        "positions_of_lists": -(-trace.positions // SPARSE),
        "vocabulary": trace.vocabulary,
        "list_seeds": SEEDS,
    }
    found = about | ({"texts": of_texts()} if about["pair"] == "builtin" else {}) | {"acceptance": of_trace(trace)}
    given.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
