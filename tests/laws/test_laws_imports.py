"""What is imported when: the law without torch, the command's help without anything heavy."""

import subprocess
import sys

import pytest
import research_tables

HEAVY = ("torch", "vl_convert", "pandas", "numpy", "scipy", "rich")


def imported(code):
    """Which heavy packages a fresh interpreter has after running some code."""
    report = f"import sys; print(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stderr.split())


RUN = """
import sys
from prunecast.cli import main
sys.argv = ["prunecast", *{arguments!r}]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
"""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments):
    assert imported(RUN.format(arguments=arguments)) == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", str(research_tables.path("cifar10-resnet20-24ep")), "--where", "num_examples=50000"],
        ["fit", str(research_tables.path("cifar10-resnet20-24ep")), "--json"],
    ],
)
def test_fitting_needs_neither_torch_nor_a_renderer(arguments):
    found = imported(RUN.format(arguments=arguments))
    assert {"numpy", "pandas", "scipy"} <= found
    assert not {"torch", "vl_convert"} & found


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import prunecast", set()),
        ("import prunecast; prunecast.PrunecastError", set()),
        ("import prunecast; prunecast.read", {"numpy", "pandas"}),
        ("import prunecast.laws", {"numpy", "pandas", "scipy"}),
        ("from prunecast import fit, load, compare", {"numpy", "pandas", "scipy"}),
    ],
)
def test_imports_go_no_further_than_needed(code, allowed):
    assert imported(code) <= allowed
