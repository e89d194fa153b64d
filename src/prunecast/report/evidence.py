"""The studies as sections: each says its finding in a sentence and shows its numbers."""

from collections.abc import Callable, Iterator

from prunecast import studies
from prunecast.errors import PrunecastError, sentence
from prunecast.laws import Fit
from prunecast.report import words
from prunecast.report.charts import sample_chart
from prunecast.report.parts import Chart, Grid, Section
from prunecast.table import Table
from prunecast.wording import fitted_to, sentences

LONG_FORMS = 10_000
"""Comparing forms on more rows than this takes long, so that a page leaves it to `prunecast study`."""


def study_sections(
    table: Table, fit: Fit, tell: Callable[[str], None], *, everything: bool = False
) -> Iterator[Section]:
    """Every study that the table allows; one it does not allow says why."""
    law = fit.law if fit.law != "eq1" else "eq2"
    makers: dict[str, tuple[str, Callable[[], Section]]] = {
        "optimality": (
            "Do its smallest networks hold?",
            lambda: _optimality(studies.optimality(table, law=law, fitted=fit)),
        ),
        "extrapolation": (
            "Does it hold from small to large?",
            lambda: _extrapolation(studies.extrapolation(table)),
        ),
        "sensitivity": (
            "How much must be measured?",
            lambda: _sensitivity(studies.sensitivity(table, law=law)),
        ),
        "invariance": ("Is the invariant invariant?", lambda: _invariance(studies.invariance(table))),
        "forms": ("Would another form do better?", lambda: _forms(studies.forms(table))),
        "dips": ("Does pruning first help?", lambda: _dips(studies.dips(table))),
        "noise": ("How noisy are the measurements?", lambda: _noise(studies.noise(table, law=law))),
    }
    for name, (title, make) in makers.items():
        if name == "forms" and fit.rows > LONG_FORMS and not everything:
            text = [
                f"Left out, as it takes a while on {fit.rows:,} rows: `prunecast study forms`, or --all-studies."
            ]
            yield Section(name=name, title=title, text=text)
            continue
        tell(f"study {name}")
        try:
            yield make()
        except PrunecastError as problem:
            yield Section(name=name, title=title, text=[f"Not on this table: {sentence(problem)}"])


def _optimality(found: studies.Optimality) -> Section:
    rows = [
        [
            words.error(one.error),
            f"{words.size(one.measured_depth)} × {words.size(one.measured_width)}",
            words.count(one.measured_nonzero),
            f"{words.size(one.predicted_depth)} × {words.size(one.predicted_width)}",
            words.count(one.predicted_nonzero),
            words.percent(one.regret, digits=0),
        ]
        for one in found.frontier
    ]
    header = ["Error", "Smallest measured", "Weights", "By the law", "Weights", "Regret"]
    return Section(
        name="optimality",
        title="Do its smallest networks hold?",
        text=[
            f"At {words.percent(found.within_quarter, digits=0)} of errors the smallest size by the law is within 25% "
            f"of the smallest measured one (median miss {words.percent(found.median_miss, digits=0)}). Training what "
            f"the law picks costs {words.percent(found.mean_regret)} more weights than the best in hindsight."
        ],
        grids=[Grid(header=header, rows=rows, left=0, caption="Smallest network at each error", folded=True)],
        notes=sentences(found.findings),
    )


def _extrapolation(found: studies.Extrapolation) -> Section:
    rows = [
        [
            words.axis(step.along),
            words.SHORT_LAWS[step.law],
            fitted_to(step),
            words.deviation(step.predicted),
            words.deviation(step.fitted),
            f"{step.fitted_configurations} → {step.predicted_configurations}",
        ]
        for step in found.steps
    ]
    header = ["Along", "Law", "Fitted to", "Predicted", "Fitted", "Configurations"]
    return Section(
        name="extrapolation",
        title="Does it hold from small to large?",
        text=["Fitted to the smaller half of the sizes, asked about the larger half: deviation μ ± σ."],
        grids=[Grid(header=header, rows=rows, left=3)],
        notes=sentences(found.findings),
    )


