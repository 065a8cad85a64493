"""The target's law: processors against those of transformers, tables, models, and the cells of a partition."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM, LogitsProcessorList
from transformers.generation import logits_process as theirs

from tests.validation.conftest import make_model
from validation.audit import ModelLaw, Processors, TableLaw
from validation.audit.driver import padded
from validation.audit.laws import extended_rows
from validation.audit.partition import Partition
from validation.errors import UserError


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 0.7},
        {"top_k": 5},
        {"top_p": 0.9},
        {"min_p": 0.1},
        {"repetition_penalty": 1.3},
        {"temperature": 0.7, "top_k": 7, "top_p": 0.8, "min_p": 0.05, "repetition_penalty": 1.2},
    ],
)
def test_rows_are_those_of_transformers(settings):
    logits = np.random.default_rng(1).normal(scale=3.0, size=(20, 40))
    contexts = np.random.default_rng(2).integers(40, size=(20, 6))
    make = {
        "repetition_penalty": theirs.RepetitionPenaltyLogitsProcessor,
        "temperature": theirs.TemperatureLogitsWarper,
        "top_k": theirs.TopKLogitsWarper,
        "top_p": theirs.TopPLogitsWarper,
        "min_p": theirs.MinPLogitsWarper,
    }
    steps = LogitsProcessorList([kind(settings[name]) for name, kind in make.items() if name in settings])
    expected = steps(torch.from_numpy(contexts), torch.from_numpy(logits.copy())).softmax(dim=-1).numpy()
    found, _ = Processors(**settings).uncertain_rows(logits, contexts.tolist())
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_penalties_biases_and_the_smallest_length_are_those_of_vllm():
    """Bias, ban of the end, penalties of drawn tokens, temperature, min-p, top-k, written out; in tables by prefix."""
    settings = {"presence_penalty": 0.5, "frequency_penalty": 0.3, "logit_bias": ((2, 0.7), (0, -1.0))}
    made = Processors(0.8, 3, min_p=0.1, order="vllm", min_tokens=2, **settings)
    logits = np.array([2.0, 1.0, 0.5, 1.5, -1.0])
    penalties = np.array([0.0, 0.5 + 2 * 0.3, 0.0, 0.5 + 0.3, 0.0])  # after 1, 3, 1
    expected = np.exp((logits + np.array([-1.0, 0.0, 0.7, 0.0, 0.0]) - penalties) / 0.8)
    expected[expected < 0.1 * expected.max()] = 0.0
    expected[expected < np.sort(expected)[-3]] = 0.0
    rows, _ = made.uncertain_rows(logits[None], [[4, 4, 1, 3, 1]], 3)
    np.testing.assert_allclose(rows[0], expected / expected.sum())
    assert replace(made, count_prompt=True).uncertain_rows(logits[None], [[4, 4, 1, 3, 1]], 3)[0][0, 4] == 0
    softmax = np.exp(logits) / np.exp(logits).sum()
    law = TableLaw(np.tile(softmax, (1 + 5 + 25 + 125, 1)), [[0]], (3,), made)
    text = np.array([[1, 2, 1, 0]])
    assert (law.next_rows(0, text)[0, :, 3] > 0).tolist() == [False, False, True, True]  # the third token may end it
    np.testing.assert_allclose(law.next_rows(0, text)[0, 3], made.uncertain_rows(logits[None], [[1, 2, 1]], 3)[0][0])
    with pytest.raises(UserError, match=r"names token 7; it must be in 0\.\.4"):
        replace(made, logit_bias=((7, 1.0),)).uncertain_rows(logits[None], [()])


def test_the_order_changes_the_law():
    logits = np.log([[0.5, 0.3, 0.15, 0.05]])
    order = ("repetition_penalty", "top_k", "top_p", "min_p", "temperature")
    first = Processors(temperature=2.0, top_p=0.75)
    for made, kept in ((first, 3), (replace(first, order=order), 2)):
        assert np.count_nonzero(made.uncertain_rows(logits, [()])[0]) == kept


@pytest.mark.parametrize(
    ("settings", "unsure"),
    [
        ({"top_k": 2}, [1, 2]),  # the second and the third token are nearly equal
        ({"top_k": 1}, []),
        ({"top_p": 0.7}, [1, 2]),  # either of the two may be the last one kept
        ({"top_p": 0.4}, [1, 2]),  # the mass before the border is 0.4, up to rounding
        ({"min_p": 0.75}, [1, 2]),  # 0.3 of 0.4
        ({"temperature": 0.0}, []),
    ],
)
def test_what_rounding_may_drop_is_uncertain(settings, unsure):
    logits = np.log(np.array([[0.4, 0.3 + 1e-7, 0.3 - 1e-7, 1e-30]]))
    rows, slack = Processors(**settings, rounding=1e-5).uncertain_rows(logits, [()])
    assert slack[0] == pytest.approx(rows[0, unsure].sum() + 1e-5, abs=1e-9)
    assert (rows[0, unsure] > 0).all()
    exact, none = Processors(**settings).uncertain_rows(logits, [()])
    assert none[0] == 0.0
    assert 0.5 * np.abs(exact - rows).sum() <= slack[0] + 1e-12


@pytest.mark.parametrize("rounding", [0.0, 1e-5])
@pytest.mark.parametrize("temperature", [1.0, 1e-300, 5e-324])
@pytest.mark.parametrize("order", [("top_k", "temperature"), ("temperature", "top_k")])
def test_rows_with_zeros_and_temperatures_near_0_are_distributions(rounding, temperature, order):
    """A cut behind another one, or of a row with zeros, may ask for more tokens than are left."""
    made = Processors(temperature, 3, 0.6, order=("repetition_penalty", "top_p", *order, "min_p"), rounding=rounding)
    logits = np.array([[0.0, -1.0, -2.0, -np.inf], [-700.0, -1e308, -np.inf, -9e307]])
    rows, slack = made.uncertain_rows(logits, [(), ()])
    assert rows[:, 0].tolist() == [1.0, 1.0]
    assert slack.max() <= rounding
    assert TableLaw([[0.7, 0.3, 0.0, 0.0]], processors=Processors(top_k=3)).table.tolist() == [[[0.7, 0.3, 0.0, 0.0]]]


def tiny() -> LlamaForCausalLM:
    torch.manual_seed(1)
    return make_model(vocabulary=11).eval()


@pytest.mark.parametrize("depth", [1, 3])
def test_a_model_gives_the_rows_of_a_plain_forward_pass(depth):
    model, prompts, made = tiny(), [[1, 2, 5], [4]], Processors(temperature=0.8, top_k=6)
    law = ModelLaw(model, prompts, made)
    tokens = np.random.default_rng(3).integers(11, size=(9, depth))
    assert (law.vocabulary, law.end_tokens) == (11, (0,))
    for place, prompt in enumerate(prompts):
        for row, text in zip(law.next_rows(place, tokens), tokens.tolist(), strict=True):
            ids = torch.tensor([[*prompt, *text]])
            with torch.inference_mode():
                logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1].double().numpy()
            np.testing.assert_allclose(row, made.uncertain_rows(logits, [()] * depth)[0], atol=1e-5)


def test_a_repetition_penalty_counts_the_prompt_and_the_new_tokens():
    made = Processors(repetition_penalty=2.0, frequency_penalty=0.5, min_tokens=2)
    model = tiny().double()  # passes of two lengths round alike
    law = ModelLaw(model, [[1, 2]], made)
    found = law.next_rows(0, np.array([[7, 8]]))[0, 1]
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([[1, 2, 7]])).logits[0, -1:].double().numpy()
    banned = np.arange(11)[None] == 0
    np.testing.assert_allclose(found, made.uncertain_rows(logits, [[1, 2, 7]], 1, banned)[0][0], atol=1e-6)
    left_out = law.rows_without(0, np.array([[7, 8]]), ("penalty_dropped", "min_tokens_dropped"))
    for name, other in (
        ("penalty_dropped", Processors(min_tokens=2)),
        ("min_tokens_dropped", replace(made, min_tokens=0)),
    ):
        np.testing.assert_allclose(left_out[name], ModelLaw(model, [[1, 2]], other).next_rows(0, np.array([[7, 8]])))
    unseen = law.rows_seeing(0, np.array([[7, 8]]), ())[0, 1]
    np.testing.assert_allclose(unseen, made.uncertain_rows(logits, [[1, 2]], 0, banned)[0][0], atol=1e-6)


def test_behind_the_end_there_is_nothing():
    law = TableLaw(np.full((4, 3), 1 / 3), end_tokens=(1,))
    rows, slack = extended_rows(law, 0, np.array([[1, 3], [0, 2]]))
    assert not slack.any()
    assert rows[0, 1].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert rows[1, 1].tolist() == [1 / 3, 1 / 3, 1 / 3, 0.0]


def test_texts_are_filled_up_behind_their_end():
    law = TableLaw(np.full((13, 3), 1 / 3), end_tokens=(1,))
    assert padded(law, [[0, 1], [1, 1, 1], [1, -1, -1], [2, 2, 2, 0]], 3).tolist() == [
        [0, 1, 3],
        [1, 3, 3],
        [1, 3, 3],
        [2, 2, 2],
    ]
    assert padded(law, [[1, 0, 0]], 3, pad=0).tolist() == [[1, 3, 3]]
    assert padded(law, [[1, 0, 0]], 3).tolist() == [[1, 0, 0]]  # it goes on: a finding
    with pytest.raises(UserError, match="no end-of-text token"):
        padded(law, [[0, 0]], 3)


@pytest.mark.parametrize("most", [4, 10, 1000])
def test_the_cells_of_a_partition_have_their_probability(most):
    """Against the sum over all continuations, each walked to its cell."""
    size, depth = 4, 3
    law = TableLaw(np.random.default_rng(4).dirichlet(np.full(size, 0.5), 1 + size + size**2), end_tokens=(2,))
    part = Partition(law, 0, depth, most)
    texts = np.array(list(itertools.product(range(size + 1), repeat=depth)))
    chances = np.take_along_axis(extended_rows(law, 0, texts)[0], texts[..., None], axis=-1)[..., 0].prod(axis=1)
    assert chances.sum() == pytest.approx(1.0)
    cells = part.walk(texts)
    for t in range(depth):
        own = part.cells(t + 1)
        assert set(cells[:, t]) <= set(own.tolist())
        mass = np.bincount(cells[:, t], weights=chances, minlength=len(part.mass))
        np.testing.assert_allclose(mass[own], part.mass[own], atol=1e-12)
        prefixes = {cell: {tuple(text[: t + 1]) for text in texts[cells[:, t] == cell]} for cell in own.tolist()}
        several = sum(part.mass[cell] for cell, known in prefixes.items() if len(known) > 1)
        assert several <= part.shared(t + 1) + 1e-12
        assert part.shared(t + 1) == pytest.approx(several if most == 1000 else part.shared(t + 1))
    assert (part.shared(depth) == 0) == (most == 1000)
    assert len(part.cells(depth)) <= 2 * most + 5 * size or most == 1000


@pytest.mark.parametrize("made", [{"repetition_penalty": 1.2}, {"presence_penalty": 0.5, "count_prompt": True}])
def test_a_table_has_no_prompts_to_count(made):
    with pytest.raises(UserError, match="A table has no logits and no prompts"):
        TableLaw(np.full((1, 1, 2), 0.5), processors=Processors(**made))
