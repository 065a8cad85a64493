"""Collect a trace: the logits of both models on sequences sampled from the target model at temperature 1.

The logits of a batch are stored and committed together, and its samples depend only on its own seed. So memory does not
grow with the trace, and an interrupted collection resumes at the next batch and gives a bit-identical trace.
"""

from __future__ import annotations

import inspect
import itertools
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from validation.collection.fingerprint import fingerprints, finished_trace
from validation.collection.prompts import Prompt
from validation.errors import UserError
from validation.models.chat import turn_ids
from validation.models.devices import return_freed_memory, seeded_random_state
from validation.models.pair import Pair
from validation.provenance import now
from validation.trace.reader import Trace, TraceWriter, check_disk_space, open_trace
from validation.trace.remote import RemotePath, place

if TYPE_CHECKING:
    import torch

DEFAULT_POSITIONS = 20_000
DEFAULT_NEW_TOKENS = 160
DEFAULT_BATCH = 32
DEFAULT_SEED = 1
LARGEST_FLOAT16 = float(np.finfo(np.float16).max)  # 65504
READ_VALUES = 2**24  # of the widest layer while prompts are read, in parts
SCORED_ROWS = 8  # sequences of similar length that are scored together
SCORED_VALUES = 2**25  # logits in memory at a time, 128 MiB in float32

Progress = Callable[[int, int, str], None]

BEGINNING: dict[str, Any] = {"batches": 0, "texts": 0, "sampling": 0.0, "scoring_and_storing": 0.0}
"""State of a collection of which nothing is stored."""


@dataclass(frozen=True, slots=True)
class Text:
    """One finished sequence: the tokens of the prompt and the tokens that the target model generated."""

    prompt_index: int
    prompt_id: str
    tokens: list[int]
    start: int  # index of the first generated token


@dataclass(frozen=True, slots=True)
class Batch:
    """Prompts that are continued together: the unit of the random numbers, of a commit, and of a shard."""

    number: int
    chosen: list[int]  # indices of the prompts
    rows: list[int]  # their rows in the manifest
    sample_seed: int


def collect(
    pair: Pair,
    prompts: Sequence[Prompt],
    store_path: str | Path | RemotePath,
    *,
    positions: int | None = DEFAULT_POSITIONS,
    new_tokens: int = DEFAULT_NEW_TOKENS,
    batch: int = DEFAULT_BATCH,
    seed: int = DEFAULT_SEED,
    progress: Progress | None = None,
    command: str | None = None,
    fresh: bool = False,
) -> Trace:
    settings, encoded = settings_of(pair, prompts, positions=positions, new_tokens=new_tokens, batch=batch, seed=seed)
    path = place(store_path)
    if not fresh and (finished := finished_trace(path, settings)) is not None:
        return finished
    expected = len(prompts) * new_tokens if positions is None else positions + batch * new_tokens
    report = progress or (lambda done, total, text: None)
    used: dict[int, None] = {}  # indices of the prompts, in the order of use
    with TraceWriter(path, pair.vocabulary, settings=settings, fresh=fresh) as writer:
        check_disk_space(path, max(0, expected - writer.positions), pair.vocabulary)
        state = BEGINNING | writer.state
        for one in batches_of(len(prompts), settings):
            if one.number >= state["batches"] and positions is not None and writer.positions >= positions:
                break
            used |= dict.fromkeys(one.chosen)
            if one.number < state["batches"]:  # stored by an earlier run
                continue
            at = (state["texts"], len(prompts)) if positions is None else (writer.positions, positions)
            collect_batch(pair, prompts, encoded, one, new_tokens, writer, state, partial(report, *at))
            state["batches"] = one.number + 1
            writer.commit(state)
        about = {"pair": pair.describe(), "notes": list(pair.notes), "prompts": [one.plain() for one in prompts]}
        write_manifest(writer, settings, about, list(used), state, command)
    report(*(2 * (state["texts"] if positions is None else writer.positions,)), "done")
    return open_trace(path)


