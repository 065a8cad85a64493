"""A side of a claim from a function of one instance, computed on the host: for claims that enumerate or simulate."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from array_api_compat import device

from hlmtheory._array import Array, arrays, to_numpy
from hlmtheory._domains import Domain, DomainError, mask

Values = dict[str, Any]
"""One instance: numpy arrays by name."""


def host_side(
    domains: Mapping[str, Domain | None],
    rank: Mapping[str, int],
    of: Callable[[Values], float],
    *names: str,
    test: bool = False,
) -> Callable[..., Array]:
    """A side that takes arrays of these names, one number for each instance.

    A domain of None is of true and false. ``rank`` has the dimensions of an instance's arrays, else 0.
    """

    def side(**values: Array) -> Array:
        xp, *given = arrays(**values)
        plain, split = {}, {}
        for name, one in zip(values, given, strict=True):
            domain = domains[name]
            plain[name] = to_numpy(mask(xp, name, one) if domain is None else domain.check(xp, name, one))
            split[name] = one.ndim - rank.get(name, 0)
            if split[name] < 0:
                raise DomainError(f"{name} must have {rank[name]} dimensions or more; got shape {tuple(one.shape)}")
            if plain[name].dtype.kind == "f":
                plain[name] = plain[name].astype(np.float64)
        batch = np.broadcast_shapes(*(one.shape[: split[name]] for name, one in plain.items()))
        wide = {name: np.broadcast_to(one, (*batch, *one.shape[split[name] :])) for name, one in plain.items()}
        found = np.asarray([of({name: one[n] for name, one in wide.items()}) for n in np.ndindex(*batch)])
        return xp.asarray(found.reshape(batch).astype(np.bool_ if test else np.float64), device=device(given[0]))

    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    side.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return side
