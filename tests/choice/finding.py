"""Findings of an answer by their type."""

from typing import TypeVar

from prunecast.choice import Choice
from prunecast.findings import Finding

F = TypeVar("F", bound=Finding)


def find(choice: Choice, kind: type[F]) -> list[F]:
    """The findings of one type."""
    return [finding for finding in choice.findings if isinstance(finding, kind)]
