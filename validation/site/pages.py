"""Which files of the repository become pages of the site, and where their links lead there."""

import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path, PurePosixPath

from validation.errors import UserError
from validation.provenance import REPOSITORY
from validation.report.tables import pieces

ROOT = Path(__file__).resolve().parents[2]

GUIDES = (
    *("choose", "start", "engines", "verdict", "own_claim", "plan", "audit", "versions", "deploy", "run"),
    *("shared_seed", "scale", "commands"),
)
"""Pages of docs/ in the order of the contents; a page that is not here comes after them."""

OTHERS = {"CONTRIBUTING.md": "contributing", "CHANGELOG.md": "changelog", "paper_repro.md": "paper_repro"}
"""Pages outside docs/: file and name of the page."""

GENERATED = {"hlmtheory/theorems": "theory/index", "hlmtheory": "api/index", "examples": "examples/index"}
"""Pages in reStructuredText that stand for a folder of the repository: where a link leads there, and here."""

_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\[\]]*\])*\])\(([^()\s]+)\)")
_CODE = re.compile(r"^ *```.*?^ *```[ \t]*$|``[^`]+``|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_KEPT = re.compile(r"(\]\([^)]*\)|<[^>]*>|https?:\S+|\bc_sqs\b|\w+_K_M)")


def pages(root: Path = ROOT) -> dict[str, str]:
    """Return the name of the page of each file, by its path in the repository."""
    documents = sorted((root / "docs").rglob("*.md"))
    found = {path.relative_to(root).as_posix(): path.relative_to(root / "docs").with_suffix("") for path in documents}
    names = {file: page.as_posix() for file, page in found.items()}
    return names | {file: page for file, page in OTHERS.items() if (root / file).is_file()}


def contents(known: Collection[str]) -> dict[str, list[str]]:
    guides = [name for name in known if "/" not in name and name not in {"index", "licences", *OTHERS.values()}]
    order = {name: place for place, name in enumerate(GUIDES)}
    results = [name for name in known if name.startswith("results/") or name == "paper_repro"]
    project = [name for name in ("contributing", "changelog", "licences") if name in known]
    return {
        "Guides": sorted(guides, key=lambda name: (order.get(name, len(order)), name)),
        "Examples": ["examples/index"],
        "Theory": ["theory/index"],
        "Results": sorted(results, key=lambda name: (name != "paper_repro", name)),
        "Reference": ["api/index", *project],
    }


class DeadLinkError(UserError):
    """A link leads to no file of the repository and no page."""


def relinked(
    text: str,
    file: str,
    names: Mapping[str, str],
    *,
    root: Path = ROOT,
    picture: Callable[[str], str] = lambda path: path,
    targets: Mapping[str, str] | None = None,
    sections: Mapping[str, str] | None = None,
) -> str:
    """Return a Markdown text whose links are those of the site; ``file`` is its path, ``names`` are :func:`pages`."""
    here = names[file]

    def led(link: re.Match[str]) -> str:
        label, target = link.groups()
        path, _, fragment = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return link[0]
        found = os.path.normpath(PurePosixPath(file).parent / path)
        mark = f"#{fragment}" if fragment else ""
        if found in names:
            return f"{label}({_relative(names[found], here)}.md{mark})"
        if found in GENERATED:
            return f"{label}({_relative(GENERATED[found], here)}.rst{mark})"
        if not (root / found).exists() or found.startswith(".."):
            raise DeadLinkError(f"{file} links to {target}, which is no file of the repository and no page.")
        if label.startswith("!") and found.endswith((".svg", ".png")):
            return f"{label}({_relative(picture(found), here)})"
        if found in (sections or {}):
            return f"{label}({_relative((sections or {})[found], here)})"
        kind = "tree" if (root / found).is_dir() else "blob"
        return f"{label}({REPOSITORY}/{kind}/main/{found}{mark})"

    def named(code: str) -> str:
        name = code.strip("`").removesuffix("()")
        anchor = (targets or {}).get(name)
        return f"[{code}](#{anchor})" if anchor and code.count("`") == 2 else code

    kept: list[str] = []

    def hidden(code: re.Match[str]) -> str:
        kept.append(code[0])
        return f"\0{len(kept) - 1}\0"

    held = _LINK.sub(led, _CODE.sub(hidden, text))
    if here.startswith(("results/", "paper_repro")):
        held = "".join(part if _KEPT.match(part) else _raised(part) for part in _KEPT.split(held))
    inside = {int(number) for link in _LINK.finditer(held) for number in re.findall(r"\0(\d+)\0", link[1])}
    return re.sub(r"\0(\d+)\0", lambda found: kept[n] if (n := int(found[1])) in inside else named(kept[n]), held)


def _raised(text: str) -> str:
    """Return Markdown whose indices and exponents are those of HTML."""
    return "".join({"_": "<sub>{}</sub>", "^": "<sup>{}</sup>"}.get(k, "{}").format(part) for k, part in pieces(text))


def _relative(target: str, here: str) -> str:
    return os.path.relpath(target, PurePosixPath(here).parent)


def escaped(text: str) -> str:
    """Return a text in which no character has a meaning for reStructuredText."""
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
    return "".join(part if part.startswith("``") else formula(part) for part in re.split(r"(``[^`]+``)", plain))
