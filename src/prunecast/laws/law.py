"""The contract of a law of pruning, and the register of all laws.

A law predicts the error of a pruned network from the error of the unpruned one. `Law` says what a law is called, which
named parameters it may have and how it is built for some measured points; the result is a `PruningForm`, which the
solver, the intervals and every prediction use. To add a law, describe it with `FormulaLaw` and `register` it.

Parameters are searched on an inner scale: as logarithms where they are positive. An array `theta` of parameter sets
has shape (sets, parameters); predictions have shape (sets, rows).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, cached_property
from typing import Protocol

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.laws.dual import Array, Dual
from prunecast.laws.points import Floats, Points
from prunecast.plugins import load_attribute, load_plugins
from prunecast.text import nearest

FAR = 50.0
"""Predictions of log error are kept within ± this, so that a search can come back from nonsense."""
LARGEST = 230.0
"""Logarithms of parameters are cut here, at 1e100, so that an open interval is still a number."""
RANDOM_STARTS = 7
DEFAULT_LAW = "eq2"
"""The paper's law."""
AUTO = "auto"
"""In place of a law's name: the law that predicts left-out configurations best."""


class Role(Enum):
    """What a parameter does, as far as fits and answers need to know."""

    PLATEAU = "plateau"
    """the error of networks pruned to nothing"""
    SLOPE = "slope"
    """the slope of the power-law region"""
    SCALE = "scale"
    """the density, or invariant, at which the high plateau ends"""
    EXPONENT = "exponent"
    """the exponent of depth, width or dataset size in the invariant"""
    OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One free number of a law, with the range it is searched in and the first guess, in its natural unit."""

    name: str
    symbol: str
    meaning: str = ""
    lower: float
    upper: float
    start: float = 1.0
    positive: bool = True
    """whether it is searched as a logarithm"""
    role: Role = Role.OTHER
    axis: str = ""
    """of an exponent: depth, width or num_examples"""
    between_sizes: bool = False
    """whether it makes the curves of different sizes differ, as exponents do"""
    bound_is_known: bool = False
    """whether a bound of its range has a meaning, such as "no dip", so that an estimate there is an answer"""

    @property
    def inner_bounds(self) -> tuple[float, float]:
        """The bounds on the inner scale."""
        if self.positive:
            return float(np.log(self.lower)), float(np.log(self.upper))
        return self.lower, self.upper


class Form(Protocol):
    """What the solver needs to know of a functional form."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The free parameters, in the order of theta's columns."""

    def log_error(self, theta: Floats, points: Points) -> Floats:
        """log ε̂ of every parameter set at every row."""

    def stack(self, theta: Floats, points: Points) -> Floats:
        """The derivatives of log ε̂ by the inner parameters, then log ε̂: shape (sets, parameters + 1, rows)."""


def bounds(form: Form) -> tuple[Floats, Floats]:
    """Lower and upper inner bounds of a form's parameters."""
    pairs = np.array([parameter.inner_bounds for parameter in form.parameters])
    return pairs[:, 0], pairs[:, 1]


def natural(form: Form, theta: Floats) -> Floats:
    """Inner parameters in their natural units."""
    positive = np.array([parameter.positive for parameter in form.parameters])
    return np.where(positive, np.exp(np.clip(np.where(positive, theta, 0.0), -LARGEST, LARGEST)), theta)


def inner(form: Form, values: Floats) -> Floats:
    """Natural parameters on the inner scale."""
    positive = np.array([parameter.positive for parameter in form.parameters])
    return np.where(positive, np.log(np.where(positive, values, 1.0)), values)


def starts(form: Form, points: Points, seed: int = 0) -> Floats:
    """Where a search begins: the parameters' own first guesses, and a few sets spread over the bounds."""
    lower, upper = bounds(form)
    guess = inner(form, np.array([parameter.start for parameter in form.parameters]))
    spread = np.random.default_rng(seed).uniform(lower, upper, (RANDOM_STARTS, len(lower)))
    return np.vstack([np.clip(guess, lower, upper), spread])


