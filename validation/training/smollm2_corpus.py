"""Write the corpus on which drafts for SmolLM2-135M-Instruct are distilled: the target model's own texts.

    python -m validation.training.smollm2_corpus --data DATA --out CORPUS --tokens 500000
    python -m validation.training.smollm2_corpus --data DATA --out CORPUS --held-out

Every token is drawn at temperature 1, by the target model in bfloat16; ``--dtype float32`` is more exact and half as
fast. The held-out shard is always in float32. A row of 256 tokens starts in one of three ways:

``self``   the chat template up to the user's turn: the target model writes the question too
``chat``   the chat template around a question of GSM8K, CREAK or StrategyQA (MIT), or around a passage of a Python
           Enhancement Proposal or an English novel (public domain or CC0-1.0)
``plain``  no template: the question as the built-in pair reads it, or the beginning of a passage

When a turn ends, the row goes on with the other role's turn, so that no row needs padding. The rows of a shard advance
together by one token, and a prompt's token is read where a token would be drawn. The texts are read from a folder that
the user names and are not in this repository. A shard is one file, written under a temporary name, and its draws depend
on the seed and its number alone: a stopped run goes on with the next missing shard, by the same command.

A shard holds, for 128 rows: ``tokens`` (128, 256) uint16; ``top_ids`` (128, 256, 32) uint16 and ``top_probabilities``
(128, 256, 32) float16, the target model's likeliest tokens behind each position at temperature 1; ``prompt_tokens``
(128,) uint16 and ``row_kinds`` (128,) uint8. The first ``--states`` shards also hold ``states`` (128, 256, 4, 576)
float16: the outputs of the target model's first 6, 10 and 14 layers, and its last hidden state in front of the head.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.models import smollm2
from validation.models.sources import ModelSource
from validation.training.recipes import SEED
from validation.training.texts import _excerpts, _held_out, _records, question

if TYPE_CHECKING:
    import torch

ROWS, LENGTH, TOP = 128, 256, 32
LAYERS = (6, 10, 14)  # whose outputs are stored
KINDS = ("self", "chat", "plain")
SHARES = (0.5, 0.35, 0.15)
LONGEST_PROMPT = 100  # tokens
HELD_OUT = 10_000  # number of the held-out shard
HEADS = ("Continue this text:\n\n", "Summarize this text:\n\n", "Explain this text:\n\n")


@dataclass(frozen=True, slots=True)
class Prompts:
    """Questions to put into the chat template, and texts to start plainly."""

    chat: list[str]
    plain: list[str]


def prompts(data: Path, *, held_out: bool) -> Prompts:
    """Return the prompts for training or the held-out ones; the split is that of the built-in pair.

    Parameters
    ----------
    data : Path
        Folder with gsm8k/, creak/, strategyqa/, peps/ and novels/.
    held_out : bool
        GSM8K by the publisher's test split, others by a hash of their id.
    """
    gsm8k = [r for r in _records(data, "gsm8k/dev.jsonl.gz") if (r["split"] == "test") == held_out]
    asked = [r for r in _records(data, "strategyqa/dev.jsonl.gz") if _held_out(r["id"], 16) == held_out]
    claims = [r for r in _records(data, "creak/dev.jsonl.gz") if _held_out(r["prompt"], 16) == held_out]
    prose: list[str] = []
    for name, share in (("peps", 20), ("novels", 8)):
        kept = [r for r in _records(data, f"{name}/text.jsonl.gz") if _held_out(r["id"], share) == held_out]
        prose += _excerpts(kept, 240, 400_000, SEED)
    every = 3  # CREAK has the most records and the shortest
    chat = [r["prompt"] for r in gsm8k] + [r["prompt"] for r in asked]
    chat += [f"Is this true? {r['prompt']}" for r in claims[::every]]
    chat += [HEADS[i % len(HEADS)] + text for i, text in enumerate(prose)]
    return Prompts(chat=chat, plain=[question(r) for r in gsm8k] + prose)


def starts(tokenizer: Any, found: Prompts, rng: np.random.Generator, rows: int = ROWS) -> tuple[list[list[int]], Any]:
    """Draw how each row starts.

    Returns
    -------
    list of list of int
        The first tokens of each row, at most ``LONGEST_PROMPT`` of a prompt's.
    array of int, shape (rows,)
        Index of each row's kind in ``KINDS``.
    """
    mark = "\x00"
    empty = tokenizer.apply_chat_template(
        [{"role": "user", "content": mark}], tokenize=False, add_generation_prompt=True
    )
    before, behind = (tokenizer(part, add_special_tokens=False).input_ids for part in empty.split(mark))
    kinds = rng.choice(len(KINDS), size=rows, p=SHARES)
    firsts = []
    for kind in kinds:
        if KINDS[kind] == "self":
            firsts.append(list(before))
            continue
        texts = found.chat if KINDS[kind] == "chat" else found.plain
        text = texts[int(rng.integers(len(texts)))]
        ids = tokenizer(text, add_special_tokens=False).input_ids[:LONGEST_PROMPT]
        firsts.append([*before, *ids, *behind] if KINDS[kind] == "chat" else ids[: LONGEST_PROMPT // 4])
    return firsts, kinds


def _buffered(model: Any, length: int) -> Any:
    """Return a key-value cache that is allocated once; transformers' own copies the past at every token."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    class Buffered(DynamicLayer):  # type: ignore[misc]
        def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
            super().lazy_initialization(key_states, value_states)
            rows, heads, _, size = key_states.shape
            self.buffers = [key_states.new_empty(rows, heads, length, size) for _ in range(2)]
            self.filled = 0

        def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> Any:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            start, self.filled = self.filled, self.filled + key_states.shape[-2]
            for buffer, new in zip(self.buffers, (key_states, value_states), strict=True):
                buffer[:, :, start : self.filled] = new
            self.keys, self.values = (buffer[:, :, : self.filled] for buffer in self.buffers)
            return self.keys, self.values

    cache = DynamicCache()
    cache.layers = [Buffered() for _ in range(model.config.num_hidden_layers)]
    cache.layer_class_to_replicate = None
    return cache


