"""Numbers and networks as people write them, with a true minus sign."""

import math
from collections.abc import Sequence
from fractions import Fraction

from prunecast.laws import Deviation
from prunecast.text import plural as plural

LARGEST_DENOMINATOR = 64
LAWS = {"eq1": "Eq. 1", "eq2": "Eq. 2", "dip": "the law that follows the dip"}
SHORT_LAWS = {**LAWS, "dip": "the dip law"}


def size(value: float) -> str:
    """A width or depth: 20, 1/16 for a power of two, else three digits."""
    fraction = Fraction(value).limit_denominator(LARGEST_DENOMINATOR)
    if value < 1 and fraction.numerator == 1 and math.isclose(float(fraction), value, rel_tol=1e-9):
        return f"1/{fraction.denominator}"
    return f"{value:.3g}" if value < 1000 else count(value)


def axis(name: str) -> str:
    """An axis of a family in words."""
    return name.replace("num_examples", "training examples")


def count(value: float) -> str:
    """A number of weights or examples, with thousands apart; four digits where it is no whole number."""
    return f"{value:,.0f}" if value >= 100 or float(value).is_integer() else f"{value:.4g}"


def error(value: float) -> str:
    """An error with three digits after the point, more where it is small."""
    return "–" if not math.isfinite(value) else f"{value:.3f}" if value >= 0.095 else f"{value:.2g}"


def density(value: float) -> str:
    """A density with three digits."""
    return f"{value:.3g}"


def percent(value: float | None, *, sign: bool = False, digits: int = 1) -> str:
    """A share in percent; a dash where there is no number."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:{'+' if sign else ''}.{digits}%}".replace("-", "−")


def number(value: float) -> str:
    """Three significant digits, never in powers of ten."""
    if not math.isfinite(value):
        return "–"
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}").replace("-", "−")


def signed(value: float) -> str:
    """Two digits after the point, with the sign; a dash where there is no number."""
    return f"{value:+.2f}".replace("-", "−") if math.isfinite(value) else "–"


def deviation(own: Deviation) -> str:
    """μ ± σ."""
    return (
        "too few" if not math.isfinite(own.mean) else f"{percent(own.mean, sign=True)} ± {percent(own.std)}"
    )


def sentence(text: str) -> str:
    """With a capital at the beginning."""
    return text[:1].upper() + text[1:]


def listed(items: Sequence[str]) -> str:
    """One, two and three."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else "nothing"
