"""Criteria, structures and schedules by name: the built-in ones, registered ones, and `package.module:attribute`."""

from collections.abc import Callable
from typing import Generic, TypeVar

from prunecast.errors import require_one_of
from prunecast.plugins import load_attribute, load_plugins
from prunecast.spec.methods import Part, add_method_name

T = TypeVar("T")


class Registry(Generic[T]):
    """Everything that a method may name in one of its fields."""

    def __init__(self, part: Part, kind: str, checked: Callable[[str, object], T]) -> None:
        """`kind` is the word in messages; `checked` turns an imported attribute into an entry, or refuses it."""
        self._part, self._kind, self._checked = part, kind, checked
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> T:
        """Register an entry; one of the same name is replaced."""
        self._entries[name] = entry
        add_method_name(self._part, name)
        return entry

    def get(self, name: str) -> T:
        """The entry of this name, or the one that `package.module:attribute` names."""
        if ":" in name:
            return self._checked(name, load_attribute(name, self._kind))
        if name not in self._entries:
            load_plugins()
        require_one_of(f"The {self._kind}", name, self._entries)
        return self._entries[name]
