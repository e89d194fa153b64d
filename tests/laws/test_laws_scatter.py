"""Noise and misfit: what is planted is inferred, and what neither can explain stays out."""

from dataclasses import replace

import numpy as np
import pytest
from planted import planted

from prunecast.laws import fit
from prunecast.laws.predictive import predictive
from prunecast.laws.scatter import (
    CORRELATION,
    CORRELATION_LENGTH,
    LEAST_RATIO,
    LEVEL,
    MISFIT_LENGTH,
    MOST_NOISE,
    SIZE_LENGTH,
    TINY,
    Curve,
    Neighbours,
    Scatter,
    inferred,
    knots_of,
    onset,
    resemblance,
    roughness,
)
from prunecast.table import read

LEVELS = 24
FAR = 100.0
"""So many doublings apart, configurations know nothing of one another."""


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
        "place": np.zeros(3),
    }
    return Curve(**{**fields, **changes})


def square(side, apart=0.75):
    """Places of a square of sizes, so many doublings from one to the next."""
    return [np.array([0.0, apart * i, apart * j]) for i in range(side) for j in range(side)]


def drawn(noise, misfit, *, unpruned=1e-6, places=None, levels=LEVELS, replicates=1, seed=0):
    """Curves with noise and misfit of these standard deviations, drawn from what `scatter` says of them.

    Without places each is far from all others.
    """
    return pair(noise, misfit, unpruned, places, levels, replicates, seed)[0]


def pair(noise, misfit, unpruned, places, levels=LEVELS, replicates=1, seed=0):
    """Curves, and others of the same networks trained anew."""
    rng, x = np.random.default_rng(seed), -LEVEL * np.arange(levels)
    places = [FAR * np.full(3, i) for i in range(40)] if places is None else places
    scatter, slope = Scatter(noise=noise, misfit=misfit, unpruned=0.0), np.exp(x)
    alike = np.linalg.cholesky(resemblance(np.stack(places), np.stack(places)) + TINY * np.eye(len(places)))
    shape = np.linalg.cholesky(scatter.of_law(x, x) + TINY * np.eye(levels))
    rows = alike @ rng.standard_normal((len(places), levels)) @ shape.T
    rows += np.outer(unpruned * alike @ rng.standard_normal(len(places)), slope)
    chain = scatter.of_chains(x, np.full(levels, float(replicates)))
    return [
        [
            curve(row, replicates, place=place, slope=slope)
            for row, place in zip(rows + noises, places, strict=True)
        ]
        for noises in rng.multivariate_normal(np.zeros(levels), chain, (2, len(places)))
    ]


@pytest.mark.parametrize("noise", [0.02, 0.06])
@pytest.mark.parametrize("seed", range(2))
def test_the_noise_of_planted_chains_is_inferred_without_replicates(noise, seed):
    """Their levels resemble one another, so deviations from the law and roughness alone both say too little."""
    frame = planted(configurations=30, noise=noise, correlation=CORRELATION, seed=seed)
    scatter = predictive(fit(read(frame), law="eq2")).scatter
    assert scatter.noise == pytest.approx(noise, rel=0.25)
    assert scatter.misfit < 0.75 * scatter.noise  # there is none; but no law misses nothing


def test_where_there_are_replicates_the_noise_is_theirs():
    options = {"configurations": 12, "noise": 0.04, "correlation": CORRELATION, "seed": 1}
    result = fit(read(planted(replicates=4, **options)), law="eq2")
    assert predictive(result).scatter.noise == result.noise_floor.replicate == pytest.approx(0.04, rel=0.1)
    single = fit(read(planted(**options)), law="eq2")
    assert single.noise_floor is None
    assert predictive(single).scatter.noise == pytest.approx(0.04, rel=0.25)


