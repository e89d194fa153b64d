"""The latency of sizes that were not timed, from those that were.

A network takes some time for the call, some for each layer, and some for each multiply-add and byte:
latency = a + b·depth + c·multiply-adds + e·bytes, with coefficients that are not negative and fitted to the relative
deviations of all timed networks, pruned ones too. Multiply-adds and bytes of a size that is not in the table come from
a curve through those of unpruned networks, times the share that near sizes have left at this density. How far off such
predictions are is known by leaving out each timed size in turn and predicting it from the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np
from scipy import special

from prunecast.errors import PrunecastError
from prunecast.laws import COVERAGE, Fit, Floats, SizeCurve
from prunecast.table import other_latency
from prunecast.text import listed

LATENCY = "latency_ms"
WORK = ("multiply_adds", "bytes")
"""Columns that latency may grow with."""
FEWEST_SIZES = 3
"""Of fewer timed sizes, leaving one out shows nothing."""
POOR_LATENCY = 0.15
"""Relative deviation on sizes left out above which predictions are not trusted."""
SUREST = 1e-9
"""A probability closer than this to 0 or 1 counts as this close."""

CostCurves = dict[str, tuple[tuple[float, float], ...]]
"""By column, density and cost of every level."""
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
    """in which 95% of predicted networks fall; None where the latency is the table's own"""


@dataclass(frozen=True, kw_only=True)
class LatencyModel:
    """Latency by depth, width and density, fitted to timed sizes."""

    timed: Mapping[Size, Curves]
    work: tuple[str, ...]
    """those of the columns that every timed size has"""
    whole: tuple[SizeCurve, ...]
    """by such a column, that of unpruned networks"""
    coefficients: Floats
    """of a call, of a layer, and of a unit of each column"""

    @classmethod
    def of(cls, timed: Mapping[Size, Curves], work: tuple[str, ...]) -> Self:
        """Fit the coefficients."""
        from scipy.optimize import nnls  # slow to import, and most tables have no latencies

        features = np.concatenate(
            [
                _features(np.full(len(own["density"]), depth), [own[name] for name in work])
                for (depth, _), own in timed.items()
            ]
        )
        latency = np.concatenate([own[LATENCY] for own in timed.values()])
        scale = np.maximum(np.abs(features).max(axis=0), 1e-300)
        found, _ = nnls(features / scale / latency[:, None], np.ones(len(latency)))
        whole = tuple(
            SizeCurve.through({size: float(own[name][-1]) for size, own in timed.items()}) for name in work
        )
        return cls(timed=timed, work=work, whole=whole, coefficients=np.asarray(found / scale))

    def predict(self, depth: Floats, width: Floats, density: Floats) -> Floats:
        """The latency of networks in milliseconds."""
        work = [
            whole(depth, width) * self._share(name, depth, width, density)
            for name, whole in zip(self.work, self.whole, strict=True)
        ]
        return np.asarray(_features(depth, work) @ self.coefficients)

    def _share(self, name: str, depth: Floats, width: Floats, density: Floats) -> Floats:
        """What is left of a column at some densities: that of timed sizes, near ones counting most."""
        at = np.log(np.stack([depth, width], axis=1))
        distance = ((at[:, None] - np.log(np.array(list(self.timed)))) ** 2).sum(axis=2)
        nearness = 1 / np.maximum(distance, 1e-24)
        left = [
            np.interp(np.log(density), np.log(own["density"]), np.log(own[name] / own[name][-1]))
            for own in self.timed.values()
        ]
        return np.asarray(np.exp((nearness * np.array(left).T).sum(axis=1) / nearness.sum(axis=1)))


def _features(depth: Floats, work: list[Floats]) -> Floats:
    return np.stack([np.ones(len(depth)), depth, *work], axis=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class LatencyPredictor:
    """A model, and how far off it is on sizes that it was not fitted to."""

    model: LatencyModel
    deviation: float
    """root mean square of log predicted over measured latency, of timed sizes left out in turn"""

    @property
    def sizes(self) -> int:
        """How many sizes were timed."""
        return len(self.model.timed)

    @property
    def poor(self) -> bool:
        """Whether predictions are further off than can be trusted."""
        return self.deviation > POOR_LATENCY

    def factor(self, probability: float) -> float:
        """By what a predicted latency is multiplied so that the true one stays below it with this probability."""
        probability = float(np.clip(probability, SUREST, 1 - SUREST))
        return float(np.exp(special.stdtrit(self.sizes - 1, probability) * self.deviation))

    def interval(self, latency: float) -> tuple[float, float]:
        """In which 95% of the latencies of networks that are predicted so fall."""
        factor = self.factor((1 + COVERAGE) / 2)
        return latency / factor, latency * factor


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
    column, before = f"{LATENCY}_{runtime}_{batch}", f"{LATENCY}_{first_runtime}_{first_batch}"

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
    timed: dict[Size, Curves] = {}
    for own in fit.configurations:
        if column in own.costs and (own.depth, own.width) not in timed:
            columns = {name: np.array(own.costs[name]) for name in WORK if name in own.costs}
            columns[LATENCY] = np.array(own.costs[column])
            timed[own.depth, own.width] = {
                "density": columns[LATENCY][:, 0],
                **{name: values[:, 1] for name, values in columns.items()},
            }
    return predictor_of(timed)


def predictor_of(timed: Mapping[Size, Curves]) -> LatencyPredictor | None:
    """Fit a model to timed sizes, and predict each of them from the others; None as for `latency_predictor`."""
    work = tuple(name for name in WORK if all(name in own for own in timed.values()))
    if len(timed) < FEWEST_SIZES or not work:
        return None
    squares = []
    for left_out, own in timed.items():
        others = LatencyModel.of({size: one for size, one in timed.items() if size != left_out}, work)
        depth, width = (np.full(len(own["density"]), value) for value in left_out)
        predicted = others.predict(depth, width, own["density"])
        squares.append(np.mean(np.log(np.maximum(predicted, 1e-300) / own[LATENCY]) ** 2))
    return LatencyPredictor(model=LatencyModel.of(timed, work), deviation=float(np.sqrt(np.mean(squares))))
