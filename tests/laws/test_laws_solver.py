from dataclasses import replace

import numpy as np
import pytest
from planted import planted
from scipy.optimize import least_squares

from prunecast.laws import bounds, build_form, measured, natural, solve, solve_parts, starts
from prunecast.laws.solver import Objective, residual_stack
from prunecast.table import read

PER_ROW = ("configuration", "level", "density", "error", "replicates", "nonzero")
TIGHT = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}


def by_scipy(form, points, start, objective=Objective(), fixed=None):
    """The same problem by scipy, converged as far as it goes; fixed parameters are taken out of it."""
    free = np.ones(len(start), dtype=bool) if fixed is None else ~fixed
    lower, upper = bounds(form)

    def stack(part):
        theta = start.copy()
        theta[free] = part
        return residual_stack(form, theta[None], points, objective)[0]

    options = {} if objective.huber is None else {"loss": "huber", "f_scale": objective.huber}
    found = least_squares(
        lambda part: stack(part)[-1],
        start[free],
        jac=lambda part: stack(part)[:-1][free].T,
        bounds=(lower[free], upper[free]),
        max_nfev=1000,
        **TIGHT,
        **options,
    )
    theta = start.copy()
    theta[free] = found.x
    return theta


@pytest.mark.parametrize("kind", ["both", "depth", "width", "eq1"])
@pytest.mark.parametrize(
    "objective",
    [Objective(), Objective(residual="log"), Objective(huber=0.03), Objective(residual="log", huber=0.05)],
    ids=["relative", "log", "huber", "log-huber"],
)
def test_agrees_with_tight_scipy(by_kind, kind, objective):
    points = by_kind[kind]
    form = build_form("eq2", points, "error")
    start = starts(form)[0]
    ours = solve(form, points, start[None], objective=objective)
    theirs = by_scipy(form, points, ours.theta[0] + 1e-3, objective)
    assert ours.converged.all()
    np.testing.assert_allclose(natural(form, ours.theta[0]), natural(form, theirs), rtol=1e-6)


def test_agrees_with_tight_scipy_at_the_papers_size(paper_sized):
    form = build_form("eq2", paper_sized, "error")
    start = starts(form)[0]
    ours = solve(form, paper_sized, start[None]).theta[0]
    np.testing.assert_allclose(
        natural(form, ours), natural(form, by_scipy(form, paper_sized, start)), rtol=1e-6
    )


def test_agrees_with_scipy_where_high_error_is_held(small):
    form = build_form("eq2", small, "error")
    start = starts(form)[0]
    start[0] = np.log(0.9)
    fixed = np.array([True, False, False, False, False])
    ours = solve(form, small, start[None], fixed=fixed).theta[0]
    assert ours[0] == start[0]
    np.testing.assert_allclose(ours, by_scipy(form, small, start, fixed=fixed), rtol=1e-6)


@pytest.mark.parametrize("name", ["shipped", "shipped_all", "planted"])
def test_nearly_every_start_reaches_one_optimum(request, name, paper_sized):
    points = paper_sized if name == "planted" else measured(request.getfixturevalue(name)).points
    form = build_form("eq2", points, "error")
    lower, upper = bounds(form)
    found = solve(form, points, np.random.default_rng(11).uniform(lower, upper, (100, len(lower))))
    best = found.theta[found.cost.argmin()]
    reached = np.isclose(found.theta, best, rtol=1e-6, atol=1e-6).all(axis=1)
    assert reached.sum() >= 99


def test_a_batch_equals_its_members(small):
    form = build_form("eq2", small, "error")
    lower, upper = bounds(form)
    rng = np.random.default_rng(2)
    many = rng.uniform(lower, upper, (12, len(lower)))
    weights = rng.uniform(0, 2, (12, len(small)))
    together = solve(form, small, many, weights=weights)
    alone = [solve(form, small, many[i : i + 1], weights=weights[i : i + 1]) for i in range(12)]
    np.testing.assert_allclose(together.theta, np.concatenate([one.theta for one in alone]), rtol=1e-8)
    np.testing.assert_allclose(together.cost, np.concatenate([one.cost for one in alone]), rtol=1e-10)
    assert together.iterations == max(one.iterations for one in alone)