def settings_of(
    pair: Pair, prompts: Sequence[Prompt], *, positions: int | None, new_tokens: int, batch: int, seed: int
) -> tuple[dict[str, Any], list[list[int]]]:
    """Return all settings that determine the stored positions, and the tokens of every prompt."""
    settings = {"seed": seed, "positions": positions, "new_tokens": new_tokens, "batch": batch}
    for name, value in settings.items():
        least = 0 if name == "seed" else 1
        if value is not None and value < least:
            raise UserError(f"{name} is {value}; it must be at least {least}.")
    encoded = encode_prompts(pair, prompts, new_tokens)
    return settings | fingerprints(pair, prompts, encoded), encoded


def encode_prompts(pair: Pair, prompts: Sequence[Prompt], new_tokens: int) -> list[list[int]]:
    """Return the tokens of every prompt as :func:`ids_of` makes them, checked to fit the context."""
    if not prompts:
        raise UserError("There are no prompts; give at least one.")
    limit = pair.context - new_tokens
    if limit < 1:
        raise UserError(f"new_tokens is {new_tokens}, but the context holds {pair.context} tokens; ask for fewer.")
    encoded = []
    for prompt, ids in zip(prompts, ids_of(pair.tokenizer, prompts, chat=bool(pair.chat)), strict=True):
        if len(ids) > limit:
            origin = prompt.source or "the list given"
            raise UserError(
                f"The prompt {prompt.id!r} of {origin} is {len(ids)} tokens long, but only {limit} fit (a context of "
                f"{pair.context} less {new_tokens} new tokens); shorten the prompt or ask for fewer new tokens."
            )
        encoded.append(ids)
    return encoded


def ids_of(tokenizer: Any, prompts: Sequence[Prompt], *, chat: bool) -> list[list[int]]:
    """Return the tokens of prompts: as they are, or with ``chat`` as turns by the tokenizer's chat template."""
    if chat:
        return [turn_ids(tokenizer, prompt.messages or (("user", prompt.text),), prompt.id) for prompt in prompts]
    if talk := next((prompt for prompt in prompts if prompt.messages), None):
        raise UserError(
            f"The prompt {talk.id!r} of {talk.source} is a conversation; give --chat, which writes its turns."
        )
    return prompt_ids(tokenizer, [prompt.text for prompt in prompts])


