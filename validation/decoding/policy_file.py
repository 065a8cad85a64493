"""The file ``policy.json``: write a device's policy, and read one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hlmtheory.policy import DevicePolicy
from validation.collection.fingerprint import fingerprints
from validation.decoding.methods.planned import Planned, refuse_other_sampling
from validation.errors import UserError
from validation.trace.journal import write_atomically

if TYPE_CHECKING:
    from validation.models.pair import Pair

FILE = "policy.json"


def write_policy(policy: DevicePolicy, path: str | Path) -> Path:
    file = Path(path)
    file = file / FILE if file.is_dir() else file
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, policy.to_json())
    return file


def read_policy(path: str | Path) -> DevicePolicy:
    file = Path(path)
    file = file / FILE if file.is_dir() else file
    try:
        return DevicePolicy.from_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"There is no policy at {file}; make one with `python3 hlm plan`.") from error
    except ValueError as error:  # of the policy, or of UTF-8
        raise UserError(f"{file} holds no policy: {error}.") from error


def models_mark(settings: Mapping[str, Any] | None) -> str | None:
    """Return the mark of two models by which a policy knows them; None if their weights are not known."""
    names = ("vocabulary", "small_weights", "large_weights")
    if not settings or any(name not in settings for name in names):
        return None
    return " ".join(str(settings[name]) for name in names)


def planned_methods(path: str | Path | None, temperature: float, top_p: float) -> list[Planned]:
    """Return the decoding method of a policy's file, in a list; none without a file."""
    if path is None:
        return []
    method = Planned(read_policy(path))
    refuse_other_sampling(method.policy, temperature, top_p)
    return [method]


def refuse_other_models(methods: Sequence[Planned], pair: Pair) -> None:
    """Raise a UserError if a policy was planned for models of other weights; without its mark nothing is compared."""
    for policy in (method.policy for method in methods if method.policy.planned_for is not None):
        mark = models_mark(fingerprints(pair, [], []))
        if mark != policy.planned_for:
            raise UserError(
                f"The policy was planned for other models ({policy.planned_for!r}) than these ({mark!r}); plan for "
                "these models, or give those."
            )
