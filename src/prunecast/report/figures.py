"""The figures of the paper that a table allows, each as PDF, PNG and SVG.

A figure is one Vega-Lite specification of one or several panels. Where the page shows the same, the panel comes from
the same builder in `charts`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from prunecast import choice, studies
from prunecast.errors import PrunecastError
from prunecast.files import replace_file
from prunecast.laws import AUTO, DEFAULT_LAW, HIGH_EDGE, LOW_EDGE, Fit, Floats, Role, fit, get_law
from prunecast.report import charts
from prunecast.report.charts import FittedTable, Hue
from prunecast.report.curves import AXES, Curve, Slice, curves, family
from prunecast.report.latex import latex_figure
from prunecast.report.vega import (
    FIGURE,
    SMALL,
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
    rendered,
    rows,
    share_y,
)
from prunecast.table import CONFIGURATION, Table
from prunecast.text import plural
from prunecast.wording import numbers

LEVELS = 6
"""Contours of constant error in a panel."""
VARIED = {Role.PLATEAU: (0.6, 0.8, 1.0), Role.SLOPE: (0.6, 1.0, 1.6), Role.SCALE: (0.3, 1.0, 3.0)}
"""Factors by which parameters are varied to show what they do."""
LINE = 30
"""Height of one entry on an axis of names."""
ALONG = {"networks": "depth and width", "paper": "the paper's sizes"}
"""Ways from small to large that are not one axis."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """One figure: its files, or why the table does not allow it."""

    name: str
    paths: tuple[Path, ...]
    missing: str | None
    left_out: tuple[str, ...] = ()
    """panels that the table does not allow, each with the reason"""


def draw_figures(
    table: Table, folder: Path, *, law: str = AUTO, only: tuple[str, ...] = (), latex: bool = False
) -> list[Drawn]:
    """Draw every figure, or only some, into a folder, with the law that answers use unless another is named.

    With `latex`, each also has a .tex file with a figure environment that includes its PDF.
    """
    unknown = [name for name in only if name not in FIGURES]
    if unknown:
        raise PrunecastError(f"no figure is called {unknown[0]!r}; the figures are {', '.join(FIGURES)}")
    fitted = FittedTable(table=table, fit=fit(table, law=law))
    folder.mkdir(parents=True, exist_ok=True)
    return [_drawn(name, fitted, folder, latex=latex) for name in FIGURES if not only or name in only]


def _drawn(name: str, fitted: FittedTable, folder: Path, *, latex: bool) -> Drawn:
    try:
        spec = FIGURES[name](fitted)
    except PrunecastError as problem:
        return Drawn(name=name, paths=(), missing=str(problem))
    about = (FIGURES[name].__doc__ or name).partition("\n")[0]
    caption = f"{about} Table: {fitted.table.source}." if latex else ""
    return Drawn(name=name, paths=write_figure(spec, name, folder, caption), missing=None)


def write_figure(spec: Spec, name: str, folder: Path, caption: str = "") -> tuple[Path, ...]:
    """Write a figure as PDF, PNG and SVG, with a caption also as a .tex file; returns the paths."""
    files = {folder / f"{name}.{kind}": content for kind, content in rendered(spec).items()}
    if caption:
        files[folder / f"{name}.tex"] = latex_figure(name, caption).encode()
    for path, content in files.items():
        replace_file(path, content)
    return tuple(files)


def error_layers(fitted: FittedTable, along: str, title: str, only: Slice | None = None) -> list[Spec]:
    """Measured errors and fitted curves, of all networks or of a slice, against density or the invariant."""
    shown, drawn, own = fitted.rows, fitted.curves, fitted.hue
    if only is not None:
        shown = fitted.rows[np.logical_or.reduce([fitted.rows.of(curve) for curve in only.curves])]
        drawn, own = list(only.curves), Hue(axis=only.axis, values=only.sizes)
    return layers_of(charts.error_chart(shown, drawn, own, along, fitted.metric, title=title, theme=FIGURE))


def held(own: Slice) -> str:
    """The sizes of a slice in words."""
    return ", ".join(f"{numbers.axis(name)} {numbers.size(value)}" for name, value in own.held.items())


def error_against_density(fitted: FittedTable) -> Spec:
    """Measured errors and the law by width, depth and dataset size, the other two held."""
    title = f"Measured (dots) and {fitted.fit.title} (lines)"
    if not fitted.slices:
        return figure([panel(title, error_layers(fitted, "density", "density"), size=WIDE)])
    panels = [
        panel(f"By {numbers.axis(one.axis)}", error_layers(fitted, "density", "density", one), held(one))
        for one in fitted.slices
    ]
    return figure(share_y(panels), title)


def error_against_invariant(fitted: FittedTable) -> Spec:
    """The same networks against density and against m*: past their low plateaus they fall together."""
    if not fitted.fit.axes:
        why = f"{fitted.fit.title} does not have one" if fitted.slices else "only one size was measured"
        raise PrunecastError(f"there is no invariant to show: {why}")
    formula = f"m* = {charts.invariant_formula(fitted.fit)}"
    titles = (f"Measured (dots) and {fitted.fit.title} (lines)", "The same networks against the invariant")
    panels = [
        panel(titles[0], error_layers(fitted, "density", "density"), size=WIDE),
        panel(titles[1], error_layers(fitted, "m", formula), size=WIDE),
    ]
    return figure(share_y(panels), one_legend=True)


def estimated_against_actual(fitted: FittedTable) -> Spec:
    """Every measured error with the law's prediction, and the histogram of the deviations."""
    layers = layers_of(charts.estimate_chart(fitted.rows, fitted.fit, fitted.hue, fitted.metric, FIGURE))
    own, off = fitted.fit.deviation, 100 * fitted.rows.deviation
    edges = np.histogram_bin_edges(off, bins=min(40, max(8, len(off) // 8)))
    heights = np.histogram(off, edges)[0]
    x = axis("start", "(predicted − measured) / measured, %", (edges[0], edges[-1]))
    y = axis("height", "rows", (0, 1.05 * heights.max()))
    if heights.max() < 6:
        y["axis"]["values"] = list(range(heights.max() + 1))
    histogram = [
        bars(bins(edges, heights), {"x": x, "y": y}, color=FIGURE.series[0], stroke=FIGURE.paper),
        fixed("rule", {"x": at(x, 0)}, color=FIGURE.ink),
    ]
    found = f"μ = {numbers.percent(own.mean, sign=True)}, σ = {numbers.percent(own.std)}"
    return figure(
        [
            panel(f"Predicted by {fitted.fit.title} against measured", layers, found),
            panel("Deviations", histogram, plural(len(off), "row")),
        ]
    )


def contours(fitted: FittedTable) -> Spec:
    """Where the error is constant, in the planes of density with width, depth and dataset size."""
    if not fitted.slices:
        raise PrunecastError("only one size was measured, so there are no contours")
    heading = f"Constant {fitted.metric.word}: measured (dots) and {fitted.fit.title} (lines)"
    panels = [
        panel(f"Density against {numbers.axis(one.axis)}", _contour_layers(fitted, one), held(one))
        for one in fitted.slices
    ]
    return figure(panels, heading)


def _contour_layers(fitted: FittedTable, one: Slice) -> list[Spec]:
    """Dots where measured curves cross an error, lines where the law does."""
    points = [fitted.rows[fitted.rows.of(curve)] for curve in one.curves]
    unpruned = [float(own.unpruned[0]) for own in points]
    highest = max(*unpruned, 0.8 * fitted.fit.high_error)
    levels = {f"{level:.2g}": float(level) for level in np.geomspace(1.2 * min(unpruned), highest, LEVELS)}
    measured, law = list[Row](), list[Row]()
    for name, level in levels.items():
        for found, own in ((measured, points), (law, one.curves)):
            crossed = [crossing(each.density, each.error, level) for each in own]
            found += [row for row in rows(hue=name, size=one.sizes, density=crossed) if row["density"]]
    x = log_axis("size", numbers.axis(one.axis), one.sizes, margin=1.15)
    y = log_axis("density", "density", fitted.rows.density)
    encoding = {"x": x, "y": y, "color": colour("hue", fitted.metric.word, list(levels), FIGURE)}
    return [layer(law, "line", encoding, strokeWidth=1.4), dots(measured, encoding)]


def crossing(density: Floats, error: Floats, level: float) -> float:
    """The lowest density at which a curve crosses an error, between its points; NaN where it never does."""
    order = np.argsort(density)
    places, errors = np.log(density[order]), np.log(error[order])
    for (left, high), (right, low) in pairwise(zip(places, errors, strict=True)):
        if high > np.log(level) >= low:
            return float(np.exp(left + (np.log(level) - high) / (low - high) * (right - left)))
    return float("nan")


def dense_error(fitted: FittedTable) -> Spec:
    """Unpruned errors against the number of weights, with the dense law at the usual depth if there are enough."""
    known, dense = fitted.fit.configurations, fitted.fit.dense
    sizes, errors = [c.weights for c in known], [c.unpruned_error for c in known]
    examples = sorted({c.num_examples for c in known})
    law = list[Row]()
    depths = [c.depth for c in known]
    depth = max(set(depths), key=depths.count)
    for n in examples:
        own = [c.weights for c in known if c.num_examples == n]
        if dense is not None and len(own) > 1:
            grid = np.geomspace(min(own), max(own), 100)
            law += rows(
                hue=numbers.size(n), size=grid, error=dense.predict(grid, np.array(n), np.array(depth))
            )
    measured = rows(hue=[numbers.size(c.num_examples) for c in known], size=sizes, error=errors)
    unit = "weights" if fitted.fit.counted else "depth · width², proportional to the weights"
    encoding = {
        "x": log_axis("size", unit, sizes, margin=1.2),
        "y": log_axis("error", f"unpruned {fitted.metric.word}", [*errors, *(row["error"] for row in law)]),
        "color": colour("hue", numbers.axis("num_examples"), [numbers.size(n) for n in examples], FIGURE),
    }
    layers = [layer(law, "line", encoding, strokeWidth=1.4), dots(measured, encoding)]
    at_depth = f" at depth {depth:g}" if len(set(depths)) > 1 else ""
    title = "Unpruned networks (dots) and " + (
        f"the dense law{at_depth} (lines)" if law else "no law: too few of them"
    )
    return figure([panel(title, layers, size=WIDE)])


def frontier(fitted: FittedTable) -> Spec:
    """Error against size: each network's curve, what was measured, and the smallest network for each error."""
    members, best = family(fitted.fit), choice.frontier(fitted.fit)
    predicted = curves(fitted.fit, members)
    measured = fitted.rows[np.isclose(fitted.rows.num_examples, members.num_examples[0])]
    hue = charts.hue_along({name: getattr(measured, name) for name in AXES})
    known, others = ([c for c in predicted if c.measured is which] for which in (True, False))
    data = charts.frontier_data(measured, known, others, list(zip(best.size, best.error, strict=True)), hue)
    unit = charts.size_title("stored", counted=best.naming.counted)
    layers = layers_of(charts.frontier_chart(data, hue, unit, fitted.metric, theme=FIGURE))
    title = f"The frontier (thick) by {fitted.fit.title}: the smallest network for each {fitted.metric.word}"
    return figure([panel(title, layers, size=(560, 360))])


def regions_and_roles(fitted: FittedTable) -> Spec:
    """The three regions of a curve, and the curve again with one parameter varied at a time.

    A law that may dip has no low plateau, so the default law is used instead. The law is fitted alone: in an average
    over several laws, a varied parameter would change only one of them.
    """
    law = fit(fitted.table, law=DEFAULT_LAW if fitted.fit.dips else fitted.fit.family_law)
    best = min(law.configurations, key=lambda one: one.unpruned_error)
    members = family(law, best.num_examples, "measured").as_measured()
    member = members[np.flatnonzero((members.depth == best.depth) & (members.width == best.width))]
    varied = [own for own in law.form().parameters if own.role in VARIED]
    whole = float(curves(law, member)[0].invariant[0])
    scale = next((own for own in varied if own.role is Role.SCALE), None)
    lowest = best.lowest_density if scale is None else max(law.parameters[scale.name] / whole / 8, 1e-6)
    title = f"m* = {charts.invariant_formula(law)}" if law.axes else "density"

    def predicted(name: str, factor: float) -> Curve:
        """The curve with a parameter, or without a name the unpruned error, times a factor."""
        if not name:
            changed = replace(member, expected_unpruned_error=member.expected_unpruned_error * factor)
            return curves(law, changed, lowest=lowest)[0]
        parameters = {**law.parameters, name: law.parameters[name] * factor}
        return curves(replace(law, parameters=parameters), member, lowest=lowest)[0]

    word, ends = fitted.metric.word, (0.45 * best.unpruned_error, 1.15 * law.high_error)
    shown = [("", f"unpruned {word}", f"{word} of the low plateau", best.unpruned_error, (0.5, 1.0, 2.0))]
    for own in varied:
        meaning = f"{word} of the high plateau" if own.role is Role.PLATEAU else own.meaning
        shown.append((own.name, own.symbol, meaning, law.parameters[own.name], VARIED[own.role]))
    panels = [_regions(law, predicted("", 1.0), best.unpruned_error, title)]
    for name, symbol, what, value, factors in shown:
        found = {f"{value * factor:.3g}": predicted(name, factor) for factor in factors}
        data = [row for label, c in found.items() for row in rows(hue=label, m=c.invariant, error=c.error)]
        encoding = {
            "x": log_axis("m", title, [row["m"] for row in data], margin=1.0),
            "y": log_axis("error", word, ends, margin=1.0),
            "color": colour("hue", symbol, list(found), FIGURE),
        }
        panels.append(
            panel(f"What {'' if name else 'the '}{symbol} does", [layer(data, "line", encoding)], what)
        )
    return figure(panels)


def _regions(law: Fit, curve: Curve, unpruned: float, title: str) -> Spec:
    """One curve with its plateaus, its regions and their names."""
    m, error, high, word = curve.invariant, curve.error, law.high_error, law.metric.word
    left = float(max(m[error > HIGH_EDGE * high], default=m[-1]))
    right = float(min(m[error < LOW_EDGE * unpruned], default=m[0]))
    middle = float(np.sqrt(left * right))
    x = log_axis("m", title, m, margin=1.0)
    y = log_axis("error", word, (0.6 * unpruned, 1.25 * high), margin=1.0)
    own = {one.role: one for one in law.form().parameters}
    start = law.parameters[own[Role.SCALE].name] if Role.SCALE in own else left
    dashed = {"color": FIGURE.muted, "strokeDash": [4, 3]}

    def text(words: str | list[str], across: float, up: Spec, **options: object) -> Spec:
        return fixed("text", {"x": at(x, across), "y": up}, text=words, color=FIGURE.muted, **options)

    plateau = own[Role.PLATEAU].symbol if Role.PLATEAU in own else f"highest {word}"
    layers = [
        fixed("rect", {"x": at(x, left), "x2": {"datum": right}}, color=FIGURE.grid, opacity=0.6),
        fixed("rule", {"y": at(y, unpruned)}, **dashed),
        fixed("rule", {"y": at(y, high)}, **dashed),
        layer(rows(m=m, error=error), "line", {"x": x, "y": y}, color=FIGURE.series[0], strokeWidth=2.4),
        text(plateau, float(m[0]), at(y, high), align="right", dx=-6, dy=-8),
        text(f"unpruned {word}", start, at(y, unpruned), align="left", dx=6, dy=-8),
    ]
    if Role.SLOPE in own:
        steep = float(np.interp(middle, m[::-1], error[::-1]))
        layers.append(text(f"slope −{own[Role.SLOPE].symbol}", middle, at(y, steep), align="left", dx=12))
    if Role.SCALE in own:
        layers.append(fixed("rule", {"x": at(x, start)}, **dashed))
        half = at(y, float(np.sqrt(unpruned * high)))
        layers.append(text(own[Role.SCALE].symbol, start, half, align="left", dx=6))
    spans = (
        (m[-1], left, ["high", "plateau"]),
        (left, right, ["power law"]),
        (right, m[0], ["low", "plateau"]),
    )
    for low, up, words in spans:
        if np.log(up / low) > 0.15 * np.log(m[0] / m[-1]):
            place = {"value": SMALL[1] - 4 - 14 * len(words)}
            layers.append(text(words, float(np.sqrt(low * up)), place, baseline="top"))
    return panel(
        f"The three regions of {law.title}", layers, f"of the network with the least unpruned {word}"
    )


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


FIGURES: dict[str, Callable[[FittedTable], Spec]] = {
    "error-against-density": error_against_density,
    "estimated-against-actual": estimated_against_actual,
    "regions-and-roles": regions_and_roles,
    "contours": contours,
    "error-against-invariant": error_against_invariant,
    "replicates-spread": replicates_spread,
    "dense-error": dense_error,
    "sensitivity": sensitivity,
    "extrapolation": extrapolation,
    "forms": forms,
    "dips": dips,
    "frontier": frontier,
}