@dataclass(frozen=True, kw_only=True)
class PruningForm(ABC):
    """A law built for some points: the parameters that these points can determine, and how it predicts."""

    law: "Law"
    parameters: tuple[Parameter, ...]
    axes: tuple[str, ...]
    """what the invariant contains besides density: depth, width, num_examples"""

    @cached_property
    def _places(self) -> dict[str, int]:
        return {parameter.name: index for index, parameter in enumerate(self.parameters)}

    @cached_property
    def exponents(self) -> dict[str, str]:
        """The name of the exponent of each axis that has one."""
        return {own.axis: own.name for own in self.parameters if own.role is Role.EXPONENT}

    @property
    def needs_examples(self) -> bool:
        """Whether predictions depend on the number of examples beyond the unpruned error."""
        return "num_examples" in self.axes

    def index(self, name: str) -> int:
        """The column of a parameter in theta."""
        return self._places[name]

    def has(self, name: str) -> bool:
        """Whether the form has a parameter of this name."""
        return name in self._places

    def find(self, role: Role) -> int | None:
        """The column of the first parameter with a role; None where there is none."""
        return next((index for index, own in enumerate(self.parameters) if own.role is role), None)

    def column(self, theta: Floats, name: str) -> Floats:
        """One parameter of all sets, shape (sets, 1)."""
        at = self._places[name]
        return theta[:, at : at + 1]

    @abstractmethod
    def log_error(self, theta: Floats, points: Points) -> Floats:
        """log ε̂ of every parameter set at every row."""

    @abstractmethod
    def stack(self, theta: Floats, points: Points, log_unpruned: Floats | None = None) -> Floats:
        """The derivatives of log ε̂ by the inner parameters, then log ε̂: shape (sets, parameters + 1, rows).

        `log_unpruned`, one value per configuration, takes the place of the measured log ε_np.
        """

    @abstractmethod
    def unpruned_slope(
        self, theta: Floats, points: Points, stack: Floats, log_unpruned: Floats | None = None
    ) -> Floats:
        """∂log ε̂/∂log ε_np at every row; `stack` is what the form returned for the same arguments."""

    def smallest_density(self, theta: Floats, points: Points, log_target: Floats) -> Floats | None:
        """The smallest density at which each configuration's ε̂ is at most the target, in closed form.

        Infinite where no density does. None where the law has no closed form: then the law is inverted numerically.
        """
        return None

    def to_plain_depth(self, points: Points) -> Floats:
        """The linear map from inner parameters fitted with relative depths to those that belong to plain depth."""
        return np.eye(len(self.parameters))


@dataclass(frozen=True, kw_only=True, eq=False)
class Law(ABC):
    """A law of pruning: its name and title, every parameter that it may have, and how it is built."""

    name: str
    """the word that selects it"""
    title: str
    """what it is called in a sentence"""
    parameters: tuple[Parameter, ...]
    """every parameter that it may have; what the points cannot determine is left out of a form"""
    dips: bool = False
    """whether the predicted error of a pruned network may fall below the unpruned error"""
    fits_one: str = ""
    """of a law for one configuration alone: the law to fit where there are several"""

    @property
    def family_law(self) -> str:
        """The law to fit to a family: its own name, unless it is the special case of a single configuration."""
        return self.fits_one or self.name

    @abstractmethod
    def form(self, points: Points, metric: str) -> PruningForm:
        """The law with the parameters that these points can determine, with their bounds and first guesses."""

    @abstractmethod
    def build(self, parameters: tuple[Parameter, ...], axes: tuple[str, ...]) -> PruningForm:
        """A form with these of the law's parameters."""

    @abstractmethod
    def equation_of(self, form: PruningForm) -> str:
        """The equation with the parameters of a form, in one or two lines of plain text."""

    def restored(self, names: Iterable[str], axes: tuple[str, ...]) -> PruningForm:
        """A form for prediction, from the names of its parameters."""
        known = {parameter.name: parameter for parameter in self.parameters}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"{self.name} has no parameter {unknown[0]!r}")
        return self.build(tuple(known[name] for name in names), axes)


