"""Domains of physical quantities, each with the remedy that fits its argument."""

from collections.abc import Mapping
from typing import Any

from hlmtheory import _domains
from hlmtheory._array import floating
from hlmtheory._domains import Domain


def positive(remedy: str) -> Domain:
    """Positive and finite numbers."""
    return Domain("positive and finite", lambda xp, value: (value > 0) & xp.isfinite(value), remedy)


def not_negative(remedy: str) -> Domain:
    """Finite numbers, 0 or more."""
    return Domain("0 or more and finite", lambda xp, value: (value >= 0) & xp.isfinite(value), remedy)


def at_least_one(remedy: str) -> Domain:
    """Finite numbers, 1 or more."""
    return Domain("at least 1 and finite", lambda xp, value: (value >= 1) & xp.isfinite(value), remedy)


def open_unit(remedy: str) -> Domain:
    """Probabilities that are neither 0 nor 1."""
    return Domain("in (0, 1)", lambda xp, value: (value > 0) & (value < 1), remedy)


def whole_from_one(remedy: str) -> Domain:
    """Whole numbers, 1 or more."""
    return Domain("a whole number, 1 or more", lambda xp, value: value >= 1, remedy, kind="integer")


def whole_in(least: int, most: int, remedy: str) -> Domain:
    """Whole numbers in a range, its ends included."""
    inside = lambda xp, value: (value >= least) & (value <= most)  # noqa: E731
    return Domain(f"a whole number in {least}..{most:,}", inside, remedy, kind="integer")


def within(least: float, most: float, remedy: str) -> Domain:
    """Numbers in a closed range."""
    return Domain(f"in [{least:,}, {most:,}]", lambda xp, value: (value >= least) & (value <= most), remedy)


def checked(domains: Mapping[str, Domain], **values: Any) -> tuple[Any, ...]:
    """The namespace and the values, each checked by the domain of its name, in their common floating type."""
    xp, *given = _domains.checked(domains, **values)
    return (xp, *floating(xp, *given))
