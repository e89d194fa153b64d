"""Choices with a depth, a width or a density held, down to one named network."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import research_tables
from planted import law_error, planted, unpruned_error

from prunecast import choose, fit, read
from prunecast.choice import kept_per_level
from prunecast.errors import PrunecastError
from prunecast.laws import Fit


def test_a_named_network_is_what_predict_says(shipped: Fit) -> None:
    named = choose(shipped, depth=20, width=0.3, density=0.1).answer
    assert (named.depth, named.width, named.unpruned_source) == (20, 0.3, "predicted")
    assert named.density == pytest.approx(0.1, abs=1e-4)
    told = shipped.predict(named.density, width=0.3, num_examples=50_000)
    # `choose` counts the weights, `predict` interpolates them, and the dense law depends on them.
    assert named.error == pytest.approx(float(told.error), rel=3e-3)
    assert named.probability is None


def test_a_measured_size_keeps_its_own_unpruned_error(shipped: Fit) -> None:
    named = choose(shipped, depth=20, width=0.5, density=0.5).answer
    known = next(c for c in shipped.configurations if (c.width, c.num_examples) == (0.5, 50_000))
    assert (named.unpruned_error, named.unpruned_source) == (known.unpruned_error, "measured")
    assert named.expected_unpruned_error == pytest.approx(known.unpruned_error, rel=0.05)


def test_what_is_held_is_kept_and_costs_no_less(deep: Fit) -> None:
    free = choose(deep, target_error=0.2, num_examples=50_000).answer
    for held in ({"depth": 14}, {"width": 0.5}, {"depth": 50, "width": 1.0}):
        own = choose(deep, target_error=0.2, num_examples=50_000, **held).answer
        assert {name: getattr(own, name) for name in held} == held
        assert own.stored_parameters >= free.stored_parameters
        assert own.expected_error < 0.2
        assert own.probability == pytest.approx(0.8, abs=0.02)
        even = choose(deep, target_error=0.2, num_examples=50_000, confidence=0.5, **held).answer
        assert even.expected_error == pytest.approx(0.2, rel=1e-2)
        assert even.stored_parameters < own.stored_parameters
    same = choose(deep, target_error=0.2, num_examples=50_000, depth=free.depth, width=free.width).answer
    assert same.probability == pytest.approx(free.probability, rel=1e-12)  # summed in another order
    assert replace(same, probability=free.probability) == free


def test_at_a_held_density_the_smallest_network_that_meets_the_target(deep: Fit) -> None:
    held = choose(deep, target_error=0.2, density=0.05, num_examples=50_000)
    assert held.met
    assert held.matching is None
    assert held.answer.density == pytest.approx(0.05, rel=1e-2)
    assert held.answer.error <= 0.2 * (1 + 1e-6)
    assert all(one.stored_parameters >= held.answer.stored_parameters for one in held.runners_up)
    impossible = choose(deep, target_error=0.2, density=1e-5, num_examples=50_000)
    assert not impossible.met


def test_levels_are_counted_in_whole_weights() -> None:
    """In a network of 1,384 weights rounding takes level 6 to 361 of them, below 0.8^6."""
    frame = read(research_tables.path("cifar10-resnet20-24ep")).frame
    law = fit(read(frame.assign(family="mine", weights=1384.0, nonzero=(1384 * frame["density"]).round())))
    surviving = 1384
    for level in range(12):
        one = choose(law, width=1.0, density=surviving / 1384).answer
        assert one.level == level
        surviving -= -(-surviving // 5)
    assert np.log(361 / 1384) / np.log(0.8) > 6.01


def test_levels_of_relative_sizes_are_not_rounded_to_whole_weights() -> None:
    """Without counts a network has the size depth · width², which may be 1."""
    frame = planted(configurations=3, depths=(20,), widths=(0.25, 0.5, 1), num_examples=(50_000,))
    law = fit(read(frame[["width", "density", "error"]]))
    for level in (1, 2, 5):
        assert choose(law, width=1.0, density=0.8**level).answer.level == level


@pytest.mark.parametrize(("kept", "levels"), [(0.512, 4), (0.64, 6), (2 / 3, 6), (0.9, 12)])
def test_levels_are_those_of_the_table(kept: float, levels: int) -> None:
    """At 51.2% per level a density takes a third of the levels that it takes at 80%, and so does its training."""
    frame = planted(configurations=12, num_examples=(50_000,), noise=0.01)
    share = kept ** frame["level"].to_numpy()
    frame = frame.assign(density=share, nonzero=(frame["weights"] * share).round(), error=0.0)
    frame["error"] = np.where(frame["level"] > 0, law_error(frame), unpruned_error(frame))
    law = fit(read(frame[share > 1e-3]))
    size = law.configurations[0]
    one = choose(law, depth=size.depth, width=size.width, density=kept**levels).answer
    assert (one.level, one.training_runs) == (levels, levels + 1)
    whole = choose(law, depth=size.depth, width=size.width, density=1.0).answer
    assert one.training_cost == pytest.approx((levels + 1) * whole.training_cost)


@pytest.mark.parametrize(
    ("shown", "exact"),
    [(0.8, "4/5"), (0.512, "64/125"), (0.667, "2/3"), (0.333, "1/3"), (1.0, "999/1000"), (1e-5, "1/1000")],
)
def test_a_share_per_level_is_an_exact_fraction(eq2: Fit, shown: float, exact: str) -> None:
    assert kept_per_level(replace(eq2, kept_per_level=shown)) == Fraction(exact)


def test_a_training_budget_reaches_as_far_as_the_levels_of_the_table() -> None:
    frame = planted(configurations=12, num_examples=(50_000,), noise=0.01)
    third = frame[frame["level"] % 3 == 0].assign(level=lambda rows: rows["level"] // 3)
    fine, coarse = (choose(read(own), max_training=0.03, target_error=0.3).answer for own in (frame, third))
    assert max(fine.training_cost, coarse.training_cost) <= 0.03
    assert coarse.stored_parameters < 0.9 * fine.stored_parameters


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"density": 1.2}, "at most 1, not 1.2"),
        ({"density": 0.5, "depth": 21}, "no depth 21"),
        ({"density": 0.5, "width": -1.0}, "width must be a positive number, not -1"),
        ({"density": 0.5, "width": 1e-300}, r"width must be from 1e-12 to 1e\+15, not 1e-300"),
        ({"density": 0.5, "depth": 1e300}, r"depth must be from 1e-12 to 1e\+15, not 1e\+300"),
        ({"density": 1e-300}, r"density must be from 1e-12 to 1e\+15, not 1e-300"),
        (
            {"density": 0.5, "num_examples": 1e-300},
            r"the number of examples must be from 1e-12 to 1e\+15, not 1e-300",
        ),
    ],
)
def test_mistakes_are_one_sentence(eq2: Fit, asked: dict, message: str) -> None:
    with pytest.raises(PrunecastError, match=message) as caught:
        choose(eq2, **asked)
    assert "\n" not in str(caught.value)
