"""Whether the network that the law calls smallest is the smallest measured (section 7 of the paper).

At each error, every measured configuration is pruned as far as its measured curve allows, and as far as the law allows.
The study also shows how few curves determine the law: one curve ε↑ and γ, four curves the whole law.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice, product

import numpy as np

from prunecast.choice import Inversion, Naming, SizeRange, candidates, naming
from prunecast.errors import PrunecastError
from prunecast.findings import Finding
from prunecast.laws import (
    DEFAULT_LAW,
    Fit,
    Floats,
    Integers,
    Points,
    Role,
    fit,
    get_law,
    natural,
    power_law_seen,
)
from prunecast.studies.findings import AxisNotVaried, FewErrorsCrossed, NoRectangle
from prunecast.studies.invariance import crossings
from prunecast.studies.refits import FullFit, best_fits, full_fit
from prunecast.table import Table

ERRORS = 60
"""Errors at which networks are compared, from the lowest measured to the high plateau."""
ENOUGH = ERRORS // 2
"""A number of examples is judged if its curves cross so many of the errors; if none does, the best is judged."""
CLOSE = 0.25
SETS = 30
"""Random rectangles of curves that the law is fitted to."""


@dataclass(frozen=True, kw_only=True)
class SmallestNetwork:
    """The smallest network at one error, as measured and as the law says, among measured configurations."""

    error: float
    measured_depth: float
    measured_width: float
    measured_nonzero: float
    predicted_depth: float
    predicted_width: float
    predicted_nonzero: float
    regret: float
    """measured size of the configuration that the law picks over the smallest, minus 1"""
    measured_rise: float
    """the error divided by ε_np of the measured winner; on its low plateau, 1 or less"""
    predicted_rise: float


@dataclass(frozen=True, kw_only=True)
class StartCost:
    """The cost of pruning a network of another size than the best: mean excess of weights over all errors."""

    too_large_measured: float
    too_large_predicted: float
    too_small_measured: float
    too_small_predicted: float


@dataclass(frozen=True, kw_only=True)
class SingleCurves:
    """ε↑ and γ of Eq. 1 fitted to one curve, compared with the joint fit."""

    curves: int
    usable: int
    """those whose fit ends within its bounds, because they show all three regions"""
    high_error_off: float | None
    """median |single/joint − 1| of ε↑ over the usable curves"""
    gamma_off: float | None


@dataclass(frozen=True, kw_only=True)
class FewCurves:
    """The whole law from the corners of a rectangle: two depths × two widths, or two sizes of the one axis."""

    curves: int
    sets: int
    mean_sigma: float
    """σ over all rows of the table, mean over the sets"""
    median_sigma: float
    full_sigma: float
    """of the fit to everything"""


@dataclass(frozen=True, kw_only=True)
class Optimality:
    """The frontier at each error and the claims about it."""

    law: str
    table: str
    num_examples: float
    frontier: tuple[SmallestNetwork, ...]
    largest_miss: float
    """largest |predicted/measured − 1| of the smallest size (the paper: 25%)"""
    median_miss: float
    within_quarter: float
    """share of errors at which the two sizes agree within 25%"""
    largest_regret: float
    mean_regret: float
    lowest_rise_measured: float | None
    """least error/ε_np of winners that are not the largest known network; None if all are"""
    lowest_rise_predicted: float | None
    start: StartCost
    single_curves: SingleCurves
    few_curves: FewCurves | None
    findings: tuple[Finding, ...]
    naming: Naming
    """how the table's networks and sizes are named"""


def optimality(
    table: Table, *, law: str = DEFAULT_LAW, num_examples: float | None = None, fitted: Fit | None = None
) -> Optimality:
    """Compare the law's smallest networks with the measured ones, for one number of examples.

    `fitted` is that law fitted to this table, where it is known already.
    """
    fitted = fitted or fit(table, law=law)
    full = full_fit(table, fitted.family_law)
    known = _sizes_by_examples(fitted, full.points)
    if not known:
        raise PrunecastError(
            f"{table.source}: no two configurations have the same number of examples, so there is nothing to choose "
            "from; train more widths or depths"
        )
    examples = _usual(known) if num_examples is None else _asked(known, num_examples, table.source)
    compared = known[examples]
    if not len(compared.error):
        raise PrunecastError(
            f"{table.source}: no curve with {examples:g} examples crosses an error that the law also predicts for "
            "some network; prune further"
        )
    frontier = tuple(compared.smallest(fitted, row) for row in range(len(compared.error)))
    miss = np.array([abs(own.predicted_nonzero / own.measured_nonzero - 1) for own in frontier])
    regret = np.array([own.regret for own in frontier])
    few = few_curves(full, table.metric)
    return Optimality(
        law=fitted.family_law,
        table=table.source,
        num_examples=examples,
        frontier=frontier,
        largest_miss=float(miss.max()),
        median_miss=float(np.median(miss)),
        within_quarter=float((miss <= CLOSE).mean()),
        largest_regret=float(regret.max()),
        mean_regret=float(regret.mean()),
        lowest_rise_measured=compared.lowest_rise(compared.measured),
        lowest_rise_predicted=compared.lowest_rise(compared.predicted),
        start=compared.start(),
        single_curves=single_curves(full),
        few_curves=few,
        findings=tuple(_findings(known, examples, full.points, few)),
        naming=naming(fitted),
    )


