"""Decoding methods: classes that make the decisions of the generation loop, and the registry that lists them.

A method is a class in a module of this folder, with its entry above it. ``MODULES`` lists the modules in the order of
the tables. :mod:`validation.decoding.methods.registry` says how entries are read.
"""

from collections.abc import Collection

from validation.decoding.methods import heads, multi_draft, planned, quantized, shared_seed, single_draft, trees
from validation.decoding.methods.base import Method
from validation.decoding.methods.registry import REGISTERED, Family, Fitted, MethodInfo, Setup

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
    """Return every method of some families with its defaults, those of the study last; ``delay_s`` is both ways."""
    setup = Setup(fitted, max_draft_length, delay_s)
    chosen = [info for info in METHODS.values() if info.family in families]
    common = [info for info in chosen if info.studies is None]
    of_study = [info for info in chosen if info.studies is not None and study in info.studies]
    return [info.default(setup) for info in (*common, *of_study) if info.default is not None]
