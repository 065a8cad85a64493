"""The options of a plan: what each row of the method registry may do, and its expected counts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from validation.arrays import Array
from validation.decoding.methods import rows
from validation.planning.certified import answer_options
from validation.planning.option import Option, at_server, exact, without_exchanges
from validation.planning.positions import LATTICES, THRESHOLDS
from validation.planning.profile import ADAPTIVE, BUDGETS, CODECS, DRAFT_LENGTHS, SEEDED, Profile
from validation.planning.rounds import COUNTS, count_table
from validation.planning.several import list_options, own_tree_options
from validation.planning.truncated import CERTIFIED_BIAS


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the options are made of: the profile of a trace, and what is measured on a sample of its positions."""

    profile: Profile
    cut: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)  # Messages of each kind of CU-HLM
    answers: Mapping[float, float] = field(default_factory=dict)  # Mean bits of a certified answer, by its limit ε
    shared_seed: bool = True
    block: bool = False

    @property
    def whole(self) -> tuple[float, float]:
        return (float(self.profile.vocabulary),) * 2

    def kept(self, codec: int) -> tuple[float, float]:
        """Return the mean and the 95th percentile of the probabilities in a message of a codec."""
        return _pair(self.profile.kept[codec])


def options(evidence: Evidence) -> list[Option]:
    """Return every option whose counts do not depend on a setting's times, by row."""
    return [option for row in rows.ROWS if row in MENU for option in MENU[row](evidence)]


def _device(known: Evidence) -> list[Option]:
    profile, n = known.profile, known.profile.lengths
    counts = count_table(tokens=n, drafts=n, skipped=n)
    return [Option(rows.DEVICE, "", counts, 0, np.inf, profile.overlap[:, 0, -1], profile.risk[:, 0, -1])]


def colocated_options(known: Evidence, codecs: Sequence[int] = (0,)) -> Iterator[Option]:
    """Yield the options of a server that runs the draft model itself, and perhaps keeps sure drafts unverified.

    An engine draws its drafts from q, which is codec 0. Tests name the other codecs too: a server that draws from any
    distribution and looks at uncertainty, as a listed device may, is no slower than a device that drafts and waits in
    turn, with the same times.
    """
    profile = known.profile
    drawn = ["", *(f", drafts from {lattice.name}" for lattice in LATTICES)]
    for codec, k, level, words, table, text, token in _rounds(known):
        if codec in codecs:
            label, counts = f"K = {k}{drawn[codec]}{words}", at_server(table, profile)
            family, message = (rows.KEEPING, codec) if level > -np.inf else (rows.COLOCATED, None)
            yield Option(family, label, counts, k, level, text, token, codec=message)
    for number, budget, table in _budgeted(known):
        if number + 1 in codecs:
            label, counts = f"drafts from {_budget_label(number, budget)}", at_server(table, profile)
            yield exact(rows.COLOCATED, label, counts, _mean_length(table), budget_bits=budget)
    for codec in codecs if known.block else ():
        label, tables = f"K = {{}}{drawn[codec]}, by block", at_server(profile.blocks[:, codec], profile)
        yield from _by_length(rows.COLOCATED, label, tables, block=True)


def _u_hlm(known: Evidence) -> Iterator[Option]:
    for column, level, text, token in _levels(known):
        yield Option(rows.U_HLM, f"u ≤ {level:g}", _with_rows(known, column), 1, level, text, token, known.whole)


def _cu_hlm(known: Evidence) -> Iterator[Option]:
    for column, level, text, token in _levels(known):
        for kind, message in known.cut.items():
            counts = _with_bits(known.profile.single[column], float(message["bits"][column]))
            bias = min(float(message["bias"][column]), 1.0) * counts[:, COUNTS.index("exchanges")]
            size = _pair([message[name][column] for name in ("mean", "p95")])
            losses = text + bias, token + bias / np.maximum(known.profile.lengths, 1)
            lost, risk = (np.minimum(loss, 1.0) for loss in losses)
            label, certified = f"{kind}, u ≤ {level:g}", kind.startswith(CERTIFIED_BIAS)
            yield Option(rows.CU_HLM, label, counts, 1, level, lost, risk, size, message=kind, certified=certified)


def _sqs(known: Evidence) -> Iterator[Option]:
    for number, lattice in enumerate(LATTICES):
        tables, kept = known.profile.quantised[:, number], known.kept(number + 1)
        yield from _by_length(rows.SQS, f"{lattice.name}, K = {{}}", tables, top_k=kept, lattice=lattice)
    for number, budget, table in _budgeted(known):
        label, lattice, kept = _budget_label(number, budget), LATTICES[number], known.kept(number + 1)
        yield exact(rows.SQS, label, table, _mean_length(table), top_k=kept, lattice=lattice, budget_bits=budget)


