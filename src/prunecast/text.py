"""Small helpers for text: counts, durations, lists, typed numbers, misspelt names."""

import itertools
import math
import re
from collections.abc import Iterable
from difflib import get_close_matches
from fractions import Fraction

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ud800-\udfff]"
)


_COUNT = re.compile(r"(\d+(?:\.\d+)?)\s?([kmb])(?![a-z0-9])", re.IGNORECASE)
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9}
_PERCENT = re.compile(r"[\s_]*(?:\bin\s+)?[(\[]?(?:%|percent|pct)[)\]]?\s*$", re.IGNORECASE)
_AVERAGE = re.compile(r"^(?:mean|average|avg)[\s_]+|[\s_]*[\s_(\[](?:mean|average|avg)[)\]]?$", re.IGNORECASE)
_SPREAD = re.compile(
    r"_?(?:±|\\pm\b|\+/?-(?=[\s.\d]))|(?<=[\d%])\s*(?:\([^()]*\d[^()]*\)|\[[^\[\]]*\d[^\[\]]*\])%?$"
)
"""What stands between a value and its spread: 93.4 ± 0.2, 93.4 \\pm 0.2, 93.4 +/- 0.2 or 93.4 (0.2)."""
_MARKUP = re.compile(r"\\(?:text|math)(?:bf|it|rm)\b|\\(?:underline|emph)\b|[${}]|\*\*|\\(?=%)")
"""What LaTeX and Markdown write around a number."""
_UNIT = re.compile(r"([\d.]+)\s*(?:([kmb])|[x×])", re.IGNORECASE)
"""A count such as 125M, or a ratio such as 10x."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_WORD = re.compile(r"[a-z][a-z0-9]*")
_SEPARATOR_LINE = re.compile(rb"\A\"?sep=[,;\t]\"?(?=\n)", re.IGNORECASE)
_CUTOFF = re.compile(r"@?\d[\d:._-]*$")
_DECIMAL_COMMA, _DECIMAL_POINT = (
    re.compile(rb'(?:^|[;\t\n])[ "]*[+-]?\d*' + mark + rb'\d+[ "]*(?:$|[;\t\n])') for mark in (b",", rb"\.")
)


def printable(text: str) -> str:
    """Text with control characters, invisible characters and invalid Unicode escaped, such as \\u001b."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def plural(amount: int, word: str, one: str = "", many: str = "") -> str:
    """3 rows, 1 row; with "is" and "are": 1 row is, 3 rows are."""
    verb = one if amount == 1 else many
    return f"{amount:,} {word}{'s' * (amount != 1)}" + (f" {verb}" if verb else "")


def capital(text: str) -> str:
    """The text with a capital first letter; a word that has capitals, such as mAP, stays as it is."""
    first = text.partition(" ")[0]
    return text if first != first.lower() else text[:1].upper() + text[1:]


def duration(seconds: float) -> str:
    """A time in the largest unit that fits and the next smaller one: 1 h 30 min."""
    units = ((365 * 86400, "y"), (86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    for (size, unit), (smaller, name) in itertools.pairwise(units):
        if seconds >= size:
            whole, rest = divmod(round(seconds / smaller), size // smaller)
            return f"{whole} {unit} {rest} {name}" if rest else f"{whole} {unit}"
    return f"{seconds:.0f} s"


def listed(items: Iterable[object], last: str = "and") -> str:
    """Several things in a sentence: "a", "a and b", "a, b and c"."""
    words = [str(item) for item in items]
    return f" {last} ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most similar to a misspelt one; None if none is similar."""
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=0.66)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question for the end of a message about a misspelt name; empty if no known name is like it."""
    near = nearest(name, known)
    return "" if near is None else f" Did you mean {near}?"


def normalized(name: str) -> str:
    """A name in lower case without spaces (also zero-width ones), hyphens, underscores and dots, for comparison."""
    return re.sub(r"[\s\-_.\u00ad\u200b-\u200d\u2060\ufeff]+", "", name).casefold()


def count_in(name: str) -> float | None:
    """The number in thousands, millions or billions in a name, such as the 1.4b of pythia-1.4b; None without one."""
    found = _COUNT.search(name)
    return None if found is None else float(found[1]) * _UNITS[found[2].lower()]


def without_percent(name: str) -> tuple[str, bool]:
    """A name without the unit at its end, as in "error (%)" or sparsity_pct, and whether there was one."""
    plain = _PERCENT.sub("", name)
    return plain, plain != name


def without_average(name: str) -> str:
    """A name without the word that says that its values are means, as in acc_mean."""
    return _AVERAGE.sub("", name.strip())


def without_cutoff(name: str) -> str:
    """The name of a score without its final number, as in mAP50, recall@5 or F1@0.5; empty if there is none."""
    plain = _CUTOFF.sub("", name.strip())
    return plain if plain != name.strip() else ""


def decimal_commas(text: bytes) -> bool:
    """Whether some cells between semicolons or tabs have decimal commas, and none has a decimal point."""
    return bool(_DECIMAL_COMMA.search(text)) and not _DECIMAL_POINT.search(text)


def parse_number(text: str) -> float:
    """A decimal number, a fraction such as 1/16 or a percentage such as 12%; anything else is a ValueError."""
    percent = text.strip().endswith("%")
    number = text.strip().removesuffix("%").strip()
    try:
        value = float(Fraction(number)) if "/" in number else float(number)
        if percent and 0 < abs(value) < math.inf:  # as a Fraction, others may have billions of digits
            return float(Fraction(number) / 100)
        return value
    except (ZeroDivisionError, OverflowError):
        raise ValueError(f"{text} is not a number") from None


def cell_number(cell: str) -> float:
    """A cell of a printed table as a number: 93.4 ± 0.2, 50\\%, 125M or 10x; anything else is a ValueError."""
    value, spread = split_spread(cell)
    unit = _UNIT.fullmatch(value)
    if unit is not None:
        return float(unit[1]) * _UNITS[(unit[2] or "").lower()]
    if "_" in value:
        raise ValueError(f"{cell} is a name")
    return parse_number(f"{value}%" if spread.endswith("%") and not value.endswith("%") else value)


def split_spread(cell: str) -> tuple[str, str]:
    """A cell without markup: the value before its spread, and the spread."""
    plain = _MARKUP.sub("", cell)
    found = _SPREAD.search(plain)
    return (plain[: found.start()].strip(), plain[found.start() :].strip()) if found else (plain.strip(), "")


def without_number(name: str) -> tuple[str, float] | None:
    """A name with 0 for the only number in it, and that number; None if it has none or several."""
    found = _NUMBER.findall(name)
    return (_NUMBER.sub("0", name), float(found[0])) if len(found) == 1 else None


def name_words(name: str) -> list[str]:
    """The words in a name, in lower case: f1 and score in F1-score (%)."""
    return _WORD.findall(name.casefold())


def without_separator_line(text: bytes) -> bytes:
    """A table without the line sep=; by which Excel names the separator."""
    return _SEPARATOR_LINE.sub(b"", text)


def plain_count(text: str, digits: int = 6) -> int | None:
    """A whole number of at most `digits` ASCII digits without leading zeros; None for other text."""
    if not (text.isascii() and text.isdecimal() and len(text) <= digits):
        return None
    return int(text) if str(int(text)) == text else None
