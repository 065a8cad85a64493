"""Measure the tokens of a round and the distance of a token for lossy rules, on the same prefixes and drafts."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from figures.studies.kit import given, picture, read, store
from hlmtheory.truncation import truncate
from hlmtheory.uncertainty.perturbation import vocabulary_uncertainty
from hlmtheory.verification import block_weights, lossy_price, rejection_probability, total_variation
from hlmtheory.verification.lossy import relaxed_acceptance, threshold_acceptance, top_acceptance, typical_acceptance
from validation.collection.collect import encode_prompts
from validation.collection.prompts import builtin_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import FixedLength
from validation.models.pair import load_pair
from validation.plots.common.style import axis, legend_below, name_axes

NEW, COPIES, DEEPEST, LENGTHS, PROMISES, SETS = 24, 4, 4, (4,), (0.02, 0.05, 0.1), 500
EVEN = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.85, 1.0)

SAMPLED: dict[str, tuple[float, ...]] = {
    "relaxed min(1, c p/q)": (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 1e3, 1e9),
    "skips at random, or a cascade with a mixture": EVEN,
    "skips at low uncertainty": (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 1.0),
    "cascade, Chow's rule": (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0),
    "cascade, optimal deferral": (-1e3, -8.0, -4.0, -2.0, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 1e3),
    "skips of the first drafts": (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0),
    "truncated residual, top-k": (1e9, 1024.0, 256.0, 64.0, 16.0, 4.0, 1.0),
}
GREEDY: dict[str, tuple[float, ...]] = {
    "SGLang, accumulated": (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.01),
    "SGLang, single": (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0),
    "typical, then p": (1.0, 0.8, 0.6, 0.4, 0.25, 0.16, 0.09, 0.04, 0.01, 0.001, 0.0),
    "top-m, then p": (0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0),
}
BLOCK = "cascade with a mixture, by block"


def rule(name: str, value: float, p: Any, q: Any, logits: Any) -> tuple[Any, Any]:
    """Return the acceptance of every token (..., K, V), and the law after a rejection; None: (p - q)⁺."""
    sure = 1.0 - rejection_probability(p, q)
    if name == "relaxed min(1, c p/q)":
        return relaxed_acceptance(p, q, value), None
    if name == "truncated residual, top-k":
        left = np.clip(p - truncate(q, min(int(value), q.shape[-1])), 0.0, None)
        total = left.sum(-1, keepdims=True)
        return sure, np.where(total > 1e-12, left / np.where(total > 1e-12, total, 1.0), p)
    if name == "SGLang, accumulated":
        return threshold_acceptance(p, accumulated=value), None
    if name == "SGLang, single":
        return threshold_acceptance(p, single=value), None
    if name == "typical, then p":
        return typical_acceptance(p, value, value**0.5), p
    if name == "top-m, then p":
        return top_acceptance(p, int(value)), p
    if name == "skips at random, or a cascade with a mixture":
        skip = np.full_like(p, value)
    elif name == "skips at low uncertainty":
        skip = (np.asarray(vocabulary_uncertainty(logits)) <= value) * (value > 0.0)
    elif name == "cascade, Chow's rule":
        skip = np.broadcast_to(q.max(-1, keepdims=True) >= 1.0 - value, p.shape) * (value > 0.0)
    elif name == "cascade, optimal deferral":
        distance = np.asarray(total_variation(p, q))[..., None]
        skip = np.broadcast_to(q.max(-1, keepdims=True) >= p.max(-1, keepdims=True) - value * distance, p.shape)
    else:
        skip = np.broadcast_to(np.clip(value - np.arange(p.shape[-2]), 0.0, 1.0)[:, None], p.shape)
    return sure + (1.0 - sure) * skip, None


def along(tokens: Any, accept: Any, cost: Any) -> np.ndarray:
    """Return mean tokens and cost of rounds of each length, (2, lengths), from a and e along the drafts."""
    kept = np.take_along_axis(np.broadcast_to(accept, (*cost.shape, accept.shape[-1])), tokens[..., None], -1)[..., 0]
    alive = np.cumprod(kept, axis=-1)
    before = np.concatenate([np.ones_like(alive[..., :1]), alive[..., :-1]], axis=-1)
    return np.array(
        [
            [1.0 + alive[..., :k].sum(-1).mean() for k in LENGTHS],
            [(before * cost)[..., :k].sum(-1).mean() for k in LENGTHS],
        ]
    )


def by_block(tokens: Any, p: Any, q: Any) -> np.ndarray:
    """Return tokens and cost of a cascade by block, (2, shares, lengths); its bonus token has the cascade's law too."""
    distance = np.asarray(total_variation(p, q))
    found = []
    for share in EVEN:
        law = share * q + (1.0 - share) * p
        weight = np.asarray(block_weights(law[..., :-1, :], q[..., :-1, :], tokens))
        reached = np.concatenate([np.ones_like(weight[..., :1]), weight], axis=-1)
        tokens_k = [reached[..., : k + 1].sum(-1).mean() for k in LENGTHS]
        found.append([tokens_k, [share * (reached * distance)[..., : k + 1].sum(-1).mean() for k in LENGTHS]])
    return np.array(found).transpose(1, 0, 2)


