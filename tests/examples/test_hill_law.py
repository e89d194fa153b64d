"""A law of one's own, added in one module of fewer than 60 lines, in everything that prunecast does with a law."""

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import research_tables
from findings_of import findings_of
from planted import planted

from prunecast.choice import choose, frontier
from prunecast.cli import main
from prunecast.files import dumps
from prunecast.laws import compare, fit, get_law, load, selectable_laws, unregister
from prunecast.laws.findings import LawPreference
from prunecast.studies import STUDIES
from prunecast.table import read

EXAMPLE = Path(__file__).with_name("hill_law.py")
MEASURED = str(research_tables.path("cifar10-resnet20-24ep"))
TRUTH = {"high_error": 0.88, "gamma": 1.7, "p": 0.3, "phi": 1.1, "psi": 1.3}


@pytest.fixture(scope="module")
def hill():
    """The law, known while the tests of this module run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE.parent)
        yield get_law("hill_law:HILL")
    unregister("hill")


@pytest.fixture(scope="module")
def frame(hill) -> pd.DataFrame:
    """A table that follows the law with 1% noise."""
    frame = planted(configurations=40, noise=0.0)
    frame["unpruned"] = frame["error"].where(frame["level"] == 0).ffill()
    frame["error"] = np.where(frame["level"] > 0, hill.formula(frame, **TRUTH), frame["unpruned"])
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(frame))
    return frame.drop(columns="unpruned").assign(error=frame["error"] * (1 + noise))


@pytest.fixture(scope="module")
def fitted(frame):
    return fit(read(frame, chance=0.9), law="hill")


@pytest.fixture(scope="module")
def shipped(hill):
    return read(MEASURED, where={"num_examples": 50_000})


def test_the_example_is_short():
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) < 60


def test_its_planted_parameters_are_recovered(fitted):
    assert fitted.law == fitted.family_law == "hill"
    assert fitted.parameters == pytest.approx(TRUTH, rel=0.03)
    assert fitted.deviation.std < 0.02
    assert fitted.exponents == {"depth": "phi", "width": "psi"}
    assert not fitted.undetermined


def test_a_fit_describes_the_law(fitted, hill):
    assert (fitted.title, fitted.equation) == ("the Hill law", hill.equation)
    assert [fitted.symbol(name) for name in fitted.parameters] == ["ε↑", "γ", "p", "φ", "ψ"]
    assert fitted.meaning("p") == "m* half-way between the plateaus"
    assert fitted.high_error == fitted.parameters["high_error"]


def test_predictions_are_the_formula(fitted, hill):
    asked = {"depth": 26.0, "width": 0.5}
    density = np.array([1.0, 0.1, 0.01])
    found = fitted.predict(density, num_examples=50_000, unpruned_error=0.1, **asked)
    rows = pd.DataFrame({"density": density, "unpruned": 0.1, **asked})
    assert found.error == pytest.approx(hill.formula(rows, **fitted.parameters).to_numpy())
    assert ((found.lower < found.error) & (found.error < found.upper)).all()


def test_the_data_prefer_it_and_auto_takes_it(frame, fitted):
    table = read(frame, chance=0.9)
    (preference,) = findings_of(fit(table, law="eq2"), LawPreference)
    assert (preference.best, preference.best_source, preference.clear) == ("hill", "hill_law:HILL", True)
    found = fit(table, law="auto")
    own = [(one.law, one.parameters) for one in found.alternatives] + [(found.law, found.parameters)]
    assert fitted.parameters in [parameters for law, parameters in own if law in ("hill", "hill_law:HILL")]
    scores = {score.name: score.configurations_out.rms for score in compare(table)}
    assert min(scores, key=scores.get) == "hill"
    assert scores["hill"] < 0.8 * min(scores["eq2"], scores["dip"])


def test_where_it_is_no_better_auto_leaves_it(hill):
    table = read(planted(configurations=20, seed=1), chance=0.9)
    assert "hill" in fit(table).held_out
    assert fit(table, law="auto").law == "eq2"


def test_without_it_the_other_laws_answer_as_before(shipped):
    """A law that is forgotten leaves no trace in fits of others."""
    known = fit(shipped)
    unregister("hill")
    try:
        alone = fit(shipped)
        assert selectable_laws() == ("eq2", "dip", "sharp", "sharp-dip")
        assert fit(shipped, law="auto").law == "dip"
    finally:
        get_law("hill_law:HILL")
    assert set(known.held_out) - set(alone.held_out) == {"hill"}
    assert alone.parameters == known.parameters
    assert alone.intervals == known.intervals


def test_a_shipped_table_is_fitted_predicted_and_compared(shipped):
    found = fit(shipped, law="hill")
    assert list(found.parameters) == ["high_error", "gamma", "p", "psi"]
    assert found.equation.endswith(",  φ = 0")
    assert found.deviation.std < 0.1
    assert (np.diff(found.predict([1.0, 0.1, 0.01], width=0.5).error) > 0).all()
    assert "hill" in [score.name for score in compare(shipped)]


def test_choose_answers_with_it(frame, fitted, hill):
    """The answer's density is that at which the formula meets the target, but for what it misses of similar sizes."""
    target = 0.3
    answer = choose(read(frame, chance=0.9), target_error=target, law="hill", confidence=0.5)
    assert (answer.law, answer.met) == ("hill", True)
    by_law = [own for own in (answer.answer, *answer.runners_up) if own.unpruned_source == "predicted"]
    assert by_law
    for network in by_law:
        rows = pd.DataFrame([vars(network)]).assign(unpruned=network.expected_unpruned_error)
        estimate = hill.formula(rows, **fitted.parameters).item()
        assert estimate == pytest.approx(network.expected_error, rel=0.01)
        given = network.expected_unpruned_error  # where it is given, the law alone answers
        sizes = {"depth": network.depth, "width": network.width, "num_examples": network.num_examples}
        assert fitted.predict(network.density, unpruned_error=given, **sizes).error == pytest.approx(estimate)
        assert network.expected_error == pytest.approx(target, rel=1e-3)


