"""A fit: what was found, with predictions, statistics and its file."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from prunecast.display import Plottable
from prunecast.errors import PrunecastError
from prunecast.laws import findings, saved, statistics
from prunecast.laws.dense import DELTAS, DENSE_PARAMETERS, DenseLaw
from prunecast.laws.deviations import REGIONS
from prunecast.laws.fitted import Alternative, Configuration, FittedLaw, Spread
from prunecast.laws.law import Role, get_law, source_of
from prunecast.laws.points import CostCurves
from prunecast.laws.predict import Prediction, predict
from prunecast.laws.predictive import inputs_of
from prunecast.laws.saved import value_of
from prunecast.table import COSTS, other_latency
from prunecast.text import plural

ALWAYS_THERE = (Role.PLATEAU, Role.SLOPE, Role.SCALE)
"""A law's parameters with these roles are in every fit of it, whatever the points."""
SMALLEST, LARGEST = 1e-30, 1e30
"""Limits of measured numbers; formulas overflow only far beyond."""
LARGEST_DEVIATION = 1e12
"""No fitted dense law deviates by more."""
LARGEST_INNER = 200.0
"""No parameter is larger on the inner scale, where most are logarithms."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit(FittedLaw, Plottable):
    """A fitted law: its parameters with intervals, how well it fits, and what the data do not determine."""

    def __repr__(self) -> str:
        """One line for the prompt."""
        numbers = ", ".join(f"{self.symbol(name)} {value:.3g}" for name, value in self.parameters.items())
        size = f"{plural(self.rows, 'row')} of {plural(len(self.configurations), 'configuration')}"
        found = plural(len(self.findings), "finding")
        return f"<Fit of {self.law} to {self.origin.table}: {numbers}; deviation {self.deviation} on {size}, {found}>"

    @property
    def needs_examples(self) -> bool:
        """Whether a prediction depends on the number of examples beyond its unpruned error."""
        return "num_examples" in inputs_of(self)

    @property
    def residuals(self) -> pd.DataFrame:
        """One row per fitted row, shape (rows, 9): sizes, density, replicates, error, estimate and residual.

        `residual` is (estimate − error)/error, which the fit minimises by default.
        """
        return statistics.residuals(self)

    @property
    def covariance(self) -> pd.DataFrame:
        """The covariance of the parameters, shape (parameters, parameters).

        In natural units, estimated from the 400 draws behind the intervals of predictions, so accurate to about 10%.
        It is zero for fixed parameters and NaN for those whose search ended at a bound. If a parameter is undetermined
        or its interval is far from symmetric, use `intervals`.
        """
        return statistics.covariance(self)

    @property
    def free(self) -> int:
        """How many parameters were fitted."""
        return len(self.parameters) - len(self.fixed)

    @property
    def aic(self) -> float:
        """Akaike's information criterion of the relative deviations; compare laws fitted to the same rows."""
        return self._criterion(2.0)

    @property
    def bic(self) -> float:
        """Schwarz's information criterion of the relative deviations; compare laws fitted to the same rows."""
        return self._criterion(float(np.log(self.rows)))

    def _criterion(self, penalty: float) -> float:
        residual = self.residuals["residual"].to_numpy(dtype=float)
        return statistics.information_criterion(residual, self.free, penalty)

    def interval(self, parameter: str) -> tuple[float, float]:
        """The 95% interval of a parameter.

        Args:
            parameter: its name, such as "gamma".

        Returns:
            Its lower and upper end.

        Raises:
            PrunecastError: the law has no such parameter.
        """
        if parameter not in self.intervals:
            raise PrunecastError(
                f"{self.law} has no parameter {parameter!r}; it has {', '.join(self.intervals)}"
            )
        return self.intervals[parameter]

    def predict(
        self,
        density: npt.ArrayLike,
        *,
        depth: npt.ArrayLike | None = None,
        width: npt.ArrayLike | None = None,
        num_examples: npt.ArrayLike | None = None,
        unpruned_error: npt.ArrayLike | None = None,
    ) -> Prediction:
        """The error of networks pruned to these densities, with the interval that 95% of new training runs fall in.

        Args:
            density: share of prunable weights kept, above 0 and at most 1.
            depth, width, num_examples: the networks' sizes; needed only if they vary in the table.
            unpruned_error: error at density 1; by default the measured one, or else what the dense law and similar
                sizes predict. If it is given, the law alone answers.

        The arguments are numbers or arrays, which broadcast against each other.

        Returns:
            A prediction whose arrays (`error`, `lower`, `upper` and others) have the broadcast shape.

        Raises:
            PrunecastError: a size is needed and not given, or a value is impossible.
        """
        return predict(
            self, density, depth=depth, width=width, num_examples=num_examples, unpruned_error=unpruned_error
        )

    def save(self, path: str | Path) -> None:
        """Write the law as plain JSON; `prunecast.load` reads it.

        Args:
            path: the file; it is replaced as a whole.

        Raises:
            PrunecastError: the path is not writable.
        """
        saved.write(Path(path), self._fields())

    def as_json(self) -> dict[str, Any]:
        """Everything in a fit as plain lists, numbers and words."""
        return saved.headed(self._fields())

    def _fields(self) -> dict[str, Any]:
        own = ("configurations", "dense", "untrained")
        body = {name: value for name, value in vars(self).items() if name not in own}
        untrained = {"untrained": [vars(one) for one in self.untrained]} if self.untrained else {}
        return {
            **body,
            "law_source": source_of(self.law),
            "title": self.title,
            "equation": self.equation,
            "symbols": {name: self.symbol(name) for name in self.parameters},
            "deviation": asdict(self.deviation),
            "regions": {name: asdict(deviation) for name, deviation in self.regions.items()},
            "noise_floor": None if self.noise_floor is None else asdict(self.noise_floor),
            "columns": sorted(self.columns),
            "configurations": [_configuration_fields(one) for one in self.configurations],
            "dense": None if self.dense is None else asdict(self.dense),
            "origin": {
                name: value
                for name, value in asdict(self.origin).items()
                if value != "" or name != "timed_with"
            },
            "findings": [findings.to_json(finding) for finding in self.findings],
            "undetermined": list(self.undetermined),
            "spread": {
                **vars(self.spread),
                "centre": [round(float(x), 8) for x in self.spread.centre],
                "draws": [[round(float(x), 6) for x in row] for row in self.spread.draws],
                "possible": [[round(float(x), 6) for x in row] for row in self.spread.possible],
            },
            "alternatives": [asdict(one) for one in self.alternatives],
            **untrained,
        }


