"""The store's files: written completely or not at all, with a checksum that shows later damage.

Tensors are stored in the safetensors format: a line of JSON, then the raw numbers. The format is written here, so that
a chain runs with torch and numpy alone.
"""

import errno
import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

import torch
from torch import Tensor

from prunecast.errors import DamagedError, StoreError
from prunecast.files import read_file, replace_file, sync

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_FULL = (errno.ENOSPC, errno.EDQUOT)
_MALFORMED = (ValueError, KeyError, TypeError, OverflowError, RecursionError)
"""What reading JSON of another form raises."""
_LARGEST = 1e300


def write_whole(path: Path, data: bytes, *, wait: bool = False) -> None:
    """Write a file of the store, complete or not at all; `wait` for the reader where it is a pipe."""
    try:
        replace_file(path, data, wait=wait)
    except OSError as failure:
        remedy = "free some space" if failure.errno in _FULL else f"make {path.parent} a writable folder"
        raise StoreError(
            f"Cannot write {path}: {failure.strerror}. Nothing finished is lost; "
            f"{remedy} and run the same command again."
        ) from failure


def make_folder(folder: Path) -> None:
    """Create a folder and its parents so that they survive a power cut."""
    if os.path.isdir(folder):  # noqa: PTH112 (Path.is_dir may raise)
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(exist_ok=True)
        sync(folder.parent)
    except OSError as failure:
        raise StoreError(f"Cannot create {folder}: {failure.strerror}; choose another folder.") from failure


def write_json(path: Path, body: Mapping[str, Any]) -> None:
    """Write a JSON object with a checksum."""
    text = json.dumps({**body, "sha256": _digest(_dumped(body))}, indent=1, sort_keys=True)
    write_whole(path, text.encode() + b"\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read what `write_json` wrote, and verify its checksum."""
    data = _content(path)
    try:
        body: dict[str, Any] = json.loads(data)
        checksum = body.pop("sha256")
        found = _digest(_dumped(body))
    except (*_MALFORMED, AttributeError) as failure:
        raise damaged(path, "it cannot be read") from failure
    if checksum != found:
        raise damaged(path, "its checksum is wrong")
    return body


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
    """Write named tensors and a few notes as one safetensors file."""
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    end = 0
    for name, tensor in tensors.items():
        data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        place = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape)}
        header[name] = {**place, "data_offsets": [end, end + len(data)]}
        parts.append(data)
        end += len(data)
    payload = b"".join(parts)
    body = {**header, "__metadata__": {"notes": json.dumps(notes, sort_keys=True)}}
    body["__metadata__"]["sha256"] = _digest(_dumped(body) + payload)
    text = json.dumps(body).encode()
    text += b" " * (-len(text) % 8)
    write_whole(path, len(text).to_bytes(8, "little") + text + payload)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and notes of `write_tensors`, and verify their checksum."""
    data = _content(path)
    try:
        start = 8 + int.from_bytes(data[:8], "little")
        body = json.loads(data[8:start])
        checksum = body["__metadata__"].pop("sha256")
        notes = json.loads(body["__metadata__"]["notes"])
        found = _digest(_dumped(body) + data[start:])
    except (*_MALFORMED, AttributeError) as failure:
        raise damaged(path, "it cannot be read") from failure
    if checksum != found:
        raise damaged(path, "its checksum is wrong")
    try:
        places = {name: place for name, place in body.items() if name != "__metadata__"}
        tensors = {name: _tensor(place, data, start) for name, place in places.items()}
    except (*_MALFORMED, RuntimeError) as failure:
        raise damaged(path, "a tensor has no valid shape, type or place") from failure
    if not isinstance(notes, dict):
        raise damaged(path, "its notes are not an object")
    return tensors, notes


def parse_tensors(data: bytes) -> dict[str, Tensor]:
    """The tensors of any safetensors file; a ValueError says that it is none."""
    start = 8 + int.from_bytes(data[:8], "little")
    try:
        body = json.loads(data[8:start])
        places = {name: place for name, place in body.items() if name != "__metadata__"}
        return {name: _tensor(place, data, start) for name, place in places.items()}
    except (*_MALFORMED, RuntimeError, AttributeError) as failure:
        raise ValueError("it is not a safetensors file") from failure


def is_storable(dtype: torch.dtype) -> bool:
    """Whether `write_tensors` knows this number format."""
    return dtype in _NAMES


def _content(path: Path) -> bytes:
    try:
        return read_file(path)
    except FileNotFoundError as failure:
        raise damaged(path, "it is missing") from failure
    except ValueError as failure:
        raise damaged(path, str(failure)) from failure


def is_whole(value: object, least: int = 0) -> TypeGuard[int]:
    """Whether a value from a file is a whole number of at least `least` that fits into 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def is_finite(value: object, least: float = -math.inf, most: float = math.inf) -> TypeGuard[float]:
    """Whether a value from a file is a finite number between two limits."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return least <= value <= most and abs(value) < _LARGEST


def damaged(path: Path, how: str) -> DamagedError:
    """The error for a file that was changed or cut short after it was written."""
    return DamagedError(
        f"{path} is damaged: {how}. Restore it from a copy, or delete the folder {path.parent} to train that chain "
        "again from the start; other chains are not affected."
    )


def _tensor(place: dict[str, Any], data: bytes, start: int) -> Tensor:
    first, last = place["data_offsets"]
    dtype, shape = _DTYPES[place["dtype"]], place["shape"]
    if not (isinstance(shape, list) and all(map(is_whole, [*shape, first, last]))):
        raise ValueError("not whole numbers")
    if last - first != math.prod(shape) * dtype.itemsize or last > len(data) - start:
        raise ValueError("a number of bytes that does not match the shape")
    if first == last:
        return torch.zeros(shape, dtype=dtype)
    raw = torch.frombuffer(bytearray(data[start + first : start + last]), dtype=torch.uint8)
    if dtype == torch.bool and int(raw.max()) > 1:
        raise ValueError("neither true nor false")
    return raw.view(dtype).reshape(shape)


def _dumped(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
