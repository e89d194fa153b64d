"""The data of the paper's figures, and the kinds of panel that the figures are made of.

`Paper` is a table with the paper's law fitted to all of it, to each configuration alone and to each part in which
one axis varies. A panel that a table cannot fill raises an error that says what is missing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from prunecast.choice import Measure
from prunecast.errors import PrunecastError
from prunecast.laws import (
    DEFAULT_LAW,
    HIGH_EDGE,
    SINGLE_LAW,
    Deviation,
    Fit,
    Role,
    SingleFit,
    deviation,
    fit,
    fit_each,
    get_law,
)
from prunecast.report import figures
from prunecast.report.charts import FittedTable, Hue
from prunecast.report.curves import AXES, Rows, Slice, measured_rows
from prunecast.report.vega import (
    FIGURE,
    SMALL,
    Row,
    Spec,
    at,
    colour,
    dots,
    fixed,
    layer,
    log_axis,
    panel,
    rows,
)
from prunecast.table import CONFIGURATION, Table
from prunecast.text import plural
from prunecast.wording import numbers

BLUE, RED = FIGURE.series[0], FIGURE.accent
DASHED = {"color": FIGURE.muted, "strokeDash": [4, 3]}
DOTTED = {"color": FIGURE.ink, "strokeDash": [2, 3]}
SHAPE = (Role.PLATEAU, Role.SLOPE, Role.SCALE)
Shape = Mapping[Role, float]
"""ε↑, γ and p of a curve."""
SLOPE_WIDTH = 75
"""The width of the words about a slope with a margin, in points."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """The networks of a table that differ along one axis alone, with Eq. 2 fitted to them alone."""

    axis: str
    held: dict[str, float]
    """the sizes of the other axes"""
    where: str
    """the same in words, without an axis that never varies and is 1"""
    table: Table
    fit: Fit
    rows: Rows
    """measured, with the estimates of this fit"""
    hue: Hue


@dataclass(frozen=True, kw_only=True)
class Paper(FittedTable):
    """A table, and the paper's law fitted to all of it and to its parts."""

    minimise: str = Measure.NONZERO

    @cached_property
    def singles(self) -> dict[tuple[float, ...], SingleFit]:
        """Eq. 1 fitted to each configuration alone, by its sizes."""
        return {tuple(getattr(one, name) for name in AXES): one for one in fit_each(self.table)}

    @cached_property
    def single_rows(self) -> Rows:
        """Measured rows with the estimates of Eq. 1 fitted to each configuration alone."""
        found = self.rows
        keys = list(zip(*(getattr(found, name).tolist() for name in AXES), strict=True))
        known = np.array([key in self.singles for key in keys])
        if not known.any():
            raise self._no_singles()
        kept = found[known]
        own = [self.singles[key] for key in keys if key in self.singles]
        estimate = [one.predict(density) for one, density in zip(own, kept.density, strict=True)]
        return replace(kept, estimate=np.array(estimate, dtype=float))

    def _no_singles(self) -> PrunecastError:
        return PrunecastError(f"{self.table.source}: no configuration has four rows, which Eq. 1 needs")

    @cached_property
    def _parts(self) -> dict[str, Part]:
        return {}

    def part(self, name: str) -> Part:
        """The networks that differ along one axis, fitted once."""
        if name not in self._parts:
            self._parts[name] = self._fitted_part(self._slice(name))
        return self._parts[name]

    def _slice(self, name: str) -> Slice:
        found = next((one for one in self.slices if one.axis == name), None)
        if found is None:
            others = " and ".join(numbers.axis(other) for other in AXES if other != name)
            raise PrunecastError(
                f"{self.table.source}: no two networks differ in {numbers.axis(name)} alone, with the same {others}"
            )
        return found

    def _fitted_part(self, own: Slice) -> Part:
        held = {other: float(getattr(own.curves[0], other)) for other in AXES if other != own.axis}
        table = self.table.select(**held)
        fitted = fit(table, law=DEFAULT_LAW)
        return Part(
            axis=own.axis,
            held=held,
            where=figures.held(own),
            table=table,
            fit=fitted,
            rows=measured_rows(table, fitted, self.minimise),
            hue=Hue(axis=own.axis, values=own.sizes),
        )

    @cached_property
    def example(self) -> SingleFit:
        """The configuration with the least unpruned error, whose curve the paper takes as its example.

        Where its curve ends far below the high plateau, the parameters are those of the joint fit at its size.
        """
        if not self.singles:
            raise self._no_singles()
        own = min(self.singles.values(), key=lambda one: one.unpruned_error)
        highest = float(self.rows.error[self.rows.of(own)].max())
        if highest > HIGH_EDGE * self.fit.high_error:
            return own
        scale = sum(
            self.fit.parameters[name] * np.log(getattr(own, along))
            for along, name in self.fit.exponents.items()
        )
        joint = {
            one.name: self.fit.parameters[one.name] / (np.exp(scale) if one.role is Role.SCALE else 1.0)
            for one in get_law(DEFAULT_LAW).parameters
            if one.role in SHAPE
        }
        return replace(own, parameters=joint)

    @property
    def example_law(self) -> str:
        """Whose parameters the example has."""
        alone = self.example in self.singles.values()
        return get_law(SINGLE_LAW.name if alone else DEFAULT_LAW).title

    @property
    def size_title(self) -> str:
        """The title of an axis of sizes."""
        return "non-zero weights" if self.fit.counted else "depth · width² · density"


