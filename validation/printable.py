"""Text of files that others wrote, made safe to show: control and direction characters become visible escapes."""

import unicodedata
from typing import Any, TypeVar

Text = TypeVar("Text", bound=str)
JOINERS = "\u200c\u200d"
"""Characters of format that words of some scripts, and emoji, need."""


def printable(text: Text, keep: str = "\n\t") -> Text:
    r"""Return the text with an escape for each character that a terminal or a page obeys instead of showing it."""
    if text.isprintable():
        return text
    obeyed = [one for one in set(text) if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    wrong = {ord(one): _escape(one) for one in obeyed if one not in keep + JOINERS}
    return type(text)(str(text).translate(wrong)) if wrong else text


def _escape(one: str) -> str:
    return one.encode("ascii", errors="backslashreplace").decode() if ord(one) > 127 else f"\\x{ord(one):02x}"


def printable_value(value: Any) -> Any:
    """Return a value for a page's template, printable if it is text."""
    return printable(value) if isinstance(value, str) else value


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, which has an s unless it is one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
