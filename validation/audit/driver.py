"""Run an audit: ask a sampler for draws, until enough is known or the draws are used up."""

import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from validation.arrays import Array
from validation.audit.laws import Law
from validation.audit.report import AuditReport
from validation.audit.session import Audit
from validation.errors import UserError
from validation.sampler_process import raised

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
    law, depth, level, epsilon, draft
        The target's law with its prompts, and as in :class:`validation.audit.session.Audit`.
    sample : callable
        ``sample(prompts, n, seed)`` returns for each prompt n lists of new token ids; different seeds give independent
        draws. An argument ``depth`` says how many tokens are looked at.
    draws : int
        The most draws, of all prompts together.
    stop_early : bool
        Stop once the verdict is known; it is as valid as with all draws.
    pad : int, optional
        The token that fills up texts behind an end-of-text token; by default the end-of-text tokens themselves.
    """
    audit = Audit(law, depth, level, epsilon, planned=draws, draft=draft)
    feed(audit, batches(law, sample, draws=draws, depth=depth, seed=seed, pad=pad), stop_early, progress)
    return audit.report()


def feed(
    audit: Audit, source: Generator[Batch, None, None], stop_early: bool, progress: Callable[[Audit], None] | None
) -> None:
    """Give an audit the draws of a source, until they end or the verdict is known; then close the source."""
    with closing(source):
        try:
            for prompt, tokens in source:
                audit.update(prompt, tokens)
                if prompt == len(audit.law.prompts) - 1:
                    if progress is not None:
                        progress(audit)
                    if stop_early and audit.settled():
                        return
        except Exception as error:
            if not audit.found:
                raise
            audit.notes.append(f"The draws ended early: {error!r}")
        audit.close()


def batches(
    law: Law, sample: Sampler, *, draws: int, depth: int, seed: int, pad: int | None
) -> Generator[Batch, None, None]:
    """Yield draws (n, D) of each prompt in turn, from calls with seeds of their own; at the end, close the sampler."""
    extra = {"depth": depth} if "depth" in inspect.signature(sample).parameters else {}
    count, done, size = len(law.prompts), 0, FIRST_CALL
    seeds, name = np.random.default_rng(seed), getattr(sample, "__name__", "The sampler")
    try:
        while done < draws:
            each = max(1, min(size, draws - done) // count)
            try:
                returned = sample([list(one) for one in law.prompts], each, int(seeds.integers(2**31)), **extra)
            except BaseException as error:
                if isinstance(error, (Exception, KeyboardInterrupt)):
                    raise
                raise UserError(raised(name, error)) from error  # SystemExit would end the audit as if all were well
            for prompt, texts in enumerate(_returned(returned, count, each, name)):
                yield prompt, padded(law, texts, depth, pad, name)
            done += each * count
            size = min(2 * size, max(LARGEST_CALL, count))
    finally:
        getattr(sample, "close", lambda: None)()


def _returned(found: Any, count: int, each: int, name: str) -> Any:
    if not hasattr(found, "__len__") or not all(hasattr(texts, "__len__") for texts in found):
        raise UserError(f"{name} returned {type(found).__name__}; for each prompt, return a list of n lists.")
    if len(found) != count:
        raise UserError(f"{name} returned continuations for {len(found)} prompts; {count} were given.")
    for prompt, texts in enumerate(found):
        if len(texts) != each:
            raise UserError(f"{name} returned {len(texts)} continuations of prompt {prompt}; n was {each}.")
    return found


def padded(
    law: Law, texts: Sequence[Sequence[int]], depth: int, pad: int | None = None, name: str = "The sampler"
) -> Array:
    """Return continuations (n, D), with V ("nothing") behind the end of a text."""
    continuations = np.full((len(texts), depth), law.vocabulary, dtype=np.int64)
    ends = frozenset(law.end_tokens)
    fill = ends if pad is None else ends | {pad}
    for i, text in enumerate(texts):
        tokens = _ids(text, law.vocabulary, name)
        while tokens and tokens[-1] < 0:
            tokens.pop()
        end = next((t for t, token in enumerate(tokens) if token in ends), None)
        if end is not None and all(token in fill for token in tokens[end + 1 :]):
            tokens = tokens[: end + 1]
        elif len(tokens) < depth and not (tokens and tokens[-1] in ends):
            raise UserError(
                f"{name}: a continuation has {len(tokens)} tokens and no end-of-text token; {depth} are needed: draw "
                "longer ones, or ask for a smaller --depth."
            )
        continuations[i, : min(depth, len(tokens))] = tokens[:depth]
    return continuations


def _ids(text: Any, vocabulary: int, name: str) -> list[int]:
    wrong = f"{name} returned the continuation {text!r:.60}; return a list of token ids."
    try:
        tokens = np.asarray(text)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(wrong) from error
    if tokens.ndim != 1 or (tokens.size and tokens.dtype.kind not in "iuO"):
        raise UserError(wrong)
    ids: list[Any] = tokens.tolist()
    if any(type(token) is not int for token in ids):
        raise UserError(wrong)
    if any(token > vocabulary for token in ids):
        raise UserError(f"{name} returned a token outside 0..{vocabulary - 1}; use the target's tokenizer.")
    return ids
