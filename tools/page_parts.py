"""Parts of pages that scripts make: between `<!-- made by SCRIPT: NAME -->` and `<!-- end -->`."""

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from prunecast.laws import Deviation

DOCS = Path(__file__).parents[1] / "docs"


def renewed(page: str, script: str, made: dict[str, str]) -> str:
    """The page with the parts that a script makes replaced."""
    for name, text in made.items():
        pattern = re.compile(rf"(<!-- made by {script}: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(page):
            raise SystemExit(f"the page has no part {name!r} made by {script}")
        page = pattern.sub(lambda found, text=text: found[1] + text + "\n" + found[2], page)  # type: ignore[misc]
    return page


def command(page: Path, script: str, made: dict[str, str]) -> None:
    """Write a page's parts anew where `--renew` was given, else print them."""
    if "--renew" in sys.argv[1:]:
        renew(page, script, made)
    else:
        print("\n\n".join(f"{name}\n{text}" for name, text in made.items()))


def renew(path: Path, script: str, made: dict[str, str]) -> None:
    """Write a page's parts anew."""
    path.write_text(renewed(path.read_text(encoding="utf-8"), script, made), encoding="utf-8")


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown, with a true minus sign in front of negative numbers."""
    lines = (" ".join([*(f"| {cell}".rstrip() for cell in cells), "|"]) for cells in (header, *rows))
    first, *others = (line.replace("| -", "| −") for line in lines)
    return "\n".join([first, "|---" * len(header) + "|", *others])


def deviation(own: Deviation) -> str:
    """Mean and standard deviation in percent."""
    return f"{100 * own.mean:+.1f} ± {100 * own.std:.1f}%".replace("-", "−")