def load(path: str | Path) -> Fit:
    """Read a law that `Fit.save` or `prunecast fit -o` wrote.

    Args:
        path: the file.

    Returns:
        The fit, without its table.

    Raises:
        PrunecastError: the file cannot be read, is not a saved law, was altered, or names a law that is not registered.
    """
    return _rebuilt(saved.read(Path(path)), str(path))


def from_json(body: dict[str, Any], place: str = "law") -> Fit:
    """The fit that `Fit.as_json` described, before or after it was JSON."""
    return _rebuilt(saved.checked(saved.plain(body), place), place)


def _rebuilt(body: dict[str, Any], place: str) -> Fit:
    try:
        get_law(body.get("law_source") or body["law"])
        fit = _fit(body)
        _check(fit)
    except PrunecastError as error:
        raise PrunecastError(f"{place} cannot be used: {error}") from error
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise PrunecastError(f"{place} is damaged ({error}); fit the table again") from error
    return fit


def _fit(body: dict[str, Any]) -> Fit:
    hints, own = saved.typed_fields(Fit)
    given = [name for name in own if name in body or name not in ("alternatives", "untrained")]
    values = {name: value_of(hints[name], body[name], name) for name in given if name != "findings"}
    found = Fit(**values, findings=tuple(findings.from_json(one) for one in body["findings"]))
    spread = replace(found.spread, possible=found.spread.possible.reshape(-1, len(found.spread.centre)))
    return replace(found, spread=spread, dense=_dense(found.dense))


def _dense(law: DenseLaw | None) -> DenseLaw | None:
    """The dense law; in files from before it knew depth it has no δ."""
    if law is None or "delta" in law.parameters:
        return law
    return replace(law, parameters={**law.parameters, "delta": 0.0})


def _configuration_fields(configuration: Configuration) -> dict[str, Any]:
    """A configuration as plain lists, numbers and words, without counts that the table does not have."""
    body = {**vars(configuration), "deviation": vars(configuration.deviation)}
    left_out = {"never_pruned": body["never_pruned"] is None, "costs": not body["costs"]}
    return {name: value for name, value in body.items() if not left_out.get(name, False)}


