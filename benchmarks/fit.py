"""How fast the law is fitted, compared with scipy and lmfit: `make bench` or `python benchmarks/fit.py`.

One core, 4,301 planted points of 152 configurations. scipy and lmfit get the residual a careful user would
write for them, the same bounds, the same starts, and their own default finite differences.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from statistics import median
from time import process_time

import lmfit
import numpy as np
from planted_tables import planted
from rich.console import Console
from rich.table import Table as Grid
from scipy.optimize import least_squares

from prunecast.laws import (
    DEFAULT_LAW,
    Floats,
    Points,
    PruningForm,
    bounds,
    build_form,
    measured,
    solve,
    solver,
)
from prunecast.laws import starts as first_guesses
from prunecast.table import read

SEED_OF_4301_ROWS = 88
RANDOM_STARTS, REFITS, LOOPED = 20, 1000, 100
TIGHT = 1e-15
Residual = Callable[[Floats], Floats]


def natural_residual(points: Points) -> Residual:
    """δ = (ε̂ − ε)/ε of Eq. 2 as one writes it in numpy, in log ε↑, log γ, log p′, φ, ψ."""
    index = points.configuration
    error, density, unpruned = points.error, points.density, points.unpruned[index]
    depth, width = (points.depth / points.reference_depth)[index], points.width[index]

    def residual(theta: Floats) -> Floats:
        high, gamma, p = np.exp(theta[:3])
        m = depth ** theta[3] * width ** theta[4] * density
        ratio = (m**2 + p**2 * (high / unpruned) ** (2 / gamma)) / (m**2 + p**2)
        return np.asarray(unpruned * ratio ** (gamma / 2) / error - 1)

    return residual


def by_scipy(residual: Residual, form: PruningForm, start: Floats) -> Floats:
    return np.asarray(least_squares(residual, start, bounds=bounds(form)).x)


def by_lmfit(residual: Residual, form: PruningForm, start: Floats) -> Floats:
    lower, upper = bounds(form)
    names = [parameter.name for parameter in form.parameters]
    parameters = lmfit.Parameters()
    for name, value, low, high in zip(names, start, lower, upper, strict=True):
        parameters.add(name, value=value, min=low, max=high)

    def of_parameters(current: lmfit.Parameters) -> Floats:
        return residual(np.array([current[name].value for name in names]))

    found = lmfit.minimize(of_parameters, parameters)
    return np.array([found.params[name].value for name in names])


def seconds(task: Callable[[], object], repeats: int) -> float:
    """The median processor time of a task, which other work on the machine disturbs least."""
    times = []
    for _ in range(repeats):
        begin = process_time()
        task()
        times.append(process_time() - begin)
    return median(times)


def reference(form: PruningForm, points: Points, start: Floats) -> Floats:
    """Scipy converged as far as it goes, with analytic derivatives."""

    def residual(theta: Floats) -> Floats:
        return np.asarray(solver.residual_stack(form, theta[None], points, solver.Objective())[0, -1])

    def slopes(theta: Floats) -> Floats:
        return np.asarray(solver.residual_stack(form, theta[None], points, solver.Objective())[0, :-1].T)

    found = least_squares(
        residual,
        start,
        jac=slopes,
        bounds=bounds(form),
        xtol=TIGHT,
        ftol=TIGHT,
        gtol=TIGHT,
    )
    return np.asarray(found.x)


def one_fit(form: PruningForm, points: Points, starts: Floats, best: Floats) -> Grid:
    """One joint fit: the law's own first guess, and the median over random starts that all can use."""
    residual = natural_residual(points)
    solvers: dict[str, Callable[[Floats], Floats]] = {
        "prunecast": lambda start: solve(form, points, start[None]).theta[0],
        "scipy least_squares": lambda start: by_scipy(residual, form, start),
        "lmfit": lambda start: by_lmfit(residual, form, start),
    }
    grid = Grid("one joint fit", "start", "ms", "of ours", "optimum found", "differs from tight scipy")
    for label, group in (("first guess", starts[:1]), ("random", starts[1:])):
        times = {}
        for name, by in solvers.items():
            times[name] = median(seconds(partial(by, start), 5) for start in group)
            found = np.array([by(start) for start in group])
            apart = np.abs(found / best - 1).max(axis=1)
            reached = apart < 1e-3
            grid.add_row(
                name,
                f"{label} ({len(group)})",
                f"{1e3 * times[name]:.2f}",
                f"{times[name] / times['prunecast']:.1f}x",
                f"{reached.sum()} of {len(group)}",
                f"{apart[reached].max():.0e}" if reached.any() else "-",
            )
    return grid


def resamples(points: Points, count: int) -> Floats:
    """Row weights of resamples of whole configurations."""
    rng = np.random.default_rng(1)
    whole = points.configurations
    drawn = rng.multinomial(whole, np.full(whole, 1 / whole), count).astype(float)
    return drawn[:, points.configuration]


def refit(form: PruningForm, points: Points, start: Floats, weights: Floats) -> Floats:
    """The optimum under each row of weights, all from the optimum without weights, near which they end."""
    centre = solve(form, points, start[None]).theta
    starts = np.tile(centre, (len(weights), 1))
    return solve(form, points, starts, weights=weights, damping=1e-6, tolerance=3e-6).theta


def many_refits(form: PruningForm, points: Points, cold: Floats, best: Floats) -> Grid:
    """Refits of configuration resamples: ours as one batch, scipy in a loop over weighted residuals."""
    weights = resamples(points, REFITS)
    residual = natural_residual(points)

    def weighted(root: Floats, theta: Floats) -> Floats:
        return root * residual(theta)

    def loop(start: Floats) -> Floats:
        roots = np.sqrt(weights[:LOOPED])
        return np.array([by_scipy(partial(weighted, root), form, start) for root in roots])

    grid = Grid(f"{REFITS:,} refits of resamples", "start", "s", "of ours", "largest difference")
    for label, start in (("cold", cold), ("warm", best)):
        ours = seconds(partial(refit, form, points, start, weights), 3)
        theirs = seconds(partial(loop, start), 1) * REFITS / LOOPED
        found = refit(form, points, start, weights)[:LOOPED]
        apart = np.abs(found / loop(start) - 1).max()
        grid.add_row("prunecast", label, f"{ours:.2f}", "1.0x", "")
        grid.add_row("scipy in a loop", label, f"{theirs:.2f}", f"{theirs / ours:.1f}x", f"{apart:.0e}")
    return grid


def main() -> None:
    points = measured(read(planted(seed=SEED_OF_4301_ROWS))).points
    form = build_form(DEFAULT_LAW, points, "error")
    lower, upper = bounds(form)
    spread = np.random.default_rng(0).uniform(lower, upper, (RANDOM_STARTS, len(lower)))
    starts = np.vstack([first_guesses(form)[:1], spread])
    best = reference(form, points, solve(form, points, starts[:1]).theta[0])
    console = Console(width=120)
    console.print(f"{len(points):,} points of {points.configurations} configurations, one core")
    console.print(one_fit(form, points, starts, best))
    console.print(many_refits(form, points, starts[0], best))
    console.print(f"scipy's loop was timed over {LOOPED} resamples and scaled to {REFITS:,}.")


if __name__ == "__main__":
    if os.environ.get("OMP_NUM_THREADS") != "1":  # numpy reads it once, when it is imported
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "OMP_NUM_THREADS": "1"})
    main()
