"""The name that was probably meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is close enough to a misspelt one to be meant by it, if there is one."""
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=0.66)), None)
