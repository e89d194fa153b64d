"""Answers stay within what was measured; what lies beyond is named where nothing within will do."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click
import pytest
from uneven_tables import uneven

from prunecast import choose, frontier
from prunecast.choice import choose_each
from prunecast.choice.sizes import DEFAULT_REACH
from prunecast.cli import cli
from prunecast.errors import PrunecastError
from prunecast.report import page
from prunecast.report.answers import answers
from prunecast.report.top import Asked


@pytest.mark.parametrize("asked", [choose, choose_each, frontier, page, answers, Asked])
def test_within_is_the_default_in_python(asked: Callable[..., Any]) -> None:
    assert inspect.signature(asked).parameters["sizes"].default == DEFAULT_REACH == "within"


@pytest.mark.parametrize("command", ["choose", "make", "report"])
def test_within_is_the_default_of_the_command(command: str) -> None:
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    assert [param.default for param in found.params if param.name == "sizes"] == [DEFAULT_REACH]


def test_nothing_outside_answers_unless_asked_for() -> None:
    assert choose(uneven(), target_error=0.3).answer.depth == 20
    assert choose(uneven(), target_error=0.3, sizes="around").answer.depth == 8
    assert not frontier(uneven()).extrapolated.any()
    assert {one.network.depth for one in answers(uneven(), most=9)} == {20}


@pytest.mark.parametrize(
    "asked",
    [
        {"target_error": 0.058},
        {"target_error": 0.0635, "confidence": 0.95},
        {"target_error": 0.172, "max_parameters": 4_000},
        {"target_error": 0.058, "depth": 20},
        {"target_error": 0.19, "density": 0.2, "max_parameters": 4_000},
    ],
)
def test_the_network_beyond_is_named_where_none_within_does(asked: dict[str, float]) -> None:
    chosen = choose(uneven(), **asked)
    beyond = choose(uneven(), **asked, sizes="around")
    assert (chosen.met, beyond.met, chosen.answer.extrapolated) == (False, True, False)
    assert chosen.further == beyond.answer
    best = beyond.answer
    assert chosen.notes[1] == (
        f"Beyond what was measured, depth {best.depth:g}, width {best.width:.4g}, density {best.density:.4g} is "
        f"predicted to meet it ({best.stored_parameters:,} stored parameters): --sizes around "
        '(sizes="around" in Python).'
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
        assert not any("--sizes around" in note for note in chosen.notes)


def test_a_budget_that_nothing_within_keeps() -> None:
    with pytest.raises(PrunecastError, match=r"the smallest has .*beyond what was measured: depth .* fits"):
        choose(uneven(), max_parameters=250, target_error=0.5)
    assert choose(uneven(), max_parameters=250, sizes="around").answer.stored_parameters <= 250


@pytest.mark.parametrize("width", [1.0, 4.0])
def test_beside_a_width_that_is_named_the_depth_stays_within(width: float) -> None:
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
