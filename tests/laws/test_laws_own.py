"""Laws that users add: refused with a sentence where they cannot work, fitted like any other where they can."""

import numpy as np
import pytest
from findings_of import findings_of
from planted import planted

from prunecast.errors import PrunecastError
from prunecast.laws import (
    FormulaLaw,
    Parameter,
    Role,
    compare,
    fit,
    get_law,
    measured,
    register,
    selectable_laws,
    unregister,
)
from prunecast.laws.findings import AtBound
from prunecast.table import read

OURS = ("eq2", "dip", "sharp", "sharp-dip")


def parameter(**changes):
    return Parameter(**{"name": "a", "symbol": "a", "lower": 0.1, "upper": 10.0, **changes})


def law(formula=lambda rows, a: rows.unpruned * rows.density**-a, parameters=(parameter(),), **changes):
    texts = {"name": "own", "title": "an own law", "equation": "error = unpruned · density^−a", **changes}
    return FormulaLaw(formula=formula, parameters=parameters, **texts)


@pytest.fixture(autouse=True)
def _no_own_law_stays():
    before = selectable_laws()
    yield
    for name in set(selectable_laws()) - set(before):
        unregister(name)
    assert selectable_laws() == before


REFUSED = {
    "range": (
        {"parameters": (parameter(lower=2.0, upper=0.5),)},
        "The law 'own', parameter 'a': lower is 2, but it must be less than upper, which is 0.5.",
    ),
    "no range": (
        {"parameters": (parameter(lower=float("nan")),)},
        "The law 'own', parameter 'a': lower is nan, but it must be less than upper, which is 10.",
    ),
    "zero": (
        {"parameters": (parameter(lower=0.0),)},
        "The law 'own', parameter 'a': lower is 0, but it must be above 0 unless the parameter has positive=False.",
    ),
    "start": (
        {"parameters": (parameter(start=20.0),)},
        "The law 'own', parameter 'a': start is 20, but it must be between lower and upper, 0.1 and 10.",
    ),
    "axis": (
        {"parameters": (Parameter.exponent("a", "a", "height"),)},
        "The law 'own', parameter 'a': axis is 'height', but the axis of an exponent must be depth, width or "
        "num_examples.",
    ),
    "axis of no exponent": (
        {"parameters": (parameter(axis="depth"),)},
        "The law 'own', parameter 'a': it has an axis, but only exponents do; make it a Parameter.exponent.",
    ),
    "no parameters": (
        {"parameters": ()},
        "The law 'own' has no parameters, so there is nothing to fit; add one.",
    ),
    "twice": (
        {"parameters": (parameter(), parameter())},
        "The law 'own' has 2 parameters called 'a'; rename one.",
    ),
    "reserved name": ({"name": "auto"}, "A law cannot be called 'auto'; choose another name."),
    "name with a colon": ({"name": "my:law"}, "A law cannot be called 'my:law'; choose another name."),
    "unknown argument": (
        {
            "formula": lambda rows, gama: rows.density**-gama,
            "parameters": (parameter(name="gamma"), parameter(name="p")),
        },
        "The formula of the law 'own' takes 'gama', but the law's parameters are gamma and p. Did you mean gamma?",
    ),
    "missing argument": (
        {"formula": lambda rows, a: rows.density**-a, "parameters": (parameter(), parameter(name="b"))},
        "The formula of the law 'own' does not take the parameter 'b'; add it as an argument, or remove the parameter.",
    ),
    "unused parameter": (
        {"formula": lambda rows, a: rows.unpruned},
        "The formula of the law 'own' does not depend on the parameter 'a'; remove the parameter, or use it.",
    ),
    "unknown column": (
        {"formula": lambda rows, a: rows.sparsity**a},
        "The formula of the law 'own' cannot be evaluated: rows have no 'sparsity'; they have density, depth, width, "
        "num_examples, weights and unpruned",
    ),
    "no positive number": (
        {"formula": lambda rows, a: np.log(-a) * rows.density},
        "The formula of the law 'own' does not give a positive number for any row with any parameters; check its "
        "logarithms, roots and powers.",
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_law_that_cannot_work_is_refused_when_it_is_made(reason):
    changes, message = REFUSED[reason]
    with pytest.raises(PrunecastError) as caught:
        law(**changes)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        (
            lambda rows, a: np.sin(a) * rows.density,
            r"numpy\.sin cannot be differentiated here; use absolute, add, ",
        ),
        (lambda rows, a: np.clip(a * rows.density, 0, 1), r"numpy\.clip cannot be differentiated here; use "),
        (lambda rows, a: float(a) * rows.density, "must be a string or a real number, not 'Dual'"),
    ],
)
def test_a_formula_that_cannot_be_differentiated_is_refused(formula, reason):
    with pytest.raises(
        PrunecastError, match=f"^The formula of the law 'own' cannot be evaluated: .*{reason}"
    ):
        law(formula)


