"""The findings of a fit: what the data do not determine, where the fit fails, and how much to trust it."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from prunecast.findings import Finding
from prunecast.laws.deviations import LOW_EDGE
from prunecast.laws.findings import (
    AtBound,
    AtChance,
    DipsIgnored,
    FewConfigurations,
    FlatProfile,
    LawPreference,
    Missed,
    MoreMissed,
    NoReplicates,
    NoRise,
    OutsideInterval,
    PlateauNotReached,
    Remedy,
    RiseTooShort,
    ScaleFollowsPlateau,
    TooLarge,
    TwoSizesOnly,
    WideInterval,
    WidenedIntervals,
    undetermined,
)
from prunecast.laws.fitted import Configuration
from prunecast.laws.intervals import LEAST_JACKKNIFE, TRUSTED_JACKKNIFE
from prunecast.laws.law import Law, Parameter, Role, bounds, get_law, selectable_laws, source_of
from prunecast.laws.points import Measured, Points
from prunecast.laws.result import Fit
from prunecast.laws.solver import Optimum
from prunecast.laws.validate import CLEARLY_BETTER
from prunecast.table import Table

NEAR_PLATEAU = 0.85
"""Rows above this share of chance count as the high plateau."""
PLATEAU_ROWS, LEAST_FLAT = 3, 6
"""Rows near the plateau, and rows of a curve whose end may count as flat."""
WINDOW = 5 * float(np.log(1.25)) * (1 - 1e-4)
"""Slopes are taken over five of the paper's levels, in log density; counts of weights are rounded."""
RISE, POWER_LAW_ROWS = 1.5, 4
"""The power-law region counts as seen with this many rows above this multiple of ε_np."""
SEEN_RISE = 3.0
"""Further levels are asked for until a curve passes this multiple of its ε_np."""
WIDE_RATIO, WIDE_EXPONENT = 4.0, 1.5
"""An interval wider than this (ratio of its ends, for exponents their difference) is too wide to act on."""
AT_BOUND = 1e-6
"""How near to a bound, relative to it, a search ended at it."""
USUAL_SLOPE = 0.6
MOST_KEPT = 1 - 1e-9
"""The largest assumed share of the weights that a level keeps; some tables number millions of levels."""
NOTICED_DIP, NOTICED_BIAS = 0.05, 0.01
NOTICED_MISS, LISTED_MISSES = 0.05, 5
FLAT_COST = 4.0
"""A profile is flat where halving or doubling a parameter costs less than this many residual variances."""
JUDGED_AXES = ("depth", "width")
"""Axes whose exponents are judged by the width of their intervals."""


def rises(points: Points, law: Law) -> bool:
    """Whether any curve leaves its low plateau; for a law that dips the lowest error of a curve counts."""
    unpruned = points.unpruned
    if law.dips:
        unpruned = np.minimum(unpruned, np.minimum.reduceat(points.error, points.starts))
    return bool((points.error > LOW_EDGE * unpruned[points.configuration]).any())


def plateau_reached(points: Points, chance: float | None) -> bool:
    """Whether the measured curves come near their high plateau.

    With a known chance error some rows must come near it. Without one, curves must visibly flatten: a dip can
    make a truncated curve look as if its fitted plateau were certain, so the fit itself is not evidence.
    """
    if chance is not None:
        return int((points.error >= NEAR_PLATEAU * chance).sum()) >= PLATEAU_ROWS
    needed = min(2, points.configurations)
    flat = (index for index in range(points.configurations) if _flattens(points, index))
    return len(list(islice(flat, needed))) == needed


def _flattens(points: Points, index: int) -> bool:
    """Whether the end of a curve, means over replicates, rises less than half as steeply as its steepest part.

    Slopes are taken over the same part of log density, however fine the levels are.
    """
    rows = points.slice_of(index)
    _, level = np.unique(points.level[rows], return_inverse=True)
    density, heights = (
        np.bincount(level, values[rows]) / np.bincount(level) for values in (points.density, points.log_error)
    )
    order = np.argsort(-density)
    steps, heights = -np.log(density[order]), heights[order]
    if len(heights) < LEAST_FLAT or np.ptp(steps) < 2 * WINDOW or heights[-1] - heights.min() < np.log(2):
        return False
    whole = steps >= steps[0] + WINDOW
    slopes = (heights - np.interp(steps - WINDOW, steps, heights))[whole]
    return bool(slopes[-1] < slopes.max() / 2)


