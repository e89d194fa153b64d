"""Noise and misfit: what is planted is inferred, and what neither can explain stays out."""

import numpy as np
import pytest
from planted import planted

from prunecast.laws import fit
from prunecast.laws.predictive import predictive
from prunecast.laws.scatter import (
    CORRELATION,
    CORRELATION_LENGTH,
    LEAST_UNPRUNED,
    LEVEL,
    MISFIT_LENGTH,
    MOST_NOISE,
    RATIO_STD,
    RATIOS,
    TINY,
    USUAL_RATIO,
    Curve,
    Scatter,
    _Likelihood,
    inferred,
    onset,
    roughness,
    shrunk,
)
from prunecast.table import read

LEVELS = 24
UNPRUNED = 0.1
"""The deviation of measured unpruned errors from the dense law."""


def curve(deviation, replicates=1.0, **changes):
    """A curve of levels of 20% that a law which is known exactly misses by this much."""
    deviation = np.asarray(deviation, dtype=float)
    count = len(deviation)
    fields = {
        "log_density": -LEVEL * np.arange(count),
        "deviation": deviation,
        "replicates": np.full(count, float(replicates)),
        "slope": np.zeros(count),
        "known": np.zeros((count, count)),
        "unpruned_shift": 0.0,
    }
    return Curve(**{**fields, **changes})


def drawn(noise, misfit, *, curves=40, levels=LEVELS, replicates=1, seed=0):
    """Curves with noise and misfit of these standard deviations, drawn from what `scatter` says of them."""
    rng, x = np.random.default_rng(seed), -LEVEL * np.arange(levels)
    scatter = Scatter(noise=noise, misfit=misfit, unpruned=0.0)
    covariance = scatter.of_chains(x, np.full(levels, float(replicates))) + scatter.of_law(x, x)
    return [curve(rng.multivariate_normal(np.zeros(levels), covariance), replicates) for _ in range(curves)]


@pytest.mark.parametrize("noise", [0.02, 0.06])
@pytest.mark.parametrize("seed", range(2))
def test_the_noise_of_planted_chains_is_inferred_without_replicates(noise, seed):
    """Their levels resemble one another, so deviations from the law and roughness alone both say too little."""
    frame = planted(configurations=30, noise=noise, correlation=CORRELATION, seed=seed)
    scatter = predictive(fit(read(frame), law="eq2")).scatter
    assert scatter.noise == pytest.approx(noise, rel=0.25)
    assert (
        RATIOS[0] <= scatter.misfit / scatter.noise < USUAL_RATIO
    )  # there is none; a law never misses nothing


def test_where_there_are_replicates_the_noise_is_theirs():
    options = {"configurations": 12, "noise": 0.04, "correlation": CORRELATION, "seed": 1}
    result = fit(read(planted(replicates=4, **options)), law="eq2")
    assert predictive(result).scatter.noise == result.noise_floor.replicate == pytest.approx(0.04, rel=0.1)
    single = fit(read(planted(**options)), law="eq2")
    assert single.noise_floor is None
    assert predictive(single).scatter.noise == pytest.approx(0.04, rel=0.25)


