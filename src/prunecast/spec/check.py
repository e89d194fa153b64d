"""Checks of what a user writes into a spec; each message names the field and the remedy."""

import math
from collections.abc import Iterable, Mapping

from prunecast.errors import PrunecastError


def require(condition: bool, message: str) -> None:
    """Raise the message as a user's mistake unless the condition holds."""
    if not condition:
        raise PrunecastError(message)


def require_one_of(place: str, value: object, valid: Iterable[str]) -> None:
    """Refuse a value that is not in the list, and show the list."""
    known = tuple(valid)
    require(value in known, f"{place} is {value!r}; choose one of {', '.join(known)}.")


def require_known_keys(place: str, given: object, valid: Iterable[str]) -> None:
    """Refuse what is no table, and misspelt keys in one; list the valid ones."""
    known = tuple(valid)
    if not isinstance(given, Mapping):
        raise PrunecastError(f"{place} is {given!r}; give a table, with keys of {', '.join(known)}.")
    unknown = [key for key in given if key not in known]
    if unknown:
        raise PrunecastError(
            f"{place} has the unknown key {', '.join(map(repr, unknown))}; valid keys are {', '.join(known)}."
        )


def require_text(place: str, value: object) -> None:
    """Refuse what is not a text."""
    require(isinstance(value, str), f"{place} is {value!r}; give a text in quotes.")


def require_flag(place: str, value: object) -> None:
    """Refuse what is neither true nor false, the word "no" for instance, which would count as true."""
    require(isinstance(value, bool), f"{place} is {value!r}; give true or false.")


def require_number(place: str, value: object, *, whole: bool = False) -> None:
    """Refuse what is not a finite number, or not a whole one where only a whole one makes sense."""
    kind = "a whole number" if whole else "a number"
    good = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    require(good and math.isfinite(value), f"{place} is {value!r}; give {kind}.")  # type: ignore[arg-type]
