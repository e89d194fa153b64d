"""The commands report and figures, as a shell runs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import research_tables

SCRIPT = Path(sys.executable).with_name("prunecast")
MEASURED = (str(research_tables.path("cifar10-resnet20-24ep")), "--where", "num_examples=50000")


def run(*arguments, cwd):
    return subprocess.run(
        [SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=120, cwd=cwd, check=False
    )


def test_report_writes_one_file(tmp_path):
    done = run("report", *MEASURED, "-o", "page.html", "--no-studies", "--target-error", "0.2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("The page is in page.html")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    again = f"prunecast report {MEASURED[0]} --output page.html --target-error 0.2 --no-studies"
    assert f"{again} --where num_examples=50000" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_figures_are_written_in_their_folder(tmp_path):
    done = run(
        "figures",
        *MEASURED,
        "-o",
        "figures",
        "--only",
        "frontier",
        "--only",
        "replicates-spread",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "not drawn; no network was trained twice" in done.stdout
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        f"frontier.{kind}" for kind in ("pdf", "png", "svg")
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("report", "nowhere.csv"), "nowhere.csv"),
        (("report", *MEASURED, "-o", "missing/page.html", "--no-studies"), "cannot be written"),
        (("report", "bad.csv"), "bad.csv"),
        (("report", *MEASURED, "--target-error", "5"), "the target error is 5, but it must be below 1"),
        (("report", *MEASURED, "--target-error", "nan"), "must be a positive number, not nan"),
        (("figures", *MEASURED, "--only", "pie"), "no figure is called"),
        (("figures", "tiny.csv"), "cannot determine"),
        (("figures", *MEASURED, "-o", "tiny.csv/figures", "--only", "frontier"), "cannot be written"),
    ],
)
def test_a_mistake_is_a_sentence(tmp_path, arguments, said):
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (tmp_path / "tiny.csv").write_text("density,error\n1,0.1\n0.5,0.2\n", encoding="utf-8")
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("*.part"))


def test_a_table_too_small_still_gives_a_page(tmp_path):
    (tmp_path / "tiny.csv").write_text("density,error\n1,0.1\n0.5,0.2\n", encoding="utf-8")
    done = run("report", "tiny.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    why = (
        "No law could be fitted: tiny.csv: 2 usable rows cannot determine 3 parameters; "
        "measure more levels or configurations."
    )
    assert done.stdout.splitlines()[1:] == [why]
    assert why in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_papers_figures_are_drawn_by_their_numbers(tmp_path):
    line = ("figures", "cifar10-vgg-8ep", "--paper", "--only", "figure-13", "-o", "own")
    done = run(*line, "--latex", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("figure-13: own/figure-13.pdf, ")
    assert "\n  without replicates: cifar10-vgg-8ep: no network was trained twice" in done.stdout
    assert "Fit by width" in (tmp_path / "own" / "figure-13.tex").read_text(encoding="utf-8")
    (made,) = json.loads(run(*line, "--json", cwd=tmp_path).stdout)["figures"]
    assert (made["name"], len(made["paths"]), len(made["left_out"])) == ("figure-13", 3, 1)


def test_the_papers_figures_show_the_papers_laws_alone(tmp_path):
    done = run("figures", "cifar10-vgg-8ep", "--paper", "--law", "dip", cwd=tmp_path)
    assert done.returncode == 2
    assert "--paper draws Eq. 1 and Eq. 2" in done.stderr
    assert list(tmp_path.iterdir()) == []
