"""Sizes without whole channels: parameters and levels of an answer are those of the networks that were measured."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prunecast import laws, read, table
from prunecast.choice import choose, frontier
from prunecast.errors import PrunecastError
from prunecast.laws import Fit

MEASURED = Path(__file__).parents[2] / "benchmarks" / "tables" / "digits-channels.csv"
"""Twelve networks of which whole channels were removed, so that biases and norms went with them."""


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """Means over replicates, a row per size and level."""
    frame = pd.read_csv(MEASURED)
    columns = ["density", "nonzero", "remaining_parameters", "parameters", "weights"]
    return frame.groupby(["depth", "width", "level"])[columns].mean().reset_index()


def fitted(without: tuple[float, float] = (0, 0)) -> Fit:
    """Eq. 2, perhaps without a size."""
    frame = pd.read_csv(MEASURED)
    own = (frame["depth"] == without[0]) & (frame["width"] == without[1])
    return laws.fit(table.as_table(frame[~own]), law="eq2")


@pytest.fixture(scope="module")
def channels() -> Fit:
    return fitted()


@pytest.mark.parametrize("size", [(4, 1), (6, 2)])
def test_parameters_and_levels_of_measured_networks_are_their_own(
    channels: Fit, rows: pd.DataFrame, size: tuple[float, float]
) -> None:
    own = rows[(rows["depth"] == size[0]) & (rows["width"] == size[1])]
    for row in own.itertuples():
        found = choose(channels, depth=size[0], width=size[1], density=row.density).answer
        assert found.stored_parameters == pytest.approx(row.remaining_parameters, abs=1)
        assert found.nonzero_parameters == pytest.approx(row.nonzero, abs=1)
        assert found.level == row.level


@pytest.mark.parametrize("size", [(4, 1), (5, 2)])
def test_other_sizes_keep_biases_and_norms_as_near_ones_do(
    rows: pd.DataFrame, size: tuple[float, float]
) -> None:
    """Most of these networks were off by a third when all biases and norms counted."""
    fit, off = fitted(without=size), []
    own = rows[(rows["depth"] == size[0]) & (rows["width"] == size[1])]
    for row in own.itertuples():
        found = choose(fit, depth=size[0], width=size[1], density=row.density).answer
        off.append(found.stored_parameters / row.remaining_parameters - 1)
        assert abs(found.level - row.level) <= 2
    assert np.abs(off).max() < 0.15


@pytest.mark.parametrize("budget", [60, 200, 5000])
def test_a_budget_of_parameters_is_spent_and_kept(channels: Fit, budget: int) -> None:
    found = choose(channels, max_parameters=budget).answer
    assert 0.95 * budget <= found.stored_parameters <= budget


def test_a_frontier_counts_whole_parameters(channels: Fit) -> None:
    edge = frontier(channels)
    assert edge.size == pytest.approx(np.round(edge.size), abs=1e-6)
    assert (np.diff(edge.size) <= 1e-6).all()
    at = len(edge.error) // 2
    one = choose(channels, depth=edge.depth[at], width=edge.width[at], density=edge.density[at]).answer
    assert one.stored_parameters == pytest.approx(edge.size[at], abs=1e-6)


def test_multiply_adds_that_the_table_counts_have_no_frontier(channels: Fit) -> None:
    with pytest.raises(
        PrunecastError, match="multiply-adds is read off the table and not known at all sizes"
    ):
        frontier(channels, minimise="multiply-adds")


def test_a_saved_law_counts_the_same(channels: Fit, tmp_path: Path) -> None:
    channels.save(tmp_path / "law.json")
    again = laws.load(tmp_path / "law.json")
    asked = {"depth": 4, "width": 1.3, "density": 0.03}
    one, other = (choose(own, **asked).answer for own in (again, channels))
    assert (one.stored_parameters, one.level) == (other.stored_parameters, other.level)


def flat_rows() -> pd.DataFrame:
    """Transformers of which heads and hidden units were removed, as far as possible, without much harm."""
    found = []
    for width, level in product((1, 2), range(4)):
        weights, removed = 40_000 * width, 0.08 * level
        found.append(
            {
                **{"depth": 1, "width": width, "num_examples": 700, "level": level, "density": 1 - removed},
                "error": 0.4 / width + 0.004 * (level % 2),
                **{
                    "weights": weights,
                    "parameters": weights + 2000,
                    "nonzero": round(weights * (1 - removed)),
                },
                "remaining_parameters": round((weights + 2000) * (1 - removed)),
                "multiply_adds": 1e6 * width * (1 - removed),
            }
        )
    return pd.DataFrame(found)


def test_where_no_more_channels_can_go_trained_networks_are_answers() -> None:
    """Their curves do not rise, so there is no law, but nothing is left to prune further."""
    rows = flat_rows()
    fit = laws.fit(read(rows, chance=0.9))
    assert not fit.rises
    found = choose(fit, target_error=0.3)
    best = found.answer
    assert found.met
    assert (best.source, best.width, best.level) == ("measured", 2, 3)
    assert best.stored_parameters == rows["remaining_parameters"].iloc[-1]
    assert "Only networks that were trained are considered" in " ".join(found.summary().split())
    named = choose(fit, target_error=0.3, depth=1, width=2, density=best.density).answer
    assert named.stored_parameters == best.stored_parameters
    with pytest.raises(PrunecastError, match="no law of pruning can be fitted; prune further"):
        choose(fit, target_error=0.3, density=0.1)
    single = read(rows.assign(multiply_adds=1e6 * rows["width"]), chance=0.9)
    assert choose(laws.fit(single), target_error=0.3).answer.source == "measured"
