"""Sizes of a family that is not built in: the table's own counts where it has them, interpolated elsewhere."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from findings_of import findings_of
from planted import planted

from prunecast import choose, fit, read
from prunecast.choice import counter, frontier, question_for
from prunecast.choice.findings import CountsFromTable, SizeInterpolated, WidthFromCounts
from prunecast.cli import cli
from prunecast.laws import Fit, from_json
from prunecast.report.answers import answers


def prunable(rows: pd.DataFrame) -> "pd.Series[float]":
    """The weights of a transformer whose attention is prunable in part: blocks, a patch embedding and a head."""
    channels = (64 * rows["width"]).round()
    return 9 * channels**2 * rows["depth"] + 48 * channels + 10 * channels


def others(rows: pd.DataFrame) -> "pd.Series[float]":
    """Large parameters that are never pruned: a part of every block, positions, biases, norms."""
    channels = (64 * rows["width"]).round()
    return rows["depth"] * (3 * channels**2 + 13 * channels) + 65 * channels + 10


def own_table(
    widths: tuple[float, ...] = (0.25, 0.5, 1, 2), depths: tuple[int, ...] = (2, 4, 8)
) -> pd.DataFrame:
    """A planted law whose sizes are a family's own."""
    frame = planted(configurations=99, depths=depths, widths=widths, num_examples=(50_000,), noise=0.01)
    frame = frame.assign(family="my_nets:vit", weights=prunable)
    frame = frame.assign(nonzero=(frame["weights"] * frame["density"]).round())
    frame = frame.assign(density=frame["nonzero"] / frame["weights"])
    return frame.assign(parameters=frame["weights"] + others(frame))


def as_read(law: Fit) -> dict[str, Any]:
    """A saved law as a file gives it back."""
    return json.loads(json.dumps(law.as_json()))


