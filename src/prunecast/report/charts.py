"""The charts of page and figures as Vega-Lite: numbers come in, specifications go out.

Each chart has one builder. The theme says whether it is drawn on the page or in a figure; the metric names its axes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from prunecast.choice import Measure
from prunecast.laws import Fit
from prunecast.metric import Metric
from prunecast.report.curves import AXES, Curve, Rows, Slice, distinct, measured_curves, measured_rows, slices
from prunecast.report.vega import PAGE, Row, Spec, Theme, axis, chart, colour, layer, log_axis, rows, tooltip
from prunecast.studies import Sensitivity
from prunecast.table import Table
from prunecast.text import capital
from prunecast.wording import numbers

MANY_POINTS, MANY_CURVES = 400, 30
SHAPES = ("circle", "triangle-up", "square", "diamond", "cross", "triangle-down")
DRAWN = ("points", "frontier")
"""The data that must lie within the axes of an answer's chart."""


@dataclass(frozen=True, kw_only=True)
class Hue:
    """Which axis colours show, and which one shapes show."""

    axis: str
    values: tuple[float, ...]
    shape: str = ""
    """another axis that varies; empty if there is none"""
    shapes: tuple[float, ...] = ()

    @property
    def names(self) -> list[str]:
        """The values in numbers."""
        return [numbers.size(value) for value in self.values]

    def colour(self, theme: Theme) -> Spec:
        """The colour of each value."""
        return colour("hue", numbers.axis(self.axis), self.names, theme)

    def marks(self, theme: Theme) -> Spec:
        """The colour of a network, and its shape where shapes are needed."""
        made = {"color": self.colour(theme)}
        if self.shape:
            domain = [numbers.size(value) for value in self.shapes]
            made["shape"] = {
                "field": "n" if self.shape == "num_examples" else self.shape,
                "type": "nominal",
                "title": numbers.axis(self.shape),
                "sort": domain,
                "scale": {"domain": domain, "range": list(SHAPES[: len(domain)])},
                "legend": {"symbolOpacity": 1},
            }
        return made


def hue_along(columns: Mapping[str, Iterable[float]]) -> Hue:
    """Width where it varies, else depth, else the number of examples; shapes for the next axis that varies."""
    values = {name: tuple(distinct(columns[name])) for name in AXES}
    first, *others = [name for name in AXES if len(values[name]) > 1] or ["width"]
    shape = next((other for other in others if len(values[other]) <= len(SHAPES)), "")
    return Hue(axis=first, values=values[first], shape=shape, shapes=values.get(shape, ()))


def hue_of(fit: Fit) -> Hue:
    """The axes along which a fit's configurations differ."""
    return hue_along({name: [getattr(one, name) for one in fit.configurations] for name in AXES})


@dataclass(frozen=True, kw_only=True)
class FittedTable:
    """A table and its law, with what charts show of them."""

    table: Table
    fit: Fit
    minimise: str = Measure.STORED
    """the measure of sizes"""

    @property
    def metric(self) -> Metric:
        """What the table measures."""
        return self.fit.metric

    @cached_property
    def rows(self) -> Rows:
        """Measured rows with their estimates."""
        return measured_rows(self.table, self.fit, self.minimise)

    @cached_property
    def curves(self) -> list[Curve]:
        """The fitted curve of every configuration."""
        return measured_curves(self.fit)

    @cached_property
    def slices(self) -> list[Slice]:
        """A slice along each axis that varies."""
        return slices(self.fit, self.curves)

    @cached_property
    def hue(self) -> Hue:
        """The axes that colours and shapes show."""
        return hue_of(self.fit)


def size_title(minimise: str, *, counted: bool = True) -> str:
    """The title of an axis of sizes in a measure."""
    if not counted:
        return "depth · width² · density, proportional to the weights kept"
    longer = {Measure.MULTIPLY_ADDS: "multiply-adds per image", Measure.PAPER: "depth · width² · density"}
    return longer.get(Measure(minimise), Measure(minimise).unit)


