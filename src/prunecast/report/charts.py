"""The page's charts as Vega-Lite: numbers come in, specifications go out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prunecast.laws import Fit
from prunecast.report import words
from prunecast.report.curves import Curve, Rows, distinct
from prunecast.report.vega import Row, Spec, chart, colour, log_axis, rows, tooltip

MOST_SHAPES = 6
SHAPES = ("circle", "triangle-up", "square", "diamond", "cross", "triangle-down")


@dataclass(frozen=True, kw_only=True)
class Hue:
    """The axis that colours tell apart, and its values in words."""

    axis: str
    values: tuple[float, ...]
    depths: tuple[float, ...] = ()
    """what shapes tell apart where depth varies beside the width"""

    @property
    def title(self) -> str:
        """The axis in words."""
        return self.axis.replace("num_examples", "training examples")

    @property
    def names(self) -> list[str]:
        """The values in words."""
        return [words.size(value) for value in self.values]


def hue(configurations: Sequence[object]) -> Hue:
    """Width where it varies, else depth, else the number of examples."""
    for axis in ("width", "depth", "num_examples"):
        values = distinct(getattr(one, axis) for one in configurations)
        if len(values) > 1:
            depths = distinct(getattr(one, "depth") for one in configurations)  # noqa: B009
            several = axis == "width" and 1 < len(depths) <= MOST_SHAPES
            return Hue(axis=axis, values=tuple(values), depths=tuple(depths) if several else ())
    return Hue(axis="width", values=tuple(values[:1]) if axis == "width" else (_only(configurations),))


def _only(configurations: Sequence[object]) -> float:
    return float(getattr(configurations[0], "width"))  # noqa: B009


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
    if own.depths:
        domain = [words.size(depth) for depth in own.depths]
        made["shape"] = {
            "field": "depth",
            "type": "nominal",
            "title": "depth",
            "sort": domain,
            "scale": {"domain": domain, "range": list(SHAPES[: len(domain)])},
        }
    return made


def points(x: Spec, y: Spec, own: Hue, data: str = "points") -> Spec:
    """Dots of measured networks."""
    return {
        "data": {"name": data},
        "mark": {"type": "point", "filled": True, "size": 34, "opacity": 0.85, "clip": True},
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
        points(x, y, own),
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
    fitted = lines(x, y, "curves", strokeWidth=1.4, opacity=0.7)
    fitted["encoding"]["color"] = colours
    datasets = {"points": point_rows(measured, own), "curves": curve_rows(curves, own)}
    return chart(
        f"Test error against {title}: dots are measured, lines are the law.",
        340,
        datasets,
        [fitted, points(x, y, own)],
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
