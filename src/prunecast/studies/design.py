"""What measurements say about a law's parameters, and which ones to take so that the parameters are known best.

With noise of one relative size the Fisher information of a row is j·jᵀ, j the derivatives of log ε̂ by the parameters.
The greedy D-optimal choice adds, one at a time, what raises the determinant of the information most.

Where ε_np of a chain is itself measured with noise, as in the fit behind the intervals, it is projected out, and the
information of the chain's rows is Σ jjᵀ − (Σ s·j)(Σ s·j)ᵀ/(R₀ + Σ s²), with s = ∂log ε̂/∂log ε_np.
"""

from dataclasses import replace

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


def measured_information(full: FullFit) -> Floats:
    """The information of each measured configuration about the parameters and its log ε_np, in the last place."""
    points = full.points
    rows = _row_information(full.form, full.theta, points)
    rows *= (points.replicates * (points.density < 1))[:, None, None]
    total = np.add.reduceat(rows, points.starts)
    total[:, -1, -1] += points.unpruned_replicates
    return np.asarray(total)


def level_information(full: FullFit, chains: Points, levels: int, kept: float) -> tuple[Floats, Floats]:
    """The same of chains up to each of their levels 1 ... `levels`, shape (chains, levels, ...), and ε̂ at each.

    A level keeps a share `kept` of the weights; what level 0 says about ε_np is left out.
    """
    count = chains.configurations
    level = np.tile(np.arange(1, levels + 1), count)
    ones = np.ones(len(level))
    rows = replace(
        chains,
        configuration=np.repeat(np.arange(count), levels),
        level=level,
        density=kept ** level.astype(float),
        error=ones,
        replicates=ones,
        nonzero=ones,
    )
    each = _row_information(full.form, full.theta, rows)
    errors = np.exp(full.form.log_error(full.theta[None], rows)[0]).reshape(count, levels)
    return np.cumsum(each.reshape(count, levels, *each.shape[1:]), axis=1), errors


def project_unpruned(information: Floats) -> Floats:
    """The information about the parameters alone, with ε_np, the last place, projected out."""
    cross = information[..., :-1, -1]
    outer = cross[..., :, None] * cross[..., None, :]
    return np.asarray(information[..., :-1, :-1] - outer / information[..., -1:, -1:])


def _row_information(form: PruningForm, theta: Floats, points: Points) -> Floats:
    """The outer products of (j, s) of every row."""
    stack = form.stack(theta[None], points)
    slopes = np.vstack([stack[0, :-1], form.unpruned_slope(theta[None], points, stack)]).T
    return np.asarray(slopes[:, :, None] * slopes[:, None, :])
