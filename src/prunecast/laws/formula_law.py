"""Laws given by one formula, differentiated automatically: how to add a law of your own.

`FormulaLaw` takes the formula as a function of the rows and the named parameters:

    def half(rows, high_error, gamma):
        return rows.unpruned + (high_error - rows.unpruned) * (1 - rows.density) ** gamma

`Formula` is the same for a form that is not a law, such as a rival that laws are compared with.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.laws.dual import Array, Dual
from prunecast.laws.law import Form, Law, Parameter, PruningForm, Role, natural, starts
from prunecast.laws.points import AXES, Floats, Points
from prunecast.metric import Metric
from prunecast.text import did_you_mean, listed

MAX_LOG_ERROR = 50.0
"""Predictions of log error are clipped to ± this, so that a search can recover from bad parameters."""


@dataclass(frozen=True, kw_only=True)
class Formula:
    """A form given by one formula of its natural parameters by name, differentiated by dual numbers."""

    parameters: tuple[Parameter, ...]
    formula: Callable[[Mapping[str, Array], Points], Array]
    """log ε̂ of every row from the parameters' values, each of shape (sets, 1)"""

    def log_error(self, theta: Floats, points: Points) -> Floats:
        """log ε̂ of the formula, kept finite."""
        value = self._evaluate(values_by_name(self, theta), points)
        return _finite(np.broadcast_to(value, (len(theta), len(points))))

    def stack(self, theta: Floats, points: Points) -> Floats:
        """The derivatives of the formula by each inner parameter, and log ε̂, both finite."""
        duals = {}
        for i, (name, values) in enumerate(values_by_name(self, theta).items()):
            by_inner = values if self.parameters[i].positive else np.ones_like(values)
            duals[name] = Dual(values, {i: by_inner})
        found = self._evaluate(duals, points)
        stack = np.empty((len(theta), len(self.parameters) + 1, len(points)))
        for i in range(len(self.parameters)):
            stack[:, i] = found.slopes.get(i, 0.0)
        stack[:, -1] = _finite(found.value)
        return np.nan_to_num(stack, copy=False, nan=0.0, posinf=0.0, neginf=0.0)

    def _evaluate(self, values: Mapping[str, Array], points: Points) -> Array:
        with np.errstate(all="ignore"):
            return self.formula(values, points)


def _finite(log_error: Floats) -> Floats:
    return np.asarray(np.clip(np.nan_to_num(log_error, nan=MAX_LOG_ERROR), -MAX_LOG_ERROR, MAX_LOG_ERROR))


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The arguments of a law's formula: arrays with one value per row."""

    density: Floats
    """share of the prunable weights that are kept"""
    depth: Floats
    width: Floats
    num_examples: Floats
    weights: Floats
    """prunable weights of the unpruned network"""
    unpruned: Array
    """error of the unpruned network"""

    @classmethod
    def of(cls, points: Points, unpruned: Array) -> "Rows":
        """The rows of some points, with their unpruned errors."""
        names = ("depth", "width", "num_examples", "weights")
        return cls(
            density=points.density,
            unpruned=unpruned,
            **{name: points.per_row(getattr(points, name)) for name in names},
        )


