"""Measure the tokens of a round and the distance of a token for lossy rules, on the same prefixes and drafts.

PYTHONPATH=. python3 figures/studies/lossy_rules/measure.py builtin 24 figures/studies/lossy_rules/builtin.json

The target model's texts are decoded with fixed K = 4. At the beginning of every third of their rounds, ``COPIES`` times
4 drafts are drawn from q, and 4 greedy ones once. Given the drafts, a round has 1 + Σ Π a tokens, and its expected cost
is Σ e_i Π_{j<i} a_j with e_i the exact total variation of token i (``hlmtheory.verification.lossy_price``), the bonus
token costs 0. So no random number of the server enters. Promises are on the mean distance of a token, Σ cost/Σ tokens.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hlmtheory.truncation import truncate
from hlmtheory.uncertainty import vocabulary_uncertainty
from hlmtheory.verification import (
    block_weights,
    lossy_price,
    rejection_probability,
    relaxed_acceptance,
    threshold_acceptance,
    top_acceptance,
    total_variation,
    typical_acceptance,
)
from validation.collection.collect import encode_prompts
from validation.collection.prompts import builtin_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import FixedLength
from validation.models.pair import load_pair

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


@torch.no_grad()
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
    for table, given in ((SAMPLED, (tokens, p, q, logits)), (GREEDY, (greedy, p_greedy[:, :-1], hot, None))):
        for name, values in table.items():
            rows = []
            for value in values:
                accept, residual = rule(name, value, *given[1:])
                price = lossy_price(given[1], given[2], accept, residual)
                rows.append(along(given[0], accept, np.asarray(price.distance)))
            found[name] = np.array(rows).transpose(1, 0, 2)
    return found


@torch.no_grad()
def text_losses(pair: Any, prompt: list[int], text: list[int]) -> dict[str, np.ndarray]:
    """Return 1 - Π min(1, S/p) and Σ e of a text, the rule verifying a draft at every place, (2, parameters)."""
    ids = torch.tensor([[*prompt, *text]])
    p, q = (model(ids[:, :-1]).logits[0, -len(text) :].double() for model in (pair.target, pair.draft))
    logits, p, q, found = q.numpy(), p.softmax(-1).numpy(), q.softmax(-1).numpy(), {}
    hot = np.asarray(np.arange(q.shape[-1]) == q.argmax(-1)[:, None], dtype=np.float64)
    for table, drafts in ((SAMPLED, q), (GREEDY, hot)):
        for name, values in table.items():
            if name == "skips of the first drafts":  # it depends on where rounds begin
                continue
            losses = []
            for value in values:
                accept, residual = rule(name, value, p, drafts, logits)
                kept = drafts * accept
                after = np.clip(p - drafts, 0.0, None) if residual is None else residual
                mass = after.sum(-1, keepdims=True)
                after = np.where(mass > 0, after / np.where(mass > 0, mass, 1.0), p)
                law = kept + (1.0 - kept.sum(-1, keepdims=True)) * after
                share = [np.take_along_axis(one, np.array(text)[:, None], -1)[:, 0] for one in (law, p)]
                each = 0.5 * np.abs(law - p).sum(-1)
                losses.append([1.0 - np.minimum(1.0, share[0] / share[1]).prod(), each.sum()])
            found[name] = np.array(losses).T
    return found


def best_mix(tokens: np.ndarray, cost: np.ndarray, promise: float) -> tuple[float, int, int, float]:
    """Return the most tokens of rounds that mix two parameters with cost ≤ promise · tokens, and the mixture.

    Parameter 0 is "no drafts", which a rule may need to keep its promise.
    """
    tokens, cost = np.append(1.0, tokens), np.append(0.0, cost)
    over = cost - promise * tokens
    found = [(float(tokens[i]), i, i, 1.0) for i in range(len(tokens)) if over[i] <= 1e-12]
    for i in np.flatnonzero(over <= 1e-12):
        for j in np.flatnonzero(over > 1e-12):
            share = over[j] / (over[j] - over[i])
            found.append((float(share * tokens[i] + (1.0 - share) * tokens[j]), int(i), int(j), float(share)))
    return max(found)


def interval(values: list[float]) -> list[float]:
    """Return the 95% interval of resampled values."""
    return [float(one) for one in np.quantile(values, (0.025, 0.975))]


def summarise(rounds: list[dict[str, np.ndarray]], texts: list[dict[str, np.ndarray]], counts: np.ndarray) -> Any:
    """Return curves and the table at equal promises; ``rounds`` are sums of each prompt, ``counts`` its places."""
    rng = np.random.default_rng(1)
    sets = [
        np.ones(len(counts)),
        *(np.bincount(rng.integers(0, len(counts), len(counts)), minlength=len(counts)) for _ in range(SETS)),
    ]
    names = [*SAMPLED, BLOCK, *GREEDY]
    stacked = {name: np.stack([one[name] for one in rounds]) for name in [*names, "overlap"]}
    means = [{name: np.tensordot(w, one, 1) / (w @ counts) for name, one in stacked.items()} for w in sets]
    mean_text = {name: np.mean([one[name] for one in texts], axis=0) for name in texts[0]}
    result: dict[str, Any] = {"by_length": {}}
    for n, k in enumerate(LENGTHS):
        curves = {}
        for name in names:
            tokens, cost = means[0][name][:, :, n]
            values = EVEN if name == BLOCK else (SAMPLED | GREEDY)[name]
            curves[name] = {"parameters": list(values), "tokens": tokens.tolist(), "distance": (cost / tokens).tolist()}
            if name in mean_text:
                curves[name] |= {"text_overlap": mean_text[name][0].tolist(), "text_sum": mean_text[name][1].tolist()}
        overlap = means[0]["overlap"][:k]
        spent = np.linspace(0.0, float((1.0 - overlap).max()), 60)
        most = 1.0 + (overlap + np.minimum(spent[:, None], 1.0 - overlap)).sum(-1)
        promises = {}
        for promise in PROMISES:
            each = [{name: best_mix(*one[name][:, :, n], promise) for name in names} for one in means]
            likes = "skips at random, or a cascade with a mixture"
            promises[promise] = {
                name: {
                    "tokens": [each[0][name][0], *interval([one[name][0] for one in each[1:]])],
                    "over_random_skips": [
                        each[0][name][0] / each[0][likes][0],
                        *interval([one[name][0] / one[likes][0] for one in each[1:]]),
                    ],
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


def main(name: str, prompts: int, out: Path) -> None:
    """Measure, and store the numbers."""
    pair, given = load_pair(name), builtin_prompts(limit=prompts)
    torch.manual_seed(1)
    rounds, texts, counts = [], [], []
    records = decode(pair, given, FixedLength(4), new_tokens=NEW, batch=16)
    for ids, record in zip(encode_prompts(pair, given, NEW), records, strict=True):
        places = [one.position for one in record.rounds[::3]]
        each = [place(pair, [*ids, *record.tokens[:at]]) for at in places]
        rounds.append({key: sum(one[key] for one in each) for key in each[0]})
        texts.append(text_losses(pair, list(ids), list(record.tokens)))
        counts.append(float(len(places)))
        print(len(counts), flush=True)
    result = summarise(rounds, texts, np.array(counts))
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    about = {"pair": name, "prompts": len(given), "rounds": int(sum(counts)), "copies": COPIES, "new_tokens": NEW}
    out.write_text(json.dumps(about | result | {"commit": head.stdout.strip()}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
