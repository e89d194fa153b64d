"""A law that a user registers answers as the built-in ones do, through numerical inversion."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from choice_tables import planted_table
from findings_of import findings_of

from prunecast import choose, fit, frontier, optimum
from prunecast.choice import Choice
from prunecast.choice.findings import AnsweredByLaw, TargetOutOfReach
from prunecast.laws import Fit, FormulaLaw, Parameter, Role, register, unregister
from prunecast.wording import sentences


def _eq2(rows: Any, high_error: Any, gamma: Any, p: Any, phi: Any, psi: Any) -> Any:
    """Eq. 2, but without its closed form for density."""
    squared = (rows.depth**phi * rows.width**psi * rows.density) ** 2
    high = p**2 * (high_error / rows.unpruned) ** (2 / gamma)
    return rows.unpruned * ((squared + high) / (squared + p**2)) ** (gamma / 2)


@pytest.fixture
def own() -> Iterator[str]:
    names = {"high_error": Role.PLATEAU, "gamma": Role.SLOPE, "p": Role.SCALE}
    law = FormulaLaw(
        name="own",
        title="my law",
        equation="Eq. 2",
        formula=_eq2,
        parameters=(
            *(Parameter(name=n, symbol=n, lower=1e-9, upper=10, role=role) for n, role in names.items()),
            Parameter.exponent("phi", "φ", "depth"),
            Parameter.exponent("psi", "ψ", "width"),
        ),
    )
    register(law)
    yield law.name
    unregister(law.name)


@pytest.fixture(scope="module")
def eq2_fit() -> Fit:
    return fit(planted_table(), law="eq2")


def _numbers(choice: Choice) -> list[float]:
    networks = (choice.answer, *choice.runners_up)
    return [value for one in networks for value in (*asdict(one).values(),) if isinstance(value, float | int)]


@pytest.mark.parametrize(
    "asked",
    [
        {"target_error": 0.2},
        {"target_error": 0.2, "confidence": 0.9, "minimise": "multiply-adds"},
        {"target_error": 0.01},
        {"max_parameters": 5_000},
        {"max_training": 0.5, "target_error": 0.3},
    ],
)
def test_it_chooses_as_the_closed_form_does(eq2_fit: Fit, own: str, asked: dict[str, Any]) -> None:
    renamed = replace(eq2_fit, law=own)
    renamed = replace(renamed, held_out={renamed.family_law: eq2_fit.held_out[eq2_fit.family_law]})
    chosen, expected = (choose(law, **asked) for law in (renamed, eq2_fit))
    assert chosen.met == expected.met
    np.testing.assert_allclose(_numbers(chosen), _numbers(expected), rtol=1e-6)
    assert findings_of(chosen, AnsweredByLaw)
    assert not findings_of(expected, AnsweredByLaw)
    said = " ".join(sentences(chosen.findings))
    assert "The answer comes from my law." in said
    assert ("My law never predicts an error below" in said) == bool(findings_of(chosen, TargetOutOfReach))


def test_its_frontier_and_optimum_are_those_of_the_closed_form(eq2_fit: Fit, own: str) -> None:
    law = replace(eq2_fit, law=own)
    line, expected = frontier(law), frontier(eq2_fit)
    np.testing.assert_allclose(line.error, expected.error)
    np.testing.assert_allclose(line.size, expected.size, rtol=2e-3)
    best, known = optimum(law, 0.2), optimum(eq2_fit, 0.2)
    assert best is not None
    assert known is not None
    assert best.paper_size == pytest.approx(known.paper_size)
    assert best.gradient < 1e-5


def test_it_is_fitted_and_asked_by_name(own: str) -> None:
    chosen = choose(planted_table(), target_error=0.2, law=own)
    assert (chosen.law, chosen.met) == (own, True)
    assert chosen.answer.error == pytest.approx(
        choose(planted_table(), target_error=0.2, law="eq2").answer.error, rel=1e-4
    )
