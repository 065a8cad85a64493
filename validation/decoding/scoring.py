"""What is computed of a study's texts when they are all there: likeness to answers, and likelihood.

====================== ======================================================================================
score                  meaning, of one text
====================== ======================================================================================
nats                   -log of its probability under the large model at temperature 1, a token
nats_total             the same of the whole text
similarity_reference   cosine similarity of sentence embeddings with the prompt's answer, where it has one
similarity_large       with what the large model writes by itself, given another seed
of                     which text, answer and text of the large model it is of
====================== ======================================================================================

The similarities take the extra ``accuracy``; without it they are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from validation.collection.prompts import Prompt
from validation.decoding.accuracy import (
    Embed,
    answers,
    load_embedding,
    own_references,
    perplexity,
    similarity,
    texts_of,
)
from validation.decoding.random_streams import label
from validation.decoding.records import Row
from validation.errors import UserError
from validation.models.pair import Pair

Scores = dict[str, dict[str, Any]]


def score_key(row: Row) -> str:
    """What a row's scores are filed under.

    >>> score_key(Row("HLM", "p1", "none", 1, 1.0, 1.0))
    'HLM | p1 | none'
    """
    return f"{row.method} | {row.prompt} | {row.link}"


def score(
    pair: Pair,
    prompts: Sequence[Prompt],
    rows: Sequence[Row],
    own: Sequence[Row],
    *,
    known: Mapping[str, dict[str, Any]] | None = None,
    embed: Embed | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Scores:
    """Score texts.

    Parameters
    ----------
    pair, prompts
        That the texts were decoded with.
    rows : sequence of Row
        Of any methods and links.
    own : sequence of Row
        Of the large model alone, with another seed, one a prompt.
    known : mapping, optional
        Scores that are there already: kept, but for those of other texts.
    embed : callable, optional
        From texts to vectors; the bundled sentence model if None.
    progress : callable, optional
        Called as ``progress(done, total, text)``.

    Returns
    -------
    dict
        By :func:`score_key` the scores of the table at the head of this module; known ones of other rows, too.
    """
    scores: Scores = {key: dict(values) for key, values in (known or {}).items()}
    if embed is None:
        try:
            embed = load_embedding()
        except UserError:
            embed = None
    embed = embed and remembering(embed)
    wanted = {"similarity_reference": answers(prompts), "similarity_large": own_references(pair, own)}
    groups = [list(group) for _, group in groupby(rows, key=lambda row: (row.method, row.link))]
    for done, group in enumerate(groups):
        if progress:
            progress(done, len(groups), f"scoring {group[0].method}")
        marks = {row.prompt: label(row.tokens, *(texts.get(row.prompt) for texts in wanted.values())) for row in group}
        last = "similarity_large" if embed else "nats_total"
        there = {row.prompt: scores.get(score_key(row), {}) for row in group}
        done_with = {name for name, one in there.items() if last in one and one.get("of") == marks[name]}
        missing = sorted((row for row in group if row.prompt not in done_with), key=lambda row: row.prompt)
        if not missing:
            continue
        found = perplexity(pair, prompts, missing, resamples=1)
        for row, nats in zip(missing, found.nats.tolist(), strict=True):
            each = {"nats": nats / len(row.tokens)} if row.tokens else {}
            scores[score_key(row)] = {"of": marks[row.prompt], "nats_total": nats} | each
        for name, references in wanted.items() if embed else ():
            some = [row for row in missing if row.prompt in references]
            values = _similarity(pair, some, references, embed)
            for row, value in zip(some, values.tolist(), strict=True):
                scores[score_key(row)][name] = value
    return scores


def remembering(embed: Embed) -> Embed:
    """The same function, which embeds each text once: references serve all methods, lossless ones write equal texts."""
    vectors: dict[str, Any] = {}

    def look_up(texts: Sequence[str]) -> Any:
        new = [text for text in dict.fromkeys(texts) if text not in vectors]
        vectors.update(zip(new, embed(new) if new else (), strict=True))
        return np.stack([vectors[text] for text in texts])

    return look_up


def _similarity(pair: Pair, rows: list[Row], references: Mapping[str, str], embed: Any) -> np.ndarray[Any, Any]:
    return similarity(texts_of(pair, rows), [references[row.prompt] for row in rows], model=embed)
