"""Laws with a sharpness of their own: their derivatives, their limits, and what they find again."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from planted import TRUTH, planted, unpruned_error

from prunecast.laws import bounds, build_form, fit, formulas
from prunecast.table import read

STEP = 1e-5
FIVE_POINTS = ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12))
PLAIN = {"sharp": "eq2", "sharp-dip": "dip"}


def inside(form, seed):
    """A parameter set well inside the bounds."""
    lower, upper = bounds(form)
    share = np.random.default_rng(seed).uniform(0.2, 0.8, len(lower))
    return (lower + share * (upper - lower))[None]


def numerical(function, theta):
    """Five-point differences: shape (parameters, rows)."""
    shifts = STEP * np.eye(theta.shape[1])
    return np.array(
        [sum(w * function(theta + k * shift)[0] for k, w in FIVE_POINTS) / STEP for shift in shifts]
    )


def sharpened(sharpness, **options) -> pd.DataFrame:
    """A planted table of Eq. 2 whose bends have another sharpness."""
    frame = planted(noise=0.0, **options)
    log_unpruned = np.log(unpruned_error(frame))
    logs = (np.log(frame[name].to_numpy(dtype=float)) for name in ("depth", "width"))
    scale = formulas.log_invariant(0.0, *logs, TRUTH["phi"], TRUTH["psi"])
    height, gamma = np.log(TRUTH["high_error"]) - log_unpruned, TRUTH["gamma"]
    high, low = formulas.transitions(height, gamma, np.log(TRUTH["p"]), scale, sharpness)
    power = frame["density"].to_numpy() ** -sharpness
    error = np.exp(formulas.pruned_error(log_unpruned, power, high, low, gamma, sharpness).log_error)
    return frame.assign(error=np.where(frame["level"] > 0, error, frame["error"]))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["both", "width", "eq1"])
@pytest.mark.parametrize("law", PLAIN)
def test_the_derivatives_are_those_of_differences(by_kind, law, kind, seed):
    points = by_kind[kind]
    form = build_form(law, points, "error")
    assert form.parameters[-1].name == "sharpness"
    theta = inside(form, seed)
    stack = form.stack(theta, points)
    np.testing.assert_allclose(stack[0, -1], form.log_error(theta, points)[0], rtol=1e-12)
    expected = numerical(lambda t: form.log_error(t, points), theta)
    np.testing.assert_allclose(stack[0, :-1], expected, rtol=1e-6, atol=1e-8)
    slope = form.unpruned_slope(theta, points, stack)[0]
    by_unpruned = sum(
        w * form.stack(theta, points, points.log_unpruned + k * STEP)[0, -1] for k, w in FIVE_POINTS
    )
    np.testing.assert_allclose(slope, by_unpruned / STEP, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", ["both", "depth", "width", "eq1"])
@pytest.mark.parametrize(("law", "plain"), PLAIN.items())
def test_with_sharpness_2_they_are_the_laws_of_the_paper_and_of_the_dip(by_kind, law, plain, kind):
    points = by_kind[kind]
    form, other = build_form(law, points, "error"), build_form(plain, points, "error")
    theta = inside(other, 1)
    names = [parameter.name for parameter in other.parameters]
    values = {"nu": 0.0, **dict(zip(names, theta[0], strict=True)), "sharpness": np.log(2.0)}
    same = np.array([[values[parameter.name] for parameter in form.parameters]])
    np.testing.assert_allclose(form.log_error(same, points), other.log_error(theta, points), rtol=1e-12)
    kept = [form.index(name) for name in names]
    np.testing.assert_allclose(
        form.stack(same, points)[:, [*kept, -1]], other.stack(theta, points), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("sharpness", [0.7, 2.0, 6.0])
def test_between_the_bends_the_slope_is_gamma(by_kind, sharpness):
    points = by_kind["eq1"]
    form, theta = build_form("sharp", points, "error"), np.log([[0.9, 0.1, 1e-6, sharpness]])
    middle = (points.log_unpruned + np.log(0.9)) / 2
    halfway, further = (form.smallest_density(theta, points, middle + rise) for rise in (0.0, 0.01))
    assert 0.01 / np.log(halfway / further) == pytest.approx(0.1, rel=0.01)


@pytest.mark.parametrize("law", ["sharp", "eq2"])
def test_the_smallest_density_is_where_the_law_has_that_error(small, law):
    form = build_form(law, small, "error")
    values = {**TRUTH, "nu": 0.1, "sharpness": 4.0}
    theta = np.array(
        [[np.log(values[own.name]) if own.positive else values[own.name] for own in form.parameters]]
    )
    target = small.log_unpruned + 0.3
    found = form.smallest_density(theta, small, target)
    at = replace(small.rows(small.level == 0), density=found)
    np.testing.assert_allclose(form.log_error(theta, at)[0], target, rtol=1e-9)


@pytest.mark.parametrize("sharpness", [1.2, 5.0])
def test_a_planted_sharpness_is_found_again(sharpness):
    frame = sharpened(sharpness, configurations=24, num_examples=(50_000, 25_000), seed=3)
    noise = 1 + 0.01 * np.random.default_rng(1).standard_normal(len(frame))
    table = read(frame.assign(error=frame["error"] * noise))
    found = fit(table, law="sharp")
    low, high = found.interval("sharpness")
    assert found.parameters["sharpness"] == pytest.approx(sharpness, rel=0.1)
    assert low < sharpness < high
    assert high / low < 1.5
    assert found.parameters["gamma"] == pytest.approx(TRUTH["gamma"], rel=0.05)
    assert found.held_out["sharp"] < 0.9 * found.held_out["eq2"]
    auto = fit(table)
    assert auto.law == "sharp"
    assert "eq2" not in {one.law for one in auto.alternatives}


def test_where_eq2_holds_the_sharpness_is_2():
    found = fit(read(planted(configurations=40, seed=2)), law="sharp")
    low, high = found.interval("sharpness")
    assert low < 2 < high
    assert found.parameters["sharpness"] == pytest.approx(2, rel=0.15)
    assert found.held_out["sharp"] < 1.05 * found.held_out["eq2"]


def test_the_equation_says_it():
    table = read(planted(configurations=8, num_examples=(50_000,), seed=1))
    sharp, plain = fit(table, law="sharp"), fit(table, law="eq2")
    assert plain.equation == (
        "estimate = unpruned · [(m*² + p′²(ε↑/unpruned)^(2/γ)) / (m*² + p′²)]^(γ/2),  m* = depth^φ · width^ψ · density"
    )
    assert sharp.equation == plain.equation.replace("²", "ˢ").replace("(2/γ)", "(s/γ)").replace("γ/2", "γ/s")
    assert (sharp.symbol("sharpness"), sharp.title) == ("s", "the sharp law")
    assert "2 in Eq. 2" in sharp.meaning("sharpness")
    dips = fit(table, law="sharp-dip").equation.split("\n")
    assert dips[0] == sharp.equation.replace("unpruned", "low") + ";"
    assert dips[1] == fit(table, law="dip").equation.split("\n")[1]


def test_dataset_size_is_in_the_invariant_where_it_spans_enough(small, by_kind):
    assert "num_examples" in build_form("sharp", small, "error").axes
    assert build_form("sharp", by_kind["width"], "error").axes == ("width",)
