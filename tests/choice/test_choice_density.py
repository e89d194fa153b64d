"""The smallest density that meets an error, against brute force."""

import numpy as np
import pandas as pd
import pytest
import research_tables
from planted import planted

from prunecast.choice import (
    Inversion,
    candidates,
    choose,
    frontier,
    optimum,
    predicted_options,
    quantile,
    sizes_along,
    smallest_density,
)
from prunecast.choice.findings import TrainedTooBriefly
from prunecast.choice.optima import _Problem
from prunecast.choice.search import LEAST, log_error
from prunecast.errors import PrunecastError
from prunecast.laws import Fit, fit, predictive
from prunecast.laws.findings import NoRise, PlateauNotReached
from prunecast.table import read

TARGETS = (0.08, 0.14, 0.2, 0.3, 0.5, 0.75, 0.95)


def _candidates(fit: Fit):
    return candidates(fit, 50_000.0)


@pytest.mark.parametrize("target", TARGETS)
def test_the_smallest_density_is_the_first_on_a_fine_grid(shipped: Fit, target: float) -> None:
    networks = _candidates(shipped)
    found = smallest_density(shipped, networks, np.full(len(networks), np.log(target)))
    grid = np.geomspace(LEAST, 1.0, 4001)
    for index in range(0, len(networks), 7):
        one = networks[np.full(len(grid), index)]
        met = log_error(shipped, one, grid) <= np.log(target)
        if not met.any():
            assert found[index] == np.inf or found[index] > 0.999
        else:
            first = grid[met.argmax()]
            assert found[index] <= first * (1 + 1e-9)
            assert found[index] >= first / (grid[1] / grid[0]) * (1 - 1e-9) or met.argmax() == 0


@pytest.mark.parametrize("target", [0.2, 0.3, 0.5])
def test_the_density_found_has_the_error_asked_for(deep: Fit, target: float) -> None:
    networks = _candidates(deep)
    found = smallest_density(deep, networks, np.full(len(networks), np.log(target)))
    reached = found <= 1
    assert reached.any()
    errors = np.exp(log_error(deep, networks[reached], found[reached]))
    np.testing.assert_allclose(errors, target, rtol=1e-9)


def test_many_targets_at_once_agree_with_one_at_a_time(shipped: Fit) -> None:
    networks, targets = _candidates(shipped), np.log(TARGETS)
    together = Inversion(fit=shipped, networks=networks).approximate(targets)
    for row, target in zip(together, targets, strict=True):
        alone = smallest_density(shipped, networks, np.full(len(networks), target))
        both = np.isfinite(alone) & np.isfinite(row)
        np.testing.assert_allclose(row[both], alone[both], rtol=2e-3)
        assert (np.isfinite(alone) == np.isfinite(row)).mean() > 0.95


