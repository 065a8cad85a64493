"""Texts of the records as reStructuredText: statements with their indices, and sentences with code in them."""

from __future__ import annotations

import re

from validation.report.tables import pieces


def escaped(text: str) -> str:
    r"""Return a text in which no character has a meaning for reStructuredText.

    >>> escaped("|q*|")
    '\\|q\\*\\|'
    """
    return re.sub(r"([\\*_`|<>\[\]:{}])", r"\\\1", text)


def formula(statement: str) -> str:
    r"""Return a statement in reStructuredText, with its indices and exponents.

    >>> formula("p_v ≤ α^{K+1}")
    'p\\ :sub:`v`\\  ≤ α\\ :sup:`K+1`'
    """
    roles = {"": "{}", "_": "\\ :sub:`{}`\\ ", "^": "\\ :sup:`{}`\\ "}
    made = "".join(roles[kind].format(escaped(text)) for kind, text in pieces(statement))
    return made.removesuffix("\\ ")


def sentence(text: str) -> str:
    r"""Return a sentence whose code stays code, and whose other words may have indices.

    >>> sentence("``skip``, the s_v of :func:`~a.risk`")
    '``skip``, the s\\ :sub:`v`\\  of ``risk``'
    """
    plain = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"``\1``", text)
    parts = re.split(r"(``[^`]+``)", plain)
    return "".join(part if part.startswith("``") else formula(part) for part in parts)
