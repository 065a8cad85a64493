"""Say how the models of each pair are trained: commands of :mod:`validation.training`, in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from validation.training.recipes import PAIRS as RECIPES


class Training(NamedTuple):
    """Steps of one of :data:`validation.training.recipes.PAIRS`; all steps of the recipe if none are named.

    ``out`` and ``parent`` are folders in ``--models``: where the pair goes, and the pair to start from, which is the
    built-in one if empty. ``texts`` are the training texts, if not those of the recipe.
    """

    recipe: str
    out: str
    steps: tuple[str, ...] = ()
    parent: str = ""
    texts: str = ""


TRAININGS = {
    "wide": (Training("wide", "wide"),),
    "instructed": (Training("instructed", "instructed"),),
    "instructed-distilled": (Training("distilled", "instructed-distilled", (), "instructed", "answers"),),
    "instructed-larger": (
        Training("larger", "larger"),
        Training("instructed", "instructed-larger", ("parent",), "instructed"),
        Training("instructed", "instructed-larger", ("small",), "larger"),
    ),
}
"""By pair; each after what it starts from."""


def parents_of(pair: str) -> list[str]:
    """Return the pairs that must be trained before this one.

    >>> parents_of("wide"), parents_of("instructed-larger")
    ([], ['instructed'])
    """
    made = {one.out for one in TRAININGS.get(pair, ())}
    return sorted({one.parent for one in TRAININGS.get(pair, ())} - made - {""})


def commands(pair: str, models: Path, data: Path) -> Iterator[tuple[str, ...]]:
    """Yield the words after ``python`` that train a pair; each command continues from its checkpoint."""
    for one in TRAININGS[pair]:
        words = ["-m", "validation.training", "--pair", one.recipe, "--data", str(data)]
        words += ["--out", str(models / one.out), "--work", str(models / "work" / one.out)]
        words += ["--parent", str(models / one.parent)] if one.parent else []
        words += ["--texts", one.texts] if one.texts else []
        for step in one.steps or RECIPES[one.recipe].steps:
            yield (*words, step)
