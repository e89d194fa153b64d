"""The panels of the paper's figures: a function of a table's `Paper` for each, in the order of the figures."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from prunecast import studies
from prunecast.errors import PrunecastError
from prunecast.laws import (
    DEFAULT_LAW,
    Floats,
    Mask,
    Role,
    deviation,
    get_law,
    held_out_deviations,
    in_sample,
    measured,
    rivals,
)
from prunecast.report.charts import Hue
from prunecast.report.curves import AXES, Rows, curves, family
from prunecast.report.figures import LEVELS, crossing
from prunecast.report.paper_source import (
    BLUE,
    DASHED,
    DOTTED,
    RED,
    Paper,
    Part,
    Shape,
    coloured,
    correlation_panel,
    curves_panel,
    knees,
    note,
    replicates_panel,
    shape,
    shape_notes,
    summary,
)
from prunecast.report.vega import (
    FIGURE,
    SMALL,
    Row,
    Spec,
    at,
    axis,
    colour,
    dots,
    fixed,
    layer,
    log_axis,
    panel,
    rows,
)
from prunecast.wording import numbers

RIVAL = "rosenfeld-density"
DENSITIES = 80
"""Points of a smooth curve."""

# Figure 1: one curve, its regions, and the roles of its parameters.


def pruning_curves(paper: Paper, along: str) -> Spec:
    """Measured curves along one axis."""
    part = paper.part(along)
    return curves_panel(
        f"By {numbers.axis(along)}", part.rows, part.hue, paper.metric.word, subtitle=part.where
    )


def regions(paper: Paper) -> Spec:
    """One measured curve with Eq. 1 and its sketch of three straight lines."""
    own = paper.example
    found = paper.single_rows[paper.single_rows.of(own)]
    x, y, shaped = _example_axes(paper)
    high, (left, right) = shaped[Role.PLATEAU], knees(shaped, own.unpruned_error)
    low, ends = own.unpruned_error, x["scale"]["domain"]
    sketch = rows(x=[ends[0], left, right, ends[1]], error=[high, high, low, low])
    smooth = _example_curve(paper, x)
    layers = [
        *(fixed("rule", {"x": at(x, place)}, **DASHED) for place in (left, right)),
        layer(sketch, "line", {"x": x, "y": y}, **DOTTED, strokeWidth=1.6),
        layer(smooth, "line", {"x": x, "y": y}, color=BLUE, strokeWidth=1.6),
        dots(rows(x=found.density, error=found.error), {"x": x, "y": y}, 22, color=FIGURE.ink),
    ]
    spans = ((ends[0], left, "high plateau"), (left, right, "power law"), (right, ends[1], "low plateau"))
    for start, end, words in spans:
        if end / start > (ends[1] / ends[0]) ** 0.12:
            place = {"x": at(x, float(np.sqrt(start * end))), "y": {"value": SMALL[1] - 32}}
            layers.append(fixed("text", place, text=words.split(), baseline="top", color=FIGURE.muted))
    title = f"Measured (dots), {paper.example_law} (blue), piecewise (dotted)"
    return panel(title, layers, _sizes(own))


def roles(paper: Paper) -> Spec:
    """Eq. 1 with the places of its parameters."""
    own = paper.example
    x, y, shaped = _example_axes(paper)
    names = {one.role: one.symbol for one in get_law(DEFAULT_LAW).parameters}
    labels = {Role.PLATEAU: names[Role.PLATEAU], Role.SLOPE: f"slope −{names[Role.SLOPE]}", Role.SCALE: "p"}
    layers = [
        layer(_example_curve(paper, x), "line", {"x": x, "y": y}, color=BLUE, strokeWidth=2.2),
        *shape_notes(x, y, shaped, own.unpruned_error, labels),
        fixed("rule", {"y": at(y, own.unpruned_error)}, **DASHED),
        note("ε_np", {"value": 4}, at(y, own.unpruned_error), dy=10),
    ]
    return panel("Eq. 1 and its parameters", layers, _sizes(own))


def _sizes(own: object) -> str:
    return ", ".join(f"{numbers.axis(name)} {numbers.size(getattr(own, name))}" for name in AXES)


def _example_axes(paper: Paper) -> tuple[Spec, Spec, Shape]:
    """The axes of the example's panels, and the shape of its curve."""
    own, shaped = paper.example, shape(paper.example)
    found = paper.single_rows[paper.single_rows.of(own)]
    lowest = max(min(float(found.density.min()), shaped[Role.SCALE] / 4), float(found.density.min()) / 20)
    x = log_axis("x", "density", [lowest, 1.0])
    y = log_axis("error", paper.metric.word, [0.6 * found.error.min(), 1.1 * shaped[Role.PLATEAU]])
    return x, y, shaped


