"""The unpruned networks to choose among: measured sizes, and sizes between and around them.

Sizes outside the measured range are candidates only if the question asks for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np

from prunecast.catalog import FAMILIES
from prunecast.choice.counts import Arrays, Counts, counter
from prunecast.choice.question import (
    ALLOW_AROUND,
    DEFAULT_SIZES,
    Question,
    SizeRange,
    all_at_chance,
    as_size_range,
    more_of_the_rise,
)
from prunecast.errors import PrunecastError
from prunecast.laws import (
    Fit,
    Floats,
    Integers,
    Mask,
    Points,
    below,
    measured_at,
    measured_sizes,
    outside,
    predictive,
    query,
    verdict,
)
from prunecast.metric import HARDLY_BETTER

PER_OCTAVE = 8
AROUND_WIDTH, AROUND_DEPTH = 2.0, 1.5
"""How far outside the measured sizes candidates go, as factors."""
DEPTH_STEP = 1.15
"""Depths that were not trained are at least this factor apart."""
ROOM_TO_RISE = 0.98
"""The law predicts nothing useful for networks whose unpruned error is above this share of the high plateau."""
CHANNEL_STEP = 64
"""Widths of built-in families are multiples of 1/64, so that their widest layers have whole channels."""


@dataclass(frozen=True, kw_only=True)
class Candidates(Arrays):
    """Unpruned networks as arrays, one entry per network."""

    depth: Floats
    width: Floats
    num_examples: Floats
    counts: Counts
    unpruned_error: Floats
    """ε_np as measured, or as the dense law and similar sizes predict it"""
    expected_unpruned_error: Floats
    """the expected ε_np of a new run; measured ones are shrunk towards the dense law, similar sizes and their curves"""
    unpruned_std: Floats
    """standard deviation of log ε_np"""
    own: Integers
    """the fit's configuration of this size, whose ε_np was measured; −1 where it is predicted"""
    outside: Mask
    """whether depth, width and number of examples, two at a time, lie outside the measured range"""

    def __len__(self) -> int:
        return len(self.depth)

    @property
    def measured(self) -> Mask:
        """Whether ε_np was measured; else it is predicted."""
        return np.asarray(self.own >= 0)

    @classmethod
    def of_points(cls, fit: Fit, points: Points) -> "Candidates":
        """The measured configurations of some points, with measured ε_np."""
        every = np.zeros(points.configurations)
        return cls(
            depth=points.depth,
            width=points.width,
            num_examples=points.num_examples,
            counts=counter(fit)(points.depth, points.width),
            unpruned_error=points.unpruned,
            expected_unpruned_error=points.unpruned,
            unpruned_std=every,
            own=np.arange(points.configurations),
            outside=every > 0,
        )

    def as_measured(self) -> "Candidates":
        """The same networks with measured ε_np, for studies that do not choose."""
        return replace(self, expected_unpruned_error=self.unpruned_error)

    def points(self, fit: Fit, density: Floats) -> Points:
        """These networks at these densities, for evaluation by a law, with their own counts of weights."""
        asked = {
            "density": density,
            "depth": self.depth,
            "width": self.width,
            "num_examples": self.num_examples,
        }
        return query(fit, asked, self.expected_unpruned_error, self.counts.dense_size)


@lru_cache(maxsize=32)
def candidates(
    fit: Fit,
    num_examples: float,
    sizes: str = DEFAULT_SIZES,
    *,
    only_depth: float | None = None,
    only_width: float | None = None,
) -> Candidates:
    """Measured sizes with this number of examples, and others in range, whose ε_np is predicted.

    `only_depth` and `only_width` may lie outside the range.
    """
    sizes = as_size_range(sizes)
    measured = [
        index
        for index, c in enumerate(fit.configurations)
        if np.isclose(c.num_examples, num_examples)
        and (only_depth is None or np.isclose(c.depth, only_depth))
        and (only_width is None or np.isclose(c.width, only_width))
    ]
    pairs = [(fit.configurations[index].depth, fit.configurations[index].width) for index in measured]
    new = [] if fit.dense is None else _grid(fit, sizes, only_depth, only_width)
    known = np.array(pairs).reshape(-1, 2)
    pairs += [pair for pair in new if not np.isclose(known, pair).all(axis=1).any()]
    if not pairs:
        raise PrunecastError(_none(fit, num_examples, only_depth, only_width))
    depth, width = np.array(pairs, dtype=float).T
    own: Integers = np.full(len(pairs), -1)
    own[: len(measured)] = measured
    return _counted(fit, depth, width, np.full(len(depth), num_examples), own)


