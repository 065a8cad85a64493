"""How the built-in pair was made: a byte-level BPE tokenizer and two Llama-style models.

The texts are openly licensed (GSM8K, MIT; Python Enhancement Proposals and English novels, public
domain) and are read from a folder the user names; none of them is part of this repository, but for
the few hundred held-out prompts that ``--prompts`` writes.

    python -m validation.train --data DATA --out validation/pairs/builtin tokenizer
    python -m validation.train --data DATA --out validation/pairs/builtin small
    python -m validation.train --data DATA --out validation/pairs/builtin large
    python -m validation.train --data DATA --out validation/pairs/builtin prompts
    python -m validation.train --out validation/pairs/builtin card

A run that was stopped resumes from its last checkpoint (``WORK/<size>.pt``).
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

END_OF_TEXT = "<|endoftext|>"
CONTEXT = 1024
SEED = 20261120


@dataclass(frozen=True, slots=True)
class Recipe:
    """The shape of one model and how long it is trained."""

    hidden: int
    feed_forward: int
    layers: int
    heads: int
    matrix_rate: float  # Muon, hidden matrices
    other_rate: float  # AdamW, embeddings and norms
    epochs: float = 2.0
    batch: int = 4  # sequences of CONTEXT tokens


@dataclass(frozen=True, slots=True)
class PairRecipe:
    """A vocabulary and the two models over it."""

    vocabulary: int
    small: Recipe
    large: Recipe


PAIRS = {
    # ships with this repository
    "builtin": PairRecipe(
        vocabulary=4096,
        small=Recipe(hidden=128, feed_forward=384, layers=5, heads=4, matrix_rate=0.02, other_rate=4e-3, epochs=1.0),
        large=Recipe(hidden=320, feed_forward=864, layers=7, heads=5, matrix_rate=0.02, other_rate=2e-3),
    ),
    # the papers' vocabulary size, for measuring only
    "wide": PairRecipe(
        vocabulary=32_000,
        small=Recipe(hidden=64, feed_forward=192, layers=6, heads=4, matrix_rate=0.02, other_rate=6e-3, epochs=0.5),
        large=Recipe(hidden=192, feed_forward=512, layers=4, heads=6, matrix_rate=0.02, other_rate=3e-3, epochs=0.5),
    ),
}
SIZES = ("small", "large")


# ---------------------------------------------------------------------------------------------- text


def _records(data: Path, name: str) -> list[dict[str, Any]]:
    with gzip.open(data / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _held_out(identifier: str, share: int) -> bool:
    """One document in ``share``, by a hash of its id, so that the split never moves."""
    return int(hashlib.sha256(("held-out " + identifier).encode()).hexdigest()[:8], 16) % share == 0


def _excerpts(records: list[dict[str, Any]], size: int, total: int, seed: int) -> list[str]:
    """Disjoint excerpts of about ``size`` characters, cut at line ends, ``total`` characters in all."""
    cuts = []
    for record in records:
        text, start = record["text"], 0
        while len(text) - start > size // 2:
            end = text.find("\n", start + size)
            end = len(text) if end < 0 else end
            cuts.append(text[start:end])
            start = end + 1
    chosen, count = [], 0
    for index in np.random.default_rng(seed).permutation(len(cuts)):
        if count >= total:
            break
        chosen.append(cuts[index])
        count += len(cuts[index])
    return chosen


def mathematics(record: dict[str, Any], answer: bool = True) -> str:
    """A GSM8K record in the form the pair is trained on."""
    return f"Question: {record['prompt']}\nAnswer:" + (f" {record['reference']}" if answer else "")


def corpus(data: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Training documents (three parts GSM8K, one part prose) and held-out documents by source."""
    gsm8k = _records(data, "gsm8k/dev.jsonl.gz")
    taught = [mathematics(r) for r in gsm8k if r["split"] == "train"]
    tested = [mathematics(r) for r in gsm8k if r["split"] == "test"]
    prose_size = sum(map(len, taught)) // 2
    documents, held = 3 * taught, {"gsm8k": tested}
    for name, share in (("peps", 20), ("novels", 8)):
        texts = _records(data, f"{name}/text.jsonl.gz")
        kept = [r for r in texts if not _held_out(r["id"], share)]
        documents += _excerpts(kept, 3000, prose_size, SEED)
        held[name] = _excerpts([r for r in texts if _held_out(r["id"], share)], 3000, 400_000, SEED + 1)
    return documents, held


