import numpy as np
import pytest
import research_tables
from findings_of import findings_of

from prunecast.laws import fit, fit_each, measured
from prunecast.laws.findings import DipsIgnored, PlateauNotReached
from prunecast.table import read


@pytest.fixture(scope="module")
def whole(shipped):
    return fit(shipped, law="eq2")


@pytest.fixture(scope="module")
def cut(shipped):
    """The same table without the rows above error 0.6, so that no curve shows its high plateau."""
    return fit(read(shipped.frame[shipped.frame["error"] < 0.6]), law="eq2")


def test_agrees_with_an_independent_fit(whole):
    assert whole.rows == 119
    assert whole.at_chance == 2
    assert whole.deviation.mean == pytest.approx(0.0207, abs=5e-5)
    assert whole.deviation.std == pytest.approx(0.0424, abs=5e-5)
    assert list(whole.parameters) == ["high_error", "gamma", "p", "psi"]
    assert whole.parameters["high_error"] == pytest.approx(0.843, abs=5e-4)
    assert whole.parameters["gamma"] == pytest.approx(0.545, abs=5e-4)
    assert whole.parameters["psi"] == pytest.approx(1.475, abs=5e-4)
    assert whole.undetermined == ()
    assert whole.noise_floor is None


def test_all_sizes_fit_worse_and_the_findings_say_why(shipped_all):
    result = fit(shipped_all, law="eq2")
    assert result.deviation.mean == pytest.approx(0.083, abs=5e-4)
    assert result.deviation.std == pytest.approx(0.122, abs=5e-4)
    (dips,) = findings_of(result, DipsIgnored)
    assert dips.mean_deviation == pytest.approx(0.083, abs=5e-4)
    assert dips.deepest > 0.2


def test_regions_and_configurations_add_up(whole):
    for parts in (whole.regions.values(), [c.deviation for c in whole.configurations]):
        parts = [part for part in parts if part.rows]
        rows = np.array([part.rows for part in parts])
        means, stds = (np.array([getattr(part, name) for part in parts]) for name in ("mean", "std"))
        assert rows.sum() == whole.rows
        assert (rows * means).sum() / rows.sum() == pytest.approx(whole.deviation.mean)
        square = (rows * (means**2 + stds**2)).sum() / rows.sum()
        assert square == pytest.approx(whole.deviation.rms**2)


def test_cut_below_the_plateau_high_error_is_open(cut, whole):
    assert "high_error" in cut.undetermined
    assert "p" in cut.undetermined
    low, high = cut.interval("high_error")
    assert low < 0.6 < 0.84 < high
    (plateau,) = findings_of(cut, PlateauNotReached)
    assert (plateau.kind, plateau.parameter, plateau.chance_known) == ("undetermined", "high_error", True)
    assert plateau.more_levels >= 1
    for name in ("gamma", "p", "psi"):
        low, high = cut.interval(name)
        assert low < whole.parameters[name] < high, name


def test_cut_below_the_plateau_predictions_still_hold_the_rows_cut_off(cut, shipped):
    points = measured(shipped).points
    off = points.error >= 0.6
    at = points.configuration[off]
    prediction = cut.predict(points.density[off], width=points.width[at], unpruned_error=points.unpruned[at])
    inside = (prediction.lower <= points.error[off]) & (points.error[off] <= prediction.upper)
    assert off.sum() > 20
    assert inside.mean() > 0.9


def test_cut_below_the_plateau_high_error_can_be_fixed_at_chance(shipped):
    table = read(shipped.frame[shipped.frame["error"] < 0.6])
    result = fit(table, high_error="chance")
    assert result.parameters["high_error"] == pytest.approx(0.9, rel=1e-12)
    assert result.interval("high_error") == pytest.approx((0.9, 0.9))
    assert result.fixed == ("high_error",)
    assert "high_error" not in result.undetermined
    assert fit(table, high_error=0.85).parameters["high_error"] == pytest.approx(0.85, rel=1e-12)


def test_options_change_what_they_should(shipped, whole):
    log = fit(shipped, law="eq2", residual="log")
    huber = fit(shipped, law="eq2", huber=0.02)
    for other in (log, huber):
        assert other.parameters != whole.parameters
        assert other.parameters == pytest.approx(whole.parameters, rel=0.25)
    assert log.options["residual"] == "log"
    assert huber.options["huber"] == "0.02"
    # The paper's objective is what `relative` minimises, so no other fit has a smaller rms deviation.
    assert whole.deviation.rms < min(log.deviation.rms, huber.deviation.rms)


def test_each_configuration_alone(shipped, whole):
    singles = fit_each(shipped)
    assert [one.width for one in singles] == [0.0625, 0.125, 0.25, 0.5, 1.0]
    assert sum(one.deviation.rows for one in singles) == whole.rows
    # Three parameters a configuration follow the rows at least as well as four in all.
    alone = sum(one.deviation.rows * one.deviation.rms**2 for one in singles)
    assert alone <= whole.rows * whole.deviation.rms**2


def test_an_interval_whose_search_ends_at_a_bound_is_no_point():
    """Eq. 2 over a deep dip runs off along γ, which the interval must say and not hide."""
    result = fit(
        read(research_tables.path("cifar10-resnet20-24ep-fleet"), where={"num_examples": 3125}),
        law="eq2",
    )
    lower, upper = result.intervals["gamma"]
    assert upper / lower > 10
    assert "gamma" in result.undetermined
    assert all(lower < upper for lower, upper in result.intervals.values())