def power_law_seen(points: Points) -> bool:
    """Whether enough rows have left the low plateau to show a slope."""
    return _risen(points) >= POWER_LAW_ROWS


def _risen(points: Points) -> int:
    return int((points.error > RISE * points.unpruned[points.configuration]).sum())


def levels_to(target: float, top: float, gamma: float, kept_per_level: float) -> int:
    """Levels until a curve rises from `top` to a target, if it rises as d^−γ."""
    rise = np.log(max(target / top, 1.0))
    kept = min(kept_per_level, MOST_KEPT)
    return max(1, int(np.ceil(rise / (-gamma * np.log(kept)))))


def parameter_findings(
    optimum: Optimum,
    values: dict[str, float],
    intervals: dict[str, tuple[float, float]],
    limits: dict[str, tuple[float, float]],
    data: Measured,
    table: Table,
) -> list[Finding]:
    """Which parameters the data do not determine, each with what would help, and which ended at a bound.

    `limits` are the ranges that were searched, in the same units as the values.
    """
    if not rises(data.points, optimum.form.law):
        return [_no_rise(optimum, data)]
    found = list(_undetermined(optimum, values, intervals, limits, data, table))
    known_at_bound = {parameter.name for parameter in optimum.form.parameters if parameter.bound_is_known}
    return [*found, *_at_bounds(optimum, undetermined(found, known_at_bound) | known_at_bound)]


def _undetermined(
    optimum: Optimum,
    values: dict[str, float],
    intervals: dict[str, tuple[float, float]],
    limits: dict[str, tuple[float, float]],
    data: Measured,
    table: Table,
) -> Iterator[Finding]:
    points, free = data.points, {parameter.role: parameter for parameter in reversed(optimum.free)}
    slope, plateau, scale = (free.get(role) for role in (Role.SLOPE, Role.PLATEAU, Role.SCALE))
    steepness = values[slope.name] if slope else USUAL_SLOPE
    gamma = steepness if 0.2 < steepness < 2 else USUAL_SLOPE
    plateau_known = plateau is None or plateau_reached(points, table.chance)

    def wide(parameter: Parameter, ratio: float) -> bool:
        low, high = intervals[parameter.name]
        return not high < ratio * low

    def interval(parameter: Parameter, remedy: Remedy | None = None, axis: str = "") -> WideInterval:
        name = parameter.name
        low, high = clipped(extended(intervals[name], values[name]), limits[name])
        return WideInterval(
            parameter=name, symbol=parameter.symbol, lower=low, upper=high, remedy=remedy, axis=axis
        )

    if plateau is not None and not plateau_known:
        yield _plateau_missed(plateau, data, table, gamma)
    if not power_law_seen(points):
        yield _rise_missed(optimum, data, gamma)
    elif slope is not None and wide(slope, WIDE_RATIO):
        further = Remedy.SMALLER_STEPS if plateau_known or data.reached_chance else Remedy.PRUNE_FURTHER
        # A power law as steep as the search allows is none: the bends on both sides of it meet.
        yield interval(slope, Remedy.SHARPER_LAW if steepness >= slope.upper * (1 - AT_BOUND) else further)
    if scale is not None and plateau is not None and not plateau_known:
        yield ScaleFollowsPlateau(
            parameter=scale.name,
            symbol=scale.symbol,
            plateau_symbol=plateau.symbol,
            slope_symbol="" if slope is None else slope.symbol,
        )
    elif scale is not None and wide(scale, WIDE_RATIO**2):
        yield interval(scale)
    for parameter in optimum.free:
        if parameter.role is Role.EXPONENT and parameter.axis in JUDGED_AXES:
            low, high = intervals[parameter.name]
            if high - low > WIDE_EXPONENT:
                yield interval(parameter, axis=parameter.axis)
            elif len(np.unique(getattr(points, parameter.axis))) == 2:
                yield TwoSizesOnly(parameter=parameter.name, symbol=parameter.symbol, axis=parameter.axis)
        elif (
            parameter.role is Role.OTHER
            and parameter.positive
            and not parameter.bound_is_known
            and wide(parameter, WIDE_RATIO**2)
        ):
            yield interval(parameter)


