"""Collection on tiny random models: the stored logits belong to the texts that were drawn."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import processors

from tests.validation.stopping import stopped, stopped_and_resumed
from validation.collection.collect import Text, collect, encode_prompts, teacher_forced_logits
from validation.collection.prompts import Prompt
from validation.errors import UserError
from validation.models.pair import Pair, load_pair
from validation.trace.reader import ARRAYS, Trace, probabilities

PROMPTS = [
    Prompt(f"p{i}", text, "test")
    for i, text in enumerate(["two and", "what is the sum of three", "it", "four apples?", "the best of times was it"])
]
HALF = {"rtol": 1e-3, "atol": 2e-3}  # float16 keeps 11 bits


def texts_of(trace: Trace) -> list[tuple[int, slice]]:
    starts = np.flatnonzero(trace.arrays["position"][:] == 0)
    ends = [*starts[1:], trace.positions]
    return [(int(trace.arrays["prompt_index"][a]), slice(int(a), int(b))) for a, b in zip(starts, ends, strict=True)]


def step_by_step(pair: Pair, which: str, prompt: str, tokens: np.ndarray) -> np.ndarray:
    ids = list(pair.tokenizer(prompt).input_ids)
    found = []
    for token in tokens.tolist():
        with torch.no_grad():
            found.append(getattr(pair, which)(torch.tensor([ids])).logits[0, -1, : pair.vocabulary].numpy())
        ids.append(token)
    return np.array(found)


@pytest.fixture(scope="module")
def ending(pair):
    return dataclasses.replace(pair, end_tokens=tuple(range(0, 300, 25)))


@pytest.fixture(scope="module")
def trace(ending, tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "t"
    return collect(ending, PROMPTS, path, positions=120, new_tokens=20, batch=4, command="hlm validate")


def test_logits_are_those_of_single_steps(trace, ending):
    used = trace.manifest["prompts"]
    for index, rows in texts_of(trace):
        for which, name in (("draft", "draft_logits"), ("target", "target_logits")):
            expected = step_by_step(ending, which, used[index]["text"], trace.arrays["tokens"][rows])
            np.testing.assert_allclose(trace.arrays[name][rows], expected, **HALF)


def test_texts_end_at_the_end_token_and_not_later(trace, ending):
    lengths = set()
    for _, rows in texts_of(trace):
        tokens = trace.arrays["tokens"][rows].tolist()
        assert trace.arrays["position"][rows].tolist() == list(range(len(tokens)))
        assert not set(tokens[:-1]) & set(ending.end_tokens)
        assert tokens[-1] in ending.end_tokens or len(tokens) == 20
        lengths.add(len(tokens))
    assert len(lengths) > 2


def surprise(logits: np.ndarray, tokens: np.ndarray) -> float:
    law = probabilities(logits)
    log_law = np.log(law)
    mean = (law * log_law).sum(axis=1)
    variance = (law * log_law**2).sum(axis=1) - mean**2
    return float((log_law[np.arange(len(tokens)), tokens] - mean).sum() / np.sqrt(variance.sum()))


def test_tokens_are_samples_of_the_target_model(pair, tmp_path):
    free = dataclasses.replace(pair, end_tokens=())
    trace = collect(free, PROMPTS, tmp_path / "t", positions=1500, new_tokens=30, batch=25)
    tokens, target = trace.arrays["tokens"][:], trace.arrays["target_logits"][:]
    assert abs(surprise(target, tokens)) < 3.5
    assert abs(surprise(target, np.roll(tokens, 1))) > 10  # one position off would show
    assert abs(surprise(trace.arrays["draft_logits"][:], tokens)) > 10  # so would the other model


def test_padding_changes_nothing(pair):
    rng = np.random.default_rng(2)
    texts = [
        Text(0, f"p{i}", [0, *rng.integers(1, 300, n).tolist()], start)
        for i, (n, start) in enumerate([(5, 2), (40, 30), (17, 17), (40, 1)])
    ]
    for text, logits in zip(texts, teacher_forced_logits(pair, "target", texts), strict=True):
        (alone,) = teacher_forced_logits(pair, "target", [text])
        assert logits.shape == (len(text.tokens) - text.start, 300)
        np.testing.assert_allclose(logits, alone, **HALF)


def test_same_seed_same_trace(ending, tmp_path):
    before = torch.get_rng_state()
    settings = {"positions": 40, "new_tokens": 8, "batch": 3}
    first, second = (collect(ending, PROMPTS, tmp_path / name, **settings) for name in "ab")
    other = collect(ending, PROMPTS, tmp_path / "c", seed=2, **settings)
    assert all(np.array_equal(first.arrays[name], second.arrays[name]) for name in ARRAYS)
    assert first.arrays["tokens"][:].tolist() != other.arrays["tokens"][:].tolist()
    assert torch.equal(torch.get_rng_state(), before)


RESUMED: dict[str, Any] = {"positions": 60, "new_tokens": 8, "batch": 2}


@pytest.mark.parametrize(("positions", "after"), [(RESUMED["positions"], (1, 20, 40)), (None, (2,))])
def test_a_stopped_collection_goes_on(ending, tmp_path, positions, after):
    make = partial(collect, ending, PROMPTS, **(RESUMED | {"positions": positions}))
    assert stopped_and_resumed(make, tmp_path, *after)[0] >= after[-1]


@pytest.mark.parametrize("finished", [True, False])
def test_other_settings_models_or_prompts_are_refused(ending, folders, tmp_path, finished):
    if finished:
        collect(ending, PROMPTS, tmp_path / "t", **RESUMED)
    else:
        stopped(partial(collect, ending, PROMPTS, **RESUMED), tmp_path / "t", 30)
    others = [
        (r"seed: 1 there, 7 now", ending, PROMPTS, {"seed": 7}),
        (r"positions: 60 there, 61 now; batch: 2 there, 3 now", ending, PROMPTS, {"positions": 61, "batch": 3}),
        (r"prompts: \w{16} there, \w{16} now", ending, PROMPTS[:4], {}),
        (r"end_tokens: .* there, \[0\] now", dataclasses.replace(ending, end_tokens=(0,)), PROMPTS, {}),
        (
            r"\(large_weights: \w{16} there, \w{16} now\)",
            dataclasses.replace(with_last_norm(ending, "target", folders, 0.9), end_tokens=ending.end_tokens),
            PROMPTS,
            {},
        ),
    ]
    before = (tmp_path / "t" / "journal.jsonl").read_bytes()
    for message, pair, prompts, settings in others:
        with pytest.raises(UserError, match=f"trace of other settings lies at .*{message}.*--fresh"):
            collect(pair, prompts, tmp_path / "t", **(RESUMED | settings))
    assert (tmp_path / "t" / "journal.jsonl").read_bytes() == before
    assert collect(ending, PROMPTS, tmp_path / "t", **(RESUMED | {"seed": 7}), fresh=True).manifest["seed"] == 7


def refused(message: str, pair: Pair, path: Path, prompts: list[Prompt] = PROMPTS, **settings: Any) -> None:
    with pytest.raises(UserError, match=message) as caught:
        collect(pair, prompts, path / "t", **({"positions": 30, "new_tokens": 8} | settings))
    assert "\n" not in str(caught.value)
    assert not list(path.iterdir())


def test_prompt_too_long(pair, tmp_path):
    prompts = [*PROMPTS, Prompt("long", "x" * 70, "test")]
    message = r"The prompt .long. of test is 71 tokens long, but only 56 fit \(a context of 64 less 8"
    refused(message, pair, tmp_path, prompts)
    refused("new_tokens is 64, but the context holds 64 tokens", pair, tmp_path, new_tokens=64)


def with_last_norm(pair: Pair, which: str, folders: tuple[Path, Path], value: float) -> Pair:
    damaged = load_pair(draft=folders[0], target=folders[1])
    with torch.no_grad():
        getattr(damaged, which).model.norm.weight.fill_(value)
    return damaged


@pytest.mark.parametrize(
    ("which", "value", "message"),
    [
        ("target", float("nan"), r"gives a logit that is nan, at prompt 'p\d', position 0; check its weights"),
        ("draft", float("inf"), r"gives a logit that is (nan|inf), at prompt 'p\d', position 0"),
        ("draft", 1e6, r"gives a logit of magnitude .*, more than float16 holds \(65504\), at prompt 'p\d'"),
    ],
)
def test_bad_logits(pair, folders, tmp_path, which, value, message):
    refused(rf"The {which} model \(.*\) {message}", with_last_norm(pair, which, folders, value), tmp_path)


def test_a_prompt_begins_as_its_tokenizer_says(pair):
    prompts = [Prompt("a", "two and two", "test")]
    assert encode_prompts(pair, prompts, 4)[0][0] == pair.tokenizer.bos_token_id
    backend = pair.tokenizer.backend_tokenizer
    before = backend.post_processor
    try:
        backend.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
        (ids,) = encode_prompts(pair, prompts, 4)
    finally:
        backend.post_processor = before
    assert ids == pair.tokenizer("two and two", add_special_tokens=False).input_ids
