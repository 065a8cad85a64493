"""Training and MC dropout on the stand-in accelerator: losses, gradients, steps, checkpoints, held-out measures."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.device.stand_in import Far
from tests.validation.training.test_aligned import OWN_HEAD, PRINTED, TOY, toy_base, toy_documents, toy_draft
from tests.validation.training.test_training import CONTEXT, DISTILLED, LARGE, SMALL, fresh
from validation.models.heads import EAGLE, MEDUSA, build_heads
from validation.training.aligned import alignment_loss
from validation.training.distil import distillation_loss
from validation.training.heads import COURSES, eagle_loss, hits, medusa_loss
from validation.training.loop import Loss, fit, held_out_acceptance, held_out_loss, text_loss
from validation.training.texts import blocks
from validation.uncertainty.baselines import dropout_uncertainty

Made = tuple[Any, Loss]
ROWS = torch.from_numpy(blocks(toy_documents(), np.random.default_rng(4), CONTEXT)[:3])


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Compute in float32, because the stand-in has no automatic types; note for which device they are asked."""
    devices: list[str] = []

    def autocast(device: str, _: torch.dtype) -> Any:
        devices.append(device)
        return nullcontext()

    monkeypatch.setattr(torch, "autocast", autocast)
    return devices


def _text(to: str) -> Made:
    return fresh(SMALL, 2, 4.0).to(to), text_loss


def _distilled(to: str) -> Made:
    course = replace(DISTILLED, temperature=2.0, mixing=0.25)
    return fresh(SMALL, 2, 4.0).to(to), distillation_loss(fresh(LARGE, 1, 4.0).to(to), course)


def _aligned(course: Any) -> Callable[[str], Made]:
    def made(to: str) -> Made:
        base = toy_base().float().to(to)
        return seeded(lambda: toy_draft(toy_base().float(), course)).to(to), alignment_loss(base, course)

    return made


def _heads(kind: str) -> Callable[[str], Made]:
    def made(to: str) -> Made:
        base = fresh(LARGE, 1, 4.0).eval().requires_grad_(False)
        part = seeded(lambda: build_heads(kind, base.config, *([2] if kind == MEDUSA else [])))
        if kind == EAGLE:
            part.start_from(base)
        course = replace(COURSES[kind], **({"heads": 2} if kind == MEDUSA else {"noise": 0.0}))
        return part.to(to), (medusa_loss if kind == MEDUSA else eagle_loss)(base.to(to), course)

    return made


def seeded(make: Callable[[], Any]) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return make()


LOSSES: dict[str, Callable[[str], Made]] = {
    "text": _text,
    "distillation": _distilled,
    "alignment": _aligned(TOY),
    "alignment as printed": _aligned(PRINTED),
    "alignment with its own head": _aligned(OWN_HEAD),
    "Medusa": _heads(MEDUSA),
    "EAGLE": _heads(EAGLE),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_and_its_gradients_are_those_of_the_host(name: str, asked: list[str]) -> None:
    found = []
    for to in ("cpu", "far"):
        model, loss = LOSSES[name](to)
        asked.clear()
        value = loss(model, ROWS.to(to))
        value.backward()
        assert set(asked) == {to}, "narrow types are asked for another device"
        gradients = {key: one.grad for key, one in model.named_parameters() if one.grad is not None}
        assert gradients
        assert all(isinstance(one, Far) == (to == "far") for one in (value, *gradients.values()))
        found.append({"value": value, **gradients})
    ours, theirs = found
    assert ours.keys() == theirs.keys()
    for key, one in ours.items():
        torch.testing.assert_close(theirs[key].detach().cpu(), one.detach(), rtol=1e-5, atol=1e-7)


def test_a_run_with_checkpoints_ends_where_that_of_the_host_does(tmp_path: Path) -> None:
    models = [fresh(SMALL, 2, 4.0).to(to) for to in ("cpu", "far")]
    documents, course = toy_documents()[:6], replace(DISTILLED, epochs=1.0)
    for model in models:
        fit(model, course, documents, tmp_path / f"{model.device.type}.pt", every=2)
    for ours, theirs in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert isinstance(theirs, Far)
        torch.testing.assert_close(theirs.detach().cpu(), ours.detach(), rtol=1e-4, atol=1e-6)
    scores = [held_out_loss(model, documents) for model in models]
    assert scores[1] == pytest.approx(scores[0], rel=1e-5)
    rates = [held_out_acceptance(model, fresh(LARGE, 1, 4.0).to(model.device), documents) for model in models]
    assert rates[1] == pytest.approx(rates[0], rel=1e-5)


@pytest.mark.parametrize("kind", [MEDUSA, EAGLE])
def test_the_hits_of_heads_are_those_of_the_host(kind: str) -> None:
    found = []
    for to in ("cpu", "far"):
        part, _ = LOSSES["Medusa" if kind == MEDUSA else "EAGLE"](to)
        found.append(hits(kind, part, fresh(LARGE, 1, 4.0).eval().to(to), toy_documents()[:4]))
    np.testing.assert_allclose(found[1], found[0])


def test_dropout_on_the_device_is_drawn_there_and_has_the_law_of_the_host() -> None:
    model = fresh(SMALL, 2, 6.0).eval()
    ids = [document[:12].tolist() for document in toy_documents()[:3]]
    positions, drafts = [[2, 5, 9]] * 3, [[17, 7, 3]] * 3
    found = []
    for to in ("cpu", "far"):
        states = torch.get_rng_state(), torch.far.get_rng_state()
        moved, rng = copy.deepcopy(model).to(to), np.random.default_rng(1)
        found.append(dropout_uncertainty(moved, ids, positions, drafts, rates=[0.0, 0.3] * 5, rng=rng))
        assert torch.equal(torch.get_rng_state(), states[0])
        assert torch.equal(torch.far.get_rng_state(), states[1])
    np.testing.assert_array_equal(found[1], found[0])  # both devices draw with the host's generator and one seed
