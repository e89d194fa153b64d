"""Fit a law to a table: the paper's point estimate, intervals, judgement and findings."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from prunecast.errors import PrunecastError
from prunecast.laws.dense import DenseLaw, fit_dense
from prunecast.laws.deviations import REGIONS, Deviation, by_group, deviation, noise_floor, region, relative
from prunecast.laws.diagnose import (
    clipped,
    extended,
    fit_findings,
    flat_profiles,
    parameter_findings,
    plateau_reached,
    rises,
)
from prunecast.laws.eq2 import single_error
from prunecast.laws.findings import FlatProfile, LawPreference, LawsAveraged
from prunecast.laws.fitted import Alternative, Configuration, Origin, Spread
from prunecast.laws.intervals import Uncertainty, find_uncertainty, possible_sets
from prunecast.laws.law import (
    AUTO,
    DEFAULT_LAW,
    PruningForm,
    Role,
    bounds,
    build_form,
    get_law,
    natural,
    source_of,
    starts,
)
from prunecast.laws.points import (
    CostCurves,
    Floats,
    Mask,
    Measured,
    Points,
    Replicates,
    Size,
    costs,
    measured,
    never_pruned,
    untrained_sizes,
)
from prunecast.laws.result import Fit
from prunecast.laws.solver import Objective, Optimum, find_optimum, solve_parts
from prunecast.laws.validate import held_out_rms, law_weights, leading_law
from prunecast.metric import Metric
from prunecast.table import Table, as_table
from prunecast.text import plural

OPEN_SLOPE = 1.0
"""Standard deviation of a curve's log-log slope if the data do not show how it rises; some errors jump up."""
LEAST_ROWS = 4
"""Configurations with fewer rows are not fitted alone."""


def fit(
    table: Table | str | Path | pd.DataFrame,
    *,
    law: str = AUTO,
    replicates: Replicates = "mean",
    residual: str = "relative",
    huber: float | None = None,
    high_error: str | float = "free",
    seed: int = 0,
) -> Fit:
    """Fit a law jointly to all configurations of a table.

    The defaults are the paper's: least squares on the relative deviation of the mean over replicates at each level.

    Args:
        table: a table, or a path, the name of a shipped table or a DataFrame to read one from.
        law: the name of a registered law, such as "eq2" for the paper's, or "module:attribute". "auto" weighs all laws
            by how well they predict configurations left out of the fit: the simplest of the likely ones is fitted, and
            predictions average over them. Where there are too few configurations for that, it is Eq. 2, or Eq. 1 of
            a single one.
        replicates: "mean" fits the mean over replicates at each level, "each" every replicate's row.
        residual: "relative" minimises (ε̂ − ε)/ε, "log" minimises log ε̂ − log ε.
        huber: deviations beyond this count linearly, so that outliers pull less.
        high_error: "free" fits ε↑, "chance" or a number fixes it.
        seed: of the random starts of the search and of the draws behind intervals.

    Returns:
        The fitted law: `parameters` and `intervals` by name, `predict`, `summary`, `plot`, `residuals`, `findings`.

    Raises:
        PrunecastError: the table cannot be read, has too few rows for the parameters, or an option is unknown.
    """
    table = as_table(table)
    options: dict[str, Any] = {
        "replicates": replicates,
        "residual": residual,
        "huber": huber,
        "high_error": high_error,
        "seed": seed,
    }
    shared = TableData(table=table, data=measured(table, replicates))
    if law != AUTO:
        return _fit(shared, law, **options)
    weights = law_weights(shared.held_out, shared.data.points.configurations)
    leading = leading_law(weights)
    try:
        result = _fit(shared, leading, **options)
    except PrunecastError:  # too few rows for its parameters
        return _fit(shared, DEFAULT_LAW, **options)
    others = {name: weight for name, weight in weights.items() if name != leading}
    alternatives = tuple(_alternatives(shared, others, **options))
    if not alternatives:
        return result
    kept = [own for own in result.findings if not isinstance(own, LawPreference)]
    averaged = LawsAveraged(
        titles=tuple(get_law(name).title for name in (leading, *others)),
        weights=(weights[leading], *others.values()),
        rms=tuple(shared.held_out[name] for name in (leading, *others)),
    )
    return replace(result, alternatives=alternatives, findings=(*kept, averaged))


