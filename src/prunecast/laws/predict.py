"""Predictions of a fitted law, with the interval that 95% of new training runs fall in."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special  # `stats` takes longer to import than most fits take

from prunecast.display import Displayable
from prunecast.errors import PrunecastError
from prunecast.laws.deviations import REGIONS, region
from prunecast.laws.fitted import FittedLaw
from prunecast.laws.intervals import COVERAGE
from prunecast.laws.points import AXES, Floats
from prunecast.laws.predictive import inputs_of, predictive, query
from prunecast.laws.sizes import size_of
from prunecast.laws.support import below, measured_at, outside
from prunecast.metric import Metric
from prunecast.table import LARGEST, TINY
from prunecast.text import plural

FIRST = ("density", "error", "lower", "upper")
LAST = ("region", "extrapolated", "unpruned_source", "unpruned_error", "num_examples", "depth", "width")
"""The columns of a frame: the first ones, those of the last that vary, then the others, narrow ones at the end."""
SHOWN_ROWS = 20


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Prediction(Displayable):
    """Arrays of one shape: what was given, the estimate, and its 95% interval."""

    metric: Metric
    """what is predicted"""
    density: Floats
    """as given; all arrays have the shape to which the arguments broadcast"""
    depth: Floats
    """as given, or the only one in the table"""
    width: Floats
    """as given, or the only one in the table"""
    num_examples: Floats
    """as given, or the only number in the table"""
    unpruned_error: Floats
    """the error at density 1 that the prediction starts from"""
    unpruned_source: npt.NDArray[np.str_]
    """given, measured, or predicted by the dense law and similar sizes"""
    error: Floats
    """the predicted error: the median of new training runs"""
    lower: Floats
    """the lower end of the interval that 95% of new training runs fall in"""
    upper: Floats
    """its upper end"""
    region: npt.NDArray[np.str_]
    """low plateau, power law or high plateau"""
    extrapolated: npt.NDArray[np.bool_]
    """whether depth, width and dataset size, two at a time, or the density lie outside the measured range"""

    def __repr__(self) -> str:
        """One line for the prompt."""
        count = plural(self.error.size, "error")
        if not self.error.size:
            return f"<Prediction of {count}>"
        ends = (self.error.min(), self.error.max(), self.density.min(), self.density.max())
        errors, densities = (f"{a:.4g}" if a == b else f"{a:.4g} to {b:.4g}" for a, b in (ends[:2], ends[2:]))
        return f"<Prediction of {count}: {errors} at density {densities}>"

    def __str__(self) -> str:
        """The most important columns, as wide as a terminal."""
        if not self.error.size:
            return repr(self)
        frame = self.frame
        shown = [name for name in frame if name in FIRST or (name in AXES and frame[name].nunique() > 1)]
        digits = dict.fromkeys(("error", "lower", "upper"), "{:.4g}".format)
        return str(frame[[*shown, "region"]].to_string(index=False, max_rows=SHOWN_ROWS, formatters=digits))

    @property
    def frame(self) -> pd.DataFrame:
        """One row per prediction: density and error, then columns that vary, then constant columns."""
        columns = {name: np.ravel(getattr(self, name)) for name in (*FIRST, *LAST)}
        varied = [name for name in LAST if len(np.unique(columns[name])) > 1]
        names = (*FIRST, *varied, *(name for name in LAST if name not in varied))
        return pd.DataFrame({name: columns[name] for name in names})


def predict(
    fit: FittedLaw,
    density: npt.ArrayLike,
    *,
    depth: npt.ArrayLike | None,
    width: npt.ArrayLike | None,
    num_examples: npt.ArrayLike | None,
    unpruned_error: npt.ArrayLike | None,
) -> Prediction:
    """Evaluate a law at the arguments, broadcast against each other."""
    needed = inputs_of(fit) if unpruned_error is not None else inputs_of(fit) | {"num_examples"}
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
    own = np.where(
        source == "measured", measured_at(fit, np.stack([flat[name] for name in AXES], axis=1)), -1
    )
    found = predictive(fit).of(query(fit, flat, unpruned), own, unpruned_std, source == "given")
    log_error = found.log_error
    score = float(special.stdtrit(fit.spread.degrees, (1 + COVERAGE) / 2))
    with np.errstate(over="ignore"):  # nothing may be known of a size, whatever its median
        upper = np.exp(log_error + score * found.spread)
    names = np.array(REGIONS)[region(log_error, np.log(unpruned), float(np.log(fit.high_error)))]
    columns = {
        **flat,
        "unpruned_error": unpruned,
        "unpruned_source": source,
        "error": np.minimum(np.exp(log_error), fit.metric.highest),
        "lower": np.exp(log_error - score * found.below),
        "upper": np.minimum(upper, fit.metric.highest),
        "region": names,
        "extrapolated": below(fit, flat["density"]) | outside(fit, {name: flat[name] for name in axes}),
    }
    return Prediction(metric=fit.metric, **{name: value.reshape(shape) for name, value in columns.items()})


def _default(
    fit: FittedLaw, name: str, value: npt.ArrayLike | None, *, needed: frozenset[str]
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


def _check(fit: FittedLaw, inputs: dict[str, Floats], *, given: bool) -> None:
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
        beyond = (inputs[name] < TINY) | (inputs[name] > LARGEST)
        if name == "num_examples":
            beyond &= inputs[name] != 0
        if beyond.any():
            raise PrunecastError(
                f"{name} is {inputs[name][beyond][0]:g}, but it must be from {TINY:g} to {min(top, LARGEST):g}"
            )


def _unpruned(fit: FittedLaw, inputs: dict[str, Floats]) -> tuple[Floats, npt.NDArray[np.str_], Floats]:
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
        source[rest] = "predicted"
        unpruned[rest], unpruned_std[rest] = predictive(fit).unpruned(
            _from_dense_law(fit, places[at < 0]), places[at < 0]
        )
    return unpruned, source, unpruned_std


def _from_dense_law(fit: FittedLaw, places: Floats) -> Floats:
    depth, width, examples = places.T
    if fit.dense is None:
        sizes = dict(zip(AXES, places[0].tolist(), strict=True))
        place = ", ".join(
            f"{name} {value:g}" for name, value in sizes.items() if name == "width" or value != 1
        )
        raise PrunecastError(
            f"the unpruned {fit.metric.word} at {place} was not measured, and there are too few configurations to "
            "predict it; give it with --unpruned-error, or unpruned_error= in Python"
        )
    return fit.dense.predict(size_of(fit, depth, width), np.maximum(examples, 1.0), depth)
