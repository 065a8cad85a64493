"""The record of a run of ``hlm device``: JSON lines that are only appended, and survive a kill.

Every line is an object with a ``kind``, whose fields are in :data:`FIELDS`. A line that does not end is ignored. A
server's pass is not in the record: the device sees only how long it waits.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hlmtheory.skipping import audit_bound
from validation.errors import UserError, naming
from validation.provenance import now

FORMAT, VERSION = "hlm record", 2
FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "run": {
        **dict.fromkeys(("method", "messages"), str),
        **dict.fromkeys(("shared_seed", "lossless", "streamed", "adapts", "keyed"), bool),
        "vocabulary": int,
        **dict.fromkeys(("tokenizer", "draft", "target"), str),
        **dict.fromkeys(("temperature", "top_p", "audit"), (int, float)),
        "seed": int,
    },
    "probe": {**dict.fromkeys(("frames", "up_bytes", "down_bytes"), int), "seconds": (int, float)},
    "text": {"prompt": str, "mark": str, "new_tokens": int},
    "round": {
        **dict.fromkeys(("position", "length", "drafted", "accepted"), int),
        **dict.fromkeys(("bonus", "skipped", "up_bytes", "down_bytes"), int),
        **dict.fromkeys(("draft_s", "wait_s"), (int, float)),
        **dict.fromkeys(("opened", "audited"), bool),
    },
    "answer": {**dict.fromkeys(("position", "tokens", "accepted"), int), "seconds": (int, float)},
    "end": {"tokens": int, "ended": bool, "seconds": (int, float)},
}
"""The fields of each kind, and their types."""
SAME = ("method", "messages", "shared_seed", "lossless", "streamed", "vocabulary", "tokenizer", "draft", "target")
ERROR = 0.05  # of the bound on the risk of skips
SAMPLED = ("temperature", "top_p", "keyed", "audit")  # Fields in which all runs of a file agree
BEGUN = b'{"kind": "run", "format": "hlm record"'  # the first bytes of a record


class Recorder:
    """Appends lines to a record; a half line that a kill left is taken away first."""

    def __init__(self, path: Path, run: dict[str, Any]) -> None:
        self.path = path
        with naming(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            whole = path.read_bytes() if path.exists() else b""
            if b"\n" in whole or not _begins(whole):
                earlier = read_record(path).run
                other = [name for name in (*SAME, *SAMPLED) if earlier[name] != run[name]]
                if other:
                    raise UserError(
                        f"{path} holds a run with another {other[0]} ({earlier[other[0]]!s:.60}, now "
                        f"{run[other[0]]!s:.60}); give --record another name."
                    )
            if whole:
                os.truncate(path, whole.rfind(b"\n") + 1)
        self.add("run", format=FORMAT, version=VERSION, date=now(), **run)

    def add(self, kind: str, **fields: Any) -> None:
        """Append a line in one write."""
        line = json.dumps({"kind": kind, **fields}, ensure_ascii=False) + "\n"
        with naming(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(line)


@dataclass(slots=True)
class RecordedText:
    """A text of a record; ``end`` is None if the run was killed within it."""

    begin: dict[str, Any]
    rounds: list[dict[str, Any]] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] | None = None


@dataclass(slots=True)
class RunRecord:
    """What a record holds: the first run's fields, whether any run adapted, all probes and texts."""

    run: dict[str, Any]
    adapts: bool = False
    probes: list[dict[str, Any]] = field(default_factory=list)
    texts: list[RecordedText] = field(default_factory=list)


