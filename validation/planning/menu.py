"""The options of a plan: every policy of the papers and of ours with its parameters, and its expected counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.skipping import skip_thresholds
from hlmtheory.uncertainty import fit_linear
from hlmtheory.wire import envelope_bits
from validation.decoding.methods import rows
from validation.planning.positions import LATTICES, THRESHOLDS
from validation.planning.profile import ADAPTIVE, BUDGETS, CODECS, DRAFT_LENGTHS, SEEDED, Profile
from validation.planning.rounds import COUNTS, count_table

Array = NDArray[Any]


@dataclass(frozen=True)
class Option:
    """One policy with its parameters; ``family`` is the name of its row."""

    family: str
    label: str  # The parameters as text
    counts: Array
    draft_length: float  # K; for c-sqs the mean
    threshold: float  # Largest uncertainty that skips verification; -inf: nothing is skipped
    loss: Array  # (texts,): loss of the whole text, in [0, 1], which bounds its total variation in the mean
    token_loss: Array  # (texts,): mean one-step risk of a token
    top_k: tuple[float, float] = (0, 0)  # Mean and 95th percentile of the probabilities that a draft's message holds
    codec: int | None = None  # Of the message
    leak_bits: float = 0.0  # bits that the sizes of a round tell at most, where messages are padded
    sizes: tuple[int, ...] = ()  # Bytes to which messages are padded
    block: bool = False  # Whether the server verifies the drafts of a round together
    answer_limit: float = 0.0  # ε of an answer with a part of p; 0: it is exact

    @property
    def row(self) -> rows.RowInfo:
        """Return what is true of every option of its policy."""
        return rows.ROWS[self.family]

    @cached_property
    def lossless(self) -> bool:
        """Return whether its texts have the target model's law, for every pair of models."""
        return bool(self.threshold == -np.inf) and not np.any(self.loss > 0)


@dataclass(frozen=True, slots=True)
class Line:
    """The papers' line of the rejection probability, and their risk-prone threshold."""

    slope: float
    intercept: float
    prone: float


def fitted_line(profile: Profile, texts: Array) -> Line | None:
    """Return the line fitted to some texts; None if it does not rise."""
    chosen = np.isin(profile.owner, texts)
    u, beta = profile.uncertainty[chosen], profile.rejection[chosen]
    if len(u) < 3 or np.ptp(u) == 0:
        return None
    line = fit_linear(u, beta)
    if not line.slope > 0:
        return None
    return Line(line.slope, line.intercept, float(skip_thresholds(**line.line)[1]))


def column_of(threshold: float) -> int:
    """Return the largest of the thresholds at or below one, as a column behind "skip nothing"; 0 if there is none."""
    return int(np.searchsorted(THRESHOLDS, threshold + 1e-9, side="right"))


def exact(family: str, label: str, counts: Array, draft_length: float = 0, **more: Any) -> Option:
    """Return an option that loses nothing."""
    none = np.zeros(len(counts))
    return Option(family, label, counts, draft_length, -np.inf, none, none, **more)


def options(
    profile: Profile, cut: dict[str, dict[str, Array]], *, shared_seed: bool = True, block: bool = False
) -> list[Option]:
    """Return every option whose counts do not depend on a fit.

    A server that runs the draft model itself may draw its drafts from any distribution, and look at their uncertainty,
    as a listed device may. So with the same times no listed device that drafts and waits in turn is faster.
    """
    whole = (float(profile.vocabulary),) * 2
    alone, n = (profile.overlap[:, 0, -1], profile.risk[:, 0, -1]), profile.lengths
    found = [
        exact(rows.SERVER, "one exchange a token", profile.server),
        Option(rows.DEVICE, "", count_table(tokens=n, drafts=n, skipped=n), 0, np.inf, *alone),
        exact(rows.STREAM, "no round trips", _without_exchanges(profile.server)),
    ]
    for k, full, split in zip(DRAFT_LENGTHS, profile.full, profile.split, strict=True):
        found.append(exact(rows.FIXED, f"K = {k}", full, k, top_k=whole))
        found.append(exact(rows.FLEXSPEC, f"K = {k}", split, k, top_k=(1, 1), codec=0))
    found += _one_draft(profile, cut)
    for codec, name in enumerate(CODECS if shared_seed else CODECS[:SEEDED]):
        kept = _pair(profile.kept[codec])
        for k, tables in zip(DRAFT_LENGTHS, profile.planned[:, :, codec], strict=True):
            for column, table in enumerate(tables):
                level, said, loss = -np.inf, "", (np.zeros(profile.texts),) * 2
                if column:
                    level = float(THRESHOLDS[column - 1])
                    said = f", u ≤ {level:g}"
                    loss = profile.overlap[:, codec, column - 1], profile.risk[:, codec, column - 1]
                found.append(Option(rows.OURS, f"{name}, K = {k}{said}", table, k, level, *loss, kept, codec))
                if codec < SEEDED:
                    label, own = f"K = {k}{_drawn(codec)}{said}", at_server(table, profile)
                    found.append(Option(rows.COLOCATED, label, own, k, level, *loss, codec=codec if column else None))
    for lattice, by_length in enumerate(profile.quantised.swapaxes(0, 1)):
        kept = _pair(profile.kept[lattice + 1])
        for k, table in zip(DRAFT_LENGTHS, by_length, strict=True):
            found.append(exact(rows.SQS, f"{LATTICES[lattice].name}, K = {k}", table, k, top_k=kept))
    for lattice, by_budget in zip(ADAPTIVE, profile.budgeted, strict=True):
        name, kept = LATTICES[lattice].name, _pair(profile.kept[lattice + 1])
        for budget, table in zip(BUDGETS, by_budget, strict=True):
            mean, own = _mean_length(table), at_server(table, profile)
            found.append(exact(rows.SQS, f"{name}, B = {budget:g}", table, mean, top_k=kept))
            found.append(exact(rows.COLOCATED, f"drafts from {name}, B = {budget:g}", own, mean))
    for codec, name in enumerate(CODECS[:SEEDED] if block else ()):  # they need the distribution of each draft
        for k, table in zip(DRAFT_LENGTHS, profile.blocks[:, codec], strict=True):
            label, kept = f"{name}, K = {k}, by block", _pair(profile.kept[codec])
            if codec:
                found.append(exact(rows.OURS, label, table, k, top_k=kept, codec=codec, block=True))
            label, own = f"K = {k}{_drawn(codec)}, by block", at_server(table, profile)
            found.append(exact(rows.COLOCATED, label, own, k, block=True))
    return found