def _example_curve(paper: Paper, x: Spec) -> list[Row]:
    low, high = x["scale"]["domain"]
    density = np.geomspace(low, high, DENSITIES)
    return rows(x=density, error=paper.example.predict(density))


# Figure 2: Eq. 1 fitted to each configuration alone.


def _single_part(paper: Paper) -> tuple[Part, Rows]:
    part = paper.part("width")
    found = paper.single_rows
    inside = [np.isclose(getattr(found, name), value) for name, value in part.held.items()]
    return part, found[np.logical_and.reduce(inside)]


def single_curves(paper: Paper) -> Spec:
    """Measured curves with the estimates of Eq. 1, each curve fitted alone."""
    part, found = _single_part(paper)
    return curves_panel(
        "Actual (lines), Eq. 1 of each curve (dots)",
        found,
        part.hue,
        paper.metric.word,
        estimates=True,
        subtitle=part.where,
    )


def single_correlation(paper: Paper) -> Spec:
    """Estimated against actual error of the same networks."""
    return correlation_panel("The same networks", _single_part(paper)[1], paper.metric.word)


def single_all(paper: Paper) -> Spec:
    """Estimated against actual error of all networks, each configuration fitted alone."""
    return correlation_panel("All configurations, each alone", paper.single_rows, paper.metric.word)


# Figure 3: contours of constant error.

ABOVE_PLATEAU = 1.1
"""Contours are drawn where an error is this many times the unpruned one, or more."""


def contours(paper: Paper, along: str) -> Spec:
    """Where measured errors are constant in the plane of density and one axis, with a line of the law's slope."""
    part = paper.part(along)
    exponent = part.fit.parameters[part.fit.exponents[along]]
    title = f"Density and {numbers.axis(along)} at constant {paper.metric.word}"
    below = f"{part.where}; dotted: slope −{numbers.number(exponent)}"
    return _contour_panel(
        part.rows, getattr(part.rows, along), numbers.axis(along), exponent, (title, below), paper
    )


def invariant_contours(paper: Paper) -> Spec:
    """The same for networks of all depths and widths against l^φ·w^ψ, where the law says that slopes are −1."""
    if not paper.fit.exponents:
        raise PrunecastError(
            f"{paper.table.source}: neither depth nor width varies, so there is no invariant to show"
        )
    counts = Counter(c.num_examples for c in paper.fit.configurations)
    most = max(counts, key=lambda n: (counts[n], n))
    found = paper.rows[np.isclose(paper.rows.num_examples, most)]
    formula = " · ".join(
        f"{axis}^{numbers.number(paper.fit.parameters[name])}" for axis, name in paper.fit.exponents.items()
    )
    words = ("The same in one product", f"training examples {numbers.size(most)}; dotted: slope −1")
    across = found.invariant / found.density
    return _contour_panel(found, across, formula, 1.0, words, paper, joined=False)


def _contour_panel(
    found: Rows,
    across: Floats,
    title: str,
    exponent: float,
    words: tuple[str, str],
    paper: Paper,
    *,
    joined: bool = True,
) -> Spec:
    """Densities at which measured curves cross some errors, against a size, with a dotted line of a given slope."""
    lowest, highest = 1.2 * float(found.unpruned.min()), 0.8 * paper.fit.high_error
    levels = {f"{level:.2g}": float(level) for level in np.geomspace(lowest, max(highest, lowest), LEVELS)}
    data = list[Row]()
    for place in np.unique(across):
        own = found[across == place]
        steep = {level: level > ABOVE_PLATEAU * own.unpruned.max() for level in levels.values()}
        crossed = [crossing(own.density, own.error, level) if up else np.nan for level, up in steep.items()]
        data += [row for row in rows(hue=list(levels), size=place, density=crossed) if row["density"]]
    if not data:
        raise PrunecastError(
            f"{paper.table.source}: no curve rises far enough to cross an error; prune further"
        )
    x = log_axis("size", title, across, margin=1.15)
    y = log_axis("density", "density", [row["density"] for row in data], margin=1.3)
    hue = colour("hue", paper.metric.word, list(levels), FIGURE)
    encoding = {"x": x, "y": y, "color": hue}
    middle = [float(np.exp(np.mean(np.log([row[name] for row in data])))) for name in ("size", "density")]
    ends = np.array([across.min(), across.max()])
    guide = rows(size=ends, density=middle[1] * (ends / middle[0]) ** -exponent)
    layers = [
        *([layer(data, "line", encoding, strokeWidth=1.2)] if joined else []),
        dots(data, encoding),
        layer(guide, "line", {"x": x, "y": y}, **DOTTED, strokeWidth=2),
    ]
    return panel(words[0], layers, words[1])


