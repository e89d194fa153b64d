"""What tables that grow say, for docs/research/studies.md: that of the short recipe, and that of the paper's.

`python tools/studies_page.py` prints the parts of the page; `--renew` writes them into it, after the table has grown.
"""

import pandas as pd
from page_parts import DOCS, command, deviation
from page_parts import table as markdown

from prunecast import tables
from prunecast.report import claims
from prunecast.studies import extrapolation, forms, invariance, noise, optimality, sensitivity
from prunecast.table import Table
from prunecast.text import listed as joined
from prunecast.wording import fitted_to, numbers

PAGE, SCRIPT = DOCS / "research" / "studies.md", "tools/studies_page.py"


def sections() -> dict[str, str]:
    """Every generated part of the page by name."""
    table, paper = tables.cifar10_resnet(recipe="cifar10-24ep-bf16"), tables.cifar10_resnet()
    return {
        "table": about(table),
        "extrapolation": extrapolation_lines(table),
        "contours": contour_lines(table),
        "noise": noise_lines(table),
        "the paper's recipe, sensitivity": sensitivity_lines(paper),
        "the paper's recipe, extrapolation": extrapolation_lines(paper),
        "the paper's recipe, contours": contour_lines(paper),
        "the paper's recipe, forms": form_lines(paper),
        "the paper's recipe, smallest networks": claim_lines(paper),
        "the paper's recipe, noise": noise_lines(paper),
    }


def about(table: Table) -> str:
    """The table's dimensions."""
    frame = table.frame
    sizes = [listed(frame, name) for name in ("depth", "width", "num_examples")]
    chains = frame.groupby(["depth", "width", "num_examples", "replicate"]).ngroups
    beyond = tables.informative_rows(table.source) / len(table)
    return (
        f"As it ships, `{table.source}` has {len(table):,} training runs of {chains} chains: {'; '.join(sizes)}; up to "
        f"{frame['replicate'].nunique()} replicates. {beyond:.0%} of its rows belong to chains that were pruned beyond "
        "their low plateau."
    )


def listed(frame: pd.DataFrame, name: str) -> str:
    """The sizes of an axis in words."""
    values = sorted(set(frame[name].tolist()))
    words = [f"{value:,.0f}" if name == "num_examples" else f"{value:g}" for value in values]
    several = joined(words)
    return f"{several} examples" if name == "num_examples" else f"{name}{'s' * (len(words) > 1)} {several}"


def sensitivity_lines(table: Table) -> str:
    """How many configurations and networks a fit needs, drawn and chosen."""
    close = "σ within one point of the full fit: random / by design"
    steady = "μ and σ vary by under one point: random / by design"
    rows = []
    for law in ("eq2", "dip"):
        study = sensitivity(table, law=law)
        counts = [
            f"{own['random_configurations']} / {own['designed_configurations']} configurations, "
            f"{own['random_points']} / {own['designed_points']} networks"
            for own in (study.needed, study.steady)
        ]
        rows.append([law, deviation(study.full), *counts])
    return markdown(["law", "full fit μ ± σ", close, steady], rows)


def extrapolation_lines(table: Table) -> str:
    """From small to large along every axis: a row for what was fitted, a column for each law."""
    cells: dict[str, dict[str, str]] = {}
    for step in extrapolation(table).steps:
        own = f"{deviation(step.fitted)} → {deviation(step.predicted)}"
        cells.setdefault(fitted_to(step), {})[step.law] = own
    laws = next(iter(cells.values()))
    return markdown(["fitted to", *laws], [[fitted, *own.values()] for fitted, own in cells.items()])


def form_lines(table: Table) -> str:
    """Every form on configurations left out, by region."""
    regions = ("low plateau", "power law", "high plateau")
    rows = []
    for own in forms(table).scores:
        title = own.title if own.given_unpruned else f"{own.title} (not given ε_np)"
        judged = (own.left_out, *(own.left_out_by_region[region] for region in regions))
        rows.append([title, own.parameters, *map(deviation, judged)])
    return markdown(["form", "parameters", "all", *regions], rows)


def contour_lines(table: Table) -> str:
    """Slopes of the contours of constant error."""
    rows = [
        [
            *(
                own.axis,
                own.count,
                f"{numbers.signed(own.mean_slope)} ± {own.std_slope:.2f}" if own.count else "–",
            ),
            *(numbers.signed(own.predicted), f"{own.straightness:.3f}".replace("nan", "–")),
        ]
        for own in invariance(table).contours
    ]
    return markdown(["along", "contours", "slope", "by Eq. 2", "R² of a line"], rows)


def claim_lines(table: Table) -> str:
    """What the paper claims of the smallest networks, by either law."""
    found = [claims(optimality(table, law=law), table.metric) for law in ("eq2", "dip")]
    rows = [[first, by_eq2, by_dip] for (first, by_eq2), (_, by_dip) in zip(*found, strict=True)]
    return markdown(["", "eq2", "dip"], rows)


def noise_lines(table: Table) -> str:
    """The spread of replicates, by region."""
    study = noise(table)
    rows = [
        [
            *(own.region, f"{own.rows:,}", numbers.percent(own.replicates)),
            *(f"{own.groups:,}", numbers.percent(own.roughness)),
        ]
        for own in (study.overall, *study.regions)
    ]
    return markdown(["", "rows", "replicates", "groups of them", "roughness"], rows)


if __name__ == "__main__":
    command(PAGE, SCRIPT, sections())
