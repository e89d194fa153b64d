"""What a chain tells of the law: its Fisher information, with the chain's own unknown ε_np projected out.

As in the fit behind the intervals, log ε_np of a configuration is itself measured with noise, so the information of its
rows is Σ jjᵀ − (Σ s·j)(Σ s·j)ᵀ/(R₀ + Σ s²), with j = ∂log ε̂/∂θ and s = ∂log ε̂/∂log ε_np.
"""

from dataclasses import dataclass, replace

import numpy as np

from prunecast.laws.forms import PruningForm
from prunecast.laws.points import Floats, Mask, Points

KEPT_A_LEVEL = 0.8


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Σ jjᵀ, Σ s·j and R₀ + Σ s² of some chains, one entry each."""

    square: Floats
    cross: Floats
    curvature: Floats

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(
            square=self.square + other.square,
            cross=self.cross + other.cross,
            curvature=self.curvature + other.curvature,
        )

    def __sub__(self, other: "Sums") -> "Sums":
        return self + Sums(square=-other.square, cross=-other.cross, curvature=-other.curvature)

    def where(self, kept: Mask) -> "Sums":
        """The sums of the chains kept, nothing for the others."""
        return Sums(
            square=np.where(kept[:, None, None], self.square, 0.0),
            cross=np.where(kept[:, None], self.cross, 0.0),
            curvature=np.where(kept, self.curvature, 0.0),
        )

    def __getitem__(self, at: object) -> "Sums":
        return Sums(**{name: value[at] for name, value in vars(self).items()})

    @property
    def information(self) -> Floats:
        """The information with ε_np projected out."""
        outer = self.cross[..., :, None] * self.cross[..., None, :]
        return self.square - outer / self.curvature[..., None, None]


def measured_sums(form: PruningForm, theta: Floats, points: Points) -> Sums:
    """The sums over the rows of each measured configuration."""
    rows, slopes, shared = _terms(form, theta, points)
    index = points.configuration
    count = points.configurations
    weight = points.replicates * (points.density < 1)
    square = np.zeros((count, *rows.shape[1:]))
    np.add.at(square, index, weight[:, None, None] * rows)
    cross = np.zeros((count, slopes.shape[1]))
    np.add.at(cross, index, (weight * shared)[:, None] * slopes)
    curvature = points.unpruned_replicates + np.bincount(index, weight * shared**2, minlength=count)
    return Sums(square=square, cross=cross, curvature=curvature)


def level_sums(form: PruningForm, theta: Floats, chains: Points, levels: int) -> tuple[Sums, Floats]:
    """Sums of chains up to each of their levels 1 ... `levels`, shape (chains, levels, ...), and ε̂ at each."""
    count = chains.configurations
    each = np.repeat(np.arange(count), levels)
    level = np.tile(np.arange(1, levels + 1), count)
    rows = replace(
        chains,
        configuration=each,
        level=level,
        density=KEPT_A_LEVEL ** level.astype(float),
        error=np.ones(len(each)),
        replicates=np.ones(len(each)),
        nonzero=np.ones(len(each)),
    )
    products, slopes, shared = _terms(form, theta, rows)
    errors = np.exp(form.log_error(theta[None], rows)[0]).reshape(count, levels)

    def total(values: Floats) -> Floats:
        return np.cumsum(values.reshape(count, levels, *values.shape[1:]), axis=1)

    sums = Sums(square=total(products), cross=total(shared[:, None] * slopes), curvature=total(shared**2))
    return sums, errors


def _terms(form: PruningForm, theta: Floats, points: Points) -> tuple[Floats, Floats, Floats]:
    """jjᵀ, j and s of every row."""
    stack = form.stack(theta[None], points)
    slopes = stack[0, :-1].T
    return slopes[:, :, None] * slopes[:, None, :], slopes, form.unpruned_slope(theta[None], points, stack)[0]