class Turns:
    """Choose each row's next token: a token of its prompt, of the text between two turns, or the drawn one."""

    def __init__(self, tokenizer: Any, firsts: list[list[int]], kinds: Any) -> None:
        self.queues = [list(first) for first in firsts]
        self.roles = ["user" if KINDS[kind] == "self" else "assistant" for kind in kinds]
        self.ends = {tokenizer.convert_tokens_to_ids(name) for name in ("<|im_end|>", "<|endoftext|>")}
        self.between = {
            role: tokenizer(f"\n<|im_start|>{role}\n", add_special_tokens=False).input_ids
            for role in ("user", "assistant")
        }

    def choose(self, drawn: list[int]) -> list[int]:
        """Return the next token of each row, given the drawn ones."""
        chosen = []
        for row, token in enumerate(drawn):
            if self.queues[row]:
                chosen.append(self.queues[row].pop(0))
                continue
            chosen.append(token)
            if token in self.ends:
                self.roles[row] = "assistant" if self.roles[row] == "user" else "user"
                self.queues[row] = list(self.between[self.roles[row]])
        return chosen


def write_texts(
    model: Any,
    turns: Turns,
    rng: torch.Generator,
    *,
    rows: int = ROWS,
    length: int = LENGTH,
    top: int = TOP,
    layers: tuple[int, ...] = (),
) -> dict[str, np.ndarray]:
    """Draw ``length`` tokens for each row at temperature 1, with the target model's distribution behind each.

    Parameters
    ----------
    model : transformers model
        Llama-style.
    turns : Turns
        Every row has a first token.
    rng : torch.Generator
    rows, length, top : int
    layers : tuple of int
        Whose outputs are stored; if any, then the last hidden state too.

    Returns
    -------
    dict of array
        The arrays of a shard, as in the module's docstring.
    """
    import torch

    cache = _buffered(model, length)
    found: dict[str, np.ndarray] = {
        "tokens": np.empty((rows, length), np.uint16),
        "top_ids": np.empty((rows, length, top), np.uint16),
        "top_probabilities": np.empty((rows, length, top), np.float16),
    }
    if layers:
        found["states"] = np.empty((rows, length, len(layers) + 1, model.config.hidden_size), np.float16)
    drawn = [0] * rows
    for place in range(length):
        chosen = turns.choose(drawn)
        with torch.inference_mode():
            made = model.model(
                torch.tensor(chosen)[:, None], past_key_values=cache, use_cache=True, output_hidden_states=bool(layers)
            )
            law = model.lm_head(made.last_hidden_state[:, 0]).float().softmax(dim=-1)
            best = law.topk(top, dim=-1)
            sums = law.cumsum(dim=-1)
            levels = torch.rand(rows, 1, generator=rng) * sums[:, -1:]
            drawn = torch.searchsorted(sums, levels).clamp_max_(law.shape[-1] - 1)[:, 0].tolist()
        found["tokens"][:, place] = chosen
        found["top_ids"][:, place] = best.indices.numpy()
        found["top_probabilities"][:, place] = best.values.numpy()
        for i, layer in enumerate(layers):
            found["states"][:, place, i] = made.hidden_states[layer][:, 0].float().numpy()
        if layers:
            found["states"][:, place, -1] = made.last_hidden_state[:, 0].float().numpy()
    return found