def invariant_formula(fit: Fit) -> str:
    """The invariant with its fitted exponents, such as depth^1.09 · width^1.62 · density."""
    names = {"num_examples": "(n/N)"}
    factors = [
        f"{names.get(a, a)}^{numbers.number(fit.parameters[name])}" for a, name in fit.exponents.items()
    ]
    return " · ".join([*factors, "density"])


def _network_columns(networks: Rows | pd.DataFrame, hue: Hue) -> dict[str, Iterable[object]]:
    """What is known of every measured network, as columns."""
    return {
        "hue": [numbers.size(value) for value in getattr(networks, hue.axis)],
        "depth": map(numbers.size, networks.depth),
        "width": map(numbers.size, networks.width),
        "n": map(numbers.count, networks.num_examples),
        "density": networks.density,
        "error": networks.error,
    }


def table_rows(frame: pd.DataFrame, hue: Hue) -> list[Row]:
    """The rows of a table for a chart, where no law could be fitted."""
    return rows(**_network_columns(frame, hue))


def point_rows(measured: Rows, hue: Hue) -> list[Row]:
    """Measured rows for a chart, with what a pointer over them shows."""
    return rows(
        **_network_columns(measured, hue),
        estimate=measured.estimate,
        size=measured.size,
        m=measured.invariant,
        off=[numbers.percent(value, sign=True) for value in measured.deviation],
    )


def curve_rows(curves: Sequence[Curve], hue: Hue | None, *fields: str) -> list[Row]:
    """Points of predicted curves, numbered by `line`; the invariant is called `m`, as in `point_rows`."""
    found: list[Row] = []
    for index, curve in enumerate(curves):
        coloured = {} if hue is None else {"hue": numbers.size(getattr(curve, hue.axis))}
        values = {"m" if name == "invariant" else name: getattr(curve, name) for name in fields}
        found += rows(line=index, **coloured, **values)
    return found


def points(x: Spec, y: Spec, hue: Hue, amount: int, metric: Metric, theme: Theme) -> Spec:
    """Dots of measured networks, smaller and paler where there are many."""
    size, opacity = (34, 0.85) if amount <= MANY_POINTS else (13, 0.6)
    fields = tooltip({**_measured_fields(metric), "estimate": "predicted by the law", "off": "deviation"})
    encoding = {"x": x, "y": y, **hue.marks(theme), "tooltip": fields}
    opacity = opacity if theme.translucent else 1.0
    return layer("points", "point", encoding, filled=True, size=size, opacity=opacity)


def _measured_fields(metric: Metric) -> dict[str, str]:
    """What a tooltip shows of every measured network: fields with their titles."""
    sizes = {"depth": "depth", "width": "width", "n": numbers.axis("num_examples")}
    return {**sizes, "density": "density", "error": f"measured {metric.word}"}


def lines(x: Spec, y: Spec, data: str, hue: Spec | None = None, **mark: object) -> Spec:
    """Curves, one for each `line` of the data in the order of its rows, coloured by a hue or all alike."""
    encoding = {"x": x, "y": y, "detail": {"field": "line"}, "order": {"value": None}}
    return layer(data, "line", {**encoding, "color": hue} if hue else encoding, **mark)


def estimate_chart(measured: Rows, fit: Fit, hue: Hue, metric: Metric, theme: Theme = PAGE) -> Spec:
    """Estimated against actual error, with the diagonal and one σ to either side."""
    both, sigma = [*measured.error, *measured.estimate], fit.deviation.std
    x = log_axis("error", f"measured {metric.word}", both)
    y = log_axis("estimate", f"predicted {metric.word}", both)
    ends = np.array([min(both) * 0.93, max(both) * 1.07])
    datasets = {
        "points": point_rows(measured, hue),
        "diagonal": rows(error=ends, estimate=ends, low=ends * (1 - sigma), high=ends * (1 + sigma)),
    }
    band = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    layers = [
        layer("diagonal", "area", band, color=theme.faint, opacity=0.35),
        layer("diagonal", "line", {"x": x, "y": y}, color=theme.ink, strokeWidth=1.2),
        points(x, y, hue, len(measured), metric, theme),
    ]
    description = (
        f"Predicted {metric.plural} against measured {metric.plural}: points on the diagonal are exact, "
        "the band is one σ."
    )
    return chart(description, 380, datasets, layers, theme)


