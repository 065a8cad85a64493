"""Read lists of the most probable tokens of two models, text by text, in constant memory.

Two sources form a pair if they have the same texts, token for token. The first pass over a pair checks it and finds the
length of the lists; a second pass gives blocks of rows.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hlmtheory.truncation.partial import PartialBoxes, partial_boxes
from validation.collection.array_files import file_mark
from validation.errors import UserError

LARGEST_ID = 2**31 - 1
MASS = 1e-4  # tolerance for the mass of a list, as in :func:`hlmtheory.truncation.partial_distance`
BLOCK_ENTRIES = 2**18  # of one model in memory at a time

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Rounding:
    """Largest error of a stored log-probability x, in nats: ``absolute`` + ``relative`` |x|."""

    absolute: float = 0.0
    relative: float = 0.0
    floored: bool = False

    def of(self, log_probability: NDArray[Any]) -> NDArray[np.float64]:
        finite = np.where(np.isfinite(log_probability), np.abs(log_probability), 0.0)
        return np.asarray(self.absolute + self.relative * finite)

    @property
    def exact(self) -> bool:
        return not (self.absolute or self.relative or self.floored)


@dataclass(frozen=True, slots=True)
class ListedText:
    """The most probable tokens at the n positions of one text, the most probable first."""

    tokens: NDArray[np.int64]
    log_probabilities: NDArray[np.float64]
    text_tokens: NDArray[np.int64]
    places: Callable[[int], str]
    answer: int | None = 0

    def from_answer(self, after: tuple[int, ...]) -> Self:
        """Return the positions of the answer alone. Given token ids, the answer begins after the last of them."""
        begin = self.answer
        if after:
            last = len(self.text_tokens) - len(after)
            wanted = np.array(after)
            found = [at for at in range(last + 1) if (self.text_tokens[at : at + len(after)] == wanted).all()]
            if not found:
                raise UserError(f"{self.places(0)}: the text does not hold the tokens {list(after)} of --answer-after.")
            begin = found[-1] + len(after)
        if begin is None:
            raise UserError(
                f"{self.places(0)} is of a chat, whose template and prompt no model wrote: say with --answer-after "
                "which token ids come before the answer, or take them too with --whole-text."
            )
        if begin >= len(self.text_tokens):
            raise UserError(f"{self.places(0)}: no position comes after the start of the answer.")
        rest = (self.tokens[begin:], self.log_probabilities[begin:], self.text_tokens[begin:])
        return type(self)(*rest, lambda row: self.places(row + begin))


@dataclass(frozen=True, slots=True)
class ListSource:
    """A file or folder with lists of one model; ``texts()`` starts to read it from the beginning."""

    path: Path
    format: str
    texts: Callable[[], Iterator[ListedText]]
    vocabulary: int | None = None
    rounding: Rounding = field(default_factory=Rounding)
    normalised: bool = True

    @property
    def label(self) -> str:
        return self.path.name

    def mark(self) -> str:
        return file_mark(self.path, self.label)


@dataclass(frozen=True, slots=True)
class Lists:
    draft_tokens: NDArray[Any]
    draft_log_probabilities: NDArray[np.float64]
    target_tokens: NDArray[Any]
    target_log_probabilities: NDArray[np.float64]
    vocabulary: int
    draft_rounding: Rounding = field(default_factory=Rounding)
    target_rounding: Rounding = field(default_factory=Rounding)

    @property
    def exact(self) -> bool:
        return self.draft_rounding.exact and self.target_rounding.exact

    def as_arguments(self) -> tuple[Any, Any, Any, Any, int]:
        target = self.target_tokens, self.target_log_probabilities
        return *target, self.draft_tokens, self.draft_log_probabilities, self.vocabulary

    def boxes(self) -> PartialBoxes:
        error = self.target_rounding.of(self.target_log_probabilities)
        draft_error = self.draft_rounding.of(self.draft_log_probabilities)
        return partial_boxes(*self.as_arguments(), target_error=error, draft_error=draft_error)


@dataclass(frozen=True, slots=True)
class ListPair:
    """Two sources with the same texts, after the first pass."""

    draft: ListSource
    target: ListSource
    vocabulary: int
    rows: int
    texts: int
    draft_k: int
    target_k: int

    def blocks(self) -> Iterator[tuple[Lists, NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]]:
        """Yield the lists of a few texts, and for each position the token, the number of the text and the position."""
        size = max(1, BLOCK_ENTRIES // max(self.draft_k, self.target_k))
        waiting: list[tuple[NDArray[Any], ...]] = []
        count = 0
        for number, (one, other) in enumerate(_together(self.draft, self.target)):
            n = len(one.tokens)
            q = one.tokens[:, : self.draft_k], one.log_probabilities[:, : self.draft_k]
            p = other.tokens[:, : self.target_k], other.log_probabilities[:, : self.target_k]
            index = np.full(n, number, np.int32), np.arange(n, dtype=np.int32)
            waiting.append((*q, *p, one.text_tokens, *index))
            count += n
            if count >= size:
                yield from self._joined(waiting, size)
                waiting, count = [], 0
        if waiting:
            yield from self._joined(waiting, size)

    def _joined(self, parts: list[tuple[NDArray[Any], ...]], size: int) -> Iterator[Any]:
        whole = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
        for start in range(0, len(whole[0]), size):
            a, x, b, y, tokens, number, position = (column[start : start + size] for column in whole)
            lists = Lists(a, x, b, y, self.vocabulary, self.draft.rounding, self.target.rounding)
            yield lists, tokens, number, position


def pair_lists(
    draft: ListSource, target: ListSource, vocabulary: int | None, progress: Progress | None = None
) -> ListPair:
    size = _vocabulary(draft, target, vocabulary)
    rows = texts = 0
    ks = [LARGEST_ID, LARGEST_ID]
    for one, other in _together(draft, target):
        for at, (source, text) in enumerate(((draft, one), (target, other))):
            _refuse_no_top_k(text, size, source.rounding if source.normalised else None)
            ks[at] = min(ks[at], text.tokens.shape[1])
        rows, texts = rows + len(one.tokens), texts + 1
        if progress:
            progress(rows, rows, "looking at the lists")
    if not rows:
        raise UserError(f"{draft.path} has no log-probabilities; ask the engine for the top k of the prompt.")
    return ListPair(draft, target, size, rows, texts, *ks)


def _vocabulary(draft: ListSource, target: ListSource, given: int | None) -> int:
    held = {source.path: source.vocabulary for source in (draft, target) if source.vocabulary is not None}
    if given is not None:
        for path, size in held.items():
            if given < size:
                raise UserError(f"--vocabulary is {given:,}, but {path} has tokens up to {size:,}; give the head's V.")
        return given
    if not held:
        raise UserError(f"{draft.path} does not say how many tokens there are; give V with --vocabulary.")
    if len(set(held.values())) > 1:
        said = " and ".join(f"{size:,} in {path}" for path, size in held.items())
        raise UserError(f"V disagrees: {said}; if both models have one tokenizer, give the head's V with --vocabulary.")
    return next(iter(held.values()))


def _together(draft: ListSource, target: ListSource) -> Iterator[tuple[ListedText, ListedText]]:
    for number, (one, other) in enumerate(zip_longest(draft.texts(), target.texts())):
        if one is None or other is None:
            short, long = (draft, target) if one is None else (target, draft)
            raise UserError(
                f"{short.path} has {number:,} texts and {long.path} has more; ask both models for the same texts."
            )
        n = min(len(one.text_tokens), len(other.text_tokens))
        known = (one.text_tokens[:n] >= 0) & (other.text_tokens[:n] >= 0)
        different = np.flatnonzero(known & (one.text_tokens[:n] != other.text_tokens[:n]))
        if len(different):
            at = int(different[0])
            raise UserError(
                f"The texts differ: at position {at} of text {number}, {draft.path} has token {one.text_tokens[at]} "
                f"and {target.path} has {other.text_tokens[at]}; give both models the same text and tokenizer."
            )
        if len(one.text_tokens) != len(other.text_tokens):
            raise UserError(
                f"Text {number} has {len(one.text_tokens):,} positions in {draft.path} and "
                f"{len(other.text_tokens):,} in {target.path}; ask both models for the same texts."
            )
        yield one, other


def _refuse_no_top_k(text: ListedText, vocabulary: int, rounding: Rounding | None) -> None:
    k = text.tokens.shape[1]
    if k > vocabulary:
        raise UserError(f"{text.places(0)} lists {k:,} tokens, but V = {vocabulary:,}; check --vocabulary.")
    if (outside := (text.tokens >= vocabulary) | (text.tokens < 0)).any():
        row, column = np.argwhere(outside)[0]
        raise UserError(
            f"{text.places(row)} has token {text.tokens[row, column]}, but V = {vocabulary:,}; check --vocabulary."
        )
    if (beyond := text.text_tokens >= vocabulary).any():
        row = int(np.argmax(beyond))
        raise UserError(
            f"{text.places(row)} is of token {text.text_tokens[row]}, but V = {vocabulary:,}; check --vocabulary."
        )
    ordered = np.sort(text.tokens, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if twice.any():
        raise UserError(f"{text.places(int(np.argmax(twice)))} lists a token twice; the file is damaged.")
    if rounding is None:
        return
    error = rounding.of(text.log_probabilities)
    least, most = np.exp(text.log_probabilities - error), np.exp(text.log_probabilities + error)
    mass, room = least.sum(axis=1), most.sum(axis=1) + (vocabulary - k) * most.min(axis=1)
    for bad, why in (
        (mass > 1 + MASS, "have a sum above 1"),
        (room < 1 - MASS, f"leave more than the other {vocabulary - k:,} tokens can hold, each at most the last"),
    ):
        if bad.any():
            row = int(np.argmax(bad))
            raise UserError(
                f"{text.places(row)}: its {k} probabilities {why} ({mass[row]:.6g} in all); they must leave a rest "
                "that fits: they are no top k of log-probabilities over the whole vocabulary."
            )
