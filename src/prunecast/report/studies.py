"""The studies as sections: what each one found in a sentence or two, and its numbers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from prunecast.choice import Naming
from prunecast.errors import PrunecastError, sentence
from prunecast.laws import DEFAULT_LAW, Fit, get_law
from prunecast.metric import Metric
from prunecast.report import charts
from prunecast.report.document import Chart, Grid, Section
from prunecast.report.fits import configuration_columns
from prunecast.studies import (
    STUDIES,
    Dips,
    Extrapolation,
    Forms,
    Invariance,
    Noise,
    Optimality,
    Sample,
    Sensitivity,
)
from prunecast.table import Table
from prunecast.text import capital, plural
from prunecast.wording import amount, fitted_to, numbers, sentences
from prunecast.wording import report as wording

MANY_ROWS = 10_000
"""Comparing forms takes long on more rows than this, so a page skips it unless asked."""


def study_section(name: str, found: Any, metric: Metric) -> Section:
    """A study's numbers as a section."""
    return replace(SECTIONS[name](found, metric), name=name, title=STUDIES[name].title)


def titled(section: Section, *about: str) -> Section:
    """The section with what it is about in its title, for a screen of its own."""
    return replace(section, title=f"{section.title} ({', '.join(about)})")


def study_sections(
    table: Table, fit: Fit, on_step: Callable[[str], None], *, everything: bool = False
) -> Iterator[Section]:
    """Every study that the table allows; one that it does not allow gives the reason."""
    for name in SECTIONS:
        study = STUDIES[name]
        if name == "forms" and fit.rows > MANY_ROWS and not everything:
            yield Section(name=name, title=study.title, text=[wording.left_out(fit.rows)])
            continue
        on_step(f"study {name}")
        options: dict[str, Any] = {"law": fit.family_law} if study.takes_law else {}
        if name == "optimality":
            options["fitted"] = fit
        try:
            yield study_section(name, study.function(table, **options), fit.metric)
        except PrunecastError as problem:
            text = [wording.not_on_this_table(sentence(problem))]
            yield Section(name=name, title=study.title, text=text)


def optimality(found: Optimality, metric: Metric) -> Section:
    """Predicted and measured smallest networks."""
    naming = found.naming
    rows = [
        [
            numbers.error(one.error),
            _network(naming, one.measured_depth, one.measured_width),
            _size(naming, one.measured_nonzero),
            _network(naming, one.predicted_depth, one.predicted_width),
            _size(naming, one.predicted_nonzero),
            numbers.percent(one.predicted_nonzero / one.measured_nonzero - 1, sign=True, digits=0),
            numbers.percent(one.regret),
        ]
        for one in found.frontier
    ]
    size = "Weights" if naming.counted else "Size"
    header = [capital(metric.word), "Smallest measured", size, "Predicted", size, "Off", "Regret"]
    examples = f", {numbers.count(found.num_examples)} examples" if "num_examples" in naming.axes else ""
    relative = [] if naming.counted else [wording.RELATIVE_SIZES]
    return Section(
        text=[wording.optimality(found, metric)],
        grids=[
            Grid(
                header=header,
                rows=rows,
                left=0,
                caption=f"Smallest network at each {metric.word}{examples}",
                long=True,
            ),
            Grid(header=["", ""], rows=claims(found, metric), caption="The paper's claims", long=True),
        ],
        notes=[*sentences(found.findings, metric), *relative],
    )


