"""A real search on digits trains part of the grid, continues after a stop or a kill, and keeps its budget."""

import multiprocessing
import random
import re
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from find_plans import TARGET, TEXT, levels, plan, searched

from prunecast.errors import PrunecastError
from prunecast.find import (
    Budget,
    Round,
    Search,
    Stop,
    at_once,
    history_section,
    round_text,
    search,
    stop_line,
)
from prunecast.metric import Metric
from prunecast.pruning import StopRules, chain_folder, why_ended
from prunecast.report import terminal
from prunecast.sweep import Plan, chain_statuses, executor_for, inspect, parse_plan

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["prunecast.sweep", "prunecast.find"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Round]]:
    """A search to its end."""
    store = tmp_path_factory.mktemp("search") / "store"
    return store, searched(store)


@pytest.mark.slow
def test_a_search_trains_part_of_the_grid_and_ends_with_an_answer(whole: tuple[Path, list[Round]]) -> None:
    store, rounds = whole
    last = rounds[-1]
    assert last.stop in (Stop.SETTLED, Stop.NOTHING_LEFT)
    assert last.steps == ()
    assert [one.stop for one in rounds[:-1]] == [None] * (len(rounds) - 1)
    trained = sum(map(len, levels(store).values()))
    assert last.spent.training_runs == trained
    assert trained < 0.7 * sum(chain.rules.level_cap + 1 for chain in plan().chains)
    assert last.spent.seconds < last.spent.grid_seconds
    (state,) = last.decision.states
    assert state.choice is not None
    assert state.choice.met


@pytest.mark.slow
def test_a_search_that_has_ended_trains_nothing_more(whole: tuple[Path, list[Round]]) -> None:
    store, rounds = whole
    (again,) = searched(store)
    assert again.stop == rounds[-1].stop
    assert again.decision.states[0].sizes == rounds[-1].decision.states[0].sizes


@pytest.mark.slow
def test_a_search_goes_on_to_a_smaller_uncertainty(whole: tuple[Path, list[Round]], tmp_path: Path) -> None:
    store, rounds = whole
    shutil.copytree(store, tmp_path / "store")
    first, *_, last = searched(tmp_path / "store", uncertainty=1e-6)
    assert first.spent.training_runs == rounds[-1].spent.training_runs
    assert first.stop is None
    assert last.stop is Stop.NOTHING_LEFT
    assert all(own.ended for own in chain_statuses(plan(), tmp_path / "store"))


@pytest.mark.slow
def test_chains_end_once_their_error_has_risen(whole: tuple[Path, list[Round]]) -> None:
    store, _ = whole
    risen = [errors for errors in levels(store).values() if len(errors) > 1 and errors[-1] > TARGET]
    assert risen
    for errors in risen:
        stop = max(1.15 * TARGET, 1.6 * errors[0])
        assert [error for error in errors[:-1] if error > stop] == []


@pytest.mark.slow
def test_rounds_say_what_is_known_and_what_comes_next(whole: tuple[Path, list[Round]]) -> None:
    _, rounds = whole
    wanted = Search(targets=(TARGET,))
    first, last = ("\n".join(round_text(own, wanted)) for own in (rounds[0], rounds[-1]))
    assert "Error 0.25: no answer yet." in first
    assert "  Next: depth 3, width 0.5, unpruned\n    Why: it measures the range of the plan." in first
    assert re.search(r"\d stored parameters\.\n    95% of new training runs have an error of 0", last)
    assert re.search(
        r"The smallest network (may have|has) [\d,]+ to [\d,]+ stored parameters \(90% interval\)", last
    )
    by_weights = "\n".join(round_text(rounds[-1], Search(targets=(TARGET,), minimise="nonzero")))
    assert re.search(r"The smallest network (may have|has) [\d,]+ to [\d,]+ non-zero weights", by_weights)
    assert "Next:" not in last
    assert stop_line(rounds[-1], Budget()).startswith("The search ends: ")
    shown = terminal.text(history_section(rounds, wanted))
    assert "The search" in shown
    assert "Training runs" in shown


def test_a_budget_ends_a_search_and_the_next_run_goes_on(tmp_path: Path) -> None:
    (*_, last) = searched(tmp_path, training_runs=3)
    assert last.stop is Stop.TRAINING_RUNS
    before = levels(tmp_path)
    assert sum(map(len, before.values())) == 3
    (*_, last) = searched(tmp_path, training_runs=5)
    after = levels(tmp_path)
    assert last.spent.training_runs == 5
    assert all(after[size][: len(errors)] == errors for size, errors in before.items())
    wanted = Search(targets=(TARGET,), budget=Budget(hours=1e-9))
    ends = list(search(plan(), tmp_path, wanted, executor=executor_for("cpu", 1)))
    assert [own.stop for own in ends if isinstance(own, Round)] == [Stop.HOURS]
    (record,) = chain_folder(tmp_path, plan().chains[0].spec).records()
    assert why_ended([record], StopRules(until_error=record.error)) == ""
    assert why_ended([record], StopRules(until_error=record.error - 1e-6)) == "error reached"


EASY = """
family = "digits_cnn"
dataset = "shades"
loader = "arrays"
root = "shades.npz"
depth = 3
width = [0.5, 1]
num_examples = 60
recipe = "digits"
"""


@pytest.fixture
def easy(tmp_path: Path) -> Plan:
    """A plan whose networks misclassify no test image."""
    labels = np.arange(60) % 2
    images = np.broadcast_to(200 * labels[:, None, None, None], (60, 8, 8, 1)).astype(np.uint8)
    halves = {"train_images": images, "train_labels": labels, "test_images": images, "test_labels": labels}
    np.savez(tmp_path / "shades.npz", **halves)
    return inspect(parse_plan(EASY, name="easy", place="easy.toml", folder=tmp_path)).plan