def prompt_ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Return the tokens of prompts as the tokenizer makes them, with the begin-of-text token only if it adds one."""
    return [list(ids) for ids in tokenizer(list(texts), verbose=False).input_ids]


def batches_of(count: int, settings: Mapping[str, Any]) -> Iterator[Batch]:
    """Yield the batches of a collection in order: every prompt once, or in endless rounds if ``positions`` is given."""
    rows: dict[int, int] = {}
    numbers = itertools.count()
    for turn in itertools.count():
        order = np.random.default_rng([settings["seed"], turn]).permutation(count).tolist()
        for start in range(0, count, settings["batch"]):
            chosen = order[start : start + settings["batch"]]
            sample_seed = np.random.SeedSequence([settings["seed"], turn, start]).generate_state(1, np.uint64)[0]
            yield Batch(next(numbers), chosen, [rows.setdefault(i, len(rows)) for i in chosen], int(sample_seed))
        if settings["positions"] is None:
            return


def collect_batch(
    pair: Pair,
    prompts: Sequence[Prompt],
    encoded: list[list[int]],
    batch: Batch,
    new_tokens: int,
    writer: TraceWriter,
    state: dict[str, Any],
    report: Callable[[str], None],
) -> None:
    """Write the texts of one batch, append their logits to the store, and add the texts and seconds to ``state``."""
    texts = [
        Text(row, prompts[i].id, encoded[i], len(encoded[i])) for i, row in zip(batch.chosen, batch.rows, strict=True)
    ]
    began = time.perf_counter()
    texts = continue_texts(pair, texts, new_tokens, batch.sample_seed, report)
    middle = time.perf_counter()
    _score_and_store(pair, texts, writer, report)
    state["sampling"] += middle - began
    state["scoring_and_storing"] += time.perf_counter() - middle
    state["texts"] += len(texts)


class _Watch:
    """Logits processor that reports each step, refuses non-finite logits, and removes the padding of the head."""

    def __init__(self, pair: Pair, texts: list[Text], new_tokens: int, report: Callable[[str], None]) -> None:
        self.pair, self.texts, self.new_tokens, self.report = pair, texts, new_tokens, report
        self.step = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if self.step % 8 == 0:
            return_freed_memory()  # of the caches of earlier steps
            self.report(f"target model writes token {self.step + 1} of {self.new_tokens}")
        known = scores[:, : self.pair.vocabulary]
        _check_finite(known[:, None], "target", self.pair, self.texts, [self.step] * len(self.texts))
        self.step += 1
        if known.shape == scores.shape:
            return scores
        cut = scores.clone()
        cut[:, self.pair.vocabulary :] = -float("inf")
        return cut


def continue_texts(
    pair: Pair, texts: list[Text], new_tokens: int, seed: int, report: Callable[[str], None]
) -> list[Text]:
    """Return the sequences continued by the target model at temperature 1; torch's global random state is kept."""
    import torch
    from transformers import GenerationConfig

    width = max(text.start for text in texts)
    pad = pair.end_tokens[0] if pair.end_tokens else 0
    ids = torch.tensor([[pad] * (width - text.start) + text.tokens for text in texts], device=pair.device)
    mask = torch.tensor([[0] * (width - text.start) + [1] * text.start for text in texts], device=pair.device)
    sizes = pair.target.config.get_text_config()
    widest = getattr(sizes, "intermediate_size", None) or 4 * sizes.hidden_size
    plain = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=new_tokens,
        eos_token_id=list(pair.end_tokens) or None,
        pad_token_id=pad,
        prefill_chunk_size=max(1, READ_VALUES // (widest * len(texts))),
    )
    with seeded_random_state(pair.device, seed), torch.inference_mode():
        options = {"attention_mask": mask, "past_key_values": _roomy_cache(pair.target.config, width + new_tokens)}
        watch = [_Watch(pair, texts, new_tokens, report)]
        written = pair.target.generate(ids, generation_config=plain, logits_processor=watch, **options)
    return [
        Text(text.prompt_index, text.prompt_id, text.tokens + up_to_end(row, pair.end_tokens), text.start)
        for text, row in zip(texts, written[:, width:].tolist(), strict=True)
    ]


def _roomy_cache(config: Any, capacity: int) -> Any:
    """Return a cache with room for all tokens, where every step of transformers' own copies all keys and values.

    It is None, which means transformers' own, if a layer needs one of another kind.
    """
    from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

    class Layer(DynamicLayer):  # type: ignore[misc]
        def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
            each, before = (key_states, value_states), self.get_seq_length()
            if not self.is_initialized:
                self.lazy_initialization(*each)
                self.room = [one.new_empty((*one.shape[:-2], capacity, one.shape[-1])) for one in each]
            last = before + key_states.shape[-2]
            for room, new in zip(self.room, each, strict=True):
                room[..., before:last, :] = new
            self.keys, self.values = (room[..., :last, :] for room in self.room)
            return self.keys, self.values

    plain = all(type(layer) is DynamicLayer for layer in DynamicCache(config=config).layers)
    return Cache(layer_class_to_replicate=Layer) if plain else None


def up_to_end(tokens: list[int], ends: Collection[int]) -> list[int]:
    return next((tokens[:i] for i, token in enumerate(tokens, 1) if token in ends), tokens)


