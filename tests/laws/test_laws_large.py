"""Tables of many configurations: the time of a fit is linear in them, and shortcuts end where the long way does."""

import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from planted import TRUTH, measured, planted

from prunecast.choice import choose
from prunecast.laws import fit, intervals, solver
from prunecast.laws.deviations import by_group, deviation
from prunecast.laws.predictive import MOST_ROWS, predictive
from prunecast.laws.scatter import MOST_CURVES
from prunecast.laws.support import AXES, measured_at
from prunecast.table import read


def large(configurations, levels=(0, 6, 12, 18)):
    depths, widths = range(8, 48), np.geomspace(1 / 16, 4, 20)
    frame = planted(
        configurations=configurations, depths=depths, widths=widths, num_examples=range(2000, 52000, 5000)
    )
    return frame[frame["level"].isin(levels)]


@pytest.mark.slow
def test_time_is_linear_in_configurations():
    """The dense law was fitted once per configuration, and every configuration looked through all rows."""
    seconds = {}
    for count in (100, 1500, 7500):
        table = read(large(count))
        start = time.process_time()
        law = fit(table)
        choose(law, target_error=0.3)
        seconds[count] = time.process_time() - start
        assert len(law.configurations) == count
    assert seconds[7500] < 9 * seconds[1500]


def test_a_large_table_is_fitted_as_a_small_one(monkeypatch):
    table = read(large(600))
    whole = fit(table)
    for module in (solver, intervals):
        monkeypatch.setattr(module, "MANY_ROWS", 500)
    part = fit(table)
    for name, value in whole.parameters.items():
        assert part.parameters[name] == pytest.approx(value, rel=1e-5)
        assert value == pytest.approx(TRUTH[name], rel=0.2)
        for one, other in zip(part.intervals[name], whole.intervals[name], strict=True):
            assert one == pytest.approx(other, rel=0.01)
    assert part.dense.deviation == pytest.approx(whole.dense.deviation, rel=0.02)


def test_of_many_configurations_those_that_inform_others_are_of_all_sizes():
    """Every second of them, in the order of depth, width and examples, has two of four numbers of examples."""
    sizes = {
        "depths": range(8, 13),
        "widths": np.geomspace(1 / 4, 4, 8),
        "num_examples": range(8000, 40000, 8000),
    }
    frame = planted(configurations=160, **sizes)
    own = predictive(fit(read(frame[frame["level"].isin((0, 6, 12, 18))]), law="eq2"))
    informing = np.stack([curve.place for curve in own._informing])
    assert len(informing) == MOST_CURVES < len(own.fit.configurations)
    for column, axis in zip(informing.T, AXES, strict=True):
        counts = np.unique(np.round(column, 9), return_counts=True)[1]
        assert len(counts) == frame[axis].nunique()
        assert counts.min() > 0.6 * counts.max()
    for index in (0, 50, 159):  # whether it is among them or not
        expected = own._expected(index)
        assert np.isfinite(expected.mean).all()
        assert (np.linalg.eigvalsh(expected.covariance) > 0).all()


def test_groups_are_judged_as_if_each_were_picked_out():
    rng = np.random.default_rng(0)
    delta, group = rng.normal(size=200), rng.integers(0, 7, 200)
    group[group == 3] = 4
    for index, found in enumerate(by_group(delta, group, 9)):
        alone = deviation(delta[group == index])
        assert found.rows == alone.rows
        np.testing.assert_equal((found.mean, found.std), (alone.mean, alone.std))


def test_measured_configurations_are_found_by_their_sizes():
    rng = np.random.default_rng(1)
    sizes = rng.permutation(
        np.array([(d, w, n) for d in (8, 14, 20) for w in (0.25, 1, 2) for n in (1, 50_000)])
    )[:15]
    places = np.vstack([sizes * (1 + 1e-7), sizes * 1.01, [[20, 1, 3]], [[1e9, 1e-9, 1]]])
    found = measured_at(measured(sizes), places)
    assert found.tolist() == [*range(15), *[-1] * 17]
    assert measured_at(measured(sizes[:1]), sizes[:3]).tolist() == [0, -1, -1]


def test_a_curve_of_very_many_densities_says_what_some_of_them_say():
    """The covariance of 3,000 rows takes 72 MB and its root minutes for all curves; the time is linear in them."""
    frame = planted(configurations=6, num_examples=(50_000,), depths=(20,), seed=3)
    result = fit(read(frame), law="eq2")
    c = result.configurations[2]
    density, error, _ = np.array(c.curve).T
    fine = np.geomspace(1, c.lowest_density, 3000)
    curve = np.exp(np.interp(-np.log(fine), -np.log(density), np.log(error)))
    many = replace(c, curve=tuple((d, e, 1.0) for d, e in zip(fine.tolist(), curve.tolist(), strict=True)))
    configurations = tuple(many if one is c else one for one in result.configurations)
    own, finer = predictive(result), predictive(replace(result, configurations=configurations))
    asked = np.geomspace(1, c.lowest_density, 7)
    (median, variance), (fine_median, fine_variance) = own.at(2, asked), finer.at(2, asked)
    np.testing.assert_allclose(fine_median, median, atol=0.02)
    np.testing.assert_allclose(fine_variance, variance, rtol=0.3)
    assert len(finer._measured(2)[0].deviation) == MOST_ROWS


def test_many_predictions_take_little_memory():
    """All draws of the parameters were kept for all rows at once: 3 kB a row, so a million rows took all memory."""
    result = fit(read(planted(configurations=8, num_examples=(50_000,), seed=3)), law="eq2")
    c, count = result.configurations[0], 40_000
    density = np.geomspace(0.001, 1, count)
    few = density[:: count // 50]
    for width in (c.width, 1.1 * c.width):
        asked = {"depth": c.depth, "width": width, "unpruned_error": 0.1 if width > c.width else None}
        tracemalloc.start()
        found = result.predict(density, **asked)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1000 * count
        alone = result.predict(few, **asked)
        for name in ("error", "lower", "upper"):
            np.testing.assert_allclose(getattr(found, name)[:: count // 50], getattr(alone, name), rtol=1e-12)
