import numpy as np
import pytest
from planted import planted

from prunecast.laws import REGIONS, Deviation, deviation, fit, measured, region
from prunecast.table import read


@pytest.mark.parametrize("noise", [0.01, 0.034, 0.1])
def test_the_noise_floor_is_the_planted_noise(noise):
    table = read(planted(replicates=3, noise=noise, configurations=60, seed=1))
    result = fit(table)
    assert result.noise_floor.replicate == pytest.approx(noise, rel=0.05)
    # The law is right, so what it misses is the floor and nothing else.
    assert result.deviation.std == pytest.approx(result.noise_floor.fit, rel=0.1)
    each = fit(table, replicates="each")
    assert each.noise_floor.replicate == pytest.approx(noise, rel=0.05)
    assert each.noise_floor.fit > result.noise_floor.fit
    assert each.rows == 3 * result.rows


def test_the_noise_of_a_known_group():
    frame = planted(configurations=3, replicates=2, noise=0.0)
    frame["error"] *= np.where(frame["replicate"] == 1, 0.98, 1.02)
    # Two replicates at 1 ± 0.02 have a standard deviation (ddof 1) of 0.02·√2.
    assert measured(read(frame)).noise == pytest.approx(0.02 * np.sqrt(2), rel=1e-9)


def test_no_floor_without_replicates():
    assert fit(read(planted(configurations=5))).noise_floor is None


def test_replicates_that_fell_to_chance_are_counted():
    frame = planted(configurations=5, replicates=3, seed=1).assign(dataset="cifar10")
    last = frame["level"] == frame.groupby(["depth", "width", "num_examples"])["level"].transform("max")
    frame.loc[last & (frame["replicate"] == 2), "error"] = 0.9
    data = measured(read(frame))
    assert data.at_chance == 5
    assert sorted(np.unique(data.points.replicates)) == [2, 3]
    assert (data.points.replicates == 2).sum() == 5


def test_regions_have_the_stated_edges():
    log_unpruned, log_high = np.log(0.1), np.log(0.8)
    errors = np.array([0.1, 0.1099, 0.1101, 0.3, 0.7199, 0.7201, 0.8])
    found = region(np.log(errors), np.full(7, log_unpruned), log_high)
    assert [REGIONS[i] for i in found] == ["low plateau"] * 2 + ["power law"] * 3 + ["high plateau"] * 2


def test_deviation_of_known_numbers():
    own = deviation(np.array([0.1, -0.1, 0.3, 0.1]))
    assert (own.mean, own.std, own.rows) == pytest.approx((0.1, np.sqrt(0.02), 4))
    assert own.rms == pytest.approx(np.sqrt(0.03))


def test_parts_add_up_to_the_whole():
    result = fit(read(planted(configurations=20, replicates=2, seed=2)))
    for parts in (result.regions.values(), [c.deviation for c in result.configurations]):
        assert sum(part.rows for part in parts) == result.rows
        mean = sum(part.rows * part.mean for part in parts) / result.rows
        square = sum(part.rows * part.rms**2 for part in parts) / result.rows
        assert mean == pytest.approx(result.deviation.mean, abs=1e-12)
        assert square == pytest.approx(result.deviation.rms**2, rel=1e-12)


def test_a_deviation_prints_in_percent():
    assert str(Deviation(mean=0.0088, std=0.0347, rows=1417)) == "+0.9% ± 3.5%"
    assert str(deviation(np.array([-0.02]))) == "-2.0% ± 0.0%"
    assert str(deviation(np.array([]))) == "no rows"
