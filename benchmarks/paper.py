"""The tables of docs/paper.md, computed from the shipped tables by the package's own functions.

`python benchmarks/paper.py` prints them; `--renew` writes them into the page, after a table was added or has grown.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from prunecast import tables
from prunecast.studies.lowest import Lowest, lowest_errors
from prunecast.studies.paper import Beside, Figure, Value, beside, claims
from prunecast.studies.published import CurvePoint, curve_beside
from prunecast.table import Table, read

PAGE = Path(__file__).parents[1] / "docs" / "paper.md"
MARKED = r"(<!-- made by benchmarks/paper.py: {} -->\n).*?(<!-- end -->)"
NAMES = {
    "alone": "each configuration alone (Eq. 1), μ, σ",
    "joint": "all jointly, μ, σ",
    "whole": "jointly, the largest dataset only, μ, σ",
    "noise": "noise of one training, σ",
    "extrapolation": "extrapolation, μ, σ",
    "smallest": "smallest network for an error, largest miss",
    "within": "errors at which it is within 25%",
}


def main() -> None:
    made = sections()
    if "--renew" in sys.argv[1:]:
        PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")
    else:
        print("\n\n".join(f"{name}\n{text}" for name, text in made.items()))


def sections() -> dict[str, str]:
    """Every generated part of the page by name; of each recipe the fullest table."""
    shipped = [(pair, read(name)) for pair in tables.pairs() for name in tables.recipes(pair).values()]
    besides = [beside(table, pair) for pair, table in shipped if pair in claims()]
    curves = [(table, curve_beside(table)) for pair, table in shipped if pair == "cifar10-resnet"]
    known = [own for own in curves if any(point.here is not None for point in own[1])]
    return {
        "tables": shipped_lines(shipped),
        "figures": "\n\n".join(figure_lines(one) for one in besides),
        "dip": dip_lines(),
        "curve": "\n\n".join(curve_lines(table, points) for table, points in known),
    }


def renewed(page: str, made: dict[str, str]) -> str:
    """The page with its generated parts replaced."""
    for name, text in made.items():
        pattern = re.compile(MARKED.format(name), re.DOTALL)
        if not pattern.search(page):
            raise SystemExit(f"docs/paper.md has no part {name!r}")
        page = pattern.sub(lambda found, text=text: found[1] + text + "\n" + found[2], page)  # type: ignore[misc]
    return page


def shipped_lines(shipped: Sequence[tuple[str, Table]]) -> str:
    """What was measured, a line a table."""
    lines = ["| pair | table | recipe | rows | chains | device | date |", "|---|---|---|---|---|---|---|"]
    for pair, table in shipped:
        page = tables.provenance(table.source)
        chains = page.get("chains", page["configurations"])
        known = [str(page.get(key, "–")) for key in ("device", "date")]
        cells = [pair, f"`{table.source}`", f"`{table.recipe}`", f"{len(table):,}", str(chains), *known]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def figure_lines(one: Beside) -> str:
    """A table beside the paper."""
    about = f"{one.rows:,} usable rows of {one.configurations} configurations"
    head = [
        f"**{one.pair}**, `{one.table}` ({about}):",
        "",
        "| | the paper | here, Eq. 2 | here, `dip` |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *(_line(figure) for figure in one.figures)])


def _line(figure: Figure) -> str:
    remark = f" ({figure.remark})" if figure.remark else ""
    below = "< " if figure.paper and figure.name not in ("noise", "within") else ""
    cells = [
        NAMES[figure.name] + remark,
        f"{below}{_bound(figure.paper)}",
        _shown(figure.eq2),
        _shown(figure.dip),
    ]
    return f"| {' | '.join(cells)} |"


def _bound(value: Value | None) -> str:
    if value is None:
        return "–"
    parts = [part for part in (value.mean, value.std) if part is not None]
    return ", < ".join(f"{100 * part:g}%" for part in parts)


def _shown(value: Value | None) -> str:
    if value is None:
        return "–"
    if value.mean is None:
        return f"{100 * (value.std or 0):.1f}%"
    return f"{100 * value.mean:+.1f}, {100 * (value.std or 0):.1f}%".replace("-", "−")


def dip_lines() -> str:
    """How far errors fall below the unpruned one, ResNet-20 at two widths, by recipe and method."""
    grown = {name for pair in tables.pairs() for name in tables.recipes(pair).values()}
    controls = {name for name in tables.names() if "pair" not in tables.provenance(name)}
    shipped = [read(name) for name in sorted(grown | controls)]
    found = [(table, own) for table in shipped for own in lowest_errors(table) if shown(table, own)]
    found.sort(key=lambda pair: (-pair[1].width, -pair[1].num_examples, pair[0].recipe, pair[0].method))
    head = [
        "| width | examples | recipe | method | unpruned error | lowest after it | at level | fall |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines = [
        f"| {own.width:g} | {own.num_examples:,.0f} | `{table.recipe}` | `{table.method}` | {own.unpruned:.3f} "
        f"| {own.lowest:.3f} | {own.level} of {own.levels} | {100 * (1 - own.lowest / own.unpruned):.0f}% |"
        for table, own in found
    ]
    return "\n".join([*head, *lines]).replace("| -", "| −")


def shown(table: Table, own: Lowest) -> bool:
    """Which configurations are compared: those of the control without pruning."""
    same = (table.family, table.dataset) == ("cifar_resnet", "cifar10")
    return same and own.depth == 20 and own.width in (1, 0.25)


def curve_lines(table: Table, points: Sequence[CurvePoint]) -> str:
    """The published curve beside a table's, level by level as far as it goes."""
    head = [
        f"`{table.source}` (recipe `{table.recipe}`):",
        "",
        "| level | density | published error | how it reads | error here | published ε/ε_np | here ε/ε_np |",
        "|---|---|---|---|---|---|---|",
    ]
    lines = [
        f"| {point.level} | {point.density:.4g} | {point.published:.3f} | {point.visibility} | {point.here:.3f} "
        f"| {point.published_rise:.2f} | {point.here_rise:.2f} |"
        for point in points
        if point.here is not None and point.here_rise is not None
    ]
    return "\n".join([*head, *lines])


if __name__ == "__main__":
    main()