def test_weights_are_repeated_rows(small):
    form = build_form("eq2", small, "error")
    start = starts(form)[0][None]
    counts = np.random.default_rng(3).integers(0, 4, small.configurations)
    weighted = solve(form, small, start, weights=counts[small.configuration][None].astype(float))
    rows = np.repeat(np.arange(len(small)), counts[small.configuration])
    per_row = {name: getattr(small, name)[rows] for name in PER_ROW}
    repeated = replace(small, **per_row)
    unweighted = solve(form, repeated, start)
    np.testing.assert_allclose(weighted.theta, unweighted.theta, rtol=1e-7)
    np.testing.assert_allclose(weighted.cost, unweighted.cost, rtol=1e-10)


def test_huber_takes_weights(small):
    form = build_form("eq2", small, "error")
    start = starts(form)[0][None]
    objective = Objective(huber=0.02)
    plain = solve(form, small, start, objective=objective)
    doubled = solve(form, small, start, objective=objective, weights=np.full((1, len(small)), 2.0))
    np.testing.assert_allclose(doubled.theta, plain.theta, rtol=1e-7)
    np.testing.assert_allclose(doubled.cost, 2 * plain.cost, rtol=1e-10)
    residual = residual_stack(form, plain.theta, small, objective)[0, -1]
    size = np.abs(residual)
    rho = np.where(size <= 0.02, size**2, 2 * 0.02 * size - 0.02**2)
    np.testing.assert_allclose(plain.cost[0], rho.sum(), rtol=1e-6)


@pytest.mark.parametrize("law", ["eq2", "dip"])
def test_packed_points_are_solved_as_each_alone(small, law):
    form = build_form(law, small, "error")
    member = np.random.default_rng(6).random((8, len(small))) < 0.4
    start = starts(form)[0]
    longest = int(member.sum(axis=1).max())
    rows = np.argsort(~member, axis=1, kind="stable")[:, :longest]
    own, weights = small.packed(rows), np.take_along_axis(member, rows, axis=1).astype(float)
    assert own.error.ndim == 2
    together = solve(form, own, np.tile(start, (8, 1)), weights=weights, tolerance=1e-10)
    alone = [solve(form, small.rows(row), start[None], tolerance=1e-10) for row in member]
    np.testing.assert_allclose(together.theta, np.concatenate([one.theta for one in alone]), atol=1e-6)
    np.testing.assert_allclose(together.cost, np.concatenate([one.cost for one in alone]), rtol=1e-6)


def test_bounds_are_respected_and_reported(small):
    form = build_form("eq2", small, "error")
    lower, upper = bounds(form)
    outside = np.vstack([lower - 5, upper + 5])
    found = solve(form, small, outside, max_iterations=1)
    assert (found.theta >= lower).all()
    assert (found.theta <= upper).all()
    # Errors that fall as the network is pruned pull γ to its bound.
    falling = replace(small, error=small.unpruned[small.configuration] * small.density**0.2)
    found = solve(form, falling, starts(form)[0][None])
    assert (found.theta >= lower).all()
    assert (found.theta <= upper).all()
    assert (found.at_lower | found.at_upper).any()


def test_an_unfinished_search_says_so(small):
    form = build_form("eq2", small, "error")
    found = solve(form, small, bounds(form)[1][None], max_iterations=2)
    assert not found.converged.any()
    assert found.iterations == 2


@pytest.mark.parametrize("size", [3, 7], ids=["few-rows", "most-rows"])
def test_parts_fitted_together_are_those_fitted_alone(size):
    """Parts with few rows in common are packed, others share all rows with weights."""
    points = measured(read(planted(configurations=9, replicates=1))).points
    parts = [np.sort(np.random.default_rng(seed).permutation(9)[:size]) for seed in range(4)]
    forms = [build_form("eq2", points.of(part), "error") for part in parts]
    members = np.array([np.isin(points.configuration, part) for part in parts])
    together = solve_parts(forms, points, members, [starts(form) for form in forms])
    for part, form, theta in zip(parts, forms, together, strict=True):
        alone = solve(form, points.of(part), starts(form))
        np.testing.assert_allclose(theta, alone.theta[alone.cost.argmin()], atol=1e-5)