def shard_file(folder: Path, number: int) -> Path:
    """Return the file of a shard."""
    return folder / f"shard-{number:05d}.npz"


def write_shard(file: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write a shard under a temporary name, then rename it."""
    temporary = file.with_suffix(".tmp")
    with temporary.open("wb") as out:
        np.savez(out, **arrays)  # type: ignore[arg-type]
    os.replace(temporary, file)


def write_corpus(
    folder: Path, data: Path, tokens: int, *, states: int, held_out: bool, seconds: float, dtype: str
) -> None:
    """Write the missing shards of the corpus, or the held-out one.

    Parameters
    ----------
    folder, data : Path
        Where the shards lie, and the texts.
    tokens : int
        Wanted in all, rounded up to whole shards.
    states : int
        Number of first shards with hidden states.
    held_out : bool
        Write the one held-out shard alone: other prompts and another seed.
    seconds : float
        No shard is begun later than this.
    dtype : str
        Of the target model, if ``held_out`` is false.
    """
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    numbers = [HELD_OUT] if held_out else range(-(-tokens // (ROWS * LENGTH)))
    missing = [number for number in numbers if not shard_file(folder, number).exists()]
    if not missing:
        print("nothing is missing")
        return
    source = ModelSource.parse(smollm2.NAME)
    model = source.load_model("float32").eval()
    model = model if held_out else model.to(getattr(torch, dtype))  # a GGUF file loaded in bfloat16 stays packed
    tokenizer = source.load_tokenizer()
    found = prompts(data, held_out=held_out)
    began = time.monotonic()
    for number in missing:
        if (start := time.monotonic()) - began > seconds:
            return
        rng = np.random.default_rng([SEED, number])
        firsts, kinds = starts(tokenizer, found, rng)
        draws = torch.Generator().manual_seed(SEED + number)
        layers = LAYERS if number < states or held_out else ()
        arrays = write_texts(model, Turns(tokenizer, firsts, kinds), draws, layers=layers)
        arrays |= {"prompt_tokens": np.array([len(f) for f in firsts], np.uint16), "row_kinds": kinds.astype(np.uint8)}
        write_shard(shard_file(folder, number), arrays)
        print(f"shard {number}: {ROWS * LENGTH / (time.monotonic() - start):.0f} tokens/s", flush=True)


def main() -> None:
    """Parse the command line and write."""
    parser = argparse.ArgumentParser(description="Write the target model's own texts, for distilling drafts.")
    parser.add_argument("--data", type=Path, required=True, help="folder with gsm8k/, creak/, strategyqa/ and so on")
    parser.add_argument("--out", type=Path, required=True, help="folder of the shards")
    parser.add_argument("--tokens", type=int, default=500_000)
    parser.add_argument("--states", type=int, default=8, help="number of shards with hidden states")
    parser.add_argument("--held-out", action="store_true", help="write the held-out shard alone")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no shard later than this")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16", help="of the target model")
    given = parser.parse_args()
    write_corpus(
        given.out,
        given.data,
        given.tokens,
        states=given.states,
        held_out=given.held_out,
        seconds=given.seconds,
        dtype=given.dtype,
    )


if __name__ == "__main__":
    main()
