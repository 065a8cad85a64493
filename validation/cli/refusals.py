"""Report errors on the command line: one sentence with the path and the remedy, and exit code 2."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import click

from hlmtheory._domains import DomainError
from validation.cli.exits import CLOSED, REFUSED, missing_extra
from validation.errors import UserError
from validation.installed import as_typed
from validation.models.devices import memory_errors

REMEDIES = {
    errno.ENOSPC: "the disk is full; free some space and run the same command again",
    errno.EDQUOT: "your share of the disk is full; free some space and run the same command again",
    errno.EFBIG: "a file there would be larger than is allowed; raise the limit (ulimit -f), or choose another place",
    errno.EROFS: "it lies on a read-only file system; choose another place",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "permission denied; change its permissions, or choose another place"),
    errno.ENOTDIR: "a file lies where a folder is needed; move it away, or choose another place",
    errno.EEXIST: "a file lies where a folder is needed; move it away, or choose another place",
    errno.EISDIR: "it is a folder, and a file is needed; check the path",
    errno.ENAMETOOLONG: "the name is too long (most systems allow 255 bytes); choose a shorter one",
    errno.ELOOP: "symbolic links lead round in a circle there; fix the link, or choose another place",
    errno.ENOENT: "there is no such file or folder; check the path",
    errno.EMFILE: "too many files are open; raise the limit (ulimit -n) and run the same command again",
    errno.EIO: "the disk reports an error; check it, or choose another place",
}
RENAMED = {
    **{"--draft-ms": "--draft-time 12ms", "--verify-ms": "--verify-time 30ms", "--rtt-ms": "--rtt 20ms"},
    **{"--server-draft-ms": "--server-draft-time 5ms", "--between-ms": "--between-time 2ms"},
    **{"--verify-us-per-token": "--verify-token-time 300us", "--draft-us-per-token": "--draft-token-time 50us"},
    **{"--step-ms": "--step-time 40ms,44ms", "--tokens-per-s": "--speed 50/s,60/s"},
    **{"--call-seconds": "--call-time 60s", "--device-w": "--device-power 5W", "--transmit-w": "--transmit-power 1W"},
    **dict.fromkeys(("plan --draft", "plan --target"), "hlm validate --draft A --target B, then hlm plan --trace RUN"),
    **{"audit UsageError": "--sampler FILE.py:FUNCTION", "import MissingParameter": "--draft, --target and --out"},
    **{"--num-speculative-tokens": "--draft-length 3", "--schedule": "--settings vllm"},
    **{"--sglang": "--settings sglang", "--profile": "--synthetic vllm", "link --trace": "--link"},
    **{"repro": "hlm publish", "plan --confidence": "--all: its intervals are at 95%"},
    **{"plan --price": "--server-price 1", "audit --trace": "--target MODEL, or hlm validate --trace RUN"},
    **{"reproduce --task": "--study NAME; tasks that are up to date are skipped"},
}
"""Options and commands by another name, an older one or an engine's, and what is written here."""


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