@dataclass(frozen=True, kw_only=True)
class SizesAtErrors:
    """Non-zero weights at each error (rows) of each configuration (columns, from the smallest network on)."""

    error: Floats
    configurations: Integers
    weights: Floats
    unpruned: Floats
    measured: Floats
    """NaN if a curve does not cross the error"""
    predicted: Floats
    """infinite if the law says impossible, NaN if nothing was measured"""

    @classmethod
    def of(cls, points: Points, fitted: Fit, group: Integers, num_examples: float) -> "SizesAtErrors":
        """Prune every configuration of a group, those with so many examples, to every error."""
        order = group[np.argsort(points.weights[group], kind="stable")]
        networks = candidates(fitted, num_examples, SizeRange.MEASURED).as_measured()
        networks = networks[np.searchsorted(group, order)]
        lowest = min(fitted.configurations[i].lowest_error for i in group)
        errors = np.geomspace(1.02 * lowest, 0.8 * fitted.high_error, ERRORS)
        densities = np.stack([crossings(points, int(i), errors) for i in order], axis=1)
        law = Inversion(fit=fitted, networks=networks).approximate(np.log(errors))
        law = np.where(np.isfinite(densities), law, np.nan)
        kept = np.isfinite(densities).any(axis=1) & (law <= 1).any(axis=1)
        return cls(
            error=errors[kept],
            configurations=order,
            weights=points.weights[order],
            unpruned=points.unpruned[order],
            measured=(densities * points.weights[order])[kept],
            predicted=(law * points.weights[order])[kept],
        )

    def smallest(self, fitted: Fit, row: int) -> SmallestNetwork:
        """The two winners at one error."""
        actual, predicted = int(np.nanargmin(self.measured[row])), int(np.nanargmin(self.predicted[row]))
        best, chosen = (fitted.configurations[self.configurations[i]] for i in (actual, predicted))
        return SmallestNetwork(
            error=float(self.error[row]),
            measured_depth=best.depth,
            measured_width=best.width,
            measured_nonzero=float(self.measured[row, actual]),
            predicted_depth=chosen.depth,
            predicted_width=chosen.width,
            predicted_nonzero=float(self.predicted[row, predicted]),
            regret=float(self.measured[row, predicted] / self.measured[row, actual] - 1),
            measured_rise=float(self.error[row] / self.unpruned[actual]),
            predicted_rise=float(self.error[row] / self.unpruned[predicted]),
        )

    def lowest_rise(self, sizes: Floats) -> float | None:
        """The least error/ε_np among winners that are not the largest network known at their error."""
        winners = np.nanargmin(sizes, axis=1)
        largest = [int(np.flatnonzero(np.isfinite(row)).max()) for row in sizes]
        inner = winners < np.array(largest)
        return float((self.error / self.unpruned[winners])[inner].min()) if inner.any() else None

    def start(self) -> StartCost:
        """The mean excess of the next larger and the next smaller network over the best."""
        return StartCost(
            too_large_measured=_excess(self.measured, 1),
            too_large_predicted=_excess(self.predicted, 1),
            too_small_measured=_excess(self.measured, -1),
            too_small_predicted=_excess(self.predicted, -1),
        )


def _excess(sizes: Floats, step: int) -> float:
    """Mean of (size from the neighbouring network)/(smallest) − 1 over the errors where both are known."""
    best = np.nanargmin(sizes, axis=1)
    inside = np.flatnonzero((best + step >= 0) & (best + step < sizes.shape[1]))
    ratio = sizes[inside, best[inside] + step] / sizes[inside, best[inside]] - 1
    known = ratio[np.isfinite(ratio)]
    return float(known.mean()) if len(known) else float("nan")