def train_tokenizer(documents: list[str], out: Path, vocabulary: int) -> None:
    """Byte-level BPE with one token per digit; written beside both models."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END_OF_TEXT,
        eos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        model_max_length=CONTEXT,
    )
    for size in SIZES:
        fast.save_pretrained(out / size)


def _tokens(tokenizer: PreTrainedTokenizerBase, documents: list[str]) -> list[np.ndarray]:
    end = [tokenizer.eos_token_id]
    encoded = tokenizer(documents, verbose=False)["input_ids"]
    return [np.array(end + ids, dtype=np.int64) for ids in encoded]


def _blocks(documents: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """One epoch: shuffled documents, packed into rows of CONTEXT + 1 tokens."""
    stream = np.concatenate([documents[i] for i in rng.permutation(len(documents))])
    rows = len(stream) // (CONTEXT + 1)
    return stream[: rows * (CONTEXT + 1)].reshape(rows, CONTEXT + 1)


# ---------------------------------------------------------------------------------------------- training


def build_model(recipe: Recipe, vocabulary: int) -> Any:
    """A Llama-style model with tied embeddings and the recipe's shape."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=recipe.hidden,
            intermediate_size=recipe.feed_forward,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            num_key_value_heads=recipe.heads,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            bos_token_id=0,
            eos_token_id=0,
            pad_token_id=0,
            attention_dropout=0.0,
        )
    )


def _optimizers(model: Any, recipe: Recipe) -> list[torch.optim.Optimizer]:
    import torch

    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n and "lm_head" not in n]
    ids = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in ids]
    return [
        torch.optim.Muon(matrices, lr=recipe.matrix_rate, weight_decay=0.02, momentum=0.95),
        torch.optim.AdamW(others, lr=recipe.other_rate, weight_decay=0.01, betas=(0.9, 0.95)),
    ]


def _schedule(step: int, steps: int) -> float:
    """Linear warm-up over 2%, then flat, then linear decay to zero over the last 45%."""
    warm, cool = max(1, steps // 50), int(steps * 0.45)
    return min(1.0, (step + 1) / warm, max(0.0, (steps - step) / cool))


def held_out_loss(model: Any, documents: list[np.ndarray], limit: int = 200) -> tuple[float, int]:
    """Mean negative log-likelihood in nats per token, each document from its own start."""
    import torch

    total, count = 0.0, 0
    model.eval()
    for document in documents[:limit]:
        ids = torch.from_numpy(document[:CONTEXT])[None]
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            logits = model(ids).logits.float()
        total += torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:], reduction="sum").item()
        count += ids.shape[1] - 1
    model.train()
    return total / count, count


