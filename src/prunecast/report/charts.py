"""Charts as Vega-Lite specifications, made from arrays; titles use the metric's word."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prunecast.laws import Fit
from prunecast.metric import Metric
from prunecast.report.curves import Curve, Rows, distinct
from prunecast.report.vega import PLAIN, Row, Spec, chart, colour, log_axis, rows, tooltip
from prunecast.wording import numbers

AXES = ("width", "depth", "num_examples")
MANY_POINTS, MANY_CURVES = 400, 30
SHAPES = ("circle", "triangle-up", "square", "diamond", "cross", "triangle-down")


@dataclass(frozen=True, kw_only=True)
class Hue:
    """The axis that colours tell apart, and its values in numbers."""

    axis: str
    values: tuple[float, ...]
    shape: str = ""
    """the axis that shapes tell apart: depth, else the number of examples, where it varies too"""
    shapes: tuple[float, ...] = ()

    @property
    def title(self) -> str:
        """The axis in numbers."""
        return numbers.axis(self.axis)

    @property
    def names(self) -> list[str]:
        """The values in numbers."""
        return [numbers.size(value) for value in self.values]


def hue(columns: Mapping[str, Iterable[float]]) -> Hue:
    """Width where it varies, else depth, else the number of examples; shapes for the next axis that varies."""
    values = {axis: tuple(distinct(columns[axis])) for axis in AXES}
    axis, *others = [axis for axis in AXES if len(values[axis]) > 1] or ["width"]
    shape = next((other for other in others if len(values[other]) <= len(SHAPES)), "")
    return Hue(axis=axis, values=values[axis], shape=shape, shapes=values.get(shape, ()))


def hue_of(fit: Fit) -> Hue:
    """The axes that tell a fit's configurations apart."""
    return hue({axis: [getattr(one, axis) for one in fit.configurations] for axis in AXES})


def point_rows(measured: Rows, own: Hue) -> list[Row]:
    """Measured rows for a chart, with what a pointer over them says."""
    return rows(
        hue=[numbers.size(value) for value in getattr(measured, own.axis)],
        depth=map(numbers.size, measured.depth),
        width=map(numbers.size, measured.width),
        n=map(numbers.count, measured.num_examples),
        density=measured.density,
        error=measured.error,
        estimate=measured.estimate,
        size=measured.size,
        m=measured.invariant,
        off=[numbers.percent(value, sign=True) for value in measured.deviation],
    )


def curve_rows(curves: Sequence[Curve], own: Hue, top: float = np.inf) -> list[Row]:
    """Points of predicted curves, told apart by `line`."""
    found: list[Row] = []
    for index, curve in enumerate(curves):
        keep = curve.error <= top
        steps = int(keep.sum())
        found += rows(
            line=[index] * steps,
            hue=[numbers.size(getattr(curve, own.axis))] * steps,
            error=curve.error[keep],
            size=curve.size[keep],
            density=curve.density[keep],
            m=curve.invariant[keep],
        )
    return found


def measured_fields(metric: Metric) -> dict[str, str]:
    """What a tooltip shows of every measured network: fields with their titles."""
    return {
        "depth": "depth",
        "width": "width",
        "n": "training examples",
        "density": "density",
        "error": f"measured {metric.word}",
    }


def marks(own: Hue) -> Spec:
    """Colour by the hue's axis, and shape by depth where that varies too."""
    made: Spec = {"color": colour("hue", own.title, own.names)}
    if own.shape:
        domain = [numbers.size(value) for value in own.shapes]
        made["shape"] = {
            "field": "n" if own.shape == "num_examples" else own.shape,
            "type": "nominal",
            "title": numbers.axis(own.shape),
            "sort": domain,
            "scale": {"domain": domain, "range": list(SHAPES[: len(domain)])},
        }
    return made


