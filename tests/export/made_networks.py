"""Where the tests' sweep and the network made from it lie."""

from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner, Result

from prunecast.cli import cli

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