def train(size: str, recipe: Recipe, data: Path, out: Path, work: Path) -> None:
    """Train one model of the pair; writes ``out/<size>/model.safetensors`` in bf16 and its record."""
    import torch
    from transformers import AutoTokenizer

    torch.manual_seed(SEED)
    tokenizer = AutoTokenizer.from_pretrained(out / size)
    documents, held = corpus(data)
    taught = _tokens(tokenizer, documents)
    tested = {name: _tokens(tokenizer, texts) for name, texts in held.items()}
    epoch_tokens = sum(map(len, taught))
    steps = math.ceil(recipe.epochs * epoch_tokens / (recipe.batch * (CONTEXT + 1)))
    model = build_model(recipe, len(tokenizer))
    optimizers = _optimizers(model, recipe)
    rates = [group["lr"] for o in optimizers for group in o.param_groups]
    start, checkpoint = 0, work / f"{size}.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        start = state["step"]
    print(f"{size}: {model.num_parameters():,} parameters, {epoch_tokens:,} tokens an epoch, steps {start} to {steps}")

    began, running = time.perf_counter(), 0.0
    rows_per_epoch = epoch_tokens // (CONTEXT + 1)
    epoch, rows = -1, np.empty((0, CONTEXT + 1), dtype=np.int64)
    for step in range(start, steps):
        first = step * recipe.batch
        if first // rows_per_epoch != epoch:
            epoch = first // rows_per_epoch
            rows = _blocks(taught, np.random.default_rng([SEED, epoch]))
        local = (first % rows_per_epoch + np.arange(recipe.batch)) % rows_per_epoch
        batch = torch.from_numpy(rows[local])
        groups = [group for o in optimizers for group in o.param_groups]
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate * _schedule(step, steps)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        running = loss.item() if step == start else 0.98 * running + 0.02 * loss.item()
        if (step + 1) % 50 == 0:
            speed = (step + 1 - start) * recipe.batch * CONTEXT / (time.perf_counter() - began)
            print(f"{size} {step + 1}/{steps} loss {running:.3f} {speed:,.0f} tokens/s", flush=True)
        if (step + 1) % 200 == 0 or step + 1 == steps:
            work.mkdir(parents=True, exist_ok=True)
            state = {"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers], "step": step + 1}
            torch.save(state, checkpoint.with_suffix(".tmp"))
            os.replace(checkpoint.with_suffix(".tmp"), checkpoint)
            loss_now = {name: round(held_out_loss(model, d, 40)[0], 3) for name, d in tested.items()}
            print(f"{size} {step + 1} held out {loss_now}", flush=True)

    model = model.to(torch.bfloat16)
    model.config.dtype = torch.bfloat16
    model.save_pretrained(out / size, safe_serialization=True)
    losses = {name: held_out_loss(model, d) for name, d in tested.items()}
    record = {
        "parameters": model.num_parameters(),
        "vocabulary": len(tokenizer),
        "context": CONTEXT,
        "seed": SEED,
        "steps": steps,
        "tokens": steps * recipe.batch * CONTEXT,
        "epochs": recipe.epochs,
        "held_out_nats_per_token": {name: round(loss, 4) for name, (loss, _) in losses.items()},
        "held_out_tokens": {name: count for name, (_, count) in losses.items()},
    }
    (out / size / "training.json").write_text(json.dumps(record, indent=1) + "\n")


def write_prompts(data: Path, out: Path) -> None:
    """A few hundred held-out prompts, each with its source and licence."""
    gsm8k = [r for r in _records(data, "gsm8k/dev.jsonl.gz") if r["split"] == "test"]
    rng = np.random.default_rng(SEED)
    rows = [
        {"id": gsm8k[i]["id"], "prompt": mathematics(gsm8k[i], answer=False), "source": "GSM8K", "licence": "MIT"}
        for i in sorted(rng.choice(len(gsm8k), 240, replace=False))
    ]
    _, held = corpus(data)
    for name, label in (("peps", "Python Enhancement Proposals"), ("novels", "English novels, 1839 to 1911")):
        for index, text in enumerate(held[name][:40]):
            prompt = text[: text.rfind(" ", 0, 300)]
            rows.append({"id": f"{name}-{index}", "prompt": prompt, "source": label, "licence": "public domain"})
    with (out / "prompts.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


CARD = """\
# The built-in pair

A small and a large Llama-style language model over one vocabulary, so that everything here runs offline. They are
made for checking theory on real, if modest, models: not for answering questions.

Both read byte-level BPE tokens (one token a digit, `<|endoftext|>` first in every text), have tied embeddings and a
context of {context:,} tokens, and are stored as bf16 safetensors.

| | small | large |
|---|---|---|
{rows}

- **Texts.** Three parts GSM8K (MIT, the publisher's training split, as `Question: ... Answer: ...`), one part prose:
  Python Enhancement Proposals (public domain or CC0-1.0) and English novels of 1839 to 1911 (public domain), in
  excerpts of about 3,000 characters. Held out: GSM8K's test split, and PEPs and novels chosen by a hash of their id.
- **Training.** Muon for the hidden matrices, AdamW for the rest, bf16 autocast on a CPU, seed {seed}; a warm-up over
  2% of the steps and a linear decay over the last 45%. `validation/train.py` is the recipe:
  `python -m validation.train --data DATA tokenizer`, then `small`, `large`, `prompts` and `card`.
- **Prompts.** `prompts.jsonl` holds {prompts} held-out prompts, each with its source and licence.
- **Licence.** Apache-2.0, like the rest of this repository.
- **Limits.** The models write school mathematics that looks right and mostly is not. Do not rely on what they say.
"""


def _overall(card: dict[str, Any]) -> float:
    """The held-out loss over all tokens of all sources."""
    losses, counts = card["held_out_nats_per_token"], card["held_out_tokens"]
    return sum(losses[name] * counts[name] for name in losses) / sum(counts.values())


def write_card(out: Path) -> None:
    """The model card, from the records that training left."""
    cards = [json.loads((out / size / "training.json").read_text()) for size in SIZES]
    rows = [
        ("parameters", [f"{card['parameters']:,}" for card in cards]),
        ("vocabulary", [f"{card['vocabulary']:,}" for card in cards]),
        ("steps", [f"{card['steps']:,}" for card in cards]),
        ("tokens seen", [f"{card['tokens']:,}" for card in cards]),
        ("epochs", [f"{card['epochs']:g}" for card in cards]),
    ]
    for name in cards[0]["held_out_nats_per_token"]:
        losses = [f"{card['held_out_nats_per_token'][name]:.3f}" for card in cards]
        rows.append((f"held-out loss, nats per token, {name}", losses))
    rows.append(("held-out loss, nats per token, all", [f"{_overall(card):.3f}" for card in cards]))
    table = "\n".join(f"| {name} | {small} | {large} |" for name, (small, large) in rows)
    prompts = len((out / "prompts.jsonl").read_text(encoding="utf-8").splitlines())
    text = CARD.format(context=CONTEXT, seed=SEED, rows=table, prompts=prompts)
    (out / "README.md").write_text(text, encoding="utf-8")


def main() -> None:
    """Parse the command line and run one step of the recipe."""
    parser = argparse.ArgumentParser(description="Make the built-in pair.")
    parser.add_argument("what", choices=["tokenizer", "small", "large", "prompts", "card"])
    parser.add_argument("--pair", choices=list(PAIRS), default="builtin", help="which recipe")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with gsm8k/, peps/ and novels/")
    parser.add_argument("--out", type=Path, default=Path("validation/pairs/builtin"))
    parser.add_argument("--work", type=Path, default=Path(".training"), help="checkpoints")
    options = parser.parse_args()
    recipe = PAIRS[options.pair]
    if options.what == "tokenizer":
        train_tokenizer(corpus(options.data)[0], options.out, recipe.vocabulary)
    elif options.what == "prompts":
        write_prompts(options.data, options.out)
    elif options.what == "card":
        write_card(options.out)
    else:
        train(options.what, getattr(recipe, options.what), options.data, options.out, options.work)


if __name__ == "__main__":
    main()
