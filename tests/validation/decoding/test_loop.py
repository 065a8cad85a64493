"""The generation loop: its caches and random numbers, its law on all texts of a tiny vocabulary, and its refusals."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hlmtheory import verification
from hlmtheory.channel import GilbertElliott, Rayleigh, TraceLink
from tests.validation.tiny_texts import (
    CERTAIN,
    PROMPTS,
    SAMPLED,
    all_texts,
    distance,
    exact_law,
    halves,
    law_of,
    node,
    nodes,
    quarters,
    table_pair,
)
from validation.collection.prompts import Prompt
from validation.decoding.kv_cache import CachedModel, KeyValueCache
from validation.decoding.links import FadingLink, TracedLink, Way
from validation.decoding.loop import PAPER_TIMES, DecodingError, decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import Dssd, FixedLength, FlexSpec, Lookahead, PromptLookup
from validation.decoding.methods.quantized import AllocatedSqs, BudgetedCSqs, BudgetedSqs, CSqs, DenseQs, KSqs
from validation.decoding.methods.shared_seed import SharedSeed
from validation.decoding.methods.single_draft import CloudOnly, CuHlmOffline, DraftOnly, Hlm, RandHlm, TargetOnly, UHlm
from validation.decoding.metrics import summarize
from validation.decoding.random_streams import ACCEPT, DRAFT, REPLACE, SKIP, Noise
from validation.decoding.records import GenerationRecord, energy
from validation.decoding.sampling import (
    BRANCHES,
    _border,
    _draw_on_device,
    _draw_on_host,
    distributions_of,
    draw,
    levels,
    residual,
)
from validation.decoding.session import Clock, Draft, Message, Proposal, Step
from validation.errors import UserError
from validation.models.devices import wait_for
from validation.models.pair import Pair, load_pair

ONE_SMALL = {"resolution": 2, "budget_bits": 12.0}


def tables(seed: int, positions: int, draft: Callable[..., Any] = halves, target: Callable[..., Any] = quarters) -> Any:
    rng = np.random.default_rng(seed)
    count = nodes(3, positions)
    return draft(rng, count), target(rng, count)


def any_rows(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.dirichlet(np.ones(3), count)


# ------------------------------------------------------------------------------------------------- exact laws

LOSSLESS: list[tuple[Callable[[], Method], int, dict[int, int], str]] = [
    (lambda: FixedLength(2), 3, SAMPLED, "0"),
    (lambda: FixedLength(1), 2, SAMPLED, "0"),
    (lambda: FixedLength(3), 2, SAMPLED, "0"),
    (Hlm, 2, SAMPLED, "0"),
    (lambda: Dssd(2), 2, SAMPLED, "0"),
    (lambda: FlexSpec("exact", max_draft_length=2), 2, SAMPLED, "0"),
    (lambda: FlexSpec("linear", max_draft_length=2), 2, SAMPLED, "0"),
    (lambda: RandHlm(0.0), 2, SAMPLED, "0"),
    (TargetOnly, 2, CERTAIN, "0"),
    (CloudOnly, 2, CERTAIN, "0"),
    (lambda: PromptLookup(2, 2), 2, CERTAIN, "0 1 2 0 1"),
    (lambda: Lookahead(2), 2, CERTAIN, "0 1"),
]
QUANTISED: list[Callable[[], Method]] = [
    lambda: DenseQs(**ONE_SMALL),
    lambda: KSqs(2, **ONE_SMALL),
    lambda: KSqs(2, resolution=2, budget_bits=3.0),  # the first draft never fits
    lambda: CSqs(0.3, learning_rate=0.2, epsilon=0.2, **ONE_SMALL),
    lambda: CSqs(0.3, learning_rate=0.2, epsilon=0.2, printed=True, **ONE_SMALL),
    lambda: CSqs(0.3, learning_rate=0.0, **ONE_SMALL),
    lambda: BudgetedSqs(epsilon=0.2, **ONE_SMALL),
    lambda: BudgetedCSqs(0.3, learning_rate=0.2, epsilon=0.2, **ONE_SMALL),
    lambda: KSqs(2, resolution=2, budget_bits=120.0, by_bytes=True),
]


@pytest.mark.parametrize("ends", [(), (2,)])
@pytest.mark.parametrize(("make", "positions", "cells", "prompt"), LOSSLESS)
def test_every_text_has_the_target_models_probability(
    make: Callable[[], Method], positions: int, cells: dict[int, int], prompt: str, ends: tuple[int, ...]
) -> None:
    draft, target = tables(3 + len(ends), positions)
    rows = all_texts(table_pair(draft, target, end_tokens=ends, prompt=prompt), make(), positions, cells, prompt=prompt)
    assert distance(law_of(rows), exact_law(target, positions, ends)) < 1e-12
    assert distance(law_of(rows), exact_law(draft, positions, ends)) > 0.1  # so the test can fail


@pytest.mark.parametrize("make", QUANTISED)
def test_quantised_drafts_leave_the_law(make: Callable[[], Method]) -> None:
    draft, target = tables(5, 3, any_rows, halves)
    rows = all_texts(table_pair(draft, target), make(), 3, {DRAFT: 2, ACCEPT: 2, REPLACE: 2})
    assert distance(law_of(rows), exact_law(target, 3)) < 1e-12
    assert distance(law_of(rows), exact_law(draft, 3)) > 0.1


def test_an_allocated_lattice_leaves_the_law() -> None:
    draft, target = tables(6, 1, any_rows, halves)  # 6 bits are enough for two or three tokens in quarters
    rows = all_texts(table_pair(draft, target), AllocatedSqs(6.0, budget_bits=12.0), 1, dict.fromkeys(SAMPLED, 12))
    assert distance(law_of(rows), exact_law(target, 1)) < 1e-12
    assert distance(law_of(rows), exact_law(draft, 1)) > 0.1


class Declared(FixedLength):
    """The negative control: drafts from q, but another declared distribution."""

    def propose(self, step: Step) -> Proposal:
        return Proposal(
            step.distributions,
            server_distributions=0.5 * step.distributions + 0.5 * step.distributions.roll(1, dims=-1),
        )


def test_drafts_from_another_row_than_declared_are_found_out() -> None:
    draft, target = tables(3, 2)
    rows = all_texts(table_pair(draft, target), Declared(2), 2, SAMPLED | {ACCEPT: 4})
    assert distance(law_of(rows), exact_law(target, 2)) > 0.1


class Undeclared(KSqs):
    """The negative control for quantised rows: drafts from q, declared as q̂; the codec cannot encode this."""

    def propose(self, step: Step) -> Proposal:
        made = super().propose(step)
        return Proposal(
            step.distributions, server_distributions=made.distributions, ends_round=made.ends_round, notes=made.notes
        )

    def message(self, drafts: list[Draft]) -> Message:
        return Message(0.0, b"")


def test_quantised_drafts_from_another_row_are_found_out() -> None:
    draft, target = tables(5, 2, quarters, halves)
    cells = {DRAFT: 4, ACCEPT: 4, REPLACE: 2}
    exact = all_texts(table_pair(draft, target), KSqs(2, **ONE_SMALL), 2, cells)
    wrong = all_texts(table_pair(draft, target), Undeclared(2, **ONE_SMALL), 2, cells)
    assert distance(law_of(exact), exact_law(target, 2)) < 1e-12
    assert distance(law_of(wrong), exact_law(target, 2)) > 0.05


def test_flexspec_as_printed_has_the_law_that_the_theory_says() -> None:
    draft, target = tables(7, 1)
    rows = all_texts(table_pair(draft, target), FlexSpec("linear", printed_acceptance=True), 1, SAMPLED)
    law = law_of(rows)
    expected = verification.greedy_output_distribution(target[0], draft[0])
    assert [law.get((token,), 0.0) for token in range(3)] == pytest.approx(expected.tolist(), abs=1e-12)
    assert distance(law, exact_law(target, 1)) > 0.1


class OneBit(CuHlmOffline):
    """Truncation whose decoded distributions are multiples of 1/4."""

    bits = 1


@pytest.mark.parametrize(
    ("method", "cells"),
    [
        (DraftOnly(), {DRAFT: 2}),
        (RandHlm(0.5), SAMPLED | {SKIP: 2}),
        (UHlm(0.55, draws=None), SAMPLED),
        (FlexSpec("linear", printed_acceptance=True, max_draft_length=2), SAMPLED),
        (OneBit(0.2, k=0, draws=None), SAMPLED | {REPLACE: 12}),
        (OneBit(0.55, k=1, draws=None), SAMPLED | {REPLACE: 12}),
    ],
)
def test_the_reported_risk_bounds_the_distance_of_texts(method: Method, cells: dict[int, int]) -> None:
    draft, target = tables(9, 2)
    rows = all_texts(table_pair(draft, target), method, 2, cells, risk=True)
    bound = float(np.mean([row.total("risk") for row in rows]))
    apart = distance(law_of(rows), exact_law(target, 2))
    assert 0.02 < apart <= bound + 1e-9


@pytest.mark.parametrize("step", [0.1, 1.0])
def test_what_was_thrown_away_does_not_reach_the_text_through_the_length_it_teaches(step: float) -> None:
    """A dropped end-of-text draft sets the next K, so its random number must not be used again."""
    positions = 7
    draft = np.tile([1.0, 0.0, 0.0], (nodes(3, positions), 1))
    target = draft.copy()
    target[node(0)] = [0.0, 1.0, 0.0]  # the second draft is always rejected
    draft[node(0, 0, 0)] = [0.5, 0.0, 0.5]  # always rejected; token 2 ends a text, and so the drafting
    draft[node(0, 1, 0)] = target[node(0, 1, 0)] = [0.5, 0.5, 0.0]
    tune = {0.1: 0.7425, 1.0: 0.22}[step]  # K is 5 if that end was drafted, else 1
    method = FlexSpec(
        "linear", max_draft_length=5, step=step, costs={"edge_slope_s": tune, "cloud_base_s": 1.0, "header_bits": 0.0}
    )
    prompts = [Prompt(f"p{i}", "0", "test") for i in range(1000)]
    rows = decode(table_pair(draft, target, end_tokens=(2,)), prompts, method, new_tokens=positions, batch=1000)
    law = law_of(rows)
    assert set(law) == {(0, 1, 0, 0, 0, 0, 0), (0, 1, 0, 1, 0, 0, 0)}
    assert abs(law[0, 1, 0, 1, 0, 0, 0] - 0.5) < 0.06  # 3.8 standard deviations; .75 if the number is used again


@pytest.mark.parametrize("method", [RandHlm(0.5), UHlm(0.55, draws=None), DraftOnly()], ids=lambda m: m.name)
def test_the_true_skip_rate_is_what_the_target_model_would_have_accepted(method: Method) -> None:
    draft, target = tables(9, 2)
    cells = SAMPLED | {SKIP: 2} if isinstance(method, RandHlm) else SAMPLED
    rows = all_texts(table_pair(draft, target), method, 2, cells, risk=True)
    skipped = accepted = 0.0
    for row in rows:
        kept = [one.position + i for one in (*row.rounds, row.last) for i in range(one.skipped)]
        node = 0
        for place, token in enumerate(row.tokens):
            if place in kept:
                skipped += 1
                accepted += min(1.0, target[node, token] / draft[node, token])
            node = node * 3 + token + 1
    assert skipped == sum(row.total("skipped") for row in rows) > 0
    missed = sum(row.total("skip_risk") for row in rows)
    assert 1.0 - missed / skipped == pytest.approx(accepted / skipped)
    assert 0.01 < missed / skipped < 0.99
    for row in rows:
        assert row.total("skip_risk") == pytest.approx(row.total("risk"))  # nothing is truncated
        rate = summarize([row], resamples=1)["true_skip_rate"].value
        assert rate is None if not row.total("skipped") else 0 <= rate <= 1


def test_the_risk_of_truncated_drafts_is_no_skip_risk() -> None:
    draft, target = tables(9, 2)
    rows = all_texts(table_pair(draft, target), OneBit(-1.0, k=0, draws=None), 2, SAMPLED | {REPLACE: 12}, risk=True)
    assert sum(row.total("risk") for row in rows) > 0
    assert {row.total("skip_risk") for row in rows} == {0.0}
    assert {summarize([row], resamples=1)["true_skip_rate"].value for row in rows} == {None}
    unjudged = all_texts(table_pair(draft, target), DraftOnly(), 2, {DRAFT: 2})
    found = {(row.risk_computed, summarize([row], resamples=1)["true_skip_rate"].value) for row in unjudged}
    assert found == {(False, None)}


# ------------------------------------------------------------------------------------------------- caches, batches


def tiny(family: str) -> Any:
    import transformers
    from transformers.utils import logging

    logging.set_verbosity_error()
    size = {"vocab_size": 50, "initializer_range": 0.3, "bos_token_id": 0, "eos_token_id": 0}
    flat = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    if family == "gpt_neo":
        kinds = [[["global", "local"], 1]]
        neo = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "attention_types": kinds, "window_size": 6}
        return transformers.GPTNeoForCausalLM(transformers.GPTNeoConfig(**size, **neo, max_position_embeddings=64))
    if family == "gpt2":
        config = transformers.GPT2Config(**size, n_embd=16, n_layer=2, n_head=2, n_positions=64)
        return transformers.GPT2LMHeadModel(config)
    if family == "mistral":
        return transformers.MistralForCausalLM(
            transformers.MistralConfig(**size, **flat, num_key_value_heads=1, sliding_window=6)
        )
    if family == "qwen2":  # full and sliding layers
        mixed = {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1, "num_key_value_heads": 1}
        return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**size, **flat, **mixed))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**size, **flat))


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neo", "mistral", "qwen2"])
def test_rolled_back_lanes_read_as_a_fresh_model(family: str) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = tiny(family).eval()
    rng = np.random.default_rng(1)
    text, until = rng.integers(1, 50, (5, 42)), np.array([20, 3, 11, 15, 1])
    lanes = CachedModel(model, 50, torch.device("cpu"), 5, 42, 64)
    with torch.inference_mode():
        for turn in range(7):
            fresh = until - lanes.cached
            only = None if turn % 2 else np.flatnonzero(fresh)[::-1]
            chosen = range(len(text)) if only is None else only
            sizes = [min(2, fresh[lane]) for lane in chosen]
            found = torch.cat(lanes.read(text, until, rows=2, only=only)).split(sizes)
            for rows, lane, size in zip(found, chosen, sizes, strict=True):
                whole = model(torch.from_numpy(text[lane : lane + 1, : until[lane]])).logits[0]
                torch.testing.assert_close(rows, whole[-size:], atol=2e-5, rtol=1e-4)
            kept = np.maximum(until - rng.integers(0, 3, len(text)), 1)
            lanes.cached = np.minimum(lanes.cached, kept - 1)
            for lane in range(len(text)):
                text[lane, kept[lane] :] = rng.integers(1, 50, 42 - kept[lane])
            until = kept + rng.integers(0, 4, len(text))
            if turn == 3:
                order = np.array([0, 4, 2])
                lanes.keep(order)
                text, until = text[order], until[order]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", ["llama", "gpt_neo", "mistral"])
def test_a_token_sees_the_slots_up_to_its_own(family: str, dtype: torch.dtype) -> None:
    lanes = CachedModel(tiny(family).to(dtype), 50, torch.device("cpu"), 3, 12, 64)
    slots, offset = np.array([[0, 1], [5, 6], [9, 10]]), np.array([[9], [4], [0]])
    low, window = torch.finfo(dtype).min, getattr(lanes.model.config, "sliding_window", None) or 99
    for shifts in (None, offset):
        mask = lanes._masks(slots, 11, shifts)
        assert mask.dtype == dtype
        place = np.arange(11) - (0 if shifts is None else shifts[..., None, None])
        query = slots[:, None, :, None]
        seen = (place >= 0) & (place <= query) & (place > query - window)
        assert torch.equal(mask == 0, torch.from_numpy(seen))
        assert mask[~torch.from_numpy(seen)].eq(low).all()


def test_of_a_prompt_one_row_of_logits_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """However different the prompts' lengths are: no other rows are used, and the output layer is expensive."""
    model, asked = tiny("llama").eval(), []
    forward = model.forward
    monkeypatch.setattr(model, "forward", wraps(forward)(lambda *a, **k: asked.append(k) or forward(*a, **k)))
    lanes = CachedModel(model, 50, torch.device("cpu"), 2, 30, 64)
    with torch.inference_mode():
        assert lanes.read(np.ones((2, 30), dtype=np.int64), np.array([3, 20]), rows=0) == []
        assert [len(rows) for rows in lanes.read(np.ones((2, 30), dtype=np.int64), np.array([5, 21]), rows=2)] == [3]
    assert [one["logits_to_keep"] for one in asked] == [1, 2]
    assert lanes.cached.tolist() == [5, 21]