def points(x: Spec, y: Spec, own: Hue, amount: int, metric: Metric) -> Spec:
    """Dots of measured networks, smaller and paler where there are many."""
    size, opacity = (34, 0.85) if amount <= MANY_POINTS else (13, 0.6)
    fields = {**measured_fields(metric), "estimate": "by the law", "off": "deviation"}
    return {
        "data": {"name": "points"},
        "mark": {"type": "point", "filled": True, "size": size, "opacity": opacity, "clip": True},
        "encoding": {"x": x, "y": y, **marks(own), "tooltip": tooltip(fields)},
    }


def lines(x: Spec, y: Spec, data: str, **mark: object) -> Spec:
    """Predicted curves, one for each `line` of the data."""
    return {
        "data": {"name": data},
        "mark": {"type": "line", "clip": True, **mark},
        "encoding": {
            "x": x,
            "y": y,
            "detail": {"field": "line"},
            "order": {"field": "density", "sort": "descending"},
        },
    }


def fit_chart(measured: Rows, fit: Fit, own: Hue, metric: Metric) -> Spec:
    """Estimated against measured errors, with the diagonal and one σ to either side."""
    both = [*measured.error, *measured.estimate]
    x = log_axis("error", f"measured {metric.word}", both)
    y = log_axis("estimate", f"{metric.word} by the law", both)
    ends = np.array([min(both) * 0.93, max(both) * 1.07])
    sigma = fit.deviation.std
    datasets = {
        "points": point_rows(measured, own),
        "diagonal": rows(error=ends, estimate=ends, low=ends * (1 - sigma), high=ends * (1 + sigma)),
    }
    layers: list[Spec] = [
        {
            "data": {"name": "diagonal"},
            "mark": {"type": "area", "color": "var(--faint)", "opacity": 0.35, "clip": True},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        },
        {
            "data": {"name": "diagonal"},
            "mark": {"type": "line", "color": "var(--ink)", "strokeWidth": 1.2, "clip": True},
            "encoding": {"x": x, "y": y},
        },
        points(x, y, own, len(measured), metric),
    ]
    return chart(
        f"{metric.plural.capitalize()} by the law against measured {metric.plural}: points on the diagonal are exact, "
        "the band is one σ.",
        380,
        datasets,
        layers,
    )


def invariant_chart(measured: Rows, curves: Sequence[Curve], own: Hue, along: str, metric: Metric) -> Spec:
    """Error against m* (or against density): past its plateau every network lies on one curve."""
    title = "m*, the invariant" if along == "m" else "density"
    x = log_axis(along, title, measured.invariant if along == "m" else measured.density)
    y = log_axis("error", metric.measured, measured.error)
    colours = colour("hue", own.title, own.names)
    few = len(curves) <= MANY_CURVES
    fitted = lines(x, y, "curves", strokeWidth=1.4 if few else 0.7, opacity=0.7 if few else 0.5)
    fitted["encoding"]["color"] = colours
    datasets = {"points": point_rows(measured, own), "curves": curve_rows(curves, own)}
    return chart(
        f"{metric.measured.capitalize()} against {title}: dots are measured, lines are the law.",
        340,
        datasets,
        [fitted, points(x, y, own, len(measured), metric)],
    )


def raw_chart(measured: list[Row], own: Hue, metric: Metric) -> Spec:
    """Error against density as measured, where no law could be fitted."""
    x = log_axis("density", "density", [row["density"] for row in measured])
    y = log_axis("error", metric.measured, [row["error"] for row in measured])
    layer = {
        "data": {"name": "points"},
        "mark": {"type": "point", "filled": True, "size": 40},
        "encoding": {"x": x, "y": y, **marks(own), "tooltip": tooltip(measured_fields(metric))},
    }
    return chart(
        f"{metric.measured.capitalize()} against density, as measured.", 340, {"points": measured}, [layer]
    )


DRAWN = ("points", "frontier")
"""The data that an axis of the answer's chart must show."""


