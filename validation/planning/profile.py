"""The profile of a trace: expected counts of every policy of the menu on every text, and the losses of skipping.

It serves every link, every pass time and every limit, and is kept in a file, so that the next plan needs no logits.
"""

import hashlib
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from validation.arrays import Array
from validation.decoding.wire import index_bits
from validation.errors import UserError
from validation.planning.message_length import message_bits
from validation.planning.positions import LATTICES, Positions, cumulative, join, positions_of, sampled, without_residue
from validation.planning.rounds import Wire, expected_counts, expected_streaks
from validation.processes import in_threads
from validation.trace.journal import JOURNAL
from validation.trace.reader import Trace, TraceChunk
from validation.trace.sealed import checksum, read_sealed, write_sealed

VERSION = 12
DRAFT_LENGTHS = tuple(range(1, 9))
BUDGETS = (100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0)  # Bits that end a round of c-sqs; 5,000 in the paper
ADAPTIVE = tuple(number for number, lattice in enumerate(LATTICES) if lattice.k is None)
"""Lattices whose support, and so the bits of a draft, the device knows only after the draft model's pass."""
MOST_TEXTS = 320  # Texts of a profile; of a longer trace, evenly spaced prompts are taken
BLOCK = 2**21  # Probabilities of a block
_GROUP = 40  # texts whose counts are computed together
_WORKERS = 2

SHARED_SEED = "shared seed"
CODECS = ("q_d up, p down", *(f"lattice {lattice.name}" for lattice in LATTICES), SHARED_SEED)
"""Lossless messages of a draft: DSSD's, quantised rows that the draft is drawn from, and a token of a shared stream."""
SEEDED = CODECS.index(SHARED_SEED)


@dataclass(frozen=True)
class Profile:
    vocabulary: int
    prompts: Array
    lengths: Array
    planned: Array  # (K, 1 + thresholds, codecs, texts, counts): the first draft is skipped up to a threshold, 0: none
    blocks: Array  # (K, codecs - 1, texts, counts): rounds with K drafts of a codec that the server verifies by block
    split: Array  # (K, texts, counts): FlexSpec's rounds of K drafts, with q_d in 32 bits and a header of 16
    full: Array  # (K, texts, counts): rounds of K drafts with whole distributions
    greedy: Array  # (K, texts, counts): rounds of K drafts, each the likeliest token of q, that go up as ids
    quantised: Array  # (K, lattices, texts, counts): rounds of K drafts of c-sqs, with the paper's bits
    budgeted: Array  # (adaptive lattices, budgets, texts, counts): c-sqs ends with the draft that uses up the budget
    single: Array  # (1 + thresholds, texts, counts): one draft, no bonus, sampled uncertainty, without draft bits
    server: Array  # (texts, counts): the target model alone, one exchange a token
    overlap: Array  # (texts, codecs, thresholds): overlap loss of a text with the expected uncertainty
    overlap_sampled: Array  # (texts, thresholds): the same with the sampled uncertainty, for drafts from q
    risk: Array  # (texts, codecs, thresholds): mean one-step risk of its tokens
    risk_sampled: Array  # (texts, thresholds): the same with the sampled uncertainty, for drafts from q
    acceptance: Array  # (texts, codecs): mean α
    accepted: Array  # (texts, T): acceptance along the text, 0 beyond its end
    chances: Array  # (texts, T, codecs): acceptance along the text of each codec, 0 beyond its end
    counted: Array  # (texts, T, codecs): tokens with a count in the row of each codec, 0 beyond the end of a text
    rejections: Array  # (texts, codecs): 1 - acceptance along the text, summed over all positions but the last
    streaks: Array  # (texts, T): expected runs of accepted drafts of a shared seed, by their length
    sure: Array  # (texts, T, children): probability along the text that one of n drafts is accepted
    uncertainty: Array  # (positions,): of one drawn draft at each position; ``owner`` is its text
    rejection: Array  # (positions,): of one drawn draft at each position; ``owner`` is its text
    owner: Array
    kept: Array  # (codecs, 2): mean and 95th percentile of the probabilities that a draft's message holds
    known: bool  # Whether the trace has the target model's tokens

    @property
    def texts(self) -> int:
        return len(self.lengths)


Report = Callable[[int, int, str], None]


