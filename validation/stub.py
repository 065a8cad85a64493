"""The stub of :mod:`hlmtheory`, whose names are loaded on first use: ``python -m validation.stub`` writes it anew.

Without it a type checker and an editor know no public name, since the package finds them by ``__getattr__``.
"""

from __future__ import annotations

from pathlib import Path

import hlmtheory

FILE = Path(hlmtheory.__file__).with_suffix(".pyi")
HEAD = """\
# Written by `python -m validation.stub` from MODULES of __init__.py; not by hand.
from hlmtheory.claims import Claim
"""
FOOT = """
__version__: str
MODULES: dict[str, tuple[str, ...]]
__all__: list[str]

def all_claims() -> dict[str, Claim]: ...
def __dir__() -> list[str]: ...
"""


def stub_text() -> str:
    """The stub that MODULES makes."""
    lines = [HEAD]
    for module, names in sorted(hlmtheory.MODULES.items()):
        lines.append(f"from hlmtheory.{module} import (\n")
        lines += [f"    {name} as {name},\n" for name in sorted(names)]
        lines.append(")\n")
    return "".join([*lines, FOOT])


if __name__ == "__main__":
    FILE.write_text(stub_text(), encoding="utf-8")
    print(FILE)