def _alternatives(
    shared: "TableData",
    weights: dict[str, float],
    *,
    residual: str,
    huber: float | None,
    high_error: str | float,
    seed: int,
    **_: Any,
) -> Iterator[Alternative]:
    """Other laws that are about as likely, fitted in the same way."""
    points, table = shared.data.points, shared.table
    for law, weight in weights.items():
        form = build_form(law, points, table.metric)
        begin, fixed = _fix_plateau(starts(form, seed), form, table, high_error)
        optimum = find_optimum(form, points, begin, fixed, _objective(residual, huber))
        values = natural(form, form.to_plain_depth(points) @ optimum.theta).tolist()
        names = (parameter.name for parameter in form.parameters)
        yield Alternative(
            law=source_of(form.law.name),
            axes=form.axes,
            parameters=dict(zip(names, values, strict=True)),
            weight=weight,
        )


@dataclass(frozen=True, kw_only=True)
class TableData:
    """A table as it is fitted, and what every law fitted to it shares."""

    table: Table
    data: Measured

    @cached_property
    def held_out(self) -> dict[str, float]:
        """How well each law predicts configurations left out."""
        return held_out_rms(self.data.points, self.table.metric)

    @cached_property
    def dense(self) -> DenseLaw | None:
        """The law of the unpruned errors."""
        return fit_dense(self.data.points, self.table.chance)


def _fit(
    shared: TableData,
    law: str,
    *,
    replicates: Replicates,
    residual: str,
    huber: float | None,
    high_error: str | float,
    seed: int,
) -> Fit:
    table, data = shared.table, shared.data
    form, objective = build_form(law, data.points, table.metric), _objective(residual, huber)
    begin, fixed = _fix_plateau(starts(form, seed), form, table, high_error)
    _require_rows(data.points, fixed, table)
    optimum = find_optimum(form, data.points, begin, fixed, objective)
    to_plain = form.to_plain_depth(data.points)
    uncertainty = find_uncertainty(optimum, _open_plateau(optimum, table.chance), to_plain, seed)
    options = {
        "replicates": replicates,
        "residual": residual,
        "huber": str(huber),
        "high_error": str(high_error),
    }
    bare = _assembled(shared, optimum, uncertainty, natural(form, to_plain @ optimum.theta), options)
    limits = _limits(optimum, to_plain)
    found = parameter_findings(optimum, bare.parameters, bare.intervals, limits, data, table)
    result = replace(bare, findings=tuple(found))
    result = replace(result, spread=_open_spread(result, optimum, to_plain))
    flat = list(flat_profiles(optimum, set(result.undetermined)))
    result = replace(result, intervals=_possible_intervals(result, limits, flat))
    return replace(result, findings=(*found, *flat, *fit_findings(result, optimum, table)))


def _open_spread(result: Fit, optimum: Optimum, to_plain: Floats) -> Spread:
    """The spread of predictions if the data do not determine some parameters."""
    open_parameters = result.undetermined
    roles = {parameter.role for parameter in optimum.form.parameters if parameter.name in open_parameters}
    return replace(
        result.spread,
        possible=possible_sets(optimum, open_parameters) @ to_plain.T,
        open_slope=OPEN_SLOPE if roles >= {Role.PLATEAU, Role.SLOPE, Role.SCALE} else 0.0,
    )


def _limits(optimum: Optimum, to_plain: Floats) -> dict[str, tuple[float, float]]:
    """The range that each parameter was searched in, with depth in its own unit."""
    shift = to_plain @ optimum.theta - optimum.theta
    lower, upper = (natural(optimum.form, side + shift).tolist() for side in bounds(optimum.form))
    names = (parameter.name for parameter in optimum.form.parameters)
    return dict(zip(names, zip(lower, upper, strict=True), strict=True))


def _possible_intervals(
    result: Fit, limits: dict[str, tuple[float, float]], flat: list[FlatProfile]
) -> dict[str, tuple[float, float]]:
    """The intervals with every value that fits about as well, and without values that are impossible.

    An interval that lies beyond the search limits excludes nothing within them.
    """
    intervals = {
        name: extended(interval, result.parameters[name]) if name in result.undetermined else interval
        for name, interval in result.intervals.items()
    }
    for profile in flat:
        for value in profile.values:
            intervals[profile.parameter] = extended(intervals[profile.parameter], value)
    if result.plateau is not None:  # its search begins at measured errors, but noise may put it lower
        low, high = limits[result.plateau]
        limits = {**limits, result.plateau: (min(low, intervals[result.plateau][0]), high)}
    inside = {name: clipped(interval, limits[name]) for name, interval in intervals.items()}
    open_ended = {name for name, (low, high) in inside.items() if low == high and name not in result.fixed}
    return {name: limits[name] if name in open_ended else interval for name, interval in inside.items()}


