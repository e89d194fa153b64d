"""Numbers as people write them, the same on the terminal and on the page, with a true minus sign."""

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

LARGEST_DENOMINATOR = 64
MOST_DIGITS = 8
MOST_CERTAIN = 0.99
"""No estimated probability is shown as more certain than this."""
UNKNOWN = "–"
"""Shown if there is no number."""


class MeanAndStd(Protocol):
    """A mean and a standard deviation, as shares."""

    @property
    def mean(self) -> float:
        """μ."""
        ...

    @property
    def std(self) -> float:
        """σ."""
        ...


def _minus(text: str) -> str:
    return text.replace("-", "−")


@lru_cache(maxsize=1 << 12)  # a page repeats the same few for every row of its table
def size(value: float) -> str:
    """A width or a depth: 20, 1/16, or four significant digits."""
    fraction = Fraction(value).limit_denominator(LARGEST_DENOMINATOR)
    if value < 1 and fraction.numerator == 1 and math.isclose(float(fraction), value, rel_tol=1e-9):
        return f"1/{fraction.denominator}"
    return f"{value:.4g}" if value < 1000 else count(value)


def axis(name: str) -> str:
    """An axis of a family: depth, width or training examples."""
    return "training examples" if name == "num_examples" else name


def count(value: float) -> str:
    """A number of weights or examples, with commas between thousands; four digits if it is not whole."""
    return f"{value:,.0f}" if value >= 100 or float(value).is_integer() else f"{value:.4g}"


def error(value: float) -> str:
    """An error or a loss: four digits after the point, two significant digits where it is tiny, four from 10 on."""
    if not math.isfinite(value):
        return UNKNOWN
    if value >= 10:
        return f"{value:.4g}" if value < 1000 else count(round(value))
    return f"{value:.4f}" if value >= 0.001 else _plain(f"{value:.2g}")


def interval(ends: tuple[float, float]) -> str:
    """An interval of errors or losses, with the digits that its width is worth."""
    return " to ".join(estimate(end, ends) for end in ends)


def estimate(value: float, ends: tuple[float, float]) -> str:
    """An estimated error or loss with two digits of its interval's width: 0.193 in 0.175 to 0.214."""
    width = ends[1] - ends[0]
    if not (math.isfinite(width) and width > 0 and math.isfinite(value)):
        return error(value)
    digits = 1 - math.floor(math.log10(width))
    return f"{value:.{min(max(digits, 0), MOST_DIGITS)}f}"


def kept(value: float) -> str:
    """How many of its weights a network keeps at a density: 13% of its weights."""
    return f"{kept_share(value)} of its weights"


def kept_share(value: float) -> str:
    """A density in percent, never 100% if anything is pruned."""
    text = share(value)
    return f"{100 * value:.4g}%" if value < 1 and text == share(1.0) else text


def density(value: float) -> str:
    """A density with four significant digits."""
    return _plain(f"{value:.4g}")


def target(value: float, digits: int = 6) -> str:
    """A target error or loss as it was given, with this many significant digits at most."""
    return _plain(f"{value:.{digits}g}")


def percent(value: float | None, *, sign: bool = False, digits: int = 1) -> str:
    """A share in percent."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return _minus(f"{value:{'+' if sign else ''}z.{digits}%}")


def share(value: float) -> str:
    """A share in percent with at least two digits, however small it is."""
    return f"{value:.0%}" if value >= 0.0995 else f"{_plain(f'{100 * value:.2g}')}%"


def probability(value: float) -> str:
    """A probability in whole percent, never as certain or impossible."""
    return _probability(value, "more than ", "less than ")


def probability_cell(value: float) -> str:
    """The same as short as a cell of a table: 80%, >99%."""
    return _probability(value, ">", "<")


def _probability(value: float, above: str, below: str) -> str:
    if value > MOST_CERTAIN:
        return f"{above}{MOST_CERTAIN:.0%}"
    return f"{below}{1 - MOST_CERTAIN:.0%}" if value < 1 - MOST_CERTAIN else f"{value:.0%}"


def number(value: float | None) -> str:
    """Three significant digits, never in powers of ten."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return _minus(f"{value:,.0f}" if abs(value) >= 1000 else _plain(f"{value:.3g}"))


def parameter(value: float, ends: tuple[float, float]) -> str:
    """A parameter, or an end of its interval, with the two or three digits that the interval's width is worth."""
    width = ends[1] - ends[0]
    if not (math.isfinite(width) and width > 0 and math.isfinite(value) and value != 0):
        return number(value)
    size = math.floor(math.log10(abs(value)))
    digits = min(max(size - math.floor(math.log10(width)) + 2, 2), 3)
    rounded = float(f"{value:.{digits}g}")
    return number(rounded) if abs(rounded) >= 1000 else _minus(f"{rounded:.{max(digits - 1 - size, 0)}f}")


def _plain(text: str) -> str:
    """A number without its power of ten."""
    return format(Decimal(text), "f")


def signed(value: float) -> str:
    """Two digits after the point, with the sign."""
    return _minus(f"{value:+z.2f}") if math.isfinite(value) else UNKNOWN


def deviation(own: MeanAndStd) -> str:
    """μ ± σ in percent."""
    if not math.isfinite(own.mean):
        return "too few"
    return f"{percent(own.mean, sign=True)} ± {percent(own.std)}"