def test_a_window_that_counts_slots_says_when_the_context_is_full() -> None:
    lanes = CachedModel(tiny("gpt_neo").eval(), 50, torch.device("cpu"), 2, 80, 64)
    lanes.cached = np.array([60, 0])
    with pytest.raises(UserError, match="but knows 64; ask for fewer"):
        lanes.read(np.ones((2, 80), dtype=np.int64), np.array([61, 10]), rows=1)


@pytest.mark.parametrize(
    "method",
    [FixedLength(3), UHlm(0.4, draws=4), KSqs(8), PromptLookup(), Lookahead(), FlexSpec(max_draft_length=3)],
    ids=lambda m: m.name,
)
def test_a_text_does_not_depend_on_its_batch(pair: Pair, method: Method) -> None:
    link = FadingLink("radio", 1e6, Rayleigh(10.0))
    settings: dict[str, Any] = {"new_tokens": 12, "seed": 4, "link": link, "times": PAPER_TIMES}
    alone, together = (decode(pair, PROMPTS, method, batch=batch, **settings) for batch in (1, 5))
    assert [row.tokens for row in alone] == [row.tokens for row in together]
    for one, other in zip(alone, together, strict=True):
        assert one.seconds == pytest.approx(other.seconds)
        assert [r.bytes for r in one.rounds] == [r.bytes for r in other.rounds]
    again = decode(pair, PROMPTS[::-1], method, batch=2, **settings)
    assert [row.tokens for row in again] == [row.tokens for row in alone][::-1]
    other_seed = decode(pair, PROMPTS, method, batch=5, **(settings | {"seed": 5}))
    assert [row.tokens for row in other_seed] != [row.tokens for row in alone]


