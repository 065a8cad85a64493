"""Run one step of ``hlm reproduce`` as a process of its own: ``python -m validation.reproduce.steps STEP …``.

A step that was stopped continues from what it stored. Nothing here decides whether a step is needed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from validation.errors import UserError

if TYPE_CHECKING:
    from validation.collection.prompts import Prompt
    from validation.models.pair import Pair
    from validation.trace.reader import Trace

SEED = 1
STAMPS = "commits.json"
"""File of a run: the commit of each finished step."""
POSITIONS, NEW_TOKENS = 20_000, 160  # of a trace, as `hlm validate`
TEXTS = 100  # prompts of a study, as `hlm decode`
WIDE_TEXTS, WIDE_BATCH = 160, 16
DESIGN_SOURCE = "Alpaca"
"""The set of cu-hlm's Figure 9 and u-hlm's Figure 4; the built-in pair has no prompt of it."""
ANSWERS = Path("gsm8k") / "dev.jsonl.gz"
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


def main(arguments: Sequence[str]) -> None:
    """Run one step."""
    step, *rest = arguments
    known = {"collect": _collect, "fit": _fit, "check": _check, "decode": _decode, "draw": _draw, "publish": _publish}
    parser = argparse.ArgumentParser(prog=f"steps {step}")
    for name in ("run", "draft", "target", "data", "root"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--beside", type=Path, action="append", default=[])
    for name in ("positions", "new-tokens", "prompts"):
        parser.add_argument(f"--{name}", type=int)
    for name in ("pair", "study", "paper", "claims"):
        parser.add_argument(f"--{name}", default="")
    given = parser.parse_args(rest)
    known[step](given)
    if given.run is not None and step != "publish":  # publishing makes no number
        _stamp(given.run / STAMPS, f"{step}:{given.study}" if given.study else step)


def _stamp(file: Path, step: str) -> None:
    from validation.provenance import commit_of_code
    from validation.trace.journal import write_atomically

    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    write_atomically(file, json.dumps({**before, step: commit_of_code()}, indent=1) + "\n")


def _pair(given: argparse.Namespace) -> Pair:
    from validation.models.pair import load_pair
    from validation.reproduce.tasks import CHATS

    if given.draft is None:
        return load_pair(given.pair, chat=given.pair in CHATS, device="cpu")
    return load_pair(None, draft=str(given.draft), target=str(given.target), device="cpu")


def _prompts(given: argparse.Namespace) -> list[Prompt]:
    """Return the prompts of a pair; of an instruct model one of each set in turn, so that a part has all sets."""
    from validation.collection.prompts import builtin_prompts, read_prompts
    from validation.models.hub_weights import QWEN_CODER

    if given.pair == QWEN_CODER:
        return chat_prompts(given.data)
    base = given.pair.partition("-")[0]
    found = builtin_prompts() if given.draft is None else read_prompts(given.draft.parents[1] / base / "prompts.jsonl")
    if base == "smollm2" and given.data is not None:
        found += answered_prompts(given.data)
    if base in ("instructed", "smollm2"):
        found = in_turn(found)
    answers = {} if given.data is None else _answers(given.data / ANSWERS)
    return [replace(one, reference=answers.get(one.id, one.reference)) for one in found]


def answered_prompts(data: Path) -> list[Prompt]:
    """Return held-out questions of StrategyQA and claims of CREAK that ask for yes or no, with the answer."""
    from validation.collection.prompts import Prompt
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
    from validation.collection.prompts import Prompt
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


def _answers(file: Path) -> dict[str, str]:
    """Return the answers of GSM8K by the id of the question; the project's prompts do not hold them."""
    if not file.exists():
        return {}
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return {one["id"]: one["reference"] for one in map(json.loads, lines)}


def _trace(given: argparse.Namespace) -> Trace:
    from validation.trace.reader import open_trace

    return open_trace(given.run / "trace")


def _collect(given: argparse.Namespace) -> None:
    from validation.collection.collect import DEFAULT_BATCH, collect
    from validation.collection.prompts import builtin_prompts

    whole = given.pair == "wide" and not given.positions  # all texts of its first prompts
    prompts = builtin_prompts() if given.pair == "smollm2" else _prompts(given)  # those of `hlm collect`
    trace = collect(
        _pair(given),
        prompts[: WIDE_TEXTS if whole else None],
        given.run / "trace",
        positions=None if whole else given.positions or POSITIONS,
        new_tokens=given.new_tokens or NEW_TOKENS,
        batch=WIDE_BATCH if whole else DEFAULT_BATCH,
        seed=SEED,
        command=_command(given),
    )
    print(f"{trace.positions:,} positions, V = {trace.vocabulary:,}")


