"""Predictions of a fitted law, with the interval in which a single new training run falls."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special  # `stats` takes longer to import than most fits take

from prunecast.errors import PrunecastError
from prunecast.laws.dense import DenseLaw
from prunecast.laws.deviations import REGIONS, region
from prunecast.laws.intervals import COVERAGE
from prunecast.laws.law import PruningForm
from prunecast.laws.points import AXES, Floats, Points
from prunecast.laws.support import Configuration, below, measured_at, outside, size_of
from prunecast.metric import Metric
from prunecast.text import plural

FIRST = ("density", "error", "lower", "upper")
LAST = ("region", "extrapolated", "unpruned_source", "unpruned_error", "num_examples", "depth", "width")
"""The columns of a frame: the first ones, those of the last that vary, then the others, narrow ones at the end."""
SHOWN_ROWS = 20


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


class Predictor(Protocol):
    """What a prediction needs of a fitted law."""

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
    def spread(self) -> Spread:
        """What the data leave open."""

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


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Prediction:
    """Arrays of one shape: what was given, the estimate, and its 95% interval."""

    density: Floats
    depth: Floats
    width: Floats
    num_examples: Floats
    unpruned_error: Floats
    unpruned_source: npt.NDArray[np.str_]
    """given, measured, or predicted by the dense law"""
    error: Floats
    lower: Floats
    upper: Floats
    region: npt.NDArray[np.str_]
    extrapolated: npt.NDArray[np.bool_]
    """whether depth, width and dataset size, two at a time, or the density lie outside what was measured"""

    def __repr__(self) -> str:
        """One line for the prompt."""
        count = plural(self.error.size, "error")
        if not self.error.size:
            return f"<Prediction of {count}>"
        ends = (self.error.min(), self.error.max(), self.density.min(), self.density.max())
        errors, densities = (f"{a:.4g}" if a == b else f"{a:.4g} to {b:.4g}" for a, b in (ends[:2], ends[2:]))
        return f"<Prediction of {count}: {errors} at density {densities}>"

    def __str__(self) -> str:
        """What matters of the frame, in the width of a terminal."""
        if not self.error.size:
            return repr(self)
        frame = self.frame()
        shown = [name for name in frame if name in FIRST or (name in AXES and frame[name].nunique() > 1)]
        return str(frame[[*shown, "region"]].to_string(index=False, max_rows=SHOWN_ROWS))

    def frame(self) -> pd.DataFrame:
        """One row per prediction: densities and errors, then what varies, and last what is the same in all rows."""
        columns = {name: np.ravel(value) for name, value in vars(self).items()}
        varied = [name for name in LAST if len(np.unique(columns[name])) > 1]
        names = (*FIRST, *varied, *(name for name in LAST if name not in varied))
        return pd.DataFrame({name: columns[name] for name in names})


def predict(
    fit: Predictor,
    density: npt.ArrayLike,
    *,
    depth: npt.ArrayLike | None,
    width: npt.ArrayLike | None,
    num_examples: npt.ArrayLike | None,
    unpruned_error: npt.ArrayLike | None,
) -> Prediction:
    """Evaluate a law where the arguments, broadcast against each other, say."""
    needed = fit.form().inputs if unpruned_error is not None else fit.form().inputs | {"num_examples"}
    inputs = {
        "density": density,
        "depth": _default(fit, "depth", depth, needed=needed),
        "width": _default(fit, "width", width, needed=needed),
        "num_examples": _default(fit, "num_examples", num_examples, needed=needed),
        "unpruned_error": np.nan if unpruned_error is None else unpruned_error,
    }
    arrays = np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in inputs.values()))
    shape = arrays[0].shape
    flat = dict(zip(inputs, (np.ravel(array) for array in arrays), strict=True))
    _check(fit, flat, given=unpruned_error is not None)
    unpruned, source, unpruned_std = _unpruned(fit, flat)
    axes = AXES if num_examples is not None or "num_examples" in needed else AXES[:2]
    points = query(fit, flat, unpruned)
    log_error, spread = estimate(fit, points, unpruned_std)
    half = float(special.stdtrit(fit.spread.degrees, (1 + COVERAGE) / 2)) * spread
    names = np.array(REGIONS)[region(log_error, np.log(unpruned), float(np.log(fit.high_error)))]
    columns = {
        **flat,
        "unpruned_error": unpruned,
        "unpruned_source": source,
        "error": np.exp(log_error),
        "lower": np.exp(log_error - half),
        "upper": np.minimum(np.exp(log_error + half), fit.metric.highest),
        "region": names,
        "extrapolated": below(fit, flat["density"]) | outside(fit, {name: flat[name] for name in axes}),
    }
    return Prediction(**{name: value.reshape(shape) for name, value in columns.items()})


def evaluate(fit: Predictor, theta: Floats, points: Points) -> tuple[Floats, Floats]:
    """log ε̂ of parameter sets, and ∂log ε̂/∂log ε_np; both have shape (sets, rows)."""
    form = fit.form()
    stack = form.stack(theta, points)
    return stack[:, -1], form.unpruned_slope(theta, points, stack)


def estimate(fit: Predictor, points: Points, unpruned_std: Floats) -> tuple[Floats, Floats]:
    """log ε̂ and its standard deviation: parameters, ε_np and the noise of a single training run."""
    log_error, slope = evaluate(fit, fit.theta()[None], points)
    form = fit.form()
    centre = form.log_error(fit.spread.centre[None], points)
    draws = np.concatenate([form.log_error(block, points) for block in np.array_split(fit.spread.draws, 8)])
    variance = ((draws - centre) ** 2).mean(axis=0) + (slope[0] * unpruned_std) ** 2 + fit.spread.run**2
    return log_error[0], np.sqrt(variance)


def _default(
    fit: Predictor, name: str, value: npt.ArrayLike | None, *, needed: frozenset[str]
) -> npt.ArrayLike:
    if value is not None:
        return value
    known = sorted({getattr(configuration, name) for configuration in fit.configurations})
    if name in needed and len(known) > 1:
        option = "--" + name.replace("_", "-")
        listed = ", ".join(f"{x:g}" for x in known[:8])
        raise PrunecastError(
            f"{name} varies in this law's data ({listed}); give it with {option}, or {name}= in Python"
        )
    return float(known[0])


def _check(fit: Predictor, inputs: dict[str, Floats], *, given: bool) -> None:
    limits = {"density": 1.0, "depth": np.inf, "width": np.inf, "num_examples": np.inf}
    if given:
        limits["unpruned_error"] = fit.metric.highest
    for name, top in limits.items():
        bad = ~((inputs[name] > 0) & (inputs[name] <= top) & np.isfinite(inputs[name]))
        if name == "num_examples":
            bad &= inputs[name] != 0
        if bad.any():
            must_be = "greater than 0 and at most 1" if top == 1 else "a positive number"
            raise PrunecastError(f"{name} is {inputs[name][bad][0]:g}, but it must be {must_be}")


def _unpruned(fit: Predictor, inputs: dict[str, Floats]) -> tuple[Floats, npt.NDArray[np.str_], Floats]:
    """ε_np of each row, where it comes from, and the standard deviation of its logarithm."""
    unpruned = inputs["unpruned_error"].copy()
    source = np.full(unpruned.shape, "given", dtype="<U9")
    unpruned_std = np.full(unpruned.shape, fit.spread.unpruned)
    unknown = np.flatnonzero(np.isnan(unpruned))
    places = np.stack([inputs[name][unknown] for name in AXES], axis=1)
    at = measured_at(fit, places)
    known, rest = unknown[at >= 0], unknown[at < 0]
    errors = np.array([c.unpruned_error for c in fit.configurations])
    unpruned[known], source[known] = errors[at[at >= 0]], "measured"
    if len(rest):
        unpruned[rest], source[rest] = _from_dense_law(fit, places[at < 0]), "predicted"
        unpruned_std[rest] = np.hypot(unpruned_std[rest], fit.dense.deviation if fit.dense else 0.0)
    return unpruned, source, unpruned_std


def _from_dense_law(fit: Predictor, places: Floats) -> Floats:
    depth, width, examples = places.T
    if fit.dense is None:
        place = ", ".join(f"{name} {value:g}" for name, value in zip(AXES, places[0], strict=True))
        raise PrunecastError(
            f"the unpruned {fit.metric.word} at {place} was not measured, and there are too few configurations to "
            "predict it; give it with --unpruned-error, or unpruned_error= in Python"
        )
    return fit.dense.predict(size_of(fit, depth, width), np.maximum(examples, 1.0))


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