def shape(own: Fit | SingleFit) -> Shape:
    """ε↑, γ and p of a fit, by their roles."""
    return {
        one.role: own.parameters[one.name] for one in get_law(DEFAULT_LAW).parameters if one.role in SHAPE
    }


def summary(found: Deviation) -> str:
    """μ, σ and the number of networks in a panel's second line."""
    mean, std = numbers.percent(found.mean, sign=True), numbers.percent(found.std)
    return f"μ = {mean}, σ = {std} of {plural(found.rows, 'network')}"


def curve_rows(own: Rows, hue: Hue, x: str = "density") -> list[Row]:
    """Measured rows for lines and dots, numbered by configuration."""
    keys = np.stack([getattr(own, name) for name in AXES], axis=1)
    line = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
    return rows(
        line=line.tolist(),
        hue=[numbers.size(value) for value in getattr(own, hue.axis)],
        x=getattr(own, x),
        error=own.error,
        estimate=own.estimate,
    )


def curves_panel(
    title: str,
    own: Rows,
    hue: Hue,
    word: str,
    *,
    x: str = "density",
    x_title: str = "density",
    estimates: bool = False,
    subtitle: str = "",
    extra: Callable[[Spec, Spec], list[Spec]] | None = None,
) -> Spec:
    """Measured curves as lines, with dots where they were measured or where the law puts them."""
    data = curve_rows(own, hue, x)
    both = [*own.error, *(own.estimate if estimates else ())]
    across, up = log_axis("x", x_title, getattr(own, x)), log_axis("error", word, both)
    encoding = {"x": across, "y": up, "color": hue.colour(FIGURE)}
    order = {"detail": {"field": "line"}, "order": {"field": "x"}}
    layers = [layer(data, "line", {**encoding, **order}, strokeWidth=1.4)]
    if estimates:
        layers.append(dots(data, {"x": across, "y": {**up, "field": "estimate"}}, 16, color=FIGURE.ink))
    else:
        layers.append(dots(data, encoding, 16))
    return panel(title, [*layers, *(extra(across, up) if extra else [])], subtitle)