def candidates_at(fit: Fit, depth: Floats, width: Floats, num_examples: Floats) -> Candidates:
    """Networks of these sizes and numbers of examples; the fit needs a dense law if some were not measured."""
    own = measured_at(fit, np.stack([depth, width, num_examples], axis=1))
    return _counted(fit, depth, width, num_examples, own)


def _counted(fit: Fit, depth: Floats, width: Floats, num_examples: Floats, own: Integers) -> Candidates:
    counts = counter(fit)(depth, width)
    places = {"depth": depth, "width": width, "num_examples": num_examples}
    unpruned, expected, std = _unpruned(fit, counts, own, np.stack(list(places.values()), axis=1))
    return Candidates(
        **places,
        counts=counts,
        unpruned_error=unpruned,
        expected_unpruned_error=expected,
        unpruned_std=std,
        own=own,
        outside=outside(fit, places),
    )


def _none(fit: Fit, num_examples: float, depth: float | None, width: float | None) -> str:
    """Why there is no network to consider."""
    asked = [f"{name} {value:g}" for name, value in (("depth", depth), ("width", width)) if value is not None]
    if not asked:
        return f"no network was trained on {num_examples:g} examples; use {ALLOW_AROUND} to allow predicted sizes"
    on = f" on {num_examples:g} examples" if "num_examples" in fit.columns else ""
    return (
        f"no network of {' and '.join(asked)} was trained{on}, and there are too few configurations to fit a law of "
        f"the unpruned {fit.metric.word}; choose among measured sizes"
    )


def _unpruned(fit: Fit, counts: Counts, own: Integers, places: Floats) -> tuple[Floats, Floats, Floats]:
    """ε_np as measured or predicted, the expected ε_np of a new run, and the standard deviation of log ε_np."""
    unpruned, std = np.zeros(len(own)), np.full(len(own), fit.spread.unpruned)
    if len(new := np.flatnonzero(own < 0)):
        assert fit.dense is not None
        law = fit.dense.predict(counts.dense_size[new], places[new, -1], places[new, 0])
        unpruned[new], std[new] = predictive(fit).unpruned(law, places[new])
    expected = unpruned.copy()
    for at in np.flatnonzero(own >= 0):
        unpruned[at] = fit.configurations[own[at]].unpruned_error
        expected[at] = _expected_unpruned(fit, int(own[at]))
    return unpruned, expected, std


@lru_cache(maxsize=1 << 12)
def _expected_unpruned(fit: Fit, index: int) -> float:
    """The expected ε_np of a new run of a measured configuration."""
    return float(np.exp(predictive(fit).at(index, np.ones(1))[0][0]))


def _grid(fit: Fit, sizes: SizeRange, depth: float | None, width: float | None) -> list[tuple[float, float]]:
    """Depths × widths of the family in range; an axis that is not in the law has its measured values only."""
    if sizes is SizeRange.MEASURED and depth is None and width is None:
        return sorted({(c.depth, c.width) for c in fit.configurations})
    known_depths, known_widths = (
        sorted(set(measured_sizes(fit)[axis].tolist())) for axis in ("depth", "width")
    )
    grid_depths = _depths(known_depths, counter(fit).family, sizes) if "depth" in fit.axes else known_depths
    grid_widths = _widths(known_widths, counter(fit).family, sizes) if "width" in fit.axes else known_widths
    depths = grid_depths if depth is None else [depth]
    widths = grid_widths if width is None else [width]
    return [(deep, wide) for deep in depths for wide in widths]


def size_grid(
    depths: Sequence[float], widths: Sequence[float], family: str, sizes: str
) -> list[tuple[float, float]]:
    """The depths and widths that are considered where these were trained; `family` may be one that is not built in."""
    sizes, built_in = as_size_range(sizes), family if family in FAMILIES else None
    if sizes is SizeRange.MEASURED:
        return list(product(depths, widths))
    return list(product(_depths(list(depths), built_in, sizes), _widths(list(widths), built_in, sizes)))


def _depths(known: list[float], family: str | None, sizes: SizeRange) -> list[float]:
    if family is None:
        return known
    factor = AROUND_DEPTH if sizes is SizeRange.AROUND else 1.0
    low, high = known[0] / factor, known[-1] * factor
    listed: list[float] = []
    for depth in (d for d in FAMILIES[family].depths if low <= d <= high):
        if depth in known or not listed or depth >= DEPTH_STEP * listed[-1]:
            listed.append(float(depth))
    return listed


