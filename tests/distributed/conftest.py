import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread():
    """Two threads in each of two test processes would wait for each other all the time."""
    torch.set_num_threads(1)
