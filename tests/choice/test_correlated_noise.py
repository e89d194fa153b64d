"""What `predict` and `choose` promise of new training runs, where the errors of one chain deviate together.

A measured replicate that is worse than another at one level is likely to be worse at the next, too. Second differences
along a chain then see only half of the noise. `benchmarks/promises.py` has the numbers of measured tables.

The best of many measured sizes is often a lucky one, or one that the law takes for better than it is. Similar sizes
show both, so one kind of table has a law that misses similar sizes alike.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from planted import planted

from prunecast.choice import choose_each
from prunecast.laws import Fit, fit
from prunecast.table import CONFIGURATION, read

NOISE, CORRELATION, LEVELS = 0.034, 0.75, 10.0
"""About as replicates of the measured tables differ."""
SIMULATIONS, CONFIGURATIONS, NEW, EXAMPLES = 8, 36, 8, 50_000
TARGETS = np.geomspace(0.12, 0.6, 12)
MOST_MARGIN = 0.1
"""With more than this between promised and met, a test tells nothing."""
MISSED = 0.08
"""By how much the law misses pruned networks of some sizes: more of some widths, less of others."""
KINDS = [
    pytest.param(0.0, 0.0, id="independent"),
    pytest.param(CORRELATION, 0.0, id="correlated"),
    pytest.param(CORRELATION, MISSED, id="correlated, and a law that misses similar sizes alike"),
]


@cache
def fitted(correlation: float, missed: float, seed: int) -> tuple[Fit, pd.DataFrame]:
    """A law fitted to one replicate, and the rows of others."""
    frame = planted(
        configurations=CONFIGURATIONS,
        replicates=1 + NEW,
        noise=NOISE,
        correlation=correlation,
        correlation_levels=LEVELS,
        num_examples=(EXAMPLES,),
        seed=seed,
    )
    doublings = np.log2(frame["width"]) + np.log2(frame["depth"]) + np.random.default_rng(seed).uniform(0, 6)
    factor = np.exp(missed * (1 - frame["density"]) * np.sin(doublings * np.pi / 3))
    frame = frame.assign(error=np.minimum(frame["error"] * factor, 1.0))
    first = frame["replicate"] == 1
    return fit(read(frame[first])), frame[~first]


def deviations(correlation: float) -> np.ndarray:
    """Planted deviations in units of the noise, one row per chain and one column per level."""
    truth, frame = (
        planted(replicates=4, noise=noise, correlation=correlation, correlation_levels=LEVELS, seed=3)
        for noise in (0.0, NOISE)
    )
    delta = (frame["error"] / truth["error"] - 1) / NOISE
    chains = frame.assign(delta=delta).pivot(
        index=[*CONFIGURATION, "replicate"], columns="level", values="delta"
    )
    return chains.to_numpy()


@pytest.mark.parametrize("correlation", [0.0, 0.4, CORRELATION])
def test_planted_noise_has_the_correlation_it_promises(correlation: float) -> None:
    delta = deviations(correlation)
    assert np.nanstd(delta) == pytest.approx(1, abs=0.03)
    for lag in (1, 4, 8, 16):
        both = delta[:, :-lag] * delta[:, lag:]
        assert np.nanmean(both) == pytest.approx(correlation * np.exp(-lag / LEVELS), abs=0.05)


def test_planted_replicates_deviate_independently() -> None:
    delta = deviations(CORRELATION)
    assert np.nanmean(delta[::4] * delta[1::4]) == pytest.approx(0, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("correlation", "missed"), KINDS)
def test_new_replicates_fall_into_the_95_percent_interval(correlation: float, missed: float) -> None:
    inside = []
    for seed in range(SIMULATIONS):
        law, new = fitted(correlation, missed, seed)
        rows = new[new["level"] > 0]
        places = {name: rows[name].to_numpy() for name in CONFIGURATION}
        found = law.predict(rows["density"].to_numpy(), **places)
        inside.extend((found.lower <= rows["error"]) & (rows["error"] <= found.upper))
    assert np.mean(inside) >= 0.935


@pytest.mark.slow
@pytest.mark.parametrize(("confidence", "too_much"), [(0.5, 0.1), (0.8, 0.0), (0.95, 0.0)])
@pytest.mark.parametrize("correlation", [0.0, CORRELATION], ids=["independent", "correlated"])
def test_new_replicates_meet_targets_as_often_as_promised(
    correlation: float, confidence: float, too_much: float
) -> None:
    """New replicates of an answer share the noise of the chain that it rests on, so simulations are what is counted.

    Eight simulations at one half show no less than ten points; `tests/laws/test_laws_scatter.py` has 150.
    """
    short = []
    for seed in range(SIMULATIONS):
        law, new = fitted(correlation, 0.0, seed)
        promised, met = [], []
        for choice in choose_each(
            law, TARGETS, confidence=confidence, num_examples=EXAMPLES, sizes="measured"
        ):
            answer = choice.answer
            chains = new[(new["depth"] == answer.depth) & (new["width"] == answer.width)]
            if not choice.met or answer.density < chains["density"].min():
                continue
            for _, chain in chains.sort_values("density").groupby("replicate"):
                log_density, log_error = np.log(chain["density"]), np.log(chain["error"])
                error = np.exp(np.interp(np.log(answer.density), log_density, log_error))
                promised.append(answer.probability)
                met.append(error <= choice.question.target_error)
        assert len(met) >= NEW * len(TARGETS) / 2
        short.append(np.mean(promised) - np.mean(met))
    margin = 2 * np.std(short, ddof=1) / np.sqrt(SIMULATIONS)
    assert margin < MOST_MARGIN
    assert np.mean(short) <= margin + too_much, short
