"""Fit a law to a table: the paper's point estimate, intervals, judgement and findings."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.laws.dense import DenseLaw, fit_dense
from prunecast.laws.deviations import REGIONS, Deviation, by_group, deviation, noise_floor, region, relative
from prunecast.laws.diagnose import Optimum, open_questions, plateau_reached, reaching, remarks, rises
from prunecast.laws.findings import LawPreference
from prunecast.laws.intervals import Uncertainty, uncertainty
from prunecast.laws.law import AUTO, DEFAULT_LAW, PruningForm, Role, bounds, build_form, natural, starts
from prunecast.laws.points import Floats, Mask, Measured, Points, Replicates, measured
from prunecast.laws.predict import Spread
from prunecast.laws.result import Fit, Origin
from prunecast.laws.solver import Objective, Solution, solve
from prunecast.laws.support import Configuration
from prunecast.laws.validate import held_out_rms, preferred_law
from prunecast.metric import Metric
from prunecast.table import Table
from prunecast.text import plural

LEAST_ROWS = 4
"""Configurations with fewer rows are not fitted alone."""


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best of several starts."""

    theta: Floats
    cost: float
    at_bound: Mask


def best(solution: Solution) -> Best:
    """The start that ended lowest."""
    index = int(solution.cost.argmin())
    return Best(
        theta=solution.theta[index],
        cost=float(solution.cost[index]),
        at_bound=solution.at_lower[index] | solution.at_upper[index],
    )


def fit(
    table: Table,
    *,
    law: str = DEFAULT_LAW,
    replicates: Replicates = "mean",
    residual: str = "relative",
    huber: float | None = None,
    high_error: str | float = "free",
    seed: int = 0,
) -> Fit:
    """Fit a law jointly to all configurations of a table: by default Eq. 2 (with one configuration: Eq. 1).

    The defaults are the paper's: least squares on the relative deviation of the mean over replicates at each
    level. `replicates="each"` fits every replicate's row, `residual="log"` uses log ε̂ − log ε, `huber` bounds the
    pull of outliers beyond that deviation, `high_error` holds ε↑ at `"chance"` or at a number. `law` is the name of a
    registered law or "module:attribute"; "auto" takes another law than the default where it predicts configurations
    left out of the fit clearly better.
    """
    options: dict[str, Any] = {
        "replicates": replicates,
        "residual": residual,
        "huber": huber,
        "high_error": high_error,
        "seed": seed,
    }
    known = Known(table=table, data=measured(table, replicates))
    if law != AUTO:
        return _fit(known, law, **options)
    plain = _fit(known, DEFAULT_LAW, **options)
    best = preferred_law(plain.held_out)
    if best != DEFAULT_LAW and any(isinstance(own, LawPreference) for own in plain.findings):
        with contextlib.suppress(PrunecastError):  # too few rows for its parameters
            return _fit(known, best, **options)
    return plain


@dataclass(frozen=True, kw_only=True)
class Known:
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
    known: Known,
    law: str,
    *,
    replicates: Replicates,
    residual: str,
    huber: float | None,
    high_error: str | float,
    seed: int,
) -> Fit:
    table, points = known.table, known.data.points
    form = build_form(law, points, table.metric)
    objective = _objective(residual, huber)
    begin, held = _hold_plateau(starts(form, points, seed), form, table, high_error)
    _require_rows(points, held, table)
    found = best(solve(form, points, begin, held=held, objective=objective))
    open_range = _open_plateau(form, points, table, held)
    to_plain = form.to_plain_depth(points)
    unsure = uncertainty(form, points, found.theta, held, open_range, to_plain, objective, seed)
    optimum = Optimum(
        form=form, points=points, theta=found.theta, cost=found.cost, held=held, objective=objective
    )
    options = {
        "replicates": replicates,
        "residual": residual,
        "huber": str(huber),
        "high_error": str(high_error),
    }
    plain = _assembled(known, optimum, unsure, to_plain, options)
    questions = open_questions(optimum, plain.parameters, plain.intervals, known.data, table.chance)
    asked = replace(plain, findings=tuple(questions))
    intervals = {
        name: reaching(own, plain.parameters[name]) if name in asked.undetermined else own
        for name, own in plain.intervals.items()
    }
    fitted = replace(asked, intervals=intervals)
    return replace(fitted, findings=(*questions, *remarks(fitted, optimum, table)))