def stored(frame: pd.DataFrame) -> "pd.Series[float]":
    return frame["parameters"] - frame["weights"] + frame["nonzero"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return own_table()


def test_everything_stored_is_counted(frame: pd.DataFrame) -> None:
    """Beside the prunable weights that are kept, everything that is never pruned."""
    for target in (0.15, 0.3):
        best = choose(read(frame), target_error=target, sizes="measured").answer
        size = pd.DataFrame({"depth": [best.depth], "width": [best.width]})
        assert best.stored_parameters == best.nonzero_parameters + others(size).iloc[0]
        assert best.nonzero_parameters == round(best.density * prunable(size).iloc[0])


def test_a_measured_network_has_the_size_of_its_row(frame: pd.DataFrame) -> None:
    asked = frame[(frame["depth"] == 4) & (frame["width"] == 0.5) & (frame["level"] == 5)].iloc[0]
    best = choose(read(frame), density=asked["density"], depth=4, width=0.5, target_error=0.5).answer
    assert best.stored_parameters == asked["parameters"] - asked["weights"] + asked["nonzero"]


def test_sizes_with_the_same_volume_keep_their_own_counts() -> None:
    """Depth 8 and width ½ have the l·w² of depth 2 and width 1, but not its weights."""
    law = fit(read(own_table()))
    found = counter(law)(np.array([8.0, 2.0]), np.array([0.5, 1.0]))
    sizes = pd.DataFrame({"depth": [8, 2], "width": [0.5, 1.0]})
    assert found.weights.tolist() == prunable(sizes).tolist()
    assert found.fixed.tolist() == others(sizes).tolist()


def test_fewest_parameters_means_fewest_stored() -> None:
    """Where much is never pruned a smaller network wins, though more of its weights are kept."""
    heavy = own_table().assign(parameters=lambda rows: rows["weights"] + 40_000 * rows["width"] ** 2)
    best = choose(read(heavy), target_error=0.3, sizes="measured").answer
    met = heavy[heavy["error"] <= 0.3]
    smallest = met.loc[stored(met).idxmin()]
    assert best.stored_parameters <= 1.3 * stored(met).min()
    assert best.width <= smallest["width"]


@pytest.mark.parametrize("width", [0.375, 0.75, 1.5])
def test_sizes_between_are_interpolated_and_say_so(frame: pd.DataFrame, width: float) -> None:
    chosen = choose(read(frame), target_error=0.3, depth=4, width=width)
    size = pd.DataFrame({"depth": [4], "width": [width]})
    (how,) = findings_of(chosen, SizeInterpolated)
    assert how.weights == pytest.approx(prunable(size).iloc[0], rel=0.01)
    assert how.never_pruned == pytest.approx(others(size).iloc[0], rel=0.01)
    (counted,) = findings_of(chosen, CountsFromTable)
    assert counted.complete
    measured = choose(read(frame), target_error=0.3, depth=4, width=0.5)
    assert not findings_of(measured, SizeInterpolated)


@pytest.mark.parametrize(
    ("depths", "widths"), [((4,), (0.25, 0.5, 1, 2)), ((2, 4, 8), (1,)), ((4,), (1,)), ((2, 4), (0.3, 0.7))]
)
def test_few_sizes_are_exact_too(depths: tuple[int, ...], widths: tuple[float, ...]) -> None:
    frame = own_table(widths, depths)
    law = fit(read(frame))
    sizes = frame.drop_duplicates(["depth", "width"]).astype({"depth": float})
    found = counter(law)(sizes["depth"].to_numpy(), sizes["width"].to_numpy())
    assert found.weights.tolist() == prunable(sizes).tolist()
    assert found.fixed.tolist() == others(sizes).tolist()
    beyond = counter(law)(sizes["depth"].to_numpy() * 2, sizes["width"].to_numpy() * 2)
    assert (beyond.weights > found.weights).all()
    assert (beyond.fixed > found.fixed).all()


def test_without_all_parameters_the_answer_says_what_is_missing(frame: pd.DataFrame) -> None:
    chosen = choose(read(frame.drop(columns="parameters")), target_error=0.3)
    (how,) = findings_of(chosen, CountsFromTable)
    assert not how.complete
    assert chosen.answer.stored_parameters == chosen.answer.nonzero_parameters


def test_multiply_adds_of_the_table_count_arithmetic_and_training(frame: pd.DataFrame) -> None:
    """A family whose arithmetic does not grow with its weights, as where most of them work on small feature maps."""
    products = (1e6 * frame["depth"] * (frame["width"] + 0.1)).round()
    law, bare = (fit(read(own)) for own in (frame.assign(multiply_adds=products), frame))
    measured = frame[(frame["depth"] == 4) & (frame["width"] == 1)]
    asked = {"depth": 4, "width": 1, "density": float(measured["density"].iloc[3])}
    best = choose(law, **asked).answer
    assert best.multiply_adds == pytest.approx(1.1 * 4e6 * best.density)
    assert best.training_cost == pytest.approx(4 * 1.1 * 4e6 / products.max())
    assert choose(bare, **asked).answer.multiply_adds is None
    assert choose(law, **{**asked, "width": 1.5}).answer.multiply_adds == pytest.approx(
        1.6 * 4e6 * best.density, rel=0.02
    )
    least = choose(law, target_error=0.2, minimise="multiply-adds").answer
    assert least.multiply_adds is not None
    others = [
        choose(law, target_error=0.2, minimise="multiply-adds", depth=depth).answer for depth in (2, 4, 8)
    ]
    assert least.multiply_adds == min(own.multiply_adds or np.inf for own in others)
    assert len(frontier(law, minimise="multiply-adds").error) > 100


def test_the_command_a_saved_law_and_the_page_agree(frame: pd.DataFrame, tmp_path: Path) -> None:
    table = tmp_path / "vit.csv"
    frame.to_csv(table, index=False)
    best = choose(table, target_error=0.3, sizes="measured").answer
    asked = ("choose", str(table), "--target-error", "0.3", "--sizes", "measured")
    said = CliRunner().invoke(cli, asked, catch_exceptions=False).output
    assert f"{best.stored_parameters:,}" in said
    law = fit(read(table))
    saved = choose(from_json(as_read(law)), target_error=0.3, sizes="measured").answer
    assert saved.stored_parameters == best.stored_parameters
    for answer in answers(law, question_for(law, sizes="measured"), 9):
        network = answer.answer
        size = pd.DataFrame({"depth": [network.depth], "width": [network.width]})
        assert network.stored_parameters == network.nonzero_parameters + others(size).iloc[0]


def test_a_law_saved_without_these_counts_still_answers(frame: pd.DataFrame) -> None:
    body = as_read(fit(read(frame)))
    for configuration in body["configurations"]:
        del configuration["never_pruned"]
    (how,) = findings_of(choose(from_json(body), target_error=0.3), CountsFromTable)
    assert not how.complete


def test_a_width_that_stands_for_parameters_is_explained() -> None:
    frame = planted(
        configurations=6, depths=(1,), widths=(0.25, 0.5, 1.0), num_examples=(50_000, 12_500), noise=0.0
    )
    alone = frame.drop(columns=["depth", "width", "nonzero"]).rename(columns={"weights": "parameters"})
    answer = choose(read(alone), target_error=0.3)
    (told,) = findings_of(answer, WidthFromCounts)
    assert told.largest == frame["weights"].max()
    assert told.weights == pytest.approx(told.largest * answer.answer.width**2, rel=1e-4)
    assert not findings_of(choose(read(frame), target_error=0.3), WidthFromCounts)
