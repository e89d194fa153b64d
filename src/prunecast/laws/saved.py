"""The file of a saved law: JSON that names its format and version, and fields that rebuild the values.

A checksum over all other fields notices a file that was altered. If you alter one on purpose, remove its checksum; its
fields are then checked like those of files from before there were checksums.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.files import dumps, read_input, write_text

FORMAT, VERSION = "prunecast law", 2
CHECKSUM = "checksum"
HOW_TO_SAVE = "`prunecast fit TABLE -o law.json` writes one"
T = TypeVar("T")
SHOWN = 40
"""Characters of a value that a message shows."""
LARGEST_COUNT = 2**63


def write(path: Path, body: dict[str, Any]) -> None:
    """Write a law's fields as one JSON file, with their checksum."""
    text = dumps(headed(body))
    write_text(path, f'{text.removesuffix("}")}, "{CHECKSUM}": "{checksum(json.loads(text))}"}}\n')


def headed(body: dict[str, Any]) -> dict[str, Any]:
    """The fields with the format's name and version."""
    return {"format": FORMAT, "version": VERSION, **body}


def plain(body: dict[str, Any]) -> dict[str, Any]:
    """Fields as they are after they were written and read."""
    read_back: dict[str, Any] = json.loads(dumps(body))
    return read_back


def checksum(body: dict[str, Any]) -> str:
    """The checksum of a file's fields; spaces and line breaks between them do not change it."""
    others = {name: value for name, value in body.items() if name != CHECKSUM}
    return f"sha256:{hashlib.sha256(json.dumps(others).encode()).hexdigest()}"


def read(path: Path) -> dict[str, Any]:
    """The fields of a saved law."""
    try:
        body = json.loads(read_input(path))
    except OSError as error:
        raise PrunecastError(f"{path} cannot be read: {error.strerror}; {HOW_TO_SAVE}") from error
    except (ValueError, RecursionError) as error:
        raise PrunecastError(f"{path} is not a saved law (it is not JSON); {HOW_TO_SAVE}") from error
    if not isinstance(body, dict):
        raise PrunecastError(f"{path} is not a saved law; {HOW_TO_SAVE}")
    return checked(body, str(path))


def checked(body: dict[str, Any], place: str) -> dict[str, Any]:
    """The fields; refuses those of another file or version, and altered ones."""
    if body.get("format") != FORMAT:
        raise PrunecastError(f"{place} is not a saved law; {HOW_TO_SAVE}")
    if body.get("version") != VERSION:
        raise PrunecastError(
            f"{place} has format version {body.get('version')}, but this prunecast reads version {VERSION}; fit the "
            "table again"
        )
    if CHECKSUM in body and body[CHECKSUM] != checksum(body):
        raise PrunecastError(
            f"{place} was changed after prunecast wrote it: its checksum does not match; fit the table again, or "
            f'delete the key "{CHECKSUM}" if the change is yours'
        )
    return body


def decoded(kind: type[T], body: object, place: str) -> T:
    """A dataclass from the JSON object of its fields; a ValueError names a field that is missing, unknown or wrong."""
    if not isinstance(body, Mapping):
        raise _wrong(body, place)
    cls: Any = kind
    hints, own = typed_fields(cls)
    missing = [name for name, field in own.items() if name not in body and not _has_default(field)]
    unknown = [name for name in body if name not in own]
    if missing or unknown:
        raise ValueError(f"{place} {'lacks' if missing else 'has'} {ascii([*missing, *unknown][0])[:SHOWN]}")
    return kind(**{name: value_of(hints[name], value, f"{place}, {name}") for name, value in body.items()})


@cache
def typed_fields(kind: Any) -> tuple[dict[str, Any], dict[str, "Field[Any]"]]:
    """The type and the field of each attribute of a dataclass, by name."""
    return get_type_hints(kind), {field.name: field for field in fields(kind)}


def _has_default(field: "Field[Any]") -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def value_of(kind: Any, value: object, place: str) -> Any:
    """A JSON value as one of an annotated type. A null where a number is due is NaN, which JSON cannot write."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (needed,) = (one for one in inner if one is not NoneType)
        return None if value is None else value_of(needed, value, place)
    if origin is np.ndarray and isinstance(value, list):
        rows = (
            tuple[float, ...]
            if not value or not isinstance(value[0], list)
            else tuple[tuple[float, ...], ...]
        )
        return np.array(value_of(rows, value, place), dtype=float)
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
    if isinstance(value, str) and issubclass(kind, str):  # an enumeration, a metric
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
