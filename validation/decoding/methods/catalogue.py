"""Every decoding method, by its name in the tables; ``MODULES`` lists the modules in their order."""

import re
from collections.abc import Collection

from validation.decoding.methods import heads, multi_draft, planned, quantized, shared_seed, single_draft, trees
from validation.decoding.methods.base import Method
from validation.decoding.methods.registry import REGISTERED, Family, Fitted, MethodInfo, Setup
from validation.errors import UserError

_PARAMETERS = re.compile(r"(,| \(| = ).*")
MODULES = (single_draft, quantized, multi_draft, shared_seed, planned, trees, heads)
METHODS: dict[str, MethodInfo] = {
    info.name: info
    for module in MODULES
    for info in REGISTERED.values()
    if info.method is not None and info.method.__module__ == module.__name__
}


def default_methods(
    fitted: Fitted,
    *,
    families: Collection[Family] = tuple(Family),
    study: str | None = None,
    max_draft_length: int = 4,
    delay_s: float = 0.0,
) -> list[Method]:
    """Return the methods of some families, those of the study last; ``delay_s`` is the seconds of a round trip."""
    setup = Setup(fitted, max_draft_length, delay_s)
    chosen = [info for info in METHODS.values() if info.family in families]
    common = [info for info in chosen if info.studies is None]
    of_study = [info for info in chosen if info.studies is not None and study in info.studies]
    return [info.default(setup) for info in (*common, *of_study) if info.default is not None]


def info_of(name: str) -> MethodInfo:
    """Return the entry of a stored method name, whatever its parameters; refuse a name that no method has."""
    whole = name.rpartition(" (")[0]  # a registered name may have a comma
    info = REGISTERED.get(name) or REGISTERED.get(whole) or REGISTERED.get(_PARAMETERS.sub("", name))
    if info is None:
        raise UserError(f"No method is registered as {name!r}; add @register to its class.")
    return info
