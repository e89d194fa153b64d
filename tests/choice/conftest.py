from functools import lru_cache

import pytest
import research_tables
from choice_tables import planted_table

from prunecast.laws import Fit, fit
from prunecast.table import read

MEASURED = str(research_tables.path("cifar10-resnet20-24ep"))


@lru_cache
def _shipped(law: str) -> Fit:
    return fit(read(MEASURED), law=law)


@lru_cache
def _planted(law: str) -> Fit:
    return fit(planted_table(), law=law)


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
