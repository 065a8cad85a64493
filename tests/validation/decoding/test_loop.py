"""The generation loop: its caches and random numbers, its law on all texts of a tiny vocabulary, and its refusals."""

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers.generation.utils import _speculative_sampling
from transformers.utils import logging

from hlmtheory import verification
from hlmtheory.verification.rule import greedy_output_distribution
from tests.validation.conftest import make_model
from tests.validation.tiny_texts import (
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
from validation.decoding.loop import DecodingError, decode
from validation.decoding.methods.multi_draft import FixedLength, FlexSpec
from validation.decoding.methods.quantized import CSqs
from validation.decoding.methods.single_draft import CuHlmOffline, DraftOnly, RandHlm, TargetOnly, UHlm
from validation.decoding.metrics import summarize
from validation.decoding.random_streams import DRAFT, REPLACE, SKIP, Noise
from validation.decoding.records import GenerationRecord
from validation.decoding.sampling import BRANCHES, distributions_of, draw, levels, residual
from validation.decoding.session import Draft, Session
from validation.decoding.verification import verify
from validation.errors import UserError


def tables(seed: int, positions: int, draft: Callable[..., Any] = halves, target: Callable[..., Any] = quarters) -> Any:
    rng = np.random.default_rng(seed)
    count = nodes(3, positions)
    return draft(rng, count), target(rng, count)


def test_flexspec_as_printed_has_the_law_that_the_theory_says():
    draft, target = tables(7, 1)
    law = law_of(all_texts(table_pair(draft, target), FlexSpec("linear", printed_acceptance=True), 1, SAMPLED))
    expected = greedy_output_distribution(target[0], draft[0])
    assert [law.get((token,), 0.0) for token in range(3)] == pytest.approx(expected.tolist(), abs=1e-12)
    assert distance(law, exact_law(target, 1)) > 0.1


class OneBit(CuHlmOffline):
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
def test_the_reported_risk_bounds_the_distance_of_texts(method, cells):
    draft, target = tables(9, 2)
    rows = all_texts(table_pair(draft, target), method, 2, cells, risk=True)
    bound = float(np.mean([row.total("risk") for row in rows]))
    assert 0.02 < distance(law_of(rows), exact_law(target, 2)) <= bound + 1e-9


@pytest.mark.parametrize("step", [0.1, 1.0])
def test_what_was_thrown_away_does_not_reach_the_text_through_the_length_it_teaches(step):
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
def test_the_true_skip_rate_is_what_the_target_model_would_have_accepted(method):
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


def tiny(family: str) -> Any:
    logging.set_verbosity_error()
    if family in ("llama", "gpt2", "gpt_neo"):
        return make_model(family, vocabulary=50)
    size = {"vocab_size": 50, "initializer_range": 0.3, "bos_token_id": 0, "eos_token_id": 0}
    flat = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    if family == "mistral":
        return transformers.MistralForCausalLM(
            transformers.MistralConfig(**size, **flat, num_key_value_heads=1, sliding_window=6)
        )
    mixed = {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1, "num_key_value_heads": 1}
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**size, **flat, **mixed))  # full and sliding layers


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neo", "mistral", "qwen2"])
def test_rolled_back_lanes_read_as_a_fresh_model(family):
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


def test_a_window_that_counts_slots_says_when_the_context_is_full():
    lanes = CachedModel(tiny("gpt_neo").eval(), 50, torch.device("cpu"), 2, 80, 64)
    lanes.cached = np.array([60, 0])
    with pytest.raises(UserError, match="but knows 64; ask for fewer"):
        lanes.read(np.ones((2, 80), dtype=np.int64), np.array([61, 10]), rows=1)


def test_rows_come_back_in_the_order_of_the_prompts_though_batches_are_made_by_length(pair):
    batches = []

    def noise(seed, names, positions):
        batches.append(list(names))
        return Noise(seed, names, positions)

    rows = decode(pair, PROMPTS, FixedLength(2), new_tokens=4, batch=2, noise=noise)
    assert [row.prompt for row in rows] == [prompt.id for prompt in PROMPTS]
    size = {prompt.id: len(pair.tokenizer(prompt.text).input_ids) for prompt in PROMPTS}
    assert [size[name] for names in batches for name in names] == sorted(size.values())
    assert [len(names) for names in batches] == [2, 2, 1]
    assert batches[0] != [row.prompt for row in rows[:2]]


