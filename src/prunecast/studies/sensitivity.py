"""How many measurements a fit needs: at random as in section 5 of the paper, and chosen by design.

Experiment 1 fits the law to T random networks, experiment 2 to T random configurations with all their densities; each
is repeated, and every fit is judged by μ and σ of δ over all rows of the table.

A design starts from a few random measurements and adds, one at a time, the one that raises the determinant of the
Fisher information most (greedy D-optimal choice). With noise of one relative size, the information of a row is j·jᵀ,
where j are the derivatives of log ε̂ by the parameters.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.laws import DEFAULT_LAW, Deviation, Floats, Integers, Mask, deviation
from prunecast.studies.refits import FullFit, full_fit
from prunecast.table import Table
from prunecast.text import plural

REPEATS, VALUES = 30, 20
PILOT = 2
"""Random configurations that a design begins with."""
DESIGNED = 20
"""Designs end at this many configurations."""
CLOSE = 0.01
"""σ within one percentage point of the full fit's counts as equal."""
RIDGE = 1e-6
"""Added to the information's diagonal, relative to its largest entry, so that few points give a regular matrix."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Fits to parts of one size: mean and standard deviation over the repeats of μ and σ over all rows."""

    count: int
    """networks, or configurations with all their densities"""
    mean_mu: float
    std_mu: float
    mean_sigma: float
    std_sigma: float


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """μ and σ against the number of random points, random configurations, and points and configurations by design."""

    law: str
    table: str
    rows: int
    configurations: int
    repeats: int
    full: Deviation
    """of the fit to all rows"""
    random_points: tuple[Sample, ...]
    random_configurations: tuple[Sample, ...]
    designed_points: tuple[Sample, ...]
    designed_configurations: tuple[Sample, ...]
    needed: dict[str, int | None]
    """by experiment, the smallest count from which the mean σ stays within one point of the full fit's"""
    steady: dict[str, int | None]
    """by experiment, the smallest count from which μ and σ vary by less than one point between repeats"""


def sensitivity(
    table: Table, *, law: str = DEFAULT_LAW, repeats: int = REPEATS, seed: int = 0
) -> Sensitivity:
    """Run both experiments and both designs on a table."""
    full = full_fit(table, law, seed)
    rows, configurations = len(full.points), full.points.configurations
    least = len(full.form.parameters) + 1
    if configurations < PILOT + 1 or rows < 2 * least:
        raise PrunecastError(
            f"{table.source}: {plural(rows, 'row')} of {plural(configurations, 'configuration')} are too few to leave "
            "some out; the sensitivity study needs three configurations"
        )
    fits = _experiments(full, least, repeats, np.random.default_rng(seed))
    samples = {name: tuple(_sample(full, *pair) for pair in own) for name, own in fits}
    everything = deviation(full.delta)
    close = everything.std + CLOSE
    return Sensitivity(
        law=full.form.law.family_law,
        table=table.source,
        rows=rows,
        configurations=configurations,
        repeats=repeats,
        full=everything,
        **samples,
        needed={name: _first(own, lambda s: s.mean_sigma <= close) for name, own in samples.items()},
        steady={
            name: _first(own, lambda s: max(s.std_mu, s.std_sigma) < CLOSE) for name, own in samples.items()
        },
    )


def _experiments(
    full: FullFit, least: int, repeats: int, rng: np.random.Generator
) -> Iterator[tuple[str, list[tuple[int, Floats]]]]:
    """By name of the experiment or design, pairs of the number of networks or configurations and the fits to them."""
    rows, configurations = len(full.points), full.points.configurations
    numbers = _counts(least, rows)

    def some(available: int, count: int) -> Mask:
        """Sets of `count` of the available, without repetition, one for each repeat."""
        return np.asarray(rng.random((repeats, available)).argsort(axis=1) < count)

    yield "random_points", [(count, full.refit(some(rows, count))) for count in numbers]
    yield (
        "random_configurations",
        [
            (count, full.refit(some(configurations, count)[:, full.points.configuration]))
            for count in _counts(PILOT, configurations)
        ],
    )
    few = [count for count in numbers if count <= max(10 * least, 60)]
    yield "designed_points", _design_points(full, some(rows, least), few)
    most = min(DESIGNED, configurations)
    yield "designed_configurations", _design_configurations(full, some(configurations, PILOT), most)


