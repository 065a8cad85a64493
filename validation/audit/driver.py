"""Run an audit: ask a sampler for draws, until enough is known or the draws are used up."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.audit.laws import Law
from validation.audit.session import KEPT, NOT_KEPT, UNDECIDED, Audit, AuditReport
from validation.errors import UserError

Array = NDArray[Any]
Sampler = Callable[..., Any]
Batch = tuple[int, Array]
FIRST_CALL, LARGEST_CALL = 64, 4096
"""Draws of all prompts together in the first call and in later ones; each call asks for twice as many."""


def audit_sampler(
    law: Law,
    sample: Sampler,
    *,
    draws: int = 100_000,
    depth: int = 4,
    level: float = 0.001,
    epsilon: float = 0.05,
    seed: int = 1,
    draft: Law | None = None,
    stop_early: bool = True,
    pad: int | None = None,
    progress: Callable[[Audit], None] | None = None,
) -> AuditReport:
    """Draw from a sampler with its own random numbers, and return whether it keeps the law.

    Parameters
    ----------
    law : Law
        The target's law, with the prompts.
    sample : callable
        ``sample(prompts, n, seed)`` returns for each prompt n lists of new token ids. Different seeds give independent
        draws. If it has an argument ``depth``, it is told how many tokens are looked at.
    draws : int
        The most draws, of all prompts together.
    depth, level, epsilon, draft
        See :class:`validation.audit.session.Audit`.
    seed : int
        From it comes the seed of each call.
    stop_early : bool
        Stop once the verdict is known; the verdict is as valid as with all draws.
    pad : int, optional
        The token that fills up texts behind an end-of-text token; by default the end-of-text tokens themselves.
    progress : callable, optional
        Called with the audit after each call of the sampler; ``audit.report()`` says what is known then.

    Returns
    -------
    AuditReport

    Raises
    ------
    UserError
        If the sampler returns other than asked.
    """
    audit = Audit(law, depth, level, epsilon, planned=draws, draft=draft)
    feed(audit, batches(law, sample, draws=draws, depth=depth, seed=seed, pad=pad), stop_early, progress)
    return audit.report()


def feed(
    audit: Audit, source: Iterator[Batch], stop_early: bool, progress: Callable[[Audit], None] | None = None
) -> None:
    """Give an audit the draws of a source, until they end or the verdict is known."""
    for prompt, tokens in source:
        audit.update(prompt, tokens)
        if prompt == len(audit.law.prompts) - 1:
            if progress is not None:
                progress(audit)
            if stop_early and audit.settled():
                return
    audit.close()


def batches(law: Law, sample: Sampler, *, draws: int, depth: int, seed: int, pad: int | None) -> Iterator[Batch]:
    """Yield draws (n, D) of each prompt in turn, from calls with seeds of their own."""
    given = inspect.signature(sample).parameters
    extra = {"depth": depth} if "depth" in given else {}
    count, done, size = len(law.prompts), 0, FIRST_CALL
    seeds = np.random.default_rng(seed)
    while done < draws:
        each = max(1, min(size, draws - done) // count)
        found = sample([list(one) for one in law.prompts], each, int(seeds.integers(2**31)), **extra)
        if not hasattr(found, "__len__") or not all(hasattr(texts, "__len__") for texts in found):
            raise UserError(f"The sampler returned {type(found).__name__}; for each prompt, return a list of n lists.")
        if len(found) != count:
            raise UserError(f"The sampler returned continuations for {len(found)} prompts; {count} were given.")
        for prompt, texts in enumerate(found):
            if len(texts) != each:
                raise UserError(f"The sampler returned {len(texts)} continuations of prompt {prompt}; n was {each}.")
            yield prompt, padded(law, texts, depth, pad)
        done += each * count
        size = min(2 * size, max(LARGEST_CALL, count))


def padded(law: Law, texts: Sequence[Sequence[int]], depth: int, pad: int | None = None) -> Array:
    """Return continuations (n, D), with V ("nothing") behind the end of a text.

    Behind an end-of-text token, fill tokens (``pad``, the end-of-text tokens, or negative ids) up to the end of the
    list are "nothing". Any other token there is kept, so that a text which goes on is noticed.
    """
    found = np.full((len(texts), depth), law.vocabulary, dtype=np.int64)
    ends = frozenset(law.end_tokens)
    fill = ends if pad is None else ends | {pad}
    for i, text in enumerate(texts):
        try:
            tokens = np.asarray(text, dtype=np.int64).tolist()
        except (TypeError, ValueError) as error:
            raise UserError(
                f"The sampler returned the continuation {text!r:.60}; return a list of token ids."
            ) from error
        if not isinstance(tokens, list):
            raise UserError(f"The sampler returned the continuation {text!r:.60}; return a list of token ids.")
        while tokens and tokens[-1] < 0:
            tokens.pop()
        end = next((t for t, token in enumerate(tokens) if token in ends), None)
        if end is not None and all(token in fill for token in tokens[end + 1 :]):
            tokens = tokens[: end + 1]
        elif len(tokens) < depth and not (tokens and tokens[-1] in ends):
            raise UserError(
                f"A continuation has {len(tokens)} tokens and no end-of-text token; {depth} are needed: draw longer "
                "ones, or ask for a smaller --depth."
            )
        found[i, : min(depth, len(tokens))] = tokens[:depth]
    return found


__all__ = ["KEPT", "NOT_KEPT", "UNDECIDED", "audit_sampler", "batches", "feed", "padded"]
