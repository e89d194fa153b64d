import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parent.parent / "sweep"))  # the tiny plans that sweeps are tested with


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread():
    """Use one thread: two threads in each of two test processes would wait for each other."""
    torch.set_num_threads(1)
