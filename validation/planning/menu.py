"""The options of a plan: every policy of the papers and of ours with its parameters, and its expected counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.skipping import skip_thresholds
from hlmtheory.uncertainty import fit_linear
from validation.planning.positions import LATTICES, THRESHOLDS
from validation.planning.profile import ADAPTIVE, BUDGETS, CODECS, DRAFT_LENGTHS, SEEDED, Profile
from validation.planning.rounds import COUNTS

Array = NDArray[Any]
SERVER, DEVICE, STREAM, COLOCATED, OWN_TREE, FIXED, HLM, U_HLM, CU_HLM, SQS, FLEXSPEC = (
    "server alone",
    "device alone",
    "server alone, streaming",
    "server with its own draft",
    "server with its own tree",
    "fixed K, full rows",
    "HLM",
    "U-HLM",
    "CU-HLM",
    "SQS",
    "FlexSpec",
)
SEED_TREE, CERTIFIED, STREAMED, OURS = ("shared seed tree", "DSSD certified", "shared seed, streamed", "ours")
WITHOUT_DEVICE = (SERVER, STREAM, COLOCATED, OWN_TREE)
"""Policies that need no device."""
FAMILIES = (*WITHOUT_DEVICE, DEVICE, FIXED, HLM, U_HLM, CU_HLM, SQS, FLEXSPEC, SEED_TREE, CERTIFIED, STREAMED, OURS)
NO_RIVALS = (CERTIFIED, STREAMED, OURS)
"""Policies of ours."""


@dataclass(frozen=True)
class Option:
    """One policy with its parameters.

    Attributes
    ----------
    family : str
    label : str
        The parameters as text.
    counts : array, shape (texts, counts)
    draft_length : int
        K; for c-sqs the mean.
    threshold : float
        Largest uncertainty that skips verification; -inf: nothing is skipped.
    loss : array, shape (texts,)
        Loss of the whole text, in [0, 1], which bounds its total variation in the mean.
    token_loss : array, shape (texts,)
        Mean one-step risk of a token.
    top_k : tuple of float
        Mean and 95th percentile of the probabilities that a draft's message holds.
    leak_bits : float
        Bits that the sizes of a round tell at most, where messages are padded (:mod:`validation.planning.padding`).
    sizes : tuple of int
        Bytes to which messages are padded.
    codec : int, optional
        Of the message.
    block : bool
        Whether the server verifies the drafts of a round together.
    answer_limit : float
        ε of an answer with a part of p; 0: it is exact.
    """

    family: str
    label: str
    counts: Array
    draft_length: float
    threshold: float
    loss: Array
    token_loss: Array
    top_k: tuple[float, float]
    codec: int | None = None
    leak_bits: float = 0.0
    sizes: tuple[int, ...] = ()
    block: bool = False
    answer_limit: float = 0.0

    @cached_property
    def lossless(self) -> bool:
        """Return whether its texts have the target model's law, for every pair of models."""
        return bool(self.threshold == -np.inf) and not np.any(self.loss > 0)


@dataclass(frozen=True, slots=True)
class Line:
    """The papers' line of the rejection probability, and the thresholds that they derive from it."""

    slope: float
    intercept: float
    averse: float
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
    averse, prone = skip_thresholds(**line.line)
    return Line(line.slope, line.intercept, float(averse), float(prone))


def column_of(threshold: float) -> int:
    """Return the largest of the thresholds at or below one, as a column behind "skip nothing"; 0 if there is none."""
    return int(np.searchsorted(THRESHOLDS, threshold + 1e-9, side="right"))


