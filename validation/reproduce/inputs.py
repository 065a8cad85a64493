"""What the commands of ``hlm reproduce`` read: the prompts of a pair as files, and the fit to its trace."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from validation.collection import prompts as files
from validation.collection.prompts import Prompt
from validation.decoding import fitting
from validation.decoding.studies import STUDIES
from validation.models.hub_weights import QWEN_CODER
from validation.trace.reader import open_trace

TEXTS = 100  # prompts of a study, as `hlm decode`
WIDE_TEXTS = 160
DESIGN_SOURCE = "Alpaca"
"""The set of cu-hlm's Figure 9 and u-hlm's Figure 4; the built-in pair has no prompt of it."""
ANSWERS = "gsm8k/dev.jsonl.gz"
"""In the folder of the texts: the similarity to the answers needs it; without it, that score is left out."""
YES_OR_NO = (
    ("StrategyQA", "strategyqa", "id", "{} Answer yes or no."),
    ("CREAK", "creak", "prompt", "Is this claim true: {} Answer yes or no."),
)
"""Set, folder, the field whose hash holds a record out, and the form of a prompt."""
MOST_ANSWERED = 120
CHAT_SETS = {
    "humaneval": ("HumanEval", "Complete this Python function.\n\n{}"),
    "gsm8k": ("GSM8K", "{}"),
    "mt-bench": ("MT-Bench", "{}"),
}
"""Code, mathematics and instructions: folder, set, and the form of a prompt."""
MOST_CHATS = 20


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="inputs")
    parser.add_argument("what", choices=("prompts", "fit"))
    for name in ("out", "trace", "data", "models"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--pair", default="builtin")
    parser.add_argument("--texts", type=int, default=TEXTS)
    given = parser.parse_args(arguments)
    if given.what == "fit":
        _fit(given.trace)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    for name, prompts in prompts_of(given.pair, given.models, given.data, given.texts).items():
        plain = [{"prompt" if key == "text" else key: value for key, value in one.plain().items()} for one in prompts]
        (given.out / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in plain), encoding="utf-8")


def _fit(place: Path) -> None:
    file = place.parent / fitting.FIT_FILE
    file.unlink(missing_ok=True)  # an older code's
    print(fitting.fitted_to(open_trace(place), file))


def prompts_of(pair: str, models: Path | None, data: Path | None, texts: int) -> dict[str, list[Prompt]]:
    """Return the prompts of a pair's trace and of each study; sets in turn, so that a part has all sets."""
    base = pair.partition("-")[0]
    if pair == QWEN_CODER:
        found = chat_prompts(data or Path())
    elif base in ("builtin", "smollm2"):
        found = files.builtin_prompts()
    else:
        found = files.read_prompts((models or Path("models")) / base / "prompts.jsonl")
    whole = found  # those of `hlm collect`
    if base == "smollm2" and data is not None:
        found = found + answered_prompts(data)
    if base in ("instructed", "smollm2"):
        found = in_turn(found)
    answers = {} if data is None else _answers(data)
    found = [replace(one, reference=answers.get(one.id, one.reference)) for one in found]
    traced = whole if pair == "smollm2" else found[: WIDE_TEXTS if pair == "wide" else None]
    design = [one for one in found if one.source == DESIGN_SOURCE] or found
    return {"trace": traced} | {name: (design if name == "design" else found)[:texts] for name in STUDIES}


def answered_prompts(data: Path) -> list[Prompt]:
    """Return held-out questions of StrategyQA and claims of CREAK that ask for yes or no, with the answer."""
    from validation.training.texts import _held_out, _records

    found = []
    for source, folder, key, form in YES_OR_NO:
        records = _records(data, f"{folder}/dev.jsonl.gz") if (data / folder).exists() else []
        for one in [record for record in records if _held_out(record[key], 16)][:MOST_ANSWERED]:
            answer = {"true": "yes", "false": "no"}.get(one["reference"], one["reference"])
            found.append(Prompt(one["id"], form.format(one["prompt"]), source, answer))
    return found


def chat_prompts(data: Path) -> list[Prompt]:
    """Return prompts of code, mathematics and instructions, of each set one in turn."""
    from validation.training.texts import _records

    found = []
    for folder, (source, form) in CHAT_SETS.items():
        tested = [one for one in _records(data, f"{folder}/dev.jsonl.gz") if one.get("split", "test") == "test"]
        found += [Prompt(one["id"], form.format(one["prompt"]), source) for one in tested[:MOST_CHATS]]
    return in_turn(found)


def in_turn(prompts: Sequence[Prompt]) -> list[Prompt]:
    """Return the first prompt of each source, then the second of each, and so on."""
    sources: dict[str, list[Prompt]] = {}
    for one in prompts:
        sources.setdefault(one.source, []).append(one)
    return [one for turn in zip_longest(*sources.values()) for one in turn if one is not None]


def _answers(data: Path) -> dict[str, str]:
    """Return the answers of GSM8K by the id of the question; the project's prompts do not hold them."""
    from validation.training.texts import _records

    return {one["id"]: one["reference"] for one in _records(data, ANSWERS)} if (data / ANSWERS).exists() else {}


if __name__ == "__main__":
    main()
