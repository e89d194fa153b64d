"""Read the pickles that CIFAR is published as, without Python's unpickler.

A pickle is a program, and Python's unpickler runs it. Here `pickletools` only lists its instructions, and a few
of them are carried out: those that make numbers, texts, lists, tuples, dictionaries and NumPy arrays of whole
numbers. No instruction can call anything or take more memory than a small multiple of the file.
"""

import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from prunecast.errors import PrunecastError

WHOLE_NUMBERS = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")
BYTE_ORDERS = ("|", "<", ">", "=")


class NotAdmittedError(Exception):
    """A pickle contains something that no dataset needs."""


def unpickle(file: IO[bytes], place: Path) -> Any:
    """Return what a pickle of arrays and plain containers holds; old byte strings stay bytes."""
    try:
        return _finished(_Machine().run(file.read()))
    except Exception as broken:  # a damaged pickle can raise nearly anything
        reason = str(broken) or type(broken).__name__
        raise PrunecastError(
            f"{place} is not a readable dataset pickle ({reason}); download it again."
        ) from broken


class _Type:
    """What a pickle calls `numpy.dtype`: made from a code such as u1, then given its byte order."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else code
        self.order = "="
        if self.code not in WHOLE_NUMBERS:
            raise NotAdmittedError(f"an array of type {code!r} is not allowed")

    def build(self, state: Any) -> None:
        _version, order, *fields = state[:5]
        self.order = order.decode("latin1") if isinstance(order, bytes) else order
        if self.order not in BYTE_ORDERS or any(field is not None for field in fields):
            raise NotAdmittedError("an array of records is not allowed")


class _Array:
    """What a pickle calls `_reconstruct`: an array that gets its shape, type and bytes afterwards."""

    def __init__(self, *_: Any) -> None:
        self.values: np.ndarray[Any, Any] | None = None

    def build(self, state: Any) -> None:
        _version, shape, kind, fortran, raw = state
        if not isinstance(kind, _Type) or not isinstance(raw, bytes) or not _is_shape(shape):
            raise NotAdmittedError("an array that is not a block of numbers is not allowed")
        numbers = np.frombuffer(raw, np.dtype(kind.order + kind.code))
        self.values = numbers.reshape(shape, order="F" if fortran else "C")


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, tuple) and all(type(side) is int and side >= 0 for side in shape)


def _latin_bytes(text: Any, encoding: Any) -> bytes:
    """Stands for `_codecs.encode`: in old protocols Python 3 writes bytes as a call of it, always with latin1."""
    if encoding != "latin1" or not isinstance(text, str):
        raise NotAdmittedError(f"the encoding {encoding!r} is not allowed")
    return text.encode("latin1")


def _array_class(*_: Any) -> None:
    raise NotAdmittedError("numpy.ndarray is named, but may not be called; it is not allowed")


ADMITTED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _array_class,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _latin_bytes,
}
OLD_STRINGS = ("STRING", "BINSTRING", "SHORT_BINSTRING")
LITERALS = (
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
)
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
SMALL_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Machine:
    """The stack and the memo of a pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        """Carry out the instructions and return the value that is left."""
        for instruction, argument, _ in pickletools.genops(data):
            self._step(instruction.name, argument)
        return self.stack.pop()

    def _step(self, name: str, argument: Any) -> None:
        stack = self.stack
        match name:
            case "PROTO" | "FRAME" | "STOP":
                pass
            case "MARK":
                self.marks.append(len(stack))
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_DICT":
                stack.append({})
            case "LIST":
                stack.append(self._marked())
            case "TUPLE":
                stack.append(tuple(self._marked()))
            case "DICT":
                items = self._marked()
                stack.append({})
                self._set(items)
            case "APPEND":
                self._extend([stack.pop()])
            case "APPENDS":
                self._extend(self._marked())
            case "SETITEM":
                self._set(self._taken(2))
            case "SETITEMS":
                self._set(self._marked())
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = stack[-1]
            case "MEMOIZE":
                self.memo[len(self.memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(self.memo[argument])
            case "GLOBAL":
                module, _, function = argument.partition(" ")
                stack.append(_admitted(module, function))
            case "STACK_GLOBAL":
                stack.append(_admitted(*self._taken(2)))
            case "REDUCE":
                self._call(*self._taken(2))
            case "BUILD":
                self._build(stack.pop())
            case _:
                self._literal(name, argument)

    def _literal(self, name: str, argument: Any) -> None:
        if name in LITERALS:
            self.stack.append(argument)
        elif name in OLD_STRINGS:
            self.stack.append(argument.encode("latin1"))
        elif name in CONSTANTS:
            self.stack.append(CONSTANTS[name])
        elif name in SMALL_TUPLES:
            self.stack.append(tuple(self._taken(SMALL_TUPLES[name])))
        else:
            raise NotAdmittedError(f"the instruction {name} is not allowed")

    def _taken(self, count: int) -> list[Any]:
        """Take so many values off the stack."""
        if len(self.stack) < count:
            raise IndexError("it takes more values than there are")
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    def _marked(self) -> list[Any]:
        """Take the values above the last mark off the stack."""
        mark = self.marks.pop()
        taken = self.stack[mark:]
        del self.stack[mark:]
        return taken

    def _extend(self, values: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise NotAdmittedError("values are appended to something that is not a list; this is not allowed")
        self.stack[-1].extend(values)

    def _set(self, items: list[Any]) -> None:
        keys, target = items[::2], self.stack[-1]
        if not isinstance(target, dict) or not all(isinstance(key, str | bytes) for key in keys):
            raise NotAdmittedError("a dictionary whose keys are not text is not allowed")
        target.update(zip(keys, items[1::2], strict=True))

    def _call(self, function: Any, arguments: Any) -> None:
        if function not in ADMITTED.values() or not isinstance(arguments, tuple):
            raise NotAdmittedError("a call of something that is not a function is not allowed")
        self.stack.append(function(*arguments))

    def _build(self, state: Any) -> None:
        if not isinstance(self.stack[-1], _Type | _Array):
            raise NotAdmittedError("an object with a state of its own is not allowed")
        self.stack[-1].build(state)


def _admitted(module: Any, name: Any) -> Callable[..., Any]:
    if not isinstance(module, str) or (module, name) not in ADMITTED:
        named = f"{module}.{name}".encode("ascii", "backslashreplace").decode()
        raise NotAdmittedError(f"{named} is not allowed")
    return ADMITTED[module, name]


def _finished(value: Any) -> Any:
    """Return a value with the arrays that a dictionary holds in place of their descriptions."""
    if isinstance(value, dict):
        return {key: item.values if isinstance(item, _Array) else item for key, item in value.items()}
    return value.values if isinstance(value, _Array) else value
