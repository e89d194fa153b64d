"""Numbers and networks as the figures write them."""

from prunecast.text import listed, plural
from prunecast.wording.numbers import axis, count, density, deviation, error, number, percent, signed, size

__all__ = [
    "LAWS",
    "SHORT_LAWS",
    "axis",
    "count",
    "density",
    "deviation",
    "error",
    "listed",
    "number",
    "percent",
    "plural",
    "sentence",
    "signed",
    "size",
]
LAWS = {"eq1": "Eq. 1", "eq2": "Eq. 2", "dip": "the law that follows the dip"}
SHORT_LAWS = {**LAWS, "dip": "the dip law"}


def sentence(text: str) -> str:
    """With a capital at the beginning."""
    return text[:1].upper() + text[1:]
