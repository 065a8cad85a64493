"""What each symbol of a claim means: by the table of its module's docstring, and by ``notation.toml``."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.resources import files

from hlmtheory.arguments import ARGUMENTS
from hlmtheory.claims import Claim

NOTATION: dict[str, str] = tomllib.loads((files("hlmtheory") / "notation.toml").read_text(encoding="utf-8"))
"""Symbols and meanings by the ids that they are of, from the most general; one that is named again is replaced."""

_LETTER = r"[A-Za-zͰ-Ͽℓ][̀-ͯ]*"
_WORDS = (
    r"N_rej|b_prob|dropped|bound_t|bill|load|overlap|law(?=_|,| [-−]| p\b)|delay|tails|Bias|SNR|ETGR|TV|KL|λI_\w|T_inf"
)
_SYMBOL = re.compile(rf"(?<![\w'’\\⁺])({_WORDS}|{_LETTER}[′']?)(?![^\W\d_₀-₉]|-[A-Z])(_\w+|\(\w\))?")
_WORD_A = re.compile(r"\b[aA](?= (?!and|by|has|is)[a-z]{2})")
_NO_SYMBOL = re.compile(r"\bTables? [IVX]+|\bE(?=[\[_])|\bP(?=\()|\bi\.i\.d\.|``.*?``|[a-z_]+\.[a-z_]+")
BOUND = frozenset("aeijnstvxPΣΠ")
"""Letters that a text uses as an index, as Euler's number, or as a sign of its own."""


def base(symbol: str) -> str:
    """Return a symbol without its index: K for K_n, q̂ for q̂^(d), α for α(v)."""
    found = _SYMBOL.match(symbol)
    return found[1] if found else symbol


def used(text: str) -> dict[str, set[str]]:
    """Return the symbols that a text uses, without their indices, and the forms of each: T of T_0 and T_K."""
    text = re.sub(r"(?<=[Α-Ωα-ω])(?=[A-Za-zΑ-Ωα-ω])(?!I_)", " ", text)  # ηT is a product
    text = re.sub(r"_\{[^}∉∈]*(?:[∉∈] ?(\w*)[^}]*)?\}", r" \1", _NO_SYMBOL.sub(" ", _WORD_A.sub("", text)))
    forms: dict[str, set[str]] = {}
    for found in _SYMBOL.finditer(text):
        forms.setdefault(found[1].replace("'", "′"), set()).add(found[0])
    return forms


def _entries(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"\n\s*|; (?=\S{1,9}(?:, \S{1,9})*: )", text.strip()):
        head, _, meaning = part.partition(": ")
        yield head, meaning


def table(text: str) -> Iterator[tuple[str, str]]:
    """Yield the symbols of the first table of a docstring."""
    parts = re.split(r"^=+(?: +=+)+\n", f"{text}\n", flags=re.MULTILINE)  # before, heads, rows, after
    for line in "".join(parts[2:3]).splitlines():
        head, meaning, *_ = [*re.split(" {2,}", line), ""]
        head, meaning = head.replace("``", ""), meaning.replace("``", "")
        yield head, meaning.removeprefix(f"{head}, ")


def symbols(claim: Claim, text: str) -> dict[str, str]:
    """Return what the symbols of a text mean, by the notation of a claim."""
    module = claim.id.partition(".")[0]
    about = import_module(f"hlmtheory.{module}").__doc__ or ""
    known: dict[str, tuple[str, str]] = {}
    for pattern, told in NOTATION.items():
        if pattern == "*" or fnmatchcase(claim.id, pattern):
            rows = [*(table(about) if pattern == f"{module}.*" else ()), *_entries(told)]
            special = {name: (head, meaning) for head, meaning in rows for name in head.split(", ")}
            general = {name: row for name, row in known.items() if base(name) not in set(map(base, special))}
            known = general | special
    forms = {b: {form if form in known else re.sub("_[vx]$", "", form) for form in of} for b, of in used(text).items()}
    shown = [name for name in known if name.startswith("in ") or base(name) in forms]
    exact = {name for name in shown if forms.get(base(name), set()) <= set(known)}
    found = dict(known[name] for name in shown if name not in exact or name in forms.get(base(name), {name}))
    return {head: meaning if ", " in head else _plain(meaning, claim) for head, meaning in found.items()}


def new_symbols(claim: Claim, text: str, known: dict[str, str], papers: Mapping[str, str]) -> list[str]:
    """Return the symbols of a text, and of their meanings, not said so in ``known``, and put them there.

    ``papers`` is the key of each paper by its name: how another paper than the claim's writes them is left out.
    """
    new, said = [], [meaning for head, meaning in symbols(claim, text).items() if not head.startswith("in ")]
    for head, named in symbols(claim, "; ".join((text, *said))).items():
        if head.startswith("in ") and papers.get(head[3:]) != claim.source.key:
            continue
        meaning = re.sub(r" \(argument \w+\)$", "", named)
        if any(known.get(symbol) != meaning for symbol in head.split(", ")):
            new.append(f"{head}: {meaning}")
        known |= dict.fromkeys(head.split(", "), meaning)
    return new


def _plain(meaning: str, claim: Claim) -> str:
    """Return a meaning with the name of its argument behind it, if it has one and the claim takes it."""
    name, _, rest = meaning.partition(", ")
    if name not in ARGUMENTS:
        return meaning
    return (rest or name.replace("_", " ")) + (f" (argument {name})" if name in claim.takes else "")
