"""A quick look at the coverage of 95% intervals; `benchmarks/coverage.py` has the full numbers."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from planted import TRUTH, planted

from prunecast.laws import fit, fitting
from prunecast.laws.findings import FlatProfile
from prunecast.table import CONFIGURATION, read

SIMULATIONS = 60
NEW = {"depths": (32,), "widths": (0.35,), "num_examples": (30_000,)}


@pytest.mark.slow
def test_intervals_hold_the_truth_about_as_often_as_they_say():
    inside = defaultdict(list)
    for seed in range(SIMULATIONS):
        result = fit(read(planted(configurations=30, seed=1000 + seed)), law="eq2")
        for name, (low, high) in result.intervals.items():
            inside[name].append(low <= TRUTH[name] <= high)
        new = planted(configurations=1, seed=5000 + seed, **NEW)
        pruned = new[new["level"] > 0]
        measured = new["error"].iloc[0]
        asked = {name: pruned[name].to_numpy() for name in CONFIGURATION}
        found = result.predict(pruned["density"].to_numpy(), unpruned_error=measured, **asked)
        inside["predictions"].extend((found.lower <= pruned["error"]) & (pruned["error"] <= found.upper))
    assert set(inside) == {*TRUTH, "predictions"}
    for name, hits in inside.items():
        assert 0.85 <= np.mean(hits) <= 1.0, (name, np.mean(hits))
    # Intervals that hold everything would be useless: over all parameters some must miss.
    assert np.mean([hit for name in TRUTH for hit in inside[name]]) < 1


def test_intervals_shrink_with_data():
    widths = {}
    for configurations in (30, 150):
        low, high = fit(read(planted(configurations=configurations, seed=1)), law="eq2").interval("gamma")
        widths[configurations] = high - low
    assert widths[150] < 0.7 * widths[30]


@pytest.mark.parametrize("law", ["eq2", "dip"])
@pytest.mark.parametrize("name", ["svhn-resnet-8ep", "svhn-vgg-8ep", "svhn-densenet-8ep"])
def test_intervals_of_one_curve_contain_only_what_is_possible(name: str, law: str):
    """Single curves leave much open: ε↑ came out as up to 1.10, A as up to 6.9 and p′ as 7e-13 or more."""
    result = fit(read(name), law=law)
    for parameter in result.form().parameters:
        low, high = result.intervals[parameter.name]
        limit = (1.0 if parameter.name == result.plateau else parameter.upper) * (1 + 1e-12)
        assert 0.99 * parameter.lower <= low < high <= limit


def test_an_interval_contains_what_fits_almost_as_well():
    result = fit(read("svhn-resnet-8ep"))
    (flat,) = [finding for finding in result.findings if isinstance(finding, FlatProfile)]
    low, high = result.intervals[flat.parameter]
    assert all(low <= value <= high for value in flat.values)


def test_an_undetermined_scale_stays_within_its_search_limits():
    """Two depths of short curves leave p′ open over a hundred orders of magnitude."""
    frame = planted(configurations=4, depths=(8, 20), widths=(0.5, 1.0), num_examples=(50_000,))
    result = fit(read(frame[frame["level"] < 6]))
    assert "p" in result.undetermined
    low, high = result.intervals["p"]
    assert low < high < 1.01e9 * low  # it is searched between 1e-8 and 10


def test_an_interval_beyond_the_search_limits_excludes_nothing(monkeypatch):
    """An interval around a latent fit far outside the limits had no width once it was cut: A "0.9 to 0.9"."""
    original = fitting.find_uncertainty

    def far_out(*arguments):
        found = original(*arguments)
        return replace(found, lower=found.lower + 100, upper=found.upper + 100)

    monkeypatch.setattr(fitting, "find_uncertainty", far_out)
    result = fit(read("svhn-resnet-8ep"), law="dip")
    low, high = result.intervals["dip"]
    assert low < 1e-3
    assert high == pytest.approx(0.9)
