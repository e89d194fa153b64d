import numpy as np
import pytest
from planted import TRUTH, law_error, planted, unpruned_error

from prunecast.errors import PrunecastError
from prunecast.laws import fit, measured
from prunecast.table import read


@pytest.fixture(scope="module")
def joint():
    return fit(read(planted(configurations=60, seed=1)), law="eq2")


@pytest.fixture(scope="module")
def partial(shipped):
    return fit(shipped, law="eq2")


def test_predictions_are_the_fitted_values(shipped, partial):
    """Where ε_np is given, the law alone answers: δ at the table's rows is the δ the fit reports."""
    points = measured(shipped).points
    at = points.configuration
    found = partial.predict(points.density, width=points.width[at], unpruned_error=points.unpruned[at])
    delta = found.error / points.error - 1
    assert delta.mean() == pytest.approx(partial.deviation.mean, rel=1e-9)
    assert delta.std() == pytest.approx(partial.deviation.std, rel=1e-9)
    assert (found.unpruned_source == "given").all()
    names, counts = np.unique(found.region, return_counts=True)
    assert dict(zip(names, counts, strict=True)) == {n: own.rows for n, own in partial.regions.items()}


def test_at_measured_sizes_predictions_are_nearer_to_what_was_measured(shipped, partial):
    points = measured(shipped).points
    at = points.configuration
    found = partial.predict(points.density, width=points.width[at])
    delta = found.error / points.error - 1
    assert (found.unpruned_source == "measured").all()
    assert not found.extrapolated.any()
    assert np.hypot(delta.mean(), delta.std()) < 0.7 * partial.deviation.rms
    inside = (found.lower <= points.error) & (points.error <= found.upper)
    assert inside.mean() > 0.95


def test_intervals_hold_new_runs_of_new_configurations(joint):
    new = planted(configurations=60, depths=(32,), widths=(0.2, 0.4, 0.7, 1.5, 3.0), seed=2)
    unpruned = new["error"].where(new["level"] == 0).ffill()
    new, unpruned = new[new["level"] > 0], unpruned[new["level"] > 0].to_numpy()
    asked = {name: new[name].to_numpy() for name in ("depth", "width", "num_examples")}
    found = joint.predict(new["density"].to_numpy(), unpruned_error=unpruned, **asked)
    inside = (found.lower <= new["error"]) & (new["error"] <= found.upper)
    assert inside.mean() == pytest.approx(0.95, abs=0.04)


def test_an_unpruned_error_that_was_not_measured_comes_from_the_dense_law(joint):
    truth = planted(configurations=1, depths=(32,), widths=(0.75,), num_examples=(40_000,), noise=0.0)
    found = joint.predict(truth["density"].to_numpy(), depth=32, width=0.75, num_examples=40_000)
    assert set(found.unpruned_source) == {"predicted"}
    assert found.unpruned_error[0] == pytest.approx(truth["error"].iloc[0], rel=0.1)
    given = joint.predict(
        truth["density"].to_numpy(), depth=32, width=0.75, unpruned_error=found.unpruned_error[0]
    )
    assert set(given.unpruned_source) == {"given"}
    # Similar sizes say what the law misses, too; given an unpruned error, the law alone answers.
    assert found.error[0] == pytest.approx(given.error[0], rel=1e-9)
    np.testing.assert_allclose(given.error, found.error, rtol=0.05)
    assert (given.error != found.error)[1:].all()


def test_what_only_an_alternative_needs_must_be_said():
    """Eq. 2 knows the number of examples by ε_np alone, but predictions average over laws that contain it."""
    averaged = fit(read(planted(configurations=60, seed=1)))
    assert averaged.law == "eq2"
    assert any("num_examples" in one.axes for one in averaged.alternatives)
    assert averaged.needs_examples
    with pytest.raises(PrunecastError, match="num_examples varies in this law's data"):
        averaged.predict(0.1, depth=32, width=0.75, unpruned_error=0.1)
    predicted = averaged.predict(0.1, depth=32, width=0.75, num_examples=40_000)
    asked = {"num_examples": 40_000, "unpruned_error": predicted.unpruned_error}
    given = averaged.predict(0.1, depth=32, width=0.75, **asked)
    assert given.error == pytest.approx(predicted.error, rel=0.03)


def test_equal_invariants_are_predicted_alike(joint):
    depth, width, density = 50, 0.5, 0.02
    m = depth ** joint.parameters["phi"] * width ** joint.parameters["psi"] * density
    other = m / (20 ** joint.parameters["phi"] * 1.0)
    pair = joint.predict([density, other], depth=[depth, 20], width=[width, 1.0], unpruned_error=0.1)
    assert pair.error[0] == pytest.approx(pair.error[1], rel=1e-9)


def test_arguments_broadcast(joint):
    found = joint.predict(
        np.array([[1.0], [0.1], [0.01]]), depth=20, width=np.array([0.5, 1.0]), unpruned_error=0.1
    )
    assert found.error.shape == found.lower.shape == found.region.shape == (3, 2)
    assert (np.diff(found.error, axis=0) > 0).all()
    assert len(found.frame) == 6
    assert (found.lower < found.error).all()
    assert (found.error < found.upper).all()
    assert (found.upper <= 1).all()


