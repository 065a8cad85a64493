"""A stand-in accelerator in pure Python: tensors of the device ``far:0``, with their values on the host.

It refuses what CUDA refuses, so that a test without a GPU finds an array on the wrong device: an operation on tensors
of two devices (but for a copy, a number of the host in the operations of ``NUMBER_BESIDE``, and an index on the host),
and numpy's access to a tensor of the device. Values and random numbers are the host's, to the last bit.

The device uses torch's PrivateUse1 key, which a process can rename only once, and replaces some of torch's
constructors. So ``install`` belongs in a process of its own: ``tests/test_on_device.py`` starts it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "far"
COPIES = {"aten::copy_", "aten::_to_copy", "aten::_copy_from", "aten::_copy_from_and_resize", "aten::lift_fresh"}
INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_unsafe_index", "aten::_index_put_impl_"}
# fmt: off
NUMBER_BESIDE = {
    "add", "sub", "rsub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "pow", "maximum",
    "minimum", "fmax", "fmin", "eq", "ne", "lt", "le", "gt", "ge", "xlogy", "logical_and", "logical_or",
    "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "where", "masked_fill", "fill",
}
# fmt: on
"""The operations whose CUDA kernels take a number of the host; ``nextafter``, ``clamp`` and others do not."""
MIXED = "Expected all tensors to be on the same device, but found at least two devices, {} and {}! ({})"


class Far(torch.Tensor):
    host: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, host: torch.Tensor) -> Far:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            host.size(),
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            device=torch.device(NAME, 0),
            requires_grad=False,
        )
        made.host = host
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    def __repr__(self, **_: Any) -> str:
        return f"Far({self.host!r})"

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() first.")

    def numpy(self, *_: Any, **__: Any) -> Any:
        return self.__array__()

    def tolist(self) -> Any:
        return self.host.tolist()

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(_as_tensors(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(_as_tensors(index), value)

    def new_tensor(self, data: Any, *, device: Any = None, **options: Any) -> torch.Tensor:
        return torch.tensor(data, **{"dtype": self.dtype} | options).to(self.device if device is None else device)


def _as_tensors(index: Any) -> Any:
    """Return an index with its lists, ranges and numpy arrays as tensors, which torch itself makes below this class."""
    if isinstance(index, tuple):
        return tuple(map(_as_tensors, index))
    if isinstance(index, range):
        index = list(index)
    return torch.as_tensor(index, device="cpu") if isinstance(index, list | np.ndarray) else index


def _run(operation: Any, args: Any, kwargs: Any) -> Any:
    """Run the operation on the host's values, and return the result on the device that CUDA would use."""
    name = operation.name().partition(".")[0]
    tensors = [*_tensors(args), *(_tensors(kwargs.values()) if kwargs else ())]
    far = [value for value in tensors if isinstance(value, Far)]
    _refuse_mixed(name, args, tensors, far)
    options = {key: _each(_host, value) for key, value in kwargs.items()} | {"pin_memory": False}
    found = operation(*_each(_host, args), **{key: options[key] for key in kwargs})
    if written := _written(operation):
        return _after_writing(operation, written, args, kwargs, found)
    if not _is_there(name, args, kwargs, far):
        return found
    with _kind_of_view(operation, far):
        return _each(lambda one: Far(one) if type(one) is torch.Tensor else one, found)


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _each(change: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)([_each(change, one) for one in value])
    return change(value)


def _kind_of_view(operation: Any, far: list[Far]) -> Any:
    """Leave the inference mode for a view of a tensor that was made outside."""
    inside = torch.is_inference_mode_enabled() and far and not far[0].is_inference()
    return torch.inference_mode(False) if inside and operation.is_view else nullcontext()


def _is_far(device: Any) -> bool:
    return device is not None and torch.device(device).type == NAME


def _host(value: Any) -> Any:
    if isinstance(value, Far):
        return value.host
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == NAME else value


def _is_there(name: str, args: Any, kwargs: Any, far: list[Far]) -> bool:
    if name == "aten::_local_scalar_dense":
        return False
    if name in ("aten::copy_", "aten::index"):
        return isinstance(args[0], Far)
    return _is_far(kwargs["device"]) if kwargs.get("device") is not None else bool(far)