def test_rows_come_back_in_the_order_of_the_prompts_though_batches_are_made_by_length(pair: Pair) -> None:
    batches: list[list[str]] = []

    def noise(seed: int, names: Any, positions: int) -> Noise:
        batches.append(list(names))
        return Noise(seed, names, positions)

    rows = decode(pair, PROMPTS, FixedLength(2), new_tokens=4, batch=2, noise=noise)
    assert [row.prompt for row in rows] == [prompt.id for prompt in PROMPTS]
    size = {prompt.id: len(pair.tokenizer(prompt.text).input_ids) for prompt in PROMPTS}
    assert [size[name] for names in batches for name in names] == sorted(size.values())
    assert [len(names) for names in batches] == [2, 2, 1]
    assert batches[0] != [row.prompt for row in rows[:2]]
    alone = [decode(pair, [prompt], FixedLength(2), new_tokens=4)[0] for prompt in PROMPTS]
    assert [row.tokens for row in rows] == [row.tokens for row in alone]


@pytest.mark.parametrize(
    "method",
    [Hlm(), FixedLength(3), KSqs(8), CSqs(0.01), PromptLookup(), Lookahead(), Dssd(2), CloudOnly(), SharedSeed(3)],
)
def test_at_temperature_0_it_is_the_target_models_greedy_text(pair: Pair, method: Method) -> None:
    rows = decode(pair, PROMPTS, method, temperature=0.0, new_tokens=10, batch=3)
    for prompt, row in zip(PROMPTS, rows, strict=True):
        ids = torch.tensor([list(pair.tokenizer(prompt.text).input_ids)])
        for token in row.tokens:
            with torch.inference_mode():
                assert token == int(pair.target(ids).logits[0, -1].argmax())
            ids = torch.cat([ids, torch.tensor([[token]])], dim=1)


