"""The controls of the audit: fourteen defects that it must find, and exact samplers that it must not accuse.

Both models are tables over five tokens, so the law of every text is known. The samplers are the project's own loop with
its own random numbers: with one defect built in, or with a lossless method as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.validation.audit.defects import DEFECTS, decode_by_matching, decode_with
from tests.validation.tiny_texts import distance, exact_law, nodes, table_pair
from validation.audit import Audit, AuditReport, Processors, TableLaw, audit_sampler
from validation.audit.driver import padded
from validation.collection.prompts import Prompt
from validation.decoding.defect_laws import defective_law, processed
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import (
    BlockVerification,
    Dssd,
    FixedLength,
    FlexSpec,
    Lookahead,
    PromptLookup,
)
from validation.decoding.methods.quantized import AllocatedSqs, BudgetedCSqs, BudgetedSqs, CSqs, DenseQs, KSqs
from validation.decoding.methods.shared_seed import (
    SharedSeed,
    SharedSeedSkipping,
    SharedSeedStreamed,
    SharedSeedTree,
)
from validation.decoding.methods.single_draft import CloudOnly, Hlm, RandHlm, TargetOnly
from validation.decoding.methods.trees import DraftTreeSd, NgramLookahead, SureTreeSd
from validation.decoding.session import Draft, Message
from validation.decoding.trees import DraftTree

Array = NDArray[Any]
Sampler = Callable[[Sequence[Sequence[int]], int, int], list[list[list[int]]]]

VOCABULARY, DEPTH, END, DRAFTS = 5, 4, 0, 2
PROMPTS = [[1, 2], [1, 3]]
"""The tables do not see a prompt's first token; the second chooses the branch."""
LEVEL, BATCH = 0.001, 4_096


def tables(seed: int = 1) -> tuple[Array, Array]:
    """Return the distributions of a draft and a target model that agree in part."""
    rng = np.random.default_rng(seed)
    target = rng.dirichlet(np.full(VOCABULARY, 0.8), nodes(VOCABULARY, DEPTH + 3))
    return 0.6 * rng.dirichlet(np.full(VOCABULARY, 0.8), len(target)) + 0.4 * target, target


def branch(table: Array, token: int) -> Array:
    """Return the rows of a table after a first token, as a table."""
    vocabulary, found, start, size = table.shape[1], [], 1, 1
    while start + vocabulary * size <= len(table):
        found.append(table[start + token * size : start + (token + 1) * size])
        start, size = start + vocabulary * size, vocabulary * size
    return np.concatenate(found)


def law(
    table: Array, temperature: float, top_p: float, prompts: Sequence[list[int]] = PROMPTS, min_p: float = 0.0
) -> TableLaw:
    """Return a table's law at a temperature, top-p and min-p, with prompts."""
    rows = np.stack([branch(table, prompt[-1]) for prompt in prompts])
    made = Processors(temperature, top_p=top_p, min_p=min_p)
    return TableLaw(rows, [list(prompt) for prompt in prompts], (END,), made)


@dataclass(frozen=True)
class WithoutTable:
    """A law that gives rows but no table, as a model does: so its mechanisms are named without any enumeration."""

    table: TableLaw

    def __getattr__(self, name: str) -> Any:
        if name not in ("vocabulary", "prompts", "end_tokens", "next_rows", "rows_without"):
            raise AttributeError(name)
        return getattr(self.table, name)


def from_loop(run: Callable[..., Any], seed: int = 1) -> Sampler:
    """Return a sampler that continues prompts with a function that takes what :func:`decode` takes."""
    pair = table_pair(*tables(seed), end_tokens=(END,))

    def sample(prompts: Sequence[Sequence[int]], n: int, seed: int) -> list[list[list[int]]]:
        asked = [
            Prompt(f"{c}/{i}", " ".join(map(str, one)), "control") for c, one in enumerate(prompts) for i in range(n)
        ]
        rows = run(pair, asked, new_tokens=DEPTH, batch=BATCH, seed=seed)
        return [[row.tokens for row in rows[c * n : (c + 1) * n]] for c in range(len(prompts))]

    return sample


