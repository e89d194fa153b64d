import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Give every test a cache of its own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("PRUNECAST_CACHE", str(folder))
    return folder


@pytest.fixture
def place(tmp_path):
    """A folder for the test's dataset."""
    folder = tmp_path / "set"
    folder.mkdir()
    return folder
