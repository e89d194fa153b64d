"""The latency of sizes that were not trained, from networks that were timed.

`prunecast time` also times untrained networks of all sizes between the trained ones, and trained sizes as if they were
untrained. The model goes through all of these: latency = a + b·depth + c·multiply-adds + e·bytes, with coefficients
that are not negative and fitted to relative deviations, times what this leaves, which is interpolated between near
sizes and densities. Multiply-adds and bytes of a size that was not timed come from a curve through those of unpruned
networks, times the share that near sizes have left at this density.

Each trained size says how far off predictions are: its measured latencies are compared with those that were timed as
if it were untrained, or, for sizes that were not timed at all, with those predicted from the other sizes. Where nothing
was timed untrained, the model is fitted to the trained networks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Self

import numpy as np
from scipy import special

from prunecast.choice.counts import removes_channels
from prunecast.errors import PrunecastError
from prunecast.laws import COVERAGE, Configuration, CostCurves, Fit, Floats, SizeCurve, UntrainedSize
from prunecast.table import latency_column, other_latency
from prunecast.text import listed

LATENCY = "latency_ms"
WORK = ("multiply_adds", "bytes")
"""Columns that latency may grow with."""
FEWEST_SIZES = 3
"""With fewer timed sizes, leaving one out says nothing."""
POOR_LATENCY = 0.15
"""Predictions that are further off than this relative deviation are not trusted."""
SUREST = 1e-9
"""A probability closer than this to 0 or 1 counts as this close."""

Size = tuple[float, float]
"""Depth and width."""
Curves = Mapping[str, Floats]
"""By column, density or cost of every level of one size, from the lowest density up."""


@dataclass(frozen=True, kw_only=True)
class OtherLatency:
    """The latency of a network in another runtime or with another batch than that of the answers."""

    runtime: str
    batch: int
    milliseconds: float
    interval: tuple[float, float] | None
    """95% of predicted latencies fall in this interval; None where the latency is the table's own"""


@dataclass(frozen=True, kw_only=True)
class LatencyModel:
    """Latency by depth, width and density, fitted to timed sizes."""

    timed: Mapping[Size, Curves]
    work: tuple[str, ...]
    """the columns that every timed size has"""
    whole: tuple[SizeCurve, ...]
    """by such a column, that of unpruned networks"""
    coefficients: Floats
    """of a call, of a layer, and of a unit of each column"""
    left: tuple[Floats, ...]
    """by size, log latency that these leave at each of its densities"""

    @classmethod
    def of(cls, timed: Mapping[Size, Curves], work: tuple[str, ...]) -> Self:
        """Fit the coefficients."""
        from scipy.optimize import nnls  # slow to import, and most tables have no latencies

        features = [
            _features(np.full(len(own["density"]), depth), [own[name] for name in work])
            for (depth, _), own in timed.items()
        ]
        every, latency = np.concatenate(features), np.concatenate([own[LATENCY] for own in timed.values()])
        scale = np.maximum(np.abs(every).max(axis=0), 1e-300)
        found, _ = nnls(every / scale / latency[:, None], np.ones(len(latency)))
        coefficients = np.asarray(found / scale)
        whole = tuple(
            SizeCurve.through({size: float(own[name][-1]) for size, own in timed.items()}) for name in work
        )
        left = tuple(
            np.log(own[LATENCY] / np.maximum(rows @ coefficients, 1e-300))
            for own, rows in zip(timed.values(), features, strict=True)
        )
        return cls(timed=timed, work=work, whole=whole, coefficients=coefficients, left=left)

    def predict(self, depth: Floats, width: Floats, density: Floats) -> Floats:
        """The latency of networks in milliseconds."""
        at = np.log(np.stack([depth, width], axis=1))
        distance = ((at[:, None] - np.log(np.array(list(self.timed)))) ** 2).sum(axis=2)
        nearness = 1 / np.maximum(distance, 1e-24)
        work = []
        for name, whole in zip(self.work, self.whole, strict=True):
            share = [np.log(own[name] / own[name][-1]) for own in self.timed.values()]
            work.append(whole(depth, width) * np.exp(self._near(share, density, nearness)))
        left = self._near(self.left, density, nearness**2)
        return np.asarray(_features(depth, work) @ self.coefficients * np.exp(left))

    def _near(self, curves: Sequence[Floats], density: Floats, nearness: Floats) -> Floats:
        """The values of timed sizes at some densities, weighted by how near each is."""
        values = [
            np.interp(np.log(density), np.log(own["density"]), curve)
            for own, curve in zip(self.timed.values(), curves, strict=True)
        ]
        return np.asarray((nearness * np.array(values).T).sum(axis=1) / nearness.sum(axis=1))


