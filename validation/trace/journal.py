"""Write files that survive a crash: durable writes, a journal of commits, and a lock that ends with its process.

Each line of a journal is a JSON object with its number and the CRC-32 of the bytes before that field. The files that a
line lists are synced before the line is written, so all files listed up to the last valid line are complete.
"""

import contextlib
import errno
import json
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Self

from validation.errors import UserError
from validation.trace.remote import Place, RemotePath

JOURNAL = "journal.jsonl"
LOCK = "lock"
FULL = (errno.ENOSPC, errno.EDQUOT)

Sums = dict[str, tuple[int, int]]  # path in the store → its size in bytes and the CRC-32 of its content


@dataclass(slots=True)
class Committed:
    """State of a store at the last valid line of its journal."""

    header: dict[str, Any]
    rows: int = 0
    state: dict[str, Any] = field(default_factory=dict)
    files: Sums = field(default_factory=dict)
    tail: str | None = None
    finished: bool = False
    lines: int = 1
    valid_bytes: int = 0
    dropped: int | None = None  # number of the torn or damaged line after the last valid one


def line_of(record: Mapping[str, Any]) -> bytes:
    body = json.dumps(record, separators=(",", ":"), ensure_ascii=True).encode()[:-1]
    return body + b',"crc":"%08x"}\n' % zlib.crc32(body)


def record_of(line: bytes, number: int) -> dict[str, Any] | None:
    """Return the record of a line without its newline, or None if it is torn, damaged or not line ``number``."""
    found = re.fullmatch(rb'(.*),"crc":"([0-9a-f]{8})"\}', line)
    if found is None or zlib.crc32(found[1]) != int(found[2], 16):
        return None
    try:
        record = json.loads(found[1] + b"}")
    except (ValueError, RecursionError):  # a checksum that fits a text that is not JSON: not written by this program
        return None
    return record if isinstance(record, dict) and record.get("n") == number else None


def read_journal(folder: Place) -> Committed:
    file = folder / JOURNAL
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UserError(f"{file} cannot be read ({error.strerror}); check the path, or restore the file.") from error
    lines = content.split(b"\n")
    whole, torn = lines[:-1], lines[-1]
    if not whole:
        raise UserError(f"The trace at {folder} was only begun; run the command that wrote it again.")
    records = [record_of(line, number) for number, line in enumerate(whole)]
    first_bad = next((number for number, record in enumerate(records) if record is None), len(records))
    later = any(record is not None for record in records[first_bad:])
    if first_bad == 0 or later:
        raise UserError(
            f"{file} is damaged: line {first_bad + 1} does not match its checksum; restore the file from a copy, or "
            "collect the trace again with --fresh."
        )
    committed = Committed(header=records[0] or {})
    try:
        for record in records[1:first_bad]:
            _replay(committed, record or {})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{file} is not the journal of a trace; check the path, or restore it from a copy.") from error
    committed.lines = first_bad
    committed.valid_bytes = sum(len(line) + 1 for line in whole[:first_bad])
    if first_bad < len(whole) or torn:
        committed.dropped = first_bad + 1
    return committed


def has_begun(folder: Place) -> bool:
    """Return whether there is a journal with a complete first line, valid or not."""
    try:
        return b"\n" in (folder / JOURNAL).read_bytes()
    except FileNotFoundError:
        return False


def _replay(committed: Committed, record: dict[str, Any]) -> None:
    if committed.tail:
        committed.files.pop(committed.tail, None)
    committed.rows, committed.state = _count(record["rows"]), dict(record["state"])
    committed.tail, committed.finished = record["tail"], bool(record["finished"])
    committed.files |= {name: (_count(size), _count(crc)) for name, (size, crc) in record["files"].items()}


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is no count")
    return value


class Journal:
    """The journal of a trace in a folder, open for appending."""

    def __init__(self, folder: Path, committed: Committed | None = None) -> None:
        self._folder, self._file = folder, folder / JOURNAL
        refuse_link(self._file)
        self.lines = committed.lines if committed else 0
        self._size = committed.valid_bytes if committed else 0
        if committed and self._file.stat().st_size > self._size:
            self._cut()

    def append(self, record: Mapping[str, Any]) -> None:
        """Append a record and sync it to disk; if this raises, nothing was added."""
        line = line_of({"n": self.lines, **record})
        try:
            with open_below(self._folder, JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):  # otherwise the next start truncates the line
                self._cut()
            raise
        self.lines += 1
        self._size += len(line)

    def _cut(self) -> None:
        with open_below(self._folder, JOURNAL, os.O_WRONLY) as file:
            file.truncate(self._size)
            os.fsync(file.fileno())


class RemoteJournal:
    """The journal of a trace in a store, whose objects are written as a whole."""

    def __init__(self, folder: RemotePath, committed: Committed | None = None) -> None:
        self._file = folder / JOURNAL
        self.lines = committed.lines if committed else 0
        self._mark = self._file.mark() if committed else None  # first: another writer's line is then noticed
        self._content = self._file.read_bytes()[: committed.valid_bytes] if committed else b""

    def append(self, record: Mapping[str, Any]) -> None:
        content = self._content + line_of({"n": self.lines, **record})
        self._mark = self._file.replace_if(content, self._mark)
        self._content = content
        self.lines += 1


