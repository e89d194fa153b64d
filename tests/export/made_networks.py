"""Where the tests' sweep and the network made from it lie, and what its files compute without prunecast."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from click.testing import CliRunner, Result

from prunecast import data
from prunecast.cli import cli

BLOCKER = """import sys


class Blocker:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, Blocker())
import numpy, json
"""
"""An interpreter in which some packages cannot be imported."""
PRINTING = """
pixels = torch.from_numpy(numpy.load({images!r}))
print(json.dumps(classify(pixels)))
"""
ASKED = ("--target-error", "0.3", "--sizes", "measured", "--confidence", "0.8")
"""A target that takes some pruning."""


@dataclass(frozen=True)
class Swept:
    """Where the sweep's plan and table lie."""

    folder: Path

    def run(self, *arguments: str, output: Path) -> Result:
        """`prunecast make` on the table; mistakes raise."""
        line = ["make", str(self.folder / "results.csv"), "--plan", str(self.folder / "small.toml")]
        return CliRunner().invoke(cli, [*line, "-o", str(output), *arguments], catch_exceptions=False)


@dataclass(frozen=True)
class Made:
    """A made network and what the command printed."""

    folder: Path
    output: str


def isolated(code: str, blocked: tuple[str, ...] = ("prunecast",)) -> str:
    """What code prints in an empty folder, in an interpreter that finds no prunecast."""
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, "-I", "-c", BLOCKER.format(blocked=blocked) + code]
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def code_blocks(folder: Path) -> list[str]:
    """The Python on a card, about its own folder."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    blocks = [block.partition("```")[0] for block in text.split("```python\n")[1:]]
    return [block.replace("FOLDER", str(folder)) for block in blocks]


def classified(code: str, pixels: np.ndarray) -> list[str]:
    """The names that the code on a card gives to images, with torch, safetensors and numpy alone."""
    assert len([line for line in code.splitlines() if line]) <= 10
    with tempfile.NamedTemporaryFile(suffix=".npy") as images:
        np.save(images, pixels)
        images.flush()
        printed = isolated(
            code + PRINTING.format(images=images.name), ("prunecast", "pandas", "scipy", "onnx")
        )
    named: list[str] = json.loads(printed)
    return named


def error_without_prunecast(folder: Path) -> float:
    """The test error on digits of the code on a card, without prunecast."""
    test = data.load("digits").test
    assert isinstance(test, data.MemorySource)
    named = classified(code_blocks(folder)[0], test.images.numpy())
    assert set(named) <= set("0123456789")
    return float(
        np.mean([int(name) != label for name, label in zip(named, test.labels.tolist(), strict=True)])
    )
