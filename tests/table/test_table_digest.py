"""The digest: the same for the same measurements, another for others."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import research_tables
from hypothesis import given, settings
from hypothesis import strategies as st

from prunecast.table import Table, read

shares = st.floats(min_value=1e-9, max_value=1)
sizes = st.floats(min_value=1e-6, max_value=1e6)


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    """Plausible tables: a few configurations and replicates, each with level 0 and further levels."""
    rows = []
    for depth, width in draw(
        st.lists(st.tuples(st.integers(1, 200), sizes), min_size=1, max_size=4, unique=True)
    ):
        for replicate in range(1, draw(st.integers(1, 3)) + 1):
            densities = sorted(draw(st.sets(shares.filter(lambda d: d < 1), max_size=5)), reverse=True)
            rows += [
                (depth, width, replicate, level, density, draw(shares))
                for level, density in enumerate([1.0, *densities])
            ]
    return pd.DataFrame(rows, columns=["depth", "width", "replicate", "level", "density", "error"])


def through_csv(frame: pd.DataFrame, folder: Path) -> Table:
    path = folder / "table.csv"
    frame.to_csv(path, index=False)
    return read(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("digest")


@settings(deadline=None, max_examples=60)
@given(frame=frames())
def test_a_table_written_and_read_again_is_the_same(frame: pd.DataFrame, folder: Path) -> None:
    table = read(frame)
    for again in (through_csv(frame, folder), through_csv(table.frame, folder), read(table.frame)):
        assert again.digest == table.digest
        pd.testing.assert_frame_equal(again.frame, table.frame, check_exact=True, check_dtype=True)


@settings(deadline=None, max_examples=60)
@given(frame=frames())
def test_levels_worked_out_are_levels_one_can_read_again(frame: pd.DataFrame, folder: Path) -> None:
    table = read(frame.drop(columns="level"))
    again = through_csv(table.frame, folder)
    assert again.digest == table.digest
    assert ((table.frame["level"] == 0) == (table.frame["density"] == 1)).all()


@settings(deadline=None, max_examples=60)
@given(frame=frames(), seed=st.integers(0, 2**32 - 1))
def test_the_order_of_rows_and_columns_changes_nothing(frame: pd.DataFrame, seed: int) -> None:
    rng = np.random.default_rng(seed)
    mixed = frame.iloc[rng.permutation(len(frame)), rng.permutation(len(frame.columns))]
    assert read(mixed).digest == read(frame).digest


@settings(deadline=None, max_examples=60)
@given(frame=frames(), data=st.data())
def test_any_other_number_changes_it(frame: pd.DataFrame, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, len(frame) - 1))
    other = frame.copy()
    other.loc[row, "error"] = data.draw(shares.filter(lambda value: value != frame.loc[row, "error"]))
    assert read(other).digest != read(frame).digest


@settings(deadline=None, max_examples=60)
@given(frame=frames())
def test_unpruned_errors_are_means_of_level_zero(frame: pd.DataFrame) -> None:
    keys = ["depth", "width"]
    means = frame[frame["level"] == 0].groupby(keys)["error"].mean().rename("mean")
    expected = frame.join(means, on=keys)["mean"].to_numpy()
    np.testing.assert_allclose(read(frame).frame["unpruned_error"], expected, rtol=1e-14)


def test_stated_unpruned_errors_survive_a_round_trip(tmp_path: Path) -> None:
    stated = np.repeat([0.1, 0.3, 0.7, 0.11, 0.13, 0.17, 0.19], 2)
    frame = pd.DataFrame({"replicate": np.repeat(range(7), 2), "density": [0.5, 0.3] * 7, "error": 0.4})
    table = read(frame.assign(unpruned_error=stated))
    assert through_csv(table.frame, tmp_path).digest == table.digest


def test_what_the_digest_covers() -> None:
    frame = pd.DataFrame({"family": "f", "density": [1.0, 0.5], "error": [0.1, 0.2]})
    same = read(frame).digest
    assert read(frame.assign(seconds=3.0)).digest == same
    assert read(frame, chance=0.5).digest == same
    assert read(frame.assign(weights=[8, 4])).digest != same
    assert read(frame.assign(family="g")).digest != same
    assert read(frame.assign(replicate=2)).digest != same
    assert read(frame.rename(columns={"error": "loss"}), metric="loss").digest != same


def test_the_shipped_table_keeps_its_digest() -> None:
    """A saved law names the digest of its data, so it must be the same on every machine and version."""
    assert read(research_tables.path("cifar10-resnet20-24ep")).digest == (
        "b5c17b9090fabfcf0d57f42e74f73708375319b683035b33285504528e69c3e8"
    )


def test_reading_leaves_the_callers_frame_alone() -> None:
    frame = pd.read_csv(io.StringIO("sparsity,acc,tag\n0,0.9,a\n0.5,0.8,b\n"))
    before = frame.copy(deep=True)
    table = read(frame)
    table.frame.loc[0, "tag"] = "changed"
    pd.testing.assert_frame_equal(frame, before)
