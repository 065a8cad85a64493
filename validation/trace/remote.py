"""Folders of traces at ``s3://``, ``http://`` and ``https://``, with the methods of a path that traces need.

obstore (the extra ``remote``) sends the requests and repeats them a bounded number of times. An object is written as a
whole, and the journal is replaced only if nobody else has replaced it since. Credentials, region and endpoint come from
the environment: ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_SESSION_TOKEN``, ``AWS_ENDPOINT_URL``.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from validation.errors import UserError

SCHEMES = ("s3", "http", "https")
WRITABLE = ("s3",)
RETRIES = 5  # of a request
RETRY_S = 60.0  # after the first attempt of a request, after which it is not repeated
WAIT_S = 30.0  # that one attempt may take
URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/?#]*)(/[^?#]*)?")
CREDENTIALS = "the credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY; AWS_SKIP_SIGNATURE=true for a public bucket)"
"""What is checked besides the rights when a bucket denies a request."""


def place(value: str | Path | RemotePath) -> Place:
    """Return a folder of this machine, or of a store for an address."""
    if isinstance(value, RemotePath):
        return value
    text = str(value)
    return RemotePath(text) if "://" in text else Path(value)


@dataclass(init=False, repr=False, order=True, unsafe_hash=True)
class RemotePath:
    """The address of a folder or an object, used like a :class:`pathlib.Path`."""

    scheme: str
    root: str
    key: str

    def __init__(self, url: str) -> None:
        found = URL.fullmatch(url)
        if found is None or found[1].lower() not in SCHEMES or not found[2]:
            known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
            raise UserError(f"{_without_password(url)} is no place of a trace; give a folder, or {known}HOST/PATH.")
        if "@" in found[2]:
            raise UserError(
                f"{_without_password(url)} holds a password, which would be stored with the results; set the "
                "credentials in the environment."
            )
        self.scheme = found[1].lower()
        self.root = f"{self.scheme}://{found[2]}"
        self.key = "/".join(part for part in (found[3] or "").split("/") if part)

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self}/{name}")

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> RemotePath:
        return RemotePath(f"{self.root}/{self.key.rpartition('/')[0]}")

    def relative_to(self, other: RemotePath) -> PurePosixPath:
        return PurePosixPath(str(self)).relative_to(PurePosixPath(str(other)))

    def absolute(self) -> RemotePath:
        return self

    resolve = absolute

    def read_bytes(self) -> bytes:
        """Return the content; a body that breaks off is read again, a bounded number of times."""
        for left in reversed(range(RETRIES)):
            answer = self._ask("read", lambda obstore, store: obstore.get(store, self.key))
            try:
                return bytes(answer.bytes())
            except Exception as error:
                if not left:
                    raise self._problem("read", error) from error
        raise AssertionError

    def is_file(self) -> bool:
        try:
            return bool(self.key and self.mark())
        except FileNotFoundError:
            return False

    def is_dir(self) -> bool:
        """Return whether there is an object below this; at ``http``, which has no lists, False."""
        return self.scheme in WRITABLE and next(self._listed(), None) is not None

    def exists(self) -> bool:
        return self.is_file() or self.is_dir()

    def sizes(self) -> dict[str, int] | None:
        """Return the sizes of all objects below, by relative name; None at ``http``."""
        if self.scheme not in WRITABLE:
            return None
        start = len(self.key) + bool(self.key)
        return {one["path"][start:]: one["size"] for one in self._listed()}

    def iterdir(self) -> Iterator[RemotePath]:
        names = {name.split("/")[0] for name in self.sizes() or {}}
        return iter(sorted(self / name for name in names))

    def _listed(self) -> Iterator[Any]:
        prefix = self.key or None  # a prefix ends at a slash
        batches = iter(self._ask("list", lambda obstore, store: obstore.list(store, prefix)))
        while batch := self._ask("list", lambda *_: next(batches, None)):
            yield from batch

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        if self.scheme not in WRITABLE:
            raise UserError(f"{self} can only be read; give a folder, or s3://, to write a trace.")

    def rmdir(self) -> None:
        """Do nothing: a store has no folders."""

    def write_bytes(self, content: bytes | memoryview) -> None:
        self.mkdir()
        self._ask("written", lambda obstore, store: obstore.put(store, self.key, bytes(content)))

    def replace_if(self, content: bytes, seen: dict[str, Any] | None) -> dict[str, Any]:
        """Write an object only if nobody has written it since."""
        import obstore
        from obstore import exceptions

        self.mkdir()
        mode: Any = "create" if seen is None else {key: seen[key] for key in ("e_tag", "version") if seen.get(key)}
        try:
            return dict(obstore.put(_store(self.root), self.key, content, mode=mode))
        except (exceptions.PreconditionError, exceptions.AlreadyExistsError) as error:
            if self.read_bytes() == content:  # our own first attempt was written, and its answer was lost
                return self.mark()
            raise UserError(
                f"Another process is writing {self.parent}; wait for it, stop it, or choose another place."
            ) from error
        except (exceptions.NotSupportedError, NotImplementedError):
            return dict(self._ask("written", lambda obstore, store: obstore.put(store, self.key, content)))
        except Exception as error:
            raise self._problem("written", error) from error

    def mark(self) -> dict[str, Any]:
        """Return what tells this version of an object from others."""
        return dict(self._ask("read", lambda obstore, store: obstore.head(store, self.key)))

    def unlink(self, missing_ok: bool = False) -> None:
        self.mkdir()
        try:
            self._ask("removed", lambda obstore, store: obstore.delete(store, self.key))
        except FileNotFoundError:
            if not missing_ok:
                raise

    def _ask(self, done: str, question: Any) -> Any:
        obstore, store = _obstore(), _store(self.root)
        try:
            return question(obstore, store)
        except Exception as error:
            raise self._problem(done, error) from error

    def _problem(self, done: str, error: Exception) -> Exception:
        from obstore import exceptions

        done = {"list": "listed"}.get(done, done)
        if isinstance(error, UserError):
            return error
        if isinstance(error, FileNotFoundError | exceptions.NotFoundError):
            return FileNotFoundError(errno.ENOENT, "there is no such object", str(self))
        if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
            known = f"{CREDENTIALS} and " if self.scheme in WRITABLE else ""
            return UserError(f"{self} cannot be {done}: the store denies it; check {known}the rights.")
        return UserError(
            f"{self} cannot be {done} ({_reason(error)}; a request is repeated up to {RETRIES} times); check the "
            "address, the connection and the store, and run the same command again."
        )


def _obstore() -> Any:
    try:
        import obstore
    except ModuleNotFoundError as error:
        raise UserError(
            f"A trace in a store is read with obstore ({error.name} is missing); install the extra: "
            "python3 hlm setup validation remote"
        ) from error
    return obstore


@lru_cache(maxsize=8)
def _store(root: str) -> Any:
    _obstore()
    from obstore import store

    retry: Any = {
        "max_retries": RETRIES,
        "retry_timeout": timedelta(seconds=RETRY_S),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=10), "base": 2},
    }
    client: Any = {"timeout": timedelta(seconds=WAIT_S), "connect_timeout": timedelta(seconds=min(5.0, WAIT_S))}
    endpoint = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT") or ""
    if (endpoint if root.startswith("s3:") else root).startswith("http:"):
        client["allow_http"] = True
    try:
        return store.from_url(root, client_options=client, retry_config=retry)
    except Exception as error:
        raise UserError(f"{root} cannot be used ({_reason(error)}); check the address and the environment.") from error


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    if status := re.search(r"\b(?:status|HTTP error:?|response)\W+(\d{3} [A-Z][A-Za-z ]+|\d{3})", text):
        return f"status {status[1].strip()}"
    for words in ("timed out", "dns error", "Connection refused", "connection closed", "end of file", "error decoding"):
        if words.lower() in text.lower():
            return words.lower()
    return text.split(" Debug source")[0][:200]


def _without_password(url: str) -> str:
    return re.sub(r"//[^/]*@", "//", url)


Place = Path | RemotePath  # a folder of this machine or of a store