def test_a_top_p_text_keeps_to_the_likeliest_tokens(pair: Pair) -> None:
    rows = decode(pair, PROMPTS, FixedLength(3), top_p=0.3, temperature=0.7, new_tokens=10)
    for prompt, row in zip(PROMPTS, rows, strict=True):
        ids = list(pair.tokenizer(prompt.text).input_ids)
        for token in row.tokens:
            with torch.inference_mode():
                law = distributions_of(pair.target(torch.tensor([ids])).logits[0, -1], 0.7, 0.3)
            assert law[token] > 0
            ids.append(token)


def test_where_the_time_goes_is_told(pair: Pair) -> None:
    clock, seen = Clock(), []
    rows = decode(pair, PROMPTS, FixedLength(3), new_tokens=8, clock=clock, on_finished=seen.append)
    parts = (clock.draft, clock.target, clock.prefill, clock.sampling, clock.method, clock.loop)
    assert min(parts) > 0
    assert sum(parts) == pytest.approx(clock.total)
    assert sum(row.total("draft_s") for row in rows) == pytest.approx(clock.draft)
    assert sum(row.total("target_s") for row in rows) == pytest.approx(clock.target)
    assert sorted(row.prompt for row in seen) == sorted(prompt.id for prompt in PROMPTS)


# ------------------------------------------------------------------------------------------------- rates


def test_hlm_accepts_as_often_as_the_theory_says(pair: Pair) -> None:
    prompts = [replace(PROMPTS[i % 5], id=str(i)) for i in range(400)]
    rows = decode(pair, prompts, Hlm(), new_tokens=12, batch=100, risk=True)
    rounds = [one for row in rows for one in row.rounds]
    mismatch = np.array([one.mismatch for one in rounds])  # TV(q, p) of its one draft
    accepted = sum(one.accepted for one in rounds)
    assert len(rounds) == sum(one.drafted for one in rounds) > 500
    assert 0.1 < mismatch.mean() < 0.9
    spread = np.sqrt((mismatch * (1.0 - mismatch)).sum())  # of a sum of martingale differences
    assert abs(accepted - (1.0 - mismatch).sum()) < 3.3 * spread  # a chance of 1e-3


def fit(pair: Pair, method: Method, count: int, prompt: str) -> float:
    """Return χ² per cell of two-token texts against the target model; cells by log(q/p), which a wrong law shifts."""
    prompts = [Prompt(str(i), prompt, "test") for i in range(count)]
    rows = decode(pair, prompts, method, new_tokens=2, batch=500, seed=8)
    ids = list(pair.tokenizer(prompt).input_ids)
    texts = torch.tensor([[*ids, row.tokens[0]] for row in rows])
    with torch.inference_mode():
        q, p = (m(texts).logits[:, -2:].double().softmax(-1).numpy() for m in (pair.draft, pair.target))
    edges = np.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
    cell = np.digitize(np.log(q) - np.log(p), edges)
    total = 0.0
    for place in range(2):
        use = [i for i, row in enumerate(rows) if len(row.tokens) > place]
        token = np.array([rows[i].tokens[place] for i in use])
        found = np.bincount(cell[use, place, token], minlength=8)
        expected = np.array([np.where(cell[use, place] == c, p[use, place], 0.0).sum() for c in range(8)])
        some = expected > 5
        total += float(((found - expected)[some] ** 2 / expected[some]).sum())
    return total / 14.0


