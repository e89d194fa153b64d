"""A dataset of one's own, known to every command of the law half through PRUNECAST_PLUGINS."""

import json
import sys
from pathlib import Path

import pytest
from planted import TRUTH, planted

from prunecast.catalog import datasets
from prunecast.cli import main
from prunecast.plugins import load_plugins


@pytest.fixture
def call(monkeypatch, tmp_path, capsys):
    """Run a command in a folder that has a table of the dataset; returns what it prints."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setenv("PRUNECAST_PLUGINS", "stripes")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "_DATASETS", dict(datasets._DATASETS))
    load_plugins.cache_clear()
    truth = {**TRUTH, "high_error": 0.7}
    planted(truth, configurations=12, seed=1).assign(dataset="stripes").to_csv("results.csv", index=False)

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["prunecast", *words])
        main()
        return capsys.readouterr().out

    yield run
    load_plugins.cache_clear()
    sys.modules.pop("stripes", None)


@pytest.mark.slow
def test_every_command_knows_the_error_of_guessing(call, tmp_path):
    body = json.loads(call("fit", "results.csv", "-o", "law.json", "--json"))
    assert body["origin"] | {"dataset": "stripes", "chance": 0.75} == body["origin"]
    assert [note["kind"] for note in body["table_notes"]].count("chance_assumed") == 1
    predicted = json.loads(
        call(
            "predict",
            "law.json",
            *["--density", "0.1", "--depth", "20", "--width", "1", "--num-examples", "50000", "--json"],
        )
    )
    assert 0 < predicted["predictions"][0]["error"] < 0.75
    assert json.loads(call("compare", "results.csv", "--json"))["scores"]
    assert json.loads(call("choose", "results.csv", "--target-error", "0.4", "--json"))["met"]
    assert json.loads(call("study", "noise", "results.csv", "--json"))["study"] == "noise"
    call("report", "results.csv", "--no-studies", "-o", "page.html")
    assert "stripes" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_target_that_guessing_meets_is_refused(call):
    with pytest.raises(SystemExit) as stopped:
        call("choose", "results.csv", "--target-error", "0.8")
    assert stopped.value.code == 2