def options(
    profile: Profile, cut: dict[str, dict[str, Array]], *, shared_seed: bool = True, block: bool = False
) -> list[Option]:
    """Return every option whose counts do not depend on a fit.

    Parameters
    ----------
    profile : Profile
    cut : dict
        The messages of CU-HLM, by kind: see :func:`validation.planning.truncated.messages`.
    shared_seed : bool
        Whether ours may draft by a seed that the server shares.
    block : bool
        Whether a server may verify the drafts of a round together: of ours, and of a server with its own draft.
    """
    none = np.zeros(profile.texts)
    vocabulary = float(profile.vocabulary)
    found = [
        Option(SERVER, "one exchange a token", profile.server, 0, -np.inf, none, none, (0, 0)),
        Option(DEVICE, "", _device(profile), 0, np.inf, profile.overlap[:, 0, -1], profile.risk[:, 0, -1], (0, 0)),
        Option(STREAM, "no round trips", _stream(profile), 0, -np.inf, none, none, (0, 0)),
    ]
    for k, counts in zip(DRAFT_LENGTHS, profile.full, strict=True):
        found.append(Option(FIXED, f"K = {k}", counts, k, -np.inf, none, none, (vocabulary, vocabulary)))
    found += _sqs(profile)
    row_bits = 32.0 * profile.vocabulary + (profile.vocabulary - 1).bit_length()
    found.append(Option(HLM, "", _with_bits(profile.single[0], row_bits), 1, -np.inf, none, none, (vocabulary,) * 2))
    for column, threshold in enumerate(THRESHOLDS, 1):
        own = (profile.overlap_sampled[:, column - 1], profile.risk_sampled[:, column - 1])
        counts = _with_bits(profile.single[column], row_bits)
        found.append(Option(U_HLM, f"u ≤ {threshold:g}", counts, 1, threshold, *own, (vocabulary, vocabulary)))
        for kind, message in cut.items():
            extra = min(float(message["bias"][column]), 1.0)
            counts = _with_bits(profile.single[column], float(message["bits"][column]))
            sent = counts[:, COUNTS.index("exchanges")]
            own_cut = (
                np.minimum(own[0] + extra * sent, 1.0),
                np.minimum(own[1] + extra * sent / np.maximum(profile.lengths, 1), 1.0),
            )
            label = f"{kind}, u ≤ {threshold:g}"
            found.append(Option(CU_HLM, label, counts, 1, threshold, *own_cut, _sizes(message, column)))
    found += _colocated(profile)
    for codec, name in enumerate(CODECS if shared_seed else CODECS[:SEEDED]):
        kept = _pair(profile.kept[codec])
        for k, table in zip(DRAFT_LENGTHS, profile.planned[:, :, codec], strict=True):
            if codec == 0:
                paper = profile.split[DRAFT_LENGTHS.index(k)]
                found.append(Option(FLEXSPEC, f"K = {k}", paper, k, -np.inf, none, none, (1, 1), codec))
            found.append(Option(OURS, f"{name}, K = {k}", table[0], k, -np.inf, none, none, kept, codec))
            for column, threshold in enumerate(THRESHOLDS, 1):
                loss = (profile.overlap[:, codec, column - 1], profile.risk[:, codec, column - 1])
                label = f"{name}, K = {k}, u ≤ {threshold:g}"
                found.append(Option(OURS, label, table[column], k, threshold, *loss, kept, codec))
    return found + _blocks(profile) if block else found


def _blocks(profile: Profile) -> list[Option]:
    """Return the options whose drafts are verified by block: they need the distribution of each draft."""
    none, found = np.zeros(profile.texts), []
    down = profile.server[:, COUNTS.index("down_bits")]
    for codec, name in enumerate(CODECS[:SEEDED]):
        for k, table in zip(DRAFT_LENGTHS, profile.blocks[:, codec], strict=True):
            if codec:
                kept = _pair(profile.kept[codec])
                label = f"{name}, K = {k}, by block"
                found.append(Option(OURS, label, table, k, -np.inf, none, none, kept, codec, block=True))
            drafts = f", drafts from {name.removeprefix('lattice ')}" if codec else ""
            label, own = f"K = {k}{drafts}, by block", _at_server(table, down)
            found.append(Option(COLOCATED, label, own, k, -np.inf, none, none, (0, 0), block=True))
    return found


