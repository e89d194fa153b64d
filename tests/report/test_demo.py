"""The journey of `prunecast demo`, on a sweep small enough for a test."""

import subprocess
import sys
from pathlib import Path

import pytest

from prunecast import choose, fit
from prunecast.table import read
from prunecast.wording.report import parameters

PLAN = """# A miniature of the demo.
family = "digits_cnn"
dataset = "digits"
recipe = {preset = "digits", name = "short", epochs = 4, drops = [3], rewind = 1}
num_examples = 300
replicates = 2
level_cap = 9
depth = 3
width = [1, 2]
"""
SCRIPT = Path(sys.executable).with_name("prunecast")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [SCRIPT, "demo", "--plan", "small.toml", "-o", "demo", *arguments]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_the_whole_journey_and_once_more_from_its_store(tmp_path):
    (tmp_path / "small.toml").write_text(PLAN, encoding="utf-8")
    done = run(tmp_path, "--target-error", "0.3")
    assert done.returncode == 0, done.stderr
    for step in (
        "1. Sweep",
        "2. Fit",
        "3. Choice",
        "4. Test",
        "5. Page",
        "Found: digits_cnn, depth 3",
        "The network and its card are in demo/network",
        "The page is file:///",
    ):
        assert step in done.stdout
    assert len(read(tmp_path / "demo" / "results.csv")) > 20
    network = tmp_path / "demo" / "network"
    assert {"card.json", "README.md", "model.safetensors"} <= {file.name for file in network.iterdir()}
    page = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert 'id="slider"' in page
    assert "The chosen network, trained" in page
    (verdict,) = [line for line in done.stdout.splitlines() if line.startswith("Predicted test error")]
    assert verdict in page
    again = run(tmp_path, "--target-error", "0.3")
    assert again.returncode == 0, again.stderr
    assert "· level" not in again.stdout
    found = [
        next(line for line in out.splitlines() if "Predicted test error" in line)
        for out in (done.stdout, again.stdout)
    ]
    assert found[0] == found[1]


def test_the_demos_own_table_determines_its_law():
    """As `prunecast demo` measured it: every parameter is determined, and the page says nothing absurd."""
    table = read(Path(__file__).with_name("demo-results.csv"))
    law = fit(table)
    assert law.undetermined == ()
    assert 1 < law.parameters["gamma"] < 4
    chosen = choose(law, target_error=0.05, confidence=0.95)
    assert chosen.met
    assert chosen.verdict.usable
    assert not [note for note in parameters(law, 0.0) if "do not" in note]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--plan", "nowhere"), "nowhere"), (("--target-error", "2"), "below 1")],
)
def test_a_mistake_is_a_sentence(tmp_path, arguments, said):
    (tmp_path / "small.toml").write_text(PLAN.replace("level_cap = 9", "level_cap = 0"), encoding="utf-8")
    done = run(tmp_path, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