def marginal(law: dict[tuple[int, ...], float], depth: int) -> dict[tuple[int, ...], float]:
    """Return the law of a text's first ``depth`` tokens."""
    found: dict[tuple[int, ...], float] = {}
    for text, mass in law.items():
        found[text[:depth]] = found.get(text[:depth], 0.0) + mass
    return found


def true_distance(defect: str, seed: int) -> float:
    """Return how far the law of a defect is from the target's, in the mean over prompts."""
    info, found = DEFECTS[defect], []
    setting = {"temperature": info.temperature, "top_p": info.top_p}
    for prompt in PROMPTS:
        q, p = (branch(table, prompt[-1]) for table in tables(seed))
        other, right_p = {}, processed(p, **setting)
        if info.min_p:
            other = {"verified": right_p}
            p = right_p = TableLaw(p, processors=Processors(min_p=info.min_p)).table[0]
        wrong = defective_law(defect, q, p, DEPTH, frozenset({END}), max_draft_length=DRAFTS, **setting, **other)
        right = exact_law(right_p, DEPTH, (END,))
        found.append(distance(wrong, right))
    return float(np.mean(found))


def audit_defect(defect: str, seed: int, draws: int, *, as_table: bool = True) -> AuditReport:
    """Audit one defect on the pair of a seed until it is found and named."""
    info, (draft, target) = DEFECTS[defect], tables(seed)
    laws: list[Any] = [
        law(table, info.temperature, info.top_p, min_p=min_p) for table, min_p in ((target, info.min_p), (draft, 0.0))
    ]
    if not as_table:
        laws = [WithoutTable(one) for one in laws]
    sampler = from_loop(partial(decode_with, defect, max_draft_length=DRAFTS), seed)
    asked: dict[str, Any] = {"draws": draws, "depth": DEPTH, "level": LEVEL, "epsilon": 0.001, "seed": seed}
    return audit_sampler(laws[0], sampler, draft=laws[1], **asked)


# ------------------------------------------------------------------------------------------ the exact samplers


class _Silent:
    """A method that sends empty messages; what is sent does not change a text, and encoding it takes half the time."""

    def message(self, drafts: list[Draft]) -> Message:
        return Message(0.0, b"")

    def tree_message(self, tree: DraftTree) -> Message:
        return Message(0.0, b"")


def silent(method: type[Method], *arguments: Any, **options: Any) -> Method:
    """Return a method of a class, with empty messages."""
    return type(method.__name__, (_Silent, method), {})(*arguments, **options)


@dataclass(frozen=True)
class Exact:
    """An exact sampler: a name, a method (none for sample-and-match), and the setting."""

    name: str
    make: Callable[[], Method] | None
    temperature: float = 1.0
    top_p: float = 1.0

    def sampler(self) -> Sampler:
        """Return the sampler."""
        setting = {"temperature": self.temperature, "top_p": self.top_p}
        if self.make is None:
            return from_loop(partial(decode_by_matching, max_draft_length=DRAFTS, **setting))
        make = self.make

        def run(pair: Any, prompts: Any, **options: Any) -> Any:
            return decode(pair, prompts, make(), **setting, **options)

        return from_loop(run)


