"""Studies as text for people; numbers come in, strings go out."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from prunecast.choice import Naming
from prunecast.cli.show import bullets, grid, mean_and_std, number, percent, render
from prunecast.cli.show_answer import facts
from prunecast.metric import Metric
from prunecast.text import plural
from prunecast.wording import OF_LARGEST, amount, fitted_to, sentences

if TYPE_CHECKING:
    from prunecast.studies import (
        Dips,
        Extrapolation,
        Forms,
        Invariance,
        Noise,
        Optimality,
        Sample,
        Sensitivity,
    )

SHOWN = 12
SYMBOLS = {"high_error": "ε↑", "gamma": "γ", "p": "p′"}


def _page(title: str, parts: Iterable[object], notes: Sequence[str] = (), *, metric: Metric) -> str:
    return render([Text(title), "", *parts, *([""] if notes else []), *bullets(notes)], metric)


def _some(rows: Sequence[list[str]]) -> list[list[str]]:
    """At most a dozen rows, evenly taken, the last one always."""
    step = max(1, math.ceil(len(rows) / SHOWN))
    return [*rows[: len(rows) - 1 : step], *rows[-1:]]


def sensitivity(study: "Sensitivity", metric: Metric = Metric.ERROR) -> str:
    """μ and σ against the number of measurements."""
    full = (
        f"fit to all {plural(study.rows, 'row')} of {plural(study.configurations, 'configuration')}: "
        f"{mean_and_std(study.full)}"
    )
    parts: list[object] = []
    for name, what, own in (
        ("random_points", "random networks", study.random_points),
        ("random_configurations", "random configurations, all densities", study.random_configurations),
        ("designed_points", "networks by design", study.designed_points),
        ("designed_configurations", "configurations by design", study.designed_configurations),
    ):
        need, steady = (
            "never" if count is None else f"from {count}"
            for count in (study.needed[name], study.steady[name])
        )
        words = (
            f"{what}: σ within one point of the full fit {need}, spread of μ and σ under one point {steady}"
        )
        parts += [Text(words), grid(["T", "μ", "σ"], _some([_sample(one) for one in own]), left=0), ""]
    title = f"Sensitivity of {study.law} on {study.table}, {study.repeats} repeats; {full}"
    return _page(title, parts[:-1], metric=metric)


def _sample(one: "Sample") -> list[str]:
    return [
        f"{one.count:,}",
        f"{one.mean_mu:+.1%} ± {one.std_mu:.1%}",
        f"{one.mean_sigma:.1%} ± {one.std_sigma:.1%}",
    ]


def extrapolation(study: "Extrapolation", metric: Metric = Metric.ERROR) -> str:
    """From small to large along each axis."""
    rows = [
        [
            step.along.replace("num_", ""),
            fitted_to(step),
            step.law,
            f"{step.fitted_configurations} → {step.predicted_configurations}",
            mean_and_std(step.fitted),
            mean_and_std(step.predicted),
        ]
        for step in study.steps
    ]
    header = ["along", "fitted to", "law", "configurations", "fitted", "predicted"]
    title = f"From small to large on {study.table}: deviation μ ± σ"
    return _page(title, [grid(header, rows, left=3)], sentences(study.findings, metric), metric=metric)


def invariance(study: "Invariance", metric: Metric = Metric.ERROR) -> str:
    """Slopes of contours and constancy of parameters."""
    contours = [
        [
            one.axis,
            f"{one.count}",
            f"{_slope(one.mean_slope)} ± {_slope(one.std_slope).lstrip('+')}" if one.count else "too few",
            _slope(one.predicted),
            number(one.straightness),
        ]
        for one in study.contours
    ]
    constant = [
        [SYMBOLS[one.parameter], number(one.joint), number(one.median), percent(one.spread)]
        for one in study.constancy
    ]
    determined = plural(study.configurations, "configuration", "determines", "determine")
    return _page(
        f"Contours of constant error on {study.table}",
        [
            grid(["axis", "contours", "∂log d/∂log axis", "by Eq. 2", "R² of a line"], contours),
            "",
            Text(f"Eq. 1 fitted alone: {determined} it"),
            *([grid(["", "joint fit of Eq. 2", "median", "spread"], constant)] if constant else []),
        ],
        sentences(study.findings, metric),
        metric=metric,
    )


def _slope(value: float) -> str:
    return f"{value:+.2f}" if math.isfinite(value) else "–"


def forms(study: "Forms", metric: Metric = Metric.ERROR) -> str:
    """Every form by region, on configurations left out."""
    overall = [
        [one.name, one.title, str(one.parameters), mean_and_std(one.in_sample), mean_and_std(one.left_out)]
        for one in study.scores
    ]
    regions = [
        [one.name, *(mean_and_std(one.left_out_by_region[name]) for name in study.rows_by_region)]
        for one in study.scores
    ]
    header = ["", *(f"{name}, {plural(count, 'row')}" for name, count in study.rows_by_region.items())]
    return _page(
        f"Forms on {study.table}: deviation μ ± σ",
        [
            grid(["form", "", "free", "in sample", "left out"], overall, left=2),
            "",
            Text("by region of Eq. 2, on configurations left out"),
            grid(header, regions),
        ],
        metric=metric,
    )


def dips(study: "Dips", metric: Metric = Metric.ERROR) -> str:
    """Every dip and the bias it leaves."""
    rows = [
        [
            f"{one.depth:g}",
            f"{one.width:.4g}",
            f"{one.num_examples:,.0f}",
            f"{one.unpruned_error:.4f}",
            f"{one.lowest_error:.4f}",
            f"{one.density:.3g}",
            percent(one.dip),
            percent(one.by_noise),
        ]
        for one in sorted(study.dips, key=lambda one: -one.dip)
    ]
    header = ["depth", "width", "examples", "unpruned", "lowest", "at density", "dip", "by noise alone"]
    return _page(
        f"Dips below the unpruned error on {study.table}",
        [
            grid(header, _some(rows), left=0),
            "",
            facts(
                [
                    ["Eq. 2", mean_and_std(study.eq2)],
                    ["Eq. 2 with the dips filled", mean_and_std(study.without_dips)],
                    ["the law `dip`", mean_and_std(study.dip_law)],
                    ["what the dips add to μ of Eq. 2", percent(study.bias, sign=True)],
                ]
            ),
        ],
        metric=metric,
    )


def optimality(study: "Optimality", metric: Metric = Metric.ERROR) -> str:
    """Predicted against measured smallest networks."""
    said = study.naming
    rows = [
        [
            f"{one.error:.3f}",
            _network(said, one.measured_depth, one.measured_width),
            _size(said, one.measured_nonzero),
            _network(said, one.predicted_depth, one.predicted_width),
            _size(said, one.predicted_nonzero),
            f"{one.predicted_nonzero / one.measured_nonzero - 1:+.0%}",
            percent(one.regret),
        ]
        for one in study.frontier
    ]
    size = "non-zero" if said.largest is None else "size"
    header = ["error", "smallest measured", size, "by the law", size, "off", "regret"]
    examples = f", {study.num_examples:,.0f} examples" if "num_examples" in said.axes else ""
    legend = (
        [] if said.largest is None else [f"Sizes are shares {OF_LARGEST}; a column `weights` gives counts."]
    )
    return _page(
        f"Smallest networks on {study.table} by {study.law}{examples}",
        [grid(header, _some(rows), left=0), "", facts(claims(study))],
        [*sentences(study.findings, metric), *legend],
        metric=metric,
    )


def _network(said: Naming, depth: float, width: float) -> str:
    """Depth × width, or one of them where the table has no other."""
    known = {"depth": f"{depth:g}", "width": f"{width:.4g}"}
    return " × ".join(words for axis, words in known.items() if axis in said.axes)


def _size(said: Naming, weights: float) -> str:
    """Whole weights, although sizes between two levels are no whole numbers; or a share."""
    return amount(said, round(weights) if said.largest is None else weights)


def _cost(value: float) -> str:
    return f"{value:+.0%}" if math.isfinite(value) else "–"


def claims(study: "Optimality") -> list[list[str]]:
    """What the paper says of smallest networks, each claim beside what was found."""
    start, single, few = study.start, study.single_curves, study.few_curves
    rows = [
        ["size off by at most, median", f"{study.largest_miss:.0%}, {study.median_miss:.0%}"],
        ["within 25%", f"{study.within_quarter:.0%} of errors"],
        ["regret of the law's choice, most and mean", f"{study.largest_regret:.0%}, {study.mean_regret:.1%}"],
        [
            "least error over unpruned error on the frontier, measured and by the law",
            f"{_ratio(study.lowest_rise_measured)}, {_ratio(study.lowest_rise_predicted)}",
        ],
        [
            "one size too large, measured and by the law",
            f"{_cost(start.too_large_measured)}, {_cost(start.too_large_predicted)}",
        ],
        [
            "one size too small, measured and by the law",
            f"{_cost(start.too_small_measured)}, {_cost(start.too_small_predicted)}",
        ],
        [
            f"ε↑ and γ from one curve ({single.usable} of {single.curves} show enough), off by",
            f"{_share(single.high_error_off)}, {_share(single.gamma_off)}",
        ],
    ]
    if few is not None:
        words = f"median σ from {plural(few.curves, 'curve')} ({plural(few.sets, 'set')}), from all"
        rows.append([words, f"{few.median_sigma:.1%}, {few.full_sigma:.1%}"])
    return rows


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def noise(study: "Noise", metric: Metric = Metric.ERROR) -> str:
    """Scatter by region."""
    rows = [
        [
            one.region,
            f"{one.rows:,}",
            "–" if one.replicates is None else percent(one.replicates),
            f"{one.groups:,}",
            "–" if one.roughness is None else percent(one.roughness),
        ]
        for one in (study.overall, *study.regions)
    ]
    header = ["", "rows", "replicates", "groups", "roughness"]
    words = f"Scatter on {study.table}; the law's own deviations: {percent(study.residual)}"
    return _page(words, [grid(header, rows)], sentences(study.findings, metric), metric=metric)