def correlation_panel(
    title: str, own: Rows, word: str, subtitle: str = "", hues: tuple[list[Row], Spec] | None = None
) -> Spec:
    """Estimated against actual error, with the identity line; `hues` are dots in several colours, and the colours."""
    both = [*own.error, *own.estimate]
    x, y = log_axis("error", f"actual {word}", both), log_axis("estimate", f"estimated {word}", both)
    ends = rows(error=[min(both), max(both)], estimate=[min(both), max(both)])
    if hues is None:
        points = dots(rows(error=own.error, estimate=own.estimate), {"x": x, "y": y}, 11, color=BLUE)
    else:
        points = dots(hues[0], {"x": x, "y": y, "color": hues[1]}, 16)
    layers = [
        points,
        layer(ends, "line", {"x": x, "y": y}, color=FIGURE.ink, strokeWidth=1.2),
    ]
    return panel(title, layers, subtitle or summary(deviation(own.deviation)))


def replicates_panel(paper: Paper, noise: float) -> Spec:
    """The lowest, the mean and the highest error of the replicates of each network."""
    word = paper.metric.word
    found = paper.table.better_than_chance.groupby([*CONFIGURATION, "level"])["error"].agg(
        ["size", "min", "mean", "max"]
    )
    several = found[found["size"] > 1]
    low, mean, high = (several[name].to_numpy(dtype=float) for name in ("min", "mean", "max"))
    x = log_axis("mean", f"mean {word} of the replicates", [*low, *high])
    y = log_axis("value", f"lowest to highest {word}", [*low, *high])
    spans = rows(mean=mean, low=low, high=high)
    ends = [*rows(mean=mean, value=low), *rows(mean=mean, value=high)]
    both = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    order = np.sort(mean)
    layers = [
        layer(spans, "rule", both, color=FIGURE.faint),
        dots(ends, {"x": x, "y": y}, 9, color=BLUE),
        layer(rows(mean=order, value=order), "line", {"x": x, "y": y}, color=FIGURE.ink, strokeWidth=1.2),
    ]
    spread = f"σ = {numbers.percent(noise)} of {plural(len(several), 'network')} trained more than once"
    return panel("Replicates: lowest, mean, highest", layers, spread)


def coloured(names: Mapping[str, str]) -> Spec:
    """Fixed colours by name, with a legend."""
    return {
        **colour("hue", "", list(names), FIGURE),
        "scale": {"domain": list(names), "range": list(names.values())},
    }


def note(words: str, x: Spec, y: Spec, **options: object) -> Spec:
    """Words at a place in a panel."""
    return fixed("text", {"x": x, "y": y}, text=words, **{"color": FIGURE.ink, "align": "left", **options})


def knees(own: Shape, unpruned: float) -> tuple[float, float]:
    """Where the straight power law meets the high and the low plateau: p and p·(ε↑/ε_np)^(1/γ)."""
    high, gamma, p = (own[role] for role in SHAPE)
    return p, p * (high / unpruned) ** (1 / gamma)


def shape_notes(x: Spec, y: Spec, own: Shape, unpruned: float, labels: Mapping[Role, str]) -> list[Spec]:
    """ε↑, the slope γ and p (or p′) drawn into a panel: two dashed lines, and the straight power law between."""
    high, _, p = (own[role] for role in SHAPE)
    start, end = knees(own, unpruned)
    middle = at(x, float(np.sqrt(start * end))), at(y, float(np.sqrt(high * unpruned)))
    slope = rows(x=[start, end], error=[high, unpruned])
    low, top = x["scale"]["domain"]
    room = SMALL[0] * np.log(end / start) / 2 / np.log(top / low)
    side: dict[str, Any] = {"align": "right", "dx": -9, "dy": 4}
    if room < SLOPE_WIDTH:  # to the left of the slope the words would cross the line at p
        side = {"align": "left", "dx": 9, "dy": -8}
    return [
        fixed("rule", {"y": at(y, high)}, **DASHED),
        fixed("rule", {"x": at(x, p)}, **DASHED),
        layer(slope, "line", {"x": x, "y": y}, **DOTTED, strokeWidth=1.6),
        note(labels[Role.PLATEAU], {"value": SMALL[0] - 4}, at(y, high), align="right", dy=10),
        note(labels[Role.SCALE], at(x, p), {"value": SMALL[1] - 9}, dx=4),
        note(labels[Role.SLOPE], *middle, **side),
    ]
