"""Every outcome of a short run whose chances may depend on the past, for claims on evidence at any time."""

from collections.abc import Mapping
from typing import Any

from hlmtheory._array import Array, arrays, in_kind
from hlmtheory._domains import UNIT_INTERVAL, Domain, DomainError

HORIZON = 4  # steps of a run
NODES = 2**HORIZON - 1  # pasts: node 0 is the start; 2i + 1 and 2i + 2 follow node i without and with the event


def pasts(name: str, values: Array, domain: Domain = UNIT_INTERVAL) -> tuple[Any, Array]:
    """Return the namespace and numbers by past (..., NODES), checked, in float64."""
    xp, found = arrays(**{name: values})
    found = in_kind(xp, domain.check(xp, name, found), xp.float64)
    if not found.ndim or found.shape[-1] != NODES:
        raise DomainError(f"{name} must have an entry for each of {NODES} pasts; got shape {tuple(found.shape)}")
    return xp, found


def settings(domains: Mapping[str, Domain], **values: Array) -> tuple[Any, ...]:
    """Return the namespace and the checked settings in float64; a name without a domain is a bet."""
    xp, *given = arrays(**values)
    for name, value in zip(values, given, strict=True):
        domains.get(name, domains["bets"]).check(xp, name, value)
    return (xp, *(in_kind(xp, value, xp.float64) for value in given))


def outcomes(xp: Any, chance: Array, share: Array | float = 1.0) -> tuple[Array, Array, Array, Array]:
    """Return events and pasts' nodes (2^T, T), the probability (..., 2^T) of each run, and the chances along it."""
    time = xp.arange(HORIZON, device=chance.device)
    run = xp.arange(2**HORIZON, device=chance.device)[:, None]
    nodes = 2**time - 1 + run // 2 ** (HORIZON - time)
    event = run // 2 ** (HORIZON - 1 - time) % 2
    chances = along(xp, chance, nodes)
    seen = share * chances
    return xp.astype(event, xp.float64), nodes, xp.prod(xp.where(event == 1, seen, 1.0 - seen), axis=-1), chances


def along(xp: Any, values: Array, nodes: Array) -> Array:
    """Return the values (..., NODES) at the nodes of every run, (..., 2^T, T)."""
    found = xp.take(values, xp.reshape(nodes, (-1,)), axis=-1)
    return xp.reshape(found, (*values.shape[:-1], *nodes.shape))


def ever(xp: Any, probability: Array, event: Array) -> Array:
    """Return the probability that the event (..., 2^T, T) occurs at some time."""
    return xp.sum(xp.where(xp.any(event, axis=-1), probability, 0.0), axis=-1)
