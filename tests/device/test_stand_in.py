"""The stand-in accelerator refuses what CUDA refuses, and otherwise computes what the host computes."""

import numpy as np
import pytest
import torch

from tests.device.stand_in import far

X = [[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]]
HERE, INDEX = torch.tensor(X), torch.tensor([[2], [0]])


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: far(X) + HERE,
        lambda: torch.where(HERE > 2, far(X), far(X)),
        lambda: torch.cat([far(X), HERE]),
        lambda: far(X).gather(-1, INDEX),
        lambda: HERE[far([1])],
        lambda: torch.add(far(X), 1.0, out=torch.empty(2, 3, dtype=torch.float64)),
        lambda: torch.nn.Linear(3, 2)(far(np.float32(X))),
        lambda: torch.nextafter(far(X), torch.tensor(1.0).double()),
    ],
)
def test_two_devices_in_an_operation_are_refused(mistake):
    with pytest.raises(RuntimeError, match=r"on the same device|indices should be"):
        mistake()


@pytest.mark.parametrize("look", [np.asarray, lambda x: x.numpy(), lambda x: np.add(x, 1), memoryview])
def test_numpy_cannot_read_the_device(look):
    with pytest.raises(TypeError, match=r"can't convert far:0|bytes-like"):
        look(far(X))
