"""The contract of a law of pruning, and the register of all laws.

A law predicts the error of a pruned network from the error of the unpruned one. `Law` says what a law is called, which
named parameters it may have and how it is built for some measured points; the result is a `PruningForm`, which the
solver, the intervals and every prediction use. To add a law, describe it with `FormulaLaw` (in `formula_law`) and
`register` it.

Parameters are searched on an inner scale: as logarithms where they are positive. An array `theta` of parameter sets
has shape (sets, parameters); predictions have shape (sets, rows).
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from typing import Protocol

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.laws.points import AXES, Floats, Points
from prunecast.plugins import load_attribute, load_plugins
from prunecast.text import did_you_mean, listed

MAX_LOG_PARAMETER = 230.0
"""Logarithms of parameters are clipped here, at 1e100, so that the ends of an open interval are finite."""
RANDOM_STARTS = 7
DEFAULT_LAW = "eq2"
"""The paper's law."""
AUTO = "auto"
"""Used instead of a law's name: the law that predicts left-out configurations best."""


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
    """of exponents only: depth, width or num_examples"""
    between_sizes: bool = False
    """whether it makes curves of different sizes differ, as exponents do"""
    bound_is_known: bool = False
    """whether its bounds have a meaning, such as "no dip", so that an estimate at a bound is valid"""

    @classmethod
    def exponent(
        cls, name: str, symbol: str, axis: str, *, lower: float = -2.0, upper: float = 6.0, start: float = 1.0
    ) -> "Parameter":
        """The exponent of depth, width or num_examples in the invariant."""
        return cls(
            name=name,
            symbol=symbol,
            meaning=f"how {'dataset size' if axis == 'num_examples' else axis} trades against density",
            lower=lower,
            upper=upper,
            start=start,
            positive=False,
            role=Role.EXPONENT,
            axis=axis,
            between_sizes=True,
        )

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
    return np.where(
        positive,
        np.exp(np.clip(np.where(positive, theta, 0.0), -MAX_LOG_PARAMETER, MAX_LOG_PARAMETER)),
        theta,
    )


def inner(form: Form, values: Floats) -> Floats:
    """Natural parameters on the inner scale."""
    positive = np.array([parameter.positive for parameter in form.parameters])
    return np.where(positive, np.log(np.where(positive, values, 1.0)), values)


def starts(form: Form, seed: int = 0) -> Floats:
    """Where a search starts: the first guess of every parameter, and a few random sets within the bounds."""
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
        return {
            parameter.axis: parameter.name for parameter in self.parameters if parameter.role is Role.EXPONENT
        }

    @property
    def inputs(self) -> frozenset[str]:
        """Which of depth, width and num_examples a prediction depends on, beyond the unpruned error."""
        return frozenset(self.axes)

    def index(self, name: str) -> int:
        """The column of a parameter in theta."""
        return self._places[name]

    def has(self, name: str) -> bool:
        """Whether the form has a parameter of this name."""
        return name in self._places

    def find(self, role: Role) -> int | None:
        """The column of the first parameter with a role; None if there is none."""
        return next(
            (index for index, parameter in enumerate(self.parameters) if parameter.role is role), None
        )

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

        Infinite if no density does. None if the law has no closed form: then the law is inverted numerically.
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
    """every parameter that it may have; a form leaves out those that its points cannot determine"""
    dips: bool = False
    """whether the predicted error of a pruned network may fall below the unpruned error"""
    special_case_of: str = ""
    """for a law of a single configuration: the law for several"""

    def __post_init__(self) -> None:
        """Refuse invalid names, ranges and first guesses."""
        if self.name in (AUTO, "") or ":" in self.name:
            raise PrunecastError(f"A law cannot be called {self.name!r}; choose another name.")
        if not self.parameters:
            raise PrunecastError(
                f"The law {self.name!r} has no parameters, so there is nothing to fit; add one."
            )
        name, count = Counter(parameter.name for parameter in self.parameters).most_common(1)[0]
        if count > 1:
            raise PrunecastError(f"The law {self.name!r} has {count} parameters called {name!r}; rename one.")
        for parameter in self.parameters:
            problem = _problem(parameter)
            if problem:
                raise PrunecastError(f"The law {self.name!r}, parameter {parameter.name!r}: {problem}.")

    @property
    def family_law(self) -> str:
        """The law to fit to a family: its own name, unless it is the special case of a single configuration."""
        return self.special_case_of or self.name

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


def _problem(parameter: Parameter) -> str:
    """What is wrong with a parameter's range, first guess or axis; empty if nothing is."""
    if not parameter.lower < parameter.upper:
        return f"lower is {parameter.lower:g}, but it must be less than upper, which is {parameter.upper:g}"
    if parameter.positive and not parameter.lower > 0:
        return f"lower is {parameter.lower:g}, but it must be above 0 unless the parameter has positive=False"
    if not parameter.lower <= parameter.start <= parameter.upper:
        ends = f"{parameter.lower:g} and {parameter.upper:g}"
        return f"start is {parameter.start:g}, but it must be between lower and upper, {ends}"
    if parameter.role is Role.EXPONENT and parameter.axis not in AXES:
        return f"axis is {parameter.axis!r}, but the axis of an exponent must be {listed(AXES, 'or')}"
    if parameter.axis and parameter.role is not Role.EXPONENT:
        return "it has an axis, but only exponents do; make it a Parameter.exponent"
    return ""


@cache
def restored(law: Law, names: tuple[str, ...], axes: tuple[str, ...]) -> PruningForm:
    """`Law.restored`, cached."""
    return law.restored(names, axes)


_LAWS: dict[str, Law] = {}
_SOURCES: dict[str, str] = {}
"""where a law was imported from, as "module:attribute" """


def register(law: Law) -> Law:
    """Make a law known by its name to every command, the page and the figures; a law of the same name is replaced."""
    _LAWS[law.name] = law
    return law


def unregister(name: str) -> None:
    """Forget a law."""
    _LAWS.pop(name, None)
    _SOURCES.pop(name, None)


def get_law(name: str) -> Law:
    """The registered law of this name, or the one that "module:attribute" names, which is then registered."""
    if ":" in name:
        return _imported(name)
    if name not in _LAWS:
        load_plugins()
    if name in _LAWS:
        return _LAWS[name]
    guess = did_you_mean(name, _LAWS)
    raise PrunecastError(
        f"No law is called {name!r}; choose one of {', '.join(selectable_laws())}.{guess} To use a law of your own, "
        "name "
        "it as module:attribute, or import the module that registers it."
    )


def _imported(source: str) -> Law:
    law = load_attribute(source, "law")
    if not isinstance(law, Law):
        raise PrunecastError(f"law {source!r} is {type(law).__name__}; it must be a prunecast.laws.Law.")
    _SOURCES[law.name] = source
    return register(law)


def source_of(law: str) -> str:
    """How another process can find a law: "module:attribute" if it was imported that way, else its name."""
    return _SOURCES.get(law, law)


def selectable_laws() -> tuple[str, ...]:
    """The names of the laws that can be fitted to a family, the default first."""
    load_plugins()
    return tuple(name for name, law in _LAWS.items() if not law.special_case_of)


def build_form(law: str, points: Points, metric: str) -> PruningForm:
    """A law with the parameters and bounds for some points."""
    return get_law(law).form(points, metric)
