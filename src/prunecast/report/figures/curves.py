"""Figures of curves: error against density and against the invariant, and estimated against actual."""

import numpy as np
from matplotlib.figure import Figure

from prunecast.errors import PrunecastError
from prunecast.report import words
from prunecast.report.figures.dots import dots, key
from prunecast.report.figures.sources import Source
from prunecast.report.figures.style import FAINT, GREY, heading, legend, log_axis, panels, shades


def error_against_density(source: Source) -> Figure:
    """Measured errors (dots) and the law (lines) by width, depth and dataset size, the other two held."""
    axes_names = source.varying()
    if not axes_names:
        return _single(source)
    figure, axes = panels(len(axes_names), shared=True)
    for panel, name in zip(axes, axes_names, strict=True):
        own = list(source.along(name))
        shade = shades([value for value, _, _ in own])
        for value, curve, rows in own:
            panel.plot(curve.density, curve.error, color=shade[value])
            panel.plot(
                source.rows.density[rows],
                source.rows.error[rows],
                "o",
                color=shade[value],
                label=words.size(value),
            )
        panel.set(title=f"by {words.axis(name)}{source.held(name)}", xlabel="density")
        log_axis(panel.xaxis, source.rows.density)
        log_axis(panel.yaxis, source.rows.error)
        legend(panel, words.axis(name))
    axes[0].set_ylabel("test error")
    heading(figure, f"measured (dots) and {source.name} (lines)")
    return figure


def _single(source: Source) -> Figure:
    figure, (panel,) = panels(1)
    panel.plot(source.curves[0].density, source.curves[0].error, color=shades([1.0])[1.0])
    panel.plot(source.rows.density, source.rows.error, "o", color=shades([1.0])[1.0])
    panel.set(title=f"measured (dots) and {source.name} (line)", xlabel="density", ylabel="test error")
    log_axis(panel.xaxis, source.rows.density)
    log_axis(panel.yaxis, source.rows.error)
    return figure


def error_against_invariant(source: Source) -> Figure:
    """The same networks against density and against m*: past their low plateaus they fall together."""
    if not source.fit.axes:
        raise PrunecastError("one size alone was measured, so there is no invariant to show")
    axis, shade, rows = source.hue.axis, shades(source.hue.values), source.rows
    figure, (left, right) = panels(2, shared=True)
    for panel, x, curve_x in ((left, rows.density, "density"), (right, rows.invariant, "invariant")):
        for curve in source.curves:
            panel.plot(
                getattr(curve, curve_x),
                curve.error,
                color=shade[getattr(curve, axis)],
                linewidth=1,
                alpha=0.7,
            )
        dots(panel, source, x)
        log_axis(panel.xaxis, x)
        log_axis(panel.yaxis, rows.error)
    left.set(title=f"measured (dots) and {source.name} (lines)", xlabel="density", ylabel="test error")
    right.set(title="the same networks against the invariant", xlabel=_invariant(source))
    key(right, source)
    return figure


def _invariant(source: Source) -> str:
    names = {"depth": ("depth", "phi"), "width": ("width", "psi"), "num_examples": ("(n/N)", "nu")}
    own = source.fit.parameters
    factors = [f"{names[axis][0]}^{words.number(own[names[axis][1]])}" for axis in source.fit.axes]
    return "m* = " + " · ".join([*factors, "density"])


def estimated_against_actual(source: Source) -> Figure:
    """Every measured error beside the law's estimate, with one σ to either side, and the deviations' histogram."""
    axis, values = source.hue.axis, source.hue.values
    shade, rows, deviation = shades(values), source.rows, source.fit.deviation
    figure, (left, right) = panels(2)
    ends = np.array([rows.error.min() * 0.94, rows.error.max() * 1.06])
    left.fill_between(
        ends, ends * (1 - deviation.std), ends * (1 + deviation.std), color=FAINT, alpha=0.5, lw=0
    )
    left.plot(ends, ends, color=GREY, linewidth=1)
    for value in values:
        own = np.isclose(getattr(rows, axis), value)
        left.plot(rows.error[own], rows.estimate[own], "o", color=shade[value], label=words.size(value))
    left.set(
        title=f"μ = {words.percent(deviation.mean, sign=True)}, σ = {words.percent(deviation.std)}",
        xlabel="measured error",
        ylabel=f"error by {source.name}",
    )
    log_axis(left.xaxis, rows.error)
    log_axis(left.yaxis, [*rows.error, *rows.estimate])
    legend(left, words.axis(axis))
    right.hist(
        100 * rows.deviation, bins=min(40, max(8, len(rows) // 8)), color=shades([1.0])[1.0], alpha=0.85
    )
    right.axvline(0, color=GREY, linewidth=1)
    right.set(
        title=f"deviation of {words.plural(len(rows), 'network')}",
        xlabel="(estimate − measured) / measured, %",
    )
    right.set_ylabel("networks")
    return figure