def error_chart(
    measured: Rows,
    curves: Sequence[Curve],
    hue: Hue,
    along: str,
    metric: Metric,
    *,
    title: str = "",
    theme: Theme = PAGE,
) -> Spec:
    """Error against density, or against the invariant (`m`), on which curves past their plateaus fall together."""
    title = title or ("m*, the invariant" if along == "m" else "density")
    x = log_axis(along, title, measured.invariant if along == "m" else measured.density)
    y = log_axis("error", metric.measured, [*measured.error, *(curve.error.min() for curve in curves)])
    few = len(curves) <= MANY_CURVES
    width, opacity = (1.4, 0.7) if few else (0.7, 0.5)
    return chart(
        f"{capital(metric.measured)} against {title}: dots are measured, lines are the law.",
        340,
        {
            "points": point_rows(measured, hue),
            "curves": curve_rows(curves, hue, "error", "density", "invariant"),
        },
        [
            lines(x, y, "curves", hue.colour(theme), strokeWidth=width, opacity=opacity),
            points(x, y, hue, len(measured), metric, theme),
        ],
        theme,
    )


def measured_chart(measured: list[Row], hue: Hue, metric: Metric) -> Spec:
    """Error against density as measured, where no law could be fitted."""
    x = log_axis("density", "density", [row["density"] for row in measured])
    y = log_axis("error", metric.measured, [row["error"] for row in measured])
    encoding = {"x": x, "y": y, **hue.marks(PAGE), "tooltip": tooltip(_measured_fields(metric))}
    dots = layer("points", "point", encoding, filled=True, size=40)
    description = f"{capital(metric.measured)} against density, as measured."
    return chart(description, 340, {"points": measured}, [dots])


def sensitivity_chart(found: Sensitivity, of: str, title: str, theme: Theme = PAGE) -> Spec:
    """σ against the number of `points` or `configurations` fitted: mean and standard deviation of the repeats."""
    series = {"at random": getattr(found, f"random_{of}"), "by design": getattr(found, f"designed_{of}")}
    data = list[Row]()
    for name, samples in series.items():
        mean, std = (
            100 * np.array([getattr(one, f"{what}_sigma") for one in samples]) for what in ("mean", "std")
        )
        ends = {"low": np.maximum(mean - std, 0.0), "high": mean + std}
        data += rows(hue=name, count=[one.count for one in samples], sigma=mean, **ends)
    full = found.full.std
    top = min(1.15 * max(row["high"] for row in data), 100 * max(3 * full, 0.1))
    x = log_axis("count", title, [row["count"] for row in data])
    y = axis("sigma", "σ of the deviation, %", (0, top))
    hues = colour("hue", "chosen", list(series), theme)
    band = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": hues}
    return chart(
        "How σ falls as more is measured; the dashed line is the fit to all rows.",
        280,
        {"samples": data, "full": rows(sigma=[100 * full])},
        [
            layer("samples", "area", band, opacity=0.18),
            layer("samples", "line", {"x": x, "y": y, "color": hues}, strokeWidth=2, point=True),
            layer("full", "rule", {"y": y}, strokeDash=[5, 4], color=theme.ink),
        ],
        theme,
    )