def _objective(residual: str, huber: float | None) -> Objective:
    if residual not in ("relative", "log"):
        raise PrunecastError(f"no residual is called {residual!r}; there are relative and log")
    if huber is not None and not huber > 0:
        raise PrunecastError(f"the Huber threshold must be positive, not {huber:g}")
    return Objective(residual=residual, huber=huber)


def _hold_plateau(
    begin: Floats, form: PruningForm, table: Table, high_error: str | float
) -> tuple[Floats, Mask]:
    """Starts with ε↑ set where it is to be held, and which parameters are held."""
    held = np.zeros(begin.shape[1], dtype=bool)
    if high_error == "free":
        return begin, held
    plateau = form.find(Role.PLATEAU)
    if plateau is None:
        raise PrunecastError(f"{form.law.title} has no high plateau to hold; leave high_error out")
    value = table.chance if high_error == "chance" else high_error
    if value is None:
        raise PrunecastError(
            f"{table.source}: the chance error of dataset {table.dataset!r} is not known; give a number"
        )
    if isinstance(value, str):
        raise PrunecastError(f"ε↑ can be free, chance or a number, not {value!r}")
    low, high = np.exp(form.parameters[plateau].inner_bounds)
    if not low <= value <= high:
        raise PrunecastError(
            f"ε↑ is {value:g}, but for this table it must be between {low:.3g} and {high:.3g}"
        )
    begin[:, plateau] = np.log(value)
    held[plateau] = True
    return begin, held


def _require_rows(points: Points, held: Mask, table: Table) -> None:
    needed = int((~held).sum())
    if len(points) <= needed:
        raise PrunecastError(
            f"{table.source}: {plural(len(points), 'usable row')} cannot determine {needed} parameters; "
            "measure more levels or configurations"
        )
    if not (points.density < 1).any():
        raise PrunecastError(
            f"{table.source}: every row has density 1, but a law of pruning needs pruned networks; add their rows"
        )


def _open_plateau(form: PruningForm, points: Points, table: Table, held: Mask) -> tuple[float, float] | None:
    """The range (in log) that ε↑ may have where no curve shows its plateau, else None."""
    plateau = form.find(Role.PLATEAU)
    if plateau is None or held[plateau] or plateau_reached(points, table.chance):
        return None
    upper = form.parameters[plateau].inner_bounds[1] if table.chance is None else float(np.log(table.chance))
    return float(np.log(points.error.max())), upper


def _assembled(
    known: Known,
    found: Optimum,
    unsure: Uncertainty,
    to_plain: Floats,
    options: dict[str, str],
) -> Fit:
    table, data, points = known.table, known.data, known.data.points
    form, held = found.form, found.held
    names = [parameter.name for parameter in form.parameters]
    values = dict(zip(names, natural(form, to_plain @ found.theta).tolist(), strict=True))
    ends = zip(natural(form, unsure.lower).tolist(), natural(form, unsure.upper).tolist(), strict=True)
    intervals = dict(zip(names, ends, strict=True))
    stack = form.stack(found.theta[None], points)
    delta = relative(stack[0, -1], points)
    log_unpruned, rising = points.log_unpruned[points.configuration], rises(points, form.law)
    where = region(stack[0, -1], log_unpruned, log_plateau(form, found.theta, points))
    # Where nothing rises ε↑ may come out as low as the unpruned errors, which makes no high plateau of them.
    regions = by_group(delta, where if rising else 0 * where, len(REGIONS))
    per_configuration = by_group(delta, points.configuration, points.configurations)
    floor = noise_floor(data.noise, form.unpruned_slope(found.theta[None], points, stack)[0], points)
    free = {name for name, fixed in zip(names, held, strict=True) if not fixed}
    return Fit(
        law=form.law.name,
        metric=Metric(table.metric),
        axes=form.axes,
        reference_examples=points.reference_examples,
        parameters=values,
        intervals=intervals,
        fixed=tuple(name for name in names if name not in free),
        deviation=deviation(delta),
        regions=dict(zip(REGIONS, regions, strict=True)),
        noise_floor=floor,
        held_out=known.held_out,
        rows=len(points),
        at_chance=data.at_chance,
        rises=rising,
        kept_per_level=data.kept_per_level,
        counted=data.counted,
        columns=table.columns,
        selected=table.selected,
        configurations=tuple(_configurations(points, per_configuration)),
        findings=(),
        spread=Spread(
            centre=to_plain @ unsure.centre,
            draws=unsure.draws @ to_plain.T,
            degrees=unsure.degrees,
            run=unsure.run,
            unpruned=unsure.unpruned,
        ),
        dense=known.dense,
        origin=_origin(table),
        options=options,
    )