class _Recorder:
    """Rows that record which columns a formula reads."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.columns = rows, set[str]()

    def __getattr__(self, name: str) -> Array:
        known = [column.name for column in fields(Rows)]
        if name not in known:
            raise PrunecastError(f"rows have no {name!r}; they have {listed(known)}")
        self.columns.add(name)
        return getattr(self.rows, name)


_SAMPLE = Rows(
    density=np.array([1.0, 0.5, 0.1, 0.01]),
    depth=np.array([20.0, 8.0, 50.0, 14.0]),
    width=np.array([1.0, 0.5, 0.25, 2.0]),
    num_examples=np.array([50_000.0, 25_000.0, 12_500.0, 6_250.0]),
    weights=np.array([270_000.0, 27_000.0, 42_000.0, 756_000.0]),
    unpruned=np.array([0.1, 0.2, 0.3, 0.15]),
)
"""Rows that a new law is tried on."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FormulaLaw(Law):
    """A law from one formula: ε̂ of every row from the rows and the law's parameters, in numpy operations.

    The formula takes `Rows` first and then one argument for each parameter, by its name. Exponents of axes that do not
    vary in a table are left out of its fit and enter the formula as zero. The law is differentiated automatically and
    inverted numerically.
    """

    equation: str
    """the formula in plain text, with the parameters' symbols"""
    formula: Callable[..., Array]
    inputs: frozenset[str] = field(init=False)
    """which of depth, width and num_examples the formula reads"""

    def __post_init__(self) -> None:
        """Refuse a formula that does not fit the parameters, or that cannot be evaluated or differentiated."""
        super().__post_init__()
        self._check_arguments()
        columns = self._columns_read()
        sizes = ("depth", "width") if "weights" in columns else ()
        object.__setattr__(self, "inputs", columns.intersection(AXES).union(sizes))

    def form(self, points: Points, metric: str) -> PruningForm:
        """All parameters but the exponents of axes that do not vary.

        The search for a plateau begins at the largest error; of losses it may end at a hundred times the largest.
        """
        varying = {axis for axis in AXES if np.ptp(getattr(points, axis)) > 0}
        kept = [self._ranged(parameter, points, metric) for parameter in self.parameters]
        kept = [parameter for parameter in kept if not parameter.axis or parameter.axis in varying]
        form = FormulaForm(law=self, parameters=tuple(kept), axes=_axes(kept))
        values = values_by_name(form, starts(form))
        self._require_numbers(self.evaluate(Rows.of(points, points.per_row(points.unpruned)), values))
        return form

    def build(self, parameters: tuple[Parameter, ...], axes: tuple[str, ...]) -> PruningForm:
        """The formula with these parameters."""
        return FormulaForm(law=self, parameters=parameters, axes=axes)

    def equation_of(self, form: PruningForm) -> str:
        """The equation as given, and the exponents that were left out."""
        zero = [f"{parameter.symbol} = 0" for parameter in self.parameters if not form.has(parameter.name)]
        return ",  ".join([self.equation, *zero])

    def evaluate(self, rows: "Rows | _Recorder", values: Mapping[str, Array]) -> Array:
        """ε̂ of every row; exponents that were left out are zero."""
        with np.errstate(all="ignore"):
            return self.formula(
                rows, **{parameter.name: values.get(parameter.name, 0.0) for parameter in self.parameters}
            )

    @staticmethod
    def _ranged(parameter: Parameter, points: Points, metric: str) -> Parameter:
        if parameter.role is not Role.PLATEAU:
            return parameter
        top = float(points.error.max())
        upper = max(parameter.upper, 100 * top) if not Metric(metric).is_share else parameter.upper
        return replace(parameter, upper=upper, start=min(max(top, parameter.lower), upper))

    def _check_arguments(self) -> None:
        """Refuse a formula whose arguments are not the parameters."""
        known = [parameter.name for parameter in self.parameters]
        arguments = list(inspect.signature(self.formula).parameters.values())[1:]
        if any(argument.kind is argument.VAR_KEYWORD for argument in arguments):
            return
        taken = [argument.name for argument in arguments]
        unknown = next((name for name in taken if name not in known), None)
        if unknown is not None:
            guess = did_you_mean(unknown, known)
            raise PrunecastError(
                f"The formula of the law {self.name!r} takes {unknown!r}, but the law's parameters are "
                f"{listed(known)}.{guess}"
            )
        missing = next((name for name in known if name not in taken), None)
        if missing is not None:
            raise PrunecastError(
                f"The formula of the law {self.name!r} does not take the parameter {missing!r}; add it as an argument, "
                "or remove the parameter."
            )

    def _columns_read(self) -> frozenset[str]:
        """The columns that the formula reads, found by evaluating it, with its derivatives, on a few rows."""
        form = FormulaForm(law=self, parameters=self.parameters, axes=_axes(self.parameters))
        values = values_by_name(form, starts(form))
        duals = {
            name: Dual(value, {i: np.ones_like(value)}) for i, (name, value) in enumerate(values.items())
        }
        rows = _Recorder(_SAMPLE)
        try:
            found = self.evaluate(rows, duals)
        except Exception as problem:
            raise PrunecastError(
                f"The formula of the law {self.name!r} cannot be evaluated: {problem}"
            ) from problem
        slopes = found.slopes if isinstance(found, Dual) else {}
        unused = next((name for i, name in enumerate(values) if i not in slopes), None)
        if unused is not None:
            raise PrunecastError(
                f"The formula of the law {self.name!r} does not depend on the parameter {unused!r}; remove the "
                "parameter, or use it."
            )
        self._require_numbers(found.value)
        return frozenset(rows.columns)

    def _require_numbers(self, error: Floats) -> None:
        if not (np.isfinite(error) & (np.asarray(error) > 0)).any():
            raise PrunecastError(
                f"The formula of the law {self.name!r} does not give a positive number for any row with any "
                "parameters; "
                "check its logarithms, roots and powers."
            )


def _axes(parameters: Iterable[Parameter]) -> tuple[str, ...]:
    return tuple(parameter.axis for parameter in parameters if parameter.axis)


@dataclass(frozen=True, kw_only=True)
class FormulaForm(PruningForm):
    """A `FormulaLaw` with the parameters that some points can determine."""

    law: FormulaLaw

    @property
    def inputs(self) -> frozenset[str]:
        """The axes that the formula reads."""
        return self.law.inputs

    def log_error(self, theta: Floats, points: Points) -> Floats:
        """log ε̂ of the formula."""
        return self._formula(points, points.unpruned).log_error(theta, points)

    def stack(self, theta: Floats, points: Points, log_unpruned: Floats | None = None) -> Floats:
        """The derivatives of the formula, and log ε̂."""
        return self._formula(points, _unpruned(points, log_unpruned)).stack(theta, points)

    def unpruned_slope(
        self, theta: Floats, points: Points, stack: Floats, log_unpruned: Floats | None = None
    ) -> Floats:
        """∂log ε̂/∂log ε_np by a dual number for ε_np."""
        unpruned = points.per_row(_unpruned(points, log_unpruned))
        found = self.law.evaluate(Rows.of(points, Dual(unpruned, {0: unpruned})), values_by_name(self, theta))
        slope = found.slopes[0] / found.value if isinstance(found, Dual) else 0.0
        return np.broadcast_to(np.nan_to_num(slope, posinf=0.0, neginf=0.0), (len(theta), len(points)))

    def _formula(self, points: Points, unpruned: Floats) -> Formula:
        rows = Rows.of(points, points.per_row(unpruned))
        return Formula(
            parameters=self.parameters, formula=lambda values, _: np.log(self.law.evaluate(rows, values))
        )


def values_by_name(form: Form, theta: Floats) -> dict[str, Floats]:
    """Natural parameters by name, each of shape (sets, 1)."""
    values = natural(form, theta)
    return {parameter.name: values[:, i : i + 1] for i, parameter in enumerate(form.parameters)}


def _unpruned(points: Points, log_unpruned: Floats | None) -> Floats:
    return points.unpruned if log_unpruned is None else np.exp(log_unpruned)
