"""What a reader of a fit should know beside its numbers."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from prunecast.laws.eq2 import SYMBOLS
from prunecast.laws.forms import Joint, bounds
from prunecast.laws.identify import Note
from prunecast.laws.latent import LEAST_JACKKNIFE, TRUSTED_JACKKNIFE
from prunecast.laws.points import Floats, Points
from prunecast.laws.solver import Mask
from prunecast.laws.uncertainty import profile

if TYPE_CHECKING:
    from prunecast.laws.result import Configuration, Fit

NOTICED_DIP = 0.05
NOTICED_MISS = 0.05
FLAT_COST = 4.0
"""A profile is flat where halving or doubling a parameter costs less than this many residual variances."""


def notes(fit: "Fit", form: Joint, points: Points, theta: Floats, held: Mask, cost: float) -> Iterator[Note]:
    """Bounds reached, flat profiles, dips, misses, thin data, rows at chance."""
    yield from _at_bounds(form, theta, held)
    yield from _flat(form, points, theta, held, cost)
    yield from _dips(fit)
    yield from _misses(fit)
    yield from _thin(fit)
    if fit.at_chance:
        text = f"{_rows(fit.at_chance)} no better than chance ({fit.origin.chance:g}) stay out of the fit."
        yield Note(kind="chance", text=text)


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count:,} rows"


def _at_bounds(form: Joint, theta: Floats, held: Mask) -> Iterator[Note]:
    lower, upper = bounds(form)
    for index, parameter in enumerate(form.parameters):
        for at, limit, side in (
            (theta[index] <= lower[index], parameter.lower, "lower"),
            (theta[index] >= upper[index], parameter.upper, "upper"),
        ):
            if at and not held[index]:
                text = f"{parameter.symbol} ends at its {side} bound {limit:g}: the data pull it out of the sensible range."
                yield Note(kind="bound", parameter=parameter.name, text=text)


def _flat(form: Joint, points: Points, theta: Floats, held: Mask, cost: float) -> Iterator[Note]:
    """Parameters that can be halved or doubled (φ, ψ: moved by one half) at little cost, the others following."""
    variance = cost / max(1, len(points) - int((~held).sum()))
    for index, parameter in enumerate(form.parameters):
        if held[index]:
            continue
        step = np.log(2) if parameter.positive else 0.5
        down, up = profile(form, points, theta, held, index, theta[index] + np.array([-step, step])) - cost
        for rise, word in (
            (down, "halving" if parameter.positive else "lowering"),
            (up, "doubling" if parameter.positive else "raising"),
        ):
            if rise < FLAT_COST * variance:
                by = "" if parameter.positive else " by a half"
                text = f"{parameter.symbol} has a flat profile: {word} it{by} costs the fit almost nothing, as the others follow."
                yield Note(kind="flat", parameter=parameter.name, text=text)


def _dips(fit: "Fit") -> Iterator[Note]:
    depths = {c: 1 - c.lowest_error / c.unpruned_error for c in fit.configurations}
    dipping = [c for c, depth in depths.items() if depth > max(NOTICED_DIP, 2 * fit.spread.run)]
    if not dipping:
        return
    worst = max(dipping, key=lambda c: depths[c])
    yield Note(
        kind="dip",
        text=f"In {len(dipping)} of {len(fit.configurations)} configurations the error first falls below its unpruned value, "
        f"by up to {depths[worst]:.0%} ({_place(worst)}). The law is flat there, so it overestimates: "
        f"the mean deviation is {fit.deviation.mean:+.1%}.",
    )


def _misses(fit: "Fit") -> Iterator[Note]:
    typical = float(np.median([c.deviation.rms for c in fit.configurations]))
    edge = max(NOTICED_MISS, 1.8 * typical)
    missed = sorted((c for c in fit.configurations if c.deviation.rms > edge), key=lambda c: -c.deviation.rms)
    for configuration in missed[:5]:
        text = f"The law misses {_place(configuration)}: deviation {configuration.deviation.mean:+.1%} ± {configuration.deviation.std:.1%}."
        yield Note(kind="miss", text=text)
    if len(missed) > 5:
        yield Note(kind="miss", text=f"It misses {len(missed) - 5} further configurations as badly.")


def _thin(fit: "Fit") -> Iterator[Note]:
    count = len(fit.configurations)
    if count < LEAST_JACKKNIFE:
        text = f"With {count} configuration{'s' * (count > 1)} the intervals assume independent noise around a right law; three more would test that."
        yield Note(kind="few", text=text)
    elif count < TRUSTED_JACKKNIFE:
        text = f"With {count} configurations (under {TRUSTED_JACKKNIFE}) the intervals are widened on purpose; in simulation they cover 97 to 100% instead of 95%."
        yield Note(kind="few", text=text)
    if fit.noise_floor is None:
        yield Note(
            kind="few",
            text="Without replicates the noise of the measurements is unknown; a second replicate would tell how good a fit can be.",
        )


def _place(configuration: "Configuration") -> str:
    words = [f"depth {configuration.depth:g}", f"width {configuration.width:g}"]
    return ", ".join([*words, f"n = {configuration.num_examples:,.0f}"])
