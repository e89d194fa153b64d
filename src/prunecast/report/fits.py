"""Sections about a fitted law: the law itself, how well it fits, what it predicts, and where its numbers come from."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from prunecast import __version__, tables
from prunecast.choice import removes_channels
from prunecast.findings import Finding
from prunecast.laws import Configuration, Deviation, Fit, Law, Prediction, Score, SingleFit, findings, verdict
from prunecast.metric import Metric
from prunecast.report import charts
from prunecast.report.charts import FittedTable
from prunecast.report.curves import AXES
from prunecast.report.document import Chart, Fact, Grid, Section
from prunecast.studies import Dip
from prunecast.table import Table
from prunecast.text import capital, plural
from prunecast.wording import numbers, sentences, verdict_sentence
from prunecast.wording import report as wording

HOW_WELL = (
    findings.Missed,
    findings.MoreMissed,
    findings.DipsIgnored,
    findings.TooLarge,
    findings.LawPreference,
    findings.LawsAveraged,
)
"""Findings about how well a law fits; the others are about what the data do not determine."""
PROVENANCE = (
    *("measured", "plan", "code", "device", "date", "seconds"),
    *("family", "dataset", "method", "recipe", "caution"),
)
"""What the page shows of a shipped table's provenance."""
FEW_CONFIGURATIONS = 8
"""Up to this many are listed next to the chart; longer lists are folded."""
OPTIONS = {"replicates": "replicates", "residual": "residual", "huber": "Huber threshold", "high_error": "ε↑"}


def fit_summary(fit: Fit, table: Table | None = None) -> Section:
    """A fitted law on one screen."""
    return Section(
        title=wording.fit_title(fit),
        text=[fit.equation, verdict_sentence(verdict(fit))],
        grids=[_parameters(fit), _regions(fit)],
        notes=[*sentences(fit.findings, fit.metric), *_table_notes(table)],
    )


def _table_notes(table: Table | None) -> list[str]:
    return [] if table is None else sentences(table.findings, table.metric)


def _parameters(fit: Fit) -> Grid:
    def row(name: str) -> list[str]:
        ends = fit.intervals[name]
        span = "fixed" if name in fit.fixed else " to ".join(numbers.parameter(end, ends) for end in ends)
        remark = ", not determined" if name in fit.undetermined else ""
        value = numbers.parameter(fit.parameters[name], ends)
        return [fit.symbol(name), fit.meaning(name) + remark, value, span]

    header = ["", "Parameter", "Estimate", "95% interval"]
    return Grid(header=header, rows=[row(name) for name in fit.parameters], left=2)


def _regions(fit: Fit) -> Grid:
    known = {"all": fit.deviation, **fit.regions}
    return Grid(
        header=["Region", "μ", "σ", "Rows"],
        rows=[[name, *_deviation(own)] for name, own in known.items() if own.rows],
        caption=f"{wording.DEVIATION_COLUMNS} {wording.noise(fit)}",
    )


def _deviation(own: Deviation) -> list[str]:
    return [numbers.percent(own.mean, sign=True), numbers.percent(own.std), f"{own.rows:,}"]


def configuration_columns(every: Sequence[Configuration | SingleFit | Dip]) -> dict[str, list[str]]:
    """Depths, widths and numbers of examples by their headers; a depth or number that is always 1 was not given."""
    columns = {
        "Depth": [numbers.size(own.depth) for own in every],
        "Width": [numbers.size(own.width) for own in every],
        "Examples": [numbers.count(own.num_examples) for own in every],
    }
    absent = {
        "Depth": all(own.depth == 1 for own in every),
        "Examples": all(own.num_examples == 1 for own in every),
    }
    return {name: cells for name, cells in columns.items() if not absent.get(name)}


