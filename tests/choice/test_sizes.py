"""Answers stay within what was measured unless more is asked for, and say where they do not."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click
import numpy as np
import pytest
from choice_tables import uneven, uneven_table
from findings_of import findings_of

from prunecast import choose, fit, frontier
from prunecast.choice import DEFAULT_SIZES, candidates, inside, question_for
from prunecast.choice.findings import (
    MeasuredPair,
    MeasuredRange,
    NetworkBeyondMeasured,
    OutsideMeasured,
    TargetOutOfReach,
)
from prunecast.cli import cli
from prunecast.errors import PrunecastError
from prunecast.laws import AXES, outside
from prunecast.report import page
from prunecast.report.answers import answers

SHALLOW = MeasuredPair(axes=("depth", "num_examples"), values=(8, 50_000), sides=(-1, 1), reach=12_500)
"""Depth 8 was trained on 12,500 examples at most."""


def test_outside_is_what_lies_further_out_than_anything_measured_on_two_axes() -> None:
    """Against the definition, on random places and random measurements."""
    random = np.random.default_rng(0)
    template = uneven().configurations[0]
    for _ in range(20):
        known = random.integers(1, 6, (6, 3)).astype(float)
        places = random.integers(1, 7, (40, 3)).astype(float)
        own = tuple(replace(template, **dict(zip(AXES, row, strict=True))) for row in known)
        found = outside(replace(uneven(), configurations=own), dict(zip(AXES, places.T, strict=True)))
        expected = [
            any(
                not any(np.all(signs * (row[pair] - place[pair]) >= 0) for row in known)
                for pair in ([0, 1], [0, 2], [1, 2])
                for signs in map(np.array, ([-1, -1], [-1, 1], [1, -1], [1, 1]))
            )
            for place in places
        ]
        assert found.tolist() == expected
        assert not outside(replace(uneven(), configurations=own), dict(zip(AXES, known.T, strict=True))).any()


def test_a_depth_that_was_never_trained_on_so_many_examples() -> None:
    chosen = choose(uneven(), target_error=0.2, depth=8)
    assert chosen.answer.extrapolated
    (where,) = findings_of(chosen, OutsideMeasured)
    assert where.pairs == (SHALLOW,)
    assert not where.avoidable  # this depth was asked for
    few = choose(uneven(), target_error=0.2, depth=8, num_examples=12_500)
    assert not few.answer.extrapolated
    assert not findings_of(few, OutsideMeasured)
    asked = {"width": 1, "unpruned_error": 0.1}
    assert uneven().predict(0.5, depth=8, num_examples=50_000, **asked).extrapolated
    assert not uneven().predict(0.5, depth=20, num_examples=50_000, **asked).extrapolated
    alone = fit(uneven_table(), law="eq2")  # of which the number of examples is no part
    assert not alone.predict(0.5, depth=8, **asked).extrapolated


def test_the_answer_the_page_and_the_frontier_say_so() -> None:
    wide = choose(uneven(), target_error=0.3, sizes="around")
    assert (wide.answer.depth, wide.answer.extrapolated) == (8, True)
    (where,) = findings_of(wide, OutsideMeasured)
    assert (where.pairs, where.ranges, where.density, where.avoidable) == ((SHALLOW,), (), None, True)
    said = "depth 8 with 50,000 examples (depths up to 8 were measured"
    assert said in page(uneven_table(), sizes="around", studies=False).html
    line = frontier(uneven(), sizes="around")
    assert line.extrapolated[line.depth < 20].all()


@pytest.mark.parametrize("sizes", ["measured", "within"])
@pytest.mark.parametrize(
    ("num_examples", "depths"),
    [(50_000, {20}), (30_000, {20}), (100_000, {20}), (12_500, {8, 14, 20}), (5_000, {8, 14, 20})],
)
def test_within_leaves_out_what_is_outside(sizes: str, num_examples: float, depths: set[int]) -> None:
    """Beyond the measured numbers of examples, the nearest that was measured counts."""
    found = inside(uneven(), candidates(uneven(), num_examples, sizes), sizes)
    assert set(found.depth) == ({8, 20} & depths if sizes == "measured" else depths)
    assert found.outside.all() == (num_examples not in (50_000, 30_000, 12_500))
    assert {
        c.answer.depth
        for c in answers(uneven(), question_for(uneven(), num_examples=num_examples, sizes=sizes), 9)
    } <= depths
    assert choose(uneven(), max_training=9, num_examples=num_examples, sizes=sizes, depth=8).answer.depth == 8


def test_more_examples_than_were_measured() -> None:
    (where,) = findings_of(choose(uneven(), target_error=0.2, num_examples=1_000_000), OutsideMeasured)
    assert where.ranges == (
        MeasuredRange(axis="num_examples", value=1_000_000, lowest=12_500, highest=50_000),
    )
    assert not where.avoidable


def test_where_no_size_spans_the_number_of_examples() -> None:
    kept = [c for c in uneven().configurations if (c.depth == 8) == (c.num_examples == 12_500)]
    apart = replace(uneven(), configurations=tuple(kept))
    with pytest.raises(
        PrunecastError,
        match=r"no size was trained both on fewer and on more than 30,000 examples.*choose for a measured number "
        r"\(12,500, 50,000\), or use --sizes around \(sizes=\"around\" in Python\) to allow other sizes",
    ):
        choose(apart, target_error=0.2, num_examples=30_000)
    assert choose(apart, target_error=0.2, num_examples=30_000, sizes="around").answer.extrapolated


@pytest.mark.parametrize("asked", [choose, question_for, frontier, page])
def test_within_is_the_default_in_python(asked: Callable[..., Any]) -> None:
    assert inspect.signature(asked).parameters["sizes"].default == DEFAULT_SIZES == "within"


@pytest.mark.parametrize("command", ["choose", "make", "report"])
def test_within_is_the_default_of_the_command(command: str) -> None:
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    assert [param.default for param in found.params if param.name == "sizes"] == [DEFAULT_SIZES]


def test_nothing_outside_answers_unless_asked_for() -> None:
    assert choose(uneven(), target_error=0.3).answer.depth == 20
    assert choose(uneven(), target_error=0.3, sizes="around").answer.depth == 8
    assert not frontier(uneven()).extrapolated.any()
    assert {one.answer.depth for one in answers(uneven(), question_for(uneven()), 9)} == {20}


@pytest.mark.parametrize(
    "asked",
    [
        {"target_error": 0.058},
        {"target_error": 0.0635, "confidence": 0.95},
        {"target_error": 0.1754, "max_parameters": 4_000},
        {"target_error": 0.058, "depth": 20},
        {"target_error": 0.1989, "density": 0.2, "max_parameters": 4_000},
    ],
)
def test_the_network_beyond_is_named_where_none_within_does(asked: dict[str, float]) -> None:
    chosen = choose(uneven(), **asked)
    beyond = choose(uneven(), **asked, sizes="around")
    assert (chosen.met, beyond.met, chosen.answer.extrapolated) == (False, True, False)
    assert chosen.further == beyond.answer
    best = beyond.answer
    assert isinstance(chosen.findings[0], TargetOutOfReach)
    assert chosen.findings[1] == NetworkBeyondMeasured(
        depth=best.depth,
        width=best.width,
        density=best.density,
        stored_parameters=best.stored_parameters,
        share_of_largest=None,
    )


def test_none_is_named_where_none_is_needed_or_none_is_there() -> None:
    for asked in (
        {"target_error": 0.3},
        {"target_error": 0.01},
        {"target_error": 0.058, "sizes": "measured"},
        {"target_error": 0.01, "sizes": "around"},
    ):
        chosen = choose(uneven(), **asked)
        assert chosen.further is None
        assert not findings_of(chosen, NetworkBeyondMeasured)


def test_a_budget_that_nothing_within_keeps() -> None:
    with pytest.raises(PrunecastError, match=r"the smallest has .*outside the measured range, depth .* fits"):
        choose(uneven(), max_parameters=250, target_error=0.5)
    assert choose(uneven(), max_parameters=250, sizes="around").answer.stored_parameters <= 250


@pytest.mark.parametrize("width", [1.0, 4.0])
def test_with_a_width_given_the_depth_stays_within(width: float) -> None:
    """With 50,000 examples depth 8 was not trained, so it is no answer; a depth that is named may be any."""
    assert choose(uneven(), target_error=0.3, width=width).answer.depth == 20
    assert choose(uneven(), target_error=0.3, width=width, sizes="around").answer.depth == 8
    assert choose(uneven(), target_error=0.3, width=width, depth=8).answer.depth == 8


def test_a_width_between_the_steps_is_among_the_candidates() -> None:
    """Beyond the measured numbers of examples it may be the only one within."""
    few = [c for c in uneven().configurations if c.num_examples == 12_500]
    many = next(c for c in uneven().configurations if c.num_examples == 50_000)
    odd = replace(uneven(), configurations=(*few, replace(many, width=0.3)))
    assert choose(odd, target_error=0.3, num_examples=100_000).answer.width == 0.3
