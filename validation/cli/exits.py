"""Exit codes, and the message for a missing extra. Importing this module needs no extra."""

import re
from importlib.metadata import PackageNotFoundError, requires

from validation.installed import PROJECT, extras_of, pip_line

VIOLATED, REFUSED, PARTLY, INTERRUPTED, CLOSED = 1, 2, 3, 130, 141


class Verdict(SystemExit):
    """End the command with exit code 1: what was asked has been checked, and the answer is no."""

    def __init__(self) -> None:
        super().__init__(VIOLATED)


EXIT_CODES = """\
Exit codes: 0 done, no claim is violated; 1 a verdict: a claim is violated, a test failed, a device computes wrongly,
`publish --check` found a stale table, or `audit` found that a law is not kept; 2 no answer: an error, most of which you
can fix (a wrong argument, a damaged file, a full disk); 3 partly done, the rest is listed, or `audit` shows neither;
130 interrupted; 141 the reader of the output left (`| head`)."""


def missing_extra(error: ModuleNotFoundError, command: str | None = None) -> str | None:
    """Return the message for a missing package of one of this project's extras, or None for any other package.

    With the name of a command, the line installs all that this command needs.

    >>> missing_extra(ModuleNotFoundError("No module named 'click'", name="click"))
    "This command needs click; install the extra: pip install '.[validation]' in the project's folder."
    """
    module = (error.name or "").split(".")[0]
    package = {"yaml": "pyyaml"}.get(module, module)
    extra = _extras().get(package)
    if extra is None:
        return None
    wanted = extras_of(command) if extra == "validation" or extra in extras_of(command).split(",") else extra
    return f"This command needs {package}; install the extra: {pip_line(wanted)}."


def _extras() -> dict[str, str]:
    """Return the extra that installs each package: ``validation`` if it does, else the first one for users."""
    found: dict[str, str] = {}
    try:
        wanted = requires(PROJECT) or []
    except PackageNotFoundError:
        return found
    for line in wanted:
        if match := re.fullmatch(r"([\w.-]+)[^;]*;\s*extra == ['\"](\w+)['\"]", line):
            module, extra = match[1].replace("-", "_").lower(), match[2]
            if extra == "validation" or found.get(module, "test") in ("test", "dev"):
                found[module] = extra
    return found