def _score_and_store(pair: Pair, texts: list[Text], writer: TraceWriter, report: Callable[[str], None]) -> None:
    texts = sorted(texts, key=lambda text: len(text.tokens))
    done = 0
    while done < len(texts):
        return_freed_memory()  # of the group before
        report(f"both models read text {done + 1} of {len(texts)}")
        group = texts[done : done + 1]
        for text in texts[done + 1 : done + SCORED_ROWS]:
            kept = len(text.tokens) - min(other.start for other in [*group, text])
            if (len(group) + 1) * kept * pair.vocabulary > SCORED_VALUES:
                break
            group.append(text)
        done += len(group)
        draft, target = (teacher_forced_logits(pair, which, group) for which in ("draft", "target"))
        for text, draft_logits, target_logits in zip(group, draft, target, strict=True):
            generated = np.array(text.tokens[text.start :], dtype=np.int32)
            index = np.full(len(generated), text.prompt_index, dtype=np.int32)
            position = np.arange(len(generated), dtype=np.int32)
            writer.append(draft_logits, target_logits, generated, index, position)


def teacher_forced_logits(pair: Pair, which: str, texts: list[Text]) -> list[NDArray[np.float16]]:
    """Return the logits of one model at every generated position of each sequence, from one forward pass."""
    first = min(text.start for text in texts) - 1  # the last prompt token predicts the first new token
    logits = logits_from(getattr(pair, which), [text.tokens for text in texts], first)
    found = []
    for text, row in zip(texts, logits, strict=True):
        kept = row[text.start - 1 - first : len(text.tokens) - 1 - first, : pair.vocabulary].float()
        _check_finite(kept[None], which, pair, [text], [0])
        found.append(kept.half().cpu().numpy())
    return found


def logits_from(model: Any, texts: list[list[int]], first: int) -> torch.Tensor:
    """Return the logits behind each token from ``first`` on, from one pass; causal attention sees no right padding."""
    import torch

    width = max(map(len, texts)) - 1  # the last token is predicted, not an input
    ids = torch.tensor([text[:-1] + [0] * (width + 1 - len(text)) for text in texts], device=model.device)
    sliced = "logits_to_keep" in inspect.signature(model.forward).parameters
    options: dict[str, Any] = {"logits_to_keep": width - first} if sliced else {}
    with torch.inference_mode():
        logits: torch.Tensor = model(ids, use_cache=False, **options).logits
    return logits if sliced else logits[:, first:]


def _check_finite(logits: torch.Tensor, which: str, pair: Pair, texts: list[Text], first: list[int]) -> None:
    largest = logits.abs().amax(dim=-1)  # a NaN stays a NaN
    fits = largest <= LARGEST_FLOAT16
    if bool(fits.all()):
        return
    row, column = (~fits).nonzero()[0].tolist()
    value = float(largest[row, column])
    what = f"of magnitude {value:.6g}, more than float16 holds (65504)" if np.isfinite(value) else f"that is {value}"
    name = pair.draft_name if which == "draft" else pair.target_name
    raise UserError(
        f"The {which} model ({name}) gives a logit {what}, at prompt {texts[row].prompt_id!r}, "
        f"position {first[row] + column}; check its weights, or run it with dtype float32."
    )


def write_manifest(
    writer: TraceWriter,
    settings: Mapping[str, Any],
    about: Mapping[str, Any],
    used: Sequence[int],
    state: Mapping[str, Any],
    command: str | None,
) -> None:
    rounded = {name: round(state[name], 3) for name in ("sampling", "scoring_and_storing")}
    spent = max(1e-9, state["sampling"] + state["scoring_and_storing"])
    pace = round(writer.positions / spent, 1)
    prompts, notes = about["prompts"], list(about["notes"])
    if state["texts"] != len(prompts):
        notes.append(f"{state['texts']} texts were drawn from {len(used)} of {len(prompts)} prompts.")
    writer.manifest |= {name: settings[name] for name in ("seed", "new_tokens", "batch")} | {"texts": state["texts"]}
    writer.manifest |= {
        "command": command,
        "created": now(),
        "pair": about["pair"],
        "speed": {"seconds": round(spent, 3), **rounded, "positions_per_second": pace},
        "notes": notes,
        "prompts": [prompts[i] for i in used],
    }
