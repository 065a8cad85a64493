"""Read the training and held-out texts, tokenize them, and select the held-out prompts.

There are two libraries. ``plain`` has only openly licensed texts, and models trained on it may be redistributed.
``answers`` has the prompt sets of cu-hlm and u-hlm with their answers; Alpaca's licence forbids commercial use.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
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
    """Return whether a document is held out: one in ``share``, by a hash of its id, so the split is fixed."""
    return int(hashlib.sha256(("held-out " + identifier).encode()).hexdigest()[:8], 16) % share == 0


def _excerpts(records: list[dict[str, Any]], size: int, total: int, seed: int) -> list[str]:
    """Return disjoint excerpts of about ``size`` characters, cut at line ends, with ``total`` characters in all."""
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


def question(record: dict[str, Any]) -> str:
    return f"Question: {record['prompt']}\nAnswer:"


def exchange(record: dict[str, Any]) -> str:
    return f"{question(record)} {record['reference']}"


def plain(data: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Return training documents (three parts GSM8K, one part prose) and held-out documents by source."""
    gsm8k = _records(data, "gsm8k/dev.jsonl.gz")
    taught = [exchange(r) for r in gsm8k if r["split"] == "train"]
    tested = [exchange(r) for r in gsm8k if r["split"] == "test"]
    prose_size = sum(map(len, taught)) // 2
    documents, held = 3 * taught, {"gsm8k": tested}
    for name, share in (("peps", 20), ("novels", 8)):
        texts = _records(data, f"{name}/text.jsonl.gz")
        kept = [r for r in texts if not _held_out(r["id"], share)]
        documents += _excerpts(kept, 3000, prose_size, SEED)
        held[name] = _excerpts([r for r in texts if _held_out(r["id"], share)], 3000, 400_000, SEED + 1)
    return documents, held


def train_tokenizer(documents: list[str], out: Path, vocabulary: int) -> None:
    """Train a byte-level BPE tokenizer with one token per digit that begins each text; save it with both models."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
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
    begin = tokenizer.token_to_id(END_OF_TEXT)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{END_OF_TEXT} $A", pair=f"{END_OF_TEXT} $A $B:1", special_tokens=[(END_OF_TEXT, begin)]
    )
    marks: dict[str, Any] = dict.fromkeys(("bos_token", "eos_token", "pad_token"), END_OF_TEXT)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=CONTEXT, **marks)
    for size in SIZES:
        fast.save_pretrained(out / size)


def tokens(tokenizer: PreTrainedTokenizerBase, documents: list[str]) -> list[np.ndarray]:
    """Return the token ids of each document, preceded by the end-of-text token."""
    encoded = tokenizer(documents, verbose=False, add_special_tokens=False)["input_ids"]
    return [np.array([tokenizer.eos_token_id, *ids], dtype=np.int64) for ids in encoded]


def blocks(documents: list[np.ndarray], rng: np.random.Generator, context: int) -> np.ndarray:
    """Return one epoch of shuffled documents, packed into rows of ``context + 1`` tokens."""
    stream = np.concatenate([documents[i] for i in rng.permutation(len(documents))])
    rows = len(stream) // (context + 1)
    return stream[: rows * (context + 1)].reshape(rows, context + 1)


def plain_prompts(data: Path) -> list[dict[str, str]]:
    """Return 320 held-out prompts: 240 from GSM8K and 80 beginnings of prose."""
    gsm8k = [r for r in _records(data, "gsm8k/dev.jsonl.gz") if r["split"] == "test"]
    rng = np.random.default_rng(SEED)
    rows = [
        {"id": gsm8k[i]["id"], "prompt": question(gsm8k[i]), "source": "GSM8K", "licence": "MIT"}
        for i in sorted(rng.choice(len(gsm8k), 240, replace=False))
    ]
    _, held = plain(data)
    for name, label in (("peps", "Python Enhancement Proposals"), ("novels", "English novels, 1839 to 1911")):
        for index, text in enumerate(held[name][:40]):
            prompt = text[: text.rfind(" ", 0, 300)]
            rows.append({"id": f"{name}-{index}", "prompt": prompt, "source": label, "licence": "public domain"})
    return rows


# ---------------------------------------------------------------------------------------------- answers

ANSWERS = {
    "gsm8k": ("GSM8K", "MIT"),
    "alpaca": ("Alpaca", "CC BY-NC 4.0"),
    "qed": ("QED", "CC BY-SA 3.0"),
    "creak": ("CREAK", "MIT"),
    "strategyqa": ("StrategyQA", "MIT"),
}
PROMPTS_A_SET = 100
LONGEST_PROMPT = 1000  # characters


def _reasoned(record: dict[str, Any], reason: str | None) -> dict[str, Any]:
    answer = f"The answer is {record['reference']}."
    return record | {"reference": f"{reason} {answer}" if reason else answer}


def _is_held(name: str, record: dict[str, Any]) -> bool:
    """Return whether a record is held out: GSM8K by its own split, others by a hash of prompt, paragraph or claim."""
    if name == "gsm8k":
        return bool(record["split"] == "test")
    if name == "qed":
        return _held_out(record["title"], 5)
    return _held_out(record.get("source_id", record["prompt"]), 16)


def answered(data: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the answered records of the five prompt sets; CREAK, StrategyQA and QED include the reason."""
    found = {name: _records(data, f"{name}/dev.jsonl.gz") for name in ("gsm8k", "alpaca")}
    found["qed"] = [_reasoned(r, r.get("explanation")) for r in _records(data, "qed/dev.jsonl.gz")]
    reasoned = _records(data, "flan-cot/dev.jsonl.gz")
    for name in ("creak", "strategyqa"):
        found[name] = [_reasoned(r, r["explanation"]) for r in reasoned if r["id"].startswith(f"flan-{name}-")]
    return {name: [r for r in records if r["reference"]] for name, records in found.items()}