@pytest.mark.parametrize("misfit", [0.05, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_a_planted_misfit_is_inferred(misfit, seed):
    told = inferred(drawn(0.02, misfit, seed=seed), 0.02, UNPRUNED)
    assert told.noise == pytest.approx(0.02, rel=1e-9)
    likely = np.exp(shrunk(np.log(misfit / 0.02)))
    assert told.misfit == pytest.approx(0.02 * likely, rel=0.25)
    both = inferred(drawn(0.02, misfit, seed=seed), None, UNPRUNED)
    assert both.misfit / both.noise == pytest.approx(likely, rel=0.4)
    assert both.noise == pytest.approx(0.02, rel=0.25)


def test_the_noise_is_that_of_single_runs_however_many_were_averaged():
    for replicates in (1, 9):
        found = inferred(drawn(0.05, 0.04, replicates=replicates), None, UNPRUNED)
        assert found.noise == pytest.approx(0.05, rel=0.3)


def test_without_misfit_there_is_still_the_least():
    """No law is so good that curves of the same noise miss it by less."""
    noise = 0.05
    found = inferred(drawn(noise, 1e-6), noise, UNPRUNED)
    assert found.misfit == pytest.approx(np.exp(shrunk(np.log(RATIOS[0]))) * noise, rel=0.05)
    exact = inferred([curve(np.zeros(LEVELS))], None, UNPRUNED)
    assert 0 < exact.noise < 1e-3
    assert exact.misfit >= RATIOS[0] * exact.noise


def test_few_curves_have_no_more_noise_than_they_deviate_from_the_law():
    rough = [curve(0.03 * (-1.0) ** np.arange(LEVELS))]
    assert inferred(rough, None, UNPRUNED).noise == pytest.approx(0.03 * np.sqrt(MOST_NOISE))


def test_the_ratio_of_misfit_to_noise_is_shrunk_to_the_usual_one_unless_it_is_far_away():
    usual = np.log(USUAL_RATIO)
    assert shrunk(usual) == pytest.approx(usual, abs=0.01)
    for side in (-1, 1):
        near, far = (shrunk(usual + side * away) - usual for away in (RATIO_STD / 4, 8 * RATIO_STD))
        assert near / (side * RATIO_STD / 4) == pytest.approx(1 / 3, abs=0.05)
        assert far / (side * 8 * RATIO_STD) == pytest.approx(1, abs=0.05)
    by_size = [shrunk(usual + away) for away in np.linspace(-3, 3, 61)]
    assert (np.diff(by_size) > 0).all()


def test_the_noise_of_unpruned_errors_is_no_deviation_from_the_dense_law():
    """What the dense law misses beyond noise is shared by replicates; at least half of its deviation counts."""
    for noise, replicates in ((0.05, 1), (0.05, 4), (0.3, 1)):
        found = inferred(drawn(noise, 0.05, replicates=replicates), noise, UNPRUNED)
        beyond = max(UNPRUNED**2 - noise**2 / replicates, (LEAST_UNPRUNED * UNPRUNED) ** 2)
        assert found.unpruned == pytest.approx(np.sqrt(beyond))


def test_what_is_smooth_is_no_noise():
    """A law may be far off all along a curve; what changes from level to level and back is noise."""
    x, rng = -LEVEL * np.arange(LEVELS), np.random.default_rng(1)
    noise = 0.01 * rng.standard_normal((30, LEVELS))
    tilted = roughness([curve(0.3 + 0.2 * x + own) for own in noise], 1.0)
    assert tilted == pytest.approx(roughness([curve(own) for own in noise], 1.0), rel=1e-9)
    assert tilted == pytest.approx(0.01, rel=0.1)
    bent = inferred([curve(0.3 * onset(x) + 0.2 * x + own) for own in noise], None, UNPRUNED)
    assert bent.noise < 0.05
    assert bent.misfit > 5 * bent.noise
    assert roughness([curve(0.1 * noise[0])], 1.0) == pytest.approx(0.1 * roughness([curve(noise[0])], 1.0))
    assert roughness([curve(noise[0], replicates=4)], 1.0) == pytest.approx(
        2 * roughness([curve(noise[0])], 1.0)
    )


def test_curves_of_two_rows_have_no_roughness():
    assert roughness([curve([0.0, 0.1]), curve([0.0, 0.2])], 0.07) == 0.07


def test_the_covariances_are_what_they_say():
    scatter = Scatter(noise=0.1, misfit=0.3, unpruned=0.0)
    x = -LEVEL * np.arange(5)
    chains = scatter.of_chains(x, np.array([4.0, 4.0, 4.0, 2.0, 1.0]))
    np.testing.assert_allclose(np.diag(chains), 0.01 / np.array([4, 4, 4, 2, 1]))
    assert chains[0, 2] == pytest.approx(0.01 * CORRELATION * np.exp(-2 * LEVEL / CORRELATION_LENGTH) / 4)
    # The replicate that goes on is among those that were averaged before, so they share 1/4 of its noise.
    assert chains[1, 4] == pytest.approx(0.01 * CORRELATION * np.exp(-3 * LEVEL / CORRELATION_LENGTH) / 4)
    law = scatter.of_law(x, x)
    np.testing.assert_allclose(np.diag(law), scatter.variance_of_law(x))
    assert (law[0] == 0).all()  # every law gives ε_np at density 1
    assert scatter.variance_of_law(np.array([-50 * LEVEL])) == pytest.approx(0.09, rel=1e-6)
    assert (np.diff(onset(x)) > 0).all()
    far = scatter.of_law(x[-1:], x[-1:] - 10 * MISFIT_LENGTH)
    assert 0 < far < 1e-5
    for covariance in (chains, law + TINY * np.eye(5)):
        np.linalg.cholesky(covariance)


def test_the_likelihood_of_curves_is_that_of_normal_numbers_whatever_their_lengths():
    """Short curves are filled up, which must not count."""
    curves = [*drawn(0.05, 0.1, curves=2), *drawn(0.05, 0.1, curves=2, levels=7, replicates=3)]
    slope = np.linspace(0.2, 1.0, 7)
    curves.append(curve(np.full(7, 0.1), slope=slope, known=np.outer(slope, slope), unpruned_shift=0.05))

    likely = _Likelihood(curves, UNPRUNED)

    def by_hand(noise, misfit):
        total, scatter = 0.0, likely.scatter(np.log(noise), np.log(misfit / noise))
        for own in curves:
            x = own.log_density
            covariance = scatter.of_chains(x, own.replicates) + scatter.of_law(x, x) + own.known
            covariance = covariance + scatter.unpruned**2 * np.outer(own.slope, own.slope)
            missed = own.deviation - own.slope * own.unpruned_shift
            total += missed @ np.linalg.solve(covariance, missed) / 2 + np.linalg.slogdet(covariance)[1] / 2
        return total

    for noise, misfit in ((0.05, 0.1), (0.1, 0.02)):
        found = likely.cost(np.log(noise), np.log(misfit / noise))
        assert found == pytest.approx(by_hand(noise, misfit), rel=1e-5)
