"""The fingerprint of a model depends on every byte of every weight, wherever the weight is stored."""

import copy
from types import SimpleNamespace

import pytest
import torch

from validation.collection import fingerprint
from validation.collection.fingerprint import weights_mark


@pytest.fixture
def model(pair):
    return copy.deepcopy(pair.target)


def test_names_shapes_dtypes_and_every_piece_count(model, monkeypatch):
    first = weights_mark(model)
    assert weights_mark(copy.deepcopy(model)) == first
    monkeypatch.setattr(fingerprint, "PIECE", 7)  # tensors in several pieces, the last of them shorter
    assert weights_mark(model) == first
    marks = {first, weights_mark(copy.deepcopy(model).to(torch.bfloat16))}
    embedding = model.get_input_embeddings()
    embedding.weight.data[-1, -1] += 1.0
    marks.add(weights_mark(model))
    embedding.weight.data = embedding.weight.data.t().contiguous().reshape(16, 300)
    marks.add(weights_mark(model))
    assert len(marks) == 4


def test_weights_that_accelerate_keeps_elsewhere_count(model):
    whole = weights_mark(model)
    for module in model.modules():
        if own := dict(module.named_parameters(recurse=False)):
            module._hf_hook = SimpleNamespace(weights_map={name: value.detach().clone() for name, value in own.items()})
            for name, value in own.items():
                setattr(module, name, torch.nn.Parameter(torch.empty_like(value, device="meta")))
    assert weights_mark(model) == whole
    model.model.norm._hf_hook.weights_map["weight"][0] += 1.0
    assert weights_mark(model) != whole
