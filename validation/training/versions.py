"""Tune a base model further, as flexspec's target evolves: Section III-C, Table II, and the freezing of IV-A.

Methods: ``loraR`` (rank R, in the blocks below the last), ``loraR-all`` (in the last block too), ``full``, and
``frozen`` (all but the last block, norm, embeddings and head). The first and the last keep what an aligned draft relies
on. A version's folder has an adapter of peft or a full model, and ``version.json`` with recipe, loss and times.
"""

import os
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaForCausalLM

from validation.errors import UserError
from validation.models.adapters import base_mark, is_adapter
from validation.models.aligned import fingerprint
from validation.models.sources import ModelSource, quiet
from validation.training.loop import text_loss, write_record
from validation.training.texts import _held_out, _is_held, _records, blocks, exchange, tokens

METHOD = re.compile(r"lora(?P<rank>[1-9]\d*)(?P<all>-all)?|full|frozen")
LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
ROW = 256  # tokens of a row
BATCH = 4  # rows of a step


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Recipe of a version: texts, method, and length."""

    domain: str  # a key of DOMAINS
    method: str
    seed: int = 1
    steps: int = 24
    rate: float = 1e-3

    @property
    def name(self) -> str:
        return f"{self.domain}-{self.method}-s{self.seed}"

    @property
    def rank(self) -> int:
        """Return the rank of the adapter, 0 for a full model; refuse an unknown method."""
        found = METHOD.fullmatch(self.method)
        if found is None:
            raise UserError(f"Unknown method {self.method!r}; use lora16, lora16-all, full or frozen.")
        return int(found["rank"] or 0)


def mathematics(data: Path) -> tuple[list[str], list[str]]:
    """Return GSM8K's questions with answers: the publisher's training split, and its test split."""
    records = _records(data, "gsm8k/dev.jsonl.gz")
    return tuple([exchange(r) for r in records if r["split"] == split] for split in ("train", "test"))  # type: ignore[return-value]


def code_blocks(text: str) -> list[str]:
    r"""Return the literal blocks of a text in reStructuredText that have three lines or more, without their indent."""
    found = []
    for body in re.findall(r"::[ \w]*\n\n((?:(?:[ \t]+[^\n]*)?\n)+(?:[ \t]+[^\n]*)?)", text + "\n"):
        lines = body.strip("\n").splitlines()
        indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
        if len(indents) >= 3:
            indent = min(indents)
            found.append("\n".join(line[indent:].rstrip() for line in lines))
    return found


def code(data: Path) -> tuple[list[str], list[str]]:
    """Return HumanEval's functions with solutions, and the literal blocks of PEPs, held out by a hash of the id."""
    taught: list[str] = []
    held: list[str] = []
    for record in _records(data, "humaneval/dev.jsonl.gz"):
        (held if _held_out(record["id"], 5) else taught).append(record["prompt"] + record["reference"])
    for record in _records(data, "peps/text.jsonl.gz"):
        (held if _held_out(record["id"], 20) else taught).extend(code_blocks(record["text"]))
    return taught, held


def instructions(data: Path) -> tuple[list[str], list[str]]:
    """Return Alpaca's instructions with answers; its licence forbids commercial use, also of what learns from it."""
    records = [r for r in _records(data, "alpaca/dev.jsonl.gz") if r["reference"]]
    sides: tuple[list[str], list[str]] = [], []
    for record in records:
        sides[_is_held("alpaca", record)].append(exchange(record))
    return sides


DOMAINS: dict[str, Callable[[Path], tuple[list[str], list[str]]]] = {
    "math": mathematics,
    "code": code,
    "chat": instructions,
}
"""Functions that return the training and the held-out texts of a domain."""


