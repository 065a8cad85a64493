"""A baseline for temperature perturbation: uncertainty by MC dropout (u-hlm III-A, (7); cu-hlm IV-A, (9)).

The draft model reads the texts of a trace 20 times at dropout rates in [0, 0.1]; u counts the runs whose token differs
from the draft d. Only that event, of probability 1 - q_d, is drawn. The papers' paraphrases are not computed.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from validation.arrays import Array
from validation.claims.instances import InstanceDraws, row_arrays
from validation.collection.collect import SCORED_ROWS, SCORED_VALUES, logits_from, prompt_ids
from validation.errors import UserError
from validation.models.devices import seeded_random_state
from validation.models.pair import Pair
from validation.trace.reader import ARRAYS, Trace, TraceChunk

DROPOUT = "MC dropout"
RUNS = 20
LARGEST_RATE = 0.1
DEFAULT_POSITIONS = 2_000
# The names of the two blocks of a layer in transformers.
BLOCKS = frozenset({"self_attn", "attn", "attention", "mlp", "feed_forward"})


@dataclass(frozen=True, slots=True)
class Baselines:
    """The result of :func:`baseline_measures` at n positions."""

    rows: Array
    drafts: Array
    uncertainty: dict[str, Array]


@dataclass(frozen=True, slots=True)
class _Reading:
    tokens: list[int]
    at: Array  # indices of the predicted tokens, from 1
    drafts: Array
    place: int  # of its first value in the answer


def dropout_uncertainty(
    model: Any,
    ids: Sequence[Sequence[int]],
    positions: Sequence[Iterable[int]],
    drafts: Sequence[Iterable[int]],
    *,
    rates: Sequence[float] | None = None,
    rng: np.random.Generator,
) -> Array:
    """Return the uncertainty by MC dropout, (positions of all texts,): the share of passes that differ from the draft.

    Dropout modules (GPT-2, GPT-Neo) drop at the pass's rate. A model without any (Llama) drops the outputs of attention
    and MLP blocks, the place of GPT-2's residual dropout. ``positions`` are indices from 1 of the tokens at which the
    ``drafts`` are; ``rates`` are by default 20 drawn from [0, 0.1] for each batch. The model is restored afterwards.
    """
    if rates is not None and (not len(rates) or not all(0.0 <= rate < 1.0 for rate in rates)):
        raise UserError(f"The dropout rates are {list(rates)}; give at least one, each in [0, 1).")
    readings = _readings(ids, positions, drafts)
    differing = np.zeros(sum(len(reading.at) for reading in readings))
    runs = RUNS if rates is None else len(rates)
    for group in _groups(readings, model):
        for rate in rng.uniform(0.0, LARGEST_RATE, RUNS) if rates is None else rates:
            seed = int(rng.integers(2**63))
            with seeded_random_state(model.device, seed), _dropping(model, float(rate)):
                _count(differing, model, group, rng)
    return differing / runs


@contextmanager
def _dropping(model: Any, rate: float) -> Iterator[None]:
    from torch import nn

    modules = dict(model.named_modules())
    layers = {name: module for name, module in modules.items() if isinstance(module, nn.Dropout)}
    with ExitStack() as after:
        if layers:
            # The parent's flag is set too, because fused attention reads it.
            for module in [*layers.values(), *(modules[name.rpartition(".")[0]] for name in layers)]:
                after.callback(setattr, module, "training", module.training)
                module.training = True
            for module in layers.values():
                after.callback(setattr, module, "p", module.p)
                module.p = rate
        else:
            blocks = [module for name, module in modules.items() if name.rpartition(".")[2] in BLOCKS]
            if not blocks:
                raise UserError(
                    f"{type(model).__name__} has neither dropout modules nor blocks named {', '.join(sorted(BLOCKS))}; "
                    "choose a model of the Llama, GPT-2 or GPT-Neo family."
                )
            for module in blocks:
                after.callback(module.register_forward_hook(_dropped(rate)).remove)
        yield


def _dropped(rate: float) -> Any:
    from torch.nn.functional import dropout

    def hook(module: Any, inputs: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (dropout(output[0], rate), *output[1:])
        return dropout(output, rate)

    return hook


def baseline_measures(trace: Trace, pair: Pair, *, positions: int = DEFAULT_POSITIONS, seed: int = 1) -> Baselines:
    """Compute the baseline at some positions of a trace."""
    if positions < 1:
        raise UserError(f"positions is {positions}; it must be at least 1.")
    if trace.vocabulary != pair.vocabulary:
        raise UserError(
            f"The trace at {trace.path} has {trace.vocabulary} entries and the pair {pair.name} has "
            f"{pair.vocabulary}; choose the pair that it was collected with."
        )
    if trace.manifest.get("pair", {}).get("chat"):
        raise UserError(f"The trace at {trace.path} was collected with --chat; the baseline reads plain prompts alone.")
    choice, draws, dropout = (np.random.default_rng([seed, part]) for part in range(3))
    texts = _whole_texts(trace, positions, choice)
    drafts = _drafts(trace, texts, InstanceDraws.of(draws, trace.positions, trace.vocabulary))
    heads = [trace.manifest["prompts"][int(trace.arrays["prompt_index"][text[0]])]["text"] for text in texts]
    rests = [np.asarray(trace.arrays["tokens"][text]).tolist() for text in texts]
    encoded = prompt_ids(pair.tokenizer, heads)
    ids = [[*head, *rest] for head, rest in zip(encoded, rests, strict=True)]
    at = [np.arange(len(head), len(text)) for head, text in zip(encoded, ids, strict=True)]
    measures = {DROPOUT: dropout_uncertainty(pair.draft, ids, at, drafts, rng=dropout)}
    return Baselines(np.concatenate(texts), np.concatenate(drafts), measures)


def _drafts(trace: Trace, texts: list[Array], draws: InstanceDraws) -> list[Array]:
    """Draw a token from q at every position of each text, independently, as for the claims."""
    drafts = []
    for text in texts:
        rows = slice(int(text[0]), int(text[-1]) + 1)
        chunk = TraceChunk(**{name: np.array(trace.arrays[name][rows]) for name in ARRAYS})
        drafts.append(row_arrays(chunk, draws[rows], ("token",))["token"])
    return drafts


def _whole_texts(trace: Trace, positions: int, rng: np.random.Generator) -> list[Array]:
    at = np.asarray(trace.arrays["position"][:])
    texts = np.split(np.arange(len(at)), np.flatnonzero(at == 0)[1:])
    order = rng.permutation(len(texts))
    reached = np.cumsum([len(texts[index]) for index in order])
    return [texts[index] for index in order[: int(np.searchsorted(reached, positions)) + 1]]


def _readings(
    ids: Sequence[Sequence[int]], positions: Sequence[Iterable[int]], drafts: Sequence[Iterable[int]]
) -> list[_Reading]:
    if not len(ids) == len(positions) == len(drafts):
        raise UserError(f"There are {len(ids)} texts, {len(positions)} lists of positions, {len(drafts)} of drafts.")
    readings, place = [], 0
    for text, where, tokens in zip(ids, positions, drafts, strict=True):
        at, chosen = (np.asarray(list(values), dtype=np.int64) for values in (where, tokens))
        if len(at) != len(chosen) or not len(at) or at.min() < 1 or at.max() >= len(text):
            raise UserError(
                f"A text of {len(text)} tokens has {len(at)} positions and {len(chosen)} drafts; "
                "give one draft for each position, at least one, and positions from 1 to the text's last."
            )
        readings.append(_Reading(list(text), at, chosen, place))
        place += len(at)
    return readings


def _groups(readings: list[_Reading], model: Any) -> Iterator[list[_Reading]]:
    config = model.config.get_text_config()
    longest = max(len(reading.tokens) for reading in readings)
    limit = getattr(config, "max_position_embeddings", None) or longest
    if longest - 1 > limit:
        raise UserError(f"A text is {longest} tokens long, but the context holds {limit}; choose shorter prompts.")
    ordered = sorted(readings, key=lambda reading: len(reading.tokens))
    done = 0
    while done < len(ordered):
        group = ordered[done : done + 1]
        for reading in ordered[done + 1 : done + SCORED_ROWS]:
            if (len(group) + 1) * len(reading.tokens) * config.vocab_size > SCORED_VALUES:
                break
            group.append(reading)
        done += len(group)
        yield group


def _count(differing: Array, model: Any, group: list[_Reading], rng: np.random.Generator) -> None:
    for reading, likely in zip(group, _draft_probabilities(model, group), strict=True):
        differs = rng.random(len(likely)) >= likely  # with probability 1 - q_d
        differing[reading.place : reading.place + len(likely)] += differs


def _draft_probabilities(model: Any, group: list[_Reading]) -> list[Array]:
    """Return q_d at every position of each text, from one pass."""
    import torch

    first = min(int(reading.at.min()) for reading in group) - 1
    found = []
    for reading, rows in zip(group, logits_from(model, [one.tokens for one in group], first), strict=True):
        kept = rows[torch.as_tensor(reading.at - 1 - first, device=rows.device)].float()
        drafts = torch.as_tensor(reading.drafts, device=rows.device)[:, None]
        likely = torch.log_softmax(kept, dim=-1).gather(1, drafts)[:, 0].exp()
        found.append(likely.double().cpu().numpy())
    return found