@cache
def restored(law: Law, names: tuple[str, ...], axes: tuple[str, ...]) -> PruningForm:
    """As `Law.restored`, made once."""
    return law.restored(names, axes)


@dataclass(frozen=True, kw_only=True)
class Formula:
    """A form given by one formula of its natural parameters by name, differentiated by dual numbers."""

    parameters: tuple[Parameter, ...]
    formula: Callable[[Mapping[str, Array], Points], Array]
    """log ε̂ of every row from the parameters' values, each of shape (sets, 1)"""

    def log_error(self, theta: Floats, points: Points) -> Floats:
        """log ε̂ of the formula, kept finite."""
        value = self._evaluated(self._columns(theta), points)
        return _finite(np.broadcast_to(value, (len(theta), len(points))))

    def stack(self, theta: Floats, points: Points) -> Floats:
        """The derivatives of the formula by each inner parameter, and log ε̂, both finite."""
        columns = self._columns(theta)
        slopes = [c if p.positive else np.ones_like(c) for c, p in zip(columns, self.parameters, strict=True)]
        duals = [Dual(c, {i: slope}) for i, (c, slope) in enumerate(zip(columns, slopes, strict=True))]
        found = self._evaluated(duals, points)
        stack = np.empty((len(theta), len(columns) + 1, len(points)))
        for i in range(len(columns)):
            stack[:, i] = found.slopes.get(i, 0.0)
        stack[:, -1] = _finite(found.value)
        return np.nan_to_num(stack, copy=False, nan=0.0, posinf=0.0, neginf=0.0)

    def _columns(self, theta: Floats) -> list[Floats]:
        """Natural parameters, one column each."""
        return [
            np.exp(theta[:, i : i + 1]) if parameter.positive else theta[:, i : i + 1]
            for i, parameter in enumerate(self.parameters)
        ]

    def _evaluated(self, columns: Sequence[Array], points: Points) -> Array:
        names = (parameter.name for parameter in self.parameters)
        with np.errstate(all="ignore"):
            return self.formula(dict(zip(names, columns, strict=True)), points)


def _finite(log_error: Floats) -> Floats:
    return np.asarray(np.clip(np.nan_to_num(log_error, nan=FAR), -FAR, FAR))


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What a law's formula is given for every row, as arrays."""

    density: Floats
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
            **{name: points.spread(getattr(points, name)) for name in names},
        )


LawFormula = Callable[[Mapping[str, Array], Rows], Array]


@dataclass(frozen=True, kw_only=True, eq=False)
class FormulaLaw(Law):
    """A law from one formula: log ε̂ from named parameters and rows, in numpy operations.

    Exponents of axes that do not vary are left out of the fit and enter the formula as zero. The law is differentiated
    automatically and inverted numerically.
    """

    equation: str
    formula: LawFormula
    uses_examples: bool = False
    """whether the formula reads the number of examples other than through an exponent of it"""

    def form(self, points: Points, metric: str) -> PruningForm:
        """All parameters but the exponents of axes that do not vary."""
        varying = {axis for axis in ("depth", "width", "num_examples") if np.ptp(getattr(points, axis)) > 0}
        kept = tuple(own for own in self.parameters if not own.axis or own.axis in varying)
        return self.build(kept, tuple(own.axis for own in kept if own.axis))

    def build(self, parameters: tuple[Parameter, ...], axes: tuple[str, ...]) -> PruningForm:
        """The formula with these parameters."""
        return FormulaForm(
            law=self, parameters=parameters, axes=axes, formula=self.formula, uses_examples=self.uses_examples
        )

    def equation_of(self, form: PruningForm) -> str:
        """The equation as it was written down."""
        return self.equation


