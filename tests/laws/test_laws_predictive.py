"""What is predicted of new training runs: between law and measurement where there is one, else in more doubt."""

from dataclasses import replace

import numpy as np
import pytest
from planted import measured, planted

from prunecast.laws import fit, load
from prunecast.laws.fitted import Alternative
from prunecast.laws.predictive import DENSE_GROWTH, GROWTH, _by_configuration, average, predictive, query
from prunecast.laws.sizes import size_of
from prunecast.laws.support import doublings_outside
from prunecast.laws.validate import ABOUT_AS_LIKELY, LEAST_WEIGHT, law_weights, leading_law
from prunecast.table import CONFIGURATION, read

PLACE = ["depth", "width"]


def off_the_law(replicates, *, seed=1, noise=0.03):
    """Ten networks of which one errs by up to a fifth more than the law when it is pruned, and that one's place."""
    grid = {"configurations": 10, "num_examples": (50_000,), "correlation": 0.85}
    frame = planted(replicates=replicates, noise=noise, seed=seed, **grid)
    place = frame[PLACE].drop_duplicates().iloc[4]
    odd = (frame[PLACE] == place).all(axis=1) & (frame["level"] > 0)
    factor = np.where(odd, 1.2 ** (1 - frame["density"]), 1.0)
    return frame.assign(error=np.minimum(frame["error"] * factor, 1.0)), place.to_dict()


def by_law(result, density, unpruned_error, *, num_examples=5e4, **place):
    """log ε̂ of the laws alone, without what they miss of measured curves."""
    inputs = {"density": np.asarray(density, dtype=float), **place, "num_examples": num_examples}
    rows = {name: np.broadcast_to(value, np.shape(density)) for name, value in inputs.items()}
    return average(result, query(result, rows, np.full(np.shape(density), unpruned_error))).log_error


def at_place(result, place):
    """The index of the configuration there, its measured rows, and what law and prediction say of them."""
    index = next(i for i, c in enumerate(result.configurations) if {n: getattr(c, n) for n in PLACE} == place)
    own = result.configurations[index]
    density, error, _ = np.array(own.curve).T
    law = by_law(result, density, own.unpruned_error, **place)
    return index, density, np.log(error), law, np.log(result.predict(density, **place).error)


@pytest.fixture(scope="module")
def odd():
    """Fits by the number of replicates, and the place of the network that is off the law."""
    found = {count: off_the_law(count) for count in (1, 4, 100)}
    return {count: (fit(read(frame), law="eq2"), place) for count, (frame, place) in found.items()}


@pytest.fixture(scope="module")
def averaged(shipped):
    """A fit whose predictions are averages over several laws."""
    result = fit(shipped)
    assert result.alternatives
    return result


@pytest.fixture(scope="module")
def others(averaged, shipped):
    """The laws that are averaged over, each fitted alone."""
    return {one.law: fit(shipped, law=one.law) for one in averaged.alternatives}


@pytest.fixture(scope="module")
def bare(odd):
    """A fit without doubt about its parameters."""
    return without_doubt(odd[1][0])


def without_doubt(result):
    certain = {"draws": result.spread.centre[None], "possible": np.zeros((0, 0)), "open_slope": 0.0}
    return replace(result, spread=replace(result.spread, **certain), alternatives=())


def test_at_measured_densities_the_median_lies_between_law_and_measurement(odd):
    _, _, error, law, median = at_place(*odd[1])
    far = np.abs(error - law) > 0.08  # nearer ones may lie on either side of both, as their neighbours say
    share = (median - law)[far] / (error - law)[far]
    assert far.sum() > 10
    assert ((share > 0.3) & (share < 1)).all()
    assert np.sqrt(np.mean((median - error) ** 2)) < 0.5 * np.sqrt(np.mean((law - error) ** 2))


def test_with_more_replicates_it_approaches_the_measurement(odd):
    missed = {}
    for count, (result, place) in odd.items():
        _, _, error, law, median = at_place(result, place)
        missed[count] = np.sqrt(np.mean((median - error) ** 2) / np.mean((law - error) ** 2))
    assert missed[1] > missed[4] > missed[100]
    assert missed[100] < 0.03


