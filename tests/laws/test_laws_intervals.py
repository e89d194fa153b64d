"""A quick look at the coverage of 95% intervals; `benchmarks/coverage.py` has the full numbers."""

from collections import defaultdict

import numpy as np
import pytest
from planted import TRUTH, planted

from prunecast.laws import fit
from prunecast.table import CONFIGURATION, read

SIMULATIONS = 60
NEW = {"depths": (32,), "widths": (0.35,), "num_examples": (30_000,)}


@pytest.mark.slow
def test_intervals_hold_the_truth_about_as_often_as_they_say():
    inside = defaultdict(list)
    for seed in range(SIMULATIONS):
        result = fit(read(planted(configurations=30, seed=1000 + seed)))
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
        low, high = fit(read(planted(configurations=configurations, seed=1))).interval("gamma")
        widths[configurations] = high - low
    assert widths[150] < 0.7 * widths[30]
