"""Numbers as people write them."""

from fractions import Fraction


def number(text: str) -> float:
    """A number, or a fraction such as 1/16, as widths are usually written; a ValueError where it is neither."""
    try:
        return float(Fraction(text.strip())) if "/" in text else float(text)
    except (ZeroDivisionError, OverflowError):
        raise ValueError(f"{text} is not a number") from None