def _sqs(profile: Profile) -> list[Option]:
    """Return c-sqs's options: K drafts a round, or as many as a budget of bits ends."""
    none, found = np.zeros(profile.texts), []
    for number, lattice in enumerate(LATTICES):
        size = _pair(profile.kept[number + 1])
        for k, counts in zip(DRAFT_LENGTHS, profile.quantised[:, number], strict=True):
            found.append(Option(SQS, f"{lattice.name}, K = {k}", counts, k, -np.inf, none, none, size))
    for number, counts_of in zip(ADAPTIVE, profile.budgeted, strict=True):
        name, size = LATTICES[number].name, _pair(profile.kept[number + 1])
        for budget, counts in zip(BUDGETS, counts_of, strict=True):
            mean = _mean_length(counts)
            found.append(Option(SQS, f"{name}, B = {budget:g}", counts, mean, -np.inf, none, none, size))
    return found


def _colocated(profile: Profile) -> list[Option]:
    """Return a server that runs the draft model itself and streams: no bits up and no round trips.

    It may do what a device may do: draw its drafts from q, or from any quantised distribution that a device could draw
    from, in rounds as long as those of a device; and look at a draft's uncertainty, and keep the draft unverified where
    a device of ours would. So with the same times no listed device that drafts and waits in turn is faster: the theorem
    (``policy.colocated_speed``) is for lengths that are independent of what would be accepted, and the server has every
    listed rule that looks at the draft too. A shared seed would accept fewer of the same drafts.
    """
    none = np.zeros(profile.texts)
    down, found = profile.server[:, COUNTS.index("down_bits")], []

    def add(
        label: str,
        length: float,
        table: Array,
        threshold: float = -np.inf,
        losses: tuple[Array, Array] = (none, none),
        codec: int | None = None,
    ) -> None:
        counts = _at_server(table, down)
        found.append(Option(COLOCATED, label, counts, length, threshold, *losses, (0, 0), codec))

    for codec, name in enumerate(CODECS[:SEEDED]):
        drafts = f", drafts from {name.removeprefix('lattice ')}" if codec else ""
        for k, table in zip(DRAFT_LENGTHS, profile.planned[:, :, codec], strict=True):
            add(f"K = {k}{drafts}", k, table[0])
            for column, threshold in enumerate(THRESHOLDS, 1):
                loss = (profile.overlap[:, codec, column - 1], profile.risk[:, codec, column - 1])
                add(f"K = {k}{drafts}, u ≤ {threshold:g}", k, table[column], float(threshold), loss, codec)
    for number, each in zip(ADAPTIVE, profile.budgeted, strict=True):
        for budget, table in zip(BUDGETS, each, strict=True):
            add(f"drafts from {LATTICES[number].name}, B = {budget:g}", _mean_length(table), table)
    return found


def _at_server(table: Array, down_bits: Array) -> Array:
    """Return the counts of the same rounds if the server drafts, and streams tokens of ``down_bits``."""
    counts = table.copy()
    drafts, own, up, down, exchanges = map(
        COUNTS.index, ("drafts", "server_drafts", "up_bits", "down_bits", "exchanges")
    )
    counts[:, own] = counts[:, drafts]
    counts[:, [drafts, up, exchanges]] = 0.0
    counts[:, down] = down_bits
    return np.asarray(counts)


def _pair(values: Array) -> tuple[float, float]:
    return float(values[0]), float(values[1])


def _sizes(message: dict[str, Array], column: int) -> tuple[float, float]:
    return float(message["mean"][column]), float(message["p95"][column])


def _with_bits(counts: Array, bits: float) -> Array:
    """Return counts where each exchange also sends a draft of ``bits``."""
    found = counts.copy()
    found[..., COUNTS.index("up_bits")] += bits * counts[..., COUNTS.index("exchanges")]
    return np.asarray(found)


def _device(profile: Profile) -> Array:
    counts = np.zeros((profile.texts, len(COUNTS)))
    for name in ("tokens", "drafts", "skipped"):
        counts[:, COUNTS.index(name)] = profile.lengths
    return counts


def _stream(profile: Profile) -> Array:
    """Return the counts of a server that sends its tokens as they come: passes without round trips."""
    counts = profile.server.copy()
    counts[:, COUNTS.index("up_bits")] = counts[:, COUNTS.index("exchanges")] = 0.0
    return np.asarray(counts)


def _mean_length(counts: Array) -> float:
    exchanges = counts[:, COUNTS.index("exchanges")].sum()
    return float(counts[:, COUNTS.index("verified")].sum() / exchanges - 1.0)
