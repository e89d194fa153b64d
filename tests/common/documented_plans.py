"""The plans that the page about extending shows."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "extend.md"


def documented_plan(word: str) -> str:
    """The one plan of the page in which this word occurs."""
    (plan,) = (
        text
        for text in re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
        if word in text
    )
    return plan
