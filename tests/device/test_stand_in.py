"""The stand-in accelerator refuses what CUDA refuses, and otherwise computes what the host computes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.device.stand_in import Far, far, synchronize

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


def _written(x: torch.Tensor) -> torch.Tensor:
    x[0, 1], x[1] = 9.0, x[0] * 2
    x[x > 8] = 0.5
    x.add_(1).clamp_(min=2).mul_(x)
    return x


def _scattered(x: torch.Tensor) -> torch.Tensor:
    index = torch.tensor([[0, 2], [1, 0]], device=x.device)
    return torch.zeros_like(x).scatter_(1, index, x[:, :2]).index_copy_(0, index[0, :1], x[1:] * 3)


def _into(x: torch.Tensor) -> Any:
    empty = torch.empty(0, device=x.device, dtype=x.dtype)
    return torch.mul(x, 2, out=empty), empty, torch.cat([x, x], out=x.new_empty(0)).unsqueeze_(0).transpose_(0, 1)


def _trained(x: torch.Tensor) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.LayerNorm(4)).to(x.device)
    steps = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(2):
        loss = model(x.float()).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.step()
        steps.zero_grad(set_to_none=True)
    return list(copy.deepcopy(model).parameters())


def _drawn(x: torch.Tensor) -> Any:
    with torch.random.fork_rng(devices=[0, 1], device_type="far"):
        torch.manual_seed(5)
        one = torch.multinomial(x, 4, replacement=True), torch.rand(3, device=x.device)
    generator = torch.Generator(x.device).manual_seed(6)
    return *one, torch.randint(9, (3,), generator=generator, device=x.device)


def _attended(x: torch.Tensor) -> torch.Tensor:
    heads = x.float()[None, None]
    mask = torch.ones(2, 2, device=x.device, dtype=torch.bool).tril()
    return torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask)


COMPUTED: dict[str, Callable[[torch.Tensor], Any]] = {
    "factories": lambda x: (
        *(make(3, device=x.device) for make in (torch.zeros, torch.ones, torch.arange, torch.eye)),
        *(x.new_zeros(2), x.new_tensor([1.0]), x.new_full((2,), 3), torch.full_like(x, 2.0), torch.empty_like(x) * 0),
        *(torch.linspace(0, 1, 3, device=x.device), torch.tril_indices(2, 2, device=x.device)),
        *(torch.tensor(X, device=x.device), torch.asarray(X, device=x.device), torch.as_tensor(X, device=x.device)),
    ),
    "in place": _written,
    "scatter": _scattered,
    "out=": _into,
    "sort": lambda x: (*x.sort(dim=-1, descending=True), x.argsort(dim=0), *x.topk(2), *x.max(dim=1), x.argmax()),
    "indexing": lambda x: (
        x[:, 1],
        x[..., None, ::2],
        x[x > 2],
        x[THERE[1] // 2, 0],
        x[[1, 0]],
        x[np.array([0])],
        x[range(2), x[0, :2].long() - 1],
        x.flip(0)[0, -1],
    ),
    "views": lambda x: (x.T, x.reshape(3, 2), x.unfold(1, 2, 1), x.expand(2, 2, 3), x.view(torch.int64), *x.split(1)),
    "sums": lambda x: (x.cumsum(-1), x.sum(), x.mean(0), x.prod(1), x.logsumexp(-1), x.softmax(-1), x.log_softmax(0)),
    "search": lambda x: (torch.searchsorted(x.sort().values, x), torch.where(x > 2, x, 0.0), (x > 2).nonzero()),
    "products": lambda x: (torch.einsum("ij,kj->ik", x, x), x @ x.T, torch.nn.functional.linear(x, x)),
    "a number of the host": lambda x: (x + torch.tensor(1.0), torch.maximum(x, torch.tensor(2.0).double())),
    "attention": _attended,
    "training": _trained,
    "random numbers": _drawn,
    "types": lambda x: (x.half(), x.bfloat16().float(), x.to(torch.int32), x.long() // 2, x.isnan(), x.to(x.device)),
    "copies": lambda x: (copy.deepcopy(x), x.clone(), x.detach(), x.contiguous(), x.to(x.device, non_blocking=True)),
    "values": lambda x: (x.tolist(), x[0, 1].item(), bool((x > 0).all()), float(x.max()), list(x[:, 0].long())),
}


def same(ours: Any, theirs: Any) -> None:
    """Compare answers; what is a tensor on the host is one of the device."""
    if isinstance(ours, torch.Tensor):
        assert isinstance(theirs, Far), f"the answer lies on {getattr(theirs, 'device', type(theirs))}"
        assert (theirs.shape, theirs.stride(), theirs.dtype) == (ours.shape, ours.stride(), ours.dtype)
        assert torch.equal(theirs.cpu(), ours)
    elif isinstance(ours, list | tuple):
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    else:
        assert ours == theirs


@pytest.mark.parametrize(
    ("name", "inference"), [(name, one) for name in COMPUTED for one in (False, True) if not one or name != "training"]
)
def test_what_is_computed_equals_the_host(name: str, inference: bool) -> None:
    x = torch.tensor(X, dtype=torch.float64)
    with torch.inference_mode(inference):
        same(COMPUTED[name](x.clone()), COMPUTED[name](far(X)))


def test_a_copy_that_does_not_wait_is_not_the_value_yet() -> None:
    found = far(X).to("cpu", non_blocking=True)
    assert found.tolist() != X
    synchronize()
    assert found.tolist() == X


def test_tied_weights_stay_tied() -> None:
    embedding, head = torch.nn.Embedding(4, 3), torch.nn.Linear(3, 4, bias=False)
    head.weight = embedding.weight
    moved = torch.nn.ModuleList([embedding, head]).to("far")
    assert moved[0].weight is moved[1].weight
    assert isinstance(moved[0].weight, torch.nn.Parameter)


def test_the_state_of_the_device_is_its_own() -> None:
    before = torch.get_rng_state()
    torch.rand(3, device="far:1")
    assert torch.equal(before, torch.get_rng_state())