def test_texts_of_the_builtin_pair_have_the_target_models_law() -> None:
    pair = load_pair()
    assert fit(pair, FixedLength(2), 500, "The") < 2.2  # χ² of 14 degrees at 5e-3 is 31, 2.2 a degree
    assert fit(pair, KSqs(64), 250, "The") < 2.2
    assert fit(pair, Declared(2), 500, "The") > 4.0  # the same number of texts detects the control


# ------------------------------------------------------------------------------------------------- links and times


def test_messages_take_the_links_time(pair: Pair) -> None:
    steady = FadingLink("steady", 1e6, 1.0, Way(propagation_s=0.01, down_bps=1e6))
    (row, *_) = decode(pair, PROMPTS, FixedLength(2), new_tokens=6, link=steady, times=PAPER_TIMES)
    for one in row.rounds:
        assert one.link_s == pytest.approx(8e-6 * one.bytes + 0.02 + 8e-6 * one.down_bytes)
        assert one.draft_s == pytest.approx(0.0256 * max(one.drafted, 1), abs=0.03)
        assert one.target_s == pytest.approx(0.1046)
    assert row.seconds == pytest.approx(sum(r.draft_s + r.target_s + r.link_s for r in row.rounds))
    joules = energy(row, device_w=2.0, transmit_w=1.0, server_w=100.0)
    assert joules == pytest.approx(2 * row.total("draft_s") + row.total("link_s") + 100 * row.total("target_s"))


def test_a_trace_is_followed_and_a_markov_link_is_drawn_for_each_text(pair: Pair) -> None:
    trace = TracedLink("trace", TraceLink([0.0, 0.05, 0.1], [1e6, 0.0, 2e6]))
    markov = TracedLink("markov", GilbertElliott(1e6, 1e4, 0.3, 0.3, 0.05), slots=64)
    for link in (trace, markov):
        rows = decode(pair, PROMPTS, FlexSpec(max_draft_length=4), new_tokens=8, link=link, times=(0.01, 0.02))
        assert all(row.link == link.name and row.total("link_s") > 0 for row in rows)
    silent = decode(pair, PROMPTS, DraftOnly(), new_tokens=8, link=trace)
    assert sum(row.total("link_s") for row in silent) == 0.0


@pytest.mark.parametrize("method", [FixedLength(3), UHlm(0.5), DraftOnly(), CloudOnly(), Lookahead(3), KSqs(8)])
def test_other_models_times_can_be_put_on_later(pair: Pair, method: Method) -> None:
    given = decode(pair, PROMPTS, method, new_tokens=9, times=PAPER_TIMES, batch=3)
    for row in given:
        for one in (*row.rounds, row.last):
            assert one.draft_s == pytest.approx(PAPER_TIMES[0] * one.draft_passes)
            assert one.target_s == pytest.approx(PAPER_TIMES[1] * one.target_passes)
        assert row.total("target_passes") == len(row.rounds)
        assert method.runs_draft == (row.total("draft_passes") >= row.total("drafted") > 0 or row.total("skipped") > 0)


def test_only_a_method_that_follows_the_rate_writes_other_texts_over_another_link(pair: Pair) -> None:
    fast, slow = (FadingLink(name, width, 1.0) for name, width in (("fast", 1e9), ("slow", 1e2)))
    for method in (FlexSpec(max_draft_length=6), FixedLength(3), UHlm(0.5), KSqs(8), CSqs(0.01), PromptLookup()):
        drafted = [
            [[one.drafted for one in row.rounds] for row in decode(pair, PROMPTS, method, new_tokens=9, link=link)]
            for link in (fast, slow)
        ]
        assert (drafted[0] != drafted[1]) == method.follows_rate


# ------------------------------------------------------------------------------------------------- edges


def test_no_new_tokens_give_empty_texts(pair: Pair) -> None:
    rows = decode(pair, PROMPTS, FixedLength(2), new_tokens=0)
    assert [(row.tokens, row.ended, len(row.rounds)) for row in rows] == [([], False, 0)] * 5


@pytest.mark.parametrize(
    "method", [FixedLength(2), DraftOnly(), TargetOnly(), PromptLookup(2, 2), KSqs(2, **ONE_SMALL)]
)
def test_a_text_may_end_at_once(method: Method) -> None:
    always = np.tile([0.0, 0.0, 1.0], (nodes(3, 4), 1))
    pair = table_pair(always, always, end_tokens=(2,), prompt="1 2 1")
    for seed in range(3):
        (row,) = decode(pair, [Prompt("a", "1 2 1", "test")], method, new_tokens=4, seed=seed)
        assert row.tokens == [2]
        assert row.ended


def test_ids_beyond_the_vocabulary_are_never_written(save_model: Callable[..., Path]) -> None:
    wide = load_pair(draft=save_model(seed=1, vocabulary=900), target=save_model(seed=2, vocabulary=900))
    assert wide.vocabulary == 300
    for method in (FixedLength(3), KSqs(8), UHlm(0.5), Lookahead(3)):
        for row in decode(wide, PROMPTS[:2], method, new_tokens=20):
            assert max(row.tokens) < 300


