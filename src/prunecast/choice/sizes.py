"""The unpruned networks a choice is made among: those measured, and sizes nobody trained between and around them."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from prunecast.catalog import FAMILIES
from prunecast.choice.counts import Counter, Counts
from prunecast.choice.luck import settle_unpruned
from prunecast.errors import PrunecastError
from prunecast.laws import Fit
from prunecast.laws.points import Floats, Points
from prunecast.laws.predict import query
from prunecast.laws.reach import outside
from prunecast.laws.result import Configuration

PER_OCTAVE = 8
AROUND_WIDTH, AROUND_DEPTH = 2.0, 1.5
"""How far beyond the measured sizes candidates go, as factors."""
DEPTH_STEP = 1.15
"""Depths that nobody trained are at least this factor apart."""
CHANNEL_STEP = 64
"""Widths of built-in families are multiples of 1/64, so that their widest layers have whole channels."""
REACHES = ("measured", "within", "around")
DEFAULT_REACH = "within"
"""Answers stay within what was measured unless somebody asks for more."""
ALLOW_AROUND = '--sizes around (sizes="around" in Python)'
"""How to ask for more."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Unpruned networks as arrays, one entry a network."""

    depth: Floats
    width: Floats
    num_examples: Floats
    counts: Counts
    unpruned: Floats
    """measured ones with the luck of their trainings taken out"""
    told: Floats
    """ε_np to tell: as measured, or as predicted"""
    doubt: Floats
    """standard deviation of log ε_np"""
    measured: NDArray[np.bool_]
    """whether ε_np was measured; else the dense law predicts it"""
    outside: NDArray[np.bool_]
    """whether depth, width and number of examples, two at a time, lie outside what was measured"""

    def __len__(self) -> int:
        return len(self.depth)

    def __getitem__(self, at: NDArray[np.generic]) -> "Sizes":
        counts = Counts(**{name: value[at] for name, value in vars(self.counts).items()})
        fields = {name: value[at] for name, value in vars(self).items() if name != "counts"}
        return replace(self, counts=counts, **fields)

    def as_told(self) -> "Sizes":
        """The same networks with their unpruned errors as measured, for those who study the law and pick nothing."""
        return replace(self, unpruned=self.told)

    def points(self, fit: Fit, density: Floats) -> Points:
        """These networks at these densities, for evaluation by a law, with their own counts of weights."""
        asked = {
            "density": density,
            "depth": self.depth,
            "width": self.width,
            "num_examples": self.num_examples,
        }
        return query(fit, asked, self.unpruned, self.counts.dense_size)


def examples(fit: Fit, wanted: float | None) -> float:
    """The number of examples to choose for: the one wanted, else the largest measured."""
    known = sorted({c.num_examples for c in fit.configurations})
    if wanted is None:
        return known[-1]
    if not 0 < wanted < np.inf:
        raise PrunecastError(f"the number of examples must be a positive number, not {wanted:g}")
    if fit.dense is None and not any(np.isclose(wanted, n) for n in known):
        if known == [1]:
            raise PrunecastError("the table does not tell numbers of examples: leave num_examples out")
        listed = ", ".join(f"{n:g}" for n in known)
        raise PrunecastError(
            f"no network was trained on {wanted:g} examples, and there are too few configurations for a law of the "
            f"unpruned error; choose among {listed}"
        )
    return float(wanted)


def sizes(
    fit: Fit,
    counter: Counter,
    num_examples: float,
    reach: str = DEFAULT_REACH,
    *,
    only_depth: float | None = None,
    only_width: float | None = None,
) -> Sizes:
    """Measured sizes with this number of examples, and others in reach on each axis, whose errors the dense law tells.

    A depth or width that is the only one wanted may be any.
    """
    if reach not in REACHES:
        raise PrunecastError(f"sizes can be {', '.join(REACHES)}, not {reach!r}")
    measured = [
        c
        for c in fit.configurations
        if np.isclose(c.num_examples, num_examples)
        and (only_depth is None or np.isclose(c.depth, only_depth))
        and (only_width is None or np.isclose(c.width, only_width))
    ]
    pairs = [(c.depth, c.width) for c in measured]
    new = [] if fit.dense is None else _grid(fit, counter, reach, only_depth, only_width)
    own = np.array(pairs).reshape(-1, 2)
    pairs += [pair for pair in new if not np.isclose(own, pair).all(axis=1).any()]
    if not pairs:
        raise PrunecastError(_none(num_examples, only_depth, only_width))
    depth, width = np.array(pairs, dtype=float).T
    counts = counter(depth, width)
    known = np.arange(len(depth)) < len(measured)
    told, unpruned, less = _unpruned(fit, counts, measured, num_examples)
    own_doubt = np.sqrt(np.maximum(fit.spread.unpruned**2 - less, 0.0))
    return Sizes(
        depth=depth,
        width=width,
        num_examples=np.full(len(depth), num_examples),
        counts=counts,
        unpruned=unpruned,
        told=told,
        doubt=np.where(known, own_doubt, np.hypot(own_doubt, fit.dense.deviation if fit.dense else 0.0)),
        measured=known,
        outside=_outside(fit, depth, width, num_examples),
    )


