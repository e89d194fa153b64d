"""The right word for what a law predicts: sentences speak of errors, and are turned where it is another quantity."""

import re
from collections.abc import Callable

VALIDATION = "validation_error"

Speak = Callable[[str], str]
WORD = re.compile(
    r"(?<![\w./=-])(?<!validation )(?<!column )(test )?(error)(s?)(?![\w/=-]|\.\w)", re.IGNORECASE
)
"""The word in a sentence, not the part of an option's or a file's name, nor the name of a column."""
WORDS = {"loss": ("loss", "losses"), VALIDATION: ("validation error", "validation errors")}


def speaker(quantity: str) -> Speak:
    """How to say a sentence about errors where they are losses or validation errors."""
    if quantity not in WORDS:
        return str
    one, several = WORDS[quantity]

    def turned(found: re.Match[str]) -> str:
        kind = "test " if found[1] and quantity == "loss" else ""
        word = kind + (several if found[3] else one)
        return word[:1].upper() + word[1:] if found[0][0].isupper() else word

    return lambda text: WORD.sub(turned, text)