def _ours(known: Evidence) -> Iterator[Option]:
    for codec, k, level, words, table, text, token in _rounds(known):
        label = f"{CODECS[codec]}, K = {k}{words}"
        yield Option(rows.OURS, label, table, k, level, text, token, known.kept(codec), codec)
    for codec in range(1, SEEDED if known.block else 1):  # the server needs the distribution of each draft
        label, tables = f"{CODECS[codec]}, K = {{}}, by block", known.profile.blocks[:, codec]
        yield from _by_length(rows.OURS, label, tables, top_k=known.kept(codec), codec=codec, block=True)


MENU: dict[str, Callable[[Evidence], Sequence[Option] | Iterator[Option]]] = {
    rows.SERVER: lambda known: [exact(rows.SERVER, "one exchange a token", known.profile.server)],
    rows.STREAM: lambda known: [exact(rows.STREAM, "no round trips", without_exchanges(known.profile.server))],
    rows.COLOCATED: colocated_options,
    rows.OWN_GREEDY: lambda known: _by_length(
        rows.OWN_GREEDY, "K = {}", at_server(known.profile.greedy, known.profile)
    ),
    rows.OWN_TREE: lambda known: own_tree_options(known.profile),
    rows.DEVICE: _device,
    rows.FIXED: lambda known: _by_length(rows.FIXED, "K = {}", known.profile.full, top_k=known.whole),
    rows.GREEDY: lambda known: _by_length(rows.GREEDY, "K = {}", known.profile.greedy),
    rows.HLM: lambda known: [exact(rows.HLM, "", _with_rows(known, 0), 1, top_k=known.whole)],
    rows.U_HLM: _u_hlm,
    rows.CU_HLM: _cu_hlm,
    rows.SQS: _sqs,
    rows.FLEXSPEC: lambda known: _by_length(rows.FLEXSPEC, "K = {}", known.profile.split, top_k=(1, 1), codec=0),
    rows.SEED_TREE: lambda known: list_options(known.profile) if known.shared_seed else (),
    rows.CERTIFIED: lambda known: answer_options(known.profile, known.answers),
    rows.OURS: _ours,
}
"""The options of each row; those of a device that drafts on depend on a setting's times (``planning.streamed``)."""


def _by_length(family: str, label: str, tables: Array, **more: Any) -> Iterator[Option]:
    for k, table in zip(DRAFT_LENGTHS, tables, strict=True):
        yield exact(family, label.format(k), table, k, **more)


def _rounds(known: Evidence) -> Iterator[tuple[int, int, float, str, Array, Array, Array]]:
    """Yield codec, K, threshold and its words, counts and losses of rounds whose first draft may be skipped."""
    profile, none = known.profile, np.zeros(known.profile.texts)
    for codec in range(len(CODECS) if known.shared_seed else SEEDED):
        losses = profile.overlap[:, codec].T, profile.risk[:, codec].T
        for k, (exact_table, *tables) in zip(DRAFT_LENGTHS, profile.planned[:, :, codec], strict=True):
            yield codec, k, -np.inf, "", exact_table, none, none
            for level, table, text, token in zip(THRESHOLDS.tolist(), tables, *losses, strict=True):
                yield codec, k, level, f", u ≤ {level:g}", table, text, token


def _budgeted(known: Evidence) -> Iterator[tuple[int, float, Array]]:
    """Yield the number of the lattice, the budget and the counts of c-sqs's rounds that end with a budget of bits."""
    for number, by_budget in zip(ADAPTIVE, known.profile.budgeted, strict=True):
        for budget, table in zip(BUDGETS, by_budget, strict=True):
            yield number, budget, table


def _budget_label(number: int, budget: float) -> str:
    return f"{LATTICES[number].name}, B = {budget:g}"


def _levels(known: Evidence) -> Iterator[tuple[int, float, Array, Array]]:
    losses = known.profile.overlap_sampled.T, known.profile.risk_sampled.T
    yield from zip(range(1, 1 + len(THRESHOLDS)), THRESHOLDS, *losses, strict=True)


def _pair(values: Any) -> tuple[float, float]:
    return float(values[0]), float(values[1])


def _with_rows(known: Evidence, column: int) -> Array:
    vocabulary = known.profile.vocabulary
    return _with_bits(known.profile.single[column], 32.0 * vocabulary + (vocabulary - 1).bit_length())


def _with_bits(counts: Array, bits: float) -> Array:
    sent = counts.copy()
    sent[..., COUNTS.index("up_bits")] += bits * counts[..., COUNTS.index("exchanges")]
    return np.asarray(sent)


def _mean_length(counts: Array) -> float:
    exchanges = counts[:, COUNTS.index("exchanges")].sum()
    return float(counts[:, COUNTS.index("verified")].sum() / exchanges - 1.0)
