"""The controls of the audit: defects that it must find, and exact samplers that it must not accuse.

Both models are tables over five tokens. The samplers are the project's own loop with its own random numbers: with one
defect built in, or with a lossless method as it is.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tests.validation.audit.defects import DEFECTS, decode_with
from tests.validation.tiny_texts import distance, exact_law, node, nodes, table_pair
from validation.audit import MECHANISMS, Audit, AuditReport, Processors, TableLaw, audit_sampler
from validation.audit.driver import padded
from validation.audit.mechanisms import local_likelihoods
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.catalogue import METHODS
from validation.decoding.methods.quantized import KSqs
from validation.decoding.methods.registry import Fitted, Setup
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed, SharedSeedTree
from validation.decoding.methods.single_draft import RandHlm
from validation.decoding.session import Step

Array = np.ndarray
Sampler = Callable[[Sequence[Sequence[int]], int, int], list[list[list[int]]]]

VOCABULARY, DEPTH, END, DRAFTS = 5, 3, 0, 2
PROMPTS = [[1, 2], [1, 3]]
"""The tables do not see a prompt's first token; the second chooses the branch."""
LEVEL, BATCH = 0.001, 4_096


def tables(seed: int = 1) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    target = rng.dirichlet(np.full(VOCABULARY, 0.8), nodes(VOCABULARY, DEPTH + 3))
    return 0.6 * rng.dirichlet(np.full(VOCABULARY, 0.8), len(target)) + 0.4 * target, target


def branch(table: Array, token: int) -> Array:
    vocabulary, found, start, size = table.shape[1], [], 1, 1
    while start + vocabulary * size <= len(table):
        found.append(table[start + token * size : start + (token + 1) * size])
        start, size = start + vocabulary * size, vocabulary * size
    return np.concatenate(found)


def law(
    table: Array, temperature: float, top_p: float, prompts: Sequence[list[int]] = PROMPTS, min_p: float = 0.0
) -> TableLaw:
    rows = np.stack([branch(table, prompt[-1]) for prompt in prompts])
    made = Processors(temperature, top_p=top_p, min_p=min_p)
    return TableLaw(rows, [list(prompt) for prompt in prompts], (END,), made)


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


def by_method(make: Callable[[], Method], temperature: float = 1.0, top_p: float = 1.0) -> Sampler:
    return from_loop(
        lambda pair, prompts, **options: decode(
            pair, prompts, make(), temperature=temperature, top_p=top_p, times=(1.0, 1.0), **options
        )
    )


def laws_of_defect(defect: str, seed: int) -> list[TableLaw]:
    info, (draft, target) = DEFECTS[defect], tables(seed)
    return [
        law(table, info.temperature, info.top_p, min_p=min_p) for table, min_p in ((target, info.min_p), (draft, 0.0))
    ]


def distance_of_defect(defect: str, seed: int) -> float:
    """Return the total variation that a defect makes over all texts, in the mean over the prompts."""
    laws, found = laws_of_defect(defect, seed), []
    every = [text for size in range(1, DEPTH + 1) for text in itertools.product(range(VOCABULARY), repeat=size)]
    texts = padded(laws[0], [text for text in every if len(text) == DEPTH or text[-1] == END], DEPTH)
    texts = np.unique(texts, axis=0)
    label = {"draft_temperature": "run", "draft_before_top_p": "run", "min_p_dropped": "drafts"}.get(defect, "")
    for c in range(len(PROMPTS)):
        laws_of_texts = dict(local_likelihoods(*laws, c, texts, DEPTH))
        right = laws_of_texts["", ""]
        if defect in MECHANISMS:
            wrong = laws_of_texts[defect, f"K = {DRAFTS} {label}"]
        else:
            by_text = law_by_block(*(one.table[c] for one in laws))
            wrong = np.array([by_text.get(tuple(text[text < VOCABULARY].tolist()), 0.0) for text in texts])
        np.testing.assert_allclose([right.sum(), wrong.sum()], 1.0)
        found.append(0.5 * float(np.abs(wrong - right).sum()))
    return float(np.mean(found))