def frontier_data(
    measured: Rows,
    members: Sequence[Curve],
    others: Sequence[Curve],
    frontier: Sequence[tuple[float, float]],
    hue: Hue,
) -> dict[str, list[Row]]:
    """What is drawn for one number of examples; the frontier is pairs of size and error."""
    sizes, errors = zip(*frontier, strict=True) if frontier else ((), ())
    return {
        "members": curve_rows(members, hue, "error", "size"),
        "others": curve_rows(others, None, "error", "size"),
        "points": point_rows(measured, hue),
        "frontier": rows(line=0, error=errors, size=sizes),
    }


def frontier_chart(
    data: Mapping[str, list[Row]],
    hue: Hue,
    unit: str,
    metric: Metric,
    theme: Theme = PAGE,
) -> Spec:
    """Error against size, with the frontier."""
    x, y = _size_axis([data], unit), _error_axis(data, metric)
    return chart(
        f"{capital(metric.measured)} against size of pruned networks; the thick line is the frontier.",
        440,
        data,
        [
            lines(x, y, "others", strokeWidth=0.8, opacity=0.55, color=theme.faint),
            lines(x, y, "members", hue.colour(theme), strokeWidth=1.6, opacity=0.75),
            points(x, y, hue, len(data["points"]), metric, theme),
            lines(x, y, "frontier", strokeWidth=3.2, color=theme.ink, opacity=0.9),
        ],
        theme,
    )


def answer_chart(first: Mapping[str, list[Row]], hue: Hue, axes: Mapping[str, Any], metric: Metric) -> Spec:
    """The frontier of the number of examples shown first, with the target and the network chosen for it.

    The page moves the last two, and sets the axes by parameters, first those of `axes`, when another number of examples
    or measure is shown.
    """
    drawn = frontier_chart(first, hue, axes["unit"], metric)
    x, y = (drawn["layer"][0]["encoding"][name] for name in ("x", "y"))
    x["scale"]["domain"] = [{"expr": "smallest"}, {"expr": "largest"}]
    x["axis"] |= {"values": {"expr": "sizes"}, "title": {"signal": "unit"}}
    y["scale"]["domain"] = [{"expr": "low"}, {"expr": "high"}]
    y["axis"]["values"] = {"expr": "labels"}
    interval = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    accent = PAGE.accent
    big = {"filled": True, "size": 190, "color": accent, "opacity": 1, "clip": False}
    ring = {"stroke": PAGE.paper, "strokeWidth": 2.5}
    drawn["layer"] += [
        layer("target", "rule", {"y": y}, color=accent, strokeDash=[5, 4], strokeWidth=1.4),
        layer("chosen", "rule", interval, color=accent, strokeWidth=2.4),
        layer("chosen", "point", {"x": x, "y": y}, **big, **ring),
    ]
    drawn["params"] = [{"name": name, "value": value} for name, value in axes.items()]
    return drawn


def _error_axis(data: Mapping[str, list[Row]], metric: Metric) -> Spec:
    """The axis that holds the errors drawn for one number of examples."""
    return log_axis("error", metric.measured, [row["error"] for name in DRAWN for row in data[name]])


def _size_axis(every: Sequence[Mapping[str, list[Row]]], unit: str) -> Spec:
    """The axis that holds the sizes drawn for several numbers of examples."""
    return log_axis(
        "size", unit, [row["size"] for one in every for name in ("members", *DRAWN) for row in one[name]]
    )


def view(
    data: Mapping[str, list[Row]], every: Sequence[Mapping[str, list[Row]]], unit: str
) -> dict[str, Any]:
    """Where the axes begin and end, their labels and the title of sizes, for the page to set.

    `every` is the data of all numbers of examples, whose sizes must fit.
    """
    errors, sizes = _error_axis(data, Metric.ERROR), _size_axis(every, unit)
    low, high = errors["scale"]["domain"]
    smallest, largest = sizes["scale"]["domain"]
    return {
        "low": low,
        "high": high,
        "labels": errors["axis"]["values"],
        "smallest": smallest,
        "largest": largest,
        "sizes": sizes["axis"]["values"],
        "unit": unit,
    }
