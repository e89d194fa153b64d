"""What measurements say about a law's parameters, and which ones to take so that the parameters are known best.

With noise of one relative size the Fisher information of a row is j·jᵀ, j the derivatives of log ε̂ by the parameters.
The greedy D-optimal choice adds, one at a time, what raises the determinant of the information most.

Where ε_np of a chain is itself measured with noise, as in the fit behind the intervals, it is projected out, and the
information of the chain's rows is Σ jjᵀ − (Σ s·j)(Σ s·j)ᵀ/(R₀ + Σ s²), with s = ∂log ε̂/∂log ε_np.
"""

from dataclasses import dataclass, replace

import numpy as np

from prunecast.laws import Floats, Integers, Mask, Points, PruningForm
from prunecast.studies.refits import FullFit

RIDGE = 1e-6
"""Added to the information's diagonal, relative to its largest entry, so that a few points already have one."""


def regular(information: Floats) -> Floats:
    """An information matrix that can be inverted."""
    index = np.arange(information.shape[-1])
    ridge = RIDGE * information[..., index, index].max(axis=-1, keepdims=True) + 1e-300
    made = information.copy()
    made[..., index, index] += ridge
    return made


def grow_configurations(full: FullFit, pilot: Mask, most: int) -> list[tuple[int, Floats]]:
    """From a pilot set of configurations on, the number chosen and the fit after each one is added."""
    chosen, fits = pilot.copy(), []
    for count in range(int(pilot.sum(axis=1)[0]), most + 1):
        theta = full.refit(chosen[:, full.points.configuration])
        fits.append((count, theta))
        if count < most:
            chosen[np.arange(len(chosen)), _best_configuration(full, theta, chosen)] = True
    return fits


def grow_points(full: FullFit, pilot: Mask, counts: list[int]) -> list[tuple[int, Floats]]:
    """From a pilot set of points on, the fit at each of some numbers of points."""
    chosen, fits = pilot, []
    have = int(pilot.sum(axis=1)[0])
    for count in counts:
        chosen = _add_points(full, full.refit(chosen), chosen, count - have)
        have = count
        fits.append((count, full.refit(chosen)))
    return fits


def _best_configuration(full: FullFit, theta: Floats, chosen: Mask) -> Integers:
    """For each set the configuration that adds most to log det of the information of those chosen."""
    slopes, points = full.form.stack(theta, full.points)[:, :-1], full.points
    size = slopes.shape[1]
    each = np.empty((len(slopes), points.configurations, size, size))
    for i in range(size):
        products = np.add.reduceat(slopes[:, i : i + 1] * slopes, points.starts, axis=-1)
        each[:, :, i] = products.transpose(0, 2, 1)
    have = np.einsum("sc,scij->sij", chosen.astype(float), each)
    gain = np.linalg.slogdet(regular(have)[:, None] + each)[1]
    return np.asarray(np.where(chosen, -np.inf, gain).argmax(axis=1), dtype=np.int64)


def _add_points(full: FullFit, theta: Floats, chosen: Mask, count: int) -> Mask:
    """Add a number of points to each set, each the one that raises the determinant most: jᵀM⁻¹j is largest."""
    slopes = full.form.stack(theta, full.points)[:, :-1]
    chosen = chosen.copy()
    have = np.matmul(slopes * chosen[:, None, :], slopes.transpose(0, 2, 1))
    sets = np.arange(len(theta))
    for _ in range(count):
        leverage = (slopes * np.matmul(np.linalg.inv(regular(have)), slopes)).sum(axis=1)
        at = np.where(chosen, -np.inf, leverage).argmax(axis=1)
        chosen[sets, at] = True
        added = slopes[sets, :, at]
        have = have + added[:, :, None] * added[:, None, :]
    return chosen


@dataclass(frozen=True, kw_only=True)
class ChainSums:
    """Σ jjᵀ, Σ s·j and R₀ + Σ s² of some chains, one entry each."""

    square: Floats
    cross: Floats
    curvature: Floats

    def __add__(self, other: "ChainSums") -> "ChainSums":
        return ChainSums(
            square=self.square + other.square,
            cross=self.cross + other.cross,
            curvature=self.curvature + other.curvature,
        )

    def __mul__(self, factor: Floats) -> "ChainSums":
        """Every chain's sums by a factor of its own; a factor of 0 makes them nothing."""
        return ChainSums(
            square=self.square * factor[:, None, None],
            cross=self.cross * factor[:, None],
            curvature=self.curvature * factor,
        )

    def __getitem__(self, at: object) -> "ChainSums":
        return ChainSums(**{name: value[at] for name, value in vars(self).items()})

    @property
    def information(self) -> Floats:
        """The information with ε_np projected out."""
        outer = self.cross[..., :, None] * self.cross[..., None, :]
        return self.square - outer / self.curvature[..., None, None]


def measured_sums(full: FullFit) -> ChainSums:
    """The sums over the rows of each measured configuration."""
    points = full.points
    rows, slopes, shared = _terms(full.form, full.theta, points)
    index, count = points.configuration, points.configurations
    weight = points.replicates * (points.density < 1)
    square = np.zeros((count, *rows.shape[1:]))
    np.add.at(square, index, weight[:, None, None] * rows)
    cross = np.zeros((count, slopes.shape[1]))
    np.add.at(cross, index, (weight * shared)[:, None] * slopes)
    curvature = points.unpruned_replicates + np.bincount(index, weight * shared**2, minlength=count)
    return ChainSums(square=square, cross=cross, curvature=curvature)


def level_sums(full: FullFit, chains: Points, levels: int, kept: float) -> tuple[ChainSums, Floats]:
    """Sums of chains up to each of their levels 1 ... `levels`, shape (chains, levels, ...), and ε̂ at each.

    A level keeps a share `kept` of the weights.
    """
    count = chains.configurations
    each = np.repeat(np.arange(count), levels)
    level = np.tile(np.arange(1, levels + 1), count)
    ones = np.ones(len(each))
    rows = replace(
        chains,
        configuration=each,
        level=level,
        density=kept ** level.astype(float),
        error=ones,
        replicates=ones,
        nonzero=ones,
    )
    products, slopes, shared = _terms(full.form, full.theta, rows)
    errors = np.exp(full.form.log_error(full.theta[None], rows)[0]).reshape(count, levels)

    def total(values: Floats) -> Floats:
        return np.cumsum(values.reshape(count, levels, *values.shape[1:]), axis=1)

    sums = ChainSums(
        square=total(products), cross=total(shared[:, None] * slopes), curvature=total(shared**2)
    )
    return sums, errors


def _terms(form: PruningForm, theta: Floats, points: Points) -> tuple[Floats, Floats, Floats]:
    """jjᵀ, j and s of every row."""
    stack = form.stack(theta[None], points)
    slopes = stack[0, :-1].T
    return slopes[:, :, None] * slopes[:, None, :], slopes, form.unpruned_slope(theta[None], points, stack)[0]
