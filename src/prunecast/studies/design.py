"""Optimal design: which points or configurations to measure so that the law's parameters are known best.

The greedy D-optimal choice adds, one at a time, what raises the determinant of the Fisher information most. With noise
of one relative size the information of a row is j·jᵀ, j the derivatives of log ε̂ by the parameters.
"""

import numpy as np
from numpy.typing import NDArray

from prunecast.laws.forms import PruningForm
from prunecast.laws.points import Floats, Mask, Points
from prunecast.studies.refits import refit

RIDGE = 1e-6
"""Added to the information's diagonal, relative to its largest entry, so that a few points already have one."""


def jacobian(form: PruningForm, theta: Floats, points: Points) -> Floats:
    """Derivatives of log ε̂ by the parameters: shape (sets, parameters, rows)."""
    return form.stack(theta, points)[:, :-1]


def per_configuration(slopes: Floats, points: Points) -> Floats:
    """The information of all rows of each configuration: shape (sets, configurations, parameters, parameters)."""
    size = slopes.shape[1]
    information = np.empty((len(slopes), points.configurations, size, size))
    for i in range(size):
        products = np.add.reduceat(slopes[:, i : i + 1] * slopes, points.starts, axis=-1)
        information[:, :, i] = products.transpose(0, 2, 1)
    return information


def regular(information: Floats) -> Floats:
    """An information matrix that can be inverted."""
    index = np.arange(information.shape[-1])
    ridge = RIDGE * information[..., index, index].max(axis=-1, keepdims=True) + 1e-300
    made = information.copy()
    made[..., index, index] += ridge
    return made


def best_configuration(form: PruningForm, theta: Floats, points: Points, chosen: Mask) -> NDArray[np.int64]:
    """For each set the configuration that adds most to log det of the information of those chosen."""
    each = per_configuration(jacobian(form, theta, points), points)
    have = np.einsum("sc,scij->sij", chosen.astype(float), each)
    gain = np.linalg.slogdet(regular(have)[:, None] + each)[1]
    return np.asarray(np.where(chosen, -np.inf, gain).argmax(axis=1), dtype=np.int64)


def best_point(form: PruningForm, theta: Floats, points: Points, chosen: Mask, count: int) -> Mask:
    """Add a number of points to each set, each the one that raises the determinant most: jᵀM⁻¹j is largest."""
    slopes = jacobian(form, theta, points)
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


def grow_configurations(
    form: PruningForm, points: Points, start: Floats, pilot: Mask, most: int
) -> list[tuple[int, Floats]]:
    """From a pilot set of configurations on, the number chosen and the fit after each one is added."""
    chosen, theta = pilot.copy(), np.tile(start, (len(pilot), 1))
    fits = []
    for count in range(int(pilot.sum(axis=1)[0]), most + 1):
        theta = refit(form, points, start, chosen[:, points.configuration])
        fits.append((count, theta))
        if count < most:
            chosen[np.arange(len(chosen)), best_configuration(form, theta, points, chosen)] = True
    return fits


def grow_points(
    form: PruningForm, points: Points, start: Floats, pilot: Mask, counts: list[int]
) -> list[tuple[int, Floats]]:
    """From a pilot set of points on, the fit at each of some numbers of points."""
    chosen, fits = pilot, []
    have = int(pilot.sum(axis=1)[0])
    for count in counts:
        theta = refit(form, points, start, chosen)
        chosen = best_point(form, theta, points, chosen, count - have)
        have = count
        fits.append((count, refit(form, points, start, chosen)))
    return fits
