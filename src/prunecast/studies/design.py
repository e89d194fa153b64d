"""What measurements say about a law's parameters, and which ones to take so that the parameters are known best.

With noise of one relative size the Fisher information of a row is j·jᵀ, j the derivatives of log ε̂ by the parameters.
The greedy D-optimal choice adds, one at a time, what raises the determinant of the information most.
"""

import numpy as np

from prunecast.laws import Floats, Integers, Mask
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
