"""How this project lies on the machine, a clone or an installed package, and the lines that suit it."""

import json
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = "hlmtheory"
GROUPS = {
    "You have an engine": ("acceptance", "top-k", "import", "audit"),
    "You have two models": ("validate", "plan", "decode", "collect", "merge"),
    "You have a device and a server": ("serve", "device", "link"),
    "You have a paper": ("claims", "figure", "reproduce", "study", "publish"),
    "This machine and this clone": ("doctor", "docs"),
}
"""The commands of ``hlm``, as its help groups them."""
LAUNCHED = {"test": "Run the tests: python3 hlm test.", "setup": "Install extras: python3 hlm setup NAMES."}
COMMANDS = tuple(name for names in GROUPS.values() for name in names)
EXTRAS = dict.fromkeys(("device", "link", "serve"), ("link",)) | {"docs": ("docs",)}
"""What a command needs besides the extra ``validation``."""


def is_clone() -> bool:
    """Return whether this is a clone of the repository, with its launcher ``hlm``."""
    return (ROOT / "hlm").is_file() and (ROOT / "pyproject.toml").is_file()


def extras_of(command: str | None) -> str:
    return ",".join(("validation", *EXTRAS.get(command or "", ())))


def pip_line(extras: str) -> str:
    """Return the line that installs extras, from the place that this package came from."""
    if is_clone():
        return f"pip install '.[{extras}]' in the project's folder"
    return f"pip install '{PROJECT}[{extras}]{_origin()}'"


def _origin() -> str:
    """Return where pip took this package from, as a requirement says it; empty for a package index."""
    try:
        said = json.loads(distribution(PROJECT).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return ""
    if "url" not in said:
        return ""
    vcs = said.get("vcs_info")
    return f" @ {vcs['vcs']}+{said['url']}@{vcs['commit_id']}" if vcs else f" @ {said['url']}"


def as_typed(text: str) -> str:
    """Return a text whose commands are typed as this machine knows them."""
    if is_clone():
        return text
    text = re.sub(r"python3 hlm setup (\w+(?: \w+)*)", lambda found: pip_line(found[1].replace(" ", ",")), text)
    return text.replace("python3 hlm", "hlm")