@pytest.mark.parametrize("target", [0.12, 0.2, 0.35])
def test_the_continuous_optimum_beats_a_fine_grid(deep: Fit, target: float) -> None:
    best = optimum(deep, target, num_examples=50_000)
    assert best is not None
    problem = _Problem(deep, float(np.log(target)), 50_000.0)
    low, high = problem.box()
    axes = [np.linspace(low[i], high[i], 61) for i in (0, 1)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    brute = np.exp(problem.log_size(grid).min())
    assert best.paper_size <= brute * (1 + 1e-9)
    assert best.paper_size > 0.9 * brute
    assert best.gradient < 1e-5
    logs = np.log([[best.depth, best.width]])
    assert np.exp(log_error(deep, problem.networks(logs), np.array([best.density])))[0] == pytest.approx(
        target
    )


@pytest.mark.parametrize("target", [0.2, 0.35, 0.5])
def test_the_optimum_of_measured_networks_is_certified(shipped: Fit, target: float) -> None:
    best = optimum(shipped, target, num_examples=50_000)
    assert best is not None
    assert best.gradient < 1e-5


def test_the_optimum_of_an_impossible_error_is_none(deep: Fit) -> None:
    assert optimum(deep, 0.001) is None


def test_the_optimum_needs_a_dense_law() -> None:
    from dataclasses import replace

    from prunecast import fit, read

    law = replace(fit(read(research_tables.path("cifar10-resnet20-24ep"))), dense=None)
    with pytest.raises(PrunecastError, match="law of the unpruned error"):
        optimum(law, 0.2)


@pytest.mark.parametrize("minimise", ["stored", "nonzero", "multiply-adds", "paper"])
def test_no_candidate_undercuts_the_frontier(deep: Fit, minimise: str) -> None:
    edge = frontier(deep, minimise=minimise, num_examples=50_000)
    assert len(edge.error) > 150
    assert (np.diff(edge.size) <= 0).all()
    networks = _candidates(deep)
    whole = sizes_along(deep, minimise, networks, np.ones(len(networks)))
    slope = whole - sizes_along(deep, minimise, networks, np.zeros(len(networks)))
    for error, size in list(zip(edge.error, edge.size, strict=True))[::20]:
        density = smallest_density(deep, networks, np.full(len(networks), np.log(error)))
        smallest = np.where(
            density <= 1, sizes_along(deep, minimise, networks, np.minimum(density, 1)), np.inf
        ).min()
        step = (slope / networks.counts.weights).max()
        assert smallest * (1 - 2e-3) <= size <= smallest * (1 + 2e-3) + step


@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("law", ["eq2", "dip"])
def test_no_size_is_lost_that_keeps_the_target_at_some_density(law: str, confidence: float) -> None:
    """A spread that changes fast with density leads the plain iteration astray."""
    four = planted(configurations=4, depths=(8, 20), widths=(0.5, 1), num_examples=(50_000,), noise=0.05)
    fitted = fit(read(four), law=law)
    networks = candidates(fitted, 50_000.0, "measured")
    score, log_targets = quantile(fitted, confidence), np.log([0.1732, 0.16])
    found, _ = Inversion(fit=fitted, networks=networks).confident_densities(log_targets, confidence)
    grid = np.geomspace(1e-3, 1.0, 300)
    promised = [predicted_options(fitted, networks, np.full(4, density)) for density in grid]
    kept = np.array([own.log_expected + score * own.spread <= log_targets[0] for own in promised])
    assert (np.isfinite(found) >= kept.any(axis=0)).all()
    first = grid[kept.argmax(axis=0)]
    assert (found <= first * 1.001)[kept.any(axis=0)].all()


def test_a_law_without_any_doubt_meets_a_target_or_not() -> None:
    """Without noise little is in doubt, so being sure of a target costs next to nothing."""
    law = fit(read(planted(configurations=6, noise=0.0)))
    assert predictive(law).scatter.noise < 1e-3
    even, sure = (choose(law, target_error=0.3, sizes="measured", confidence=c) for c in (0.5, 0.95))
    assert even.met
    assert sure.met
    assert sure.answer.probability >= 0.95 - 1e-3
    assert sure.answer.expected_error == pytest.approx(0.3, rel=3e-3)
    assert (
        even.answer.stored_parameters <= sure.answer.stored_parameters < 1.01 * even.answer.stored_parameters
    )
    missed = choose(law, target_error=0.001, sizes="measured", confidence=0.95)
    assert (missed.met, missed.answer.probability) == (False, pytest.approx(0.0, abs=1e-9))


def test_networks_that_learnt_nothing_are_told_to_train_longer() -> None:
    flat = planted(configurations=6).assign(error=0.88, chance_error=0.9)
    with pytest.raises(
        PrunecastError, match=r"hardly better than guessing \(error 0\.88, guessing 0\.9\).*train lon"
    ):
        choose(read(flat), target_error=0.5)


def test_only_trained_networks_answer_where_no_curve_rises() -> None:
    flat = planted(configurations=6).assign(error=0.3)
    fallen = flat.assign(chance_error=0.9).assign(
        error=lambda table: table["error"].where(table["density"] > table["density"].quantile(0.3), 0.9)
    )
    for table in (flat, fallen):
        found = choose(read(table), target_error=0.31)
        known = table[table["error"] < 0.9]
        assert (found.met, found.answer.source) == (True, "measured")
        assert (known["density"] == found.answer.density).any()
        assert NoRise in map(type, found.findings)
        assert not choose(read(table), target_error=0.29).met
    unknown = {"depth": 20, "width": 0.3, "num_examples": 50_000, "sizes": "around"}
    many = planted(configurations=60).assign(error=0.3)
    with pytest.raises(PrunecastError, match=r"no curve of DataFrame rises above its .*; prune further"):
        choose(read(many), target_error=0.31, **unknown)


def test_a_trained_network_above_the_guessed_plateau_is_a_candidate() -> None:
    """Errors fall by half and jump to chance: the law guesses a plateau below the unpruned error of the smallest."""
    levels = range(10)
    curves = [
        pd.DataFrame(
            {
                "density": [0.8**level for level in levels],
                "error": [error * (1 - 0.08 * level) if level < 7 else 0.9 for level in levels],
                "depth": depth,
                "width": width,
                "chance_error": 0.9,
            }
        )
        for depth in (2, 4)
        for width, error in ((0.5, 0.375), (1, 0.35))
    ]
    found = choose(read(pd.concat(curves)), target_error=0.3)
    assert not found.verdict.usable
    assert (found.answer.depth, found.answer.width) == (2, 0.5)
    assert found.answer.density == pytest.approx(0.8**6)


def _jumping(depths: tuple[int, ...] = (8, 14, 20), widths: tuple[float, ...] = (0.5, 1, 2)) -> pd.DataFrame:
    """Curves that fall far below their unpruned errors and jump to chance, so that no law is usable."""
    levels = [0.6, 0.35, 0.33, 0.9, 0.9]
    return pd.concat(
        pd.DataFrame(
            {
                "density": [0.5**level for level in range(5)],
                "error": [error * width**-0.3 if error < 0.9 else 0.9 for error in levels],
                "depth": depth,
                "width": width,
            }
        )
        for depth in depths
        for width in widths
    )


def test_no_optimum_is_given_above_a_plateau_that_the_law_guesses() -> None:
    flat = planted(configurations=12, widths=(0.25, 0.5, 1.0), depths=(8, 20), num_examples=(50_000, 12_500))
    table = read(flat[flat["level"] < 3])
    above = 1.01 * flat["error"][flat["level"] < 3].max()
    assert choose(table, target_error=above).answer.source == "measured"
    with pytest.raises(PrunecastError, match="do not show how far the error rises"):
        optimum(table, above)


def test_an_answer_by_trained_networks_is_compared_with_trained_ones() -> None:
    found = choose(read(_jumping()), target_error=0.5)
    assert not found.verdict.usable
    assert found.matching is not None
    assert (found.matching.depth, found.matching.width) == (8, 2)
    assert found.matching.pruned_size == pytest.approx(found.matching.unpruned_size / 4)


@pytest.mark.parametrize(
    ("asked", "words"), [({}, "It would pick depth"), ({"depth": 8, "width": 1}, "You asked about depth 8")]
)
def test_only_a_network_that_was_named_was_asked_about(asked: dict[str, float], words: str) -> None:
    found = choose(read(_jumping()), target_error=0.5, density=0.4, **asked)
    assert not found.trusted
    assert words in found.summary()


def test_networks_that_are_better_pruned_are_told_to_train_longer() -> None:
    """As small transformers that trained for a few epochs: errors fall to the last level before chance."""
    narrow = [0.625, 0.575, 0.6, 0.5125, 0.5875, 0.45, 0.425, 0.4875, 0.55, 0.525, 0.75, 0.75]
    wide = [0.625, 0.575, 0.475, 0.475, 0.4375, 0.425, 0.35, 0.4375, 0.4125, 0.75, 0.75, 0.75]
    curves = [
        pd.DataFrame({"density": [0.8**level for level in range(12)], "error": error, "width": width})
        for width, error in ((0.5, narrow), (1, wide))
    ]
    found = choose(read(pd.concat(curves).assign(chance_error=0.75)), target_error=0.6)
    assert (found.met, found.answer.source) == (True, "measured")
    assert TrainedTooBriefly in map(type, found.findings)


def test_a_rise_that_is_too_steep_asks_for_smaller_steps() -> None:
    error = [0.075, 0.025, 0.025, 0.0375, 0.2375, 0.525, 0.75, 0.75, 0.75]
    levels = {
        "density": [0.7**level for level in range(9)],
        "error": error,
        "width": 0.5,
        "chance_error": 0.75,
    }
    found = choose(read(pd.DataFrame(levels)), target_error=0.35)
    assert (found.answer.density, found.answer.source) == (pytest.approx(0.7**3), "measured")
    (short,) = (finding for finding in found.findings if isinstance(finding, PlateauNotReached))
    assert (short.reached_chance, short.more_levels) == (1, None)
    assert "prune in smaller steps" in found.summary()