@pytest.mark.parametrize("top_p", [0.9, 1.0])
@pytest.mark.parametrize("method", [UHlm(0.5), UHlm(0.5, draws=None), CuHlmOffline(0.5, 2), KSqs(2, **ONE_SMALL)])
def test_masked_logits_are_tokens_that_are_never_written(method: Method, top_p: float) -> None:
    draft, target = tables(11, 3, any_rows, any_rows)
    pair = table_pair(draft, target)
    for model in (pair.draft, pair.target):
        model.table[:, 1] = -torch.inf
    prompts = [Prompt(str(i), "0", "test") for i in range(40)]
    rows = decode(pair, prompts, method, new_tokens=3, top_p=top_p, risk=True)
    assert {token for row in rows for token in row.tokens} == {0, 2}
    assert sum(row.total("drafted") for row in rows) > 0
    assert not isinstance(method, UHlm) or sum(row.total("skipped") for row in rows) > 0
    assert all(np.isfinite(row.total("risk")) for row in rows)


@pytest.mark.parametrize(("broken", "first"), [("draft", 3), ("target", 1), ("draft", 5), ("target", 2)])
@pytest.mark.parametrize(("method", "temperature"), [(FixedLength(2), 0.0), (FixedLength(2), 1.0), (KSqs(2), 1.0)])
def test_a_model_that_gives_nan_is_named_and_finished_rows_are_kept(
    broken: str, first: int, method: Method, temperature: float
) -> None:
    rows = np.full((nodes(3, 4), 3), 1 / 3)
    if temperature == 0.0:
        rows = np.tile([0.0, 1.0, 0.0], (len(rows), 1))
    pair = table_pair(rows, rows)
    model = getattr(pair, broken)
    whole = model.forward

    def fail(*args: Any, **options: Any) -> Any:
        output = whole(*args, **options)
        if model.calls > first:
            output.logits[..., 1] = float("nan")
        return output

    model.__class__ = type("Broken", (type(model),), {"__call__": lambda self, *a, **o: fail(*a, **o)})
    prompts = [Prompt(name, "0", "test") for name in "abcdefgh"]
    with pytest.raises(DecodingError, match=f"The {broken} model .tables/{broken}. gives logits .*new token") as caught:
        decode(pair, prompts, method, new_tokens=3, batch=2, temperature=temperature)
    assert 0 < len(caught.value.records) < 8
    assert all(len(row.tokens) == 3 for row in caught.value.records)


def test_the_end_of_a_text_is_judged_without_reading_the_others(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = [Prompt(f"p{i}", "Why? " * (i + 1), "test") for i in range(6)]
    pair = replace(pair, end_tokens=tuple(range(30)))
    lanes: list[int] = []
    forward = pair.target.forward

    def counted(ids: torch.Tensor, *args: Any, **options: Any) -> Any:
        lanes.append(len(ids))
        return forward(ids, *args, **options)

    counted.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    monkeypatch.setattr(pair.target, "forward", counted)
    rows = decode(pair, prompts, DraftOnly(), new_tokens=24, batch=6, risk=True)
    ended = [sum(len(row.tokens) == count for row in rows) for count in sorted({len(row.tokens) for row in rows})]
    assert len(ended) > 1
    assert lanes == [6, *ended]  # the prompts, then only those that end
    alone = [decode(pair, [prompt], DraftOnly(), new_tokens=24, risk=True)[0] for prompt in prompts]
    for row, one in zip(rows, alone, strict=True):
        assert row.tokens == one.tokens
        assert row.total("skip_risk") == pytest.approx(one.total("skip_risk"), rel=1e-4)


@pytest.mark.parametrize("method", [DraftOnly(), UHlm(0.9), RandHlm(0.5)], ids=lambda m: m.name)
def test_a_nan_does_not_hide_in_the_risk_of_skipped_drafts(method: Method) -> None:
    rows = np.full((nodes(3, 4), 3), 1 / 3)
    pair = table_pair(rows, rows)
    pair.target.table[:] = torch.nan  # type: ignore[operator, index]
    with pytest.raises(DecodingError, match=r"The target model .tables.target. gives logits that are not finite"):
        decode(pair, [Prompt("a", "0", "test")], method, new_tokens=3, risk=True)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temperature": -1.0}, "temperature is -1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 0.0}, "top_p is 0"),
        ({"new_tokens": -1}, "new_tokens is -1"),
        ({"batch": 0}, "batch is 0"),
        ({"times": (0.1, -1.0)}, "times of the models"),
        ({"new_tokens": 64}, "context holds 64"),
        ({"new_tokens": 60}, "only 4 fit"),
    ],
)
def test_settings_out_of_range_are_refused(pair: Pair, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        decode(pair, PROMPTS, FixedLength(2), **settings)


def test_no_prompt_and_an_empty_one_are_refused(pair: Pair) -> None:
    with pytest.raises(UserError, match="no prompts"):
        decode(pair, [], FixedLength(2))
    flat = np.full((4, 3), 1 / 3)
    with pytest.raises(UserError, match="'b' has no tokens"):
        decode(table_pair(flat, flat), [Prompt("a", "1", "t"), Prompt("b", "", "t")], TargetOnly(), new_tokens=2)


def test_an_empty_prompt_is_continued_from_the_begin_token_where_there_is_one(pair: Pair) -> None:
    assert pair.tokenizer.bos_token_id is not None
    (row,) = decode(pair, [Prompt("empty", "", "test")], FixedLength(2), new_tokens=4)
    assert row.tokens


def test_a_prompt_as_long_as_the_context_leaves_room_for_nothing(pair: Pair) -> None:
    ids = pair.tokenizer("two " * 100, add_special_tokens=False).input_ids[: pair.context - 1]
    whole = Prompt("whole", pair.tokenizer.decode(ids), "test")
    assert len(pair.tokenizer(whole.text).input_ids) == pair.context
    (row,) = decode(pair, [whole], FixedLength(2), new_tokens=0)
    assert row.tokens == []
    with pytest.raises(UserError, match="'whole' of test is 64 tokens long, but only 63 fit"):
        decode(pair, [whole], FixedLength(2), new_tokens=1)


def test_a_prompt_may_fill_the_context_but_for_the_new_tokens(pair: Pair) -> None:
    long = Prompt("long", "two " * 100, "test")
    ids = pair.tokenizer(long.text, add_special_tokens=False).input_ids
    fits = replace(long, text=pair.tokenizer.decode(ids[: pair.context - 5]))
    size = len(pair.tokenizer(fits.text).input_ids)
    (row, *_) = decode(pair, [fits, *PROMPTS], FixedLength(4), new_tokens=pair.context - size)
    assert len(row.tokens) == pair.context - size or row.ended


# ------------------------------------------------------------------------------------------------- parts


def test_rows_are_cut_to_the_likeliest_and_equals_stay_together() -> None:
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25]]).log()
    assert distributions_of(logits, 1.0, 0.6)[0].tolist() == pytest.approx([4 / 7, 3 / 7, 0, 0])
    assert distributions_of(logits, 1.0, 0.3)[1].tolist() == pytest.approx([0.25] * 4)
    wide = torch.zeros(2, 1000)
    wide[0, :200] = 3.0
    cut = distributions_of(wide, 1.0, 0.5)
    assert (cut > 0).sum(dim=-1).tolist() == [200, 1000]
    assert _border(torch.empty(2, 5, device="meta"), 0.5).shape == (2, 1)  # as on a GPU
    assert distributions_of(logits.bfloat16(), 1.0, 1.0).dtype == torch.float32
    assert distributions_of(logits, 0.0, 1.0).tolist() == [[1, 0, 0, 0], [1, 0, 0, 0]]