def extended(interval: tuple[float, float], value: float) -> tuple[float, float]:
    """The interval, extended to include the estimate."""
    return min(interval[0], value), max(interval[1], value)


def clipped(interval: tuple[float, float], limits: tuple[float, float]) -> tuple[float, float]:
    """The part of an interval that lies within limits; the nearest limit, twice, where there is none."""
    low, high = np.clip(interval, *limits).tolist()
    return low, high


def _no_rise(optimum: Optimum, data: Measured) -> NoRise:
    more = levels_to(SEEN_RISE, 1.0, USUAL_SLOPE, data.kept_per_level)
    symbols = tuple(parameter.symbol for parameter in optimum.free if not parameter.bound_is_known)
    return NoRise(symbols=symbols, margin=LOW_EDGE - 1, **_short(data, more))


def _plateau_missed(plateau: Parameter, data: Measured, table: Table, gamma: float) -> PlateauNotReached:
    points, top, chance = data.points, float(data.points.error.max()), table.chance
    aim = 0.95 * (chance if chance is not None else min(table.metric.highest, 1.5 * top))
    return PlateauNotReached(
        parameter=plateau.name,
        symbol=plateau.symbol,
        highest_error=top,
        rows_near=0 if chance is None else int((points.error >= NEAR_PLATEAU * chance).sum()),
        chance_known=chance is not None,
        **_short(data, levels_to(aim, top, gamma, data.kept_per_level)),
    )


def _rise_missed(optimum: Optimum, data: Measured, gamma: float) -> RiseTooShort:
    points = data.points
    highest = float((points.error / points.unpruned[points.configuration]).max())
    slope = optimum.form.find(Role.SLOPE)
    parameter = optimum.form.parameters[0 if slope is None else slope]
    return RiseTooShort(
        parameter=parameter.name,
        symbol=parameter.symbol,
        highest_error=float(points.error.max()),
        rows_risen=_risen(points),
        **_short(data, levels_to(SEEN_RISE, highest, gamma, data.kept_per_level)),
    )


def _short(data: Measured, more_levels: int) -> dict[str, Any]:
    """The fields of `CurvesTooShort`; curves that have reached chance cannot be pruned further."""
    configurations, reached_chance = data.points.configurations, data.reached_chance
    return {
        "configurations": configurations,
        "reached_chance": reached_chance,
        "more_levels": more_levels if configurations > reached_chance else None,
    }


def _at_bounds(optimum: Optimum, known: set[str]) -> Iterator[AtBound]:
    """Parameters whose search ends at a bound."""
    lower, upper = bounds(optimum.form)
    for index, parameter in enumerate(optimum.form.parameters):
        sides = (
            (optimum.theta[index] <= lower[index], parameter.lower),
            (optimum.theta[index] >= upper[index], parameter.upper),
        )
        for at_bound, bound in sides:
            if at_bound and not optimum.fixed[index]:
                yield AtBound(
                    parameter=parameter.name,
                    symbol=parameter.symbol,
                    bound=bound,
                    explained=parameter.name in known,
                )


def fit_findings(fit: Fit, optimum: Optimum, table: Table) -> Iterator[Finding]:
    """Doubtful estimates, dips, large networks, misses, few data, rows at chance, a better law."""
    yield from _outside(fit)
    if not fit.dips:
        yield from _dips(fit)
    if not table.selected:
        yield from _too_large(fit, list(table.too_large()))
    yield from _misses(fit)
    yield from _few(fit)
    if fit.at_chance and fit.origin.chance is not None:
        yield AtChance(rows=fit.at_chance, chance=fit.origin.chance)
    if power_law_seen(optimum.points):
        yield from preference(fit.law, fit.held_out)


def flat_profiles(optimum: Optimum, undetermined: set[str]) -> Iterator[FlatProfile]:
    """Parameters that can be halved or doubled (exponents: changed by 0.5) at little cost if the others are refitted.

    Parameters already known to be undetermined are skipped.
    """
    theta, (lower, upper) = optimum.theta, bounds(optimum.form)
    step = np.array([np.log(2) if parameter.positive else 0.5 for parameter in optimum.form.parameters])
    tried = np.clip(theta + np.outer([-1, 1], step), lower, upper)
    known = [parameter.name in undetermined for parameter in optimum.form.parameters]
    worth = (np.abs(tried - theta) > step / 2) & ~optimum.fixed & ~np.array(known)
    _, columns = np.nonzero(worth)
    if not len(columns):
        return
    flat = np.zeros_like(worth)
    flat[worth] = optimum.profile(columns, tried[worth]).cost - optimum.cost < FLAT_COST * optimum.variance
    for index, parameter in enumerate(optimum.form.parameters):
        if flat[:, index].any():
            values = tried[flat[:, index], index].tolist()
            values = tuple(float(np.exp(x)) if parameter.positive else x for x in values)
            yield FlatProfile(parameter=parameter.name, symbol=parameter.symbol, values=values)


