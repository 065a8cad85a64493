"""The texts that models are trained on and tested on, their tokens, and the held-out prompts."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.training.recipes import CONTEXT, END_OF_TEXT, SEED, SIZES

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


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
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=END_OF_TEXT,
        eos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        model_max_length=CONTEXT,
    )
    for size in SIZES:
        fast.save_pretrained(out / size)


def tokens(tokenizer: PreTrainedTokenizerBase, documents: list[str]) -> list[np.ndarray]:
    """The ids of each document, the end-of-text token first."""
    end = [tokenizer.eos_token_id]
    encoded = tokenizer(documents, verbose=False)["input_ids"]
    return [np.array(end + ids, dtype=np.int64) for ids in encoded]


def blocks(documents: list[np.ndarray], rng: np.random.Generator, context: int) -> np.ndarray:
    """One epoch: shuffled documents, packed into rows of ``context + 1`` tokens."""
    stream = np.concatenate([documents[i] for i in rng.permutation(len(documents))])
    rows = len(stream) // (context + 1)
    return stream[: rows * (context + 1)].reshape(rows, context + 1)


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