def test_rows_of_logits_in_parts_are_those_of_the_whole() -> None:
    logits = torch.randn(6, 40, generator=torch.Generator().manual_seed(1))
    for temperature, top_p in itertools.product((1.0, 0.7, 0.0), (1.0, 0.6)):
        for one in (logits, logits.bfloat16(), logits.double()):
            parts = [one[:1], one[1:4], one[4:]]
            assert torch.equal(distributions_of(parts, temperature, top_p), distributions_of(one, temperature, top_p))
        broken = [logits[:1], logits[1:].where(logits[1:] != logits[3, 7], torch.nan)]
        assert not distributions_of(broken, temperature, top_p)[3].sum() > 0


def test_a_draw_by_blocks_has_the_law_of_the_row() -> None:
    law = np.zeros(BRANCHES + 9)  # two blocks, 3/8 and 5/8; in each multiples of 1/8
    law[[0, 5, BRANCHES - 1]] = 0.375 * np.array([1, 4, 3]) / 8
    law[[BRANCHES, BRANCHES + 2, BRANCHES + 7]] = 0.625 * np.array([2, 1, 5]) / 8
    middles = (np.arange(8) + 0.5) / 8
    numbers = np.array(list(itertools.product(middles, middles)))
    tokens, mass = draw(torch.from_numpy(law).expand(64, -1), numbers)
    assert levels(len(law)) == 2
    assert np.bincount(tokens, minlength=len(law)).tolist() == (64 * law).tolist()
    assert mass == pytest.approx(1.0)
    ends = draw(torch.from_numpy(law).expand(2, -1), np.array([[0.0, 0.0], [np.nextafter(1.0, 0.0)] * 2]))[0]
    assert ends.tolist() == [0, BRANCHES + 7]
    assert [levels(size) for size in (1, BRANCHES, BRANCHES + 1, BRANCHES**2, BRANCHES**2 + 1)] == [1, 1, 2, 2, 3]


def test_draws_by_blocks_of_three_levels_follow_the_row() -> None:
    rng = np.random.default_rng(4)
    law = rng.dirichlet(np.full(BRANCHES**2 + 500, 0.02))
    tokens, _ = draw(torch.from_numpy(law).expand(4000, -1), rng.random((4000, 3)))
    found, expected = (
        np.add.reduceat(values, range(0, len(law), 97))
        for values in (np.bincount(tokens, minlength=len(law)), 4e3 * law)
    )
    some = expected > 5
    chi = ((found - expected)[some] ** 2 / expected[some]).sum()
    assert chi < some.sum() + 5 * np.sqrt(2 * some.sum())
    assert (law[tokens] > 0).all()


@pytest.mark.parametrize("vocabulary", [1, 2, 64, 65, 4096, 5000])
def test_host_and_device_draw_alike_bit_for_bit(vocabulary: int) -> None:
    """Rows have ties, zeros, one token only, no token, and broken sums; numbers reach both ends."""
    rng = np.random.default_rng(vocabulary)
    rows = rng.random((40, vocabulary)) * rng.integers(0, 2, (40, vocabulary))
    rows[:4] = [np.zeros(vocabulary), np.ones(vocabulary), np.eye(vocabulary)[-1], np.full(vocabulary, 2.0**-1060)]
    uniform = rng.random((40, levels(vocabulary)))
    uniform[10:14] = 0.0
    uniform[14:20] = np.nextafter(1.0, 0.0)
    cumulative = torch.from_numpy(rows).cumsum(dim=-1)
    host, device = _draw_on_host(cumulative.numpy(), uniform), _draw_on_device(cumulative, uniform)
    alone = [_draw_on_host(cumulative[i : i + 1].numpy(), uniform[i : i + 1]) for i in range(40)]
    for one, other, single in zip(host, device, zip(*alone, strict=True), strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, np.concatenate(single))
    broken = torch.from_numpy(np.full((2, vocabulary), [[np.nan], [np.inf]]))
    assert not np.isfinite(draw(broken, uniform[:2])[1]).any()


