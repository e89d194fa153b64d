"""The figures of the studies: spread of replicates, sensitivity, extrapolation, forms compared, dips."""

from collections.abc import Sequence

import numpy as np

from prunecast import studies
from prunecast.errors import PrunecastError
from prunecast.laws import get_law
from prunecast.report import charts
from prunecast.report.charts import FittedTable
from prunecast.report.vega import (
    FIGURE,
    WIDE,
    Row,
    Spec,
    at,
    axis,
    bars,
    bins,
    colour,
    dots,
    figure,
    fixed,
    layer,
    layers_of,
    log_axis,
    panel,
    rows,
)
from prunecast.table import CONFIGURATION
from prunecast.wording import numbers

LINE = 30
"""Height of one entry on an axis of names."""
ALONG = {"networks": "depth and width", "paper": "the paper's sizes"}
"""Ways from small to large that are not one axis."""


def replicates_spread(fitted: FittedTable) -> Spec:
    """Deviations of replicates from their mean against density, and their histogram with the law's deviations."""
    kept = fitted.table.better_than_chance
    grouped = kept.groupby([*CONFIGURATION, "level"])["error"]
    several = grouped.transform("size") > 1
    if not several.any():
        raise PrunecastError("no network was trained twice, so there is no spread of replicates")
    density = kept["density"][several].to_numpy()
    off = 100 * (kept["error"] / grouped.transform("mean") - 1)[several].to_numpy()
    x = log_axis("density", "density", density)
    y = axis("off", "deviation, %", (1.05 * off.min(), 1.05 * off.max()))
    scatter = [
        fixed("rule", {"y": at(y, 0)}, color=FIGURE.ink),
        dots(rows(density=density, off=off), {"x": x, "y": y}, 13, color=FIGURE.series[0]),
    ]
    edges = np.histogram_bin_edges(np.r_[off, 100 * fitted.rows.deviation], bins=30)
    own, law = (100 * np.histogram(v, edges)[0] / len(v) for v in (off, 100 * fitted.rows.deviation))
    x = axis("start", "deviation, %", (edges[0], edges[-1]))
    y = axis("height", "share of networks, %", (0, 1.05 * max(own.max(), law.max())))
    names = ["replicates", fitted.fit.title]
    encoding = {"x": x, "y": y, "color": colour("hue", "", names, FIGURE)}
    outline = bins(np.r_[edges, edges[-1]], np.r_[law, 0], names[1])
    histogram = [
        bars(bins(edges, own, names[0]), encoding, opacity=0.5),
        layer(outline, "line", encoding, interpolate="step-after", strokeWidth=1.6),
    ]
    title = f"Deviations of replicates and of {fitted.fit.title}"
    return figure([panel("Replicates around their mean", scatter), panel(title, histogram)])


def sensitivity(fitted: FittedTable) -> Spec:
    """σ over all rows against the number of networks, or of whole configurations, that were fitted."""
    found = studies.sensitivity(fitted.table, law=fitted.fit.family_law)
    panels = []
    for what, title in (("points", "networks fitted"), ("configurations", "configurations fitted")):
        layers = layers_of(charts.sensitivity_chart(found, what, title, FIGURE))
        panels.append(
            panel(title.capitalize(), layers, f"mean ± standard deviation of {found.repeats} repeats")
        )
    heading = f"How σ of {fitted.fit.title} falls as more is measured (dashed: the fit to all rows)"
    return figure(panels, heading, one_legend=True)


def _names(names: Sequence[str]) -> Spec:
    """A vertical axis of names, from top to bottom."""
    look = {"labelLimit": 0, "grid": True, "ticks": False, "labelPadding": 8, "labelOverlap": False}
    return {"field": "name", "type": "nominal", "title": None, "sort": list(names), "axis": look}


def extrapolation(fitted: FittedTable) -> Spec:
    """Deviations on the larger half of the sizes after a fit to the smaller half, with those on the fitted half."""
    steps = studies.extrapolation(fitted.table).steps
    names = [f"{ALONG.get(s.along, numbers.axis(s.along))}, {get_law(s.law).title}" for s in steps]
    halves = {"smaller half, fitted": "fitted", "larger half, predicted": "predicted"}
    data = list[Row]()
    for half, which in halves.items():
        own = [getattr(step, which) for step in steps]
        mean, std = (100 * np.array([getattr(one, name) for one in own]) for name in ("mean", "std"))
        data += rows(name=names, hue=half, mean=mean, low=mean - std, high=mean + std)
    ends = [0.0, *(row[end] for row in data for end in ("low", "high"))]
    x = axis("mean", "deviation μ ± σ, %", (min(ends) - 0.5, max(ends) + 0.5))
    beside = {"field": "hue", "sort": list(halves), "scale": {"paddingOuter": 0.6}}
    y = {"y": _names(names), "yOffset": beside, "color": colour("hue", "", list(halves), FIGURE)}
    layers = [
        fixed("rule", {"x": at(x, 0)}, color=FIGURE.ink),
        layer(data, "rule", {"x": {**x, "field": "low"}, "x2": {"field": "high"}, **y}, strokeWidth=1.6),
        dots(data, {"x": x, **y}, 45),
    ]
    return figure([panel("From small to large", layers, size=(WIDE[0], LINE * len(names)))])


def forms(fitted: FittedTable) -> Spec:
    """Rms deviation of every form on configurations left out, with that in sample."""
    scores = [one for one in studies.forms(fitted.table).scores if np.isfinite(one.left_out.rms)]
    names = [f"{one.title} ({one.parameters})" for one in scores]
    left_out = [100 * one.left_out.rms for one in scores]
    data = [
        *rows(name=names, hue="in sample", rms=[100 * one.in_sample.rms for one in scores]),
        *rows(name=names, hue="left out", rms=left_out),
    ]
    x = axis("rms", "rms deviation √(μ² + σ²), %", (0, 1.05 * max(row["rms"] for row in data)))
    y = _names(names)
    hues = colour("hue", "configurations", ["in sample", "left out"], FIGURE)
    spans = layer(
        rows(name=names, rms=0, end=left_out),
        "rule",
        {"x": x, "x2": {"field": "end"}, "y": y},
        color=FIGURE.faint,
    )
    title = "Forms, with their number of free parameters"
    layers = [spans, dots(data, {"x": x, "y": y, "color": hues}, 50, clip=False)]
    return figure([panel(title, layers, size=(WIDE[0], LINE * len(names)))])


def dips(fitted: FittedTable) -> Spec:
    """Error over unpruned error: where it falls below one, pruning first helps."""
    measured, own, word = fitted.rows, fitted.hue, fitted.metric.word
    ratio = measured.error / measured.unpruned
    data = list[Row]()
    for index, curve in enumerate(fitted.curves):
        these = fitted.rows.of(curve)
        label = numbers.size(getattr(curve, own.axis))
        data += rows(line=index, hue=label, density=measured.density[these], ratio=ratio[these])
    x = log_axis("density", "density", measured.density)
    y = axis("ratio", f"{word} / unpruned {word}", (0.95 * float(ratio.min()), 1.5))
    encoding = {"x": x, "y": y, "color": own.colour(FIGURE)}
    layers = [
        layer(data, "line", {**encoding, "detail": {"field": "line"}}, strokeWidth=1),
        dots(data, encoding, 12),
        fixed("rule", {"y": at(y, 1)}, color=FIGURE.ink),
    ]
    return figure([panel(f"Measured {word} over the unpruned {word}", layers, size=WIDE)])
