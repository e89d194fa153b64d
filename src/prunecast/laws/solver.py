"""Least squares for many problems at once: a bounded Levenberg-Marquardt over a batch of parameter sets.

Every set may weigh the rows differently, so a bootstrap or a leave-one-out study is one call.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prunecast.laws.law import Form, Parameter, PruningForm, bounds
from prunecast.laws.points import Floats, Integers, Mask, Points

ROWS_AT_ONCE = 1 << 16
"""Sets × rows evaluated together: small enough for the processor's cache, large enough to hide Python."""

# Allocating and freeing one large block makes glibc keep freed memory up to that size (31 MiB) for later arrays.
# Otherwise every step gets fresh pages from the system, which takes longer than the arithmetic.
np.empty(31 << 17)

MANY_ROWS, FINALISTS = 10_000, 3
"""With more rows than this, a search starts on some of them, and only its best results continue with all."""
MOST_ITERATIONS = 200
LEAST_DAMPING = 1e-12
"""If the rows leave a direction undetermined, the matrix is singular; this damping keeps the step defined."""


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What is minimised: Σ weight · ρ(residual)."""

    residual: str = "relative"
    """`relative` is δ = (ε̂ − ε)/ε as in the paper, `log` is log ε̂ − log ε"""
    huber: float | None = None
    """beyond this residual the loss grows linearly; None is plain least squares"""


@dataclass(frozen=True, kw_only=True)
class Solution:
    """The optimum from each start of a batch."""

    theta: Floats
    cost: Floats
    converged: Mask
    at_lower: Mask
    at_upper: Mask
    iterations: int


@dataclass(frozen=True)
class NormalEquations:
    """Cost, gradient and Gauss-Newton matrix of each set, from one Gram matrix of derivatives and residual."""

    gram: Floats
    excess: Floats
    """the robust loss minus the weighted sum of squares"""

    @property
    def cost(self) -> Floats:
        """Σ weight · ρ(residual)."""
        return self.gram[:, -1, -1] + self.excess

    @property
    def gradient(self) -> Floats:
        """Half the cost's gradient."""
        return self.gram[:, :-1, -1]

    @property
    def matrix(self) -> Floats:
        """JᵀWJ."""
        return self.gram[:, :-1, :-1]

    def where(self, better: Mask, other: "NormalEquations") -> "NormalEquations":
        """Take the other's entries where they are better."""
        if better.all():
            return other
        return NormalEquations(
            np.where(better[:, None, None], other.gram, self.gram),
            np.where(better, other.excess, self.excess),
        )

    def __getitem__(self, at: NDArray[Any]) -> "NormalEquations":
        return NormalEquations(self.gram[at], self.excess[at])


def residual_stack(form: Form, theta: Floats, points: Points, objective: Objective) -> Floats:
    """The derivatives of the residual and, last, the residual."""
    stack = form.stack(theta, points)
    stack[:, -1] -= points.log_error
    if objective.residual == "relative":
        stack[:, -1] = np.exp(np.minimum(stack[:, -1], 50.0))
        stack[:, :-1] *= stack[:, -1:]
        stack[:, -1] -= 1
    return stack


def _normal(stack: Floats, weights: Floats | None, objective: Objective) -> NormalEquations:
    excess = np.zeros(len(stack) if weights is None else len(weights))
    if objective.huber is not None:
        size = np.abs(stack[:, -1])
        inside = np.minimum(1.0, objective.huber / np.maximum(size, 1e-300))
        beyond = objective.huber * np.maximum(size - objective.huber, 0.0)
        excess = (beyond if weights is None else weights * beyond).sum(axis=1)
        weights = inside if weights is None else weights * inside
    if weights is None:
        # A copy, because for a matrix times its own transpose BLAS takes a path that is slow for so few rows.
        return NormalEquations(np.matmul(stack, stack.copy().transpose(0, 2, 1)), excess)
    if len(stack) == 1 < len(weights):
        return NormalEquations(_shared_gram(stack[0], weights), excess)
    return NormalEquations(np.matmul(stack * weights[:, None, :], stack.transpose(0, 2, 1)), excess)


def _shared_gram(stack: Floats, weights: Floats) -> Floats:
    """The Gram matrices of one parameter set under many weights: products of rows once, then one matmul."""
    first, second = np.triu_indices(len(stack))
    sums = weights @ (stack[first] * stack[second]).T
    gram = np.empty((len(weights), len(stack), len(stack)))
    gram[:, first, second] = gram[:, second, first] = sums
    return gram