def _one_draft(profile: Profile, cut: dict[str, dict[str, Array]]) -> list[Option]:
    """Return the options of rows.HLM, U-rows.HLM and CU-rows.HLM: one draft a round, with a row or a part of it."""
    whole = (float(profile.vocabulary),) * 2
    row_bits = 32.0 * profile.vocabulary + (profile.vocabulary - 1).bit_length()
    found = [exact(rows.HLM, "", _with_bits(profile.single[0], row_bits), 1, top_k=whole)]
    for column, threshold in enumerate(THRESHOLDS, 1):
        loss = profile.overlap_sampled[:, column - 1], profile.risk_sampled[:, column - 1]
        counts = _with_bits(profile.single[column], row_bits)
        found.append(Option(rows.U_HLM, f"u ≤ {threshold:g}", counts, 1, threshold, *loss, whole))
        for kind, message in cut.items():
            extra = min(float(message["bias"][column]), 1.0)
            size = _pair([message[name][column] for name in ("mean", "p95")])
            counts = _with_bits(profile.single[column], float(message["bits"][column]))
            sent = extra * counts[:, COUNTS.index("exchanges")]
            text = np.minimum(loss[0] + sent, 1.0)
            token = np.minimum(loss[1] + sent / np.maximum(profile.lengths, 1), 1.0)
            found.append(Option(rows.CU_HLM, f"{kind}, u ≤ {threshold:g}", counts, 1, threshold, text, token, size))
    return found


def _drawn(codec: int) -> str:
    """Return the words on a server's drafts that are drawn from the rows of a codec."""
    return f", drafts from {CODECS[codec].removeprefix('lattice ')}" if codec else ""


def _without_exchanges(counts: Array) -> Array:
    """Return the counts of a server that sends its tokens as they come: passes without round trips."""
    found = counts.copy()
    found[:, [COUNTS.index("up_bits"), COUNTS.index("exchanges")]] = 0.0
    return np.asarray(found)


def at_server(table: Array, profile: Profile) -> Array:
    """Return the counts of the same rounds if the server drafts, and streams its tokens."""
    counts = _without_exchanges(table)
    drafts, down = COUNTS.index("drafts"), COUNTS.index("down_bits")
    counts[:, COUNTS.index("server_drafts")] = counts[:, drafts]
    counts[:, drafts], counts[:, down] = 0.0, profile.server[:, down]
    return counts


def _pair(values: Any) -> tuple[float, float]:
    return float(values[0]), float(values[1])


def _with_bits(counts: Array, bits: float) -> Array:
    found = counts.copy()
    found[..., COUNTS.index("up_bits")] += bits * counts[..., COUNTS.index("exchanges")]
    return np.asarray(found)


def _mean_length(counts: Array) -> float:
    exchanges = counts[:, COUNTS.index("exchanges")].sum()
    return float(counts[:, COUNTS.index("verified")].sum() / exchanges - 1.0)


ROUNDS = 128
"""Rounds of a text, so that their number takes one byte."""

SEALS = {
    "none": 0,
    "checksum": envelope_bits(ROUNDS, authenticated=False),
    "hmac": envelope_bits(ROUNDS, authenticated=True),
}
"""Bits of an envelope, by the name that the command line has for it."""


def sealed(options: Sequence[Option], seal: str) -> list[Option]:
    """Return the options with an envelope around each message to the server and each answer."""
    bits = SEALS[seal]
    if not bits:
        return list(options)
    found = []
    for option in options:
        counts = option.counts.copy()
        for direction in ("up_bits", "down_bits"):
            counts[..., COUNTS.index(direction)] += bits * counts[..., COUNTS.index("exchanges")]
        found.append(replace(option, counts=counts))
    return found