def test_one_slot_is_stored_as_by_indices() -> None:
    """A slice of one slot and the indices of the same positions give equal caches, also behind clamped filler."""
    generator = torch.Generator().manual_seed(1)
    one, two = KeyValueCache(6), KeyValueCache(6)
    for places in ([0, 1, 2], [3], [2, 3], [4, 5], [5, 5]):
        positions, seen = np.array([places]), min(max(places) + 1, 6)
        keys, values = (torch.rand((1, 2, len(places), 3), generator=generator) for _ in range(2))
        found = []
        for cache in (one, two):
            cache.prepare(positions, seen, None)
            if cache is two:
                cache._slice = None
            found.append(cache.update(keys, values, 0))
        for ours, theirs in zip(*found, strict=True):
            assert torch.equal(ours, theirs)
            assert ours.stride() == theirs.stride()


def test_rounding_of_the_rows_seldom_moves_a_draw() -> None:
    rng = np.random.default_rng(3)
    logits = torch.from_numpy(rng.normal(scale=2.0, size=(400, BRANCHES**2)))
    near = logits + 1e-4 * torch.from_numpy(rng.normal(size=logits.shape))
    moved = one_number = 0
    for _ in range(10):
        numbers = rng.random((400, 2))
        first, second = (draw(one.softmax(-1), numbers)[0] for one in (logits, near))
        moved += int((first != second).sum())
        first, second = (
            torch.searchsorted(one.softmax(-1).cumsum(-1), torch.from_numpy(numbers[:, :1].copy()))
            for one in (logits, near)
        )
        one_number += int((first != second).sum())
    assert moved <= 4 < 20 < one_number  # of 4000


def test_a_token_of_probability_0_is_never_drawn() -> None:
    rows = torch.tensor([[0.0, 0.3, 0.0, 0.7, 0.0]], dtype=torch.float64)
    for uniform in (0.0, 0.3, 0.5, np.nextafter(1.0, 0.0)):
        tokens, mass = draw(rows, np.array([[uniform]]))
        assert int(tokens[0]) in (1, 3)
        assert mass[0] == pytest.approx(1.0)


def test_the_quick_residual_is_the_theorys() -> None:
    p, q = (torch.from_numpy(np.random.default_rng(s).dirichlet(np.ones(9), 6)) for s in (1, 2))
    left = residual(p, q)
    torch.testing.assert_close(left / left.sum(-1, keepdim=True), verification.residual_distribution(p, q))
    assert residual(p, p).tolist() == p.tolist()


def test_numbers_depend_on_seed_prompt_position_and_purpose_alone() -> None:
    first, second = Noise(1, ["a", "b", "c"], 4), Noise(1, ["c", "x"], 9)
    keys = list(itertools.product(range(4), range(5)))
    numbers = {(p, i): float(first.uniform(p, np.array([2]), np.array([i]))[0]) for p, i in keys}
    assert len(set(numbers.values())) == len(keys)
    for p, i in keys:
        assert second.uniform(p, np.array([0]), np.array([i]))[0] == numbers[p, i]
    one, other = first.uniforms(1, np.array([2]), np.array([3]), 3), second.uniforms(1, np.array([0]), np.array([3]), 3)
    assert np.array_equal(one, other)
    assert one[0, 0] == numbers[1, 3]
    assert len({*one[0], *first.uniforms(0, np.array([2]), np.array([3]), 3)[0]}) == 6
    assert len(set(first.uniforms(1, np.arange(3), np.full(3, 3), 3).ravel())) == 9
    again = first.several(np.array([2]), np.array([3]), 6), second.several(np.array([0]), np.array([3]), 6)
    assert np.array_equal(*again)
    assert first.link(2).random() == second.link(0).random()


def test_a_gpu_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[torch.device] = []
    monkeypatch.setattr(torch.accelerator, "synchronize", waited.append)
    for name in ("cpu", "cuda:0"):
        wait_for(torch.device(name))
    assert waited == [torch.device("cuda:0")]


def test_a_row_comes_back_from_plain_values(pair: Pair) -> None:
    (row,) = decode(pair, PROMPTS[:1], CSqs(0.01), new_tokens=6, risk=True)
    plain = row.plain()
    assert GenerationRecord.of(plain) == row
    assert "rounds" not in row.plain(rounds=False)
    assert plain["totals"]["drafted"] == sum(r.drafted for r in row.rounds)
    assert 0 <= summarize([row], resamples=1)["resampling_rate"].value <= 1


def test_it_has_the_law_of_transformers_own_verification() -> None:
    """Both rules get the same drafts many times: accepted drafts and next token, compared as tables of counts."""
    from types import SimpleNamespace

    from transformers.generation.utils import _speculative_sampling

    from validation.decoding.session import Session
    from validation.decoding.verification import verify

    rng = np.random.default_rng(5)
    q, p = rng.dirichlet(np.ones(4), 2), rng.dirichlet(np.ones(4), 3)
    logits = [torch.from_numpy(np.log(rows))[None] for rows in (q, p)]
    count, ours, theirs = 1500, np.zeros((3, 4)), np.zeros((3, 4))
    tokens = np.array([[rng.choice(4, p=row) for row in q] for _ in range(count)])
    flights = [[Draft(int(t), q[j, t], None, torch.from_numpy(q[j])) for j, t in enumerate(one)] for one in tokens]
    names = [str(i) for i in range(count)]
    pair: Any = SimpleNamespace(end_tokens=(), device=torch.device("cpu"), vocabulary=4)
    session = Session(pair, count, Noise(2, names, 3), None, 1.0, 1.0, 3)
    rows, zeros = np.arange(count), np.zeros(count, dtype=np.int64)
    verdict = verify(FixedLength(2), session, rows, flights, logits[1][0].repeat(count, 1), zeros + 3, zeros, zeros + 3)
    np.add.at(ours, (verdict.accepted, verdict.token), 1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        for one in tokens:
            written, kept = _speculative_sampling(torch.from_numpy(one)[None], logits[0], 2, logits[1], None)
            theirs[int(kept), int(written[0, -1])] += 1
    both = ours + theirs
    some = both > 10
    chi = ((ours - theirs)[some] ** 2 / both[some]).sum()
    assert chi < 35.0  # at most 12 cells; 1e-3 at 11 degrees is 31
