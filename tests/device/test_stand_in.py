"""The stand-in accelerator refuses what CUDA refuses, and otherwise computes what the host computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.device.stand_in import far, synchronize

X = [[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]]
HERE, THERE = torch.tensor(X), [torch.tensor([2, 0]), torch.tensor([[2], [0]])]
MIXED = "on the same device"

REFUSED: dict[str, tuple[str, Callable[[], Any]]] = {
    "an operand": (MIXED, lambda: far(X) + HERE),
    "a condition": (MIXED, lambda: torch.where(HERE > 2, far(X), far(X))),
    "a part": (MIXED, lambda: torch.cat([far(X), HERE])),
    "an index to gather": (MIXED, lambda: far(X).gather(-1, THERE[1])),
    "an index to select": (MIXED, lambda: far(X).index_select(1, THERE[0])),
    "an index on the device of the host's values": ("indices should be", lambda: HERE[far([1])]),
    "values to put": (MIXED, lambda: far(X).index_put_((far([0]),), torch.zeros(1, 3, dtype=torch.float64))),
    "a place for the answer": (MIXED, lambda: torch.add(far(X), 1.0, out=torch.empty(2, 3, dtype=torch.float64))),
    "a weight": (MIXED, lambda: torch.nn.Linear(3, 2)(far(np.float32(X)))),
    "a second accelerator": (MIXED, lambda: far(X) + far(X, 1)),
    "a number where the kernel takes none": (MIXED, lambda: torch.nextafter(far(X), torch.tensor(1.0).double())),
    "boundaries": (MIXED, lambda: torch.searchsorted(HERE.double()[0], far(X))),
    "a third accelerator": ("invalid device ordinal", lambda: torch.zeros(1, device="far:2")),
    "integers to multiply": (
        "not implemented",
        lambda: far([[1, 2]]) @ far([1, 2]),
    ),
    "the host's generator": (
        "Expected a 'far' device type",
        lambda: torch.rand(3, device="far", generator=torch.Generator()),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cuda_refuses_is_refused(name: str) -> None:
    said, mistake = REFUSED[name]
    with pytest.raises(RuntimeError, match=said):
        mistake()


@pytest.mark.parametrize("look", [np.asarray, np.array, lambda x: x.numpy(), lambda x: np.add(x, 1), memoryview])
def test_numpy_cannot_read_the_device(look: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"can't convert far:0|bytes-like"):
        look(far(X))


def test_a_copy_that_does_not_wait_is_not_the_value_yet() -> None:
    found = far(X).to("cpu", non_blocking=True)
    assert found.tolist() != X
    synchronize()
    assert found.tolist() == X