def _widths(known: list[float], family: str | None, sizes: SizeRange) -> list[float]:
    factor = AROUND_WIDTH if sizes is SizeRange.AROUND else 1.0
    low, high = known[0] / factor, known[-1] * factor
    count = int(np.ceil(np.log2(high / low) * PER_OCTAVE)) + 1
    grid = np.geomspace(low, high, count)
    if family is not None and low >= 1 / CHANNEL_STEP:
        grid = np.round(grid * CHANNEL_STEP) / CHANNEL_STEP
    else:
        grid = np.array([float(f"{width:.3g}") for width in grid])
    kept = {float(width) for width in grid if low * (1 - 1e-3) <= width <= high * (1 + 1e-3)}
    return sorted(kept | set(known))  # rounding loses measured widths, and some may be all that lies inside


def allowed(fit: Fit, found: Candidates, question: Question) -> Candidates:
    """The candidates that a question allows; a depth or width that it names may lie outside the measured range."""
    named = [axis for axis in ("depth", "width") if getattr(question, axis) is not None]
    if not named:
        return inside(fit, found, question.sizes)
    if question.sizes is SizeRange.AROUND or len(named) > 1:
        return found
    for ignored in ("", named[0]):
        kept = inside_mask(fit, found, ignored)
        if kept.any():
            return found[kept]
    return found


def inside(fit: Fit, found: Candidates, sizes: str) -> Candidates:
    """The candidates inside the measured range, two axes at a time; all of them if `sizes` is around."""
    if as_size_range(sizes) is SizeRange.AROUND:
        return found
    kept = inside_mask(fit, found)
    if not kept.any():
        known = ", ".join(f"{n:,.0f}" for n in sorted({c.num_examples for c in fit.configurations}))
        raise PrunecastError(
            f"no size was trained both on fewer and on more than {found.num_examples[0]:,.0f} examples, so none lies "
            f"within the measured range; choose for a measured number ({known}), or use {ALLOW_AROUND} to allow other "
            "sizes"
        )
    return found[kept]


def inside_mask(fit: Fit, found: Candidates, ignored: str = "") -> Mask:
    """Which candidates lie inside the measured range; one axis may be ignored.

    A number of examples outside the measured range counts as the nearest measured one.
    """
    known = [c.num_examples for c in fit.configurations]
    nearest = np.clip(found.num_examples, min(known), max(known))
    places = {"depth": found.depth, "width": found.width, "num_examples": nearest}
    places.pop(ignored, None)
    return np.asarray(found.measured | ~outside(fit, places))


def below_plateau(fit: Fit, found: Candidates, question: Question) -> Candidates:
    """The candidates whose unpruned error is below the high plateau; the law predicts nothing useful for others.

    If the law is unusable, networks that were trained are kept in any case.
    """
    if not fit.rises:
        return _without_rise(fit, found, question)
    word, high = fit.metric.word, fit.high_error
    good = found.expected_unpruned_error < ROOM_TO_RISE * high
    if not verdict(fit).usable:
        good |= found.measured
    if good.any():
        return found[good]
    asked = float(found.num_examples[0])
    more = max(c.num_examples for c in fit.configurations) > asked
    if fit.plateau in fit.undetermined and not more:
        raise PrunecastError(
            f"the data do not show how far the {word} rises (the law guesses {high:.3g}, no more than the unpruned "
            f"{word} of these networks), so no law of pruning can be fitted; {more_of_the_rise(fit)}"
        )
    raise PrunecastError(
        f"with {asked:,.0f} examples these networks would have an unpruned {word} of "
        f"{found.expected_unpruned_error.min():.3g} or more, and the law's high plateau is at {high:.3g}, so it "
        "predicts nothing useful of them; ask for more examples"
    )


def _without_rise(fit: Fit, found: Candidates, question: Question) -> Candidates:
    """The candidates if no curve rises, so that the law's predictions at low densities are arbitrary.

    These are the networks that were trained, or all if the question names a density that the curves reach.
    """
    word, guessing = fit.metric.word, fit.origin.chance
    least = min(c.unpruned_error for c in fit.configurations)
    if guessing is not None and least > HARDLY_BETTER * guessing:
        raise PrunecastError(
            f"the unpruned networks of {fit.origin.table} are hardly better than guessing ({word} {least:.3g}, "
            f"guessing {guessing:.3g}), so their curves say nothing about pruning; train longer, or change the recipe"
        )
    if question.density is None and found.measured.any():
        return found[found.measured]
    if question.density is not None and not below(fit, np.array(question.density)):
        return found
    before = " before it reaches chance" if all_at_chance(fit) else ""
    raise PrunecastError(
        f"no curve of {fit.origin.table} rises above its unpruned {word}{before}, so no law of pruning can be "
        f"fitted; {more_of_the_rise(fit)}"
    )