def prepare(base: Any, update: Update) -> Any:
    """Return the model to train: with an adapter, or with the weights of the method open; the base is changed."""
    last = base.config.num_hidden_layers - 1
    if update.rank:
        from peft import LoraConfig, get_peft_model

        layers = list(range(last + update.method.endswith("-all")))
        settings = LoraConfig(
            r=update.rank,
            lora_alpha=2 * update.rank,
            target_modules=list(LINEAR),
            layers_to_transform=layers,
            task_type="CAUSAL_LM",
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning)  # peft calls what transformers will rename
            return get_peft_model(base, settings)
    kept = (f"model.layers.{last}.", "model.norm.", "model.embed_tokens.", "lm_head.")
    for name, weights in base.named_parameters():
        weights.requires_grad_(update.method == "full" or not name.startswith(kept))
    return base


def train_version(
    update: Update, base: Path | str, data: Path, out: Path, *, stops: tuple[int, ...] = (), width: int = ROW
) -> dict[str, Any]:
    """Train one version, write it to ``out/<name>``, and return its record."""
    if update.domain not in DOMAINS:
        raise UserError(f"Unknown domain {update.domain!r}; use {', '.join(DOMAINS)}.")
    rank, began = update.rank, time.process_time()
    torch.manual_seed(update.seed)
    tokenizer = ModelSource.parse(str(base)).load_tokenizer()
    model = prepare(_base_model(base), update)
    rows = _rows(tokens(tokenizer, DOMAINS[update.domain](data)[0]), update, width)
    free = {name: weights for name, weights in model.named_parameters() if weights.requires_grad}
    optimizer = torch.optim.AdamW(list(free.values()), lr=update.rate, weight_decay=0.0, betas=(0.9, 0.95))
    losses: list[float] = []
    model.train()
    for step in range(update.steps):
        for group in optimizer.param_groups:
            group["lr"] = update.rate * min(1.0, (step + 1) / 4)  # warm-up over 4 steps
        loss = text_loss(model, torch.from_numpy(rows[step]).to(model.device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(free.values(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(round(loss.item(), 4))
        if step + 1 in stops and step + 1 < update.steps:
            _write(model, tokenizer, out / update.name / f"step-{step + 1:03}", base)
    record = asdict(update) | {
        "rank": rank,
        "own_parameters": sum(weights.numel() for weights in free.values()),
        "tokens": update.steps * BATCH * width,
        "losses": losses,
        "cpu_seconds": round(time.process_time() - began, 1),
    }
    _write(model, tokenizer, out / update.name, base)
    if Path(base).is_dir():
        record["base_weights"] = base_mark(Path(base))
    record["fingerprint"] = fingerprint(load_version(out / update.name, base), tokenizer)
    record["keeps_the_anchor"] = record["fingerprint"] == fingerprint(_base_model(base), tokenizer)
    write_record(out / update.name, record, "version.json")
    return record


def _base_model(base: Path | str) -> Any:
    with quiet():
        return ModelSource.parse(str(base)).load_model("float32")


def _rows(documents: list[np.ndarray], update: Update, width: int) -> np.ndarray:
    if sum(map(len, documents)) <= width:
        raise UserError(f"The texts of {update.domain!r} do not fill one row of {width + 1} tokens; give more text.")
    rng, found, count = np.random.default_rng(update.seed), [], 0
    while count < update.steps * BATCH:
        found.append(blocks(documents, rng, width))
        count += len(found[-1])
    return np.concatenate(found)[: update.steps * BATCH].reshape(update.steps, BATCH, width + 1)


def _write(model: Any, tokenizer: Any, folder: Path, base: Path | str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if hasattr(model, "peft_config"):
        place = os.path.relpath(Path(base).resolve(), folder.resolve()) if Path(base).is_dir() else str(base)
        model.peft_config["default"].base_model_name_or_path = place
        model.save_pretrained(folder, safe_serialization=True, save_embedding_layers=False)
        return
    copy = LlamaForCausalLM(model.config).to(torch.bfloat16)
    copy.load_state_dict(model.state_dict())
    copy.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)


def load_version(folder: Path, base: Path | str) -> Any:
    """Return a version as one transformers model in float32; an adapter is merged into the base model."""
    with quiet():
        source = ModelSource.parse(str(folder), str(base) if is_adapter(folder) else "")
        source.check_folder()
        return source.load_model("float32").eval()
