"""Levels, unpruned errors, and selections."""

import numpy as np
import pandas as pd
import pytest
import research_tables

from prunecast.table import TableError, read
from prunecast.table.findings import RowsSelected, UnprunedErrorsAveraged
from prunecast.wording import sentences


def table_of(**columns: object) -> pd.DataFrame:
    return pd.DataFrame(columns)


def test_levels_follow_the_densities_and_replicates_share_them() -> None:
    frame = table_of(
        replicate=[1, 1, 1, 1, 2, 2, 2],
        density=[1, 0.8, 0.64, 0.512, 0.51200001, 1, 0.64],
        error=0.1,
    )
    assert read(frame).frame["level"].tolist() == [0, 1, 2, 3, 3, 0, 2]


def test_levels_start_at_one_where_a_configuration_has_no_unpruned_network() -> None:
    frame = table_of(width=[1, 1, 2, 2], density=[0.4, 0.5, 1, 0.5], error=0.1, unpruned_error=[0.2] * 4)
    assert read(frame).frame["level"].tolist() == [2, 1, 0, 1]


def test_hardly_pruned_is_not_unpruned() -> None:
    frame = table_of(replicate=[1, 2], density=[1, 0.99999], error=0.1)
    assert read(frame).frame["level"].tolist() == [0, 1]


def test_close_levels_of_one_chain_stay_apart() -> None:
    density = [1, 0.5, 0.4999, 0.49989, 0.1]
    levels = read(table_of(density=density, error=0.1)).frame["level"].tolist()
    assert levels == sorted(levels)
    assert len(set(levels)) == 5


def test_unpruned_error_is_the_mean_over_replicates() -> None:
    frame = table_of(
        width=[1, 1, 1, 1, 2, 2],
        replicate=[1, 1, 2, 2, 1, 1],
        density=[1, 0.8, 0.8, 1, 1, 0.8],
        error=[0.1, 0.5, 0.5, 0.3, 0.05, 0.6],
    )
    assert read(frame).frame["unpruned_error"].tolist() == pytest.approx([0.2] * 4 + [0.05] * 2, rel=1e-15)


def test_a_mean_is_exact_where_all_agree_and_the_same_in_every_order() -> None:
    agreed = table_of(replicate=range(10), density=0.5, error=0.4, unpruned_error=[0.1] * 10)
    assert read(agreed).frame["unpruned_error"].tolist() == [0.1] * 10
    several = table_of(replicate=[1, 2, 3], density=1, error=[0.1, 0.2, 0.3])
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    assert read(several).frame["unpruned_error"][0] == read(several[::-1]).frame["unpruned_error"][0]


def test_stated_values_may_vary_where_nobody_needs_them() -> None:
    frame = table_of(density=[1, 0.8, 0.6], error=[0.25, 0.5, 0.5], unpruned_error=[0.25, 0.3, 0.35])
    assert read(frame).frame["unpruned_error"].tolist() == [0.25] * 3


def test_stated_unpruned_errors_serve_only_where_density_one_is_missing() -> None:
    frame = table_of(
        width=[1, 1, 2, 2, 2],
        replicate=[1, 1, 1, 1, 2],
        density=[1, 0.8, 0.8, 0.6, 0.8],
        error=0.5,
        dense_error=[np.nan, 0.4, 0.1, 0.1, 0.2],
    )
    table = read(frame)
    assert table.frame["unpruned_error"].tolist() == pytest.approx([0.5, 0.5, 0.15, 0.15, 0.15])
    assert UnprunedErrorsAveraged(column="dense_error", rows=4) in table.findings


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ([0.1, 0.2], r"row 2: dense_error differs from row 1 of the same chain"),
        ([0.1, 1.5], r"row 2: dense_error \(unpruned_error\) is 1\.5, but it must be"),
        ([np.nan, np.nan], r"row 1: the configuration depth 1, width 1, num_examples 1 has no unpruned"),
    ],
)
def test_bad_statements_of_unpruned_error(stated: list[float], words: str) -> None:
    with pytest.raises(TableError, match=words):
        read(table_of(density=[0.8, 0.6], error=0.5, dense_error=stated))


def test_select_compares_numbers_as_numbers_and_text_as_text() -> None:
    table = read(research_tables.path("cifar10-resnet20-24ep"))
    for value in (50000, 50000.0, "50000", "5e4", np.int64(50000)):
        assert len(table.select(num_examples=value)) == 121
    assert len(table.select(family="cifar_resnet", width="1", num_examples=3125)) == 28
    assert len(table.select(recipe=" sgd-24ep ")) == 283
    with pytest.raises(TableError, match="no row has width = 3; width is"):
        table.select(width=3)
    with pytest.raises(TableError, match="no column colour"):
        table.select(colour="red")
    with pytest.raises(TableError, match="no row has width = wide"):
        table.select(width="wide")


def test_select_is_reading_with_where() -> None:
    whole = read(research_tables.path("cifar10-resnet20-24ep"))
    selected = whole.select(num_examples=6250)
    read_so = read(research_tables.path("cifar10-resnet20-24ep"), where={"num_examples": "6250"})
    pd.testing.assert_frame_equal(selected.frame, read_so.frame)
    assert selected.digest == read_so.digest != whole.digest
    where = (("num_examples", "6250"),)
    assert selected.findings[-1] == RowsSelected(rows=len(selected), total=283, where=where)
    assert sentences(selected.findings)[-1] == f"{len(selected)} of 283 rows are used: num_examples = 6250."
    assert (selected.metric, selected.source, selected.chance) == (whole.metric, whole.source, whole.chance)
    assert whole.select().digest == whole.digest


def test_a_width_is_selected_as_people_write_it() -> None:
    halves = [
        read(research_tables.path("cifar10-resnet20-24ep"), where={"width": width})
        for width in (0.5, "0.5", "1/2")
    ]
    assert len({table.digest for table in halves}) == 1


def test_selecting_a_replicate_works_out_its_own_unpruned_error_and_pruned_rows_keep_theirs() -> None:
    frame = table_of(replicate=[1, 1, 2, 2], density=[1, 0.8, 1, 0.8], error=[0.25, 0.5, 0.75, 0.8])
    table = read(frame)
    assert table.select(replicate=2).frame["unpruned_error"].tolist() == [0.75, 0.75]
    assert table.select(level=1).frame["unpruned_error"].tolist() == [0.5, 0.5]