def _counts(least: int, most: int) -> list[int]:
    """Whole numbers with equal ratios."""
    spread = np.geomspace(least, most, VALUES).round().astype(int)
    return [int(count) for count in np.unique(spread)]


def _sample(full: FullFit, count: int, theta: Floats) -> Sample:
    mu, sigma = full.deviations(full.form, theta)
    return Sample(
        count=count,
        mean_mu=float(mu.mean()),
        std_mu=float(mu.std()),
        mean_sigma=float(sigma.mean()),
        std_sigma=float(sigma.std()),
    )


def _first(samples: tuple[Sample, ...], good: Callable[[Sample], bool]) -> int | None:
    """The smallest count from which every sample is good."""
    last_bad = max((index for index, sample in enumerate(samples) if not good(sample)), default=-1)
    return samples[last_bad + 1].count if last_bad + 1 < len(samples) else None


def _regular(information: Floats) -> Floats:
    """An information matrix that can be inverted."""
    index = np.arange(information.shape[-1])
    ridge = RIDGE * information[..., index, index].max(axis=-1, keepdims=True) + 1e-300
    made = information.copy()
    made[..., index, index] += ridge
    return made


def _design_configurations(full: FullFit, pilot: Mask, most: int) -> list[tuple[int, Floats]]:
    """Starting with a pilot set of configurations, the number chosen and the fit after each addition."""
    chosen, fits = pilot.copy(), []
    for count in range(int(pilot.sum(axis=1)[0]), most + 1):
        theta = full.refit(chosen[:, full.points.configuration])
        fits.append((count, theta))
        if count < most:
            chosen[np.arange(len(chosen)), _best_configuration(full, theta, chosen)] = True
    return fits


def _design_points(full: FullFit, pilot: Mask, counts: list[int]) -> list[tuple[int, Floats]]:
    """Starting with a pilot set of points, the fit at some numbers of points."""
    chosen, fits = pilot, []
    have = int(pilot.sum(axis=1)[0])
    for count in counts:
        chosen = _add_points(full, full.refit(chosen), chosen, count - have)
        have = count
        fits.append((count, full.refit(chosen)))
    return fits


def _best_configuration(full: FullFit, theta: Floats, chosen: Mask) -> Integers:
    """For each set, the configuration that raises log det of the information most."""
    slopes, points = full.form.stack(theta, full.points)[:, :-1], full.points
    size = slopes.shape[1]
    each = np.empty((len(slopes), points.configurations, size, size))
    for i in range(size):
        products = np.add.reduceat(slopes[:, i : i + 1] * slopes, points.starts, axis=-1)
        each[:, :, i] = products.transpose(0, 2, 1)
    have = np.einsum("sc,scij->sij", chosen.astype(float), each)
    gain = np.linalg.slogdet(_regular(have)[:, None] + each)[1]
    return np.asarray(np.where(chosen, -np.inf, gain).argmax(axis=1), dtype=np.int64)


def _add_points(full: FullFit, theta: Floats, chosen: Mask, count: int) -> Mask:
    """Add points to each set, one at a time, each the one that raises the determinant most: jᵀM⁻¹j is largest."""
    slopes = full.form.stack(theta, full.points)[:, :-1]
    chosen = chosen.copy()
    have = np.matmul(slopes * chosen[:, None, :], slopes.transpose(0, 2, 1))
    sets = np.arange(len(theta))
    for _ in range(count):
        leverage = (slopes * np.matmul(np.linalg.inv(_regular(have)), slopes)).sum(axis=1)
        at = np.where(chosen, -np.inf, leverage).argmax(axis=1)
        chosen[sets, at] = True
        added = slopes[sets, :, at]
        have = have + added[:, :, None] * added[:, None, :]
    return chosen
