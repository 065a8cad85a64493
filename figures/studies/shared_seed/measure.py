"""How often a draft by a shared seed matches, and what a message could add; run by hand on a trace."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from figures.studies.kit import given, laws, legend, means, picture, read, store
from hlmtheory import lattice, shared_seed, truncation
from hlmtheory.shared_seed.lists import list_match_bound
from hlmtheory.shared_seed.match import match_floor, match_rules
from hlmtheory.shared_seed.stream import exponentials
from validation.plots.common.ends import label_ends
from validation.plots.common.style import AMBER, COLUMN, DARK, GREY, MIDDLE
from validation.trace.reader import Trace, fingerprint, open_trace

Array = NDArray[Any]
EVERY, SPARSE, SEEDS = 4, 20, 8
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
    rules = match_rules(p, q)
    found = {name: np.asarray(getattr(rules, name)) for name in rules.__slots__}
    found["common_uniform"] = common_uniform(p, q)
    found["floor"] = np.asarray(match_floor(np.minimum(1.0 - found["rejection"], 1.0)))
    found["certified_size"] = np.asarray(truncation.certified_size(q, BIAS), dtype=np.float64)  # cu-hlm's k for a bias
    found["message_value"] = np.asarray(shared_seed.message_value(1.0 - found["rejection"]))
    for size in SIZES[1:]:
        found[f"list_bound_{size}"] = np.asarray(list_match_bound(p, q, size))
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
        times = exponentials(seed, rows, p.shape[-1])
        with np.errstate(divide="ignore"):
            winner = np.argmin(times / p, axis=-1)
            first = np.argsort(times / q, axis=-1)[:, : SIZES[-1]]
        hits += [(first[:, :size] == winner[:, None]).any(axis=-1) for size in SIZES]
    return {f"list_{size}": hit / SEEDS for size, hit in zip(SIZES, hits, strict=True)}


def of_trace(trace: Trace) -> dict[str, Any]:
    """Return the means over every fourth position, and those of lists over every twentieth."""
    prompts = np.asarray(trace.arrays["prompt_index"][:])
    parts, lists = [], []
    for some, q, p in laws(trace, EVERY):
        parts.append(by_rule(p, q) | by_budget(p, q))
        few = some % SPARSE == 0
        lists.append(by_list(p[few], q[few], some[few]))
    return means(parts, prompts[::EVERY]) | means(lists, prompts[::SPARSE])


def of_texts() -> dict[str, Any]:
    """Return acceptance in decoded texts and what rounded logits change."""
    import torch

    from validation.collection.collect import encode_prompts
    from validation.collection.prompts import builtin_prompts
    from validation.decoding.loop import decode
    from validation.decoding.methods.shared_seed import SharedSeed
    from validation.models.pair import load_pair

    pair = load_pair("builtin")
    prompts = builtin_prompts(limit=PROMPTS)
    rows = decode(pair, prompts, SharedSeed(4), new_tokens=TOKENS)
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
        "another_winner": means(values, index),
    }


def draw_rates(stored: Path) -> None:
    """Draw tokens per second against the link's rate, a panel for each round trip."""
    speeds = read(stored)["speeds"]["no header"]
    lines = {  # method: colour, marker, line
        "server with its own draft": (GREY, "P", "-"),
        "server alone, streaming": (GREY, "", ":"),
        "shared seed, streamed": (DARK, "o", "-"),
        "SQS": (MIDDLE, "s", "-"),
        "FlexSpec": (AMBER, "^", "--"),
    }
    with picture(stored, (2.15 * COLUMN[0], 2.6), len(speeds)) as (_, panels):
        for axes, (trip, by_rate) in zip(panels, speeds.items(), strict=True):
            for name, (color, marker, line) in lines.items():
                y = [found[name]["tokens_per_s"][0] for found in by_rate.values()]
                axes.plot([*map(float, by_rate)], y, color=color, marker=marker, ls=line, markersize=3, label=name)
            axes.set(xscale="log", ylim=(0, 60), xlabel="rate (bit/s)", title=f"round trip {trip}")
        panels[0].set_ylabel("tokens/s of one user")
        label_ends(panels[-1])


def draw(stored: Path) -> None:
    """Draw acceptance against the bits of a draft."""
    found = read(stored)
    if "speeds" in found:
        return draw_rates(stored)
    acceptance, token = found["acceptance"], (found["vocabulary"] - 1).bit_length()
    certified = acceptance["certified_size"][0] * (16 + token)
    lattices = [(size, f"lattice_{size:g}") for size in BUDGETS]
    lines = {  # label: colour, marker, (bits, name)
        "two seeds": ("0.55", "v", [(token, "apart")]),
        "argmax draft": ("0.55", "^", [(token, "greedy_draft")]),
        "one uniform number": ("0.55", "x", [(token, "common_uniform")]),
        "lattice message (C-SQS)": (MIDDLE, "s", lattices),
        "certified top k, bias ≤ .05 (CU-HLM)": (MIDDLE, "P", [(certified, "rejection")]),
        "$q_d$ up, p down if rejected (FlexSpec)": (MIDDLE, "*", [(32 + token, "rejection")]),
        "full distribution (HLM, U-HLM)": (MIDDLE, "D", [(16 * found["vocabulary"], "rejection")]),
        "shared seed, lists of 1, 2, 4": (
            DARK,
            "o",
            [(token, "shared_seed"), (2 * token, "list_2"), (4 * token, "list_4")],
        ),
    }
    with picture(stored, (1.9 * COLUMN[0], 2.6)) as (figure, (axes,)):
        for label, (color, marker, points) in lines.items():
            bits, (middle, low, high) = [b for b, _ in points], np.array([acceptance[name] for _, name in points]).T
            axes.errorbar(bits, middle, yerr=[middle - low, high - middle], fmt=f"{marker}-", color=color, label=label)
        axes.set(xscale="log", xlabel="bits a draft", ylabel="accepted drafts")
        legend(figure, (axes,), 3)


def main() -> None:
    """Measure, store and draw."""
    asked = given(__doc__, "trace", "out", draw=False)
    if not asked.draw:
        trace = open_trace(asked.trace)
        about = {
            "kind": "measured",
            "pair": trace.manifest.get("pair", {}).get("name"),
            "trace": fingerprint(trace),
            "positions": -(-trace.positions // EVERY),
            "positions_of_lists": -(-trace.positions // SPARSE),
            "vocabulary": trace.vocabulary,
            "list_seeds": SEEDS,
        }
        texts = {"texts": of_texts()} if about["pair"] == "builtin" else {}
        store(asked.out, about | texts | {"acceptance": of_trace(trace)})
    draw(asked.out)


if __name__ == "__main__":
    main()