def test_at_measured_sizes_a_new_run_is_never_surer_than_its_noise(odd, averaged):
    results = [*(result for result, _ in odd.values()), averaged]
    for result in results:
        own = predictive(result)
        for index, c in enumerate(result.configurations):
            density = np.geomspace(c.lowest_density / 4, 1.0, 40)
            _, variance = own.at(index, density)
            assert (variance >= own.scatter.noise_of(np.log(c.weights)) ** 2).all()
    result, place = odd[100]
    own, (index, density, *_) = predictive(result), at_place(result, place)
    _, variance = own.at(index, density)
    noise = own.scatter.noise_of(np.log(result.configurations[index].weights))
    np.testing.assert_allclose(np.sqrt(variance), noise, rtol=0.02)  # many replicates leave only that


def test_the_unpruned_network_counts_as_measured_where_it_has_no_row():
    frame = planted(configurations=6, num_examples=(50_000,), seed=1)
    first = frame[frame["level"] == 0].set_index(list(CONFIGURATION))["error"]
    stated = frame.join(first.rename("unpruned_error"), on=list(CONFIGURATION))
    result = fit(read(stated[stated["level"] > 0]), law="eq2")
    own, c = predictive(result), result.configurations[0]
    assert min(row[0] for row in c.curve) < max(row[0] for row in c.curve) < 1
    median, _ = own.at(0, np.array([1.0]))
    curve, _ = own._measured(0)
    assert curve.log_density[0] == 0
    assert len(curve.deviation) == len(c.curve) + 1
    assert median[0] == pytest.approx(np.log(c.unpruned_error), abs=0.1)


def test_rows_of_every_replicate_count_as_chains_of_their_own():
    """They were taken for levels of one chain, which have most of their noise in common."""
    frame = planted(configurations=8, num_examples=(50_000,), replicates=4, correlation=0.85, seed=2)
    means, each = (fit(read(frame), law="eq2", replicates=own) for own in ("mean", "each"))
    assert len(each.configurations[3].curve) == 4 * len(means.configurations[3].curve)
    density = np.array([1.0, 0.1, 0.02])
    (median, variance), (own_median, own_variance) = (predictive(one).at(3, density) for one in (means, each))
    np.testing.assert_allclose(own_median, median, atol=0.01)
    np.testing.assert_allclose(own_variance, variance, rtol=0.05)


def test_far_below_the_measured_densities_it_is_the_law_again(bare):
    own, c = predictive(bare), bare.configurations[0]
    far = np.array([c.lowest_density * 0.8**60])
    median, variance = own.at(0, far)
    law = by_law(bare, far, c.unpruned_error, depth=c.depth, width=c.width)
    assert median == pytest.approx(law, abs=1e-3)
    noise = own.scatter.noise_of(np.log(c.weights))
    assert variance == pytest.approx(own.scatter.misfit**2 + noise**2, rel=1e-3)


def test_medians_alone_are_the_same(averaged):
    own, inputs = (
        predictive(averaged),
        {"density": np.array([1.0, 0.3, 0.03, 0.1]), "depth": np.full(4, 20.0)},
    )
    inputs |= {"width": np.array([0.5, 0.5, 1.0, 0.75]), "num_examples": np.full(4, 50_000.0)}
    points, at = query(averaged, inputs, np.array([0.1, 0.1, 0.09, 0.1])), np.array([3, 3, 4, -1])
    assert averaged.configurations[3].width == 0.5
    np.testing.assert_allclose(own.median(points, at), own.of(points, at, np.zeros(4)).log_error, rtol=1e-12)


# Distance from what was measured


def doublings(measured_places, *asked):
    places = {
        name: np.array(own, dtype=float)
        for name, own in zip(CONFIGURATION, zip(*asked, strict=True), strict=True)
    }
    return doublings_outside(measured(measured_places), places)


SQUARE = [(20, width, n) for width in (1, 2, 4) for n in (1000, 4000)]


def test_distances_are_doublings_beyond_the_last_size():
    inside = [(20, 1, 1000), (20, 3, 2000), (20, 4, 4000)]
    assert doublings(SQUARE, *inside).tolist() == [0, 0, 0]
    assert doublings(SQUARE, (20, 8, 2000), (20, 0.25, 1000), (20, 2, 500)) == pytest.approx([1, 2, 1])
    assert doublings(SQUARE, (40, 2, 2000), (5, 2, 2000)) == pytest.approx([1, 2])
    # Beyond two axes at once both count: 3 and 4 doublings are 5.
    assert doublings(SQUARE, (20, 4 * 2**3, 4000 * 2**4)) == pytest.approx(5)


