"""Scores of a study's finished texts: similarity to answers, and likelihood.

====================== ======================================================================================
score                  meaning, for one text
====================== ======================================================================================
nats                   -log of its probability under the target model at temperature 1, a token
nats_total             the same for the whole text
similarity_reference   cosine similarity of sentence embeddings with the prompt's answer, where it has one
similarity_large       with the target model's own text from another seed
of                     hash of the text, the answer and the target model's text that were scored
====================== ======================================================================================

The similarities need the extra ``accuracy``; without it they are left out.
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
from validation.decoding.records import GenerationRecord
from validation.errors import UserError
from validation.models.pair import Pair

Scores = dict[str, dict[str, Any]]


def score_key(record: GenerationRecord) -> str:
    """Return the key of a record's scores.

    >>> score_key(GenerationRecord("HLM", "p1", "none", 1, 1.0, 1.0))
    'HLM | p1 | none'
    """
    return f"{record.method} | {record.prompt} | {record.link}"


def score(
    pair: Pair,
    prompts: Sequence[Prompt],
    records: Sequence[GenerationRecord],
    own: Sequence[GenerationRecord],
    *,
    known: Mapping[str, dict[str, Any]] | None = None,
    embed: Embed | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Scores:
    """Return the scores of texts, computed where ``known`` lacks them.

    Parameters
    ----------
    pair, prompts
        The pair and the prompts that the texts were decoded with.
    records : sequence of GenerationRecord
        Records of any methods and links.
    own : sequence of GenerationRecord
        Records of the target model alone, with another seed, one for each prompt.
    known : mapping, optional
        Earlier scores: kept, unless they belong to other texts.
    embed : callable, optional
        Function from texts to vectors; the bundled sentence model if None.
    progress : callable, optional
        Called as ``progress(done, total, text)``.

    Returns
    -------
    dict
        By :func:`score_key`, the scores in the table at the head of this module; also the known scores of other
        records.
    """
    scores: Scores = {key: dict(values) for key, values in (known or {}).items()}
    if embed is None:
        try:
            embed = load_embedding()
        except UserError:
            embed = None
    embed = embed and remembering(embed)
    wanted = {"similarity_reference": answers(prompts), "similarity_large": own_references(pair, own)}
    groups = [list(group) for _, group in groupby(records, key=lambda record: (record.method, record.link))]
    for done, group in enumerate(groups):
        if progress:
            progress(done, len(groups), f"scoring {group[0].method}")
        marks = {
            record.prompt: label(
                record.tokens,
                *(texts.get(record.prompt) for texts in wanted.values()),
            )
            for record in group
        }
        last = "similarity_large" if embed else "nats_total"
        there = {record.prompt: scores.get(score_key(record), {}) for record in group}
        done_with = {name for name, one in there.items() if last in one and one.get("of") == marks[name]}
        missing = sorted(
            (record for record in group if record.prompt not in done_with), key=lambda record: record.prompt
        )
        if not missing:
            continue
        found = perplexity(pair, prompts, missing, resamples=1)
        for record, nats in zip(missing, found.nats.tolist(), strict=True):
            each = {"nats": nats / len(record.tokens)} if record.tokens else {}
            scores[score_key(record)] = {"of": marks[record.prompt], "nats_total": nats} | each
        for name, references in wanted.items() if embed else ():
            some = [record for record in missing if record.prompt in references]
            values = _similarity(pair, some, references, embed)
            for record, value in zip(some, values.tolist(), strict=True):
                scores[score_key(record)][name] = value
    return scores


def remembering(embed: Embed) -> Embed:
    """Return the same function with a memory: it embeds each text once, though all methods share the references."""
    vectors: dict[str, Any] = {}

    def look_up(texts: Sequence[str]) -> Any:
        new = [text for text in dict.fromkeys(texts) if text not in vectors]
        vectors.update(zip(new, embed(new) if new else (), strict=True))
        return np.stack([vectors[text] for text in texts])

    return look_up


def _similarity(
    pair: Pair, records: list[GenerationRecord], references: Mapping[str, str], embed: Any
) -> np.ndarray[Any, Any]:
    return similarity(texts_of(pair, records), [references[record.prompt] for record in records], model=embed)
