"""The text of ``policy.json``: the fields of :class:`hlmtheory.wire.DevicePolicy`, and nothing else."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from functools import partial
from typing import Any, TypeVar

from hlmtheory._array import brief
from hlmtheory._domains import DomainError
from hlmtheory.codec import CodecMenu
from hlmtheory.policy import device_parts as parts
from hlmtheory.policy.costs import DeviceRule

FORMAT, VERSION = "hlm-policy", 2
LONGEST = 2**20
"""Most characters of the text."""

Made = TypeVar("Made")

_NUMBERS = ("vocabulary", "temperature", "planned_for", "bonus", "bits_limit")
_KINDS: dict[str, type[parts.Messages]] = {
    "certified rows": parts.CertifiedRows,
    "lattice rows": parts.LatticeRows,
    "draft probabilities": parts.DraftProbabilities,
    "draft probabilities, certified answer": parts.CertifiedAnswers,
    "shared seed": parts.SeededTokens,
    "shared seed, streamed": parts.StreamedTokens,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_PARTS = {"rule": DeviceRule, "uncertainty": parts.UncertaintyLine, "menu": CodecMenu, "guarantees": parts.Guarantee}
_FIELDS = {
    "": ("format", "version", *_NUMBERS, "rule", "uncertainty", "messages", "guarantees"),
    **{name: tuple(field.name for field in fields(part)) for name, part in _PARTS.items()},
    **{name: ("kind", *(field.name for field in fields(part))) for name, part in _KINDS.items()},
}
_IF_TRUE = ("alone", "message_sizes", "block")
"""Fields of the policy that are in its text only where they are true, so that the texts of other policies stay."""


def text_of(policy: Mapping[str, Any]) -> str:
    """The JSON text of a policy's fields."""
    plain = {"format": FORMAT, "version": VERSION, **{name: policy[name] for name in _NUMBERS}}
    plain |= {
        "rule": asdict(policy["rule"]),
        "uncertainty": None if policy["line"] is None else asdict(policy["line"]),
        "messages": {"kind": _NAMES[type(policy["messages"])], **asdict(policy["messages"])},
        "guarantees": [asdict(guarantee) for guarantee in policy["guarantees"]],
    }
    plain |= {name: policy[name] for name in _IF_TRUE if policy[name]}
    return json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def policy_of(text: str, make: Callable[..., Made]) -> Made:
    """The policy that ``make`` returns for the fields of a JSON text."""
    parsed = _parsed(text)
    more = {name: parsed.pop(name) for name in _IF_TRUE if isinstance(parsed, dict) and name in parsed}
    given = _fields("", parsed, version=True)
    rule = _fields("rule", given["rule"])
    line = None if given["uncertainty"] is None else _fields("uncertainty", given["uncertainty"])
    promises = given["guarantees"]
    if not isinstance(promises, list):
        raise DomainError(f"guarantees must be a list; got {brief(promises)}; give [] for none")
    return _made(
        "the policy",
        lambda: make(
            **{name: given[name] for name in _NUMBERS},
            **more,
            rule=DeviceRule(**rule),
            messages=_made("messages", lambda: _messages(given["messages"])),
            line=None if line is None else _made("uncertainty", lambda: parts.UncertaintyLine(**line)),
            guarantees=tuple(
                _made(f"guarantees[{n}]", partial(_guarantee, promise)) for n, promise in enumerate(promises)
            ),
        ),
    )


def _guarantee(value: Any) -> parts.Guarantee:
    return parts.Guarantee(**_fields("guarantees", value))


def _messages(value: Any) -> parts.Messages:
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise DomainError(f"kind must be one of {', '.join(_KINDS)}; got {brief(kind)}; write the policy again")
    given = _fields(kind, value)
    del given["kind"]
    if given.get("menu") is not None:
        menu = _fields("menu", given["menu"])
        given["menu"] = CodecMenu(**{name: _row(name, entry) for name, entry in menu.items()})
    return _KINDS[kind](**given)


def _parsed(text: str) -> Any:
    if not isinstance(text, str):
        raise TypeError(f"text must be a string; got {brief(text)}; read the file as UTF-8")
    if len(text) > LONGEST:
        raise DomainError(f"text must have at most {LONGEST:,} characters; got {len(text):,}; give a policy.json")
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_once)
    except DomainError:
        raise
    except (ValueError, RecursionError) as error:
        raise DomainError(f"text must be JSON; {brief(str(error))}; check that the file is complete") from error


def _no_constant(word: str) -> float:
    raise DomainError(f"text must hold finite numbers; got {word}; write the policy again")


def _finite(word: str) -> float:
    value = float(word)
    return value if math.isfinite(value) else _no_constant(word)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DomainError(f"{brief(twice)} must be there once; got it twice; delete one")
    return members


def _fields(section: str, value: Any, *, version: bool = False) -> dict[str, Any]:
    where = section or "the policy"
    if not isinstance(value, Mapping):
        raise DomainError(f"{where} must be an object of JSON; got {brief(value)}; write the policy again")
    if version:
        for name, wanted in (("format", FORMAT), ("version", VERSION)):
            if type(value.get(name)) is not type(wanted) or value[name] != wanted:
                raise DomainError(
                    f"{name} must be {wanted!r}; got {brief(value.get(name))}; write the policy with this version"
                )
    names = _FIELDS[section]
    for name in names:
        if name not in value:
            raise DomainError(f"{name} must be a field of {where}; it is missing; write the policy again")
    for name in value:
        if name not in names:
            raise DomainError(f"{where} must have no field {brief(name)}; got it; delete it, or use its version")
    return {name: value[name] for name in names if name not in ("format", "version")}


def _row(name: str, value: Any) -> Any:
    if value is None and name in ("sizes", "resolutions"):
        return None
    if isinstance(value, list) and all(type(entry) in (int, str) for entry in value):
        return tuple(value)
    raise DomainError(f"{name} must be a list; got {brief(value)}; write the policy again")


def _made(where: str, make: Callable[[], Made]) -> Made:
    """What is made; the message of an error begins with its place, and a wrong type in JSON is a wrong value."""
    try:
        return make()
    except (ValueError, TypeError, OverflowError) as error:
        raise DomainError(f"{where}: {error}") from error
