"""A stand-in accelerator in pure Python: tensors of the devices ``far:0`` and ``far:1``, with their values on the host.

It refuses what CUDA refuses, so that a test without a GPU finds an array on the wrong device:

- an operation on tensors of two devices. As on CUDA there are exceptions: a copy, a single number of the host beside
  the device's tensors in the operations of ``NUMBER_BESIDE``, and an index on the host of a tensor of the device;
- numpy's access to a tensor of the device: ``.cpu()`` is needed;
- a generator of the host for random numbers on the device, and the other way round. The device has its own state;
- a matrix product of integers;
- a value that is read on the host before a copy with ``non_blocking=True`` is finished: it is not the value.

The values are computed by the host's operations, so they are equal to the host's to the last bit.

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
COUNT = 2
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
PRODUCTS = {"mm", "bmm", "mv", "dot", "vdot", "addmm", "addbmm", "baddbmm", "addmv"}
MIXED = "Expected all tensors to be on the same device, but found at least two devices, {} and {}! ({})"


@functools.cache
def _device(index: int) -> torch.device:
    return torch.device(NAME, index)


class Far(torch.Tensor):
    """A tensor of the device; ``host`` holds its values."""

    host: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, host: torch.Tensor, index: int = 0) -> Far:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            host.size(),
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            device=_device(index),
            requires_grad=False,
        )
        made.host = host
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Handle every operation that has a tensor of the device."""
        return _run(func, args, kwargs or {})

    def __repr__(self, **_: Any) -> str:
        return f"Far({self.host!r})"

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() first.")

    def numpy(self, *_: Any, **__: Any) -> Any:
        """Refuse, as CUDA does."""
        return self.__array__()

    def tolist(self) -> Any:
        """Return the values as lists, as CUDA does."""
        return self.host.tolist()

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(_as_tensors(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(_as_tensors(index), value)

    def new_tensor(self, data: Any, *, device: Any = None, **options: Any) -> torch.Tensor:
        """Return a tensor of the same device, unless another is given."""
        return torch.tensor(data, **{"dtype": self.dtype} | options).to(self.device if device is None else device)


def _as_tensors(index: Any) -> Any:
    """Return an index with its lists, ranges and numpy arrays as tensors, which torch itself makes below this class."""
    if isinstance(index, tuple):
        return tuple(map(_as_tensors, index))
    if isinstance(index, range):
        index = list(index)
    return torch.as_tensor(index, device="cpu") if isinstance(index, list | np.ndarray) else index


# ------------------------------------------------------------------------------------------------- one operation


def _run(operation: Any, args: Any, kwargs: Any) -> Any:
    """Run the operation on the host's values, and return the result on the device that CUDA would use."""
    name = operation.name().partition(".")[0]
    tensors = [*_tensors(args), *(_tensors(kwargs.values()) if kwargs else ())]
    far = [value for value in tensors if isinstance(value, Far)]
    _refuse_mixed(name, args, tensors, far)
    if far and _short(name) in PRODUCTS and not far[0].is_floating_point() and not far[0].is_complex():
        raise RuntimeError(f'"{_short(name)}_far" not implemented for {far[0].dtype}')
    where = _place(name, args, kwargs, far)
    _refuse_generator(kwargs, args, where)
    options = {key: _each(_host, value) for key, value in kwargs.items()}
    if options.get("pin_memory"):
        options["pin_memory"] = False
    waits = options.pop("non_blocking", False) and far and where is None
    call = functools.partial(operation, *_each(_host, args), **options)
    found = _with_own_state(call, where) if _draws(operation) and not _generators(args, kwargs) else call()
    if waits:
        _finish_later(found)
    if written := _written(operation):
        return _after_writing(operation, written, args, kwargs, found)
    if where is None:
        return found
    with _kind_of_view(operation, far):
        return _each(lambda one: Far(one, where) if type(one) is torch.Tensor else one, found)


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors among the arguments of an operation, also those in lists."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _each(change: Callable[[Any], Any], value: Any) -> Any:
    """Return a value, or each value of a list, changed."""
    if isinstance(value, list | tuple):
        return type(value)([_each(change, one) for one in value])
    return change(value)


def _kind_of_view(operation: Any, far: list[Far]) -> Any:
    """Leave the inference mode for a view of a tensor that was made outside."""
    inside = torch.is_inference_mode_enabled() and far and not far[0].is_inference()
    return torch.inference_mode(False) if inside and operation.is_view else nullcontext()


def _short(name: str) -> str:
    return name.removeprefix("aten::").rstrip("_")


def _is_far(device: Any) -> bool:
    return device is not None and torch.device(device).type == NAME


def _host(value: Any) -> Any:
    """Return the host's value for a tensor, or a name, of the device."""
    if isinstance(value, Far):
        return value.host
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == NAME else value


def _place(name: str, args: Any, kwargs: Any, far: list[Far]) -> int | None:
    """Return the index of the device of the answer, or None for the host."""
    if name == "aten::_local_scalar_dense":
        return None
    if name in ("aten::copy_", "aten::index"):
        far = [args[0]] if isinstance(args[0], Far) else []
    if kwargs.get("device") is not None:
        device = torch.device(kwargs["device"])
        if device.type == NAME and (device.index or 0) >= COUNT:
            raise RuntimeError(f"invalid device ordinal {device}")
        return (device.index or 0) if device.type == NAME else None
    return far[0].device.index if far else None


def _refuse_mixed(name: str, args: Any, tensors: list[torch.Tensor], far: list[Far]) -> None:
    """Raise where CUDA refuses tensors of two devices."""
    if not far or name in COPIES:
        return
    if name in INDEXING:
        inside = list(_tensors(args[1]))
        if any(index.device not in (args[0].device, torch.device("cpu")) for index in inside):
            raise RuntimeError(
                f"indices should be either on cpu or on the same device as the indexed tensor ({args[0].device})"
            )
        beside = [value for value in args[2:] if isinstance(value, torch.Tensor) and value.dim()]
        tensors = [args[0], *beside]
    elif _short(name) in NUMBER_BESIDE:
        tensors = [*far, *(value for value in tensors if value.dim())]
    if len(places := {value.device for value in tensors}) > 1:
        raise RuntimeError(MIXED.format(*sorted(map(str, places), reverse=True)[:2], name))


@functools.cache
def _written(operation: Any) -> tuple[tuple[int, str], ...]:
    """Return the places and names of the arguments that the operation writes to."""
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
    index = next((one.device.index for one in _tensors(targets) if isinstance(one, Far)), None)
    for i, one in enumerate(returns):
        if one.alias_info is not None and one.alias_info.is_write:
            answers[i] = next(kept)
        elif index is not None:
            answers[i] = _each(lambda x: Far(x, index) if type(x) is torch.Tensor else x, answers[i])
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


# --------------------------------------------------------------------------------------------- random numbers

STATES: dict[int, torch.Tensor] = {}
"""The state of each device's random numbers."""
OWN: dict[int, torch.device] = {}
"""The devices of the generators that were made for one, by address."""


class FarGenerator(torch._C.Generator):
    """A generator of the device."""

    place: torch.device

    def __new__(cls, device: Any = "cpu") -> Any:
        """Return a generator of the host if the device is the host."""
        if not _is_far(device):
            return torch._C.Generator(device)
        made = super().__new__(cls)
        made.place = OWN[made._cdata] = torch.device(device)
        return made

    @property
    def device(self) -> torch.device:
        """The device."""
        return self.place


@functools.cache
def _draws(operation: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in operation.tags


def _generators(args: Any, kwargs: Any) -> list[torch._C.Generator]:
    return [value for value in (*args, *kwargs.values()) if isinstance(value, torch._C.Generator)]


def _refuse_generator(kwargs: Any, args: Any, where: int | None) -> None:
    for generator in _generators(args, kwargs):
        kind, wanted = (NAME if generator._cdata in OWN else "cpu"), ("cpu" if where is None else NAME)
        if kind != wanted:
            raise RuntimeError(f"Expected a '{wanted}' device type for generator but found '{kind}'")


def _with_own_state(call: Callable[[], Any], where: int | None) -> Any:
    """Return the answer of an operation that draws, with the state of the device."""
    if where is None:
        return call()
    before = torch.random.default_generator.get_state()
    torch.random.default_generator.set_state(STATES[where])
    try:
        return call()
    finally:
        STATES[where] = torch.random.default_generator.get_state()
        torch.random.default_generator.set_state(before)


# ----------------------------------------------------------------------------------------- copies that take time

PENDING: list[tuple[torch.Tensor, torch.Tensor]] = []


def _finish_later(found: torch.Tensor) -> None:
    """Let a copy to the host hold other values until ``synchronize``."""
    PENDING.append((found, found.clone()))
    found.fill_(True if found.dtype == torch.bool else 77)


def synchronize(*_: Any) -> None:
    """Finish the copies that do not wait."""
    while PENDING:
        target, values = PENDING.pop()
        target.copy_(values)


# ------------------------------------------------------------------------------------------------- the device


class Backend:
    """The functions of ``torch.far``."""

    chosen = 0
    synchronize = staticmethod(synchronize)

    def is_initialized(self) -> bool:
        """Return True."""
        return True

    is_available = is_initialized

    def _is_in_bad_fork(self) -> bool:
        return False

    def current_device(self) -> int:
        """Return the first device's index."""
        return 0

    def device_count(self) -> int:
        """Return the number of devices."""
        return COUNT

    def manual_seed_all(self, seed: int) -> None:
        """Seed all devices."""
        for index in range(COUNT):
            STATES[index] = torch._C.Generator().manual_seed(seed).get_state()

    def get_rng_state(self, device: Any = 0) -> torch.Tensor:
        """Return the state of a device."""
        return STATES[device if isinstance(device, int) else torch.device(device).index or 0].clone()

    def set_rng_state(self, state: torch.Tensor, device: Any = 0) -> None:
        """Set the state of a device."""
        STATES[device if isinstance(device, int) else torch.device(device).index or 0] = state.clone()


def _constructor(made_on_host: Any) -> Any:
    """Return a constructor that makes tensors on the host and moves them to the device."""

    def made(data: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None:  # inside ``with torch.device(...)``
            device = torch.empty(0).device
        if isinstance(data, Far) or not _is_far(device):
            return made_on_host(data, *args, device=device, **kwargs)
        return made_on_host(data, *args, device="cpu", **kwargs).to(device)

    return made


def far(value: Any, index: int = 0) -> torch.Tensor:
    """Return the values as a tensor of the device."""
    return Far(torch.asarray(np.array(value), device="cpu"), index)


def install() -> torch.library.Library:
    """Register the device and replace torch's constructors; return the library, which must be kept alive.

    This changes torch for the whole process and cannot be undone. It is not done on import, because pytest imports
    every file of this folder to look for doctests.
    """
    backend = Backend()
    _setup_privateuseone_for_python_backend(NAME, backend_module=backend)
    backend.manual_seed_all(0)
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda operation, *args, **kwargs: _run(operation, args, kwargs), "PrivateUse1")
    for name in ("asarray", "as_tensor", "tensor"):
        setattr(torch, name, _constructor(getattr(torch, name)))
    torch.Generator = FarGenerator
    torch.accelerator.synchronize = synchronize
    torch.__future__.set_swap_module_params_on_conversion(True)  # keeps tied weights tied
    return library