def _refuse_mixed(name: str, args: Any, tensors: list[torch.Tensor], far: list[Far]) -> None:
    if not far or name in COPIES:
        return
    if name in INDEXING:
        inside = list(_tensors(args[1]))
        if any(index.device not in (args[0].device, torch.device("cpu")) for index in inside):
            raise RuntimeError(
                f"indices should be either on cpu or on the same device as the indexed tensor ({args[0].device})"
            )
        tensors = [args[0], *(value for value in args[2:] if isinstance(value, torch.Tensor) and value.dim())]
    elif name.removeprefix("aten::").rstrip("_") in NUMBER_BESIDE:
        tensors = [*far, *(value for value in tensors if value.dim())]
    if len(places := {value.device for value in tensors}) > 1:
        raise RuntimeError(MIXED.format(*sorted(map(str, places), reverse=True)[:2], name))


@functools.cache
def _written(operation: Any) -> tuple[tuple[int, str], ...]:
    arguments = enumerate(operation._schema.arguments)
    return tuple((i, one.name) for i, one in arguments if one.alias_info is not None and one.alias_info.is_write)


def _after_writing(operation: Any, written: Any, args: Any, kwargs: Any, found: Any) -> Any:
    """Give the written tensors the shapes of their values, and return those that the operation returns."""
    targets = [args[place] if place < len(args) else kwargs.get(name) for place, name in written]
    for target in _tensors(targets):
        if isinstance(target, Far) and (target.host.shape, target.host.stride()) != (target.shape, target.stride()):
            _reshape(target)
    returns = operation._schema.returns
    answers = [found] if len(returns) == 1 else list(found or ())
    kept = iter(targets)
    there = any(isinstance(one, Far) for one in _tensors(targets))
    for i, one in enumerate(returns):
        if one.alias_info is not None and one.alias_info.is_write:
            answers[i] = next(kept)
        elif there:
            answers[i] = _each(lambda x: Far(x) if type(x) is torch.Tensor else x, answers[i])
    return answers[0] if len(returns) == 1 else tuple(answers) if answers else found


def _reshape(tensor: Far) -> None:
    """Give a tensor the shape of its values, after an ``out=`` or an operation such as ``unsqueeze_``."""
    host, before = tensor.host, torch._C._meta_in_tls_dispatch_include()
    torch._C._set_meta_in_tls_dispatch_include(True)
    try:
        with no_dispatch():
            storage = tensor.untyped_storage()
            torch.ops.aten.set_.source_Storage_storage_offset(
                tensor, storage, host.storage_offset(), host.shape, host.stride()
            )
    finally:
        torch._C._set_meta_in_tls_dispatch_include(before)


class Backend:
    """The functions of ``torch.far``; its random numbers are the host's."""

    def is_available(self) -> bool:
        return True

    is_initialized = is_available

    def _is_in_bad_fork(self) -> bool:
        return False

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def synchronize(self, *_: Any) -> None:
        pass

    def manual_seed_all(self, seed: int) -> None:
        pass

    def get_rng_state(self, device: Any = 0) -> torch.Tensor:
        return torch.random.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, device: Any = 0) -> None:
        torch.random.set_rng_state(state)


def _constructor(made_on_host: Any) -> Any:
    def made(data: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None:  # inside ``with torch.device(...)``
            device = torch.empty(0).device
        if isinstance(data, Far) or not _is_far(device):
            return made_on_host(data, *args, device=device, **kwargs)
        return made_on_host(data, *args, device="cpu", **kwargs).to(device)

    return made


def far(value: Any) -> torch.Tensor:
    return Far(torch.asarray(np.array(value), device="cpu"))


def install() -> torch.library.Library:
    """Register the device and replace torch's constructors; return the library, which must be kept alive.

    This changes torch for the whole process and cannot be undone. It is not done on import, because pytest imports
    every file of this folder to look for doctests.
    """
    backend = Backend()
    _setup_privateuseone_for_python_backend(NAME, backend_module=backend)
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda operation, *args, **kwargs: _run(operation, args, kwargs), "PrivateUse1")
    for name in ("asarray", "as_tensor", "tensor"):
        setattr(torch, name, _constructor(getattr(torch, name)))
    torch.accelerator.synchronize = backend.synchronize
    torch.__future__.set_swap_module_params_on_conversion(True)  # keeps tied weights tied
    return library