@torch.no_grad()  # type: ignore[untyped-decorator]
def window(pair: Any, prefix: list[int], *, greedy: bool) -> tuple[Any, ...]:
    """Return the drafts (n, K), and p, q and the draft's logits at them and after the last, (n, K + 1, V)."""
    ids = torch.tensor([prefix] * (1 if greedy else COPIES))
    for _ in range(DEEPEST):
        row = pair.draft(ids).logits[:, -1].float()
        new = row.argmax(-1, keepdim=True) if greedy else torch.multinomial(row.softmax(-1), 1)
        ids = torch.cat([ids, new], dim=1)
    p, q = (model(ids).logits[:, -DEEPEST - 1 :].double() for model in (pair.target, pair.draft))
    return ids[:, -DEEPEST:].numpy(), p.softmax(-1).numpy(), q.softmax(-1).numpy(), q.numpy()


def place(pair: Any, prefix: list[int]) -> dict[str, np.ndarray]:
    """Return tokens and cost of the rounds after a prefix, by rule (2, parameters, lengths), and the overlaps."""
    tokens, p, q, logits = window(pair, prefix, greedy=False)
    found = {BLOCK: by_block(tokens, p, q)}
    p, q, logits = p[:, :-1], q[:, :-1], logits[:, :-1]
    ratio = [np.take_along_axis(one, tokens[..., None], -1)[..., 0] for one in (p, q)]
    found["overlap"] = np.minimum(1.0, np.cumprod(ratio[0] / ratio[1], axis=-1)).mean(0)  # 1 - TV(Q_i, P_i)
    greedy, p_greedy = window(pair, prefix, greedy=True)[:2]
    hot = np.asarray(np.arange(q.shape[-1]) == greedy[..., None], dtype=np.float64)
    for table, known in ((SAMPLED, (tokens, p, q, logits)), (GREEDY, (greedy, p_greedy[:, :-1], hot, None))):
        for name, values in table.items():
            rows = []
            for value in values:
                accept, residual = rule(name, value, *known[1:])
                price = lossy_price(known[1], known[2], accept, residual)
                rows.append(along(known[0], accept, np.asarray(price.distance)))
            found[name] = np.array(rows).transpose(1, 0, 2)
    return found


def best_mix(curve: np.ndarray, promise: float) -> tuple[float, int, int, float]:
    """Return the most tokens of rounds that mix two parameters with cost ≤ promise · tokens, and the mixture."""
    tokens, cost = np.append(1.0, curve[0]), np.append(0.0, curve[1])
    over = cost - promise * tokens
    found = [(float(tokens[i]), i, i, 1.0) for i in range(len(tokens)) if over[i] <= 1e-12]
    for i in np.flatnonzero(over <= 1e-12):
        for j in np.flatnonzero(over > 1e-12):
            share = over[j] / (over[j] - over[i])
            found.append((float(share * tokens[i] + (1.0 - share) * tokens[j]), int(i), int(j), float(share)))
    return max(found)


