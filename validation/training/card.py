"""Write a pair's model card from its training records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from validation.training.recipes import CONTEXT, PAIRS, SEED, SIZES
from validation.training.texts import LIBRARIES

CARD = """\
# The {pair} pair

A small and a large Llama-style language model over one vocabulary{purpose}. They are
made for checking theory on real, if modest, models: not for answering questions.

Both read byte-level BPE tokens (one token a digit, `<|endoftext|>` first in every text), have tied embeddings and a
context of {context:,} tokens, and are stored as bf16 safetensors.

| | small | large |
|---|---|---|
{rows}

- **Texts.** {texts}
- **Training.** Muon for the hidden matrices, AdamW for the rest, bf16 autocast on a CPU, seed {seed}; a warm-up over
  {warm_up:.0%} of the steps and a linear decay over the last 45%. `validation/training` is the recipe:
  {steps}
{notes}- **Licence.** {licence}
- **Limits.** {limits} Do not rely on what they say.
"""


BORROWED = """\
- **Parent.** Tokenizer and target model are those of another pair, the built-in one unless `--parent` named another.
"""
CONTINUED = """\
- **Parent.** Tokenizer and both models are those of another pair, the built-in one unless `--parent` named another,
  trained on. Steps, tokens and epochs in the table are those since then.
"""
DISTILLED = """\
- **Distillation.** The draft model is the parent's, trained on at lower rates: {mixing:g} KL(p ‖ q) of the two models'
  rows at temperature {temperature:g}, {rest:g} the loss of the text, on the same texts in the same order. Steps,
  tokens and epochs in the table are those of the distillation alone.
"""
ALIGNED = """\
- **Aligned draft.** `aligned` is flexspec's draft around the frozen last block of the large model, with {own:,} weights
  of its own. It was trained once, in {courses} of {steps} steps with {tokens:,} tokens each, on the same texts, by
  `python -m validation.training --data DATA aligned`, the second time with `--start`. Held-out 1 - TV to the large
  model: {rates}.
"""
PROMPTS = "- **Prompts.** `prompts.jsonl` holds {count} held-out prompts, each with its source and licence.\n"
LOSS, RATE = "held_out_nats_per_token", "held_out_acceptance"


def _overall(card: dict[str, Any], measure: str) -> float:
    """Return a held-out metric averaged over all tokens of all sources."""
    values, counts = card[measure], card["held_out_tokens"]
    return float(sum(values[name] * counts[name] for name in values) / sum(counts.values()))


def _table(cards: list[dict[str, Any]]) -> str:
    """Return the table of the card; missing values are dashes, and rows without any value are omitted."""
    rows = [
        ("parameters", [f"{card['parameters']:,}" for card in cards]),
        ("vocabulary", [f"{card['vocabulary']:,}" for card in cards]),
        ("steps", [f"{card['steps']:,}" for card in cards]),
        ("tokens seen", [f"{card['tokens']:,}" for card in cards]),
        ("epochs", [f"{card['epochs']:g}" for card in cards]),
        ("training, seconds of CPU", [f"{card['cpu_seconds']:,}" if "cpu_seconds" in card else "–" for card in cards]),
    ]
    rows += _measured("held-out loss, nats per token", LOSS, cards)
    rows += _measured("the same in the parent", f"{LOSS}_before", cards)
    rows += _measured("held-out 1 − TV to the target model", RATE, cards)
    rows += _measured("the same in the parent", f"{RATE}_before", cards)
    return "\n".join(f"| {name} | {' | '.join(cells)} |" for name, cells in rows if set(cells) != {"–"})


def _measured(label: str, measure: str, cards: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """Return a row for each source and one for all sources, weighted by their held-out tokens."""
    rows = [
        (f"{label}, {name}", [f"{card[measure][name]:.3f}" if name in card.get(measure, ()) else "–" for card in cards])
        for name in cards[0][LOSS]
    ]
    return [*rows, (f"{label}, all", [f"{_overall(card, measure):.3f}" if measure in card else "–" for card in cards])]


def _steps(pair: str) -> str:
    """Return the commands that make a pair.

    >>> print(_steps("distilled"))
    `python -m validation.training --pair distilled --data DATA --out OUT parent`, then `small` and `card`.
    """
    first, *others, last = PAIRS[pair].steps
    options = f"--pair {pair} --data DATA --out OUT" if PAIRS[pair].has_parent else "--data DATA"
    return (
        f"`python -m validation.training {options} {first}`, then {', '.join(f'`{s}`' for s in others)} and `{last}`."
    )


def _aligned(made: dict[str, Any]) -> str:
    """Return the note about the aligned draft."""
    courses = "two courses" if "earlier" in made else "one course"
    rates = ", ".join(f"{name} {rate:.3f}" for name, rate in made[RATE].items())
    told = {"own": made["own_parameters"], "steps": made["steps"], "tokens": made["tokens"]}
    return ALIGNED.format(courses=courses, rates=rates, **told)


def write_card(pair: str, out: Path) -> None:
    """Write the model card from the training records; its licence is the stricter one of the two models' texts.

    Parameters
    ----------
    pair : str
        A key of ``PAIRS``.
    out : Path
        The pair's folder; its ``README.md`` is written.
    """
    recipe = PAIRS[pair]
    cards = [json.loads((out / size / "training.json").read_text()) for size in SIZES]
    library = max((LIBRARIES[card.get("texts", "plain")] for card in cards), key=list(LIBRARIES.values()).index)
    notes = (BORROWED if recipe.target is None else CONTINUED) if recipe.has_parent else ""
    draft = cards[0]
    if "mixing" in draft:
        mixing = draft["mixing"]
        notes += DISTILLED.format(mixing=mixing, temperature=draft["temperature"], rest=1.0 - mixing)
    if (out / "aligned/training.json").exists():
        notes += _aligned(json.loads((out / "aligned/training.json").read_text(encoding="utf-8")))
    if (out / "prompts.jsonl").exists():
        notes += PROMPTS.format(count=len((out / "prompts.jsonl").read_text(encoding="utf-8").splitlines()))
    name, purpose = ("built-in", ", so that everything here runs offline") if pair == "builtin" else (pair, "")
    fixed = {"context": CONTEXT, "seed": SEED, "warm_up": recipe.draft.warm_up, "steps": _steps(pair), "notes": notes}
    told = {"texts": library.told, "licence": library.licence, "limits": library.limits}
    text = CARD.format(pair=name, purpose=purpose, rows=_table(cards), **fixed, **told)
    (out / "README.md").write_text(text, encoding="utf-8")
