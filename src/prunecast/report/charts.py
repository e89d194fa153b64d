"""The page's charts as Vega-Lite: numbers come in, specifications go out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prunecast.laws import Fit
from prunecast.report import words
from prunecast.report.curves import Curve, Rows, distinct
from prunecast.report.vega import Row, Spec, chart, colour, log_axis, rows, tooltip

AXES = ("width", "depth", "num_examples")
MANY_POINTS, MANY_CURVES = 400, 30
SHAPES = ("circle", "triangle-up", "square", "diamond", "cross", "triangle-down")


@dataclass(frozen=True, kw_only=True)
class Hue:
    """The axis that colours tell apart, and its values in words."""

    axis: str
    values: tuple[float, ...]
    shape: str = ""
    """the axis that shapes tell apart: depth, else the number of examples, where it varies too"""
    shapes: tuple[float, ...] = ()

    @property
    def title(self) -> str:
        """The axis in words."""
        return words.axis(self.axis)

    @property
    def names(self) -> list[str]:
        """The values in words."""
        return [words.size(value) for value in self.values]


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
        hue=[words.size(value) for value in getattr(measured, own.axis)],
        depth=map(words.size, measured.depth),
        width=map(words.size, measured.width),
        n=map(words.count, measured.num_examples),
        density=measured.density,
        error=measured.error,
        estimate=measured.estimate,
        size=measured.size,
        m=measured.invariant,
        off=[words.percent(value, sign=True) for value in measured.deviation],
    )


def curve_rows(curves: Sequence[Curve], own: Hue, top: float = np.inf) -> list[Row]:
    """Points of predicted curves, told apart by `line`."""
    found: list[Row] = []
    for index, curve in enumerate(curves):
        keep = curve.error <= top
        steps = int(keep.sum())
        found += rows(
            line=[index] * steps,
            hue=[words.size(getattr(curve, own.axis))] * steps,
            error=curve.error[keep],
            size=curve.size[keep],
            density=curve.density[keep],
            m=curve.invariant[keep],
        )
    return found


TOLD = {
    "depth": "depth",
    "width": "width",
    "n": "training examples",
    "density": "density",
    "error": "measured error",
    "estimate": "by the law",
    "off": "deviation",
}


def marks(own: Hue) -> Spec:
    """Colour by the hue's axis, and shape by depth where that varies too."""
    made: Spec = {"color": colour("hue", own.title, own.names)}
    if own.shape:
        domain = [words.size(value) for value in own.shapes]
        made["shape"] = {
            "field": "n" if own.shape == "num_examples" else own.shape,
            "type": "nominal",
            "title": words.axis(own.shape),
            "sort": domain,
            "scale": {"domain": domain, "range": list(SHAPES[: len(domain)])},
        }
    return made


def points(x: Spec, y: Spec, own: Hue, amount: int) -> Spec:
    """Dots of measured networks, smaller and paler where there are many."""
    size, opacity = (34, 0.85) if amount <= MANY_POINTS else (13, 0.6)
    return {
        "data": {"name": "points"},
        "mark": {"type": "point", "filled": True, "size": size, "opacity": opacity, "clip": True},
        "encoding": {"x": x, "y": y, **marks(own), "tooltip": tooltip(TOLD)},
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


def fit_chart(measured: Rows, fit: Fit, own: Hue) -> Spec:
    """Estimated against actual error, with the diagonal and one σ to either side."""
    both = [*measured.error, *measured.estimate]
    x, y = log_axis("error", "measured error", both), log_axis("estimate", "error by the law", both)
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
        points(x, y, own, len(measured)),
    ]
    return chart(
        "Errors by the law against measured errors: points on the diagonal are exact, the band is one σ.",
        380,
        datasets,
        layers,
    )


def invariant_chart(measured: Rows, curves: Sequence[Curve], own: Hue, along: str) -> Spec:
    """Error against m* (or against density): past its plateau every network lies on one curve."""
    title = "m*, the invariant" if along == "m" else "density"
    x = log_axis(along, title, measured.invariant if along == "m" else measured.density)
    y = log_axis("error", "test error", measured.error)
    colours = colour("hue", own.title, own.names)
    few = len(curves) <= MANY_CURVES
    fitted = lines(x, y, "curves", strokeWidth=1.4 if few else 0.7, opacity=0.7 if few else 0.5)
    fitted["encoding"]["color"] = colours
    datasets = {"points": point_rows(measured, own), "curves": curve_rows(curves, own)}
    return chart(
        f"Test error against {title}: dots are measured, lines are the law.",
        340,
        datasets,
        [fitted, points(x, y, own, len(measured))],
    )


def raw_chart(measured: list[Row], own: Hue) -> Spec:
    """Error against density as measured, where no law could be fitted."""
    x = log_axis("density", "density", [row["density"] for row in measured])
    y = log_axis("error", "test error", [row["error"] for row in measured])
    told = {name: TOLD[name] for name in ("depth", "width", "n", "density", "error")}
    layer = {
        "data": {"name": "points"},
        "mark": {"type": "point", "filled": True, "size": 40},
        "encoding": {"x": x, "y": y, **marks(own), "tooltip": tooltip(told)},
    }
    return chart("Test error against density, as measured.", 340, {"points": measured}, [layer])