def claims(found: Optimality, metric: Metric) -> list[list[str]]:
    """The paper's claims about smallest networks, each with what was found."""
    start, single, few = found.start, found.single_curves, found.few_curves

    def percents(*values: float | None, sign: bool = False) -> str:
        return ", ".join(numbers.percent(value, sign=sign, digits=0) for value in values)

    def ratio(value: float | None) -> str:
        return numbers.UNKNOWN if value is None else f"{value:.2f}"

    rises = f"{ratio(found.lowest_rise_measured)}, {ratio(found.lowest_rise_predicted)}"
    regret = f"{numbers.percent(found.largest_regret, digits=0)}, {numbers.percent(found.mean_regret)}"
    curves = f"{single.usable} of {single.curves} are usable"
    rows = [
        ["deviation of the size, largest and median", percents(found.largest_miss, found.median_miss)],
        ["within 25%", f"{numbers.percent(found.within_quarter, digits=0)} of {metric.plural}"],
        ["regret of the law's choice, largest and mean", regret],
        [f"lowest {metric.word} / unpruned {metric.word} on the frontier, measured and predicted", rises],
        [
            "one size too large, measured and predicted",
            percents(start.too_large_measured, start.too_large_predicted, sign=True),
        ],
        [
            "one size too small, measured and predicted",
            percents(start.too_small_measured, start.too_small_predicted, sign=True),
        ],
        [f"ε↑ and γ from one curve ({curves}), off by", percents(single.high_error_off, single.gamma_off)],
    ]
    if few is not None:
        name = f"median σ from {plural(few.curves, 'curve')} ({plural(few.sets, 'set')}), from all"
        rows.append([name, f"{numbers.percent(few.median_sigma)}, {numbers.percent(few.full_sigma)}"])
    return rows


def _network(naming: Naming, depth: float, width: float) -> str:
    """Depth × width, or one of them where the table has no other."""
    sizes = {"depth": depth, "width": width}
    return " × ".join(numbers.size(value) for axis, value in sizes.items() if axis in naming.axes)


def _size(naming: Naming, weights: float) -> str:
    """Whole weights, although sizes between two levels are not whole numbers; or a share."""
    return amount(naming, round(weights) if naming.counted else weights)


def extrapolation(found: Extrapolation, metric: Metric) -> Section:
    """From small to large along each axis."""
    rows = [
        [
            numbers.axis(step.along),
            get_law(step.law).title,
            fitted_to(step),
            numbers.deviation(step.predicted),
            numbers.deviation(step.fitted),
            f"{step.fitted_configurations} → {step.predicted_configurations}",
        ]
        for step in found.steps
    ]
    header = ["Along", "Law", "Fitted to", "Predicted", "Fitted", "Sizes"]
    return Section(
        text=[wording.extrapolated(found), wording.EXTRAPOLATION],
        grids=[Grid(header=header, rows=rows, left=3)],
        notes=sentences(found.findings, metric),
    )


def sensitivity(found: Sensitivity, metric: Metric) -> Section:
    """How many measurements a fit needs."""
    caption = f"σ over all rows against the number of configurations fitted, {found.repeats} repeats."
    chosen = (
        ("random networks", "random_points"),
        ("networks by design", "designed_points"),
        ("random configurations", "random_configurations"),
        ("configurations by design", "designed_configurations"),
    )
    spec = charts.sensitivity_chart(found, "configurations", "configurations measured")
    needed = [[what, _from(found.needed[name]), _from(found.steady[name])] for what, name in chosen]
    return Section(
        text=[wording.sensitivity(found), wording.sensitivity_repeats(found)],
        charts=[Chart(name="sensitivity", spec=spec, caption=caption)],
        grids=[
            Grid(
                header=["Fitted to", "σ within one point of the full fit", "μ and σ vary by under one point"],
                rows=needed,
            ),
            _samples("Networks", found.random_points, found.designed_points),
            _samples("Configurations", found.random_configurations, found.designed_configurations),
        ],
    )


def _from(count: int | None) -> str:
    return "never" if count is None else f"from {count:,}"


def _samples(what: str, random: Sequence[Sample], designed: Sequence[Sample]) -> Grid:
    """μ and σ against the number of measurements, chosen at random and by design."""
    groups = [{one.count: one for one in own} for own in (random, designed)]
    rows = [
        [f"{count:,}", *(cell for own in groups for cell in _sample(own.get(count)))]
        for count in sorted({count for own in groups for count in own})
    ]
    header = [what, "μ, at random", "σ, at random", "μ, by design", "σ, by design"]
    return Grid(
        header=header, rows=rows, left=0, caption=f"By the number of {what.lower()} fitted", long=True
    )


def _sample(one: Sample | None) -> tuple[str, str]:
    if one is None:
        return "", ""
    mu = f"{numbers.percent(one.mean_mu, sign=True)} ± {numbers.percent(one.std_mu)}"
    return mu, f"{numbers.percent(one.mean_sigma)} ± {numbers.percent(one.std_sigma)}"