def answer_chart(
    all_data: Sequence[Mapping[str, list[Row]]],
    first: Mapping[str, list[Row]],
    own: Hue,
    unit: str,
    metric: Metric,
) -> Spec:
    """Error against size: sizes of all numbers of examples, errors of the one that is shown."""
    sizes = [row["size"] for data in all_data for name in ("members", *DRAWN) for row in data[name]]
    x, y = log_axis("size", unit, sizes), log_axis("error", metric.measured, [])
    y["scale"] = {"type": "log", "nice": False, "domain": [{"expr": "low"}, {"expr": "high"}]}
    y["axis"]["values"] = {"expr": "labels"}
    coloured = lines(x, y, "members", strokeWidth=1.6, opacity=0.75)
    coloured["encoding"]["color"] = colour("hue", own.title, own.names)
    layers = [
        lines(x, y, "others", strokeWidth=0.8, opacity=0.55, color="var(--faint)"),
        coloured,
        points(x, y, own, len(first["points"]), metric),
        lines(x, y, "frontier", strokeWidth=3.2, color="var(--ink)", opacity=0.9),
        *_chosen_layers(x, y),
    ]
    drawn = chart(
        f"{metric.measured.capitalize()} against size of pruned networks; the table below has the same answers.",
        440,
        first,
        layers,
    )
    return {**drawn, "params": [{"name": name, "value": value} for name, value in view(first).items()]}


def view(data: Mapping[str, list[Row]]) -> dict[str, Any]:
    """Where the answer's error axis begins and ends and which labels it has, for the page to set."""
    axis = log_axis("error", "", [row["error"] for name in DRAWN for row in data[name]])
    low, high = axis["scale"]["domain"]
    return {"low": low, "high": high, "labels": axis["axis"]["values"]}


def _chosen_layers(x: Spec, y: Spec) -> list[Spec]:
    """The target as a line across, and the chosen network with its interval."""
    accent = "var(--accent)"
    return [
        {
            "data": {"name": "target"},
            "mark": {"type": "rule", "color": accent, "strokeDash": [5, 4], "strokeWidth": 1.4, "clip": True},
            "encoding": {"y": y},
        },
        {
            "data": {"name": "chosen"},
            "mark": {"type": "rule", "color": accent, "strokeWidth": 2.4, "clip": True},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        },
        {
            "data": {"name": "chosen"},
            "mark": {
                "type": "point",
                "filled": True,
                "size": 190,
                "color": accent,
                "stroke": "var(--paper)",
                "strokeWidth": 2.5,
                "opacity": 1,
            },
            "encoding": {"x": x, "y": y},
        },
    ]


def sample_chart(
    series: Sequence[tuple[str, Sequence[tuple[float, float, float]]]], full: float, title: str
) -> Spec:
    """σ against the number of measurements used, mean over repeats with one standard deviation to either side."""
    names = [name for name, _ in series]
    data = [
        row
        for name, own in series
        for row in rows(
            hue=[name] * len(own),
            count=[count for count, _, _ in own],
            sigma=[100 * mean for _, mean, _ in own],
            low=[100 * max(mean - std, 0.0) for _, mean, std in own],
            high=[100 * (mean + std) for _, mean, std in own],
        )
    ]
    top = min(1.15 * max(row["high"] for row in data), 100 * max(3 * full, 0.1))
    x = log_axis("count", title, [row["count"] for row in data])
    y = {
        "field": "sigma",
        "type": "quantitative",
        "title": "σ of the deviation, %",
        "scale": {"domain": [0, top], "clamp": False},
        "axis": {"format": PLAIN},
    }
    hues = colour("hue", "chosen", names)
    layers: list[Spec] = [
        {
            "data": {"name": "samples"},
            "mark": {"type": "area", "opacity": 0.18, "clip": True},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": hues},
        },
        {
            "data": {"name": "samples"},
            "mark": {"type": "line", "strokeWidth": 2, "point": True, "clip": True},
            "encoding": {"x": x, "y": y, "color": hues},
        },
        {
            "data": {"name": "full"},
            "mark": {"type": "rule", "strokeDash": [5, 4], "color": "var(--ink)"},
            "encoding": {"y": y},
        },
    ]
    return chart(
        "How σ falls as more is measured; the dashed line is the fit to everything.",
        280,
        {"samples": data, "full": rows(sigma=[100 * full])},
        layers,
    )
