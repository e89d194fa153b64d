"""A law of one's own on the command line, from a module beside the table."""

import json
import os

import pytest
from planted import planted

OWN = """
from prunecast.laws import FormulaLaw, Parameter, Role, register

def formula(rows, slope, scale, psi):
    return rows.unpruned * (1 + scale * rows.width**-psi / rows.density) ** slope

LAW = register(FormulaLaw(
    name="rise",
    title="the rise law",
    equation="error = unpruned · (1 + s/(width^ψ · density))^γ",
    formula=formula,
    parameters=(
        Parameter(name="slope", symbol="γ", meaning="slope", lower=0.01, upper=10, start=0.5, role=Role.SLOPE),
        Parameter(name="scale", symbol="s", meaning="scale", lower=1e-6, upper=10, start=0.01, role=Role.SCALE),
        Parameter(name="psi", symbol="ψ", meaning="how width trades against density", lower=-5, upper=5, start=1,
                  positive=False, role=Role.EXPONENT, axis="width"),
    ),
))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("own law")
    (path / "own_rise.py").write_text(OWN)
    frame = planted(
        configurations=4, depths=(20,), widths=(0.25, 0.5, 1, 2), num_examples=(50_000,), noise=0.01
    )
    frame.to_csv(path / "runs.csv", index=False)
    return path


def test_a_law_is_found_beside_the_table(prunecast, folder, tmp_path):
    table, law = folder / "runs.csv", folder / "law.json"
    done = prunecast("fit", table, "--law", "own_rise:LAW", "-o", law, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("The rise law fitted to runs.csv")
    assert "error = unpruned · (1 + s/(width^ψ · density))^γ" in done.stdout
    done = prunecast("predict", law, "--density", "0.5,0.05", "--width", "1", "--json", cwd=tmp_path)
    first, second = json.loads(done.stdout)["predictions"]
    assert first["error"] < second["error"]
    for command in (
        ["choose", law, "--target-error", "0.3"],
        ["choose", table, "--law", "own_rise:LAW", "--frontier"],
    ):
        done = prunecast(*command, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "the rise law" in done.stdout.lower()
    done = prunecast(
        "report", table, "--law", "own_rise:LAW", "--no-studies", "-o", "page.html", cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "The rise law, fitted to runs.csv" in (tmp_path / "page.html").read_text()


def test_a_plug_in_is_found_in_the_current_folder(prunecast, folder):
    """Also for help, which names the laws, and for commands without an option for one."""
    env = {**os.environ, "PRUNECAST_PLUGINS": "own_rise"}
    done = prunecast("compare", "runs.csv", "--json", cwd=folder, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert "rise" in [score["name"] for score in json.loads(done.stdout)["scores"]]
    assert "rise" in prunecast("fit", "--help", cwd=folder, env=env).stdout


@pytest.mark.parametrize(
    ("law", "words"),
    [
        ("own_rise:NOTHING", "has no attribute 'NOTHING'"),
        ("nowhere:LAW", "cannot import law 'nowhere:LAW'"),
        ("own_rise:formula", "is function; it must be a prunecast.laws.Law"),
        ("rise2", "No law is called 'rise2'"),
    ],
)
def test_what_is_no_law_is_refused(prunecast, folder, law, words):
    done = prunecast("fit", folder / "runs.csv", "--law", law)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