# Figure 4: error against the invariant, with the parameters of each partial fit.


def against_invariant(paper: Paper, along: str) -> Spec:
    """Error against m* along one axis, with ε↑, γ and p′ of the fit to these networks alone."""
    part = paper.part(along)
    factor = held_factor(paper, part)
    own = {role: value * (factor if role is Role.SCALE else 1.0) for role, value in shape(part.fit).items()}
    found = replace(part.rows, invariant=part.rows.invariant * factor)
    symbols = {one.role: one.symbol for one in get_law(DEFAULT_LAW).parameters}
    labels = {role: f"{symbols[role]} = {numbers.number(value)}" for role, value in own.items()}
    lowest = float(found.unpruned.min())
    return curves_panel(
        f"By {numbers.axis(along)}",
        found,
        part.hue,
        paper.metric.word,
        x="invariant",
        x_title="m*",
        subtitle=part.where,
        extra=lambda x, y: shape_notes(x, y, own, lowest, labels),
    )


def held_factor(paper: Paper, part: Part) -> float:
    """The factor of m* from the axes that a partial fit holds constant, with the exponents of the joint fit."""
    missing = {name: own for name, own in paper.fit.exponents.items() if name not in part.fit.exponents}
    powers = [paper.fit.parameters[own] * np.log(part.held[name]) for name, own in missing.items()]
    return float(np.exp(np.sum(powers)))


# Figures 5 and 12 to 17: the joint fit, and the noise of replicates.


def pair_curves(paper: Paper) -> Spec:
    """Actual and estimated errors by width; the only curve if the table has one network."""
    if len(paper.fit.configurations) > 1:
        return partial_fit(paper, "width")
    (only,) = paper.fit.configurations
    hue = Hue(axis="width", values=(only.width,))
    below = summary(paper.fit.deviation)
    return curves_panel(_sizes(only), paper.rows, hue, paper.metric.word, estimates=True, subtitle=below)


def joint_correlation(paper: Paper) -> Spec:
    """Estimated against actual error of all networks, fitted jointly."""
    title = f"All configurations jointly, {paper.fit.title}"
    return correlation_panel(title, paper.rows, paper.metric.word, summary(paper.fit.deviation))


def replicates(paper: Paper) -> Spec:
    """The lowest, the mean and the highest error of the replicates of each network."""
    noise = studies.noise(paper.table).overall.replicates
    if noise is None:
        raise PrunecastError(
            f"{paper.table.source}: no network was trained twice, so there is no spread of replicates"
        )
    return replicates_panel(paper, noise)


# Figure 6: how much a fit needs.


