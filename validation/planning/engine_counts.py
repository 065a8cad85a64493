"""Options from an engine's counts of accepted drafts: no rows, so nothing is skipped, quantised or truncated.

A draft that is sampled from q needs q_d up, and after a rejection the target's distribution down. A greedy draft (also
an n-gram's) has q_d = 1, and a rule that compares it with the target's own token reads no probability: there the token
ids alone keep the target's law.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.draft_length import acceptance_by_depth
from validation.acceptance.engines import read_acceptance
from validation.acceptance.record import VERIFICATIONS, AcceptanceRecord, Counts, add, marked, refuse_mixture, remarks
from validation.decoding.wire import index_bits
from validation.errors import UserError
from validation.planning.menu import COLOCATED, DEVICE, FIXED, FLEXSPEC, OURS, SERVER, STREAM, Option, exact
from validation.planning.rounds import COUNTS

Array = NDArray[Any]


def options_of_records(
    files: Sequence[Path],
    vocabulary: int,
    only: str | None = None,
    draft_length: int | None = None,
    drafts: str | None = None,
    verification: str | None = None,
) -> tuple[list[Option], dict[str, Any]]:
    """Return the options that counts of accepted drafts allow, and what the plan says about them.

    Parameters
    ----------
    vocabulary : int
        V.
    only : str, optional
        Read only records whose engine name contains this word.
    draft_length : int, optional
        Drafts of every step, for records without it.
    drafts, verification : str, optional
        How the engine drafts and verifies, for records that do not state it.

    Raises
    ------
    UserError
        The records must not be averaged, do not determine the acceptance at each depth, or their rule loses the
        target's law.
    """
    records = _records(files, only, drafts, verification)
    found, evidence = options_of_counts(records, vocabulary, draft_length)
    evidence = {"files": [str(file) for file in files]} | evidence
    evidence["read_with"] = {
        "only": only,
        "draft_length": draft_length,
        "drafts": drafts,
        "verification": verification,
    }
    notes = _notes(records, _by_ids(records))
    if any(fewest != most for fewest, most in (record.examined(draft_length) for record in records)):
        notes.append(
            "Draft lengths varied and only their sum is known: planned is the least acceptance that the counts allow."
        )
    return found, {"evidence": evidence, "notes": notes}


def options_of_counts(
    records: Sequence[AcceptanceRecord], vocabulary: int, draft_length: int | None = None
) -> tuple[list[Option], dict[str, Any]]:
    """Return the options of counts with one way of drafting and one lossless rule, and the evidence.

    Where the lengths of drafts varied and are not recorded, the acceptance is the least that the counts allow.

    A text is a record. A round of K drafts emits the mean number of accepted drafts among the first K, and one more.

    Parameters
    ----------
    vocabulary : int
        V.
    draft_length : int, optional
        Drafts of every step, for records without it.

    Raises
    ------
    UserError
        The records do not determine the acceptance at each depth.
    """
    tables = [record.examined(draft_length)[1] for record in records]
    deepest = max(max(table, default=0) for table in tables)
    if deepest < 1:
        raise UserError(f"{records[0].source}: no step drafted a token, so there is no acceptance to plan with.")
    profile = np.asarray(acceptance_by_depth(_square(add(tables), deepest)).acceptances, dtype=np.float64)
    known = int(np.argmax(~np.isfinite(profile))) if not np.isfinite(profile).all() else deepest
    if not known:
        raise UserError(f"{records[0].source}: the first draft was never examined, so there is no acceptance.")
    rates = np.stack([_own(table, deepest, profile)[:known] for table in tables])
    tokens = 1.0 + np.cumsum(np.cumprod(rates, axis=1), axis=1)  # (texts, K)
    weight = np.array([float(max(record.num_spec_steps + record.num_accepted_draft_tokens, 1)) for record in records])
    width = float(index_bits(vocabulary))
    none = np.zeros(len(records))
    server = {"passes": 1, "verified": 1, "down_bits": width}
    found = [
        exact(SERVER, "one exchange a token", _table(weight, **server, exchanges=1, up_bits=8)),
        Option(DEVICE, "", _table(weight, drafts=1, skipped=1), 0, np.inf, none + 1, none + 1),
        exact(STREAM, "no round trips", _table(weight, **server)),
    ]
    ids = _by_ids(records)
    reply = 8.0 * -(-(4 + width) // 8)
    for k in range(1, known + 1):
        rounds = 1.0 / tokens[:, k - 1]
        rejected = rounds * (1.0 - np.prod(rates[:, :k], axis=1))
        own = {"server_drafts": k * rounds, "passes": rounds, "verified": (k + 1) * rounds, "down_bits": width}
        found.append(exact(COLOCATED, f"K = {k}", _table(weight, **own), k))
        shared = {"drafts": k * rounds, "passes": rounds, "exchanges": rounds, "verified": (k + 1) * rounds}
        if ids:
            sent = _table(weight, **shared, up_bits=rounds * (16.0 + k * width), down_bits=rounds * reply)
            found.append(exact(OURS, f"token ids, K = {k}", sent, k))
            continue
        row = width + 32.0 * vocabulary
        full = _table(weight, **shared, up_bits=rounds * (16.0 + k * row), down_bits=rounds * reply)
        split = _table(
            weight,
            **shared,
            up_bits=rounds * (16.0 + k * (width + 32.0)),
            down_bits=rounds * reply + rejected * (16.0 + 32.0 * vocabulary),
        )
        sized = (float(vocabulary), float(vocabulary))
        found.append(exact(FIXED, f"K = {k}", full, k, top_k=sized))
        found.append(exact(FLEXSPEC, f"K = {k}", split, k, top_k=(1, 1), codec=0))
        found.append(exact(OURS, f"q_d up, p down, K = {k}", split, k, top_k=(1, 1), codec=0))
    return found, {
        "engine": records[0].engine,
        "records": len(records),
        "draft_sampling": records[0].draft_sampling,
        "verification": records[0].verification,
        "steps": int(sum(record.num_spec_steps for record in records)),
        "acceptance_by_depth": profile[:known].tolist(),
        "vocabulary": vocabulary,
    }


def _by_ids(records: Sequence[AcceptanceRecord]) -> bool:
    return records[0].draft_sampling == "greedy" or records[0].verification == "match"


def _records(
    files: Sequence[Path], only: str | None, drafts: str | None, verification: str | None
) -> list[AcceptanceRecord]:
    """Return the records that are planned with: of one engine, with one lossless rule."""
    read = read_acceptance(*files).records
    chosen = [record for record in read if only is None or only in record.engine]
    if not chosen:
        engines = ", ".join(sorted({record.engine for record in read}))
        raise UserError(f"No record has an engine name with {only!r}; the engines are: {engines}.")
    records = [marked(record, drafts=drafts, verification=verification) for record in chosen]
    refuse_mixture(records)
    rule = records[0].verification
    if rule is not None and VERIFICATIONS.get(rule) is False:
        raise UserError(
            f"{records[0].source}: verification {rule} loses the target's law, so its acceptance is not that of a "
            "lossless plan; give counts of the rule standard, block or match."
        )
    return records


def _notes(records: Sequence[AcceptanceRecord], ids: bool) -> list[str]:
    """Return what the plan assumes of the drafts and of their verification."""
    if ids:
        basis = (
            "greedy, so q_d = 1" if records[0].draft_sampling == "greedy" else "compared with the target's own token"
        )
        return [f"Drafts are {basis}: their token ids alone are sent, and the target's law is kept."]
    found = list(remarks(records))
    if records[0].draft_sampling is None:
        found.append(
            "Planned as if drafts were drawn from q, so that each needs its probability; with --drafts greedy, or "
            "--verification match, their token ids are enough."
        )
    return found


def _square(table: Counts, deepest: int) -> Array:
    found = np.zeros((deepest + 1, deepest + 1), dtype=np.int64)
    for length, row in table.items():
        found[length, : len(row)] = row
    return found


def _own(table: Counts, deepest: int, pooled: Array) -> Array:
    """Return a record's acceptance by depth; the pooled one counts as one more examined draft."""
    square = _square(table, deepest)
    rates = np.empty(deepest)
    for depth in range(deepest):
        long = square[depth + 1 :]  # rounds with more than ``depth`` drafts
        examined, accepted = long[:, depth:].sum(), long[:, depth + 1 :].sum()
        rates[depth] = (accepted + np.nan_to_num(pooled[depth])) / (examined + 1.0)
    return rates


def _table(weight: Array, **each: Any) -> Array:
    found = np.zeros((len(weight), len(COUNTS)))
    found[:, COUNTS.index("tokens")] = weight
    for name, value in each.items():
        found[:, COUNTS.index(name)] = weight * value
    return found