def _check(fit: Fit) -> None:
    """Refuse values that no fit writes, before a prediction fails."""
    ordered = [own.name for own in fit._law.parameters if own.name in fit.parameters]
    right = {
        "the order of parameters": list(fit.parameters) == ordered,
        "intervals": fit.intervals.keys() == fit.parameters.keys()
        and all(-np.inf < low <= high < np.inf for low, high in fit.intervals.values()),
        "fixed": set(fit.fixed) <= fit.parameters.keys(),
        "spread": _usable_spread(fit.spread, len(ordered)),
        "alternatives": not any(map(_unusable, fit.alternatives))
        and _within([one.weight for one in fit.alternatives], 0.0, 1.0)
        and sum(one.weight for one in fit.alternatives) <= 1,
        "deviation": np.isfinite([fit.deviation.mean, fit.deviation.std]).all(),
        "regions": fit.regions.keys() == set(REGIONS),
        "rows": fit.rows > 0 <= fit.at_chance,
        "held_out": _within([*fit.held_out.values()], 0.0),
        "kept_per_level": 0 < fit.kept_per_level < 1,
        "reference_examples": _within([fit.reference_examples]),
        "chance": fit.origin.chance is None or _within([fit.origin.chance], SMALLEST, fit.metric.highest),
        "dense": fit.dense is None or _usable_dense(fit.dense),
        "noise_floor": fit.noise_floor is None or _within([*vars(fit.noise_floor).values()], 0.0),
        "configurations": bool(fit.configurations) and _usable_configurations(fit),
        "untrained": _within([(own.depth, own.width) for own in fit.untrained])
        and _usable_costs([own.costs for own in fit.untrained]),
    }
    wrong = [*_unusable(fit), *(name for name, usable in right.items() if not usable)]
    if wrong:
        raise ValueError(f"unusable: {wrong[0]}")
    with np.errstate(all="ignore"):
        if not np.isfinite(statistics.residuals(fit)["residual"]).all():
            raise ValueError("its parameters contradict its curves")
        if not np.isfinite(statistics.drawn_errors(fit)).all():
            raise ValueError("draws of its parameters give no errors")


def _within(values: npt.ArrayLike, low: float = SMALLEST, high: float = LARGEST) -> bool:
    """Whether all of some numbers are finite and within limits."""
    array = np.asarray(values, dtype=float)
    return bool(((array >= low) & (array <= high) & np.isfinite(array)).all())


def _usable_spread(spread: Spread, parameters: int) -> bool:
    if spread.centre.shape != (parameters,) or spread.draws.shape[1:] != (parameters,):
        return False
    inner = np.concatenate([spread.centre, spread.draws.ravel(), spread.possible.ravel()])
    return (
        spread.degrees >= 1
        and _within(np.abs(inner), 0.0, LARGEST_INNER)
        and _within([spread.degrees, spread.run, spread.unpruned, spread.open_slope], 0.0)
    )


def _unusable(fitted: Fit | Alternative) -> list[str]:
    """The parameters that are missing or impossible."""
    form, values = fitted.form(), fitted.parameters
    lowest = {own.name: SMALLEST if own.positive else -LARGEST for own in form.parameters}
    needed = [own.name for own in get_law(fitted.law).parameters if own.role in ALWAYS_THERE]
    axes = [] if set(fitted.axes) == set(form.exponents) else ["axes"]
    missing = [name for name in needed if name not in values]
    return [*axes, *missing, *(name for name in lowest if not _within([values[name]], lowest[name]))]


def _usable_dense(dense: DenseLaw) -> bool:
    same = dense.parameters.keys() == set(DENSE_PARAMETERS)
    others = [value for name, value in dense.parameters.items() if name != "delta"]
    within = _within(others, 0.0) and _within([dense.parameters["delta"]], *DELTAS)
    return same and within and 0 <= dense.deviation <= LARGEST_DEVIATION


def _usable_configurations(fit: Fit) -> bool:
    """Whether every configuration has sizes, errors and densities that can have been measured."""
    sizes = [(c.depth, c.width, c.num_examples, c.weights, c.replicates) for c in fit.configurations]
    errors = [(c.unpruned_error, c.lowest_error, c.highest_error) for c in fit.configurations]
    curves = np.array([row for c in fit.configurations for row in c.curve]).reshape(-1, 3)
    densities = np.array([c.lowest_density for c in fit.configurations])
    others = [c.never_pruned for c in fit.configurations if c.never_pruned is not None]
    highest = min(fit.metric.highest, LARGEST)
    return (
        _within(sizes)
        and _within(errors, SMALLEST, highest)
        and _within(densities, SMALLEST, 1.0)
        and _within(curves, SMALLEST)
        and _within(curves[:, 0], SMALLEST, 1.0)
        and _within(curves[:, 1], SMALLEST, highest)
        and _within(others, 0.0)
        and _usable_costs([c.costs for c in fit.configurations])
    )


def _usable_costs(every: Sequence[CostCurves]) -> bool:
    """Whether all costs can have been measured, at the same densities within a size."""
    spent = [pair for costs in every for curve in costs.values() for pair in curve]
    values = np.array(spent, dtype=float).reshape(-1, 2)
    return _within(values) and _within(values[:, 0], SMALLEST, 1.0) and all(map(_usable_curves, every))


def _usable_curves(costs: CostCurves) -> bool:
    """Whether all costs are known columns and given at the same densities, from the lowest up."""
    densities = [tuple(density for density, _ in curve) for curve in costs.values()]
    known = all(name in COSTS or other_latency(name) for name in costs)
    return known and all(
        own == densities[0] and own and all(low <= high for low, high in pairwise(own)) for own in densities
    )