def open_journal(folder: Place, committed: Committed | None = None) -> Journal | RemoteJournal:
    return RemoteJournal(folder, committed) if isinstance(folder, RemotePath) else Journal(folder, committed)


def refuse_link(path: Place) -> None:
    """Refuse a link in place of a file or folder of the trace: writes or removals would affect another place."""
    if isinstance(path, Path) and path.is_symlink():
        raise UserError(
            f"{path} is a link to {os.readlink(path)}, which is never followed; put what it leads to in its place, or "
            "choose another folder."
        )


def open_below(folder: Path, name: str, flags: int) -> BinaryIO:
    """Open a file for writing, and follow no link below ``folder``, also none that was made a moment ago."""
    if not {os.open} <= os.supports_dir_fd:  # Windows
        return os.fdopen(os.open(folder / name, flags | getattr(os, "O_BINARY", 0), 0o666), "wb")
    *parents, last = name.split("/")
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parents:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
        return os.fdopen(os.open(last, flags | os.O_NOFOLLOW, 0o666, dir_fd=handle), "wb")
    except OSError:
        for place in (*reversed((folder / name).parents), folder / name):
            if folder in place.parents:
                refuse_link(place)
        raise
    finally:
        os.close(handle)


def write_durably(path: Place, content: bytes | memoryview, below: Place | None = None) -> tuple[int, int]:
    """Write a new file, sync it, and return its size and CRC-32; a partial file is removed on failure."""
    if isinstance(path, RemotePath):
        path.write_bytes(content)
        return len(content), zlib.crc32(content)
    try:
        folder = below if isinstance(below, Path) else path.parent
        with open_below(folder, path.relative_to(folder).as_posix(), _NEW) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    return len(content), zlib.crc32(content)


_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def write_atomically(path: Path, text: str) -> None:
    """Replace a text file atomically: after a crash it holds either the old or the new text."""
    part = path.with_name(f"{path.name}.part-{os.getpid()}")
    try:
        write_durably(part, text.encode())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Place) -> None:
    """Sync a folder so that new names survive a power cut; only POSIX can sync a folder."""
    if os.name == "posix" and isinstance(folder, Path):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_file(path: Place, size: int, crc: int, what: str) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise UserError(f"{path} is missing ({what}); {_REMEDY}.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}; {what}); {_REMEDY}.") from error
    if len(content) != size:
        raise UserError(f"{path} is damaged: {what} has {len(content):,} bytes, not {size:,}; {_REMEDY}.")
    if zlib.crc32(content) != crc:
        raise UserError(f"{path} is damaged: {what} does not match its checksum; {_REMEDY}.")
    return content


_REMEDY = "restore it from a copy, or collect the trace again with --fresh"


def disk_error(path: Place, error: OSError, kept: str = "") -> UserError:
    """Return the error for a failed write; ``kept`` names the data that is safe."""
    said = f"Writing {path} failed ({error.strerror}); {kept}choose another place, or check the disk."
    again = "and run the same command again."
    if error.errno in FULL:
        said = f"The disk is full while writing {path}; {kept}free some space {again}"
    if error.errno == errno.EFBIG:
        said = f"A file of {path} would be larger than is allowed here; {kept}raise the limit (ulimit -f) {again}"
    return UserError(said)


class Lock:
    """Lock that allows one writer at a time on systems with file locks; it is released when the process ends."""

    def __init__(self, folder: Place) -> None:
        self.folder = folder
        self._handle: int | None = None

    def __enter__(self) -> Self:
        if isinstance(self.folder, RemotePath):  # its journal notices another writer
            return self
        try:
            import fcntl
        except ImportError:
            return self
        file = self.folder / LOCK
        refuse_link(file)
        while True:
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            if re.fullmatch(rb"\d*\n?", os.pread(handle, 64, 0)) is None:
                os.close(handle)
                raise UserError(
                    f"{file} is not a lock of this program and would be overwritten; choose another folder."
                )
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not _same_file(handle, file):  # its holder has just removed the file
                    os.close(handle)
                    continue
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
            except BlockingIOError as error:
                holder = os.read(handle, 20).decode(errors="replace").strip() or "unknown"
                os.close(handle)
                raise UserError(
                    f"Another process (pid {holder}) is writing {self.folder}; wait for it, stop it, or choose "
                    "another folder."
                ) from error
            except OSError:  # no lock support or a full disk; the process id is only information
                pass
            self._handle = handle
            return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            with contextlib.suppress(OSError):
                (self.folder / LOCK).unlink()
            os.close(self._handle)
            self._handle = None


def _same_file(handle: int, file: Path) -> bool:
    try:
        return os.fstat(handle).st_ino == file.stat().st_ino
    except FileNotFoundError:
        return False
