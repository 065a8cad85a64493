"""The error that users see, and helpers for its message: add a path, find the nearest names."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from validation.printable import printable

NEAREST = 3


class UserError(Exception):
    """Error that the user can fix; the command line prints only its message, without a traceback."""

    def __str__(self) -> str:
        """Return the message; control characters of a value in it are escaped."""
        return printable(super().__str__())


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or the name of its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Add the path to an OSError that has none, such as that of a write to a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


def nearest(word: str, names: Iterable[str]) -> list[str]:
    """Return the names that a user may have meant: those that contain the word, then those that are spelled alike."""
    names, low = list(dict.fromkeys(names)), word.lower()
    forms: dict[str, list[str]] = {}
    for name in names:
        for form in {name.lower(), name.lower().rpartition(".")[2]}:
            forms.setdefault(form, []).append(name)
    alike = difflib.get_close_matches(low, forms, n=2 * NEAREST, cutoff=0.6)
    holding = [name for name in names if low and low in name.lower()]
    return list(dict.fromkeys([*holding, *(name for form in alike for name in forms[form])]))[:NEAREST]