def _none(num_examples: float, depth: float | None, width: float | None) -> str:
    """Why there is no network to consider."""
    asked = [f"{name} {value:g}" for name, value in (("depth", depth), ("width", width)) if value is not None]
    if asked:
        told = num_examples != 1  # which stands for a table that tells none
        on = f" on {num_examples:g} examples" if told else ""
        return (
            f"no network of {' and '.join(asked)} was trained{on}, and there are too few configurations for a law of "
            "the unpruned error; choose among measured sizes"
        )
    return f"no network was trained on {num_examples:g} examples; allow predicted sizes with {ALLOW_AROUND}"


def _unpruned(
    fit: Fit, counts: Counts, measured: list[Configuration], num_examples: float
) -> tuple[Floats, Floats, Floats]:
    """ε_np to tell, ε_np to expect, and the variance of its logarithm that expecting takes away."""
    known = np.array([c.unpruned_error for c in measured])
    if fit.dense is None:
        return known, known, np.zeros(len(known))
    told = np.atleast_1d(fit.dense.predict(counts.dense_size, np.array(num_examples)))
    replicates = np.array([c.replicates for c in measured])
    expected, less = told.copy(), np.zeros(len(told))
    own = slice(len(known))
    expected[own], less[own] = settle_unpruned(fit, known, told[own], replicates)
    told[own] = known
    return told, expected, less


def _outside(fit: Fit, depth: Floats, width: Floats, num_examples: float) -> NDArray[np.bool_]:
    examples = np.full(len(depth), num_examples)
    return outside(fit, {"depth": depth, "width": width, "num_examples": examples})


def _grid(
    fit: Fit, counter: Counter, reach: str, depth: float | None, width: float | None
) -> list[tuple[float, float]]:
    """Depths × widths of the family inside the reach; an axis the law does not know keeps its measured values."""
    if reach == "measured" and depth is None and width is None:
        return sorted({(c.depth, c.width) for c in fit.configurations})
    depths = _depths(fit, counter, reach) if depth is None else [depth]
    widths = _widths(fit, counter, reach) if width is None else [width]
    return [(deep, wide) for deep in depths for wide in widths]


def _depths(fit: Fit, counter: Counter, reach: str) -> list[float]:
    known = sorted({c.depth for c in fit.configurations})
    if counter.family is None or "depth" not in fit.axes:
        return known
    factor = AROUND_DEPTH if reach == "around" else 1.0
    low, high = known[0] / factor, known[-1] * factor
    listed: list[float] = []
    for depth in (d for d in FAMILIES[counter.family].depths if low <= d <= high):
        if depth in known or not listed or depth >= DEPTH_STEP * listed[-1]:
            listed.append(float(depth))
    return listed


def _widths(fit: Fit, counter: Counter, reach: str) -> list[float]:
    known = sorted({c.width for c in fit.configurations})
    if "width" not in fit.axes:
        return known
    factor = AROUND_WIDTH if reach == "around" else 1.0
    low, high = known[0] / factor, known[-1] * factor
    count = int(np.ceil(np.log2(high / low) * PER_OCTAVE)) + 1
    spread = np.geomspace(low, high, count)
    if counter.family is not None and low >= 1 / CHANNEL_STEP:
        spread = np.round(spread * CHANNEL_STEP) / CHANNEL_STEP
    else:
        spread = np.array([float(f"{width:.3g}") for width in spread])
    kept = {float(width) for width in spread if low * (1 - 1e-3) <= width <= high * (1 + 1e-3)}
    return sorted(kept | set(known))  # rounding loses measured widths, and some may be all that lies inside
