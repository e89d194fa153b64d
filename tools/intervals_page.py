"""What a fit and an answer say about themselves, for docs/explanation/intervals.md.

`python tools/intervals_page.py` prints the parts of the page; `--renew` writes them into it.
"""

from page_parts import DOCS, command

import prunecast

PAGE, SCRIPT = DOCS / "explanation" / "intervals.md", "tools/intervals_page.py"
TABLE, TARGET = "cifar10-resnet", 0.12


def sections() -> dict[str, str]:
    """Every generated part of the page by name."""
    law = prunecast.fit(TABLE)
    answer = prunecast.choose(law, target_error=TARGET)
    first = str(answer.summary()).partition("\n\n")[0]
    return {"answer": block(first), "fit": block(str(law.summary()))}


def block(text: str) -> str:
    """Text as it is printed."""
    return f"```text\n{text.rstrip()}\n```"


if __name__ == "__main__":
    command(PAGE, SCRIPT, sections())
