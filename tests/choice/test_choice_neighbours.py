"""No recommendation is contradicted by what was measured next to it, and every way to ask gives the same one."""

from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import research_tables
from choice_tables import misses

from prunecast import choose, fit, read
from prunecast.choice import Network, choose_each
from prunecast.laws import Configuration, Fit

MEASURED = str(research_tables.path("cifar10-resnet20-24ep"))
TARGETS = np.geomspace(0.13, 0.8, 40)


@cache
def fitted(law: str) -> Fit:
    return fit(read(MEASURED), law=law)


def trained(law: Fit, network: Network) -> Configuration | None:
    """The measured size that a network has, if any."""
    same = (network.depth, network.width, network.num_examples)
    return next((c for c in law.configurations if (c.depth, c.width, c.num_examples) == same), None)


@pytest.mark.parametrize(
    ("law", "confidence", "sizes"),
    [("auto", 0.8, "within"), ("auto", 0.2, "measured"), ("eq2", 0.5, "within")],
)
def test_no_answer_is_refuted_by_its_measured_neighbours(law: str, confidence: float, sizes: str) -> None:
    """With little confidence asked for, the predictions alone would allow more."""
    compared = 0
    for choice in choose_each(fitted(law), TARGETS, confidence=confidence, sizes=sizes):
        for network in (choice.answer, *choice.runners_up) if choice.met else ():
            size = trained(fitted(law), network)
            if size is not None:
                compared += 1
                assert not misses(size, network.density, choice.question.target_error), network
    assert compared >= len(TARGETS) / 4


def test_a_row_that_misses_refutes_what_lies_between_it_and_another() -> None:
    """The densities next to a measured row that meets the target are not refuted, and all others are."""
    law = fitted("eq2")
    size = next(c for c in law.configurations if (c.width, c.num_examples) == (1, 50_000))
    rising = sorted(size.curve)
    target = (rising[3][1] + rising[4][1]) / 2
    between = [np.sqrt(a[0] * b[0]) for a, b in pairwise(rising[2:6])]
    assert [misses(size, density, target) for density in between] == [True, False, False]
    asked = {"depth": 20, "width": 1, "target_error": target, "confidence": 0.01}
    met = [choose(law, density=density, **asked).met for density in between]
    assert met == [False, True, True]


@pytest.mark.parametrize("asked", [{"target_error": 0.2}, {"target_error": 0.3, "num_examples": 6250}])
def test_a_table_its_law_and_the_saved_law_give_the_same_network(
    tmp_path: Path, asked: dict[str, float]
) -> None:
    law, saved = fitted("auto"), tmp_path / "law.json"
    law.save(saved)
    first, *others = (choose(source, **asked) for source in (MEASURED, read(MEASURED), law, saved))
    for other in others:
        assert (other.law, other.met, other.verdict.trust) == (first.law, first.met, first.verdict.trust)
        mine, own = first.answer, other.answer
        assert (own.depth, own.width, own.level, own.source) == (
            mine.depth,
            mine.width,
            mine.level,
            mine.source,
        )
        assert own.stored_parameters == pytest.approx(mine.stored_parameters, rel=1e-3)
        assert own.interval == pytest.approx(mine.interval, rel=1e-3)
