"""The smallest networks according to a law: for each error, and for one error with depth and width as real numbers.

The continuous optimum has depth, width and density as real numbers and the paper's l·w²·d as the size. For each depth
and width the density is the law's own inverse, so what is left is a smooth function of two numbers,
log l + 2 log w + log d(l, w). A grid finds its basin, zooming makes it exact, and the projected gradient at the end
is the certificate that no small change of depth or width makes the network smaller.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from prunecast.choice.costs import sizes_along
from prunecast.choice.counts import Counts, Naming, counter, naming
from prunecast.choice.options import measured_options, whole_weights
from prunecast.choice.question import (
    DEFAULT_SIZES,
    Given,
    Measure,
    as_fit,
    as_measure,
    ceiling,
    check_reachable,
    examples_for,
)
from prunecast.choice.search import Inversion, smallest_density
from prunecast.choice.sizes import AROUND_DEPTH, AROUND_WIDTH, Candidates, candidates, inside
from prunecast.display import Displayable
from prunecast.errors import PrunecastError
from prunecast.laws import Fit, Floats, Integers, Mask, below
from prunecast.metric import Metric

ERRORS = 200
FIRST_GRID, GRID, ZOOMS, STEP = 41, 15, 16, 1e-4
EDGE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Frontier(Displayable):
    """The smallest network for each error according to a law, as arrays, without errors that no network reaches."""

    law: str
    """the name of the law"""
    minimise: Measure
    """the measure of size that is minimised"""
    metric: Metric
    """what `error` means"""
    error: Floats
    """shape (n,), like all arrays here: the errors that some network reaches"""
    size: Floats
    """in the measure that is minimised"""
    depth: Floats
    """of the smallest network for each error"""
    width: Floats
    """of the smallest network for each error"""
    density: Floats
    """how far that network is pruned"""
    predicted: Mask
    """whether the unpruned error comes from the dense law"""
    extrapolated: Mask
    """whether a network lies outside the measured range"""
    least_measured: float | None
    """the lowest measured error of the candidates, which the law may not reach; None if none was measured"""
    naming: Naming
    """the axes and the unit of size that the table gives"""

    @property
    def frame(self) -> pd.DataFrame:
        """One row per error: the smallest network that the law predicts to have it."""
        names = ("error", "size", "depth", "width", "density", "predicted", "extrapolated")
        return pd.DataFrame({name: getattr(self, name) for name in names})


def frontier(
    source: Given,
    errors: Floats | None = None,
    *,
    minimise: str = Measure.STORED,
    num_examples: float | None = None,
    sizes: str = DEFAULT_SIZES,
) -> Frontier:
    """The smallest network for each error, according to the law.

    Args:
        source: a fitted law, or a table, path, name or DataFrame as in `choose`.
        errors: the errors, shape (n,), each positive; by default 200 from the least possible to ε↑ or chance.
        minimise, num_examples, sizes: as in `choose`.

    Returns:
        Arrays with one entry per error that some network reaches; `frame` has them as columns.

    Raises:
        PrunecastError: the source cannot be read, or an error is not positive.
    """
    fit = as_fit(source)
    networks = inside(fit, candidates(fit, examples_for(fit, num_examples), sizes), sizes)
    inversion = Inversion(fit=fit, networks=networks)
    if errors is None:
        targets = np.geomspace(np.exp(inversion.least_log_error) * 1.005, ceiling(fit) * 0.95, ERRORS)
    else:
        targets = np.asarray(errors, dtype=float)
    if not (targets > 0).all():
        raise PrunecastError(f"{fit.metric.plural} on a frontier must be positive")
    density = inversion.approximate(np.log(targets))
    size = np.where(density <= 1, sizes_along(fit, minimise, networks, np.minimum(density, 1.0)), np.inf)
    best: Integers = size.argmin(axis=1)
    reached = np.isfinite(size[np.arange(len(targets)), best])
    targets, chosen = targets[reached], networks[best[reached]]
    exact = smallest_density(fit, chosen, np.log(targets))
    exact = np.where(np.isfinite(exact), exact, density[reached, best[reached]])
    kept = whole_weights(counter(fit), chosen, exact, up=True)
    measured = np.exp(measured_options(fit, networks).log_error)
    return Frontier(
        law=fit.law,
        minimise=as_measure(minimise),
        metric=fit.metric,
        error=targets,
        size=sizes_along(fit, minimise, chosen, kept),
        depth=chosen.depth,
        width=chosen.width,
        density=kept,
        predicted=~chosen.measured,
        extrapolated=chosen.outside | below(fit, kept),
        least_measured=float(measured.min()) if len(measured) else None,
        naming=naming(fit, num_examples=num_examples),
    )


@dataclass(frozen=True, kw_only=True)
class Optimum:
    """The smallest network of real-valued depth and width that a law predicts to have an error."""

    depth: float
    """a real number, not rounded to one that can be built"""
    width: float
    """a real number"""
    density: float
    """the share of prunable weights that is kept"""
    error: float
    """the target"""
    unpruned_error: float
    """of this network, by the dense law"""
    paper_size: float
    """l·w²·d"""
    at_edge: tuple[str, ...]
    """axes on which the optimum lies at the end of the range searched"""
    gradient: float
    """the largest ∂log size/∂log l or ∂log size/∂log w that points into the range: 0 at an optimum"""


def optimum(source: Given, target_error: float, *, num_examples: float | None = None) -> Optimum | None:
    """Minimise l·w²·d subject to ε̂ = target, with ε_np from the dense law.

    Args:
        source: a fitted law, or a table, path, name or DataFrame as in `choose`.
        target_error: the error, as a share.
        num_examples: training examples; by default the largest measured number.

    Returns:
        The network of real-valued depth, width and density, or None if the target is impossible.

    Raises:
        PrunecastError: the table has too few configurations for a dense law, or any network reaches the target.
    """
    fit = as_fit(source)
    if fit.dense is None:
        raise PrunecastError(
            f"there are too few configurations to fit a law of the unpruned {fit.metric.word}, which the optimum "
            "needs; measure more"
        )
    check_reachable(target_error, fit, by_law=True)
    problem = _Problem(fit, float(np.log(target_error)), examples_for(fit, num_examples))
    low, high = problem.box()
    outer = low, high
    for zoom in range(ZOOMS):
        count = GRID if zoom else FIRST_GRID
        depths, widths = (np.linspace(low[i], high[i], count if high[i] > low[i] else 1) for i in (0, 1))
        grid = np.stack(np.meshgrid(depths, widths, indexing="ij"), axis=-1).reshape(-1, 2)
        values = problem.log_size(grid)
        if not np.isfinite(values).any():
            return None
        best = grid[values.argmin()]
        step = 2 * (high - low) / (count - 1)
        low, high = np.maximum(best - step, outer[0]), np.minimum(best + step, outer[1])
    return problem.describe(best, outer)


@dataclass(frozen=True)
class _Problem:
    fit: Fit
    log_target: float
    num_examples: float

    def box(self) -> tuple[Floats, Floats]:
        """The range of log depth and log width to search; an axis that is not in the law has a single value."""
        ends = []
        for name, factor in (("depth", AROUND_DEPTH), ("width", AROUND_WIDTH)):
            known = [getattr(c, name) for c in self.fit.configurations]
            factor = factor if name in self.fit.axes else 1.0
            ends.append((np.log(min(known) / factor), np.log(max(known) * factor)))
        low, high = np.array(ends).T
        return low, high

    def networks(self, logs: Floats) -> Candidates:
        """Networks of real-valued size, with weights proportional to l·w²."""
        depth, width = np.exp(logs).T
        per_unit = np.exp(
            np.mean([np.log(c.weights / (c.depth * c.width**2)) for c in self.fit.configurations])
        )
        size = per_unit * depth * width**2
        nothing, no = np.zeros(len(logs)), np.zeros(len(logs), dtype=bool)
        examples = np.full(len(logs), self.num_examples)
        assert self.fit.dense is not None
        unpruned = self.fit.dense.predict(size, examples, depth)
        return Candidates(
            depth=depth,
            width=width,
            num_examples=examples,
            counts=Counts(weights=size, fixed=nothing, multiply_adds=nothing, dense_size=size),
            unpruned_error=unpruned,
            expected_unpruned_error=unpruned,
            unpruned_std=nothing,
            own=np.full(len(logs), -1),
            outside=no,
        )

    def log_size(self, logs: Floats) -> Floats:
        """log(l·w²·d) at the smallest density that meets the target; infinite where none does."""
        networks = self.networks(logs)
        density = smallest_density(self.fit, networks, np.full(len(logs), self.log_target))
        return np.asarray(logs[:, 0] + 2 * logs[:, 1] + np.log(density))

    def describe(self, best: Floats, box: tuple[Floats, Floats]) -> Optimum:
        """The network at the optimum and its certificate."""
        network = self.networks(best[None])
        density = float(smallest_density(self.fit, network, np.array([self.log_target]))[0])
        edges = (best <= box[0] + EDGE) | (best >= box[1] - EDGE)
        fixed = box[1] <= box[0]
        return Optimum(
            depth=float(np.exp(best[0])),
            width=float(np.exp(best[1])),
            density=density,
            error=float(np.exp(self.log_target)),
            unpruned_error=float(network.unpruned_error[0]),
            paper_size=float(np.exp(best[0] + 2 * best[1]) * density),
            at_edge=tuple(
                n for n, at, no in zip(("depth", "width"), edges, fixed, strict=True) if at and not no
            ),
            gradient=self._projected(best, box),
        )

    def _projected(self, best: Floats, box: tuple[Floats, Floats]) -> float:
        largest = 0.0
        for axis in np.flatnonzero(box[1] > box[0]):
            shift = np.where(np.arange(2) == axis, STEP, 0.0)
            slope = float(np.diff(self.log_size(np.stack([best - shift, best + shift])))[0]) / (2 * STEP)
            held = best[axis] >= box[1][axis] - EDGE if slope < 0 else best[axis] <= box[0][axis] + EDGE
            largest = max(largest, 0.0 if held else abs(slope))
        return largest
