"""A plan that needs more examples than its data has fails with one message before training."""

import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from small import BRIEF, parsed

from prunecast.cli.engine import plan as plan_command
from prunecast.cli.engine import run as run_command
from prunecast.errors import PrunecastError
from prunecast.sweep import run_plan
from prunecast.sweep.overview import overview

BARE = [sys.executable, "-m", "prunecast.sweep", "brief.toml"]
TOO_MANY = BRIEF.replace("[100, 200]", "[100, 700, 650]")
"""The digits have 600 training examples."""
SAID = "The plan brief asks for num_examples 650 and 700, but digits has 600 training examples; give at most 600."


def test_more_examples_than_there_are_is_refused_once(tmp_path, monkeypatch):
    """It fails before anything runs, even if other chains could run."""
    with pytest.raises(PrunecastError) as refused:
        run_plan(parsed(TOO_MANY), tmp_path / "store")
    assert str(refused.value) == SAID
    monkeypatch.chdir(tmp_path)
    (tmp_path / "brief.toml").write_text(TOO_MANY)
    for command, options in ((plan_command, []), (run_command, []), (run_command, ["--on", "ray"])):
        done = CliRunner().invoke(command, ["brief.toml", *options])
        assert (str(done.exception), done.output) == (SAID, "")
    done = subprocess.run(BARE, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {SAID}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["brief.toml"]


def test_examples_are_counted_in_the_data_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("PRUNECAST_CACHE", str(tmp_path / "cache"))
    labels, images = np.arange(50) % 10, np.zeros((50, 8, 8), np.uint8)
    parts = {"train_images": images, "train_labels": labels, "test_images": images, "test_labels": labels}
    np.savez(tmp_path / "mine.npz", **parts)
    mine = '"digits"\nloader = "arrays"\nroot = "mine.npz"\ndepth'
    text = BRIEF.replace('"digits"\ndepth', mine).replace("[100, 200]", "45")
    held = text.replace("epochs = 2", "epochs = 2\nvalidation_examples = 10")
    said = (
        "asks for num_examples 45, but digits has 50 training examples, 10 of them held out by "
        "validation_examples; give at most 40."
    )
    with pytest.raises(PrunecastError, match=said):
        run_plan(parsed(held, tmp_path), tmp_path)
    with pytest.raises(PrunecastError, match=said):
        overview(parsed(held, tmp_path))
    run_plan(parsed(text, tmp_path), tmp_path).close()
    broken = parsed(text, tmp_path)
    (tmp_path / "mine.npz").write_bytes(b"no arrays")
    with pytest.raises(PrunecastError, match=r"^The plan brief: .*mine\.npz cannot be read as plain arrays"):
        run_plan(broken, tmp_path)
