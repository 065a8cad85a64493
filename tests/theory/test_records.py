"""Every record of the theory is frozen and has slots: no value changes after its check, and no name is mistyped."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil

import hlmtheory

CHANGES = {"Known"}
"""What a search knows so far."""
CACHES = {"Cache", "Costs", "Rician", "Rayleigh", "GilbertElliott", "TraceLink", "BandUser", "Given"}
"""With cached properties or base classes, which slots exclude."""


def test_every_record_is_frozen_with_slots() -> None:
    modules = [importlib.import_module(one.name) for one in pkgutil.walk_packages(hlmtheory.__path__, "hlmtheory.")]
    kinds = [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__ == module.__name__
    ]
    assert {kind.__name__ for kind in kinds if not kind.__dataclass_params__.frozen} == CHANGES
    assert {kind.__name__ for kind in kinds if "__slots__" not in vars(kind)} == CACHES