def profile_of(trace: Trace, cache: Path | None = None, report: Report | None = None) -> Profile:
    """Return the profile of a trace, from the file ``cache`` if it holds that of this trace.

    Groups of texts are kept beside it while it is measured, so that the same call goes on where one was stopped.
    """
    key = _key(trace)
    if cache is not None:
        if stored := _read(cache, key):
            return Profile(**stored | {"vocabulary": int(stored["vocabulary"]), "known": bool(stored["known"])})
        cache.parent.mkdir(parents=True, exist_ok=True)
    profile = _measure(trace, report, key, cache)
    if cache is not None:
        part = cache.with_suffix(".part.npz")
        np.savez_compressed(part, key=np.array(key), **vars(profile))
        part.replace(cache)
        for group in cache.parent.glob(f"{cache.stem}.[0-9]*.npz"):
            group.unlink()
    return profile


def _key(trace: Trace) -> str:
    settings = [VERSION, BUDGETS, DRAFT_LENGTHS, MOST_TEXTS, list(CODECS)]
    return checksum({"journal": digest(trace), "settings": settings})


def digest(trace: Trace) -> str:
    """Return the digest of a trace's journal, which tells it from every other trace."""
    return hashlib.sha256((trace.path / JOURNAL).read_bytes()).hexdigest()


def remembered(file: Path | None, key: Any, make: Callable[[], Any]) -> Any:
    """Return plain values from a file if it holds those of this key; else make them, and keep them there."""
    mark = checksum({"key": key})
    if file is not None:
        try:
            stored = read_sealed(file)
            if stored["key"] == mark:
                return stored["value"]
        except (OSError, UserError, KeyError, TypeError, ValueError):
            pass  # there is none, or it is damaged
    value = make()
    if file is not None:
        write_sealed(file, {"key": mark, "value": value})
    return value


DAMAGE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


def _read(file: Path, key: str) -> dict[str, Any]:
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as stored:
            columns = dict(stored)
    except DAMAGE:
        return {}
    return columns if str(columns.pop("key", "")) == key else {}


# ------------------------------------------------------------------------------------------------------ texts