def single_fits(fits: Sequence[SingleFit], law: Law, metric: Metric) -> Section:
    """A law fitted to each configuration alone."""
    symbols = {own.name: own.symbol for own in law.parameters}
    sizes = configuration_columns(fits)
    rows = [
        [
            *own,
            numbers.error(one.unpruned_error),
            *map(numbers.number, one.parameters.values()),
            *_deviation(one.deviation),
            ", ".join(symbols[name] for name in one.at_bound),
        ]
        for one, *own in zip(fits, *sizes.values(), strict=True)
    ]
    fitted = [symbols[name] for name in (fits[0].parameters if fits else ())]
    header = [*sizes, f"Unpruned {metric.word}", *fitted, "μ", "σ", "Rows", "At limit"]
    title = f"{capital(law.title)} fitted to each configuration alone"
    return Section(title=title, grids=[Grid(header=header, rows=rows, left=0)])


def predictions(found: Prediction, metric: Metric, known: Iterable[Finding] = ()) -> Section:
    """Predicted errors, one row each; with depths unless all are 1, and numbers of examples that differ."""
    records: list[dict[Any, Any]] = found.frame.to_dict("records")
    several = len({row["num_examples"] for row in records}) > 1
    deep = any(row["depth"] != 1 for row in records)
    rows = [
        [
            numbers.density(row["density"]),
            *([numbers.size(row["depth"])] if deep else []),
            numbers.size(row["width"]),
            *([numbers.count(row["num_examples"])] if several else []),
            f"{numbers.error(row['unpruned_error'])} {row['unpruned_source']}",
            numbers.estimate(row["error"], (row["lower"], row["upper"])),
            numbers.interval((row["lower"], row["upper"])),
            row["region"] + (", extrapolated" if row["extrapolated"] else ""),
        ]
        for row in records
    ]
    sizes = ["Density", *(["Depth"] if deep else []), "Width", *(["Examples"] if several else [])]
    header = [*sizes, f"Unpruned {metric.word}", capital(metric.word), "95% of new runs", "Region"]
    return Section(grids=[Grid(header=header, rows=rows, left=0)], notes=sentences(known, metric))


def scores(results: Sequence[Score], metric: Metric) -> Section:
    """A comparison of laws in two groups: those that are given the unpruned error, and those that predict it."""

    def group(given: bool) -> Grid:
        rows = [
            [
                one.title,
                str(one.parameters),
                *map(numbers.deviation, (one.in_sample, one.configurations_out, one.large_out)),
            ]
            for one in results
            if one.given_unpruned == given
        ]
        title = f"{'Given' if given else 'Not given'} the unpruned {metric.word}"
        return Grid(header=[title, "Free", "In sample", "Left out", "Larger half"], rows=rows)

    return Section(grids=[group(given=True), group(given=False)], notes=[wording.SCORES])


def fit_section(fitted: FittedTable) -> Section:
    """Predicted and measured errors, μ, σ and the noise floor."""
    fit, metric = fitted.fit, fitted.metric
    floor = fit.noise_floor
    noise = Fact("Noise floor", "unknown", "needs a second replicate")
    if floor is not None:
        differ = numbers.percent(floor.replicate)
        noise = Fact(
            "Noise floor", numbers.percent(floor.fit), f"σ from noise alone; replicates differ by {differ}"
        )
    sizes = configuration_columns(fit.configurations)
    configurations = [
        [*own, numbers.error(one.unpruned_error), *_deviation(one.deviation)]
        for one, *own in zip(fit.configurations, *sizes.values(), strict=True)
    ]
    header = [*sizes, f"Unpruned {metric.word}", "μ", "σ", "Rows"]
    count = len(fit.configurations)
    caption = f"Each of {count:,} configurations" if count > 1 else "The only configuration"
    regions = [[name, *_deviation(own)] for name, own in fit.regions.items() if own.rows]
    return Section(
        name="fit",
        title="How well the law fits",
        text=[wording.reading_the_fit(metric)],
        facts=[
            Fact("μ", numbers.percent(fit.deviation.mean, sign=True), "mean deviation"),
            Fact("σ", numbers.percent(fit.deviation.std), f"over {plural(fit.rows, 'row')}"),
            noise,
        ],
        charts=[
            Chart(
                name="fitted",
                spec=charts.estimate_chart(fitted.rows, fit, fitted.hue, metric),
                caption=f"Predicted and measured {metric.plural}, {len(fitted.rows):,} of each.",
            )
        ],
        grids=[
            Grid(header=["Region", "μ", "σ", "Rows"], rows=regions),
            Grid(
                header=header,
                rows=configurations,
                left=0,
                caption=caption,
                long=len(configurations) > FEW_CONFIGURATIONS,
            ),
        ],
        notes=sentences((own for own in fit.findings if isinstance(own, HOW_WELL)), metric),
        side_by_side=True,
    )


