"""Fit the law to a table: the paper's point estimate, intervals, judgement and notes."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.laws import catalogue
from prunecast.laws.dense import DenseLaw, fit_dense
from prunecast.laws.forms import PruningForm, natural
from prunecast.laws.identify import plateau_reached, rises
from prunecast.laws.judge import REGIONS, Deviation, by_group, deviation, noise_floor, region, relative
from prunecast.laws.measured import Measured, Replicates, measured
from prunecast.laws.notes import Optimum, noted
from prunecast.laws.points import Floats, Mask, Points
from prunecast.laws.prefer import held_out_rms, preferred
from prunecast.laws.result import LEFT_OUT, Configuration, Fit, Origin, Spread
from prunecast.laws.solver import Objective, Solution, solve
from prunecast.laws.uncertainty import Uncertainty, uncertainty
from prunecast.table import Table

AUTO = "auto"
"""In place of a law's name: the law that the data prefer."""


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
    law: str = "eq2",
    replicates: Replicates = "mean",
    residual: str = "relative",
    huber: float | None = None,
    high_error: str | float = "free",
    seed: int = 0,
) -> Fit:
    """Fit a law jointly to all configurations of a table: by default Eq. 2 (with one configuration: Eq. 1).

    The defaults are the paper's: least squares on the relative deviation of the mean over replicates at each
    level. `replicates="each"` fits every replicate's row, `residual="log"` uses log ε̂ − log ε, `huber` bounds the
    pull of outliers beyond that deviation, `high_error` holds ε↑ at `"chance"` or at a number. `law="dip"` lets the
    low plateau sink, which the paper's law does not; `law="auto"` does so where that predicts configurations left out
    of the fit clearly better.
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
    plain = _fit(known, "eq2", **options)
    if any(note.kind == "preference" for note in plain.notes) and preferred(plain.held_out) != "eq2":
        with contextlib.suppress(PrunecastError):  # too few rows for its parameters
            return _fit(known, preferred(plain.held_out), **options)
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
    form = catalogue.build(law, points, table.metric)
    objective = _objective(residual, huber)
    starts, held = _hold_high_error(catalogue.starts(form, points, seed), form, table, high_error)
    _require_rows(points, held, table)
    found = best(solve(form, points, starts, held=held, objective=objective))
    open_range = _open_high_error(form, points, table, held)
    to_paper = _to_paper(form, points)
    unsure = uncertainty(form, points, found.theta, held, open_range, to_paper, objective, seed)
    optimum = Optimum(
        form=form, points=points, theta=found.theta, cost=found.cost, held=held, objective=objective
    )
    options = {
        "replicates": replicates,
        "residual": residual,
        "huber": str(huber),
        "high_error": str(high_error),
        **({"too_large": LEFT_OUT} if table.selected else {}),
    }
    return _assemble(known, optimum, unsure, to_paper, options)


def _objective(residual: str, huber: float | None) -> Objective:
    if residual not in ("relative", "log"):
        raise PrunecastError(f"no residual is called {residual!r}; there are relative and log")
    if huber is not None and not huber > 0:
        raise PrunecastError(f"the Huber threshold must be positive, not {huber:g}")
    return Objective(residual=residual, huber=huber)


def _hold_high_error(
    starts: Floats, form: PruningForm, table: Table, high_error: str | float
) -> tuple[Floats, Mask]:
    """Starts with ε↑ set where it is to be held, and which parameters are held."""
    held = np.zeros(starts.shape[1], dtype=bool)
    if high_error == "free":
        return starts, held
    value = table.chance if high_error == "chance" else high_error
    if value is None:
        raise PrunecastError(
            f"{table.source}: the chance error of dataset {table.dataset!r} is not known; give a number"
        )
    if isinstance(value, str):
        raise PrunecastError(f"ε↑ can be free, chance or a number, not {value!r}")
    low, high = np.exp(form.parameters[0].inner_bounds)
    if not low <= value <= high:
        raise PrunecastError(f"ε↑ must lie between {low:.3g} and {high:.3g} for this table, not {value:g}")
    starts[:, 0] = np.log(value)
    held[0] = True
    return starts, held


def _require_rows(points: Points, held: Mask, table: Table) -> None:
    needed = int((~held).sum())
    if len(points) <= needed:
        raise PrunecastError(
            f"{table.source}: {len(points)} usable row{'s' * (len(points) != 1)} cannot determine {needed} parameters; "
            "measure more levels or configurations"
        )
    if not (points.density < 1).any():
        raise PrunecastError(
            f"{table.source}: every row has density 1; a law of pruning needs pruned networks"
        )


def _open_high_error(
    form: PruningForm, points: Points, table: Table, held: Mask
) -> tuple[float, float] | None:
    """The range (in log) that ε↑ may have where no curve shows its plateau, else None."""
    if held[0] or plateau_reached(points, table.chance):
        return None
    upper = form.parameters[0].inner_bounds[1] if table.chance is None else float(np.log(table.chance))
    return float(np.log(points.error.max())), upper


def _to_paper(form: PruningForm, points: Points) -> Floats:
    """The linear map to the paper's p′, which belongs to plain depth: log p′ + φ·log(reference depth)."""
    change = np.eye(len(form.parameters))
    if "depth" in form.axes:
        change[2, 3 + form.axes.index("depth")] = np.log(points.reference_depth)
    return change


def _assemble(
    known: Known,
    found: Optimum,
    unsure: Uncertainty,
    to_paper: Floats,
    options: dict[str, str],
) -> Fit:
    table, data, points = known.table, known.data, known.data.points
    form, held = found.form, found.held
    names = [parameter.name for parameter in form.parameters]
    values = dict(zip(names, natural(form, to_paper @ found.theta).tolist(), strict=True))
    ends = zip(natural(form, unsure.lower).tolist(), natural(form, unsure.upper).tolist(), strict=True)
    intervals = dict(zip(names, ends, strict=True))
    stack = form.stack(found.theta[None], points)
    delta = relative(stack[0, -1], points)
    log_unpruned = points.log_unpruned[points.configuration]
    where = region(stack[0, -1], log_unpruned, float(found.theta[0]))
    # Where nothing rises ε↑ may come out as low as the unpruned errors, which makes no high plateau of them.
    regions = by_group(delta, where if rises(points, form.name) else 0 * where, len(REGIONS))
    per_configuration = by_group(delta, points.configuration, points.configurations)
    floor = noise_floor(data.noise, form.unpruned_slope(stack)[0], points)
    free = {name for name, fixed in zip(names, held, strict=True) if not fixed}
    plain = Fit(
        law=form.name,
        metric=table.metric,
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
        configurations=tuple(_configurations(points, per_configuration)),
        notes=(),
        spread=Spread(
            centre=to_paper @ unsure.centre,
            draws=unsure.draws @ to_paper.T,
            degrees=unsure.degrees,
            run=unsure.run,
            unpruned=unsure.unpruned,
        ),
        dense=known.dense,
        origin=_origin(table),
        options=options,
    )
    return noted(plain, table, data, found, free)


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