def _objective(residual: str, huber: float | None) -> Objective:
    if residual not in ("relative", "log"):
        raise PrunecastError(f"no residual is called {residual!r}; choose relative or log")
    if huber is not None and not huber > 0:
        raise PrunecastError(f"the Huber threshold must be positive, not {huber:g}")
    return Objective(residual=residual, huber=huber)


def _fix_plateau(
    begin: Floats, form: PruningForm, table: Table, high_error: str | float
) -> tuple[Floats, Mask]:
    """The starts, with ε↑ set if it is fixed, and which parameters are fixed."""
    fixed = np.zeros(begin.shape[1], dtype=bool)
    if high_error == "free":
        return begin, fixed
    plateau = form.find(Role.PLATEAU)
    if plateau is None:
        raise PrunecastError(f"{form.law.title} has no high plateau to fix; leave high_error out")
    value = table.chance if high_error == "chance" else high_error
    if value is None:
        why = f"prunecast does not know {table.dataset!r}" if table.dataset else "the table names no dataset"
        raise PrunecastError(
            f"{table.source}: the chance error is not known, because {why}; give it as a number"
        )
    if isinstance(value, str):
        raise PrunecastError(f"ε↑ can be free, chance or a number, not {value!r}")
    low, high = np.exp(form.parameters[plateau].inner_bounds)
    if not low <= value <= high:
        raise PrunecastError(
            f"ε↑ is {value:g}, but for this table it must be between {low:.3g} and {high:.3g}"
        )
    begin[:, plateau] = np.log(value)
    fixed[plateau] = True
    return begin, fixed


def _require_rows(points: Points, fixed: Mask, table: Table) -> None:
    needed = int((~fixed).sum())
    if len(points) <= needed:
        raise PrunecastError(
            f"{table.source}: {plural(len(points), 'usable row')} cannot determine {needed} parameters; "
            "measure more levels or configurations"
        )
    if not (points.density < 1).any():
        raise PrunecastError(
            f"{table.source}: every row has density 1, but a pruning law needs pruned networks; add their rows"
        )


def _open_plateau(optimum: Optimum, chance: float | None) -> tuple[float, float] | None:
    """The range of log ε↑ if no curve shows its plateau, else None."""
    plateau, points = optimum.form.find(Role.PLATEAU), optimum.points
    if plateau is None or optimum.fixed[plateau] or plateau_reached(points, chance):
        return None
    upper = optimum.form.parameters[plateau].inner_bounds[1] if chance is None else float(np.log(chance))
    return float(np.log(points.error.max())), upper


def _assembled(
    shared: TableData, optimum: Optimum, uncertainty: Uncertainty, values: Floats, options: dict[str, str]
) -> Fit:
    table, data, points = shared.table, shared.data, shared.data.points
    form, theta = optimum.form, optimum.theta
    names = [parameter.name for parameter in form.parameters]
    ends = (natural(form, side).tolist() for side in (uncertainty.lower, uncertainty.upper))
    stack = form.stack(theta[None], points)
    delta = relative(stack[0, -1], points)
    log_unpruned, rising = points.log_unpruned[points.configuration], rises(points, form.law)
    where = region(stack[0, -1], log_unpruned, log_plateau(form, theta, points))
    # If no curve rises, ε↑ may be as low as the unpruned errors; these are no high plateau.
    regions = by_group(delta, where if rising else 0 * where, len(REGIONS))
    per_configuration = by_group(delta, points.configuration, points.configurations)
    floor = noise_floor(data.noise, form.unpruned_slope(theta[None], points, stack)[0], points)
    return Fit(
        law=form.law.name,
        metric=Metric(table.metric),
        axes=form.axes,
        reference_examples=points.reference_examples,
        parameters=dict(zip(names, values.tolist(), strict=True)),
        intervals=dict(zip(names, zip(*ends, strict=True), strict=True)),
        fixed=tuple(name for name, fixed in zip(names, optimum.fixed, strict=True) if fixed),
        deviation=deviation(delta),
        regions=dict(zip(REGIONS, regions, strict=True)),
        noise_floor=floor,
        held_out=shared.held_out,
        rows=len(points),
        at_chance=data.at_chance,
        rises=rising,
        kept_per_level=data.kept_per_level,
        counted=data.counted,
        columns=table.columns,
        selected=table.selected,
        configurations=tuple(_configurations(points, per_configuration, never_pruned(table), costs(table))),
        findings=(),
        spread=Spread(
            centre=uncertainty.centre,
            draws=uncertainty.draws,
            degrees=uncertainty.degrees,
            run=uncertainty.run,
            unpruned=uncertainty.unpruned,
        ),
        dense=shared.dense,
        origin=Origin(
            table=table.source,
            digest=table.digest,
            family=table.family,
            dataset=table.dataset,
            method=table.method,
            recipe=table.recipe,
            chance=table.chance,
            timed_with=table.timed_with,
        ),
        options=options,
        untrained=untrained_sizes(table),
    )


