"""Where a result comes from: commit and digest of the code, digests of files, versions of packages, date."""

import hashlib
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import hlmtheory

SOURCE = Path(__file__).resolve().parents[1]
REPOSITORY = "https://github.com/hlmtheory/hlmtheory"  # [project.urls] of pyproject.toml has the same
PAPERS = {
    "cu-hlm": "oh2025cuhlm",
    "u-hlm": "oh2024uhlm",
    "c-sqs": "bhattacharjee2025csqs",
    "flexspec": "li2025flexspec",
    "edge-sd": "zhu2025edgesd",
}
"""Key in ``references.bib`` of each of the five papers, by short name, in the order of the page."""


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def code_digest(*folders: str) -> str:
    """Return a hash of the source of the theory and of folders of ``validation``, or of all of it."""
    digest = hashlib.sha256()
    for folder in ("hlmtheory", *(f"validation/{name}" for name in folders or ("",))):
        for file in sorted((SOURCE / folder).rglob("*.py")):
            digest.update(file.relative_to(SOURCE).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def versions(*packages: str) -> dict[str, str]:
    found = {"hlmtheory": hlmtheory.__version__, "python": platform.python_version()}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def commit_of_code() -> str | None:
    """Return the commit of this code, marked if the code has changed since; None outside a checkout."""
    if not (SOURCE / ".git").exists():
        return None
    try:
        found = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--", "hlmtheory", "validation")
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{found} with changes" if changed else found


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(SOURCE), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()
