import pytest
import research_tables
from planted import planted

from prunecast.laws import DEFAULT_LAW, Points, build_form, measured
from prunecast.table import Table, read

MEASURED = str(research_tables.path("cifar10-resnet20-24ep"))


@pytest.fixture(scope="session")
def shipped() -> Table:
    """The five widths at 50,000 examples of the measured table."""
    return read(MEASURED, where={"num_examples": 50_000})


@pytest.fixture(scope="session")
def shipped_all() -> Table:
    return read(MEASURED)


@pytest.fixture(scope="session")
def paper_sized() -> Points:
    """152 configurations, 4,301 points, 3.4% noise."""
    return measured(read(planted(seed=88))).points


@pytest.fixture(scope="session")
def small() -> Points:
    """Twelve configurations with noise: quick, yet all five parameters are determined."""
    return measured(read(planted(configurations=12, seed=4))).points


@pytest.fixture(scope="session")
def by_kind(small: Points) -> dict[str, Points]:
    """Points for each shape of the law: both exponents, either alone, none (Eq. 1)."""
    only = {"depth": {"widths": (1.0,)}, "width": {"depths": (20,)}}
    kinds = {
        kind: measured(read(planted(configurations=5, num_examples=(50_000,), seed=5, **axes))).points
        for kind, axes in only.items()
    }
    one = planted(configurations=1, depths=(20,), widths=(0.25,), num_examples=(50_000,), seed=6)
    kinds |= {"both": small, "eq1": measured(read(one)).points}
    assert {kind: build_form(DEFAULT_LAW, points, "error").axes for kind, points in kinds.items()} == {
        "depth": ("depth",),
        "width": ("width",),
        "both": ("depth", "width"),
        "eq1": (),
    }
    return kinds