def _sizes_by_examples(fitted: Fit, points: Points) -> dict[float, SizesAtErrors]:
    """The comparison at each number of examples that has two configurations, the most examples first."""
    examples = np.array([c.num_examples for c in fitted.configurations])
    groups = {float(n): np.flatnonzero(examples == n) for n in np.unique(examples)[::-1]}
    return {n: SizesAtErrors.of(points, fitted, group, n) for n, group in groups.items() if len(group) > 1}


def _asked(known: dict[float, SizesAtErrors], num_examples: float, source: str) -> float:
    """The number of examples that was asked for, if it leaves a choice."""
    for examples in known:
        if np.isclose(examples, num_examples):
            return examples
    listed = ", ".join(f"{examples:g}" for examples in known)
    raise PrunecastError(
        f"{source}: there are fewer than two configurations with {num_examples:g} examples, so there is nothing to "
        f"choose from; ask for {listed}"
    )


def _usual(known: dict[float, SizesAtErrors]) -> float:
    """The largest number of examples whose curves go far enough down, else the one whose curves go furthest."""
    enough = (examples for examples, own in known.items() if len(own.error) >= ENOUGH)
    return next(enough, max(known, key=lambda examples: len(known[examples].error)))


def _findings(
    known: dict[float, SizesAtErrors], examples: float, points: Points, few: FewCurves | None
) -> Iterator[Finding]:
    """Which dataset sizes and axes are not judged, and why."""
    crossed = {n: len(own.error) for n, own in known.items()}
    if crossed[examples] < ENOUGH:
        yield FewErrorsCrossed(num_examples=examples, crossed=crossed[examples], errors=ERRORS, judged=True)
    for more in (n for n in known if n > examples):
        yield FewErrorsCrossed(num_examples=more, crossed=crossed[more], errors=ERRORS, judged=False)
    for axis in ("depth", "width"):
        if np.ptp(getattr(points, axis)) == 0:
            yield AxisNotVaried(axis=axis)
    if few is None:
        yield NoRectangle()


def single_curves(full: FullFit) -> SingleCurves:
    """Eq. 1 on each curve alone."""
    usable = [single for single in full.singles if not single.at_bound]
    joint = natural(full.form, full.theta)

    def off(role: Role) -> float | None:
        """The median deviation of the parameter with a role; None if the joint law has none."""
        at = full.form.find(role)
        if at is None or not usable:
            return None
        name = next(own.name for own in get_law(DEFAULT_LAW).parameters if own.role is role)
        return float(np.median([abs(single.parameters[name] / joint[at] - 1) for single in usable]))

    return SingleCurves(
        curves=len(full.singles),
        usable=len(usable),
        high_error_off=off(Role.PLATEAU),
        gamma_off=off(Role.SLOPE),
    )


def few_curves(full: FullFit, metric: str) -> FewCurves | None:
    """Fit the law, with the parameters that the curves determine, to random rectangles; None if there is none.

    Rectangles of curves that never leave their low plateau do not count, as they do not determine the law.
    """
    axes = [axis for axis in ("depth", "width") if np.ptp(getattr(full.points, axis)) > 0]
    rectangles = _rectangles(full.points, axes) if axes else []
    order = np.random.default_rng(0).permutation(len(rectangles))
    drawn = (np.sort(rectangles[index]) for index in order)
    chosen = list(islice((own for own in drawn if power_law_seen(full.points.of(own))), SETS))
    if not chosen:
        return None
    fits = best_fits(full.form.law.family_law, full.points, metric, chosen)
    sigma = np.array([full.deviations(form, theta[None])[1][0] for form, theta in fits])
    return FewCurves(
        curves=2 ** len(axes),
        sets=len(chosen),
        mean_sigma=float(sigma.mean()),
        median_sigma=float(np.median(sigma)),
        full_sigma=float(full.delta.std()),
    )


def _rectangles(points: Points, axes: list[str]) -> list[tuple[int, ...]]:
    """Configurations at the corners of every rectangle measured with one number of examples."""
    keys = zip(points.depth.tolist(), points.width.tolist(), points.num_examples.tolist(), strict=True)
    place = {key: index for index, key in enumerate(keys)}
    found = []
    for examples in np.unique(points.num_examples):
        values = [np.unique(getattr(points, axis)[points.num_examples == examples]).tolist() for axis in axes]
        for sides in product(*(combinations(own, 2) for own in values)):
            fixed = {"depth": points.depth[0], "width": points.width[0]}
            corners = [fixed | dict(zip(axes, corner, strict=True)) for corner in product(*sides)]
            wanted = [(c["depth"], c["width"], examples) for c in corners]
            if all(key in place for key in wanted):
                found.append(tuple(place[key] for key in wanted))
    return found