@pytest.mark.parametrize("method", [DraftOnly(), UHlm(0.9), RandHlm(0.5)], ids=lambda m: m.name)
def test_a_nan_does_not_hide_in_the_risk_of_skipped_drafts(method):
    rows = np.full((nodes(3, 4), 3), 1 / 3)
    pair = table_pair(rows, rows)
    pair.target.table[:] = torch.nan
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
        ({"times": (0.1, -1.0)}, "times is"),
        ({"new_tokens": 64}, "context holds 64"),
        ({"new_tokens": 60}, "only 4 fit"),
    ],
)
def test_settings_out_of_range_are_refused(pair, settings, words):
    with pytest.raises(UserError, match=words):
        decode(pair, PROMPTS, FixedLength(2), **settings)


def test_no_prompt_and_an_empty_one_are_refused(pair):
    with pytest.raises(UserError, match="no prompts"):
        decode(pair, [], FixedLength(2))
    flat = np.full((4, 3), 1 / 3)
    with pytest.raises(UserError, match="'b' has no tokens"):
        decode(table_pair(flat, flat), [Prompt("a", "1", "t"), Prompt("b", "", "t")], TargetOnly(), new_tokens=2)


def test_rows_are_cut_to_the_likeliest_and_equals_stay_together():
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25]]).log()
    assert distributions_of(logits, 1.0, 0.6)[0].tolist() == pytest.approx([4 / 7, 3 / 7, 0, 0])
    assert distributions_of(logits, 1.0, 0.3)[1].tolist() == pytest.approx([0.25] * 4)
    wide = torch.zeros(2, 1000)
    wide[0, :200] = 3.0
    assert (distributions_of(wide, 1.0, 0.5) > 0).sum(dim=-1).tolist() == [200, 1000]
    assert distributions_of(logits.bfloat16(), 1.0, 1.0).dtype == torch.float32
    assert distributions_of(logits, 0.0, 1.0).tolist() == [[1, 0, 0, 0], [1, 0, 0, 0]]


def test_rows_of_logits_in_parts_are_those_of_the_whole():
    logits = torch.randn(6, 40, generator=torch.Generator().manual_seed(1))
    for temperature, top_p in itertools.product((1.0, 0.7, 0.0), (1.0, 0.6)):
        for one in (logits, logits.bfloat16(), logits.double()):
            parts = [one[:1], one[1:4], one[4:]]
            assert torch.equal(distributions_of(parts, temperature, top_p), distributions_of(one, temperature, top_p))
        broken = [logits[:1], logits[1:].where(logits[1:] != logits[3, 7], torch.nan)]
        assert not distributions_of(broken, temperature, top_p)[3].sum() > 0


def test_a_draw_by_blocks_has_the_law_of_the_row():
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


def test_one_slot_is_stored_as_by_indices():
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


def test_a_token_of_probability_0_is_never_drawn():
    rows = torch.tensor([[0.0, 0.3, 0.0, 0.7, 0.0]], dtype=torch.float64)
    for uniform in (0.0, 0.3, 0.5, np.nextafter(1.0, 0.0)):
        tokens, mass = draw(rows, np.array([[uniform]]))
        assert int(tokens[0]) in (1, 3)
        assert mass[0] == pytest.approx(1.0)
    assert not np.isfinite(draw(torch.tensor([[np.nan, 1.0], [np.inf, 1.0]]), np.full((2, 1), 0.5))[1]).any()


def test_the_quick_residual_is_the_theorys():
    p, q = (torch.from_numpy(np.random.default_rng(s).dirichlet(np.ones(9), 6)) for s in (1, 2))
    left = residual(p, q)
    torch.testing.assert_close(left / left.sum(-1, keepdim=True), verification.residual_distribution(p, q))
    assert residual(p, p).tolist() == p.tolist()


def test_numbers_depend_on_seed_prompt_position_and_purpose_alone():
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


def test_a_row_comes_back_from_plain_values(pair):
    (row,) = decode(pair, PROMPTS[:1], CSqs(0.01), new_tokens=6, risk=True)
    plain = row.plain()
    assert GenerationRecord.of(plain) == row
    assert plain["totals"]["drafted"] == sum(r.drafted for r in row.rounds)
    assert 0 <= summarize([row], resamples=1)["resampling_rate"].value <= 1


def test_it_has_the_law_of_transformers_own_verification():
    rng = np.random.default_rng(5)
    q, p = rng.dirichlet(np.ones(4), 2), rng.dirichlet(np.ones(4), 3)
    logits = [torch.from_numpy(np.log(rows))[None] for rows in (q, p)]
    count, ours, theirs = 1500, np.zeros((3, 4)), np.zeros((3, 4))
    tokens = np.array([[rng.choice(4, p=row) for row in q] for _ in range(count)])
    flights = [[Draft(int(t), q[j, t], None, torch.from_numpy(q[j])) for j, t in enumerate(one)] for one in tokens]
    names = [str(i) for i in range(count)]
    pair = SimpleNamespace(end_tokens=(), device=torch.device("cpu"), vocabulary=4)
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