def sensitivity(paper: Paper, of: str) -> Spec:
    """μ and σ over all rows against the number of `points` or `configurations` fitted."""
    found = studies.sensitivity(paper.table)
    samples = getattr(found, f"random_{of}")
    data = list[Row]()
    for name, what in (("μ", "mu"), ("σ", "sigma")):
        mean, std = (
            100 * np.array([getattr(one, f"{how}_{what}") for one in samples]) for how in ("mean", "std")
        )
        data += rows(
            hue=name, count=[one.count for one in samples], value=mean, low=mean - std, high=mean + std
        )
    top = 100 * max(3 * found.full.std, 0.05)
    lowest = max(min(row["low"] for row in data), -top)
    x = log_axis("count", f"{SAMPLED[of]} fitted", [row["count"] for row in data])
    y = axis("value", "deviation, %", (lowest, min(max(row["high"] for row in data), top)))
    encoding = {"x": x, "y": y, "color": coloured({"μ": RED, "σ": BLUE})}
    band = {**encoding, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    layers = [
        layer(data, "area", band, opacity=0.18),
        layer(data, "line", encoding, strokeWidth=2, point=True),
    ]
    steady = found.steady[f"random_{of}"]
    enough = f"both vary by less than one point from {steady} on" if steady else "never steady to one point"
    return panel(f"Random {SAMPLED[of]}, {found.repeats} repeats", layers, enough)


SAMPLED = {"points": "networks", "configurations": "configurations"}


# Figures 7 and 19: the form of Rosenfeld 2020.


def forms(paper: Paper) -> Spec:
    """Measured curves, Eq. 2 and the form adapted from Rosenfeld 2020, both fitted to these networks."""
    part = paper.part("width")
    points = measured(part.table).points
    rival = next(own for own in rivals(points, part.table.metric) if own.name == RIVAL)
    (delta,) = held_out_deviations(rival, points, part.table.metric, (in_sample(points),))
    found = {"Eq. 2": part.rows, "Rosenfeld 2020": replace(part.rows, estimate=part.rows.error * (1 + delta))}
    data = list[Row]()
    for name, own in found.items():
        data += rows(
            hue=name,
            line=[f"{name} {width:g}" for width in own.width],
            x=own.density,
            error=own.estimate,
        )
    x, y = log_axis("x", "density", part.rows.density), log_axis("error", paper.metric.word, part.rows.error)
    encoding = {"x": x, "y": y, "color": coloured({"Eq. 2": BLUE, "Rosenfeld 2020": RED})}
    actual = rows(x=part.rows.density, error=part.rows.error)
    layers = [
        layer(
            data, "line", {**encoding, "detail": {"field": "line"}, "order": {"field": "x"}}, strokeWidth=1.5
        ),
        dots(actual, {"x": x, "y": y}, 14, color=FIGURE.ink),
    ]
    spread = ", ".join(f"{name} {numbers.percent(own.deviation.std())}" for name, own in found.items())
    return panel(f"Actual (dots) by width, {part.where}", layers, f"σ: {spread}")


def unpruned(paper: Paper) -> Spec:
    """Errors of unpruned networks against width for each dataset size, with the law of Rosenfeld 2020."""
    dense = paper.fit.dense
    if dense is None:
        raise PrunecastError(
            f"{paper.table.source}: too few configurations to fit the law of unpruned networks; train more sizes"
        )
    depths = [c.depth for c in paper.fit.configurations]
    depth = max(set(depths), key=depths.count)
    known = sorted((c for c in paper.fit.configurations if c.depth == depth), key=lambda c: c.width)
    size, examples = (np.array([getattr(c, name) for c in known]) for name in ("weights", "num_examples"))
    data = rows(
        hue=[numbers.size(c.num_examples) for c in known],
        x=[c.width for c in known],
        error=[c.unpruned_error for c in known],
        estimate=dense.predict(size, examples, np.array(depth)),
    )
    x = log_axis("x", "width", [c.width for c in known], margin=1.15)
    y = log_axis(
        "error", f"unpruned {paper.metric.word}", [row[n] for row in data for n in ("error", "estimate")]
    )
    hue = colour("hue", "training examples", [numbers.size(n) for n in sorted({*examples.tolist()})], FIGURE)
    law = {"x": x, "y": {**y, "field": "estimate"}, "detail": {"field": "hue"}}
    layers = [
        layer(data, "line", law, color=RED, strokeWidth=1.4),
        dots(data, {"x": x, "y": y, "color": hue}),
    ]
    return panel("Unpruned networks (dots), Rosenfeld 2020 (red)", layers, f"depth {numbers.size(depth)}")


# Figure 8: the smallest network for an error.


def predicted_frontier(paper: Paper) -> Spec:
    """Estimated error against size, with the fewest weights for each error by the law."""
    part = paper.part("width")
    members = family(part.fit, part.held["num_examples"], "measured").as_measured()
    drawn = [
        row
        for own in curves(part.fit, members, paper.minimise)
        for row in rows(hue=numbers.size(own.width), x=own.size, error=own.error)
    ]
    return _frontier_panel(paper, part, drawn, "predicted_nonzero", "By Eq. 2")


def measured_frontier(paper: Paper) -> Spec:
    """Actual error against size, with the fewest weights for each error as measured."""
    part = paper.part("width")
    drawn = rows(hue=map(numbers.size, part.rows.width), x=part.rows.size, error=part.rows.error)
    return _frontier_panel(paper, part, drawn, "measured_nonzero", "As measured")


def _frontier_panel(paper: Paper, part: Part, drawn: list[Row], sizes: str, title: str) -> Spec:
    found = studies.optimality(part.table, fitted=part.fit).frontier
    line = rows(x=[getattr(own, sizes) for own in found], error=[own.error for own in found])
    x = log_axis("x", paper.size_title, [*part.rows.size, *(row["x"] for row in line)])
    y = log_axis("error", paper.metric.word, part.rows.error)
    encoding = {"x": x, "y": y, "color": part.hue.colour(FIGURE), "order": {"field": "x"}}
    layers = [
        layer(drawn, "line", encoding, strokeWidth=1.4),
        layer(line, "line", {"x": x, "y": y, "order": {"field": "error"}}, **DOTTED, strokeWidth=2.6),
        *_starts(part, drawn, x, y),
    ]
    return panel(f"{title}; dotted: the fewest {paper.size_title}", layers, part.where)


def _starts(part: Part, drawn: list[Row], x: Spec, y: Spec) -> Iterator[Spec]:
    """At the unpruned error of the middle width: the best network to start from, and the largest."""
    widths = part.hue.values
    target = next(
        c.unpruned_error for c in part.fit.configurations if c.width == widths[(len(widths) - 1) // 2]
    )
    reached = {}
    for name in part.hue.names:
        own = [(row["x"], row["error"]) for row in drawn if row["hue"] == name]
        size, error = (np.array(values) for values in zip(*own, strict=True))
        reached[name] = crossing(size, error, target)
    known = {name: size for name, size in reached.items() if np.isfinite(size)}
    if len(known) < 2:
        return
    best = min(known, key=lambda name: known[name])
    yield fixed("rule", {"y": at(y, target)}, **DASHED)
    sides = {
        best: ("best start", "right", -9, FIGURE.ink),
        part.hue.names[-1]: ("too large", "left", 18, RED),
    }
    for name, (words, align, dx, ink) in sides.items():
        if name in known:
            yield dots(rows(x=[known[name]], error=[target]), {"x": x, "y": y}, 70, color=ink)
            yield note(words, at(x, known[name]), at(y, target), align=align, dx=dx, dy=10, color=ink)
    label = f"ε_k = {numbers.number(target)}"
    yield note(label, {"value": SMALL[0] - 4}, at(y, target), align="right", dy=-9)


# Figure 11: partial fits.


def partial_fit(paper: Paper, along: str) -> Spec:
    """Actual errors, and estimates of Eq. 2 fitted to the networks that differ along one axis."""
    part = paper.part(along)
    return curves_panel(
        f"By {numbers.axis(along)}, {part.where}",
        part.rows,
        part.hue,
        paper.metric.word,
        estimates=True,
        subtitle=summary(part.fit.deviation),
    )


def partial_correlation(paper: Paper, along: str) -> Spec:
    """Estimated against actual error of the same fit."""
    return correlation_panel("The same networks", paper.part(along).rows, paper.metric.word)


# Figure 18: from four small networks to all others.


def extrapolated(paper: Paper) -> tuple[Rows, Mask]:
    """The rows of the paper's split with the estimates of the fit to four networks, and which were fitted."""
    points = measured(paper.table).points
    split = studies.paper_split(points)
    if split is None:
        raise PrunecastError(
            f"{paper.table.source}: the paper fits depths 14 and 20 with widths 1/8 and 1/4 and predicts other sizes; "
            "the table does not have all four and others with the same number of examples"
        )
    fitted, rest = split
    form, theta = studies.best_fit(DEFAULT_LAW, points.of(np.flatnonzero(fitted)), paper.table.metric)
    estimate = np.exp(form.log_error(theta[None], points)[0])
    inside = (fitted | rest)[points.configuration]
    found = replace(paper.rows, estimate=estimate)[inside]
    return found, fitted[points.configuration][inside]


FITTED = {"fitted": BLUE, "extrapolated": RED}


def _split_rows(paper: Paper) -> tuple[Rows, list[Row], str]:
    """The rows of the split for a chart, and μ and σ of the networks that were extrapolated."""
    found, fitted = extrapolated(paper)
    line = [f"{depth:g} {width:g}" for depth, width in zip(found.depth, found.width, strict=True)]
    hue = np.where(fitted, *FITTED)
    data = rows(line=line, hue=hue, x=found.size, error=found.error, estimate=found.estimate)
    return found, data, f"extrapolated: {summary(deviation(found[~fitted].deviation))}"


def extrapolation_curves(paper: Paper) -> Spec:
    """Error against size: actual in black, fitted in blue, extrapolated in red."""
    found, data, below = _split_rows(paper)
    x = log_axis("x", paper.size_title, found.size)
    y = log_axis("error", paper.metric.word, [*found.error, *found.estimate])
    order = {"detail": {"field": "line"}, "order": {"field": "x"}}
    layers = [
        layer(data, "line", {"x": x, "y": y, **order}, color=FIGURE.ink, strokeWidth=1.2),
        dots(data, {"x": x, "y": {**y, "field": "estimate"}, "color": coloured(FITTED)}, 16),
    ]
    return panel("From four networks; actual is black", layers, below)


def extrapolation_correlation(paper: Paper) -> Spec:
    """Estimated against actual error of the same networks."""
    found, data, below = _split_rows(paper)
    colours = coloured(FITTED)
    return correlation_panel("Estimated against actual", found, paper.metric.word, below, (data, colours))
