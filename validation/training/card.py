"""A pair's model card, from the records that training left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from validation.training.recipes import CONTEXT, PAIRS, SEED, SIZES

CARD = """\
# The {pair} pair

A small and a large Llama-style language model over one vocabulary{purpose}. They are
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
  {warm_up:.0%} of the steps and a linear decay over the last 45%. `validation/train.py` is the recipe:
  {steps}
{notes}- **Licence.** Apache-2.0, like the rest of this repository.
- **Limits.** The models write school mathematics that looks right and mostly is not. Do not rely on what they say.
"""


STEPS = "`python -m validation.train --data DATA tokenizer`, then `small`, `large`, `prompts` and `card`."
BORROWED_STEPS = "`python -m validation.train --pair {pair} --data DATA --out OUT parent`, then `small` and `card`."
BORROWED = """\
- **Parent.** Tokenizer and large model are those of another pair, the built-in one unless `--parent` named another.
"""
DISTILLED = """\
- **Distillation.** The small model is the parent's, trained on at lower rates: {mixing:g} KL(p ‖ q) of the two models'
  rows at temperature {temperature:g}, {rest:g} the loss of the text, on the same texts in the same order. Steps,
  tokens and epochs in the table are those of the distillation alone.
"""
PROMPTS = "- **Prompts.** `prompts.jsonl` holds {count} held-out prompts, each with its source and licence.\n"
LOSS, RATE = "held_out_nats_per_token", "held_out_acceptance"


def _overall(card: dict[str, Any], measure: str) -> float:
    """A held-out measure over all tokens of all sources."""
    values, counts = card[measure], card["held_out_tokens"]
    return float(sum(values[name] * counts[name] for name in values) / sum(counts.values()))


def _table(cards: list[dict[str, Any]]) -> str:
    """The rows of the card; what a record lacks is a dash, and a row that all lack is left out."""
    rows = [
        ("parameters", [f"{card['parameters']:,}" for card in cards]),
        ("vocabulary", [f"{card['vocabulary']:,}" for card in cards]),
        ("steps", [f"{card['steps']:,}" for card in cards]),
        ("tokens seen", [f"{card['tokens']:,}" for card in cards]),
        ("epochs", [f"{card['epochs']:g}" for card in cards]),
        ("training, seconds of CPU", [f"{card['cpu_seconds']:,}" if "cpu_seconds" in card else "–" for card in cards]),
    ]
    rows += _measured("held-out loss, nats per token", LOSS, cards)
    rows += _measured("the same before distillation", f"{LOSS}_before", cards)
    rows += _measured("held-out 1 − TV to the large model", RATE, cards)
    rows += _measured("the same before distillation", f"{RATE}_before", cards)
    return "\n".join(f"| {name} | {' | '.join(cells)} |" for name, cells in rows if set(cells) != {"–"})


def _measured(label: str, measure: str, cards: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """A row for each source, and one for all; the sources are weighted by the tokens of their held-out losses."""
    rows = [
        (f"{label}, {name}", [f"{card[measure][name]:.3f}" if measure in card else "–" for card in cards])
        for name in cards[0][LOSS]
    ]
    return [*rows, (f"{label}, all", [f"{_overall(card, measure):.3f}" if measure in card else "–" for card in cards])]


def write_card(pair: str, out: Path) -> None:
    """The model card, from the records that training left.

    Parameters
    ----------
    pair : str
        A key of ``PAIRS``.
    out : Path
        The pair's folder; its ``README.md`` is written.
    """
    cards = [json.loads((out / size / "training.json").read_text()) for size in SIZES]
    steps, notes = STEPS, ""
    if PAIRS[pair].large is None:
        steps, notes = BORROWED_STEPS.format(pair=pair), BORROWED
    small = cards[0]
    if "mixing" in small:
        mixing = small["mixing"]
        notes += DISTILLED.format(mixing=mixing, temperature=small["temperature"], rest=1.0 - mixing)
    if (out / "prompts.jsonl").exists():
        notes += PROMPTS.format(count=len((out / "prompts.jsonl").read_text(encoding="utf-8").splitlines()))
    name, purpose = ("built-in", ", so that everything here runs offline") if pair == "builtin" else (pair, "")
    fixed = {"context": CONTEXT, "seed": SEED, "warm_up": PAIRS[pair].small.warm_up}
    text = CARD.format(pair=name, purpose=purpose, rows=_table(cards), steps=steps, notes=notes, **fixed)
    (out / "README.md").write_text(text, encoding="utf-8")