def test_distances_know_gaps_between_two_axes():
    """Shallow networks saw few examples only: a shallow one with many is outside, yet within the range of each axis."""
    corner = [(10, 1, 1000), (20, 1, 1000), (20, 1, 4000)]
    assert doublings(corner, (10, 1, 4000), (20, 1, 2000), (10, 1, 1000)) == pytest.approx([1, 0, 0])
    # From (5, 4000) it is two doublings of depth to (20, 4000), and more to (10, 1000).
    assert doublings(corner, (5, 1, 4000)) == pytest.approx(2)
    # From (10, 1414) half a doubling of examples to (10, 1000) is less than the doubling of depth to (20, 4000).
    assert doublings(corner, (10, 1, 1000 * np.sqrt(2))) == pytest.approx(0.5)


def test_the_spread_grows_with_the_distance(bare):
    """Far from all that was measured it is misfit, noise, and so much of the usual deviation with every doubling."""
    width = max(c.width for c in bare.configurations if c.depth == 20)
    places = {
        "depth": np.full(12, 20.0),
        "width": width * 2.0 ** np.arange(12),
        "num_examples": np.full(12, 5e4),
    }
    away = doublings_outside(bare, places)
    assert away[0] == 0
    np.testing.assert_allclose(np.diff(away[-3:]), 1)
    points = query(bare, {"density": np.full(12, 0.05), **places}, np.full(12, 0.1))
    own, known = predictive(bare), np.zeros(12)
    found, scatter = own.of(points, np.full(12, -1), known), own.scatter
    assert (np.diff(found.spread) > 0).all()
    np.testing.assert_array_equal(found.below, found.spread)
    usual = max(bare.spread.run, bare.held_out["eq2"])
    alone = scatter.noise_of(np.log(points.weights)) ** 2 + scatter.variance_of_law(np.log(points.density))
    expected = np.sqrt(alone + (GROWTH * away * usual) ** 2)
    np.testing.assert_allclose(found.spread[8:], expected[8:], rtol=1e-3)
    assert (found.spread[:4] < expected[:4]).all()  # similar sizes were measured
    np.testing.assert_allclose(
        found.log_error[8:], by_law(bare, points.density, 0.1, **places)[8:], atol=1e-3
    )
    dense = bare.dense.predict(points.weights, points.num_examples, points.depth)
    unpruned, std = own.unpruned(dense, np.stack([places[name] for name in CONFIGURATION], axis=1))
    np.testing.assert_allclose(unpruned[8:], dense[8:], rtol=1e-3)
    expected = np.hypot(scatter.unpruned, DENSE_GROWTH * away * bare.dense.deviation)
    np.testing.assert_allclose(std[8:], expected[8:], rtol=1e-3)
    assert (std[:4] < expected[:4]).all()


MISSED = 0.2


@pytest.fixture(scope="module", params=range(3))
def left_out(request):
    """A law that misses similar sizes alike, and rows of two of them left out of its fit."""
    frame = planted(
        configurations=40, num_examples=(50_000,), noise=0.03, correlation=0.85, seed=request.param
    )
    doublings = np.log2(frame["width"]) + np.log2(frame["depth"])
    factor = np.exp(MISSED * (1 - frame["density"]) * np.sin(doublings * np.pi / 4))
    frame = frame.assign(error=np.minimum(frame["error"] * factor, 1.0))
    sizes = frame[PLACE].drop_duplicates().sort_values(PLACE).iloc[10:30:5]
    out = frame[PLACE].apply(tuple, axis=1).isin(set(sizes.itertuples(index=False, name=None)))
    return fit(read(frame[~out]), law="eq2"), frame[out]


def test_sizes_left_out_are_predicted_as_similar_ones_deviate(left_out):
    """Their runs fall in the interval. Where their unpruned error is given, the law alone answers."""
    result, rows = left_out
    missed, alone, inside = [], [], []
    for (depth, width), chain in rows.groupby(PLACE):
        own, place = chain[chain["level"] > 0], {"depth": depth, "width": width}
        density, error = own["density"].to_numpy(), own["error"].to_numpy()
        found = result.predict(density, **place)
        missed.append(np.log(found.error / error))
        size = size_of(result, np.array([depth]), np.array([width]))
        dense = result.dense.predict(size, np.array([5e4]), np.array([depth]))[0]
        alone.append(by_law(result, density, dense, **place) - np.log(error))
        inside.append((found.lower <= error) & (error <= found.upper))
        given = chain.loc[chain["level"] == 0, "error"].iloc[0]
        told = result.predict(density, unpruned_error=given, **place).error
        np.testing.assert_allclose(np.log(told), by_law(result, density, given, **place), rtol=1e-9)
    missed, alone = (np.sqrt(np.mean(np.concatenate(own) ** 2)) for own in (missed, alone))
    assert missed < 0.75 * alone
    assert np.concatenate(inside).mean() > 0.9


