"""MC dropout: its counts, the restored model, and refusals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from validation.collection.collect import collect
from validation.collection.prompts import Prompt
from validation.errors import UserError
from validation.models.pair import load_pair
from validation.trace.reader import open_trace, probabilities
from validation.uncertainty import baselines
from validation.uncertainty.baselines import DROPOUT, _dropping, baseline_measures, dropout_uncertainty

TEXTS = ["what is the Sum of apples?", "two and two make four", "it was the best of times"]


@pytest.fixture(scope="module")
def sharp(save_model):
    place = save_model(hidden=64)
    return load_pair(draft=place, target=place)


@pytest.fixture(scope="module")
def trace(pair, tmp_path_factory):
    prompts = [Prompt(f"p{index}", text, "test") for index, text in enumerate(TEXTS)]
    return collect(pair, prompts, tmp_path_factory.mktemp("baselines") / "trace", positions=60, new_tokens=12, batch=2)


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def refused(message: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    with pytest.raises(UserError, match=message) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)


def logits(model: Any, ids: list[int]) -> Any:
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits


def probability(model: Any, ids: list[int], at: int, token: int) -> float:
    """Return softmax(z)_token of the token at index ``at``, by a pass over the tokens before it only."""
    return float(probabilities(logits(model, ids[:at])[0, -1].numpy())[token])


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neo"])
def test_dropout_leaves_the_model_as_it_was(family, save_model):
    place = save_model(family)
    model = load_pair(draft=place, target=place).draft
    ids = [5, 9, 17, 33, 12, 7, 80, 41]
    before = logits(model, ids)
    flags = [(module.training, getattr(module, "p", None)) for module in model.modules()]
    state = torch.random.get_rng_state()
    dropout_uncertainty(model, [ids], [[2, 5]], [[17, 7]], rates=[0.5, 0.9], rng=rng())
    assert torch.equal(logits(model, ids), before)  # bit for bit
    assert [(module.training, getattr(module, "p", None)) for module in model.modules()] == flags
    assert not any(module._forward_hooks for module in model.modules())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_fused_attention_of_gpt2_drops_too(save_model):
    """Its dropout is not a module call: the attention reads its own flag."""
    place = save_model("gpt2")
    model = load_pair(draft=place, target=place).draft
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.forward = lambda values: values  # only the functional dropout is left
    ids = [5, 9, 17, 33]
    with torch.random.fork_rng(devices=[]), _dropping(model, 0.5):
        assert not torch.equal(logits(model, ids), logits(model, ids))


def test_u_is_the_chance_of_another_token(sharp):
    """At rate 0 every pass samples from q, so u is binomial with 1 - q_d; texts of different lengths share a pass."""
    ids, repeats = [[5, 9, 17, 33, 12, 7, 80, 41], [5, 9, 60, 2, 11], [3] * 12], 2000
    at = [7, 4, 6]
    likely = [int(logits(sharp.draft, text[:index])[0, -1].argmax()) for text, index in zip(ids, at, strict=True)]
    positions, drafts = ([[value] * repeats for value in values] for values in (at, likely))
    found = dropout_uncertainty(sharp.draft, ids, positions, drafts, rates=[0.0, 0.0], rng=rng())
    assert set(found) == {0.0, 0.5, 1.0}
    expected = [1 - probability(sharp.draft, *place) for place in zip(ids, at, likely, strict=True)]
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(found.reshape(3, -1).mean(axis=1), expected, atol=5 * np.sqrt(0.25 / (2 * repeats)))


def test_the_measure_of_a_trace(trace, pair):
    found = baseline_measures(trace, pair, positions=30, seed=3)
    assert set(found.uncertainty) == {DROPOUT}
    assert 30 <= len(found.rows) < 30 + 12
    assert set(np.flatnonzero(trace.arrays["position"][:] == 0)) & set(found.rows)
    assert len(np.unique(found.rows)) == len(found.rows) == len(found.drafts)
    for u in found.uncertainty.values():
        assert u.shape == found.rows.shape
        assert u.min() >= 0
        assert u.max() <= 1
        assert u * 20 == pytest.approx(np.rint(u * 20))


def test_the_texts_are_those_of_the_trace(trace, pair, monkeypatch):
    """Without perturbation, q_d of the passes equals that of the stored logits."""
    seen = {}
    monkeypatch.setattr(baselines, "dropout_uncertainty", lambda *a, rng: seen.update(a=a) or np.zeros(1))
    found = baseline_measures(trace, pair, positions=40)
    readings = baselines._readings(*seen["a"][1:])
    likely = np.concatenate([baselines._draft_probabilities(pair.draft, [reading])[0] for reading in readings])
    stored = probabilities(trace.arrays["draft_logits"][found.rows])[np.arange(len(found.rows)), found.drafts]
    np.testing.assert_allclose(likely, stored, rtol=0.02)  # float16


def test_a_trace_and_its_pair_are_checked(trace, pair, save_model, extended_tokenizer):
    refused("positions is 0", baseline_measures, trace, pair, positions=0)
    place = save_model(vocabulary=301, tokenizer=extended_tokenizer(extra=("<added>",)))
    other = load_pair(draft=place, target=place)
    refused("has 300 entries and the pair .* has 301", baseline_measures, open_trace(trace.path), other)