def read_record(path: Path) -> RunRecord:
    """Return the record of a file, without a half line at its end."""
    with naming(path):
        whole = path.read_bytes()
    record: RunRecord | None = None
    for number, line in enumerate(whole[: whole.rfind(b"\n") + 1].splitlines(), 1):
        kind, given = _line(path, number, line)
        if kind == "run":
            if record is not None and any(given[name] != record.run[name] for name in (*SAME, *SAMPLED)):
                raise UserError(f"{path}: line {number} begins a run of other models or settings; plan each alone.")
            record = record or RunRecord(given)
            record.adapts |= given["adapts"]
            continue
        if record is None:
            raise UserError(f"{path} does not begin with a run; it is no record of `hlm device --record`.")
        if kind == "probe":
            record.probes.append(given)
        elif kind == "text":
            record.texts.append(RecordedText(given))
        elif not record.texts:
            raise UserError(f"{path}: line {number}, {kind}, comes before any text; the file is damaged.")
        elif kind == "end":
            record.texts[-1].end = given
        else:
            (record.texts[-1].rounds if kind == "round" else record.texts[-1].answers).append(given)
    if record is None:
        held = "half a line, because its run was killed" if whole and _begins(whole) else "no line of a record"
        raise UserError(f"{path} holds {held}; write one with `hlm device --record`.")
    return record


def _begins(whole: bytes) -> bool:
    return whole[: len(BEGUN)] == BEGUN[: len(whole)]


def _line(path: Path, number: int, line: bytes) -> tuple[str, dict[str, Any]]:
    try:
        given = json.loads(line)
        kind = given["kind"]
        if kind == "run" and (given["format"], given["version"]) != (FORMAT, VERSION):  # whose fields are others
            raise UserError(
                f"{path} is a record of version {given['version']!s:.20}, and this is {VERSION}; record it again."
            )
        known = FIELDS[kind]
        plain = [name for name, wanted in known.items() if wanted is bool or not isinstance(given[name], bool)]
        right = len(plain) == len(known) and all(isinstance(given[name], known[name]) for name in plain)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{path}: line {number} does not belong to a record; the file is damaged.") from error
    numbers = [given[name] for name, wanted in known.items() if wanted not in (str, bool)]
    more = kind == "round" and not given["accepted"] <= given["drafted"] <= given["length"]
    more |= kind == "run" and given["audit"] > 1
    if not right or more or any(not 0 <= value < 2**63 for value in numbers):
        raise UserError(f"{path}: line {number} has a value that no run gives; the file is damaged.")
    return kind, given


def skips_of(record: RunRecord, source: str) -> dict[str, Any] | None:
    """Return the counts of a run's skips and the bounds on their risk; None if it skipped and audited nothing.

    With the probability π a draft that would be kept is sent; its loss is 1 if the server rejects it.
    """
    rounds = [row for text in record.texts for row in text.rounds]
    audited = [row for row in rounds if row["audited"]]
    skipped = sum(row["skipped"] for row in rounds)
    if not skipped and not audited:
        return None
    probability = float(record.run["audit"])
    if not probability:
        raise UserError(
            f"{source}: its device kept drafts without verification and audited none, so nobody knows how many of them "
            "the server would have accepted; record with --audit 0.1."
        )
    tokens = sum(map(_tokens, record.texts))
    rejected = sum(not row["accepted"] for row in audited)
    losses = np.zeros(max(tokens, 1))
    losses[:rejected] = 1.0
    bound = float(audit_bound(losses, probability, ERROR)[-1])
    skips = {"texts": len(record.texts), "tokens": tokens, "skipped": skipped, "audit_probability": probability}
    skips |= {"audited": len(audited), "rejected": rejected, "confidence": 1.0 - ERROR, "mean_risk_bound": bound}
    return skips | {"text_bound": min(1.0, bound * tokens / max(len(record.texts), 1))}


def _tokens(text: RecordedText) -> int:
    """Return the tokens of a text whose audits are in the record; of one that was killed, those of its rounds."""
    if text.end is not None:
        return int(text.end["tokens"])
    last = text.rounds[-1] if text.rounds else None
    return 0 if last is None else int(last["position"] + last["accepted"])


def said_of_skips(skips: dict[str, Any]) -> str:
    return (
        f"Measured: of {skips['tokens']:,} tokens {skips['skipped']:,} were kept without verification, and of "
        f"{skips['audited']:,} that would have been and were sent, the server rejected {skips['rejected']:,}. So the "
        f"mean risk of a token is at most {skips['mean_risk_bound']:.3g}, and the mean total variation of a text at "
        f"most {skips['text_bound']:.3g}, at {skips['confidence']:.0%}, whenever the run was stopped."
    )