def test_an_error_of_zero_counts_as_half_an_image(easy: Plan, tmp_path: Path) -> None:
    wanted = Search(targets=(0.1,), budget=Budget(training_runs=4))
    *_, last = search(easy, tmp_path / "store", wanted, executor=executor_for("cpu", 1))
    assert isinstance(last, Round)
    assert last.table is not None
    assert last.table.frame["error"].min() == pytest.approx(0.5 / 60)
    assert last.perfect >= 1
    shown = "\n".join(round_text(last, wanted))
    assert "no test image, which counts as half an image: a law cannot fit an error of 0" in shown


def test_a_search_goes_by_the_loss(easy: Plan, tmp_path: Path) -> None:
    """A chain ends once its loss has risen, however large that is, and whole curves are whole."""
    wanted = Search(targets=(0.3,), metric=Metric.LOSS, budget=Budget(training_runs=9))
    *_, last = search(easy, tmp_path / "store", wanted, executor=executor_for("cpu", 1))
    assert isinstance(last, Round)
    assert (last.stop, last.perfect) == (Stop.TRAINING_RUNS, 0)
    records = [record for own in chain_statuses(easy, tmp_path / "store") for record in own.records]
    assert last.table is not None
    assert last.table.metric is Metric.LOSS
    assert sorted(last.table.frame["error"]) == pytest.approx(sorted(record.loss for record in records))
    assert "Loss 0.3: " in "\n".join(round_text(last, wanted))
    (first, *_) = records
    assert why_ended([first], StopRules(until_loss=first.loss)) == ""
    assert why_ended([first], StopRules(until_loss=first.loss - 1e-6)) == "error reached"


def test_a_search_by_the_loss_passes_over_a_run_that_diverged(tmp_path: Path) -> None:
    text = TEXT.replace("epochs = 6", "epochs = 6\nlearning_rate = 1e30")
    own = parse_plan(text.replace("width = [0.5, 1, 2]", "width = 0.5"), name="short")
    wanted = Search(targets=(0.3,), metric=Metric.LOSS)
    *_, last = search(own, tmp_path, wanted, executor=executor_for("cpu", 1))
    assert isinstance(last, Round)
    assert {record.loss for status in chain_statuses(own, tmp_path) for record in status.records} == {None}
    assert (last.table, last.stop) == (None, Stop.NOTHING_LEFT)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (Search(), "a target error or a budget"),
        (Search(targets=(1.5,)), "must be below 1"),
        (Search(targets=(0.1,), confidence=2), "--confidence is 2"),
        (Search(targets=(0.1,), num_examples=7), "--num-examples is 7, but the plan short has 200"),
        (Search(targets=(0.1,), minimise="latency"), r"latency, which .* `prunecast time PLAN -o TABLE`"),
        (Search(targets=(0.1,), minimise="bytes"), r"bytes, which .* `prunecast export PLAN -o TABLE`"),
        (Search(targets=(0.1,), metric=Metric("f1")), "cannot search by f1; give one of error and loss"),
        (Search(targets=(0.1,), uncertainty=0), "--uncertainty is 0"),
        (Search(budget=Budget(hours=0)), "--hours is 0"),
        (Search(budget=Budget(training_runs=0)), "--training-runs is 0"),
    ],
)
def test_what_cannot_be_searched_is_refused(wanted: Search, words: str) -> None:
    with pytest.raises(PrunecastError, match=words):
        wanted.check(plan())


def test_multiply_adds_without_channels_are_not_known_before_training() -> None:
    wanted = Search(targets=(0.1,), minimise="multiply-adds")
    wanted.check(plan())
    with pytest.raises(PrunecastError, match="find cannot minimise multiply-adds where whole channels"):
        wanted.check(parse_plan(f'method = "imp-channels"\n{TEXT}', name="other"))


def test_a_plan_of_several_kinds_is_refused() -> None:
    both = parse_plan(
        TEXT.replace('family = "digits_cnn"', 'family = "digits_cnn"\nmethod = ["imp", "random"]'), name="two"
    )
    with pytest.raises(PrunecastError, match="needs a plan with one method, but two has several"):
        Search(targets=(0.1,)).check(both)


def test_a_fleet_and_a_cluster_train_several_chains_in_a_round() -> None:
    assert at_once("cpu", 3, cluster=False) == 3
    assert at_once("cuda", 1, cluster=False) == 8
    assert at_once("cpu", 1, cluster=True, limit=5) == 5


def stored(store: Path) -> int:
    """How many levels a store has."""
    return sum(map(len, levels(store).values()))


@pytest.mark.slow
def test_a_search_killed_again_and_again_loses_nothing(
    tmp_path: Path, whole: tuple[Path, list[Round]]
) -> None:
    """Levels that are stored stay, chains have the same numbers, and the search ends."""
    more, kills = random.Random(0), 0
    while kills < 8:
        enough = stored(tmp_path) + more.randrange(3)
        process = PROCESSES.Process(target=searched, args=(tmp_path,))
        process.start()
        while process.is_alive() and stored(tmp_path) <= enough:
            time.sleep(0.01)
        if not process.is_alive():
            break
        process.kill()
        process.join()
        kills += 1
    assert kills >= 2
    (*_, last) = searched(tmp_path)
    assert last.stop in (Stop.SETTLED, Stop.NOTHING_LEFT)
    unbroken = levels(whole[0])
    for size, errors in levels(tmp_path).items():
        common = min(len(errors), len(unbroken[size]))
        assert errors[:common] == unbroken[size][:common]