def invariance(found: Invariance, metric: Metric) -> Section:
    """Slopes of contours and constancy of parameters."""
    law = get_law(DEFAULT_LAW)
    symbols = {own.name: own.symbol for own in law.parameters}
    contours = [
        [
            numbers.axis(one.axis),
            str(one.count),
            f"{numbers.signed(one.mean_slope)} ± {one.std_slope:.2f}" if one.count else "too few",
            numbers.signed(one.predicted),
            numbers.number(one.straightness),
        ]
        for one in found.contours
    ]
    constancy = [
        [
            symbols[one.parameter],
            numbers.number(one.joint),
            numbers.number(one.median),
            numbers.percent(one.spread),
        ]
        for one in found.constancy
    ]
    single = Grid(
        header=["", f"Joint fit of {law.title}", "Median of single fits", "Spread"],
        rows=constancy,
        caption=wording.single_curves(found.configurations),
    )
    header = ["Axis", "Contours", "Slope measured", f"By {law.title}", "R² of a line"]
    return Section(
        text=[wording.slopes(found, metric), wording.contours(metric)],
        grids=[Grid(header=header, rows=contours), *([single] if constancy else [])],
        notes=sentences(found.findings, metric),
    )


def forms(found: Forms, metric: Metric) -> Section:
    """Every form, overall and by region, on configurations left out."""
    overall = [
        [
            one.title,
            numbers.deviation(one.left_out),
            numbers.deviation(one.in_sample),
            "given" if one.given_unpruned else "no",
            str(one.parameters),
        ]
        for one in found.scores
    ]
    regions = [
        [one.title, *(numbers.deviation(one.left_out_by_region[name]) for name in found.rows_by_region)]
        for one in found.scores
    ]
    sizes = [f"{name}, {plural(rows, 'row')}" for name, rows in found.rows_by_region.items()]
    header = ["Form", "Left out", "In sample", f"Unpruned {metric.word}", "Free"]
    caption = f"By region of {get_law(DEFAULT_LAW).title}, on configurations left out"
    return Section(
        text=[wording.best_form(found), wording.FORMS],
        grids=[
            Grid(header=header, rows=overall),
            Grid(header=["Form", *sizes], rows=regions, caption=caption, long=True),
        ],
    )


def dips(found: Dips, metric: Metric) -> Section:
    """Every dip and the bias it leaves."""
    law = get_law(DEFAULT_LAW).title
    deepest = sorted(found.dips, key=lambda one: -one.dip)
    sizes = configuration_columns(deepest)
    rows = [
        [
            *own,
            *(
                numbers.error(one.unpruned_error),
                numbers.error(one.lowest_error),
                numbers.density(one.density),
            ),
            *(numbers.percent(one.dip), numbers.percent(one.by_noise)),
        ]
        for one, *own in zip(deepest, *sizes.values(), strict=True)
    ]
    laws = [
        [law, numbers.deviation(found.eq2)],
        [f"{law} with the dips filled", numbers.deviation(found.without_dips)],
        ["the dip law", numbers.deviation(found.dip_law)],
    ]
    header = [*sizes, "Unpruned", "Lowest", "At density", "Dip", "By noise alone"]
    return Section(
        text=[wording.dips(found, law, metric)],
        grids=[
            Grid(header=["Law", "Deviation μ ± σ"], rows=laws),
            Grid(header=header, rows=rows, left=0, caption="The dip of each configuration", long=True),
        ],
    )


def noise(found: Noise, metric: Metric) -> Section:
    """Scatter by region."""
    rows = [
        [
            one.region,
            f"{one.rows:,}",
            numbers.percent(one.replicates),
            f"{one.groups:,}",
            numbers.percent(one.roughness),
        ]
        for one in (found.overall, *found.regions)
    ]
    return Section(
        text=[wording.scatter(found)],
        grids=[Grid(header=["Region", "Rows", "Replicates", "Groups", "Roughness"], rows=rows)],
        notes=sentences(found.findings, metric),
    )


SECTIONS: dict[str, Callable[[Any, Metric], Section]] = {
    "optimality": optimality,
    "extrapolation": extrapolation,
    "sensitivity": sensitivity,
    "invariance": invariance,
    "forms": forms,
    "dips": dips,
    "noise": noise,
}
"""The section of each study, in the order of the page."""
