"""Training of Medusa's heads and EAGLE's layer on made-up texts and a model of a few hundred weights."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from tests.validation.training.test_training import fresh
from validation.models.heads import EAGLE, MEDUSA, build_heads, load_heads, read_settings
from validation.training import heads as training
from validation.training import texts
from validation.training.heads import COURSES, eagle_loss, medusa_loss, train_heads
from validation.training.recipes import Recipe

RECIPE = Recipe(hidden=16, feed_forward=32, layers=2, heads=2, context=24, matrix_rate=0.1, other_rate=0.1)


@pytest.fixture(scope="module")
def base():
    return fresh(RECIPE, 1, 6.0).eval().requires_grad_(False)


def documents(count: int = 12) -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    return [np.tile(rng.integers(0, 40, 6), 5) for _ in range(count)]


def test_medusas_loss_is_the_weighted_sum_over_heads(base):
    part, course = build_heads(MEDUSA, base.config, 2), replace(COURSES[MEDUSA], heads=2, decay=0.5)
    ids = torch.from_numpy(np.stack([one[:13] for one in documents(3)]))
    with torch.no_grad():
        states = training.base_states(base, ids[:, :-1])
        expected = 0.0
        for k, head in enumerate(part.heads, 1):
            rows = head(states).log_softmax(dim=-1)
            said = [rows[b, t, ids[b, t + 1 + k]] for b in range(3) for t in range(12 - k)]
            expected -= 0.5**k * float(torch.stack(said).mean())
        assert float(medusa_loss(base, course)(part, ids)) == pytest.approx(expected, rel=2e-2)  # bf16


def test_eagles_loss_is_that_of_the_next_states(base):
    part = build_heads(EAGLE, base.config).eval()
    part.start_from(base)
    course = replace(COURSES[EAGLE], divergence_weight=0.5)
    ids = torch.from_numpy(np.stack([one[:13] for one in documents(3)]))
    with torch.no_grad():
        states = training.base_states(base, ids[:, :-1])
        found = part(ids[:, 1:-1], states[:, :-1])
        off = (found.hidden_states[0] - states[:, 1:]).abs()
        distance = torch.where(off < 1, 0.5 * off**2, off - 0.5).mean()
        law = base.lm_head(states[:, 1:]).softmax(dim=-1)
        entropy = -(law * found.logits.log_softmax(dim=-1)).sum(dim=-1).mean()
        expected = float(distance + 0.5 * entropy)
        assert float(eagle_loss(base, course)(part, ids)) == pytest.approx(expected, rel=3e-2)  # bf16


@pytest.mark.parametrize("kind", [MEDUSA, EAGLE])
def test_training_writes_weights_that_load_and_lowers_the_loss(kind, base, tmp_path, monkeypatch):
    class Words:
        eos_token_id = 0

        def __call__(self, some, **_):
            return {"input_ids": [[int(word) for word in text.split()] for text in some]}

    taught = [" ".join(map(str, one)) for one in documents(40)]
    library = replace(texts.LIBRARIES["plain"], corpus=lambda data: (taught, {"made up": taught[:4]}))
    monkeypatch.setattr(training, "LIBRARIES", {"plain": library})
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda folder: Words())
    base.save_pretrained(tmp_path / "base")
    course = replace(COURSES[kind], epochs=1.5, batch=2, heads=2, matrix_rate=0.02, other_rate=0.01)
    for _ in range(2):  # the second time the checkpoint is complete
        train_heads(kind, course, tmp_path, tmp_path / "base", tmp_path / "out", tmp_path / "work.pt")
    record = json.loads((tmp_path / "out/training.json").read_text())
    told = read_settings(tmp_path / "out", kind)
    assert record["bytes"] == (tmp_path / "out/heads.safetensors").stat().st_size
    assert len(told["hits"]) == (2 if kind == MEDUSA else 1)
    part = load_heads(tmp_path / "out", kind, base)
    fresh = build_heads(kind, base.config, 2)
    fresh.start_from(base)
    ids = torch.from_numpy(np.stack([one[:25] for one in documents(40)]))
    make = medusa_loss if kind == MEDUSA else eagle_loss
    with torch.no_grad():
        before, after = (float(make(base, course)(one.eval(), ids)) for one in (fresh, part))
    assert after < before - 0.08  # most of it is the entropy of the base
