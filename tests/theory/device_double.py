"""A stand-in accelerator in pure Python: tensors whose device is ``far:0`` and whose values are on the host.

As on CUDA, an operation on tensors of both devices is refused, unless the host's tensor is a single number. numpy
cannot read a tensor of the device, either. The device uses torch's PrivateUse1 key, which a process can rename only
once. So call ``install`` in a separate process; see ``on_device.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "far"
_CROSSING = ("aten::_to_copy", "aten::copy_", "aten::index_put", "aten::index.Tensor")
"""Operations that take tensors of two devices also on CUDA: copies, and an index on the host."""


class Far(torch.Tensor):
    """A tensor of the device; ``host`` holds its values."""

    host: torch.Tensor

    @staticmethod
    def __new__(cls, host: torch.Tensor) -> Far:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            host.size(),
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            device=f"{NAME}:0",
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
        raise TypeError(f"can't convert {NAME}:0 device type tensor to numpy. Use Tensor.cpu() first.")

    def numpy(self, *_: Any, **__: Any) -> Any:
        """Refuse, as CUDA does."""
        return self.__array__()


def _is_far(device: Any) -> bool:
    return device is not None and torch.device(device).type == NAME


def _host(value: Any) -> Any:
    """Return the host's value for a tensor, or a name, of the device."""
    if isinstance(value, Far):
        return value.host
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == NAME else value


def _run(operation: Any, args: Any, kwargs: Any) -> Any:
    """Run the operation on the host's values, and return the result on the device that CUDA would use."""
    tensors = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, torch.Tensor)]
    name = operation.name() if hasattr(operation, "name") else str(operation)
    far = [value for value in tensors if isinstance(value, Far)]
    near = [value for value in tensors if not isinstance(value, Far) and value.dim() > 0]
    if far and near and not name.startswith(_CROSSING):
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {NAME}:0 and cpu! ({name})"
        )
    if far and "out" in kwargs:
        raise NotImplementedError(
            f"{name} resizes a tensor of the stand-in device; make it on the host, see _constructor"
        )
    device = kwargs.get("device")
    answers_far = bool(far) if device is None else _is_far(device)
    kwargs = {**kwargs, **({} if device is None else {"device": torch.device("cpu") if _is_far(device) else device})}
    out = operation(*tree_map(_host, args), **tree_map(_host, kwargs))
    if name.split(".")[0].endswith("_"):  # in place
        return args[0]
    if name.startswith("aten::_local_scalar_dense") or not answers_far:
        return out
    return tree_map(lambda x: Far(x) if isinstance(x, torch.Tensor) and not isinstance(x, Far) else x, out)


def _constructor(made_on_host: Any) -> Any:
    """Return a constructor that makes tensors on the host and moves them to the device."""

    def made(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None or (args and isinstance(args[0], Far)):
            return made_on_host(*args, device=device, **kwargs)
        return made_on_host(*args, **kwargs).to(device)

    return made


def far(value: Any) -> torch.Tensor:
    """Return the values as a tensor of the device."""
    return Far(torch.asarray(np.array(value)))


def install() -> torch.library.Library:
    """Register the device and replace torch's constructors; return the library, which must be kept alive.

    This changes torch for the whole process and cannot be undone. It is not done on import, because pytest imports
    every file of this folder to look for doctests.
    """
    _setup_privateuseone_for_python_backend(NAME)
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda operation, *args, **kwargs: _run(operation, args, kwargs), "PrivateUse1")
    for name in ("arange", "asarray", "eye", "linspace", "tensor"):
        setattr(torch, name, _constructor(getattr(torch, name)))
    return library