def _sensitivity(found: studies.Sensitivity) -> Section:
    def series(*names: str) -> list[tuple[str, list[tuple[float, float, float]]]]:
        return [
            (
                "at random" if name.startswith("random") else "by design",
                [(one.count, one.mean_sigma, one.std_sigma) for one in getattr(found, name)],
            )
            for name in names
        ]

    need = {name: "never" if count is None else str(count) for name, count in found.needed.items()}
    return Section(
        name="sensitivity",
        title="How much must be measured?",
        text=[
            f"σ stays within one point of the fit to everything ({words.percent(found.full.std)}) from "
            f"{need['random_configurations']} random configurations on, or {need['designed_configurations']} chosen by "
            f"design, of {found.configurations}; from {need['random_points']} random networks on, or "
            f"{need['designed_points']} by design, of {found.rows:,}."
        ],
        charts=[
            Chart(
                name="sensitivity",
                spec=sample_chart(
                    series("random_configurations", "designed_configurations"),
                    found.full.std,
                    "configurations measured",
                ),
                caption=f"σ over all rows against the number of configurations fitted, {found.repeats} repeats.",
            )
        ],
    )


def _invariance(found: studies.Invariance) -> Section:
    contours = [
        [
            words.axis(one.axis),
            str(one.count),
            f"{words.signed(one.mean_slope)} ± {one.std_slope:.2f}" if one.count else "too few",
            words.signed(one.predicted),
            words.number(one.straightness),
        ]
        for one in found.contours
    ]
    symbols = {"high_error": "ε↑", "gamma": "γ", "p": "p′"}
    constancy = [
        [symbols[one.parameter], words.number(one.joint), words.number(one.median), words.percent(one.spread)]
        for one in found.constancy
    ]
    determined = words.plural(found.configurations, "configuration", "determines", "determine")
    alone = Grid(
        header=["", "Joint fit of Eq. 2", "Median of single fits", "Spread"],
        rows=constancy,
        caption=f"Eq. 1 fitted alone: {determined} it",
    )
    return Section(
        name="invariance",
        title="Is the invariant invariant?",
        text=["Where the invariant holds, contours of constant error are straight lines of one slope."],
        grids=[
            Grid(header=["Axis", "Contours", "Slope measured", "By Eq. 2", "R² of a line"], rows=contours),
            *([alone] if constancy else []),
        ],
        notes=sentences(found.findings),
    )


def _forms(found: studies.Forms) -> Section:
    rows = [
        [
            one.title,
            words.deviation(one.left_out),
            words.deviation(one.in_sample),
            "given" if one.given_unpruned else "no",
            str(one.parameters),
        ]
        for one in found.scores
    ]
    return Section(
        name="forms",
        title="Would another form do better?",
        text=["Best predictor of configurations left out first: deviation μ ± σ."],
        grids=[Grid(header=["Form", "Left out", "In sample", "Unpruned error", "Free"], rows=rows)],
    )


def _dips(found: studies.Dips) -> Section:
    deepest = max(found.dips, key=lambda one: one.dip)
    rows = [
        ["Eq. 2", words.deviation(found.eq2)],
        ["Eq. 2 with the dips filled", words.deviation(found.without_dips)],
        ["the law that follows the dip", words.deviation(found.dip_law)],
    ]
    return Section(
        name="dips",
        title="Does pruning first help?",
        text=[
            f"The error falls below its unpruned value by up to {words.percent(deepest.dip)} (depth "
            f"{words.size(deepest.depth)}, width {words.size(deepest.width)}, {words.count(deepest.num_examples)} "
            f"examples; noise alone would show {words.percent(deepest.by_noise)}). This adds "
            f"{words.percent(found.bias, sign=True)} to μ of Eq. 2."
        ],
        grids=[Grid(header=["Law", "Deviation μ ± σ"], rows=rows)],
    )


def _noise(found: studies.Noise) -> Section:
    rows = [
        [
            one.region,
            f"{one.rows:,}",
            words.percent(one.replicates),
            f"{one.groups:,}",
            words.percent(one.roughness),
        ]
        for one in (found.overall, *found.regions)
    ]
    return Section(
        name="noise",
        title="How noisy are the measurements?",
        text=[f"To be held against the law's own deviations of {words.percent(found.residual)}."],
        grids=[Grid(header=["Region", "Rows", "Replicates", "Groups", "Roughness"], rows=rows)],
        notes=sentences(found.findings),
    )