def test_predictions_between_sizes_pass_over_into_those_at_measured_ones(averaged):
    """All but what the one chain itself has shown, which says less of a network the less its neighbours confirm it."""
    own = next(c for c in averaged.configurations if c.width == 0.5)
    density, place = np.geomspace(0.02, 0.5, 6), {"depth": own.depth, "num_examples": own.num_examples}
    there, near, far = (averaged.predict(density, width=0.5 * by, **place).error for by in (1, 1 + 1e-4, 1.4))
    assert np.abs(np.log(near / there)).max() < 0.03
    assert np.abs(np.log(near / there)).max() < np.abs(np.log(far / there)).max()


def test_intervals_outside_are_wider_both_for_the_law_and_for_the_dense_law(averaged):
    widths = np.array([2.0, 4.0, 8.0])
    for unpruned in ({"unpruned_error": 0.08}, {}):
        found = averaged.predict(0.05, width=widths, **unpruned)
        assert (np.diff(np.log(found.upper / found.lower)) > 0).all()
        assert found.extrapolated.all()


# Curves that do not show how they rise


@pytest.mark.parametrize(
    ("name", "levels"),
    [("cifar10-vgg-8ep", 10), ("cifar10-vgg-8ep", 20), ("svhn-resnet-8ep", 9), ("svhn-resnet-8ep", 14)],
)
def test_a_curve_cut_on_its_low_plateau_leaves_its_rise_open(name, levels):
    """What the whole curve measured lies within the interval of the part, which hardly shows any rise."""
    table = read(name)
    frame = table.frame.sort_values("density", ascending=False)
    part, rest = frame[:levels], frame[levels:]
    assert part["error"].max() == part["error"].iloc[0]
    result = fit(read(part, chance=table.chance))
    assert result.undetermined == ("high_error", "gamma", "p")
    assert result.spread.open_slope > 0
    found = result.predict(rest["density"].to_numpy())
    assert (found.upper >= rest["error"]).all()
    assert (found.lower <= rest["error"]).all()
    assert found.upper[-1] == 1
    assert found.upper[0] < 2 * rest["error"].iloc[0]  # the next level is not in as much doubt
    # Only upwards: errors fall no faster than the noise.
    below, above = np.log(found.error / found.lower), np.log(found.upper / found.error)
    assert (above > below)[found.upper < 1].all()


def test_where_the_rise_was_measured_it_is_not_open(averaged, others):
    for result in (averaged, others["eq2"]):
        assert result.spread.open_slope == 0
        assert not len(result.spread.possible)


def test_predictions_reach_what_fits_about_as_well():
    """Of parameters that the data do not determine every possible set is within the interval."""
    result = fit(read("cifar10-vgg"))
    assert result.undetermined
    own, form, density = result.configurations[0], result.form(), np.geomspace(0.002, 1, 30)
    inputs = {"density": density, **{name: np.full(30, getattr(own, name)) for name in CONFIGURATION}}
    points = query(result, inputs, np.full(30, own.unpruned_error))
    apart = form.log_error(result.spread.possible, points) - form.log_error(result.theta()[None], points)
    found = result.predict(density)
    above, below = np.log(found.upper / found.error), np.log(found.error / found.lower)
    assert np.abs(apart).max() > 0.3
    assert (above >= np.minimum(np.abs(apart).max(axis=0), -np.log(found.error)) - 1e-9).all()
    assert (below >= np.abs(apart).max(axis=0) - 1e-9).all()


# Laws that the data cannot distinguish


def test_weights_are_shares_of_the_likelihood():
    rms = {"eq2": 0.04, "dip": 0.038, "sharp": 0.05, "sharp-dip": 0.08}
    weights = law_weights(rms, 10)
    assert list(weights) == ["eq2", "dip", "sharp"]
    assert sum(weights.values()) == pytest.approx(1)
    assert weights["eq2"] / weights["dip"] == pytest.approx((0.038 / 0.04) ** 10)
    assert min(weights.values()) >= LEAST_WEIGHT
    # More configurations tell more.
    assert law_weights(rms, 100)["dip"] > 0.98
    assert law_weights({}, 10) == {}
    assert law_weights({"eq2": 0.0, "dip": 1e-12}, 10) == {"eq2": 0.5, "dip": 0.5}


