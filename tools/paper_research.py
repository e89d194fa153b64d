"""The tables of docs/research/paper.md, computed by `published.py` from the shipped and the research tables.

`python tools/paper_research.py` prints them; `--renew` writes them into the page, after a table was added or has grown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import research_tables
from page_parts import DOCS, command
from page_parts import table as markdown
from published import (
    Comparison,
    CurvePoint,
    Figure,
    Lowest,
    Value,
    claims,
    compare_curve,
    compare_with_paper,
    lowest_errors,
    mean_errors,
)

from prunecast import tables
from prunecast.table import Table, read

PAGE, SCRIPT = DOCS / "research" / "paper.md", "tools/paper_research.py"
EARLIER = {"cifar10-resnet": ("cifar10-resnet20-24ep", "cifar10-resnet20-steps", "cifar10-resnet-160ep")}
"""Research tables of a pair that are compared like shipped ones."""
CONTROLLED = (50_000, 12_500, 3_125)
"""Dataset sizes that have controls."""
AXES = {"depth": "depth", "width": "width", "examples": "num_examples"}
NAMES = {
    "selected": "joint fit without networks too large for their data, μ, σ",
    "whole": "joint fit to the largest dataset only, μ, σ",
    "extrapolation": "extrapolation, μ, σ",
    "smallest": "smallest network for an error, largest miss",
    "within": "errors at which it is within 25%",
}


def sections() -> dict[str, str]:
    """Every generated part of the page by name."""
    shipped = [(pair, measured(name)) for pair in tables.pairs() for name in compared_tables(pair)]
    compared = [compare_with_paper(table, pair) for pair, table in shipped if pair in claims()]
    curves = {table.source: compare_curve(table) for pair, table in shipped if pair == "cifar10-resnet"}
    known = {name: own for name, own in curves.items() if any(point.here is not None for point in own)}
    return {
        "tables": shipped_lines(shipped),
        "fits": fit_lines(compared),
        "further figures": figure_lines(compared),
        "dip": dip_lines(),
        "training on": training_on_lines(),
        "curve": curve_lines(known),
    }


def compared_tables(pair: str) -> list[str]:
    """Of each recipe the table that the pair means, then the earlier ones."""
    return [*tables.recipes(pair).values(), *EARLIER.get(pair, ())]


def measured(name: str) -> Table:
    """A shipped table or a research table, by its name."""
    return read(name) if tables.known(name) else replace(read(research_tables.path(name)), source=name)


def provenance(name: str) -> dict[str, object]:
    """Where a shipped table or a research table comes from."""
    return tables.provenance(name) if tables.known(name) else research_tables.provenance(name)


def shipped_lines(shipped: Sequence[tuple[str, Table]]) -> str:
    """What was measured, one line per table, then what research tables lack; `prunecast tables` shows it of others."""
    head = ("pair", "table", "recipe", "rows", "chains", *AXES, "replicates", "levels", "device", "date")
    rows = []
    for pair, table in shipped:
        page, frame = provenance(table.source), table.frame
        chains = page.get("chains", page["configurations"])
        sizes = [_range(frame[name].min(), frame[name].max()) for name in AXES.values()]
        last = frame.groupby([*AXES.values(), "replicate"])["level"].max()
        known = [str(page.get(key, "–")) for key in ("device", "date")]
        counts = [f"{len(table):,}", chains, *sizes, page["replicates"], _range(last.min(), last.max())]
        rows.append([pair, f"`{table.source}`", f"`{table.recipe}`", *counts, *known])
    unshipped = ", ".join(f"`{name}`" for name in research_tables.names())
    where = f"These tables are in `benchmarks/tables`, not in the package: {unshipped}."
    cautions = [_caution(table) for _, table in shipped if not tables.known(table.source)]
    return "\n".join([markdown(head, rows), "", where, "", *cautions])


def _range(low: float, high: float) -> str:
    return f"{low:,g}" if low == high else f"{low:,g} to {high:,g}"


def _caution(table: Table) -> str:
    """What a table lacks, as its own page says."""
    return f"- `{table.source}`. {str(provenance(table.source)['caution']).rstrip('.')}."


def fit_lines(compared: Sequence[Comparison]) -> str:
    """The fits to every table and its noise, beside the paper's."""
    head = [
        "table",
        "rows, configurations",
        "the paper: joint fit",
        "Eq. 1, each alone",
        "Eq. 2, joint",
        "`dip`, joint",
    ]
    rows, unknown = [], Figure(name="unknown", paper=None, eq2=None, dip=None)
    for one in compared:
        known = {figure.name: figure for figure in one.figures}
        alone, joint, noise = (known.get(name, unknown) for name in ("alone", "joint", "noise"))
        fits = _shown(alone.eq2), _shown(joint.eq2), _shown(joint.dip)
        counts = f"{one.rows:,}, {one.configurations}"
        rows.append(
            [
                *(f"`{one.table}`", counts, _bound(joint.paper, below="< "), *fits),
                *(_bound(noise.paper), _shown(noise.eq2)),
            ]
        )
    return markdown([*head, "noise, the paper", "noise, here"], rows)


