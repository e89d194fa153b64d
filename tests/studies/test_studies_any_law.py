"""Every study is registered once, and suggestions prune as the table does."""

import json

import pytest
from click.testing import CliRunner
from planted import planted

from prunecast import studies
from prunecast.cli import cli
from prunecast.studies import STUDIES, next_training
from prunecast.table import read


def test_each_study_is_registered_under_its_name() -> None:
    for name, study in STUDIES.items():
        assert study.function is getattr(studies, name)
        assert study.title.endswith("?")
    assert [own.name for own in STUDIES.values() if own.takes_law] == ["sensitivity", "optimality", "noise"]
    text = CliRunner().invoke(cli, ["study", "--help"]).output
    for name, study in STUDIES.items():
        assert f"{name:14} {study.summary}" in text


def test_suggestions_prune_as_the_table_does(tmp_path) -> None:
    """A table that keeps 51.2% per level, three levels of 20%, needs a third of the levels."""
    frame = planted(configurations=16, num_examples=(50_000, 12_500), noise=0.01, seed=1)
    coarse = frame[frame["level"] % 3 == 0].assign(level=lambda own: own["level"] // 3)
    study = next_training(read(coarse))
    assert study.kept_per_level == pytest.approx(0.512)
    for own in study.suggestions:
        assert own.last_density == pytest.approx(0.512**own.last_level, rel=1e-3)
    path = tmp_path / "coarse.csv"
    coarse.to_csv(path, index=False)
    assert "prune 49% per level" in CliRunner().invoke(cli, ["next", str(path)]).output
    body = json.loads(CliRunner().invoke(cli, ["next", str(path), "--json"]).output)
    assert body["kept_per_level"] == pytest.approx(0.512)
