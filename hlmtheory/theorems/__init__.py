"""The theorems: a file for each of the five papers in its order, one for other papers, and ours by subject.

``hlmtheory/notation.toml`` says what the symbols of each claim mean, and ``hlm claims ID`` prints those that it uses.
"""

from importlib import import_module
from pkgutil import iter_modules

from hlmtheory.claims import Claim

FILES = [import_module(f"{__name__}.{file.name}") for file in iter_modules(__path__)]
THEOREMS = {claim.id: claim for file in FILES for claim in vars(file).values() if isinstance(claim, Claim)}
"""Every claim by id."""
