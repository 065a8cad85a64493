"""Every claim's check and every public function that takes arrays, on the stand-in accelerator's tensors."""

from __future__ import annotations

from typing import Any

import array_api_compat.torch
import numpy as np
import pytest
import torch

import hlmtheory
from hlmtheory.claims import Claim
from tests.device.stand_in import Far, far
from tests.theory.test_libraries import FUNCTIONS, OWN, answer


def near(value: Any) -> torch.Tensor:
    """Return the values as a tensor of the host."""
    return torch.asarray(np.array(value))


@pytest.mark.parametrize("claim", hlmtheory.all_claims().values(), ids=lambda claim: claim.id)
def test_a_claim_has_the_verdict_of_the_host(claim: Claim) -> None:
    one = claim.refuted or claim.attained.instance
    instance = {name: np.stack([value, value]) for name, value in one.items()}  # a number may be on either device
    ours, theirs = (claim.check({name: to(value) for name, value in instance.items()}) for to in (near, far))
    assert ours.status.tolist() == theirs.status.tolist(), (ours, theirs)
    np.testing.assert_allclose(theirs.lhs, ours.lhs, rtol=1e-9)
    np.testing.assert_allclose(theirs.rhs, ours.rhs, rtol=1e-9)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in OWN])
def test_a_call_gives_the_answer_of_the_host(name: str) -> None:
    """The answer on the device equals the host's, and is on the device if the host's answer is a tensor."""
    for ours, theirs in zip(answer(name, near), answer(name, far), strict=True):
        assert isinstance(theirs, Far) == isinstance(ours, torch.Tensor)
        np.testing.assert_allclose(getattr(theirs, "host", theirs), ours, rtol=1e-9)


@pytest.mark.parametrize("name", ["output_distribution", "tail_deviation", "allocate", "etgr_profile"])
def test_an_array_that_stays_on_the_host_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The constructor is broken so that it forgets the device, as code without ``device=`` does."""
    made = array_api_compat.torch.arange

    def forgets(*values: Any, device: Any = None, **options: Any) -> Any:
        return made(*values, **options, **({} if device is None else {"device": "cpu"}))

    monkeypatch.setattr(array_api_compat.torch, "arange", forgets)
    with pytest.raises((RuntimeError, TypeError, AttributeError), match=r"device|'contiguous'|far:0"):
        answer(name, far)
