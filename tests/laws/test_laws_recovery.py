import numpy as np
import pytest
from findings_of import findings_of
from planted import TRUTH, law_error, planted, unpruned_error

from prunecast.laws import fit, fit_each
from prunecast.laws.findings import AtBound
from prunecast.table import read


def without_level_0(frame):
    """The table with ε_np stated instead of measured: the law alone, as Eq. 2 misses ε_np a little at d = 1."""
    frame = frame.assign(unpruned_error=unpruned_error(frame))
    return frame[frame["level"] > 0]


AXES = {
    "both": {},
    "depth": {"widths": (1.0,), "num_examples": (50_000, 12_500)},
    "width": {"depths": (20,), "num_examples": (50_000, 12_500)},
}
PLANTED = {"both": (), "depth": ("psi",), "width": ("phi",)}


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize(
    "truth",
    [TRUTH, {"high_error": 0.95, "gamma": 1.3, "p": 0.4, "phi": 1.7, "psi": 0.8}],
    ids=["like-cifar10", "steep"],
)
def test_parameters_are_recovered_exactly_without_noise(axes, truth):
    known = {**truth, **dict.fromkeys(PLANTED[axes], 0.0)}
    table = read(without_level_0(planted(known, configurations=20, noise=0.0, **AXES[axes])))
    found = fit(table).parameters  # the other laws meet these rows exactly, too, and Eq. 2 is the simplest
    assert set(found) == set(known) - set(PLANTED[axes])
    for name, value in found.items():
        assert value == pytest.approx(known[name], rel=1e-6), name


@pytest.mark.parametrize("replicates", [1, 3])
def test_parameters_are_recovered_within_intervals_at_the_papers_size(replicates):
    result = fit(read(planted(replicates=replicates, seed=88)))
    assert result.rows == 4301
    assert len(result.configurations) == 152
    for name, truth in TRUTH.items():
        low, high = result.interval(name)
        assert low <= truth <= high, name
        assert result.parameters[name] == pytest.approx(truth, rel=0.05), name
    assert result.undetermined == ()
    assert result.deviation.std == pytest.approx(0.034 * np.sqrt(1.6 / replicates), rel=0.2)


def test_one_configuration_is_eq_1():
    frame = planted(configurations=1, depths=(20,), widths=(0.25,), num_examples=(50_000,), noise=0.0)
    result = fit(read(without_level_0(frame)))
    scale = 20 ** TRUTH["phi"] * 0.25 ** TRUTH["psi"]
    assert result.law == "eq1"
    assert result.parameters == pytest.approx(
        {"high_error": TRUTH["high_error"], "gamma": TRUTH["gamma"], "p": TRUTH["p"] / scale}, rel=1e-6
    )


def test_each_configuration_alone_has_the_joint_parameters():
    frame = planted(configurations=8, noise=0.0, seed=3)
    frame = without_level_0(frame[(frame["width"] < 1)])
    for one in fit_each(read(frame)):
        scale = one.depth ** TRUTH["phi"] * one.width ** TRUTH["psi"]
        assert one.parameters == pytest.approx(
            {"high_error": TRUTH["high_error"], "gamma": TRUTH["gamma"], "p": TRUTH["p"] / scale}, rel=1e-5
        )
        assert one.deviation.std < 1e-6


def test_the_same_seed_gives_the_same_fit(shipped):
    first, second = fit(shipped), fit(shipped)
    assert first.parameters == second.parameters
    assert first.intervals == second.intervals


def test_planted_tables_are_what_they_say():
    frame = planted(replicates=3, noise=0.0)
    assert len(frame.groupby(["depth", "width", "num_examples"])) == 152
    level_0 = frame[frame["level"] == 0]
    np.testing.assert_allclose(level_0["error"], unpruned_error(level_0))
    pruned = frame[frame["level"] > 0]
    np.testing.assert_allclose(pruned["error"], law_error(pruned))
    assert (frame.groupby(["depth", "width", "num_examples", "level"]).size() == 3).all()
    noisy = planted(replicates=3, noise=0.034, seed=1)
    quiet = planted(replicates=3, noise=0.0, seed=1)
    assert (noisy["error"] / quiet["error"]).std() == pytest.approx(0.034, rel=0.05)
    assert planted(seed=1).equals(planted(seed=1))
    assert not planted(seed=1)["error"].equals(planted(seed=2)["error"])


def test_a_network_that_hardly_learned_does_not_lift_the_plateau_of_the_others():
    frame = planted(configurations=30, noise=0.01)
    smallest = frame["weights"] * frame["num_examples"]
    dull = frame.assign(error=frame["error"].where(smallest > smallest.min(), 0.95))
    for law in ("eq2", "dip"):
        found = fit(read(dull), law=law)
        assert found.parameters["high_error"] == pytest.approx(TRUTH["high_error"], rel=0.01)
        assert not findings_of(found, AtBound, "high_error")
