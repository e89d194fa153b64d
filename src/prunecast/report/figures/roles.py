"""The law explained on one curve: its three regions, and what each parameter does."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from prunecast.laws.formulas import pruned_error, transitions
from prunecast.laws.points import Floats
from prunecast.report.figures.sources import Source
from prunecast.report.figures.style import GREY, legend, log_axis, panels, shades

VARIED = {"unpruned error": (0.5, 1, 2), "ε↑": (0.6, 0.8, 1), "γ": (0.6, 1, 1.6), "p": (0.3, 1, 3)}
"""Factors by which each parameter is varied."""
LOW, HIGH = 1.1, 0.9


def _curve(density: Floats, unpruned: float, high_error: float, gamma: float, p: float) -> Floats:
    height = np.log(high_error / unpruned)
    high, low = transitions(height, gamma, np.log(p), 0.0)
    return np.asarray(np.exp(pruned_error(np.log(unpruned), density**-2.0, high, low, gamma).log_error))


def _example(source: Source) -> dict[str, float]:
    """The configuration with the lowest unpruned error, as Eq. 1 in its density."""
    best = min(source.eq2.configurations, key=lambda c: c.unpruned_error)
    own = source.eq2.parameters
    scale = (
        own.get("phi", 0.0) * np.log(best.depth)
        + own.get("psi", 0.0) * np.log(best.width)
        + own.get("nu", 0.0) * np.log(best.num_examples / source.eq2.reference_examples)
    )
    return {
        "unpruned error": best.unpruned_error,
        "ε↑": own["high_error"],
        "γ": own["gamma"],
        "p": own["p"] / float(np.exp(scale)),
    }


def regions_and_roles(source: Source) -> Figure:
    """The three regions of a curve with their marks, and the curve again with one parameter varied at a time."""
    own = _example(source)
    density = np.geomspace(max(own["p"] / 8, 1e-6), 1, 300)
    figure, axes = panels(1 + len(VARIED))
    _regions(axes[0], density, own)
    for panel, (name, factors) in zip(axes[1:], VARIED.items(), strict=True):
        shade = shades([float(factor) for factor in factors])
        for factor in factors:
            varied = {**own, name: own[name] * factor}
            panel.plot(
                density,
                _curve(density, *varied.values()),
                color=shade[float(factor)],
                label=f"{varied[name]:.3g}",
            )
        panel.set(title=f"what {'the ' * (' ' in name)}{name} does", xlabel="density", ylabel="error")
        log_axis(panel.xaxis, density)
        log_axis(panel.yaxis, [own["unpruned error"] * 0.45, own["ε↑"] * 1.15])
        legend(panel, name)
    return figure


def _regions(panel: Axes, density: Floats, own: dict[str, float]) -> None:
    error = _curve(density, *own.values())
    edges = [density[error > HIGH * own["ε↑"]], density[error < LOW * own["unpruned error"]]]
    left = float(edges[0].max()) if len(edges[0]) else float(density[0])
    right = float(edges[1].min()) if len(edges[1]) else 1.0
    panel.plot(density, error, color=shades([1.0])[1.0], linewidth=2.4)
    panel.axvline(own["p"], color=GREY, linestyle=":", linewidth=1)
    panel.text(own["p"] * 1.06, own["unpruned error"] * 1.6, "p", color=GREY, fontsize=10)
    middle = float(np.sqrt(left * right))
    for name, place in (("unpruned error", own["p"] * 1.15), ("ε↑", middle)):
        panel.axhline(own[name], color=GREY, linestyle="--", linewidth=0.9)
        panel.text(place, own[name] * 1.03, name, color=GREY, fontsize=9, va="bottom")
    panel.text(middle * 1.25, float(np.interp(middle, density, error)), "slope −γ", fontsize=10)
    for start, end, name in (
        (density[0], left, "high\nplateau"),
        (left, right, "power law"),
        (right, 1.0, "low\nplateau"),
    ):
        panel.axvspan(start, end, color=GREY, alpha=0.09 if name == "power law" else 0.0, lw=0)
        if end / start > 1.3:
            panel.text(
                float(np.sqrt(start * end)),
                0.02,
                name,
                fontsize=8.5,
                ha="center",
                color=GREY,
                transform=panel.get_xaxis_transform(),
            )
    panel.set(title="the three regions of Eq. 2", xlabel="density", ylabel="error")
    log_axis(panel.xaxis, density)
    log_axis(panel.yaxis, [own["unpruned error"] * 0.7, own["ε↑"] * 1.15])
