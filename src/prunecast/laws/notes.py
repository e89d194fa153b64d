"""What a reader of a fit should know beside its numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prunecast.laws.forms import PruningForm, bounds
from prunecast.laws.identify import (
    LIMITS,
    Note,
    no_rise,
    power_law_seen,
    reaching,
    rises,
    undetermined,
    unknown,
)
from prunecast.laws.latent import LEAST_JACKKNIFE, TRUSTED_JACKKNIFE
from prunecast.laws.measured import Measured
from prunecast.laws.points import Floats, Mask, Points
from prunecast.laws.prefer import preference
from prunecast.laws.result import Configuration, Fit
from prunecast.laws.solver import Objective
from prunecast.laws.uncertainty import moved
from prunecast.laws.words import SYMBOLS
from prunecast.table import Table
from prunecast.table.too_large import Configuration as Place
from prunecast.table.too_large import oversized

NOTICED_DIP, NOTICED_BIAS = 0.05, 0.01
NOTICED_MISS, LISTED_MISSES = 0.05, 5
FLAT_COST = 4.0
"""A profile is flat where halving or doubling a parameter costs less than this many residual variances."""


@dataclass(frozen=True, kw_only=True)
class Optimum:
    """Where the search ended, and what it was told."""

    form: PruningForm
    points: Points
    theta: Floats
    cost: float
    held: Mask
    objective: Objective


def noted(plain: Fit, table: Table, data: Measured, found: Optimum, free: set[str]) -> Fit:
    """The fit with what to know beside its numbers, and intervals that hold what the data leave open."""
    values = plain.parameters
    if rises(data.points, plain.law):
        questions = [*undetermined(values, plain.intervals, data.points, table.chance, free, data.ended)]
        questions += _at_bounds(found.form, found.theta, found.held, unknown(questions, free))
    else:
        questions = [no_rise(data.points, [name for name in values if name in free], data.ended)]
    told = unknown(questions, free)
    intervals = {
        name: reaching(own, values[name]) if name in told else own for name, own in plain.intervals.items()
    }
    fitted = replace(plain, intervals=intervals, notes=tuple(questions))
    preferred = preference(fitted.law, fitted.held_out) if power_law_seen(data.points) else []
    large = () if table.selected else tuple(oversized(table.frame, table.chance))
    return replace(fitted, notes=(*fitted.notes, *_notes(fitted, found, told, large), *preferred))


def _notes(fit: Fit, found: Optimum, told: set[str], large: Sequence[Place]) -> Iterator[Note]:
    """Flat profiles, doubtful estimates, dips, large networks, misses, thin data, rows at chance."""
    yield from _flat(found, told)
    yield from _outside(fit)
    if fit.law != "dip":
        yield from _dips(fit)
    yield from _oversized(fit, large)
    yield from _misses(fit)
    yield from _thin(fit)
    if fit.at_chance:
        rows = f"{fit.at_chance:,} row{'s' * (fit.at_chance > 1)}"
        text = (
            f"{rows} no better than chance ({fit.origin.chance:g}) {_are(fit.at_chance)} left out of the fit."
        )
        yield Note(kind="chance", text=text)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _at_bounds(form: PruningForm, theta: Floats, held: Mask, told: set[str]) -> Iterator[Note]:
    """Parameters that end at a bound of their search: beyond it the data do not tell them apart."""
    lower, upper = bounds(form)
    for index, parameter in enumerate(form.parameters):
        sides = (
            (theta[index] <= lower[index], parameter.lower),
            (theta[index] >= upper[index], parameter.upper),
        )
        for at, limit in sides:
            if at and not held[index]:
                known = parameter.name in told or parameter.name in LIMITS
                is_not = f"{parameter.symbol} {'ends' if known else 'is not determined: it ends'}"
                text = f"{is_not} at the bound of its search, {limit:.3g}: the data pull it beyond."
                yield Note(kind="bound", parameter=parameter.name, text=text)


def _flat(found: Optimum, told: set[str]) -> Iterator[Note]:
    """Parameters that can be halved or doubled (exponents: moved by a half) at little cost, the others following.

    Those already known to be undetermined are not named again.
    """
    form, theta = found.form, found.theta
    variance = found.cost / max(1, len(found.points) - int((~found.held).sum()))
    lower, upper = bounds(form)
    for index, parameter in enumerate(form.parameters):
        step = np.log(2) if parameter.positive else 0.5
        tried = np.clip(theta[index] + np.array([-step, step]), lower[index], upper[index])
        tried = tried[np.abs(tried - theta[index]) > step / 2]
        if found.held[index] or parameter.name in told or not len(tried):
            continue
        costs = moved(form, found.points, theta, found.held, index, tried, found.objective).cost
        flat = tried[costs - found.cost < FLAT_COST * variance]
        if len(flat):
            values = " or ".join(f"{np.exp(x) if parameter.positive else x:.3g}" for x in flat)
            fits = "fits" if len(flat) == 1 else "fit"
            text = f"{parameter.symbol} has a flat profile: {values} {fits} almost as well, as the others follow."
            yield Note(kind="flat", parameter=parameter.name, text=text)


def _outside(fit: Fit) -> Iterator[Note]:
    for name, value in fit.parameters.items():
        low, high = fit.intervals[name]
        if name not in fit.fixed and not low <= value <= high:
            text = (
                f"The estimate of {SYMBOLS[name]} lies outside its interval: the paper's fit takes measured unpruned "
                "errors as exact, the interval does not, and here that matters."
            )
            yield Note(kind="outside", parameter=name, text=text)


def _dips(fit: Fit) -> Iterator[Note]:
    """A dip counts where the low plateau as a whole lies lower than noise in the unpruned errors would put it.

    Where no curve rises the dip itself is most of what the fit takes for noise.
    """
    trainings = sum(c.replicates for c in fit.configurations)
    noise = 3 * fit.spread.run / np.sqrt(trainings) if fit.rises else 0.0
    if not fit.regions["low plateau"].mean > max(NOTICED_BIAS, noise):
        return
    dips = {c: 1 - c.lowest_error / c.unpruned_error for c in fit.configurations}
    dipping = [c for c, dip in dips.items() if dip > max(NOTICED_DIP, 2 * fit.spread.run)]
    if dipping:
        worst = max(dipping, key=lambda c: dips[c])
        yield Note(
            kind="dip",
            text=f"In {len(dipping)} of {len(fit.configurations)} configurations the error clearly falls below its "
            f"unpruned value, by up to {dips[worst]:.0%} ({_place(worst)}). The law is flat there, so it "
            f"overestimates: the mean deviation is {fit.deviation.mean:+.1%}. The law `dip` follows it.",
        )


def _oversized(fit: Fit, places: Sequence[Place]) -> Iterator[Note]:
    """Networks that the paper would have left out, as a smaller one does better unpruned."""
    if places:
        known = {(own.depth, own.width, own.num_examples): own for own in fit.configurations}
        worst = max((known[place] for place in places), key=lambda own: own.unpruned_error)
        yield Note(
            kind="oversized",
            text=f"{len(places)} of {len(known)} configurations {_are(len(places))} too large for the data: unpruned, "
            f"a smaller network does better than {_place(worst)}. The paper leaves such out; so does "
            "--without-too-large (`Table.without_too_large` in Python).",
        )


def _misses(fit: Fit) -> Iterator[Note]:
    typical = float(np.median([c.deviation.rms for c in fit.configurations]))
    edge = max(NOTICED_MISS, 1.8 * typical)
    missed = sorted((c for c in fit.configurations if c.deviation.rms > edge), key=lambda c: -c.deviation.rms)
    for configuration in missed[:LISTED_MISSES]:
        own = configuration.deviation
        text = f"The law misses {_place(configuration)}: deviation {own.mean:+.1%} ± {own.std:.1%}."
        yield Note(kind="miss", text=text)
    if len(missed) > LISTED_MISSES:
        yield Note(
            kind="miss", text=f"It misses {len(missed) - LISTED_MISSES} further configurations like that."
        )


def _thin(fit: Fit) -> Iterator[Note]:
    count = len(fit.configurations)
    if count < LEAST_JACKKNIFE:
        text = (
            f"With {count} configuration{'s' * (count > 1)} the intervals rest on the scatter of rows alone and "
            "assume that the law is right; more configurations would test that."
        )
        yield Note(kind="few", text=text)
    elif count < TRUSTED_JACKKNIFE:
        text = (
            f"With {count} configurations (under {TRUSTED_JACKKNIFE}) the intervals are widened on purpose: "
            "in simulation they cover 96 to 100% instead of 95%."
        )
        yield Note(kind="few", text=text)
    if fit.noise_floor is None:
        text = (
            "Without replicates the noise of the measurements is unknown; a second replicate would show it."
        )
        yield Note(kind="few", text=text)


def _place(configuration: Configuration) -> str:
    examples = f"{configuration.num_examples:,.0f} examples"
    return f"depth {configuration.depth:g}, width {configuration.width:g}, {examples}"
