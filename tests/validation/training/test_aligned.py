"""Training of the aligned draft, on models of a few hundred weights."""

import json
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.validation.models.test_aligned import toy_base, toy_tokenizer
from tests.validation.training.test_training import CONTEXT, data, toy_documents
from validation.models.aligned import anchor_weights, build_aligned, frozen_names
from validation.models.pair import load_pair
from validation.training import __main__ as command
from validation.training import texts
from validation.training.aligned import Alignment, add_projection, alignment_loss
from validation.training.loop import fit

__all__ = ["data"]  # a fixture
TOY = Alignment(matrix_rate=0.02, other_rate=0.01, epochs=6.0, batch=2, entry_layers=1, entry_width=6)
PRINTED = replace(TOY, entry_layers=0, entry_width=0, exit_width=12)
OWN_HEAD = replace(PRINTED, own_head=True)


def toy_draft(base: Any, course: Alignment) -> Any:
    shape = {name: getattr(course, name) for name in ("entry_layers", "entry_width", "exit_width", "own_head")}
    draft = build_aligned(base, **shape)
    add_projection(draft)
    return draft


@pytest.mark.parametrize("course", [TOY, PRINTED])
def test_the_whole_loss_weighs_both(course):
    course = replace(course, feature_weight=0.25, divergence_weight=3.0, temperature=2.0)
    base = toy_base()
    draft = toy_draft(base, course)
    torch.nn.init.normal_(draft.feature_projection.weight)
    rows = torch.from_numpy(texts.blocks(toy_documents(), np.random.default_rng(4), CONTEXT)[:3])
    found = alignment_loss(base, course)(draft, rows)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        states, own = (m.model(rows[:, :-1]).last_hidden_state for m in (base, draft))
        logits = [m.lm_head(h).double().numpy() for m, h in ((base, states), (draft, own))]
        distance = draft.feature_projection(own).double() - states.double()
    p, q = (np.exp(z / 2) / np.exp(z / 2).sum(-1, keepdims=True) for z in logits)
    expected = 3.0 * 4.0 * (p * np.log(p / q)).sum(-1).mean() + 0.25 * distance.square().sum(-1).mean().item()
    assert found.item() == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("course", [TOY, PRINTED, OWN_HEAD])
def test_training_lowers_the_loss_and_leaves_the_frozen_parts_bit_for_bit(course, tmp_path):
    base, documents = toy_base(), toy_documents()
    draft = toy_draft(base, course)
    before = {name: weights.clone() for name, weights in draft.state_dict().items()}
    teacher = {name: weights.clone() for name, weights in base.state_dict().items()}
    loss = alignment_loss(base, course)
    rows = torch.from_numpy(texts.blocks(documents, np.random.default_rng(5), CONTEXT)[:8])
    started = loss(draft, rows).item()
    fit(draft, course, documents, tmp_path / "toy.pt", loss=loss)
    assert loss(draft, rows).item() < 0.9 * started
    after, frozen = draft.state_dict(), frozen_names(draft)
    shared = anchor_weights(base)
    for name, source in frozen.items():
        assert torch.equal(after[name], before[name]), name
        assert torch.equal(after[name], shared[source].float()), name
    changed = {name for name in after if not torch.equal(after[name], before[name])}
    assert changed == after.keys() - frozen.keys()
    assert all(torch.equal(weights, teacher[name]) for name, weights in base.state_dict().items())


def test_the_command_trains_a_draft_that_loads_beside_its_base_model(data, tmp_path, monkeypatch):
    base = toy_base()
    base.config.max_position_embeddings = CONTEXT
    base.save_pretrained(tmp_path / "pair/large")
    toy_tokenizer(tmp_path / "pair/large")
    monkeypatch.setattr(command, "ALIGNED", {"entry": replace(TOY, epochs=0.01)})
    words = ["train", "--data", data, "--out", tmp_path / "pair", "--work", tmp_path / "work", "aligned"]
    monkeypatch.setattr(sys, "argv", list(map(str, words)))
    command.main()
    made = json.loads((tmp_path / "pair/aligned/training.json").read_text())
    assert made["own_parameters"] < made["parameters"]
    assert made["own_bytes"] == (tmp_path / "pair/aligned/model.safetensors").stat().st_size
    assert made["tokens"] == made["steps"] * TOY.batch * CONTEXT
    assert len(made["acceptance_curve"]["points"]) >= 2
    assert made["held_out_acceptance"].keys() == {"gsm8k", "peps", "novels"}
    pair = load_pair(draft=tmp_path / "pair/aligned", target=tmp_path / "pair/large")
    assert pair.draft_parameters == made["parameters"]