def log_plateau(form: PruningForm, theta: Floats, points: Points) -> float:
    """log ε↑ of a parameter set; of a law without a plateau, a value above every measured error."""
    plateau = form.find(Role.PLATEAU)
    return float(np.log(2 * points.error.max())) if plateau is None else float(theta[plateau])


def _configurations(points: Points, deviations: list[Deviation]) -> Iterator[Configuration]:
    for index, own in enumerate(deviations):
        rows = points.configuration == index
        yield Configuration(
            depth=float(points.depth[index]),
            width=float(points.width[index]),
            num_examples=float(points.num_examples[index]),
            unpruned_error=float(points.unpruned[index]),
            replicates=float(points.unpruned_replicates[index]),
            weights=float(points.weights[index]),
            lowest_density=float(points.density[rows].min()),
            highest_error=float(points.error[rows].max()),
            lowest_error=float(points.error[rows].min()),
            deviation=own,
            curve=_curve(points.rows(rows)),
        )


def _curve(points: Points) -> tuple[tuple[float, float, float], ...]:
    columns = (points.density, points.error, points.replicates)
    return tuple((float(d), float(e), float(r)) for d, e, r in zip(*columns, strict=True))


def _origin(table: Table) -> Origin:
    return Origin(
        table=table.source,
        digest=table.digest,
        family=table.family,
        dataset=table.dataset,
        method=table.method,
        recipe=table.recipe,
        chance=table.chance,
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


def fit_each(table: Table, *, replicates: Replicates = "mean", seed: int = 0) -> list[SingleFit]:
    """Fit Eq. 1 to each configuration alone, as the paper does first; under four rows it is left out."""
    points = measured(table, replicates).points
    enough = np.flatnonzero(np.bincount(points.configuration) >= LEAST_ROWS)
    return _fit_all(points.of(enough), table.metric, seed) if len(enough) else []


def _fit_all(points: Points, metric: str, seed: int) -> list[SingleFit]:
    """All curves from all their starts in one call; short ones are filled up with rows of no weight."""
    curves = [points.of(np.array([index])) for index in range(points.configurations)]
    forms = [build_form(DEFAULT_LAW, one, metric) for one in curves]
    begin = np.array([starts(form, one, seed) for form, one in zip(forms, curves, strict=True)])
    tries = begin.shape[1]
    lower, upper = (np.repeat(ends, tries, axis=0) for ends in zip(*map(bounds, forms), strict=True))
    counts = np.array([len(one) for one in curves])
    offset = np.arange(counts.max())
    inside = np.repeat(offset < counts[:, None], tries, axis=0)
    at = np.repeat(points.starts, tries)[:, None] + inside * offset
    found = solve(
        forms[0],
        points.packed(at),
        begin.reshape(len(at), -1),
        weights=inside.astype(float),
        limits=(lower, upper),
    )
    best = found.cost.reshape(-1, tries).argmin(axis=1) + tries * np.arange(len(curves))
    at_bound = found.at_lower | found.at_upper
    return [_single(*own) for own in zip(forms, curves, found.theta[best], at_bound[best], strict=True)]


def _single(form: PruningForm, points: Points, theta: Floats, at_bound: Mask) -> SingleFit:
    names = [parameter.name for parameter in form.parameters]
    return SingleFit(
        depth=float(points.depth[0]),
        width=float(points.width[0]),
        num_examples=float(points.num_examples[0]),
        unpruned_error=float(points.unpruned[0]),
        parameters=dict(zip(names, natural(form, theta).tolist(), strict=True)),
        deviation=deviation(relative(form.log_error(theta[None], points)[0], points)),
        at_bound=tuple(name for name, bound in zip(names, at_bound, strict=True) if bound),
    )
