"""Many methods over many links: one record for each (method, prompt, link), stored as soon as it is finished.

An interrupted sweep continues with the missing records. A record is stored with a mark of all parameters that it
depends on: a method or a link of the same name with other parameters is refused, so that results are never mixed.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from validation.collection.collect import Progress, encode_prompts
from validation.collection.fingerprint import fingerprints
from validation.collection.prompts import Prompt
from validation.decoding.links import FadingLink
from validation.decoding.loop import DEFAULT_BATCH, DEFAULT_NEW_TOKENS, DEFAULT_SEED, decode
from validation.decoding.methods.base import Method
from validation.decoding.random_streams import label
from validation.decoding.records import GenerationRecord
from validation.errors import UserError
from validation.models.pair import Pair
from validation.trace.journal import JOURNAL, Committed, Journal, Lock, record_of

Key = tuple[str, str, str]
STORED_NAMES = {"max_draft_length": "longest", "distortion_tolerance": "tolerance", "bias_tolerance": "bias"}
"""For each renamed parameter of a method, its old name, which journals' marks still use."""
STORED_CLASSES = {"DraftOnly": "SmallOnly", "TargetOnly": "LargeOnly"}  # for each renamed class, its old name
_PLAIN = (int, float, str, bool, type(None))


def sweep(
    pair: Pair,
    prompts: Sequence[Prompt],
    methods: Sequence[Method],
    folder: str | Path,
    *,
    links: Sequence[FadingLink] = (),
    temperature: float = 1.0,
    top_p: float = 1.0,
    new_tokens: int = DEFAULT_NEW_TOKENS,
    batch: int = DEFAULT_BATCH,
    seed: int = DEFAULT_SEED,
    times: tuple[float, float] | None = None,
    risk: bool = False,
    progress: Progress | None = None,
) -> list[GenerationRecord]:
    """Decode every prompt by every method over every link; take the records that an earlier run left in the folder."""
    _refuse_twins("methods", [method.name for method in methods])
    _refuse_twins("links", [link.name for link in links])
    folder = Path(folder)
    options: dict[str, Any] = {"temperature": temperature, "top_p": top_p, "new_tokens": new_tokens, "batch": batch}
    options |= {"seed": seed, "times": None if times is None else list(times), "risk": risk}
    settings = fingerprints(pair, [], []) | options
    tokens = encode_prompts(pair, prompts, new_tokens)
    encoded = {prompt.id: label(ids) for prompt, ids in zip(prompts, tokens, strict=True)}
    jobs = [(method, link) for method in methods for link in (links or (None,))]
    marks = {(method.name, _link_name(link)): mark_of(method, link) for method, link in jobs}
    folder.mkdir(parents=True, exist_ok=True)
    with Lock(folder):
        book, journal = _open(folder, settings)
        _refuse_others(folder, book, marks, encoded)
        total = len(jobs) * len(prompts)
        count = itertools.count(sum((m.name, p.id, _link_name(k)) in book for m, k in jobs for p in prompts))
        tell = progress or (lambda done, total, what: None)
        tell(next(count), total, "decoding")

        def put(record: GenerationRecord) -> None:
            mark = marks[record.method, record.link]
            book[record.method, record.prompt, record.link] = (record, mark, encoded[record.prompt])
            journal.append({"row": record.plain(), "mark": mark, "text": encoded[record.prompt]})
            tell(next(count), total, f"{record.method} over {record.link}")

        for method, link in jobs:
            if missing := [p for p in prompts if (method.name, p.id, _link_name(link)) not in book]:
                decode(pair, missing, method, link=link, on_finished=put, **options)
        tell(total, total, "done")
    return [book[method.name, p.id, _link_name(link)][0] for method, link in jobs for p in prompts]


def read_records(folder: str | Path) -> list[GenerationRecord]:
    header, entries, _ = _read(Path(folder))
    if header is None:
        raise UserError(f"There is no sweep at {folder}; check the path.")
    return [GenerationRecord.of(entry["row"]) for entry in entries]


def _link_name(link: FadingLink | None) -> str:
    return "none" if link is None else link.name


def mark_of(method: Method, link: FadingLink | None) -> str:
    """Return a short hash of all parameters of a method and a link, by the names that journals store."""
    name = type(method).__name__
    return label(STORED_CLASSES.get(name, name), sorted(_parameters(method).items()), repr(link))


def _parameters(method: Method) -> dict[str, Any]:
    plain = {name: value for name, value in vars(method).items() if isinstance(value, (*_PLAIN, tuple))}
    flat = {STORED_NAMES.get(name, name): value for name, value in plain.items()}
    return flat | {"costs": sorted(getattr(method, "costs", {}).items())}


def _refuse_twins(what: str, names: list[str]) -> None:
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise UserError(f"Two {what} are called {twice!r}; give each its own name.")


def _read(folder: Path) -> tuple[dict[str, Any] | None, list[dict[str, Any]], Committed]:
    file = folder / JOURNAL
    lines = file.read_bytes().split(b"\n") if file.exists() else [b""]
    entries = [record_of(line, number) for number, line in enumerate(lines[:-1])]
    good = next((number for number, entry in enumerate(entries) if entry is None), len(entries))
    if any(entry is not None for entry in entries[good:]):
        raise UserError(f"{file} is damaged at line {good + 1}; restore it from a copy, or delete it to start anew.")
    whole = [entry for entry in entries[:good] if entry is not None]
    committed = Committed(header={}, lines=good, valid_bytes=sum(len(line) + 1 for line in lines[:good]))
    return (whole[0]["settings"] if whole else None), whole[1:], committed


def _open(folder: Path, settings: dict[str, Any]) -> tuple[dict[Key, tuple[GenerationRecord, str, str]], Journal]:
    there, entries, committed = _read(folder)
    if there is not None and there != settings:
        other = next(name for name in {**there, **settings} if there.get(name) != settings.get(name))
        raise UserError(
            f"The records at {folder} were made with other settings ({other} was {there.get(other)!r}, and is now "
            f"{settings.get(other)!r}); choose another folder, or the old settings."
        )
    journal = Journal(folder, committed if (folder / JOURNAL).exists() else None)
    if there is None:
        journal.append({"settings": settings})
    book: dict[Key, tuple[GenerationRecord, str, str]] = {}
    for entry in entries:
        record = GenerationRecord.of(entry["row"])
        book[record.method, record.prompt, record.link] = (record, entry["mark"], entry["text"])
    return book, journal


def _refuse_others(
    folder: Path,
    book: dict[Key, tuple[GenerationRecord, str, str]],
    marks: dict[tuple[str, str], str],
    encoded: dict[str, str],
) -> None:
    """Raise if stored records of the same name have other parameters, or belong to another prompt."""
    for (method, prompt, link), (_, mark, text) in book.items():
        if marks.get((method, link), mark) != mark:
            what = f"by {method!r} over {link!r} with other parameters"
        elif encoded.get(prompt, text) != text:
            what = f"of another prompt called {prompt!r}"
        else:
            continue
        raise UserError(f"The folder {folder} holds records {what}; choose another folder, or another name.")