def test_a_law_that_has_no_number_for_a_table_is_refused_there_and_harms_no_other_law():
    """Its formula needs deep networks, and the table has shallow ones."""
    register(law(lambda rows, a: np.log(rows.depth / 16) * a * rows.density**-a))
    table = read(planted(configurations=6, depths=(8, 14), seed=1))
    with pytest.raises(
        PrunecastError, match=r"^The formula of the law 'own' does not give a positive number"
    ):
        fit(table, law="own")
    found = fit(table)
    assert set(found.held_out) == set(OURS)
    assert "own" not in {found.law, *(one.law for one in found.alternatives)}


def test_a_law_that_reads_weights_needs_depth_and_width_for_a_prediction():
    register(law(lambda rows, a: rows.unpruned * (1 + 100 / (rows.weights * rows.density)) ** a))
    found = fit(read(planted(configurations=8, seed=1)), law="own")
    assert found.axes == ()
    assert found.form().inputs == {"depth", "width"}
    with pytest.raises(PrunecastError, match="width varies in this law's data"):
        found.predict(0.1, depth=20, unpruned_error=0.1)
    small, large = found.predict(0.1, depth=20, width=[0.25, 4.0], unpruned_error=0.1).error
    assert small > large
    assert not found.needs_examples


def test_a_law_without_a_plateau_is_fitted_and_has_no_plateau_to_fix():
    register(law())
    table = read(planted(configurations=8, seed=1), chance=0.9)
    found = fit(table, law="own")
    assert found.plateau is None
    assert found.high_error == 0.9
    assert list(found.parameters) == ["a"]
    assert found.predict(0.1, unpruned_error=0.1).error == pytest.approx(0.1 * 10 ** found.parameters["a"])
    with pytest.raises(PrunecastError, match="an own law has no high plateau to fix; leave high_error out"):
        fit(table, law="own", high_error=0.9)


def test_the_plateau_of_losses_may_lie_above_one():
    def plateau(rows, high, a):
        return rows.unpruned + (high - rows.unpruned) / (1 + (100 * rows.density) ** a)

    register(law(plateau, (parameter(name="high", upper=1.0, role=Role.PLATEAU), parameter())))
    frame = planted(configurations=1, seed=1).rename(columns={"error": "loss"})
    found = fit(read(frame.assign(loss=7 * frame["loss"]), metric="loss"), law="own")
    assert found.parameters["high"] > 1
    assert not findings_of(found, AtBound)


def test_laws_are_found_by_name_and_by_module(monkeypatch, tmp_path):
    (tmp_path / "own_module.py").write_text(
        "from prunecast.laws import FormulaLaw, Parameter\n"
        "LAW = FormulaLaw(name='named', title='a law', equation='error = a',\n"
        "    formula=lambda rows, a: a * rows.density,\n"
        "    parameters=(Parameter(name='a', symbol='a', lower=0.1, upper=2.0),))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = get_law("own_module:LAW")
    assert get_law("named") is found
    assert selectable_laws() == (*OURS, "named")
    for name, message in {
        "own_module:OTHER": "law 'own_module:OTHER': the module own_module has no attribute 'OTHER'.",
        "own_module:Parameter": "law 'own_module:Parameter' is type; it must be a prunecast.laws.Law.",
    }.items():
        with pytest.raises(PrunecastError) as caught:
            get_law(name)
        assert str(caught.value) == message
    with pytest.raises(PrunecastError, match="cannot import law 'absent:LAW'"):
        get_law("absent:LAW")


def test_registering_again_replaces_and_forgetting_leaves_the_others():
    first, second = register(law()), register(law(title="another"))
    assert get_law("own") is second is not first
    assert selectable_laws() == (*OURS, "own")
    unregister("own")
    unregister("own")
    assert selectable_laws() == OURS
    with pytest.raises(PrunecastError, match="No law is called 'own'"):
        get_law("own")


def test_derivatives_are_those_of_differences():
    points = measured(read(planted(configurations=6, seed=1))).points
    form = register(
        law(
            lambda rows, a, phi: rows.unpruned**a * rows.depth**phi * rows.density**-a,
            (parameter(), Parameter.exponent("phi", "φ", "depth")),
        )
    ).form(points, "error")
    theta, step = np.array([[np.log(0.3), 0.2]]), 1e-6
    stack = form.stack(theta, points)
    for column in range(2):
        shift = np.eye(2)[column] * step
        slope = (form.log_error(theta + shift, points) - form.log_error(theta - shift, points)) / (2 * step)
        np.testing.assert_allclose(stack[0, column], slope[0], atol=1e-8)
    np.testing.assert_allclose(form.unpruned_slope(theta, points, stack), 0.3, rtol=1e-9)
    higher = form.stack(theta, points, points.log_unpruned + 1.0)[:, -1]
    np.testing.assert_allclose(higher, stack[:, -1] + 0.3, rtol=1e-9)


def test_compare_ranks_an_own_law():
    register(law())
    (score,) = [own for own in compare(read(planted(configurations=6, seed=1))) if own.name == "own"]
    assert (score.title, score.parameters, score.given_unpruned) == ("an own law", 1, True)
