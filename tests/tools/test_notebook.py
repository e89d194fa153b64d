"""The notebooks of the docs run, and show what their cells give today."""

import notebook
import pytest

NOTEBOOKS = sorted(notebook.FOLDER.glob("*.ipynb"))


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_shows_what_its_cells_give(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stored = notebook.read(path)
    assert notebook.texts(notebook.run(stored)) == notebook.texts(stored), "run tools/notebook.py"


def test_outputs_are_what_jupyter_would_store():
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": ["print(1)\n", "2"],
    }
    words = {"cell_type": "markdown", "metadata": {}, "source": ["# Words"]}
    made = notebook.run({"cells": [words, cell]})
    assert made["cells"][0] == words
    assert notebook.texts(made) == [["1\n", "2"]]
    assert made["cells"][1]["execution_count"] == 1
