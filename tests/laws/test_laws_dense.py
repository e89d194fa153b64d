from dataclasses import replace

import numpy as np
import pytest
from planted import planted

from prunecast.laws import fit_dense, measured
from prunecast.laws.dense import DELTAS, unpruned_rows
from prunecast.table import read


def asked(law, points):
    """What a law says of the unpruned networks of points."""
    return law.predict(points.weights, points.num_examples, points.depth)


def points_of(**options):
    return measured(read(planted(**options))).points


@pytest.mark.parametrize("chance", [0.9, None])
def test_planted_unpruned_errors_are_recovered(chance):
    law = fit_dense(points_of(configurations=60, noise=0.0), chance)
    new = points_of(configurations=60, noise=0.0, seed=9)
    np.testing.assert_allclose(asked(law, new), new.unpruned, rtol=1e-3)
    assert law.deviation < 1e-3
    assert law.configurations == 60


def test_its_deviation_is_that_of_configurations_it_has_not_seen():
    points = points_of(configurations=40, noise=0.034)
    law = fit_dense(points, 0.9)
    new = points_of(configurations=100, noise=0.034, seed=9)
    missed = asked(law, new) / new.unpruned - 1
    assert law.deviation == pytest.approx(np.sqrt((missed**2).mean()), rel=0.35)
    assert 0.034 * 0.8 < law.deviation < 0.034 * 1.6


def test_terms_that_nothing_varies_are_left_out():
    law = fit_dense(points_of(configurations=12, num_examples=(50_000,), noise=0.0), 0.9)
    assert law.parameters["a"] == 0
    assert law.parameters["ceiling"] == 0.9
    assert law.free == 4
    several = fit_dense(points_of(configurations=20, noise=0.0), None)
    assert several.free == 7
    for axis in ({"depths": (20,)}, {"widths": (1.0,)}):  # depth and size are then one
        same = fit_dense(points_of(configurations=7, num_examples=(50_000,), **axis), 0.9)
        assert same is None or (same.free == 3 and same.parameters["delta"] == 0)


def with_depth(points, delta, *, noise=0.0, seed=0):
    """The same networks, whose weights count as M·l^δ."""
    plain = fit_dense(points_of(configurations=60, noise=0.0), 0.9)
    law = replace(plain, parameters={**plain.parameters, "delta": delta})
    scale = np.exp(noise * np.random.default_rng(seed).standard_normal(points.configurations))
    unpruned = law.predict(points.weights, points.num_examples, points.depth / 20)
    return replace(points, unpruned=unpruned * scale)


@pytest.mark.parametrize("delta", [-1.5, -0.5, 0.0, 0.5])
def test_what_depth_does_beyond_the_number_of_weights_is_recovered(delta):
    fitted, new = points_of(configurations=40), points_of(configurations=60, seed=9)
    law = fit_dense(with_depth(fitted, delta), 0.9)
    assert law.parameters["delta"] == pytest.approx(delta, abs=0.01)
    noisy = fit_dense(with_depth(fitted, delta, noise=0.03), 0.9)
    assert noisy.parameters["delta"] == pytest.approx(delta, abs=0.3)
    assert noisy.deviation < 0.045
    truth = with_depth(new, delta).unpruned
    assert np.abs(np.log(asked(noisy, new) / truth)).max() < 0.15


def test_few_noisy_configurations_hardly_show_a_part_of_depth():
    """By least squares alone, δ would scatter by 1 and more between such tables."""
    found = []
    for seed in range(12):
        points = with_depth(points_of(configurations=9, seed=seed), 0.0, noise=0.05, seed=seed)
        law = fit_dense(points, 0.9)
        found.append(law.parameters["delta"])
    assert np.abs(found).max() <= DELTAS[1]
    assert np.sqrt(np.mean(np.square(found))) < 0.6


def test_it_extrapolates_between_nothing_and_chance():
    points = with_depth(points_of(configurations=30), -1.5, noise=0.03)
    law = fit_dense(points, 0.9)
    for depth in np.geomspace(1, 10_000, 20):
        errors = law.predict(np.geomspace(10, 1e12, 30), np.array(5e4), np.array(depth))
        assert (np.diff(errors) <= 0).all()
        assert ((errors > 0) & (errors <= 0.9)).all()


@pytest.mark.parametrize(
    "options",
    [
        {"configurations": 4, "num_examples": (50_000,)},
        {"configurations": 6},
        {"configurations": 7, "depths": (20,), "widths": (1.0,)},
    ],
    ids=["few", "few-with-sizes", "one-network"],
)
def test_none_where_there_is_too_little(options):
    assert fit_dense(points_of(**options), 0.9) is None


def test_one_row_per_configuration():
    points = points_of(configurations=5)
    rows = unpruned_rows(points)
    assert len(rows) == 5
    np.testing.assert_array_equal(rows.error, points.unpruned)
    assert (rows.density == 1).all()