def _outside(fit: Fit) -> Iterator[OutsideInterval]:
    for name, value in fit.parameters.items():
        low, high = fit.intervals[name]
        if name not in fit.fixed and not low <= value <= high:
            yield OutsideInterval(parameter=name, symbol=fit.symbol(name))


def _dips(fit: Fit) -> Iterator[DipsIgnored]:
    """A dip counts if the whole low plateau lies lower than noise in the unpruned errors can explain.

    If no curve rises, most of what the fit takes for noise is the dip itself.
    """
    runs = sum(c.replicates for c in fit.configurations)
    noise = 3 * fit.spread.run / np.sqrt(runs) if fit.rises else 0.0
    if not fit.regions["low plateau"].mean > max(NOTICED_BIAS, noise):
        return
    dips = {c: 1 - c.lowest_error / c.unpruned_error for c in fit.configurations}
    dipping = [c for c, dip in dips.items() if dip > max(NOTICED_DIP, 2 * fit.spread.run)]
    if dipping:
        worst = max(dipping, key=lambda c: dips[c])
        yield DipsIgnored(
            dipping=len(dipping),
            configurations=len(fit.configurations),
            deepest=dips[worst],
            **_place(worst),
            mean_deviation=fit.deviation.mean,
            following_law=next((source_of(name) for name in selectable_laws() if get_law(name).dips), ""),
        )


def _too_large(fit: Fit, places: Sequence[tuple[float, float, float]]) -> Iterator[TooLarge]:
    """Networks that the paper would have left out, as a smaller one does better unpruned."""
    if places:
        known = {(c.depth, c.width, c.num_examples): c for c in fit.configurations}
        worst = max((known[place] for place in places), key=lambda c: c.unpruned_error)
        yield TooLarge(too_large=len(places), configurations=len(known), **_place(worst))


def _misses(fit: Fit) -> Iterator[Finding]:
    typical = float(np.median([c.deviation.rms for c in fit.configurations]))
    edge = max(NOTICED_MISS, 1.8 * typical)
    missed = sorted((c for c in fit.configurations if c.deviation.rms > edge), key=lambda c: -c.deviation.rms)
    for c in missed[:LISTED_MISSES]:
        yield Missed(**_place(c), mean=c.deviation.mean, std=c.deviation.std)
    if len(missed) > LISTED_MISSES:
        yield MoreMissed(count=len(missed) - LISTED_MISSES)


def _few(fit: Fit) -> Iterator[Finding]:
    count = len(fit.configurations)
    if count < LEAST_JACKKNIFE:
        yield FewConfigurations(configurations=count)
    elif count < TRUSTED_JACKKNIFE:
        yield WidenedIntervals(configurations=count, enough=TRUSTED_JACKKNIFE)
    if fit.noise_floor is None:
        yield NoReplicates()


def _place(c: Configuration) -> dict[str, float]:
    return {"depth": c.depth, "width": c.width, "num_examples": c.num_examples}


def preference(law: str, rms: dict[str, float]) -> Iterable[LawPreference]:
    """Whether another law, or else the fitted one, predicts left-out configurations best, and by how much."""
    fitted = get_law(law).family_law
    if fitted not in rms or len(rms) < 2:
        return
    best = min(rms, key=lambda name: rms[name])
    rest = {name: value for name, value in rms.items() if name != best}
    other = fitted if best != fitted else min(rest, key=lambda name: rest[name])
    yield LawPreference(
        law=law,
        best=best,
        best_source=source_of(best),
        best_title=get_law(best).title,
        best_rms=rms[best],
        other=other,
        other_title=get_law(other).title,
        other_rms=rms[other],
        clear=rms[best] <= CLEARLY_BETTER * rms[other],
    )
