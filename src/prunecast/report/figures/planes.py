"""Figures of planes: contours of constant error, the unpruned error with its law, and the frontier."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from prunecast.choice import frontier
from prunecast.errors import PrunecastError
from prunecast.laws.points import Floats
from prunecast.laws.result import Configuration
from prunecast.report import words
from prunecast.report.curves import Curve, curves, family
from prunecast.report.figures.dots import dots, key
from prunecast.report.figures.sources import Source
from prunecast.report.figures.style import FAINT, heading, legend, log_axis, panels, shades

LEVELS = 6
Own = tuple[float, Curve, NDArray[np.bool_]]


def contours(source: Source) -> Figure:
    """Where the error is constant, in the planes of density with width, depth and dataset size."""
    names = source.varying()
    if not names:
        raise PrunecastError("one size alone was measured, so there are no contours")
    figure, axes = panels(len(names))
    for panel, name in zip(axes, names, strict=True):
        own = list(source.along(name))
        highest = max(float(source.rows.unpruned[rows][0]) for _, _, rows in own)
        low = min(float(source.rows.unpruned[rows][0]) for _, _, rows in own) * 1.2
        levels = np.geomspace(low, max(highest, 0.8 * source.fit.parameters["high_error"]), LEVELS)
        shade = shades(levels.tolist())
        for level in levels:
            _contour(panel, source, own, float(level), shade[float(level)])
        panel.set(
            title=f"density against {words.axis(name)}{source.held(name)}",
            xlabel=words.axis(name),
            ylabel="density",
        )
        log_axis(panel.xaxis, [value for value, _, _ in own], margin=1.15)
        log_axis(panel.yaxis, [*source.rows.density])
        legend(panel, "error")
    heading(figure, f"constant error: measured (dots) and {source.name} (lines)")
    return figure


def _contour(panel: Axes, source: Source, own: list[Own], level: float, colour: str) -> None:
    """Dots where measured curves cross an error, a line where the law does."""
    sizes, measured, law = [], [], []
    for value, curve, rows in own:
        sizes.append(value)
        measured.append(_crossing(source.rows.density[rows], source.rows.error[rows], level))
        law.append(_crossing(curve.density, curve.error, level))
    panel.plot(sizes, law, color=colour, linewidth=1.4)
    panel.plot(sizes, measured, "o", color=colour, label=f"{level:.2g}")


def _crossing(density: Floats, error: Floats, level: float) -> float:
    """The lowest density at which a curve crosses an error, between its points; NaN where it never does."""
    order = np.argsort(density)
    d, e = np.log(density[order]), np.log(error[order])
    above = e > np.log(level)
    at = np.flatnonzero(above[:-1] & ~above[1:])
    if not len(at):
        return float("nan")
    i = int(at[0])
    share = (np.log(level) - e[i]) / (e[i + 1] - e[i])
    return float(np.exp(d[i] + share * (d[i + 1] - d[i])))


def dense_error(source: Source) -> Figure:
    """Unpruned errors against the number of weights, with the dense law where there are enough of them."""
    known = source.fit.configurations
    examples = sorted({c.num_examples for c in known})
    shade = shades(examples)
    figure, (panel,) = panels(1)
    for n in examples:
        own = sorted((c for c in known if c.num_examples == n), key=lambda c: c.weights)
        sizes = np.array([c.weights for c in own])
        panel.plot(sizes, [c.unpruned_error for c in own], "o", color=shade[n], label=words.size(n))
        if source.fit.dense is not None and len(sizes) > 1:
            grid = np.geomspace(sizes.min(), sizes.max(), 100)
            panel.plot(grid, source.fit.dense.predict(grid, np.array(n)), color=shade[n])
    law = "no law: too few configurations" if source.fit.dense is None else "the dense law (lines)"
    panel.set(title=f"unpruned networks (dots) and {law}", xlabel=_unit(known), ylabel="unpruned error")
    log_axis(panel.xaxis, [c.weights for c in known], margin=1.2)
    log_axis(panel.yaxis, [c.unpruned_error for c in known])
    legend(panel, "training examples")
    return figure


def _unit(known: Sequence[Configuration]) -> str:
    """Weights where the table counts them, else what they are in proportion to."""
    counted = not np.allclose([c.weights for c in known], [c.depth * c.width**2 for c in known], rtol=1e-9)
    return "weights" if counted else "depth · width², in proportion to the weights"


def the_frontier(source: Source) -> Figure:
    """Error against stored parameters: every member's curve, what was measured, and the fewest for each error."""
    axis, shade = source.hue.axis, shades(source.hue.values)
    members = family(source.fit, None)
    lines = curves(source.fit, members)
    figure, (panel,) = panels(1, size=(7.8, 4.8))
    for curve in lines:
        known = curve.measured and getattr(curve, axis) in shade
        colour = shade[getattr(curve, axis)] if known else FAINT
        panel.plot(
            curve.size, curve.error, color=colour, linewidth=1.2 if known else 0.5, zorder=2 if known else 1
        )
    here = np.isclose(source.rows.num_examples, members.num_examples[0])
    dots(panel, source, source.rows.size, here)
    best = frontier(source.fit)
    panel.plot(best.size, best.error, color="#1B1F24", linewidth=2.6, zorder=4)
    panel.set(
        title=f"the frontier (thick) by {source.name}: fewest parameters for each error",
        xlabel="stored parameters",
    )
    panel.set_ylabel("test error")
    log_axis(panel.xaxis, source.rows.size[here], margin=1.15)
    log_axis(panel.yaxis, [*source.rows.error[here], best.error.min()])
    key(panel, source, here)
    return figure
