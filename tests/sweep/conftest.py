import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread():
    """Use one thread: two threads in each of two test processes would wait for each other."""
    torch.set_num_threads(1)