@pytest.mark.parametrize("misfit", [0.02, 0.05, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_a_planted_misfit_is_inferred(misfit, seed):
    """From one replicate, too: what neighbours share is misfit, what they do not is noise."""
    curves = drawn(0.02, misfit, unpruned=0.06, places=square(7), seed=seed)
    told = inferred(curves, 0.02, None)
    assert told.noise == pytest.approx(0.02, rel=1e-9)
    for found in (told, inferred(curves, None, None)):
        assert found.misfit == pytest.approx(misfit, rel=0.4)
        assert found.unpruned == pytest.approx(0.06, rel=0.4)
        assert found.noise == pytest.approx(0.02, rel=0.2)


def test_the_noise_is_that_of_single_runs_however_many_were_averaged():
    for replicates in (1, 9):
        found = inferred(drawn(0.05, 0.04, places=square(7), replicates=replicates), None, None)
        assert found.noise == pytest.approx(0.05, rel=0.3)


def test_without_misfit_there_is_still_the_least():
    """No law is so good that curves of the same noise miss it by less."""
    noise = 0.05
    found = inferred(drawn(noise, 1e-6, places=square(6)), noise, None)
    assert found.misfit == pytest.approx(LEAST_RATIO * noise, rel=0.05)
    assert found.unpruned == pytest.approx(LEAST_RATIO * noise, rel=0.05)
    exact = inferred([curve(np.zeros(LEVELS))], None, 1.0)
    assert 0 < exact.noise < 1e-3
    assert exact.misfit >= LEAST_RATIO * exact.noise


def test_few_curves_have_no_more_noise_than_they_deviate_from_the_law():
    rough = [curve(0.03 * (-1.0) ** np.arange(LEVELS))]
    assert inferred(rough, None, 1.0).noise == pytest.approx(0.03 * np.sqrt(MOST_NOISE))


def test_what_is_smooth_is_no_noise():
    """A law may be far off all along a curve; what changes from level to level and back is noise."""
    x, rng = -LEVEL * np.arange(LEVELS), np.random.default_rng(1)
    noise = 0.01 * rng.standard_normal((30, LEVELS))
    tilted = roughness([curve(0.3 + 0.2 * x + own) for own in noise], 1.0)
    assert tilted == pytest.approx(roughness([curve(own) for own in noise], 1.0), rel=1e-9)
    assert tilted == pytest.approx(0.01, rel=0.1)
    bent = inferred(
        [curve(0.3 * onset(x) + 0.2 * x + own, place=FAR * np.full(3, i)) for i, own in enumerate(noise)],
        None,
        1.0,
    )
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


SCATTER = {"noise": 0.05, "misfit": 0.1, "unpruned": 0.08}


@pytest.fixture(scope="module")
def mixed():
    """Neighbours with curves of several lengths and replicates, one of whose laws is not known exactly."""
    places = square(3)
    long = drawn(0.05, 0.1, unpruned=0.08, places=places[:5], levels=12)
    short = drawn(0.05, 0.1, unpruned=0.08, places=places[5:8], levels=7, replicates=3)
    slope = np.linspace(0.2, 1.0, 7)
    doubted = curve(np.full(7, 0.1), slope=slope, known=0.01 * np.outer(slope, slope), unpruned_shift=0.05)
    return [*long, *short, replace(doubted, place=places[8])]


def joined(curves, scatter, dense):
    """The covariance of all rows of some curves, written out row by row, and what they miss."""
    sizes = [len(one.deviation) for one in curves]
    ends = np.cumsum([0, *sizes])
    whole, missed = np.zeros((ends[-1], ends[-1])), np.concatenate([one.missed for one in curves])
    for i, one in enumerate(curves):
        for j, other in enumerate(curves):
            at = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
            alike = resemblance(one.place[None], other.place[None])[0, 0]
            here, there = (scatter.coupled(row.log_density, row.slope) for row in (one, other))
            share = np.append(np.full(here.shape[1] - 1, alike), alike if dense else float(i == j))
            whole[at] = (here * share) @ there.T
            if i == j:
                x = one.log_density
                whole[at] += scatter.alone(x, x) + scatter.of_chains(x, one.replicates) + one.known
    return whole, missed, ends


@pytest.mark.parametrize("dense", [True, False])
def test_the_likelihood_of_curves_is_that_of_normal_numbers_whatever_their_lengths(mixed, dense):
    """Short curves are filled up, which must not count."""
    together = Neighbours(mixed, dense=dense)

    def by_hand(scatter):
        whole, missed, _ = joined(mixed, scatter, dense)
        return missed @ np.linalg.solve(whole, missed) / 2 + np.linalg.slogdet(whole)[1] / 2

    first, second = (
        Scatter(**{**SCATTER, "noise": noise}, knots=together.knots) for noise in (SCATTER["noise"], 0.1)
    )
    assert together.cost(second) - together.cost(first) == pytest.approx(
        by_hand(second) - by_hand(first), rel=1e-4
    )


@pytest.mark.parametrize("dense", [True, False])
def test_what_others_say_of_a_curve_is_what_their_rows_imply(mixed, dense):
    together = Neighbours(mixed, dense=dense)
    scatter = Scatter(**SCATTER, knots=together.knots)
    whole, missed, ends = joined(mixed, scatter, dense)
    others = together.seen(scatter)
    for index, own in enumerate(mixed):
        rows = np.arange(ends[index], ends[index + 1])
        rest = np.setdiff1d(np.arange(ends[-1]), rows)
        gain = np.linalg.solve(whole[np.ix_(rest, rest)], whole[np.ix_(rest, rows)]).T
        expected, coupled = others.of(index), scatter.coupled(own.log_density, own.slope)
        np.testing.assert_allclose(coupled @ expected.mean, gain @ missed[rest], atol=1e-4)
        implied = whole[np.ix_(rows, rows)] - gain @ whole[np.ix_(rest, rows)]
        noise = scatter.of_chains(own.log_density, own.replicates) + own.known
        alone = scatter.alone(own.log_density, own.log_density)
        np.testing.assert_allclose(
            coupled @ expected.covariance @ coupled.T + alone + noise, implied, atol=1e-4
        )
        # A configuration that is left out is told the same as one that is not there.
        fewer = Neighbours([one for one in mixed if one is not own], dense=dense)
        if np.array_equal(fewer.knots, together.knots):
            (elsewhere,) = fewer.seen(scatter).at(own.place[None])
            np.testing.assert_allclose(elsewhere.mean, expected.mean, atol=1e-4)
            np.testing.assert_allclose(elsewhere.covariance, expected.covariance, atol=1e-4)


@pytest.mark.parametrize("dense", [True, False])
def test_several_places_are_told_what_each_is_told_alone(mixed, dense):
    together = Neighbours(mixed, dense=dense)
    others = together.seen(Scatter(**SCATTER, knots=together.knots))
    places = np.array([[0.0, 0.4, 0.9], [0.0, 0.75, 0.75], [0.0, FAR, 0.0]])
    for place, told in zip(places, others.at(places), strict=True):
        (alone,) = others.at(place[None])
        np.testing.assert_allclose(told.mean, alone.mean)
        np.testing.assert_allclose(told.covariance, alone.covariance)
        np.testing.assert_allclose(told.covariance, told.covariance.T, atol=1e-12)
        assert np.linalg.eigvalsh(told.covariance).min() > 0
        if not dense:  # nothing is known of ε_np elsewhere
            assert told.mean[-1] == 0
            assert told.covariance[-1].tolist() == [*np.zeros(len(told.mean) - 1), 1]
    np.testing.assert_allclose(told.mean, 0, atol=1e-12)
    np.testing.assert_allclose(told.covariance, np.eye(len(told.mean)), atol=1e-12)


DECLINE = 0.15


@pytest.mark.parametrize("replicated", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_noise_that_declines_with_size_is_inferred(replicated, seed):
    """Its size is that of all rows together."""
    places = square(7)
    sizes = np.array([4 * place[1] for place in places])
    planted_noise = Scatter(
        noise=0.05, misfit=0.0, unpruned=0.0, decline=DECLINE, typical=float(sizes.mean())
    )
    curves = []
    for index, (place, size) in enumerate(zip(places, sizes, strict=True)):
        noise = float(planted_noise.noise_of(size))
        own = drawn(noise, 0.02, places=[place], seed=100 * seed + index)[0]
        curves.append(replace(own, log_weights=float(size)))
    rms = float(np.sqrt(np.mean(planted_noise.noise_of(sizes) ** 2)))
    found = inferred(curves, rms if replicated else None, None)
    assert found.decline == pytest.approx(DECLINE, abs=0.05)
    assert found.noise == pytest.approx(rms, rel=0.2)
    assert np.sqrt(np.mean(found.noise_of(sizes) ** 2)) == pytest.approx(found.noise, rel=1e-9)
    same = inferred([replace(one, log_weights=3.0) for one in curves], rms if replicated else None, None)
    assert same.decline == 0
    assert same.noise_of(1.0) == same.noise


def test_where_all_sizes_are_as_noisy_none_declines():
    curves = drawn(0.05, 0.02, unpruned=0.05, places=square(7), seed=1)
    found = inferred([replace(one, log_weights=4 * one.place[1]) for one in curves], None, None)
    assert abs(found.decline) < 0.03


def test_sizes_far_apart_know_nothing_of_one_another():
    curves = drawn(0.05, 0.1, unpruned=0.1)
    scatter = Scatter(**SCATTER, knots=knots_of(curves))
    expected = Neighbours(curves, dense=True).seen(scatter).of(3)
    np.testing.assert_allclose(expected.mean, 0, atol=1e-4)
    np.testing.assert_allclose(expected.covariance, np.eye(len(expected.mean)), atol=1e-4)


def test_a_lucky_chain_is_told_by_its_neighbours():
    """Of two curves that deviate alike, the one whose neighbours do so, too, is believed more."""
    x = -LEVEL * np.arange(LEVELS)
    low = -0.1 * onset(x)
    places, middle = square(3), 4
    scatter = Scatter(noise=0.05, misfit=0.1, unpruned=0.05, knots=knots_of([curve(low)]))
    expected = {}
    for name, around in (("lucky", np.zeros(LEVELS)), ("confirmed", low)):
        curves = [curve(low if i == middle else around, place=place) for i, place in enumerate(places)]
        told = Neighbours(curves, dense=True).seen(scatter).of(middle)
        expected[name] = scatter.coupled(x, np.zeros(LEVELS)) @ told.mean
    assert np.abs(expected["lucky"]).max() < 1e-6
    assert (expected["confirmed"][5:] < -0.05).all()


def test_the_best_of_many_sizes_keeps_what_it_promises():
    """The one of the lowest median is often a lucky one; its median says so, unless neighbours are not asked."""
    places, level, kept = square(6), 9, {"asked": [], "not asked": []}
    for seed in range(150):
        first, second = pair(0.04, 0.03, 0.04, places, seed=seed)
        scatter = Scatter(noise=0.04, misfit=0.03, unpruned=0.04, knots=knots_of(first))
        x = first[0].log_density[[level]]
        assert scatter.variance_alone(x) == pytest.approx(0, abs=1e-9)  # a knot, so medians need no more
        coupled = scatter.coupled(x, first[0].slope[[level]])[0]
        apart = [replace(one, place=FAR * np.full(3, i)) for i, one in enumerate(first)]
        for name, curves in (("asked", first), ("not asked", apart)):
            median = Neighbours(curves, dense=True).seen(scatter).mean @ coupled
            best = median.argmin()
            kept[name].append(second[best].deviation[level] <= median[best])
    assert np.mean(kept["asked"]) == pytest.approx(0.5, abs=0.08)
    assert np.mean(kept["not asked"]) < np.mean(kept["asked"])


def test_sizes_resemble_one_another_less_with_every_doubling():
    places = SIZE_LENGTH * np.array([[0.0, 0, 0], [0, 0.5, 0], [0, 0, -1], [0, 3, 4]])
    alike = resemblance(places, places)
    assert np.diag(alike) == pytest.approx(1)
    assert (np.diff(alike[0]) < 0).all()
    assert alike[0, 2] == pytest.approx((1 + np.sqrt(3)) * np.exp(-np.sqrt(3)))
    assert alike[0, 3] < 0.01