def figure_lines(compared: Sequence[Comparison]) -> str:
    """The other figures of every table that has them, beside the paper's."""
    rows = [
        [f"`{one.table}`", *_cells(figure)]
        for one in compared
        for figure in one.figures
        if figure.name in NAMES
    ]
    return markdown(["table", "figure", "the paper", "here, Eq. 2", "here, `dip`"], rows)


def _cells(figure: Figure) -> list[str]:
    remark = f" ({figure.remark})" if figure.remark else ""
    published = _bound(figure.paper, below="" if figure.name == "within" else "< ")
    return [NAMES[figure.name] + remark, published, _shown(figure.eq2), _shown(figure.dip)]


def _bound(value: Value | None, below: str = "") -> str:
    if value is None:
        return "–"
    parts = [part for part in (value.mean, value.std) if part is not None]
    return ", ".join(f"{below}{100 * part:g}%" for part in parts)


def _shown(value: Value | None) -> str:
    if value is None:
        return "–"
    if value.mean is None:
        return f"{100 * (value.std or 0):.1f}%"
    return f"{100 * value.mean:+.1f}, {100 * (value.std or 0):.1f}%".replace("-", "−")


def dip_lines() -> str:
    """How far errors fall below the unpruned one, ResNet-20 at two widths, by recipe and method."""
    grown = {name for pair in tables.pairs() for name in compared_tables(pair)}
    controls = {name for name in research_tables.names() if "pair" not in research_tables.provenance(name)}
    shipped = [measured(name) for name in sorted(grown | controls)]
    found = [(table, own) for table in shipped for own in lowest_errors(table) if shown(table, own)]
    found.sort(key=lambda pair: (-pair[1].width, -pair[1].num_examples, pair[0].source))
    rows = [
        [
            *(f"{own.width:g}", f"{own.num_examples:,.0f}", f"`{table.source}`", f"`{table.method}`"),
            *(f"{own.unpruned:.3f}", f"{own.lowest:.3f}", f"{own.level} of {own.levels}"),
            f"{100 * (1 - own.lowest / own.unpruned):.0f}%",
        ]
        for table, own in found
    ]
    head = ["width", "examples", "table", "method", "unpruned error", "lowest after it", "at level", "fall"]
    return markdown(head, rows)


def training_on_lines() -> str:
    """How far training on without pruning gets, beside pruning and beside one long training."""
    control = mean_errors(measured("cifar10-resnet20-24ep-none-rate-rewinding"))
    pruned = {
        (own.depth, own.width, own.num_examples): own for own in lowest_errors(read("cifar10-resnet-24ep"))
    }
    whole = mean_errors(measured("cifar10-resnet-160ep"))
    last = max(level for levels in control.values() for level in levels)
    rows = []
    for sizes, levels in sorted(control.items(), key=lambda one: [-size for size in one[0]]):
        errors = levels[0], pruned[sizes].lowest, levels[last], whole[sizes][0]
        rows.append([f"{sizes[1]:g}", f"{sizes[2]:,.0f}", *(f"{error:.3f}" for error in errors)])
    trained = f"after {last} levels of training on"
    head = [
        "width",
        "examples",
        "unpruned, 24 epochs",
        "lowest by `imp`",
        trained,
        "unpruned after 160 epochs",
    ]
    return markdown(head, rows)


def shown(table: Table, own: Lowest) -> bool:
    """Which configurations are compared: those of the control without pruning."""
    same = (table.family, table.dataset) == ("cifar_resnet", "cifar10")
    return same and own.depth == 20 and own.width in (1, 0.25) and own.num_examples in CONTROLLED


def curve_lines(curves: Mapping[str, Sequence[CurvePoint]]) -> str:
    """The published curve beside those of the tables, level by level as far as they go."""
    head = ["level", "density", "published", "how it reads", *(f"`{name}`" for name in curves)]
    rows = []
    for own in zip(*curves.values(), strict=True):
        here = ["–" if point.here is None else f"{point.here:.3f}" for point in own]
        if any(cell != "–" for cell in here):
            level, density, published = own[0].level, f"{own[0].density:.3g}", f"{own[0].published:.3f}"
            rows.append([level, density, published, own[0].visibility, *here])
    return markdown(head, rows)


if __name__ == "__main__":
    command(PAGE, SCRIPT, sections())
