from functools import lru_cache

import pytest
from planted import planted

from prunecast.laws import Fit, fit
from prunecast.table import Table, read

SHIPPED = "cifar10-resnet20-24ep"


@lru_cache
def _shipped(law: str) -> Fit:
    return fit(read(SHIPPED), law=law)


@lru_cache
def _planted(law: str) -> Fit:
    return fit(planted_table(), law=law)


def planted_table() -> Table:
    """Eq. 2 over depth and width, with the layers of a built-in family instead of the table's own counts."""
    frame = planted(configurations=60, num_examples=(50_000, 12_500)).drop(columns=["weights", "nonzero"])
    return read(frame.assign(family="cifar_resnet", dataset="cifar10", recipe="cifar10"))


@pytest.fixture(params=["eq2", "dip"])
def shipped(request: pytest.FixtureRequest) -> Fit:
    return _shipped(request.param)


@pytest.fixture
def eq2() -> Fit:
    return _shipped("eq2")


@pytest.fixture
def dip() -> Fit:
    return _shipped("dip")


@pytest.fixture(params=["eq2", "dip"])
def deep(request: pytest.FixtureRequest) -> Fit:
    return _planted(request.param)