def law_by_block(target: Array, draft: Array) -> dict[tuple[int, ...], float]:
    """Return the law if a block passes with its weight, and the residual of token by token follows it."""
    mass: defaultdict[tuple[int, ...], float] = defaultdict(float, {(): 1.0})
    for length in range(DEPTH):
        for text in [text for text in mass if len(text) == length and END not in text]:
            here, most = mass.pop(text), min(DRAFTS, DEPTH - length)
            for full in itertools.product(range(VOCABULARY), repeat=most):
                drafts = full[: full.index(END) + 1] if END in full else full
                if any(full[len(drafts) :]):
                    continue  # what follows an end is not drafted
                places = [node(*text, *drafts[:i], vocabulary=VOCABULARY) for i in range(len(drafts) + 1)]
                chance, weights = here, [1.0]
                for token, p, q in zip(drafts, target[places], draft[places], strict=False):
                    weights.append(min(1.0, weights[-1] * p[token] / q[token]))
                    chance *= q[token]
                for i in reversed(range(len(drafts) + 1)):
                    after, part = (*text, *drafts[:i]), chance * weights[i]
                    chance -= part
                    if i == len(drafts) and (END in drafts or len(after) == DEPTH):
                        mass[after] += part
                        continue
                    row = target[places[i]] if i == len(drafts) else np.maximum((target - draft)[places[i]], 0.0)
                    for token in range(VOCABULARY):
                        mass[*after, token] += part * float(row[token] / row.sum())
    return mass


def audit_defect(defect: str, seed: int, draws: int) -> AuditReport:
    laws = laws_of_defect(defect, seed)
    sampler = from_loop(partial(decode_with, defect, max_draft_length=DRAFTS), seed)
    asked: dict[str, Any] = {"draws": draws, "depth": DEPTH, "level": LEVEL, "epsilon": 0.001, "seed": seed}
    return audit_sampler(laws[0], sampler, draft=laws[1], **asked)


SETTINGS = ((1.0, 1.0), (0.7, 1.0), (1.0, 0.9), (0.0, 1.0))
SETUP = Setup(Fitted(0.8, -0.05, 0.5, 0.5, 0.7, 0.5, 3), DRAFTS)
LOSSY = ("small only", "U-HLM", "CU-HLM", "Rand-HLM", "printed acceptance", "DSSD certified")
SHARED: dict[str, Callable[[], Method]] = {
    "shared seed": lambda: SharedSeed(DRAFTS),
    "shared seed streamed": SharedSeedStreamed,
    "shared seed tree": lambda: SharedSeedTree((2, 2)),
}
EXACT: dict[str, Callable[[], Method]] = {
    name: partial(info.default, SETUP)
    for name, info in METHODS.items()
    if info.default is not None and not any(part in name for part in LOSSY)
} | {"Rand-HLM, nothing skipped": lambda: RandHlm(0.0), "K-SQS": lambda: KSqs(3, resolution=6, budget_bits=40.0)}
"""The methods of the registry that verify every token by the exact rule; a plan need not."""


class SkipsAll(SharedSeed):
    """The negative control: every draft is kept without the server."""

    def skip(self, step: Step, tokens: Array) -> Array:
        return np.ones(len(tokens), dtype=bool)


def accusations(name: str, temperature: float, top_p: float, seed: int, audits: int, each: int) -> int:
    target = law(tables()[1], temperature, top_p, PROMPTS[:1])
    (found,) = by_method(EXACT[name], temperature, top_p)(target.prompts, audits * each, seed)
    accused = 0
    for draws in padded(target, found, DEPTH).reshape(audits, each, DEPTH):
        audit = Audit(target, DEPTH, LEVEL)
        audit.update(0, draws)
        accused += audit.found
    return accused


def audit_shared(make: Callable[[], Method], epsilon: float, seed: int) -> AuditReport:
    """Audit a method by a shared seed until the verdict is known: the law is kept to within epsilon, or it is not."""
    target = law(tables()[1], 1.0, 1.0)
    return audit_sampler(target, by_method(make), depth=DEPTH, level=LEVEL, epsilon=epsilon, seed=seed)


def distance_of_models() -> float:
    found = []
    for prompt in PROMPTS:
        q, p = (exact_law(branch(table, prompt[-1]), DEPTH, (END,)) for table in tables())
        found.append(distance(q, p))
    return float(np.mean(found))
