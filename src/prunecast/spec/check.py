"""Checks of what a user writes into a spec; each message names the field and the remedy."""

import math
from collections.abc import Iterable

from prunecast.errors import PrunecastError


def require(condition: bool, message: str) -> None:
    """Raise the message as a user's mistake unless the condition holds."""
    if not condition:
        raise PrunecastError(message)


def require_one_of(place: str, value: object, valid: Iterable[str]) -> None:
    """Refuse a value that is not in the list, and show the list."""
    known = tuple(valid)
    require(value in known, f"{place} is {value!r}; choose one of {', '.join(known)}.")


def require_known_keys(place: str, given: Iterable[str], valid: Iterable[str]) -> None:
    """Refuse misspelt keys, and list the valid ones."""
    known = tuple(valid)
    unknown = [key for key in given if key not in known]
    if unknown:
        raise PrunecastError(
            f"{place} has the unknown key {', '.join(map(repr, unknown))}; valid keys are {', '.join(known)}."
        )


def require_number(place: str, value: object, *, whole: bool = False) -> None:
    """Refuse what is not a finite number, or not a whole one where only a whole one makes sense."""
    kind = "a whole number" if whole else "a number"
    good = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    require(good and math.isfinite(value), f"{place} is {value!r}; give {kind}.")  # type: ignore[arg-type]
