"""Values of a JSON file as the typed values that they must be, refused where they are not."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
SHOWN = 40
"""Characters of a value that a message shows."""
LARGEST_COUNT = 2**63


def decoded(kind: type[T], body: object, place: str) -> T:
    """A dataclass from the JSON object of its fields; a ValueError names a field that is missing, unknown or wrong."""
    if not isinstance(body, Mapping):
        raise _wrong(body, place)
    cls: Any = kind
    hints, own = _hints(cls)
    missing = [name for name, field in own.items() if name not in body and not _has_default(field)]
    unknown = [name for name in body if name not in own]
    if missing or unknown:
        raise ValueError(f"{place} {'lacks' if missing else 'has'} {ascii([*missing, *unknown][0])[:SHOWN]}")
    return kind(**{name: value_of(hints[name], value, f"{place}, {name}") for name, value in body.items()})


@cache
def _hints(kind: Any) -> tuple[dict[str, Any], dict[str, "Field[Any]"]]:
    return get_type_hints(kind), {field.name: field for field in fields(kind)}


def _has_default(field: "Field[Any]") -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def value_of(kind: Any, value: object, place: str) -> Any:
    """A JSON value as one of an annotated type. A null where a number is due is NaN, which JSON cannot write."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (needed,) = (one for one in inner if one is not NoneType)
        return None if value is None else value_of(needed, value, place)
    if origin is dict and isinstance(value, dict):
        return {key: value_of(inner[1], one, place) for key, one in value.items()}
    if origin in (tuple, frozenset) and isinstance(value, list):
        kinds = inner if origin is tuple and inner[-1] is not ... else inner[:1] * len(value)
        if len(kinds) == len(value):
            if inner[0] is float and all(
                type(own) is float for own in value
            ):  # most of a file, and quickly seen
                return origin(value)
            return origin(value_of(one, own, place) for one, own in zip(kinds, value, strict=True))
    if origin is not None:
        raise _wrong(value, place)
    if isinstance(kind, type) and is_dataclass(kind):
        return decoded(kind, value, place)
    return _scalar(kind, value, place)


def _scalar(kind: Any, value: object, place: str) -> Any:
    if kind is float:
        return _number(value, place)
    if isinstance(value, str) and issubclass(kind, StrEnum):
        return kind(value)
    if type(value) is not kind or (kind is int and not abs(value) < LARGEST_COUNT):  # type: ignore[arg-type]
        raise _wrong(value, place)
    return value


def _number(value: object, place: str) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= float(2**1023):
        raise _wrong(value, place)
    return float(value)


def _wrong(value: object, place: str) -> ValueError:
    shown = ascii(value)
    return ValueError(f"{place} is {shown if len(shown) <= SHOWN else f'{shown[:SHOWN]}...'}")