def _fit(given: argparse.Namespace) -> None:
    from validation.decoding.fitting import fitted_to

    file = given.run / "decoded" / "fitted.json"
    file.unlink(missing_ok=True)
    print(fitted_to(_trace(given), file))


def _check(given: argparse.Namespace) -> None:
    import hlmtheory
    from validation.claims.check import check_trace
    from validation.claims.instances import measured
    from validation.reproduce.tasks import CHATS
    from validation.trace.journal import write_atomically

    claims = hlmtheory.all_claims()
    some = {name: one for name, one in claims.items() if name.startswith(f"{given.claims}.")}
    if given.pair in CHATS:  # the others depend on no model, and the run of the built-in pair checks them
        some = measured(some if given.claims else claims)
    trace, kept = _trace(given), given.run / ".check.json"
    results = check_trace(trace, seed=SEED, claims=some or None, kept=kept)
    write_atomically(given.run / "claims.json", results.to_json())
    kept.unlink(missing_ok=True)
    violated = [name for name, tally in results.tallies.items() if tally.outcome == "violated"]
    if violated:
        print(f"Violated: {', '.join(violated)}.", file=sys.stderr)  # published as such


def _decode(given: argparse.Namespace) -> None:
    from validation.decoding.studies import ANSWER_TOKENS, STUDIES, decode_study

    folder, tokens = given.run / "decoded" / given.study, given.new_tokens or ANSWER_TOKENS
    prompts = _prompts(given)
    if given.study == "design" and any(one.source == DESIGN_SOURCE for one in prompts):
        prompts = [one for one in prompts if one.source == DESIGN_SOURCE]
    prompts = prompts[: given.prompts or TEXTS]
    decode_study(STUDIES[given.study], _pair(given), prompts, _trace(given), folder, new_tokens=tokens, seed=SEED)


def _draw(given: argparse.Namespace) -> None:
    """Draw what is asked and can be drawn, and name the rest with its reason."""
    from validation.decoding.studies import open_study
    from validation.plots import EXHIBITS, Decoding, Figure, Simulation, draw
    from validation.provenance import commit_of_code
    from validation.reproduce.tasks import PAIRS, Scope

    trace, commit = _trace(given), commit_of_code()
    drawn, left = [], {}
    wanted = PAIRS.get(given.pair, Scope()).exhibits
    # a simulation has no pair; of `instructed` the texts alone, for the rest the built-in pair is the better one
    kinds: dict[str, tuple[type, ...]] = {"builtin": (Figure, Decoding, Simulation), "instructed": (Decoding,)}
    for one in EXHIBITS.values():
        if given.paper not in ("all", "", one.paper) or not isinstance(one, kinds.get(given.pair, (Figure, Decoding))):
            continue
        if wanted and one.stem not in wanted:
            continue
        decoded = []
        if isinstance(one, Decoding):
            places = [run / "decoded" / one.study for run in (given.run, *given.beside)]
            if not (places[0] / "study.json").exists():
                left[one.stem] = f"the study {one.study} is not decoded"
                continue
            decoded = [open_study(place) for place in places if (place / "study.json").exists()]
        print(f"drawing {one.paper} {one.place}", flush=True)
        about = {"command": _command(given), "seed": SEED, "commit": commit, "pair": given.pair}
        try:
            draw(one, trace if isinstance(one, Figure) else None, given.run / "figures", decoded=decoded, **about)
            drawn.append(one.stem)
        except UserError as error:
            left[one.stem] = str(error)
    text = json.dumps({"commit": commit, "drawn": drawn, "not drawn": left}, indent=1)
    (given.run / "drawn.json").write_text(text + "\n", encoding="utf-8")


def _publish(given: argparse.Namespace) -> None:
    from validation.report.publish import publish

    for file in publish(given.run, given.run / "none", given.root, given.pair, whole=True, beside=given.beside):
        print(file)


def _command(given: argparse.Namespace) -> str:
    words = ["python3 hlm reproduce", given.paper or "all"]
    words += [f"--pair {given.pair}"] if given.pair != "builtin" else []
    words += [f"--prompts {given.prompts}"] if given.prompts else []
    return " ".join(words)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:  # the command that started this step says that it stopped
        sys.exit(130)
