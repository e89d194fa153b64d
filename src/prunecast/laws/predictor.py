"""What every prediction needs of a fitted law, and its evaluation, averaged over the laws that the data allow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from prunecast.laws.dense import DenseLaw
from prunecast.laws.deviations import NoiseFloor
from prunecast.laws.law import PruningForm, get_law, inner, restored
from prunecast.laws.points import Floats, Points
from prunecast.laws.sizes import Named, size_of
from prunecast.laws.support import Configuration
from prunecast.metric import Metric


@dataclass(frozen=True, kw_only=True)
class Spread:
    """What the data leave open about the parameters and about a single training run."""

    centre: Floats
    draws: Floats
    """normal draws of the inner parameters; quantiles are Student's t with `degrees`"""
    degrees: float
    run: float
    """standard deviation of log ε of a single training run around the law"""
    unpruned: float
    """standard deviation of a measured log ε_np as the law means it"""
    possible: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """inner parameters, one set a row, that fit about as well; empty where the data determine all parameters"""
    open_slope: float = 0.0
    """standard deviation of d log ε / d log density below the measured densities; zero where the data determine it"""


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """Another law fitted to the same data, and how much it counts in predictions."""

    law: str
    """its name, or module:attribute"""
    axes: tuple[str, ...]
    parameters: dict[str, float]
    weight: float
    """its share of the likelihood of configurations left out"""

    def form(self) -> PruningForm:
        """The law's functional form."""
        return restored(get_law(self.law), tuple(self.parameters), self.axes)

    def theta(self) -> Floats:
        """The parameters on the inner scale of the form."""
        return inner(self.form(), np.array(list(self.parameters.values()), dtype=float))


class Predictor(Protocol):
    """What a prediction needs of a fitted law."""

    def __hash__(self) -> int:
        """Every fit is a key of its own."""

    @property
    def metric(self) -> Metric:
        """What is predicted."""

    @property
    def reference_examples(self) -> float:
        """The number of examples that counts as one in the invariant."""

    @property
    def configurations(self) -> Sequence[Configuration]:
        """What the law was fitted to."""

    @property
    def origin(self) -> Named:
        """The table that the law was fitted to."""

    @property
    def spread(self) -> Spread:
        """What the data leave open."""

    @property
    def noise_floor(self) -> NoiseFloor | None:
        """What replicates say of the noise."""

    @property
    def alternatives(self) -> Sequence[Alternative]:
        """Other laws that the data cannot distinguish from this one."""

    @property
    def family_law(self) -> str:
        """The name of the law in `held_out`."""

    @property
    def held_out(self) -> Mapping[str, float]:
        """By how much laws deviate on configurations left out of the fit: relative rms."""

    @property
    def dense(self) -> DenseLaw | None:
        """The law of the unpruned errors."""

    @property
    def high_error(self) -> float:
        """The error of networks pruned to nothing."""

    def form(self) -> PruningForm:
        """The law's functional form."""

    def theta(self) -> Floats:
        """The parameters on the inner scale of the form."""


def inputs_of(fit: Predictor) -> frozenset[str]:
    """The axes that a prediction by the fitted law or an alternative depends on, besides its unpruned error."""
    return fit.form().inputs.union(*(one.form().inputs for one in fit.alternatives))


def evaluate(fit: Predictor, theta: Floats, points: Points) -> tuple[Floats, Floats]:
    """log ε̂ of parameter sets, and ∂log ε̂/∂log ε_np; both have shape (sets, rows)."""
    form = fit.form()
    stack = form.stack(theta, points)
    return stack[:, -1], form.unpruned_slope(theta, points, stack)


@dataclass(frozen=True, kw_only=True)
class Average:
    """The mean of several laws, by their weights: arrays with a value for each row."""

    log_error: Floats
    unpruned_slope: Floats
    """∂log ε̂/∂log ε_np"""
    doubt: Floats
    """√weight · (log ε̂ of a law − the mean), one law a row; the squares add up to the variance among the laws"""


def average(fit: Predictor, points: Points) -> Average:
    """log ε̂ by the fitted law and its alternatives."""
    laws = [(fit.form(), fit.theta(), 1 - sum(one.weight for one in fit.alternatives))]
    laws += [(one.form(), one.theta(), one.weight) for one in fit.alternatives]
    values, slopes = [], []
    for form, theta, _ in laws:
        stack = form.stack(theta[None], points)
        values.append(stack[0, -1])
        slopes.append(form.unpruned_slope(theta[None], points, stack)[0])
    weight = np.array([share for _, _, share in laws])[:, None]
    mean = (weight * np.array(values)).sum(axis=0)
    return Average(
        log_error=mean,
        unpruned_slope=(weight * np.array(slopes)).sum(axis=0),
        doubt=np.sqrt(weight) * (np.array(values) - mean),
    )


def query(
    fit: Predictor, inputs: dict[str, Floats], unpruned: Floats, weights: Floats | None = None
) -> Points:
    """Each row as a configuration of its own, in the paper's units; its weights may be given where they are known."""
    count = len(unpruned)
    return Points(
        configuration=np.arange(count),
        level=np.zeros(count, dtype=np.int64),
        density=inputs["density"],
        error=np.ones(count),
        replicates=np.ones(count),
        nonzero=np.ones(count),
        weights=size_of(fit, inputs["depth"], inputs["width"]) if weights is None else weights,
        depth=inputs["depth"],
        width=inputs["width"],
        num_examples=np.maximum(inputs["num_examples"], 1.0),
        unpruned=unpruned,
        unpruned_replicates=np.ones(count),
        reference_depth=1.0,
        reference_examples=fit.reference_examples,
    )