def _features(depth: Floats, work: list[Floats]) -> Floats:
    return np.stack([np.ones(len(depth)), depth, *work], axis=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Misses:
    """How far predictions were from the measured latencies of trained networks."""

    density: Floats
    log_ratio: Floats
    """log of predicted over measured latency"""

    @property
    def deviation(self) -> float:
        """Their root mean square."""
        return float(np.sqrt(np.mean(self.log_ratio**2)))

    def deviations(self, density: Floats) -> Floats:
        """Their root mean square at some densities, near ones counting most: pruned networks are predicted worse."""
        away = np.abs(np.log(np.ravel(density))[:, None] - np.log(self.density))
        nearness = np.exp(away.min(axis=1, keepdims=True) - away)
        found = np.sqrt((nearness * self.log_ratio**2).sum(axis=1) / nearness.sum(axis=1))
        return np.asarray(found.reshape(np.shape(density)))


@dataclass(frozen=True, kw_only=True, eq=False)
class LatencyPredictor:
    """A model, and how far off it is on trained networks that it was not fitted to."""

    model: LatencyModel
    sizes: int
    """how many trained sizes were timed"""
    timed_untrained: bool
    """whether the model goes through untrained networks"""
    timed: Misses
    """of trained sizes that were timed as if untrained; where nothing was timed untrained, as `elsewhere`"""
    elsewhere: Misses
    """of trained sizes left out in turn, for sizes that were not timed"""

    def deviations(self, depth: Floats, width: Floats, density: Floats) -> Floats:
        """How far off predictions are for some networks."""
        known = np.array([size in self.model.timed for size in zip(depth, width, strict=True)], dtype=bool)
        return np.where(known, self.timed.deviations(density), self.elsewhere.deviations(density))

    def interval(self, latency: float, deviation: float) -> tuple[float, float]:
        """95% of latencies that are predicted so fall in this interval."""
        factor = float(self.factor((1 + COVERAGE) / 2, deviation))
        return latency / factor, latency * factor

    def factor(self, probability: float, deviation: Floats | float) -> Floats:
        """True latencies stay below the predicted ones times these factors with this probability."""
        probability = float(np.clip(probability, SUREST, 1 - SUREST))
        return np.asarray(np.exp(special.stdtrit(self.sizes - 1, probability) * np.asarray(deviation)))


def timed_with(fit: Fit, name: str) -> Fit:
    """The law with the latencies of its table that were timed so, such as onnx-64, in place of the first ones."""
    runtime, _, batch = name.partition("-")
    first_runtime, first_batch, threads = (*fit.origin.timed_with.split("-"), "", "", "")[:3]
    if (runtime, batch) == (first_runtime, first_batch):
        return fit
    columns = dict.fromkeys(column for own in fit.configurations for column in own.costs)
    others = [(way[0], str(way[1])) for column in columns if (way := other_latency(column))]
    if (runtime, batch) not in others:
        known = [pair for pair in ((first_runtime, first_batch), *others) if all(pair)]
        there = (
            f"it has {listed(['-'.join(pair) for pair in known])}"
            if known
            else "it has no latencies that say how"
        )
        raise PrunecastError(
            f"{fit.origin.table} has no latencies timed with {name!r}; {there}. `prunecast time PLAN --runtime RUNTIME "
            "--batch BATCH -o TABLE` writes others"
        )
    column, before = latency_column(runtime, batch), latency_column(first_runtime, first_batch)

    def swapped(costs: CostCurves) -> CostCurves:
        kept = {name: curve for name, curve in costs.items() if name not in (LATENCY, column)}
        kept |= {LATENCY: costs[column]} if column in costs else {}
        return kept | ({before: costs[LATENCY]} if LATENCY in costs and first_batch else {})

    configurations = tuple(replace(own, costs=swapped(own.costs)) for own in fit.configurations)
    origin = replace(fit.origin, timed_with=f"{runtime}-{batch}-{threads or 1}")
    return replace(fit, configurations=configurations, origin=origin)


@lru_cache(maxsize=32)
def latency_predictor(fit: Fit, column: str = LATENCY) -> LatencyPredictor | None:
    """The predictor of a law's table; None where too few sizes were timed, or where it does not say what they cost."""
    runtime, batch = (*fit.origin.timed_with.split("-"), "", "")[:2]
    untrained = _timed(fit.untrained, latency_column(runtime, batch) if column == LATENCY else column)
    if not removes_channels(fit):  # zeros take the time of other weights
        untrained = {
            size: {name: values[-1:] for name, values in own.items()} for size, own in untrained.items()
        }
    return predictor_of(_timed(fit.configurations, column), untrained)


def _timed(sizes: Sequence[Configuration] | Sequence[UntrainedSize], column: str) -> dict[Size, Curves]:
    """The curves of sizes that were timed."""
    found: dict[Size, Curves] = {}
    for own in sizes:
        if column in own.costs and (own.depth, own.width) not in found:
            columns = {name: np.array(own.costs[name]) for name in WORK if name in own.costs}
            columns[LATENCY] = np.array(own.costs[column])
            found[own.depth, own.width] = {
                "density": columns[LATENCY][:, 0],
                **{name: values[:, 1] for name, values in columns.items()},
            }
    return found


def predictor_of(
    trained: Mapping[Size, Curves], untrained: Mapping[Size, Curves] = MappingProxyType({})
) -> LatencyPredictor | None:
    """Fit a model to timed sizes, and compare it with the trained ones; None as for `latency_predictor`."""
    timed = untrained if trained.keys() <= untrained.keys() else trained
    work = tuple(name for name in WORK if all(name in own for own in timed.values()))
    if len(trained) < FEWEST_SIZES or not work:
        return None
    model, elsewhere = LatencyModel.of(timed, work), []
    for left_out in trained:
        others = LatencyModel.of({size: one for size, one in timed.items() if size != left_out}, work)
        elsewhere.append(_log_ratio(others, left_out, trained[left_out]))
    density = np.concatenate([own["density"] for own in trained.values()])
    as_untrained = [_log_ratio(model, *own) for own in trained.items()] if timed is untrained else elsewhere
    return LatencyPredictor(
        model=model,
        sizes=len(trained),
        timed_untrained=timed is untrained,
        timed=Misses(density=density, log_ratio=np.concatenate(as_untrained)),
        elsewhere=Misses(density=density, log_ratio=np.concatenate(elsewhere)),
    )


def _log_ratio(model: LatencyModel, size: Size, measured: Curves) -> Floats:
    """Log of predicted over measured latency of one size."""
    depth, width = (np.full(len(measured["density"]), value) for value in size)
    predicted = model.predict(depth, width, measured["density"])
    return np.asarray(np.log(np.maximum(predicted, 1e-300) / measured[LATENCY]))
