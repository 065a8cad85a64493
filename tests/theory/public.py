"""Every public name of the theory, with the object that it names."""

from __future__ import annotations

from importlib import import_module

import hlmtheory


def public_names() -> dict[str, object]:
    """Return the names in ``__all__`` of every module, without the claims; no name stands for two objects."""
    found: dict[str, object] = {}
    for module in (import_module(f"hlmtheory.{name}") for name in hlmtheory.MODULES):
        for name in set(module.__all__) - {"CLAIMS"}:
            assert found.setdefault(name, getattr(module, name)) is getattr(module, name), name
    return found