def test_the_frontier_is_its_own(fitted, hill):
    found = frontier(fitted)
    assert found.law == "hill"
    assert (np.diff(found.size) <= 1e-9 * found.size[1:]).all()
    measured = {(c.depth, c.width, c.num_examples): c.unpruned_error for c in fitted.configurations}
    examples = max(c.num_examples for c in fitted.configurations)
    at = [measured.get((d, w, examples)) for d, w in zip(found.depth, found.width, strict=True)]
    known = np.array([unpruned is not None for unpruned in at])
    assert known.any()
    rows = pd.DataFrame({name: getattr(found, name)[known] for name in ("depth", "width", "density")})
    rows["unpruned"] = [unpruned for unpruned in at if unpruned is not None]
    np.testing.assert_allclose(hill.formula(rows, **fitted.parameters), found.error[known], rtol=0.01)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_runs_with_it(shipped, name):
    """Studies of one law answer otherwise than with Eq. 2; those of all laws have it among them."""
    study = STUDIES[name]
    if study.takes_law:
        answer = dumps(asdict(study.function(shipped, law="hill")))
        assert answer != dumps(asdict(study.function(shipped, law="eq2")))
    else:
        answer = dumps(asdict(study.function(shipped)))
        assert ("hill" in answer) == (name in ("forms", "extrapolation"))


OTHER_PROCESS = """
import json, sys
sys.path.insert(0, sys.argv[1])
from prunecast.laws import load
found = load(sys.argv[2])
print(json.dumps([found.law, found.title, found.predict(0.01, width=0.5).error.tolist()]))
"""


def test_a_saved_law_is_loaded_in_another_process(shipped, tmp_path):
    found, path = fit(shipped, law="hill"), tmp_path / "law.json"
    found.save(path)
    assert load(path).parameters == found.parameters
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, EXAMPLE.parent, path],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    law, title, error = json.loads(done.stdout)
    assert (law, title) == ("hill", "the Hill law")
    assert error == pytest.approx(float(found.predict(0.01, width=0.5).error))