def log_plateau(form: PruningForm, theta: Floats, points: Points) -> float:
    """log ε↑ of a parameter set; of a law without a plateau, a value above every measured error."""
    plateau = form.find(Role.PLATEAU)
    return float(np.log(2 * points.error.max())) if plateau is None else float(theta[plateau])


def _configurations(
    points: Points,
    deviations: list[Deviation],
    others: dict[tuple[float, float], float],
    costs: dict[Size, CostCurves],
) -> Iterator[Configuration]:
    for index, of_configuration in enumerate(deviations):
        rows = points.slice_of(index)
        size = (float(points.depth[index]), float(points.width[index]), float(points.num_examples[index]))
        curve = (own[rows].tolist() for own in (points.density, points.error, points.replicates))
        yield Configuration(
            depth=size[0],
            width=size[1],
            num_examples=size[2],
            unpruned_error=float(points.unpruned[index]),
            replicates=float(points.unpruned_replicates[index]),
            weights=float(points.weights[index]),
            lowest_density=float(points.density[rows].min()),
            highest_error=float(points.error[rows].max()),
            lowest_error=float(points.error[rows].min()),
            deviation=of_configuration,
            curve=tuple(zip(*curve, strict=True)),
            never_pruned=others.get(size[:2]),
            costs=costs.get(size, {}),
        )


@dataclass(frozen=True, kw_only=True)
class SingleFit:
    """Eq. 1 fitted to one configuration alone."""

    depth: float
    width: float
    num_examples: float
    unpruned_error: float
    parameters: dict[str, float]
    deviation: Deviation
    at_bound: tuple[str, ...]

    def predict(self, density: Floats) -> Floats:
        """ε̂ of Eq. 1 at some densities."""
        return single_error(self.parameters, self.unpruned_error, density)


def fit_each(
    table: Table | str | Path | pd.DataFrame, *, replicates: Replicates = "mean", seed: int = 0
) -> list[SingleFit]:
    """Fit Eq. 1 to each configuration alone, as the paper does first.

    Args:
        table: a table, or a path, the name of a shipped table or a DataFrame to read one from.
        replicates: "mean" fits the mean over replicates at each level, "each" every replicate's row.
        seed: of the random starts of the search.

    Returns:
        One small fit per configuration of at least four rows: sizes, parameters and deviation.

    Raises:
        PrunecastError: the table cannot be read.
    """
    table = as_table(table)
    points = measured(table, replicates).points
    enough = np.flatnonzero(np.bincount(points.configuration) >= LEAST_ROWS)
    return _fit_all(points.of(enough), table.metric, seed) if len(enough) else []


def _fit_all(points: Points, metric: str, seed: int) -> list[SingleFit]:
    curves = [points.only(index) for index in range(points.configurations)]
    forms = [build_form(DEFAULT_LAW, curve, metric) for curve in curves]
    members = np.arange(points.configurations)[:, None] == points.configuration
    found = solve_parts(forms, points, members, [starts(form, seed) for form in forms])
    return [_single(*own) for own in zip(forms, curves, found, strict=True)]


def _single(form: PruningForm, points: Points, theta: Floats) -> SingleFit:
    names, (lower, upper) = [parameter.name for parameter in form.parameters], bounds(form)
    at_bound = (theta <= lower) | (theta >= upper)
    return SingleFit(
        depth=float(points.depth[0]),
        width=float(points.width[0]),
        num_examples=float(points.num_examples[0]),
        unpruned_error=float(points.unpruned[0]),
        parameters=dict(zip(names, natural(form, theta).tolist(), strict=True)),
        deviation=deviation(relative(form.log_error(theta[None], points)[0], points)),
        at_bound=tuple(name for name, bound in zip(names, at_bound, strict=True) if bound),
    )
