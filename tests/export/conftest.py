"""A real sweep small enough for a test, and one network made from it."""

import pytest
import torch
from made_networks import ASKED, Made, Swept

from prunecast.export import onnx
from prunecast.sweep import export, read_plan, run_plan

PLAN = """# A miniature of the digits family.
family = "digits_cnn"
dataset = "digits"
recipe = {preset = "digits", name = "short", epochs = 5, drops = [4], rewind = 1}
num_examples = 300
level_cap = 14
depth = 3
width = [1, 2]
"""
NEEDED = onnx.NEEDED


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread() -> None:
    """Two threads in each of two test processes would wait for each other all the time."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def no_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks made inside tests need no ONNX file, which takes seconds; the session's own network has one."""
    monkeypatch.setattr(onnx, "NEEDED", ("a_package_that_nobody_has",))


@pytest.fixture
def with_onnx(monkeypatch: pytest.MonkeyPatch, no_onnx: None) -> None:
    """For a test that needs ONNX Runtime."""
    monkeypatch.setattr(onnx, "NEEDED", NEEDED)


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """A table of two widths, measured here and now."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "small.toml").write_text(PLAN, encoding="utf-8")
    plan = read_plan(folder / "small.toml")
    for _ in run_plan(plan, folder / "store"):
        pass
    export(plan, folder / "store", folder / "results.csv")
    return Swept(folder)


@pytest.fixture(scope="session")
def made(swept: Swept, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The answer to a target error that takes some pruning."""
    folder = tmp_path_factory.mktemp("made") / "network"
    result = swept.run(*ASKED, output=folder)
    assert result.exit_code == 0, result.output
    return Made(folder, result.output)