def test_a_frame_begins_with_the_answer_and_ends_with_what_was_not_varied(joint):
    names = list(joint.predict([0.5, 0.1], depth=20, width=[0.5, 1.0], unpruned_error=0.1).frame)
    assert names[:4] == ["density", "error", "lower", "upper"]
    assert (
        names.index("width")
        < names.index("extrapolated")
        < names.index("num_examples")
        < names.index("depth")
    )
    assert len(names) == 11


def test_a_prediction_prints_in_the_width_of_a_terminal(joint):
    found = joint.predict(np.geomspace(0.01, 1, 200)[:, None], depth=20, width=[0.5, 1.0], unpruned_error=0.1)
    lines = str(found).split("\n")
    assert lines[0].split() == ["density", "error", "lower", "upper", "width", "region"]
    assert max(map(len, lines)) <= 80
    assert len(lines) < 30
    high, low = found.error.max(), found.error.min()
    assert repr(found) == f"<Prediction of 400 errors: {low:.4g} to {high:.4g} at density 0.01 to 1>"
    one = joint.predict(0.1, depth=20, width=1, unpruned_error=0.1)
    assert repr(one) == f"<Prediction of 1 error: {one.error:.4g} at density 0.1>"
    none = joint.predict([], depth=20, width=1, unpruned_error=0.1)
    assert str(none) == repr(none) == "<Prediction of 0 errors>"


def test_extrapolation_is_marked(partial):
    found = partial.predict([0.5, 1e-6, 0.5], width=[0.5, 0.5, 4.0], unpruned_error=0.1)
    assert found.extrapolated.tolist() == [False, True, True]


def test_predictions_recover_the_planted_law(joint):
    new = planted(configurations=40, seed=3, noise=0.0)
    new = new[new["level"] > 0]
    asked = {name: new[name].to_numpy() for name in ("depth", "width", "num_examples")}
    found = joint.predict(new["density"].to_numpy(), unpruned_error=unpruned_error(new), **asked)
    np.testing.assert_allclose(found.error, law_error(new, TRUTH), rtol=0.03)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"density": 0.0}, "density is 0, but it must be greater than 0 and at most 1"),
        ({"density": 1.5}, "density is 1.5, but it must be greater than 0 and at most 1"),
        ({"density": float("nan")}, "density is nan, but it must be greater than 0 and at most 1"),
        ({"density": 0.5, "depth": -1}, "depth is -1, but it must be a positive number"),
        ({"density": 0.5, "width": 0}, "width is 0, but it must be a positive number"),
        (
            {"density": 0.5, "unpruned_error": 1.2},
            "unpruned_error is 1.2, but it must be greater than 0 and at most 1",
        ),
        (
            {"density": 0.5, "unpruned_error": 0},
            "unpruned_error is 0, but it must be greater than 0 and at most 1",
        ),
        ({"density": 0.5, "unpruned_error": float("nan")}, "unpruned_error is nan, but"),
        ({"density": 1e-300}, "density is 1e-300, but it must be from 1e-12 to 1"),
        ({"density": 0.5, "width": 1e-300}, r"width is 1e-300, but it must be from 1e-12 to 1e\+15"),
        ({"density": 0.5, "num_examples": 1e300}, r"num_examples is 1e\+300, but it must be from 1e-12 to"),
    ],
)
def test_what_cannot_be_is_refused(joint, asked, message):
    with pytest.raises(PrunecastError, match=message):
        joint.predict(**{"depth": 20, "width": 1, "num_examples": 50_000, **asked})


def test_what_varies_must_be_said(joint, partial):
    with pytest.raises(
        PrunecastError, match=r"depth varies in this law's data .*; give it with --depth, or depth= in Python"
    ):
        joint.predict(0.5, width=1, unpruned_error=0.1)
    with pytest.raises(PrunecastError, match=r"width varies in this law's data .*0\.0625, 0\.125"):
        partial.predict(0.5)
    with pytest.raises(PrunecastError, match="was not measured, and there are too few configurations"):
        partial_of_three().predict(0.5, width=3.0)


def partial_of_three():
    frame = planted(configurations=3, depths=(20,), widths=(0.25, 0.5, 1.0), num_examples=(50_000,))
    return fit(read(frame))


def test_an_unpruned_error_above_the_high_plateau_is_answered_or_refused(joint):
    """ε_np above ε↑ is outside the law's sense, yet must not give nonsense: NaN or an error below both."""
    found = joint.predict([1.0, 0.01], depth=20, width=1, unpruned_error=0.95)
    assert np.isfinite(found.error).all()
    assert ((found.error <= 0.96) & (found.error >= joint.parameters["high_error"] * 0.99)).all()


def test_intervals_are_asked_by_name(joint):
    assert joint.interval("gamma") == joint.intervals["gamma"]
    with pytest.raises(
        PrunecastError, match="eq2 has no parameter 'beta'; it has high_error, gamma, p, phi, psi"
    ):
        joint.interval("beta")
