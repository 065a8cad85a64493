"""Make dataclasses of plain values from JSON. A value that does not fit is refused by its field's name."""

from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

Made = TypeVar("Made")


def loaded(kind: type[Made], given: Any, where: str = "") -> Made:
    """Return a dataclass from an object of JSON, with those that it holds; ValueError if a field is wrong."""
    return kind(**checked_fields(kind, given, where))


def checked_fields(kind: type, given: Any, where: str = "") -> dict[str, Any]:
    """Return the fields of a dataclass, each of its type, if no other is given."""
    where, names = where or kind.__name__.lower(), [field.name for field in fields(kind)]
    if not isinstance(given, dict) or sorted(given) != sorted(names):
        raise ValueError(f"{where} with other fields than {', '.join(names)}")
    hints = get_type_hints(kind)
    return {name: _value(hints[name], given[name], f"{name} of the {where}") for name in names}


def _value(hint: Any, value: Any, where: str) -> Any:
    """Return a value of a type; of a list or an object the entries are checked where they are dataclasses."""
    if is_dataclass(hint):
        return loaded(hint, value, where)  # type: ignore[arg-type]
    kind = get_origin(hint) or hint
    if kind is tuple and isinstance(value, list | tuple):
        return tuple(_value(get_args(hint)[0], one, where) for one in value)
    if kind is not Any and type(value) is not kind and not (kind is float and type(value) is int):
        raise ValueError(f"{where} is no {kind.__name__}")
    return value
