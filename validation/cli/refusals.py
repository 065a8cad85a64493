"""Report errors on the command line: one sentence with the path and the remedy, and exit code 2."""

import errno
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from hlmtheory._domains import DomainError
from validation.cli.exits import CLOSED, REFUSED, missing_extra
from validation.errors import UserError
from validation.installed import as_typed
from validation.models.devices import memory_errors

_TEXTS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("remedies.toml").read_text(encoding="utf-8"))
REMEDIES = {getattr(errno, name): said for name, said in _TEXTS["system"].items()}
RENAMED = _TEXTS["renamed"]


class Refusal(click.ClickException):
    exit_code = REFUSED


@contextmanager
def refusals() -> Iterator[None]:
    """Convert every error that a user can fix into a :class:`Refusal`; other errors propagate."""
    try:
        with memory_errors():
            yield
    except (UserError, DomainError) as error:
        raise Refusal(as_typed(str(error))) from error
    except click.UsageError as error:
        wrong = getattr(error, "option_name", getattr(error, "command_name", type(error).__name__))
        command = error.ctx.info_name if error.ctx else ""
        if (now := RENAMED.get(wrong, RENAMED.get(f"{command} {wrong}"))) is None:
            raise
        missing = error.format_message().partition(". Did")[0].rstrip(".")
        what = f"{wrong} is no option here" if wrong.startswith("-") else missing
        raise Refusal(f"{what}: write {now}.") from error
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader closed the pipe
            raise SystemExit(CLOSED) from error
        raise Refusal(os_sentence(error)) from error
    except ModuleNotFoundError as error:
        if (said := missing_extra(error)) is None:
            raise
        raise Refusal(said) from error


def os_sentence(error: OSError) -> str:
    """Return one sentence for a system error: the path, the problem, the remedy.

    >>> os_sentence(OSError(28, "No space left on device", "runs/mine"))
    "'runs/mine': the disk is full; free some space and run the same command again."
    """
    files = (name for name in (error.filename, error.filename2) if name is not None)
    names = (name.decode(errors="backslashreplace") if isinstance(name, bytes) else str(name) for name in files)
    where = " and ".join(map(repr, names))
    remedy = REMEDIES.get(error.errno or 0)
    if remedy is None:
        remedy = f"{error.strerror or str(error) or type(error).__name__}; check the path, or choose another place"
    return f"{where or 'The output'}: {remedy}."
