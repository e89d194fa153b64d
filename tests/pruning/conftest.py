import sys
from pathlib import Path

import pytest
import torch

sys.path.append(
    str(Path(__file__).parent.parent / "examples")
)  # the structure and schedule that the docs show


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread():
    """Two threads in each of two test processes would wait for each other all the time."""
    torch.set_num_threads(1)