def answers(data: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Return the training and held-out documents of the five prompt sets."""
    documents, held = [], {}
    for name, records in answered(data).items():
        documents += [exchange(r) for r in records if not _is_held(name, r)]
        held[name] = [exchange(r) for r in records if _is_held(name, r)]
    return documents, held


def answers_prompts(data: Path) -> list[dict[str, str]]:
    """Return 100 held-out prompts of each set, with their reference answers."""
    rows = []
    for name, records in answered(data).items():
        about = dict(zip(("source", "licence"), ANSWERS[name], strict=True))
        held = [r for r in records if _is_held(name, r) and len(r["prompt"]) <= LONGEST_PROMPT]
        order = np.random.default_rng(SEED).permutation(len(held))
        rows += [
            {"id": held[i]["id"], "prompt": question(held[i]), "reference": held[i]["reference"], **about}
            for i in sorted(order[:PROMPTS_A_SET])
        ]
    return rows


# ---------------------------------------------------------------------------------------------- flexspec's sets

TASKS = {"qa": "NQ (QA)", "rag": "NQ (RAG)", "translation": "WMT14", "summarization": "CNN/DM"}
"""Names in flexspec's Tables III and IV of the categories of Spec-Bench."""


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


def task_prompts(data: Path) -> list[dict[str, str]]:
    """Return up to 100 prompts of each of flexspec's six sets; none is in the training data of ``answers``."""
    known = {_letters(r["question"]) for r in _records(data, "qed/dev.jsonl.gz")}
    rows = [row for row in answers_prompts(data) if row["source"] == "GSM8K"]
    bench = [(TASKS[r["category"]], r) for r in _records(data, "spec-bench/dev.jsonl.gz")]
    for source, record in bench + [("MT-Bench", r) for r in _records(data, "mt-bench/dev.jsonl.gz")]:
        text = record["prompt"]
        if _letters(text.splitlines()[-1]) in known:
            continue
        cut = text[-LONGEST_PROMPT:] if source == "NQ (RAG)" else text[:LONGEST_PROMPT]
        row = {"id": record["id"], "prompt": question({"prompt": cut}), "source": source, "licence": "measuring only"}
        rows.append(row | ({"reference": record["reference"]} if record["reference"] else {}))
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Training texts of a pair; the licence goes into the training records."""

    name: str
    corpus: Callable[[Path], tuple[list[str], dict[str, list[str]]]]
    prompts: Callable[[Path], list[dict[str, str]]]
    licence: str


RESEARCH = "research only, not commercial: Alpaca (CC BY-NC 4.0) is among the texts"
LIBRARIES = {
    "plain": Library(name="plain", corpus=plain, prompts=plain_prompts, licence="Apache-2.0"),
    "answers": Library(name="answers", corpus=answers, prompts=answers_prompts, licence=RESEARCH),
}


def write_prompts(rows: list[dict[str, str]], file: Path) -> None:
    with file.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