def test_the_simplest_of_the_likely_laws_leads():
    for share, leading in ((1.1 * ABOUT_AS_LIKELY, "eq2"), (0.9 * ABOUT_AS_LIKELY, "dip")):
        assert leading_law({"eq2": share / (1 + share), "dip": 1 / (1 + share)}) == leading
    assert leading_law({}) == "eq2"


def test_the_weights_of_a_fit_leave_room_for_the_law_that_leads(averaged):
    shares = law_weights(averaged.held_out, len(averaged.configurations))
    assert sum(shares.values()) == pytest.approx(1)
    assert shares.pop(averaged.law) == pytest.approx(1 - sum(one.weight for one in averaged.alternatives))
    assert {one.law: one.weight for one in averaged.alternatives} == pytest.approx(shares)


ASKED = {"density": np.array([0.5, 0.1, 0.03]), "width": 0.75, "unpruned_error": 0.1}


def test_predictions_are_the_weighted_mean_of_the_laws(averaged, others):
    weights, asked = [one.weight for one in averaged.alternatives], {**ASKED, "depth": 20.0}
    laws = [replace(averaged, alternatives=()), *others.values()]
    values, shares = np.array([by_law(law, **asked) for law in laws]), [1 - sum(weights), *weights]
    mean = np.average(values, axis=0, weights=shares)
    np.testing.assert_allclose(by_law(averaged, **asked), mean, rtol=1e-6)
    assert np.abs(mean - values[0]).max() > 1e-3
    # Their disagreement is doubt: the variance among them, by their weights.
    places = {"density": ASKED["density"], "depth": np.full(3, 20.0), "width": np.full(3, 0.75)}
    rows = average(averaged, query(averaged, {**places, "num_examples": np.full(3, 5e4)}, np.full(3, 0.1)))
    variance = np.average((values - mean) ** 2, axis=0, weights=shares)
    np.testing.assert_allclose((rows.doubt**2).sum(axis=0), variance, rtol=1e-4)


def test_predictions_do_not_depend_on_the_law_that_leads(averaged, others):
    """Data that differ a little may have another leading law; what is predicted must not jump with it."""
    leading = 1 - sum(one.weight for one in averaged.alternatives)
    first = Alternative(law=averaged.law, axes=averaged.axes, parameters=averaged.parameters, weight=leading)
    for law, other in others.items():
        rest = tuple(one for one in averaged.alternatives if one.law != law)
        swapped = replace(other, alternatives=(first, *rest))
        place = {**ASKED, "depth": 20.0}
        np.testing.assert_allclose(by_law(swapped, **place), by_law(averaged, **place), rtol=1e-6)
        # What measured rows say of the misfit depends a little on the doubt about the parameters of the one that leads.
        np.testing.assert_allclose(swapped.predict(**ASKED).error, averaged.predict(**ASKED).error, rtol=1e-3)
    alone = replace(averaged, alternatives=()).predict(**ASKED).error
    assert any(np.abs(np.log(one.predict(**ASKED).error / alone)).max() > 0.01 for one in others.values())


def test_a_law_that_was_saved_predicts_the_same(averaged, tmp_path):
    averaged.save(tmp_path / "law.json")
    again = load(tmp_path / "law.json")
    assert again.alternatives == averaged.alternatives
    density = np.geomspace(0.005, 1, 12)
    for asked in ({"width": 0.5}, {"width": 0.75}, {"width": 3.0}, {"width": 0.75, "unpruned_error": 0.1}):
        ours, theirs = (one.predict(density, **asked) for one in (averaged, again))
        np.testing.assert_allclose(theirs.error, ours.error, rtol=1e-5)
        np.testing.assert_allclose(theirs.lower, ours.lower, rtol=1e-4)
        np.testing.assert_allclose(theirs.upper, ours.upper, rtol=1e-4)


def test_rows_are_grouped_by_their_configuration_in_order():
    own = np.array([2, -1, 0, 2, 0, -1, 5])
    assert [(index, rows.tolist()) for index, rows in _by_configuration(own)] == [
        (0, [2, 4]),
        (2, [0, 3]),
        (5, [6]),
    ]
    assert list(_by_configuration(np.array([-1, -1]))) == []
    assert list(_by_configuration(np.zeros(0, dtype=np.int64))) == []
