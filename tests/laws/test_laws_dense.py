import numpy as np
import pytest
from planted import planted

from prunecast.laws import fit_dense, measured
from prunecast.laws.dense import unpruned_rows
from prunecast.table import read


def points_of(**options):
    return measured(read(planted(**options))).points


@pytest.mark.parametrize("chance", [0.9, None])
def test_planted_unpruned_errors_are_recovered(chance):
    law = fit_dense(points_of(configurations=60, noise=0.0), chance)
    new = points_of(configurations=60, noise=0.0, seed=9)
    np.testing.assert_allclose(law.predict(new.weights, new.num_examples), new.unpruned, rtol=1e-3)
    assert law.deviation < 1e-3
    assert law.configurations == 60


def test_its_deviation_is_that_of_configurations_it_has_not_seen():
    points = points_of(configurations=40, noise=0.034)
    law = fit_dense(points, 0.9)
    new = points_of(configurations=100, noise=0.034, seed=9)
    missed = law.predict(new.weights, new.num_examples) / new.unpruned - 1
    assert law.deviation == pytest.approx(np.sqrt((missed**2).mean()), rel=0.35)
    assert 0.034 * 0.8 < law.deviation < 0.034 * 1.6


def test_terms_that_nothing_varies_are_left_out():
    law = fit_dense(points_of(configurations=12, num_examples=(50_000,), noise=0.0), 0.9)
    assert law.parameters["a"] == 0
    assert law.parameters["ceiling"] == 0.9
    assert law.free == 3
    several = fit_dense(points_of(configurations=20, noise=0.0), None)
    assert several.free == 6


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