def test_a_saved_law_whose_module_is_not_there_is_refused(shipped, tmp_path):
    fit(shipped, law="hill").save(tmp_path / "law.json")
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, tmp_path, tmp_path / "law.json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "law.json cannot be used: cannot import law 'hill_law:HILL'" in done.stderr


AT_50000 = (MEASURED, "--where", "num_examples=50000")
OWN = ("--law", "hill_law:HILL")
TITLE, EQUATION = "the Hill law", "error = unpruned + (ε↑ − unpruned) / (1 + (m*/p)^γ)"


@pytest.fixture
def called(capsys, monkeypatch, tmp_path, hill):
    """Call the command line in a folder that holds the example."""
    shutil.copy(EXAMPLE, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["prunecast", *map(str, arguments)])
        with contextlib.suppress(SystemExit):
            main()
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return run


def test_the_terminal_names_its_title_symbols_and_equation(called):
    out = called("fit", *AT_50000, *OWN, "-o", "law.json")
    assert out.startswith("The Hill law fitted to")
    assert EQUATION in out
    rows = [line.split() for line in out.splitlines() if line]
    assert {"ε↑", "γ", "p", "ψ"} <= {row[0] for row in rows}
    assert "steepness of the rise" in out
    assert len(called("predict", "law.json", "--density", "0.1,0.01", "--width", "1/2").splitlines()) == 4
    assert TITLE in called("choose", "law.json", "--target-error", "0.2")
    assert TITLE in called("choose", *AT_50000, *OWN, "--frontier")
    assert TITLE in called("compare", *AT_50000)
    assert TITLE in called("study", "sensitivity", *AT_50000, *OWN)


def test_programs_get_its_name_title_symbols_and_equation(called):
    body = json.loads(called("fit", *AT_50000, *OWN, "-o", "law.json", "--json"))
    assert (body["law"], body["title"]) == ("hill", TITLE)
    assert body["equation"].startswith(EQUATION)
    assert body["symbols"] == {"high_error": "ε↑", "gamma": "γ", "p": "p", "psi": "ψ"}
    assert body["parameters"] == pytest.approx(load("law.json").parameters)
    for command in (
        ("choose", "law.json", "--target-error", "0.2"),
        ("choose", *AT_50000, *OWN, "--frontier"),
        ("study", "sensitivity", *AT_50000, *OWN),
    ):
        assert json.loads(called(*command, "--json"))["law"] == "hill"
    scores = json.loads(called("compare", *AT_50000, "--json"))["scores"]
    assert ("hill", TITLE) in [(score["name"], score["title"]) for score in scores]


def test_the_page_and_the_figures_show_it(called, tmp_path):
    called("report", *AT_50000, *OWN, "--no-studies", "-o", "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"<p>{EQUATION}" in page
    assert "The Hill law, fitted to" in page
    for text in ("ε↑", "γ", "ψ", "steepness of the rise"):
        assert f">{text}<" in page
    out = called("figures", *AT_50000, *OWN, "-o", "figures", "--only", "error-against-density")
    assert "figures/error-against-density.svg" in out
    assert "Hill law" in (tmp_path / "figures" / "error-against-density.svg").read_text(encoding="utf-8")


def documented() -> list[str]:
    """The commands that the page about extending shows."""
    page = (EXAMPLE.parents[2] / "docs" / "how-to" / "extend.md").read_text(encoding="utf-8")
    return re.findall(r"^\$ (.*hill.*)$", page, flags=re.MULTILINE)


@pytest.mark.slow
def test_the_documented_commands_run_beside_the_example(tmp_path):
    shutil.copy(EXAMPLE, tmp_path)
    assert len(documented()) >= 6
    for command in documented():
        words = shlex.split(command)
        at = words.index("prunecast")
        env = {**os.environ, **dict(word.split("=") for word in words[:at])}
        script = Path(sys.executable).with_name("prunecast")
        done = subprocess.run(
            [script, *words[at + 1 :]],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), command
    assert TITLE in (tmp_path / "report.html").read_text(encoding="utf-8")