def _evaluate(
    form: Form, theta: Floats, points: Points, weights: Floats | None, objective: Objective
) -> NormalEquations:
    size = max(1, ROWS_AT_ONCE // max(1, len(points)))
    parts = [
        _normal(
            residual_stack(form, theta[i : i + size], points.of_sets(slice(i, i + size)), objective),
            None if weights is None else weights[i : i + size],
            objective,
        )
        for i in range(0, len(theta), size)
    ]
    return NormalEquations(
        np.concatenate([part.gram for part in parts]), np.concatenate([part.excess for part in parts])
    )


def _evaluate_start(
    form: Form, theta: Floats, points: Points, weights: Floats | None, objective: Objective
) -> NormalEquations:
    """The first evaluation; sets that share one start and differ only in weights share the formula's cost."""
    shared = points.configuration.ndim == 1 and (theta == theta[0]).all()
    if weights is not None and objective.huber is None and len(theta) > 1 and shared:
        return _normal(residual_stack(form, theta[:1], points, objective), weights, objective)
    return _evaluate(form, theta, points, weights, objective)


def _step(normal: NormalEquations, damping: Floats, free: Mask) -> Floats:
    """The damped Gauss-Newton step in the free parameters; the others stay."""
    damped, gradient = normal.matrix.copy(), normal.gradient
    index = np.arange(free.shape[1])
    diagonal = damped[:, index, index]
    scale = np.maximum(diagonal, 1e-12 * diagonal.max(axis=1, keepdims=True) + 1e-300)
    diagonal += np.maximum(damping, LEAST_DAMPING)[:, None] * scale
    if not free.all():
        damped *= free[:, :, None] & free[:, None, :]
        gradient, diagonal = gradient * free, np.where(free, diagonal, 1.0)
    damped[:, index, index] = diagonal
    return -np.asarray(np.linalg.solve(damped, gradient[:, :, None])[:, :, 0], dtype=float)


def _predicted_fall(normal: NormalEquations, move: Floats) -> Floats:
    """How much the cost falls by the quadratic model."""
    slope = 2 * normal.gradient + np.matmul(normal.matrix, move[:, :, None])[:, :, 0]
    return -np.asarray((move * slope).sum(axis=1))


def solve(
    form: Form,
    points: Points,
    starts: Floats,
    *,
    weights: Floats | None = None,
    fixed: Mask | None = None,
    objective: Objective | None = None,
    limits: tuple[Floats, Floats] | None = None,
    damping: float = 1e-1,
    tolerance: float = 1e-7,
    max_iterations: int = MOST_ITERATIONS,
) -> Solution:
    """Minimise the weighted squared residuals from every start, inside the form's bounds or the `limits` of each start.

    `weights` has one row per start; `fixed` marks parameters that keep their starting value. A search has converged
    when the next step moves no parameter by more than the tolerance; that step is still taken. `damping` is that of
    the first step: choose a small one for a start near the optimum.
    """
    objective = objective or Objective()
    lower, upper = limits or bounds(form)
    theta = np.clip(np.atleast_2d(starts).astype(float), lower, upper)
    free = np.broadcast_to(True if fixed is None else ~fixed, theta.shape)

    def evaluate(active: NDArray[np.int64], candidate: Floats) -> NormalEquations:
        active_weights = None if weights is None else weights[active]
        return _evaluate(form, candidate, points.of_sets(active), active_weights, objective)

    first = _evaluate_start(form, theta, points, weights, objective)
    return iterate(
        evaluate,
        theta,
        first,
        free,
        (lower, upper),
        np.full(len(theta), float(damping)),
        tolerance,
        max_iterations,
    )


def iterate(
    evaluate: Callable[[NDArray[np.int64], Floats], NormalEquations],
    theta: Floats,
    normal: NormalEquations,
    free: Mask,
    limits: tuple[Floats, Floats],
    damping: Floats,
    tolerance: float,
    max_iterations: int,
) -> Solution:
    """Levenberg-Marquardt, projected on the bounds; `evaluate` gives the normal equations of some sets."""
    lower, upper = (np.broadcast_to(limit, theta.shape) for limit in limits)
    least, most = lower, upper
    sets = len(theta)
    cost, converged = normal.cost, np.zeros(sets, dtype=bool)
    active, here, growth, iterations = np.arange(sets), theta.copy(), np.full(sets, 2.0), 0
    while iterations < max_iterations:
        iterations += 1
        outward = np.where(normal.gradient > 0, here <= least, here >= most)
        step = _step(normal, damping, free & ~outward)
        candidate = np.minimum(np.maximum(here + step, least), most)
        small: Mask = np.asarray((np.abs(candidate - here) <= tolerance).all(axis=1))
        if small.any():
            done, go_on = active[small], ~small
            theta[done], cost[done], converged[done] = candidate[small], normal.cost[small], True
            active, here, candidate, normal = active[go_on], here[go_on], candidate[go_on], normal[go_on]
            damping, growth, free = damping[go_on], growth[go_on], free[go_on]
            least, most = least[go_on], most[go_on]
        if not len(active):
            break
        trial = evaluate(active, candidate)
        fall, predicted = normal.cost - trial.cost, _predicted_fall(normal, candidate - here)
        gain = np.minimum(fall / np.maximum(predicted, np.abs(fall) / 2 + 1e-300), 1.0)
        better = fall > 0
        here, normal = np.where(better[:, None], candidate, here), normal.where(better, trial)
        damping = damping * np.where(better, np.maximum(0.1, 1 - (2 * gain - 1) ** 3), growth)
        growth = np.where(better, 2.0, 2 * growth)
    theta[active], cost[active] = here, normal.cost
    return Solution(
        theta=theta,
        cost=cost,
        converged=converged,
        at_lower=theta <= lower,
        at_upper=theta >= upper,
        iterations=iterations,
    )


@dataclass(frozen=True, kw_only=True)
class Optimum:
    """The best parameters of a law on some points, and the problem that they solve."""

    form: PruningForm
    points: Points
    objective: Objective
    fixed: Mask
    """parameters that were not fitted"""
    theta: Floats
    cost: float

    @property
    def free(self) -> list[Parameter]:
        """The parameters that were fitted."""
        return [
            parameter for parameter, fixed in zip(self.form.parameters, self.fixed, strict=True) if not fixed
        ]

    @property
    def variance(self) -> float:
        """The cost per degree of freedom."""
        return self.cost / max(1, len(self.points) - len(self.free))

    def profile(self, columns: Integers | int, values: Floats) -> Solution:
        """The optima with one parameter fixed at each of some values, and the others refitted.

        `columns` says which parameter is fixed: one for all values, or one for each.
        """
        count, each = len(values), np.arange(len(values))
        starts, fixed = np.tile(self.theta, (count, 1)), np.tile(self.fixed, (count, 1))
        starts[each, columns] = values
        fixed[each, columns] = True
        return solve(self.form, self.points, starts, fixed=fixed, objective=self.objective)


def solve_from_best(
    form: Form,
    points: Points,
    starts: Floats,
    *,
    fixed: Mask | None = None,
    objective: Objective | None = None,
) -> Solution:
    """`solve`; with many rows, the best starts are first found on some of them."""
    if len(points) > MANY_ROWS:
        part = points.rows(np.arange(len(points)) % (len(points) // MANY_ROWS + 1) == 0)
        found = solve(form, part, starts, fixed=fixed, objective=objective)
        starts = found.theta[np.argsort(found.cost)[:FINALISTS]]
    return solve(form, points, starts, fixed=fixed, objective=objective)


def solve_parts(
    forms: Sequence[Form],
    points: Points,
    members: Mask,
    starts: Sequence[Floats],
    *,
    max_iterations: int = MOST_ITERATIONS,
) -> list[Floats]:
    """The best parameters for each of several parts of the points.

    Args:
        forms: one law, built for each part.
        points: all points.
        members: which rows belong to each part, shape (parts, rows).
        starts: where the searches for each part begin, each of shape (starts, parameters).
        max_iterations: where the search stops in a valley that is flat.

    Parts that determine the same parameters, with equally many starts, are solved in one call.
    """
    alike: dict[tuple[object, ...], list[int]] = {}
    for index, form in enumerate(forms):
        names = (parameter.name for parameter in form.parameters)
        alike.setdefault((len(starts[index]), *names), []).append(index)
    found: dict[int, Floats] = {}
    for group in alike.values():
        begin = np.array([starts[index] for index in group])
        parts, tries, size = begin.shape
        own, weights = _points_of_parts(points, np.repeat(members[group], tries, axis=0))
        lower, upper = (
            np.repeat(side, tries, axis=0)
            for side in zip(*(bounds(forms[index]) for index in group), strict=True)
        )
        solved = solve(
            forms[group[0]],
            own,
            begin.reshape(-1, size),
            weights=weights,
            limits=(lower, upper),
            max_iterations=max_iterations,
        )
        best = solved.cost.reshape(parts, tries).argmin(axis=1)
        found |= zip(group, solved.theta.reshape(begin.shape)[np.arange(parts), best], strict=True)
    return [found[index] for index in range(len(forms))]


def _points_of_parts(points: Points, members: Mask) -> tuple[Points, Floats]:
    """The points of all parts, and the weights that each part gives them; small parts get points of their own."""
    used, longest = np.asarray(members.any(axis=0)), int(members.sum(axis=1).max())
    if 2 * longest < used.sum():
        first = np.argsort(~members, axis=1, kind="stable")[:, :longest]
        return points.packed(first), np.take_along_axis(members, first, axis=1).astype(float)
    return points.rows(used), members[:, used].astype(float)


def find_optimum(
    form: PruningForm, points: Points, starts: Floats, fixed: Mask, objective: Objective
) -> Optimum:
    """The best optimum from several starts."""
    found = solve_from_best(form, points, starts, fixed=fixed, objective=objective)
    best = int(found.cost.argmin())
    return Optimum(
        form=form,
        points=points,
        objective=objective,
        fixed=fixed,
        theta=found.theta[best],
        cost=float(found.cost[best]),
    )