@dataclass(frozen=True, kw_only=True)
class FormulaForm(PruningForm):
    """A `FormulaLaw` with the parameters that some points can determine."""

    formula: LawFormula
    uses_examples: bool

    @property
    def needs_examples(self) -> bool:
        """Whether the formula reads the number of examples."""
        return self.uses_examples or "num_examples" in self.axes

    def log_error(self, theta: Floats, points: Points) -> Floats:
        """log ε̂ of the formula."""
        return self._formula(points, np.exp(points.log_unpruned)).log_error(theta, points)

    def stack(self, theta: Floats, points: Points, log_unpruned: Floats | None = None) -> Floats:
        """The derivatives of the formula, and log ε̂."""
        return self._formula(points, _unpruned(points, log_unpruned)).stack(theta, points)

    def unpruned_slope(
        self, theta: Floats, points: Points, stack: Floats, log_unpruned: Floats | None = None
    ) -> Floats:
        """∂log ε̂/∂log ε_np by a dual number for ε_np."""
        unpruned = points.spread(_unpruned(points, log_unpruned))
        values = natural(self, theta)
        columns = {own.name: values[:, i : i + 1] for i, own in enumerate(self.parameters)}
        with np.errstate(all="ignore"):
            found = self.formula(
                {**self._left_out(), **columns}, Rows.of(points, Dual(unpruned, {0: unpruned}))
            )
        slope = found.slopes.get(0, 0.0) if isinstance(found, Dual) else 0.0
        return np.broadcast_to(np.nan_to_num(slope, posinf=0.0, neginf=0.0), (len(theta), len(points)))

    def _formula(self, points: Points, unpruned: Floats) -> Formula:
        rows, left_out = Rows.of(points, points.spread(unpruned)), self._left_out()
        return Formula(
            parameters=self.parameters, formula=lambda values, _: self.formula({**left_out, **values}, rows)
        )

    def _left_out(self) -> dict[str, Array]:
        return {own.name: 0.0 for own in self.law.parameters if not self.has(own.name)}


def _unpruned(points: Points, log_unpruned: Floats | None) -> Floats:
    return np.exp(points.log_unpruned if log_unpruned is None else log_unpruned)


_LAWS: dict[str, Law] = {}
_SOURCES: dict[str, str] = {}


def register(law: Law) -> Law:
    """Make a law known by its name to every command, the page and the figures; a law of the same name is replaced."""
    if law.name in (AUTO, "") or ":" in law.name:
        raise PrunecastError(f"A law cannot be called {law.name!r}; choose another name.")
    _LAWS[law.name] = law
    return law


def get_law(name: str) -> Law:
    """The registered law of this name, or the one that "module:attribute" names, which is then registered."""
    if name not in _LAWS:
        load_plugins()
    if name in _LAWS:
        return _LAWS[name]
    if ":" in name:
        return _imported(name)
    near = nearest(name, _LAWS)
    guess = "" if near is None else f" Did you mean {near}?"
    raise PrunecastError(f"No law is called {name!r}; there are {', '.join(selectable_laws())}.{guess}")


def _imported(place: str) -> Law:
    law = load_attribute(place, "law")
    if not isinstance(law, Law):
        raise PrunecastError(f"law {place!r} is {type(law).__name__}; it must be a prunecast.laws.Law.")
    _SOURCES[law.name] = place
    return register(law)


def source_of(law: str) -> str:
    """How to ask for a law in another process: "module:attribute" where it was imported so, else its name."""
    return _SOURCES.get(law, law)


def selectable_laws() -> tuple[str, ...]:
    """The names of the laws that can be fitted to a family, the default first."""
    load_plugins()
    return tuple(name for name, law in _LAWS.items() if not law.fits_one)


def build_form(law: str, points: Points, metric: str) -> PruningForm:
    """A law with the parameters and bounds for some points."""
    return get_law(law).form(points, metric)


def with_range(parameter: Parameter, lower: float, upper: float, start: float) -> Parameter:
    """A parameter with the range and the first guess for the points at hand."""
    return replace(parameter, lower=lower, upper=upper, start=start)
