"""Figures of the studies: replicates' spread, sensitivity bands, extrapolation, forms compared, dips."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from prunecast import studies
from prunecast.errors import PrunecastError
from prunecast.report import words
from prunecast.report.figures.sources import Source
from prunecast.report.figures.style import FAINT, GREY, heading, legend, log_axis, panels, shades
from prunecast.studies import Sample
from prunecast.table import CONFIGURATION


def replicates_spread(source: Source) -> Figure:
    """The spread of replicates around their mean against density, beside the law's own deviations."""
    frame = source.table.frame
    chance = np.inf if source.table.chance is None else source.table.chance
    kept = frame[frame["error"] < chance]
    grouped = kept.groupby([*CONFIGURATION, "level"])["error"]
    several = grouped.transform("size") > 1
    if not several.any():
        raise PrunecastError("no network was trained twice, so there is no spread of replicates")
    relative = 100 * (kept["error"] / grouped.transform("mean") - 1)[several]
    figure, (left, right) = panels(2)
    left.plot(kept["density"][several], relative, "o", color=shades([1.0])[1.0], alpha=0.5)
    left.set(title="replicates around their mean", xlabel="density", ylabel="deviation, %")
    log_axis(left.xaxis, frame["density"])
    bins = np.histogram_bin_edges(np.r_[relative, 100 * source.rows.deviation], bins=30).tolist()
    right.hist(relative, bins=bins, density=True, color=shades([1.0])[1.0], alpha=0.6, label="replicates")
    right.hist(
        100 * source.rows.deviation, bins=bins, density=True, histtype="step", color=GREY, label=source.name
    )
    right.set(
        title=f"the deviations of {source.name} beside them",
        xlabel="deviation, %",
        ylabel="density of networks",
    )
    legend(right, "")
    return figure


def sensitivity_bands(source: Source) -> Figure:
    """σ over all rows against how many networks, or whole configurations, were fitted: mean and one deviation."""
    found = studies.sensitivity(source.table, law=source.fit.law if source.fit.law != "eq1" else "eq2")
    figure, axes = panels(2)
    pairs = (("points", "networks fitted"), ("configurations", "configurations fitted"))
    for panel, (what, title) in zip(axes, pairs, strict=True):
        counts = []
        for name, label, colour in zip(
            (f"random_{what}", f"designed_{what}"),
            ("at random", "by design"),
            shades([0.0, 1.0]).values(),
            strict=True,
        ):
            own = getattr(found, name)
            counts += [one.count for one in own]
            _band(panel, own, label, colour)
        panel.axhline(100 * found.full.std, color=GREY, linestyle="--", linewidth=1)
        panel.set(title=f"{title}, {found.repeats} repeats", xlabel=title, ylabel="σ of the deviation, %")
        panel.set_ylim(0, 100 * max(3 * found.full.std, 0.1))
        log_axis(panel.xaxis, counts)
        legend(panel, "chosen")
    heading(figure, f"what {source.name} makes of fewer measurements")
    return figure


def _band(panel: Axes, samples: tuple[Sample, ...], label: str, colour: str) -> None:
    counts = [one.count for one in samples]
    mean, std = (
        100 * np.array([getattr(one, name) for one in samples]) for name in ("mean_sigma", "std_sigma")
    )
    panel.fill_between(counts, np.maximum(mean - std, 0), mean + std, color=colour, alpha=0.2, lw=0)
    panel.plot(counts, mean, "o-", color=colour, label=label)


def extrapolation(source: Source) -> Figure:
    """Deviation on the larger half of the sizes after fitting the smaller half, beside that on the fitted half."""
    found = studies.extrapolation(source.table)
    figure, (panel,) = panels(1, size=(8.0, 3.9))
    names = [f"{words.axis(step.along)},\n{words.LAWS[step.law]}" for step in found.steps]
    places = np.arange(len(names))
    shade = list(shades([0.0, 1.0]).values())
    for offset, which, colour in ((-0.15, "fitted", shade[0]), (0.15, "predicted", shade[1])):
        own = [getattr(step, which) for step in found.steps]
        panel.errorbar(
            [100 * one.mean for one in own],
            places + offset,
            xerr=[100 * one.std for one in own],
            fmt="o",
            color=colour,
            capsize=3,
            label="smaller half, fitted" if which == "fitted" else "larger half, predicted",
        )
    panel.axvline(0, color=GREY, linewidth=1)
    panel.set_yticks(places, names)
    panel.invert_yaxis()
    panel.set(title="from small to large", xlabel="deviation μ ± σ, %")
    legend(panel, "")
    return figure


def forms_compared(source: Source) -> Figure:
    """Rms deviation of every form on configurations left out, beside that in sample."""
    found = studies.forms(source.table)
    scores = [one for one in found.scores if np.isfinite(one.left_out.rms)]
    figure, (panel,) = panels(1, size=(8.0, 0.42 * len(scores) + 1.6))
    places = np.arange(len(scores))
    shade = list(shades([0.0, 1.0]).values())
    panel.hlines(places, 0, [100 * one.left_out.rms for one in scores], color=FAINT, linewidth=1)
    panel.plot([100 * one.in_sample.rms for one in scores], places, "o", color=shade[0], label="in sample")
    panel.plot([100 * one.left_out.rms for one in scores], places, "o", color=shade[1], label="left out")
    panel.set_yticks(places, [f"{one.title} ({one.parameters})" for one in scores])
    panel.invert_yaxis()
    panel.set_xlim(left=0)
    panel.set(title="forms, with their number of free parameters", xlabel="rms deviation √(μ² + σ²), %")
    legend(panel, "")
    return figure


def dips(source: Source) -> Figure:
    """Error over unpruned error: where it falls below one, pruning first helps."""
    axis, values = source.hue.axis, source.hue.values
    shade, rows = shades(values), source.rows
    figure, (panel,) = panels(1)
    for curve in source.curves:
        own = source.own(curve)
        order = np.argsort(-rows.density[own])
        ratio = (rows.error[own] / rows.unpruned[own])[order]
        panel.plot(
            rows.density[own][order],
            ratio,
            "o-",
            color=shade[getattr(curve, axis)],
            linewidth=1,
            markersize=2.5,
        )
    for value in values:
        panel.plot([], [], "o", color=shade[value], label=words.size(value))
    panel.axhline(1, color=GREY, linewidth=1)
    panel.set(title="error over the unpruned error", xlabel="density", ylabel="error / unpruned error")
    log_axis(panel.xaxis, rows.density)
    panel.set_ylim(float((rows.error / rows.unpruned).min()) * 0.95, 1.5)
    legend(panel, words.axis(axis))
    return figure