def parameters_section(fitted: FittedTable) -> Section:
    """The parameters with intervals, and what they mean for pruning."""
    fit = fitted.fit
    dips = [1 - float(np.min(curve.error)) / float(curve.error[0]) for curve in fitted.curves]
    return Section(
        name="parameters",
        title="The law in numbers and in words",
        text=[f"{capital(fit.title)}, fitted to {fit.origin.table}:", fit.equation],
        grids=[_parameters(fit)],
        notes=list(wording.parameters(fit, max(dips, default=0.0))),
        side_by_side=True,
    )


def invariant_section(fitted: FittedTable) -> Section:
    """Errors against density, then against m*, where all curves coincide past their low plateaus."""
    title, fit, metric = "One curve for a whole family", fitted.fit, fitted.metric
    by_density = Chart(
        name="by-density",
        spec=charts.error_chart(fitted.rows, fitted.curves, fitted.hue, "density", metric),
        caption="Against density, every network has its own curve.",
    )
    if not fit.exponents:
        return Section(name="invariant", title=title, text=[wording.NO_INVARIANT], charts=[by_density])
    formula = charts.invariant_formula(fit)
    by_invariant = Chart(
        name="by-invariant",
        spec=charts.error_chart(fitted.rows, fitted.curves, fitted.hue, "m", metric),
        caption=f"Against m* = {formula}, the curves coincide once they leave their low plateaus.",
    )
    text = [wording.invariant(formula, metric)]
    return Section(name="invariant", title=title, text=text, charts=[by_density, by_invariant])


def unknown_section(fit: Fit) -> Section:
    """What the data leave open."""
    known = sentences((own for own in fit.findings if not isinstance(own, HOW_WELL)), fit.metric)
    text = [] if known else [wording.EVERYTHING_KNOWN]
    if fit.dense is None:
        known.append(wording.measured_sizes_only(fit.metric))
    if not removes_channels(fit):
        known.append(wording.ZEROS)
    return Section(name="unknown", title="What the data do not show", text=text, notes=known)


def missing_section(table: Table, why: str) -> Section:
    """What a table that is too small for a law shows, and what is missing."""
    frame, metric = table.frame, table.metric
    hue = charts.hue_along({axis: frame[axis] for axis in AXES})
    chart = Chart(
        name="raw",
        spec=charts.measured_chart(charts.table_rows(frame, hue), hue, metric),
        caption=f"What was measured: {plural(len(frame), 'row')}.",
    )
    return Section(name="missing", title="No law yet", text=[why], notes=wording.NEEDED, charts=[chart])


def origin_section(table: Table, fit: Fit | None, command: str) -> Section:
    """Where each number came from."""
    metric = table.metric
    named = {
        "Family": table.family,
        "Dataset": table.dataset,
        "Pruning method": table.method,
        "Recipe": table.recipe,
    }
    rows = [
        ["Table", table.source],
        ["Rows", f"{len(table):,}"],
        ["Digest of the measurements (SHA-256)", table.digest],
        *([name, value] for name, value in named.items() if value),
    ]
    if metric.is_share:
        rows.append(["Chance error", "unknown" if table.chance is None else f"{table.chance:g}"])
    if fit is not None:
        given = [f"{OPTIONS[name]}: {value}" for name, value in fit.options.items() if value != "None"]
        rows.append(["Fit", "; ".join([fit.title, *given])])
    rows.append(["Made by", f"prunecast {__version__}, {command}"])
    grids = [Grid(header=["", ""], rows=rows, left=2)]
    if table.source in tables.names():
        known = tables.provenance(table.source)
        shipped = [[name.capitalize(), str(known[name])] for name in PROVENANCE if name in known]
        grids.append(Grid(header=["", ""], rows=shipped, left=2, caption="The shipped table"))
    return Section(
        name="origin",
        title="Where each number came from",
        text=[wording.sources(metric)],
        grids=grids,
        notes=_table_notes(table),
    )