def summarise(rounds: list[dict[str, np.ndarray]], counts: np.ndarray) -> Any:
    """Return curves and the table at equal promises; ``rounds`` are sums of each prompt, ``counts`` its places."""
    rng = np.random.default_rng(1)
    sets = [
        np.ones(len(counts)),
        *(np.bincount(rng.integers(0, len(counts), len(counts)), minlength=len(counts)) for _ in range(SETS)),
    ]
    names = [*SAMPLED, BLOCK, *GREEDY]
    stacked = {name: np.stack([one[name] for one in rounds]) for name in [*names, "overlap"]}
    means = [{name: np.tensordot(w, one, 1) / (w @ counts) for name, one in stacked.items()} for w in sets]
    result: dict[str, Any] = {"by_length": {}}
    for n, k in enumerate(LENGTHS):
        curves = {}
        for name in names:
            tokens, cost = means[0][name][:, :, n]
            values = EVEN if name == BLOCK else (SAMPLED | GREEDY)[name]
            curves[name] = {"parameters": list(values), "tokens": tokens.tolist(), "distance": (cost / tokens).tolist()}
        overlap = means[0]["overlap"][:k]
        spent = np.linspace(0.0, float((1.0 - overlap).max()), 60)
        most = 1.0 + (overlap + np.minimum(spent[:, None], 1.0 - overlap)).sum(-1)
        promises = {}
        for promise in PROMISES:
            each = [{name: best_mix(one[name][:, :, n], promise) for name in names} for one in means]
            likes = "skips at random, or a cascade with a mixture"
            promises[promise] = {
                name: {
                    "tokens": spread([one[name][0] for one in each]),
                    "over_random_skips": spread([one[name][0] / one[likes][0] for one in each]),
                    "mix": list(each[0][name][1:]),
                }
                for name in names
            }
        result["by_length"][k] = {
            "curves": curves,
            "most": {"distance": (spent / most).tolist(), "tokens": most.tolist()},
            "promises": promises,
        }
    return result


def spread(values: list[float]) -> list[float]:
    """Return the first value and the 95% interval of the others, which are resampled."""
    return [values[0], *(float(one) for one in np.quantile(values[1:], (0.025, 0.975)))]


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666", "#8B4513")


def draw(stored: Path) -> None:
    """Draw a line for each rule, dashed for greedy drafts, and the most that any rule can give."""
    found = read(stored)["by_length"]["4"]
    with picture(stored, (5.0, 4.4)) as (_, (axes,)):
        most = found["most"]
        label = "no rule for sampled drafts gives more"
        axes.plot(most["distance"], most["tokens"], color="black", lw=1.5, label=label)
        for names, style in (([*SAMPLED, BLOCK], "-"), (GREEDY, "--")):
            for colour, name in zip(COLOURS, names, strict=False):
                points = sorted(zip(found["curves"][name]["distance"], found["curves"][name]["tokens"], strict=True))
                look = {"color": colour, "marker": "o" if names is GREEDY else ".", "lw": 0.9}
                axes.plot(*zip(*points, strict=True), style, label=name, **look)
        axes.set_xlim(-0.005, 0.3)
        name_axes(axes, {"x": axis("mean total variation of a token"), "y": axis("tokens of a round of 4 drafts")})
        legend_below(axes, columns=2)


def main() -> None:
    """Measure, store and draw."""
    asked = given(__doc__, "out", pair="builtin", prompts=24)
    pair, chosen = load_pair(asked.pair), builtin_prompts(limit=asked.prompts)
    torch.manual_seed(1)
    rounds: list[dict[str, Any]] = []
    counts = []
    records = decode(pair, chosen, FixedLength(4), new_tokens=NEW, batch=16)
    for ids, record in zip(encode_prompts(pair, chosen, NEW), records, strict=True):
        places = [one.position for one in record.rounds[::3]]
        each = [place(pair, [*ids, *record.tokens[:at]]) for at in places]
        rounds.append({key: sum(one[key] for one in each) for key in each[0]})
        counts.append(float(len(places)))
    about = {"pair": asked.pair, "prompts": len(chosen), "rounds": int(sum(counts)), "copies": COPIES}
    store(asked.out, about | {"new_tokens": NEW} | summarise(rounds, np.array(counts)))
    draw(asked.out)


if __name__ == "__main__":
    main()
