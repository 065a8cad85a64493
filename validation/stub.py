"""Write the type stub of :mod:`hlmtheory`: ``python -m validation.stub``.

The package loads its public names on first use, by ``__getattr__``. Type checkers and editors need the stub to see
them.
"""

from pathlib import Path

import hlmtheory

FILE = Path(hlmtheory.__file__).with_suffix(".pyi")
HEAD = """\
# Written by `python -m validation.stub` from MODULES and SHORTCUTS of __init__.py; not by hand.
"""
FOOT = """\
from hlmtheory.claims import Claim

__version__: str
MODULES: tuple[str, ...]
SHORTCUTS: dict[str, str]
__all__: list[str]

def all_claims() -> dict[str, Claim]: ...
def __dir__() -> list[str]: ...
"""


def stub_text() -> str:
    lines = [HEAD]
    lines += [f"from hlmtheory import {module} as {module}\n" for module in sorted(hlmtheory.MODULES)]
    names = sorted((module, name) for name, module in hlmtheory.SHORTCUTS.items())
    lines += [f"from hlmtheory.{module} import {name} as {name}\n" for module, name in names]
    return "".join([*lines, FOOT])


if __name__ == "__main__":
    FILE.write_text(stub_text(), encoding="utf-8")
    print(FILE)