SETTINGS = ((1.0, 1.0), (0.7, 1.0), (1.0, 0.9), (0.0, 1.0))
SMALL: dict[str, Any] = {"resolution": 6, "budget_bits": 40.0}
STEERED: dict[str, Any] = {"learning_rate": 0.2, "epsilon": 0.2, **SMALL}
LOSSLESS: tuple[tuple[str, Callable[[], Method] | None], ...] = (
    ("sample-and-match", None),
    ("HLM", lambda: silent(Hlm)),
    ("Rand-HLM, nothing skipped", lambda: silent(RandHlm, 0.0)),
    ("DSSD", lambda: silent(Dssd, DRAFTS)),
    ("FlexSpec exact", lambda: silent(FlexSpec, "exact", max_draft_length=3)),
    ("FlexSpec linear", lambda: silent(FlexSpec, "linear", max_draft_length=3)),
    ("large only", lambda: silent(TargetOnly)),
    ("cloud only", lambda: silent(CloudOnly)),
    ("prompt lookup", lambda: silent(PromptLookup, 3, 2)),
    ("Lookahead", lambda: silent(Lookahead, DRAFTS)),
    ("Dense QS", lambda: silent(DenseQs, **SMALL)),
    ("K-SQS", lambda: silent(KSqs, 3, **SMALL)),
    ("C-SQS", lambda: silent(CSqs, 0.1, **STEERED)),
    ("Budgeted SQS", lambda: silent(BudgetedSqs, epsilon=0.2, **SMALL)),
    ("Budgeted C-SQS", lambda: silent(BudgetedCSqs, 0.1, **STEERED)),
    ("SQS allocated", lambda: silent(AllocatedSqs, 12.0, budget_bits=40.0)),
    ("draft tree", lambda: silent(DraftTreeSd, (2, 2))),
    ("n-gram Lookahead", lambda: silent(NgramLookahead, 3, 3, 2)),
)
SHARED: tuple[tuple[str, Callable[[], Method]], ...] = (
    ("shared seed", lambda: SharedSeed(DRAFTS)),
    ("shared seed streamed", SharedSeedStreamed),
    ("shared seed skipping, nothing skipped", lambda: SharedSeedSkipping(-np.inf, DRAFTS, draws=None)),
    ("shared seed tree", lambda: SharedSeedTree((2, 2))),
)
EXACT: tuple[Exact, ...] = (
    *(Exact("fixed K", lambda: silent(FixedLength, DRAFTS), *setting) for setting in SETTINGS),
    *(Exact(name, make, *SETTINGS[i % len(SETTINGS)]) for i, (name, make) in enumerate(LOSSLESS)),
    *(Exact(name, make, *SETTINGS[i % 3]) for i, (name, make) in enumerate(SHARED)),  # greedy texts need no seed
    Exact("block verification", lambda: silent(BlockVerification, DRAFTS)),
    Exact("draft tree, sure", lambda: silent(SureTreeSd, (2, 2))),
)
"""Fixed K at every setting; the other lossless methods of the registry and sample-and-match, the settings in turn."""
SKIPS_ALL = "shared seed skipping, everything skipped"


def accusations(exact: Exact, seed: int, audits: int, each: int) -> int:
    """Audit an exact sampler some times, with new draws each time, and count the accusations."""
    target = law(tables()[1], exact.temperature, exact.top_p, PROMPTS[:1])
    (found,) = exact.sampler()(target.prompts, audits * each, seed)
    accused = 0
    for draws in padded(target, found, DEPTH).reshape(audits, each, DEPTH):
        audit = Audit(target, DEPTH, LEVEL)
        audit.update(0, draws)
        accused += audit.found
    return accused


def audit_shared(name: str, make: Callable[[], Method], epsilon: float, seed: int) -> AuditReport:
    """Audit a method by a shared seed until the verdict is known: the law is kept to within epsilon, or it is not."""
    target = law(tables()[1], 1.0, 1.0)
    return audit_sampler(target, Exact(name, make).sampler(), depth=DEPTH, level=LEVEL, epsilon=epsilon, seed=seed)


def distance_of_models() -> float:
    """Return the total variation between texts of the draft and of the target model, in the mean over prompts."""
    found = []
    for prompt in PROMPTS:
        q, p = (exact_law(branch(table, prompt[-1]), DEPTH, (END,)) for table in tables())
        found.append(distance(q, p))
    return float(np.mean(found))
