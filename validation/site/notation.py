"""The notation of a module's files, from the tables and comments that stand above their proofs."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from validation.site.markup import sentence
from validation.site.pages import REPOSITORY, ROOT

_RULE = re.compile(r"=+(?: +=+)+")
_OPENING = re.compile(r"^(?:Proofs(?:, by the last part of the id)?|Notation)[.:,]? ?")
Row = list[str]


def notation(module: str, files: Iterable[str], names: Collection[str], root: Path = ROOT) -> str:
    """Return the section with the symbols of a module and of each of its files with proofs, as reStructuredText."""
    package = f"hlmtheory/{module}/__init__.py"
    head = package if (root / package).is_file() else f"hlmtheory/{module}.py"
    parts = ["Notation\n--------", *_of_file(head, (), root)]
    for file in sorted({*files} - {head}):
        if found := _of_file(file, names, root):
            parts += [f"In `{file} <{REPOSITORY}/blob/main/{file}>`__:", *found]
    return "\n\n".join(parts)


def _of_file(file: str, names: Collection[str], root: Path) -> list[str]:
    """Return the tables of a file, and of the file whose claims it holds, then the comment above its proofs."""
    text = (root / file).read_text(encoding="utf-8")
    others = [root / file.replace("_claims.py", ".py")] if file.endswith("_claims.py") else []
    texts = [text, *(other.read_text(encoding="utf-8") for other in others if other.is_file())]
    tables = [_list_table(rows) for one in texts for rows in tables_of(ast.get_docstring(ast.parse(one)) or "")]
    told = above_proofs(text, names)
    return [*tables, *([sentence(told)] if told else [])]


def tables_of(docstring: str) -> list[list[Row]]:
    r"""Return the simple tables of a docstring as rows of cells; a row with an empty first cell goes on the one above.

    >>> tables_of("One.\n\n=== =====\nq   a row\n    of V\n=== =====\n")
    [[['q', 'a row of V']]]
    """
    lines, found = docstring.splitlines(), []
    rules = [place for place, line in enumerate(lines) if _RULE.fullmatch(line.strip())]
    while len(rules) > 1:
        first = rules.pop(0)
        same = [place for place in rules if lines[place] == lines[first] and "" not in lines[first:place]]
        last = same[-1] if same else first
        rules = [place for place in rules if place > last]
        starts = [match.start() for match in re.finditer(r"=+", lines[first])]
        if last > first:
            found.append(_rows([line for line in lines[first + 1 : last] if not _RULE.fullmatch(line)], starts))
    return found


def _rows(lines: list[str], starts: list[int]) -> list[Row]:
    """Return the cells of a table's lines, by the columns' first places."""
    rows: list[Row] = []
    for line in lines:
        cells = [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
        if cells[0] or not rows:
            rows.append(cells)
        else:
            rows[-1] = [f"{above} {cell}".strip() for above, cell in zip(rows[-1], cells, strict=True)]
    return rows


def _list_table(rows: list[Row]) -> str:
    head = "   :header-rows: 1\n" if rows[0][0] == "symbol" else ""
    lines = [
        f"   {'* -' if not place else '  -'} {sentence(cell)}".rstrip()
        for row in rows
        for place, cell in enumerate(row)
    ]
    return f".. list-table::\n{head}\n" + "\n".join(lines)


def above_proofs(text: str, names: Collection[str]) -> str:
    r"""Return the comment that opens a file's proofs, up to the first proof of one of the names.

    >>> above_proofs("# Proofs, by the last part of the id. T = TV(q, p).\n#\n# sharp. T is\n", {"sharp"})
    'T = TV(q, p).'
    """
    lines = text.splitlines()
    start = next((place for place, line in enumerate(lines) if re.match(r"# (?:Proofs|Notation)\b", line)), None)
    told: list[str] = []
    for line in lines[start:] if start is not None else ():
        comment = line.removeprefix("#").strip()
        if not line.startswith("#") or re.split(r"[.,] ", comment)[0] in names:
            break
        told.append(_OPENING.sub("", comment))
    return " ".join(filter(None, told))
