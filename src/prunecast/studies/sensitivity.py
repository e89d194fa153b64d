"""How many measurements a fit needs: section 5 of the paper, and beside it points chosen by design.

Experiment 1 fits the law to T random networks, experiment 2 to T random configurations with all their densities; each
is repeated, and every fit is judged by μ and σ of δ over all rows of the table.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.laws.judge import Deviation, deviation
from prunecast.laws.points import Floats, Mask
from prunecast.studies.design import grow_configurations, grow_points
from prunecast.studies.refits import Subject, deviations, refit, subject
from prunecast.table import Table

REPEATS, VALUES = 30, 20
PILOT = 2
"""Random configurations that a design begins with."""
DESIGNED = 20
"""Designs are followed up to this many configurations."""
CLOSE = 0.01
"""σ counts as that of the full fit within one percentage point."""


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
    """for each experiment the least count from which on the mean σ stays within one point of the full fit's"""
    steady: dict[str, int | None]
    """for each experiment the least count from which on μ and σ vary by less than one point between repeats"""


def sensitivity(table: Table, *, law: str = "eq2", repeats: int = REPEATS, seed: int = 0) -> Sensitivity:
    """Run both experiments and both designs on a table."""
    one = subject(table, law, seed=seed)
    least = len(one.form.parameters) + 1
    if one.points.configurations < PILOT + 1 or len(one.points) < 2 * least:
        raise PrunecastError(
            f"{table.source}: {len(one.points)} rows of {one.points.configurations} configuration"
            f"{'s' * (one.points.configurations != 1)} are too few to "
            "leave some out; the sensitivity study needs three configurations"
        )
    rng = np.random.default_rng(seed)
    experiments = {
        "random_points": _points(one, repeats, rng),
        "random_configurations": _configurations(one, repeats, rng),
        "designed_points": _designed_points(one, repeats, rng),
        "designed_configurations": _designed_configurations(one, repeats, rng),
    }
    samples = {name: tuple(_sample(one, *pair) for pair in fits) for name, fits in experiments.items()}
    full = deviation(one.delta)
    return Sensitivity(
        law=one.form.name,
        table=table.source,
        rows=len(one.points),
        configurations=one.points.configurations,
        repeats=repeats,
        full=full,
        **samples,
        needed={
            name: _first(own, lambda s: s.mean_sigma <= full.std + CLOSE) for name, own in samples.items()
        },
        steady={
            name: _first(own, lambda s: max(s.std_mu, s.std_sigma) < CLOSE) for name, own in samples.items()
        },
    )


def counts(least: int, most: int, values: int = VALUES) -> list[int]:
    """Whole numbers in even ratios."""
    spread = np.geomspace(least, most, values).round().astype(int)
    return [int(count) for count in np.unique(spread)]


def random_sets(available: int, count: int, repeats: int, rng: np.random.Generator) -> Mask:
    """Each row marks `count` of the available, without repetition."""
    order = rng.random((repeats, available)).argsort(axis=1)
    return np.asarray(order < count)


def _points(one: Subject, repeats: int, rng: np.random.Generator) -> Iterator[tuple[int, Floats]]:
    for count in counts(len(one.form.parameters) + 1, len(one.points)):
        member = random_sets(len(one.points), count, repeats, rng)
        yield count, refit(one.form, one.points, one.start, member)


def _configurations(one: Subject, repeats: int, rng: np.random.Generator) -> Iterator[tuple[int, Floats]]:
    for count in counts(PILOT, one.points.configurations):
        chosen = random_sets(one.points.configurations, count, repeats, rng)
        yield count, refit(one.form, one.points, one.start, chosen[:, one.points.configuration])


def _designed_points(one: Subject, repeats: int, rng: np.random.Generator) -> Iterator[tuple[int, Floats]]:
    least = len(one.form.parameters) + 1
    pilot = random_sets(len(one.points), least, repeats, rng)
    wanted = [count for count in counts(least, len(one.points)) if count <= max(10 * least, 60)]
    yield from grow_points(one.form, one.points, one.start, pilot, wanted)


def _designed_configurations(
    one: Subject, repeats: int, rng: np.random.Generator
) -> Iterator[tuple[int, Floats]]:
    most = min(DESIGNED, one.points.configurations)
    pilot = random_sets(one.points.configurations, PILOT, repeats, rng)
    yield from grow_configurations(one.form, one.points, one.start, pilot, most)


def _sample(one: Subject, count: int, theta: Floats) -> Sample:
    mu, sigma = deviations(one.form, theta, one.points)
    return Sample(
        count=count,
        mean_mu=float(mu.mean()),
        std_mu=float(mu.std()),
        mean_sigma=float(sigma.mean()),
        std_sigma=float(sigma.std()),
    )


def _first(samples: tuple[Sample, ...], good: Callable[[Sample], bool]) -> int | None:
    """The least count from which on every sample is good."""
    last_bad = max((index for index, sample in enumerate(samples) if not good(sample)), default=-1)
    return samples[last_bad + 1].count if last_bad + 1 < len(samples) else None
