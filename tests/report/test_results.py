"""Results in Python: what they show in a notebook, as LaTeX and as a plot, and what a user finds by completion."""

import subprocess
import sys

import pytest
from planted import planted

import prunecast
from prunecast.errors import PrunecastError
from prunecast.metric import Metric
from prunecast.report import predictions
from prunecast.report.latex import escaped, latex_figure


@pytest.fixture(scope="module")
def table():
    return prunecast.read(planted(configurations=6, seed=1))


@pytest.fixture(scope="module")
def fit(table):
    return prunecast.fit(table, law="eq2")


@pytest.fixture(scope="module")
def comparison(table):
    return prunecast.compare(table)


def test_completion_shows_the_public_names():
    """In a fresh interpreter, where nothing has been used yet."""
    code = "import prunecast, prunecast.tables; print(*dir(prunecast)); print(*dir(prunecast.tables))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, tables = (line.split() for line in done.stdout.splitlines())
    assert set(prunecast.__all__) <= set(names)
    assert [name for name in names if not name.startswith("_") and name not in prunecast.__all__] == []
    assert {"cifar10_resnet", "names", "measured"} <= set(tables)


@pytest.mark.parametrize("kind", ["frame", "path", "table", "law", "fit"])
def test_questions_take_whatever_holds_a_law(kind, table, fit, tmp_path):
    table.frame.to_csv(tmp_path / "own.csv", index=False)
    fit.save(tmp_path / "law.json")
    given = {
        "frame": table.frame,
        "path": tmp_path / "own.csv",
        "table": table,
        "law": tmp_path / "law.json",
        "fit": fit,
    }[kind]
    asked = {} if kind in ("law", "fit") else {"law": "eq2"}
    sizes = {"depth": 20, "width": 0.25, "num_examples": 50_000, "unpruned_error": 0.1}
    found = prunecast.predict(given, [0.5, 0.1], **sizes, **asked)
    assert found.error == pytest.approx(fit.predict([0.5, 0.1], **sizes).error)
    chosen = prunecast.choose(given, target_error=0.3, **asked)
    assert chosen.answer.density == pytest.approx(prunecast.choose(fit, target_error=0.3).answer.density)
    if not asked:
        line = prunecast.frontier(given)
        assert list(line.frame["error"]) == list(line.error)


def test_every_result_has_a_summary_html_and_latex(fit, comparison):
    results = [
        fit,
        comparison,
        fit.predict([0.5, 0.1], depth=20, width=0.5, num_examples=50_000, unpruned_error=0.1),
        prunecast.choose(fit, target_error=0.3),
        prunecast.frontier(fit),
    ]
    for result in results:
        assert prunecast.describe(result) == result.summary()
        html = result._repr_html_()
        assert html.startswith("<div>")
        assert "<table>" in html
        tex = result.to_latex()
        assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") > 0
        assert tex.isascii(), [character for character in tex if not character.isascii()]


def test_headings_keep_the_spelling_of_a_metric(fit):
    found = fit.predict([0.5, 0.1], depth=20, width=0.5, num_examples=50_000, unpruned_error=0.1)
    (grid,) = predictions(found, Metric("1-bleu")).grids
    assert {"BLEU error", "Unpruned BLEU error"} <= set(grid.header)


def test_what_has_no_description_is_refused():
    with pytest.raises(PrunecastError, match="a int has no description"):
        prunecast.describe(3)


def test_html_escapes_names(table):
    named = table.frame.assign(family="<b>own</b>", recipe="a & b")
    fit = prunecast.fit(named, law="eq2")
    assert "<b>own" not in fit._repr_html_() + prunecast.read(named)._repr_html_()
    assert "&lt;b&gt;own" in fit._repr_html_()
    assert r"a \& b" in fit.to_latex()


def test_a_comparison_is_a_table_of_scores(comparison):
    assert len(comparison) == len(list(comparison)) == len(comparison.frame)
    assert comparison.frame["law"][0] == comparison[0].name
    assert comparison.frame["configurations_out_rms"][0] == comparison[0].configurations_out.rms
    assert comparison[0].title in str(comparison)
    assert repr(comparison).startswith(f"<Comparison of {len(comparison)} laws on DataFrame")


def test_latex_prints_signs_and_greek():
    assert escaped("ε↑") == r"$\varepsilon_\uparrow$"
    assert escaped("p′ 50% of a_b") == r"p$'$ 50\% of a\_b"
    assert escaped("−0.1% ± 2.5%") == r"$-$0.1\% $\pm$ 2.5\%"
    assert escaped("l·w²·d") == r"l$\cdot$w$^2\cdot$d"
    assert r"\includegraphics[width=\linewidth]{curves.pdf}" in latex_figure("curves", "One & two")


@pytest.mark.parametrize("kind", ["pdf", "png", "svg"])
def test_a_plot_is_saved(kind, fit, tmp_path):
    path = fit.plot().save(tmp_path / f"curves.{kind}")
    assert path.read_bytes()[:4] == {"pdf": b"%PDF", "png": b"\x89PNG", "svg": b"<svg"}[kind]


def test_a_plot_shows_all_rows(fit):
    plot = fit.plot()
    assert plot._repr_svg_().startswith("<svg")
    assert "m* = " in str(plot.spec)
    with pytest.raises(PrunecastError, match=r"saved as \.pdf, \.png or \.svg"):
        plot.save("curves.jpg")


def test_axes_that_a_table_does_not_give_are_not_shown() -> None:
    frame = planted(configurations=5, depths=(20,), num_examples=(50_000,), noise=0.01)
    alone = frame.drop(columns=["depth", "num_examples", "weights", "nonzero"])
    for known, sizes in ((frame, ["Depth", "Width"]), (alone, ["Width"])):
        fitted = prunecast.fit(known, law="eq2")
        given = {axis: 20 for axis in ("depth",) if axis in known}
        (grid,) = predictions(fitted.predict(0.1, width=frame["width"].max(), **given), fitted.metric).grids
        assert grid.header[1:-4] == sizes
    with pytest.raises(PrunecastError, match=r"the unpruned error at width 0\.3 was not measured"):
        prunecast.fit(alone[alone["width"] > 0.9], law="eq2").predict(0.1, width=0.3)
