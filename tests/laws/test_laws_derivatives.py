import numpy as np
import pytest

from prunecast.errors import PrunecastError
from prunecast.laws import bounds, build_form, natural, rivals
from prunecast.laws.dual import Dual
from prunecast.laws.law import inner
from prunecast.laws.solver import Objective, residual_stack

STEP = 1e-5
FIVE_POINTS = ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12))


def numerical(function, theta):
    """Five-point differences, exact to about 1e-10: shape (parameters, rows)."""
    slopes = []
    for column in range(theta.shape[1]):
        total = 0.0
        for offset, weight in FIVE_POINTS:
            shifted = theta.copy()
            shifted[:, column] += offset * STEP
            total = total + weight * function(shifted)[0]
        slopes.append(total / STEP)
    return np.array(slopes)


def inside(form, seed, margin=0.2):
    """A parameter set well inside the bounds."""
    lower, upper = bounds(form)
    share = np.random.default_rng(seed).uniform(margin, 1 - margin, len(lower))
    return (lower + share * (upper - lower))[None]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["both", "depth", "width", "eq1"])
def test_eq2(by_kind, kind, seed):
    points = by_kind[kind]
    form = build_form("eq2", points, "error")
    theta = inside(form, seed)
    stack = form.stack(theta, points)[0]
    assert stack[-1] == pytest.approx(form.log_error(theta, points)[0], rel=1e-12)
    expected = numerical(lambda t: form.log_error(t, points), theta)
    np.testing.assert_allclose(stack[:-1], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_slope_by_the_unpruned_error(small, seed):
    form = build_form("eq2", small, "error")
    theta = inside(form, seed)
    slope = form.unpruned_slope(theta, small, form.stack(theta, small))[0]
    expected = sum(
        weight * form.stack(theta, small, small.log_unpruned + offset * STEP)[0, -1]
        for offset, weight in FIVE_POINTS
    )
    np.testing.assert_allclose(slope, expected / STEP, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("index", range(7))
@pytest.mark.parametrize("seed", range(3))
def test_rivals(small, index, seed):
    form = rivals(small)[index].form
    theta = inside(form, seed, margin=0.4)
    stack = form.stack(theta, small)[0]
    expected = numerical(lambda t: form.log_error(t, small), theta)
    np.testing.assert_allclose(stack[:-1], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("residual", ["relative", "log"])
def test_residuals(small, residual):
    form = build_form("eq2", small, "error")
    theta = inside(form, 1)
    estimate = np.exp(form.log_error(theta, small)[0])
    expected = {"relative": estimate / small.error - 1, "log": np.log(estimate / small.error)}[residual]
    objective = Objective(residual=residual)
    stack = residual_stack(form, theta, small, objective)[0]
    np.testing.assert_allclose(stack[-1], expected, rtol=1e-10, atol=1e-13)
    slopes = numerical(lambda t: residual_stack(form, t, small, objective)[:, -1], theta)
    np.testing.assert_allclose(stack[:-1], slopes, rtol=1e-6, atol=1e-7)


def test_inner_scale_and_back(small):
    form = build_form("eq2", small, "error")
    values = np.array([0.8, 0.5, 0.01, 1.2, -0.3])
    np.testing.assert_allclose(natural(form, inner(form, values)), values, rtol=1e-14)
    np.testing.assert_allclose(inner(form, values)[:3], np.log(values[:3]))


@pytest.mark.parametrize(
    "formula",
    [
        lambda a, b: a + 2 * b - 3,
        lambda a, b: (a - b) * (a * b),
        lambda a, b: 1 / a - b / (a + b),
        lambda a, b: a**b + a**2 + 3.0**b,
        lambda a, b: np.exp(-a) * np.log(b) / np.sqrt(a + b),
        lambda a, b: np.maximum(a, b) * np.minimum(a, 2 * b) + np.abs(a - b),
        lambda a, b: np.logaddexp(a, b) + np.log1p(a) * np.expm1(b) + np.square(a),
        lambda a, b: np.log2(a) + np.log10(b) + np.tanh(a * b),
    ],
)
def test_dual_numbers_follow_every_operation(formula):
    at = np.array([[0.7, 1.9]])
    found = formula(*(Dual(value, {i: 1.0}) for i, value in enumerate(at[0])))
    expected = numerical(lambda t: formula(t[:, 0], t[:, 1]), at)
    assert found.value == pytest.approx(formula(*at[0]))
    assert [found.slopes[i] for i in range(2)] == pytest.approx(expected.tolist(), rel=1e-8)


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (np.sin, "sin"),
        (lambda a: np.where(a > 1, a, 1.0), "greater"),
        (lambda a: np.where(True, a, 1.0), "where"),
        (np.sum, "sum"),
        (lambda a: np.add.reduce(a), "add"),
    ],
)
def test_other_functions_of_numpy_are_refused_by_name(operation, name):
    with pytest.raises(
        PrunecastError, match=rf"^numpy\.{name} cannot be differentiated here; use absolute, add"
    ):
        operation(Dual(np.ones(3), {0: np.ones(3)}))
