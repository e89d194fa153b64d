"""Studies take every registered law, and every study is registered once."""

from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from planted import planted

from prunecast import studies
from prunecast.cli import cli
from prunecast.laws import FormulaLaw, Parameter, Role, register, selectable_laws, unregister
from prunecast.studies import STUDIES, extrapolation, noise, optimality, sensitivity
from prunecast.table import read

TABLE = read(planted(configurations=16, num_examples=(50_000, 12_500), noise=0.01, seed=1))


def one_bend(rows, slope, scale, width_exponent):
    """It rises without end."""
    invariant = rows.density * rows.width**width_exponent
    return rows.unpruned * (1 + (scale / invariant) ** 2) ** (slope / 2)


@pytest.fixture
def third() -> Iterator[str]:
    """A law without a high plateau, with parameters that no other law has, registered for one test."""
    register(
        FormulaLaw(
            name="third",
            title="one bend",
            equation="error = unpruned · (1 + (q/m)²)^(g/2),  m = width^s · density",
            parameters=(
                Parameter(name="slope", symbol="g", lower=0.05, upper=5, start=0.6, role=Role.SLOPE),
                Parameter(name="scale", symbol="q", lower=1e-6, upper=10, start=0.1, role=Role.SCALE),
                Parameter(
                    name="width_exponent",
                    symbol="s",
                    lower=-5,
                    upper=5,
                    positive=False,
                    role=Role.EXPONENT,
                    axis="width",
                    between_sizes=True,
                ),
            ),
            formula=one_bend,
        )
    )
    yield "third"
    unregister("third")


def test_every_study_takes_the_law(third: str) -> None:
    assert sensitivity(TABLE, law=third, repeats=2).law == third
    assert noise(TABLE, law=third).residual > 0
    best = optimality(TABLE, law=third)
    assert best.law == third
    assert best.single_curves.high_error_off is None
    assert best.single_curves.gamma_off is not None
    assert {step.law for step in extrapolation(TABLE).steps} == {*selectable_laws()}


def test_each_study_is_registered_under_its_name() -> None:
    for name, study in STUDIES.items():
        assert study.function is getattr(studies, name)
        assert study.title.endswith("?")
    assert [own.name for own in STUDIES.values() if own.takes_law] == ["sensitivity", "optimality", "noise"]
    text = CliRunner().invoke(cli, ["study", "--help"]).output
    for name, study in STUDIES.items():
        assert f"{name:14} {study.summary}" in text