def _texts(trace: Trace) -> list[slice]:
    index, place = (np.asarray(trace.arrays[name][:]) for name in ("prompt_index", "position"))
    first = np.flatnonzero((place == 0) | (np.diff(index, prepend=index[0] - 1) != 0))
    ends = np.append(first[1:], len(place))
    rows = [slice(int(a), int(b)) for a, b in zip(first, ends, strict=True)]
    return rows[:: max(1, -(-len(rows) // MOST_TEXTS))]


def _blocks(trace: Trace, rows: list[slice]) -> Iterator[tuple[int, TraceChunk]]:
    most = max(1, BLOCK // trace.vocabulary)
    for number, text in enumerate(rows):
        for start in range(text.start, text.stop, most):
            part = slice(start, min(start + most, text.stop))
            yield number, TraceChunk(**{name: np.array(array[part]) for name, array in trace.arrays.items()})


def _measure(trace: Trace, report: Report | None, key: str, cache: Path | None) -> Profile:
    rows = _texts(trace)
    total = sum(text.stop - text.start for text in rows)
    known = bool((np.asarray(trace.arrays["tokens"][:]) >= 0).any())
    rng = np.random.default_rng(1)
    parts: dict[int, list[Positions]] = {}
    tables: list[dict[str, Any]] = []
    while cache is not None and (stored := _read(cache.with_suffix(f".{len(tables)}.npz"), key)):
        tables.append(stored)
    start = len(tables) * _GROUP
    done = sum(text.stop - text.start for text in rows[:start])
    what = "measuring the positions of the trace"
    what += f", of which {done:,} were measured before" if done else ""
    rng.random(done)  # theirs

    def work(number: int, chunk: TraceChunk, uniform: Array) -> tuple[int, Positions]:
        return number, positions_of(chunk, uniform)

    left = _blocks(trace, rows[start:])
    jobs = (partial(work, number, chunk, rng.random(len(chunk.tokens))) for number, chunk in left)
    for number, positions in in_threads(jobs, _WORKERS):
        parts.setdefault(number, []).append(positions)
        done += len(positions.acceptance)
        if report is not None:
            report(done, total, what)
        if len(parts) > _GROUP:  # the last text may go on
            texts = [join(parts.pop(text)) for text in sorted(parts)[:_GROUP]]
            tables.append(_counts(texts, trace.vocabulary))
            if cache is not None:
                np.savez(cache.with_suffix(f".{len(tables) - 1}.npz"), key=np.array(key), **tables[-1])
    tables.append(_counts([join(parts[text]) for text in sorted(parts)], trace.vocabulary))
    named = _names(trace.manifest.get("prompts") or [])
    index = np.asarray(trace.arrays["prompt_index"][:])
    prompts = [named.get(number, str(number)) for number in (int(index[text.start]) for text in rows)]
    return _joined(tables, known, trace.vocabulary, prompts)


def _names(prompts: list[Any]) -> dict[int, str]:
    """Return the ids of the prompts by their number; a prompt that a file repeats has the id of its first line."""
    known = {number: row for number, row in enumerate(prompts) if isinstance(row, dict) and "id" in row}
    first: dict[Any, str] = {}
    for row in known.values():
        first.setdefault(row.get("text"), str(row["id"]))
    return {n: str(row["id"]) if row.get("text") is None else first[row["text"]] for n, row in known.items()}


# ----------------------------------------------------------------------------------------------------- counts


def _along(values: list[Array]) -> Array:
    table = np.zeros((max(map(len, values)), *values[0].shape[1:], len(values)))
    for number, rows in enumerate(values):
        table[: len(rows), ..., number] = rows
    return table


def _counts(texts: list[Positions], vocabulary: int) -> dict[str, Array]:
    length = np.array([len(text.acceptance) for text in texts])
    accepted, bits, sizes, sure = (
        _along([getattr(text, name) for text in texts]) for name in ("accepted", "bits", "sizes", "sure")
    )
    from_q, before_last = accepted[:, 0], np.arange(length.max())[:, None] < length - 1
    rejected = np.where(before_last[:, None], 1.0 - accepted[:, :SEEDED], 0.0)
    return {
        "lengths": length,
        **_of_rounds(texts, length, accepted, bits, sizes, vocabulary),
        **_losses(texts),
        "acceptance": np.stack([text.acceptance.mean(axis=0) for text in texts]),
        "accepted": from_q.T,
        "chances": accepted.transpose(2, 0, 1),
        "counted": sizes.transpose(2, 0, 1),
        "rejections": rejected.sum(axis=0).T,
        "streaks": np.stack([expected_streaks(accepted[:, SEEDED, n], int(length[n])) for n in range(len(texts))]),
        "sure": sure.transpose(2, 0, 1),
        "uncertainty": np.concatenate([text.uncertainty for text in texts]),
        "rejection": np.concatenate([text.rejection for text in texts]),
        "owner": np.repeat(np.arange(len(texts)), length),
        "kept": np.concatenate([text.kept for text in texts]),
    }


def _of_rounds(
    texts: list[Positions], length: Array, accepted: Array, bits: Array, sizes: Array, vocabulary: int
) -> dict[str, Array]:
    width = index_bits(vocabulary)
    plain = Wire(header=16.0, reply=reply_bits(vocabulary))
    dssd = replace(plain, rejection=rejection_bits(vocabulary))
    ratio, from_q, nothing = _along([text.ratio for text in texts]), accepted[:, 0], np.zeros_like(bits)
    whole, zero = np.full_like(from_q, width + 32.0 * vocabulary), np.zeros_like(from_q)
    skip, first = _first_drafts(texts, accepted)
    rows, lattices = slice(1, 1 + len(LATTICES)), [number + 1 for number in ADAPTIVE]
    greedy = _along([text.greedy for text in texts])
    kinds = ("planned", "blocks", "split", "full", "greedy", "quantised")
    by_length: dict[str, list[Array]] = {name: [] for name in kinds}
    for k in DRAFT_LENGTHS:
        sent = message_bits(sizes, length, k, vocabulary)
        planned = []
        for codecs, wire in ((slice(0, 1), dssd), (slice(1, None), plain)):
            along, no_bits = accepted[:, None, codecs], nothing[:, None, codecs]
            sent_first, kept, own = first[:, :, codecs], skip[:, :, codecs], replace(wire, header=sent[:, codecs])
            planned.append(expected_counts(along, no_bits, length, k, first=sent_first, skip=kept, wire=own))
        by_length["planned"].append(np.concatenate(planned, axis=1))
        header = replace(plain, header=sent[:, :SEEDED])
        by_length["blocks"].append(expected_counts(ratio, nothing[:, :SEEDED], length, k, wire=header, ratio=ratio))
        by_length["split"].append(expected_counts(from_q, bits[:, 0], length, k, wire=dssd))
        by_length["full"].append(expected_counts(from_q, whole, length, k, wire=plain))
        by_length["greedy"].append(expected_counts(greedy, np.full_like(greedy, width), length, k, wire=plain))
        by_length["quantised"].append(expected_counts(accepted[:, rows], bits[:, rows], length, k, wire=plain))
    adaptive, spent = accepted[:, lattices], bits[:, lattices]
    budgeted = [expected_counts(adaptive, spent, length, until_spent(spent, most), wire=plain) for most in BUDGETS]
    skips = np.concatenate([zero[:, None], _along([sampled(text.draft_mass[:, 0]) for text in texts])], axis=1)
    none = zero[:, None]
    return {
        **{name: np.stack(tables) for name, tables in by_length.items()},
        "budgeted": np.stack(budgeted, axis=1),
        "single": expected_counts(none, none, length, 1, skip=without_residue(skips), bonus=False, wire=plain),
        "server": expected_counts(zero, zero, length, 0, wire=Wire(8.0, 8.0 * -(-width // 8))),
    }


def _first_drafts(texts: list[Positions], accepted: Array) -> tuple[Array, Array]:
    """Return the skipped share and the acceptance of a sent first draft, (T, 1 + thresholds, codecs, texts).

    To skip nothing comes first, with the acceptance along the text.
    """
    alpha = _along([text.acceptance for text in texts])
    skip, kept = (
        np.swapaxes(_along([cumulative(getattr(text, name)) for text in texts]), 1, 2)
        for name in ("draft_mass", "accepted_mass")
    )
    left = np.maximum(1.0 - skip, 0.0)
    first = np.maximum(alpha[:, None] - kept, 0.0) / np.where(left > 1e-12, left, 1.0)
    first = np.minimum(np.where(left > 1e-12, first, 0.0), 1.0)
    skips = [np.zeros_like(skip[:, :1]), without_residue(skip)]
    return np.concatenate(skips, axis=1), np.concatenate([accepted[:, None], first], axis=1)


def _losses(texts: list[Positions]) -> dict[str, Array]:
    exact, drawn = ([text.losses(at) for text in texts] for at in (cumulative, sampled))
    return {
        "overlap": np.stack([1.0 - np.prod(factors, axis=0) for factors, _ in exact]),
        "overlap_sampled": np.stack([1.0 - np.prod(factors[:, 0], axis=0) for factors, _ in drawn]),
        "risk": np.stack([risk.mean(axis=0) for _, risk in exact]),
        "risk_sampled": np.stack([risk[:, 0].mean(axis=0) for _, risk in drawn]),
    }


def reply_bits(vocabulary: int) -> float:
    """Return the bits of an answer without a distribution: a count and a token, in whole bytes."""
    return 8.0 * -(-(4 + index_bits(vocabulary)) // 8)


def rejection_bits(vocabulary: int) -> float:
    """Return how many bits more than other answers one with p has, after a count of 16 bits, in place of a token."""
    return 16.0 + 32.0 * vocabulary - reply_bits(vocabulary)


def until_spent(bits: Array, budget: float) -> Array:
    """Return the drafts of a round from each position on that ends once its bits exceed a budget, (T, ..., texts).

    The size of an adaptive support is known only after the draft model's pass. c-sqs drops a draft that does not fit,
    and its pass is lost. Here it is sent and ends the round: the same passes, and one more draft for its bits alone.
    """
    total = np.concatenate([np.zeros_like(bits[:1]), np.cumsum(bits, axis=0)])
    return np.stack([(total[t + 1 :] - total[t] <= budget).sum(axis=0) + 1 for t in range(len(bits))])


def _joined(tables: list[dict[str, Array]], known: bool, vocabulary: int, prompts: list[str]) -> Profile:
    longest = max(table["accepted"].shape[1] for table in tables)
    offset = 0
    for table in tables:
        for name in ("accepted", "streaks", "chances", "counted", "sure"):
            more = [(0, 0), (0, longest - table[name].shape[1]), *[(0, 0)] * (table[name].ndim - 2)]
            table[name] = np.pad(table[name], more)
        table["owner"] = table["owner"] + offset
        offset += len(table["lengths"])
    axis = {"planned": 3, "blocks": 2, "split": 1, "full": 1, "greedy": 1, "quantised": 2, "budgeted": 2, "single": 1}
    columns = {name: np.concatenate([table[name] for table in tables], axis=axis.get(name, 0)) for name in tables[0]}
    kept = columns.pop("kept")
    sizes = np.stack([kept.mean(axis=0), np.quantile(kept, 0.95, axis=0)], axis=-1)
    return Profile(vocabulary=vocabulary, known=known, prompts=np.array(prompts), kept=sizes, **columns)
