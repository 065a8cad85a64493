"""One option of a plan: a policy with its parameters and expected counts, and what is made of options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hlmtheory.skipping import skip_thresholds
from hlmtheory.uncertainty import fit_linear
from hlmtheory.wire import envelope_bits
from validation.arrays import Array
from validation.decoding.methods import rows
from validation.planning.positions import Lattice
from validation.planning.profile import Profile
from validation.planning.rounds import COUNTS
from validation.planning.setting import Passes


class Note(NamedTuple):
    text: str  # what a plan says about its evidence
    of_device: bool = False  # whether it says so only where the answer has a device


LENGTHS = (*rows.OWN_DRAFTS, rows.KEEPING, rows.FIXED, rows.GREEDY, rows.SQS, rows.FLEXSPEC, rows.CERTIFIED, rows.OURS)
"""Policies with a parameter K, but for rounds that end with a budget of bits."""

ERRORS = (0.12, 0.18)
"""By how much plans of devices were too fast at most, with hlm serve and vLLM's plugin (studies running_link, vllm)."""


def error_of(family: str) -> float:
    """Return how far planned speeds were above measured ones at most, as a share of these; 0 without a device."""
    return ERRORS[family == rows.GREEDY] if rows.ROWS[family].device else 0.0


@dataclass(frozen=True, eq=False)
class Option:
    """One policy with its parameters, equal to itself alone; ``family`` is the name of its row."""

    family: str
    label: str  # The parameters as text, to be shown only
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
    lattice: Lattice | None = None  # of the rows that SQS sends
    budget_bits: float | None = None  # after which a round ends; None: it ends after K drafts
    message: str = ""  # kind of CU-HLM's messages: a key of ``planning.truncated.messages``
    certified: bool = False  # whether that kind bounds the Bias of each message
    by_user: tuple[Option, ...] = ()  # what each user has, of several users with an option each

    @property
    def row(self) -> rows.RowInfo:
        return rows.ROWS[self.family]

    @property
    def fixed_length(self) -> bool:
        """Return whether all its rounds have K drafts, and K is one of its parameters."""
        return self.family in LENGTHS and self.budget_bits is None and not self.by_user

    @cached_property
    def lossless(self) -> bool:
        """Return whether its texts have the target model's law, for every pair of models."""
        return bool(self.threshold == -np.inf) and not np.any(self.loss > 0)


def exact(family: str, label: str, counts: Array, draft_length: float = 0, **more: Any) -> Option:
    none = np.zeros(len(counts))
    return Option(family, label, counts, draft_length, -np.inf, none, none, **more)


def without_exchanges(counts: Array) -> Array:
    """Return the counts of a server that sends its tokens as they come: passes without round trips."""
    kept = counts.copy()
    kept[..., [COUNTS.index("up_bits"), COUNTS.index("exchanges")]] = 0.0
    return np.asarray(kept)


def at_server(table: Array, profile: Profile) -> Array:
    """Return the counts of the same rounds if the server drafts, and streams its tokens."""
    counts = without_exchanges(table)
    drafts, down = COUNTS.index("drafts"), COUNTS.index("down_bits")
    counts[..., COUNTS.index("server_drafts")] = counts[..., drafts]
    counts[..., drafts], counts[..., down] = 0.0, profile.server[:, down]
    return counts


@dataclass(frozen=True, slots=True)
class Line:
    """The papers' line of the rejection probability, and their risk-prone threshold."""

    slope: float
    intercept: float
    prone: float


def fitted_line(profile: Profile, texts: Array) -> Line | None:
    chosen = np.isin(profile.owner, texts)
    u, beta = profile.uncertainty[chosen], profile.rejection[chosen]
    if len(u) < 3 or np.ptp(u) == 0:
        return None
    line = fit_linear(u, beta)
    if not line.slope > 0:
        return None
    return Line(line.slope, line.intercept, float(skip_thresholds(**line.line)[1]))


ROUNDS = 128  # Rounds of a text, so that their number takes one byte

SEALS = {
    "none": 0,
    "checksum": envelope_bits(ROUNDS, authenticated=False),
    "hmac": envelope_bits(ROUNDS, authenticated=True),
}
"""Bits of an envelope, by the name that the command line has for it."""


def reading_again(options: Sequence[Option], draft: Passes | None) -> list[Option]:
    """Return the options where the server's draft model reads the verified tokens again, as llama.cpp's does.

    Each round has one more draft pass, K + 1 wide. It counts as the passes of one token that take as long, 1 if no
    passes of the draft model are given.
    """
    changed, server_drafts = [], COUNTS.index("server_drafts")
    for option in options:
        counts = option.counts.copy()
        passes, verified = (counts[..., COUNTS.index(name)] for name in ("passes", "verified"))
        width = verified / np.maximum(passes, 1e-12)
        again = passes if draft is None else passes * draft.seconds(width) / draft.seconds(np.ones(1))
        counts[..., server_drafts] += np.where(counts[..., server_drafts] > 0, again, 0.0)
        changed.append(replace(option, counts=counts))
    return changed


def sealed(options: Sequence[Option], seal: str) -> list[Option]:
    """Return the options with an envelope around each message to the server and each answer."""
    bits = SEALS[seal]
    if not bits:
        return list(options)
    changed = []
    for option in options:
        counts = option.counts.copy()
        for direction in ("up_bits", "down_bits"):
            counts[..., COUNTS.index(direction)] += bits * counts[..., COUNTS.index("exchanges")]
        changed.append(replace(option, counts=counts))
    return changed
