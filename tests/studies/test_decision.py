"""What to train next: a decision depends on what was trained alone, and few decisions lead to the grid's answer."""

import math
from dataclasses import replace

import pandas as pd
import pytest
from planted import planted

from prunecast.choice import choose
from prunecast.studies import ENOUGH, Grid, GridChain, Reason, decide, frontier_targets, stop_error
from prunecast.table import Table, read

FRAME = planted(
    configurations=20, depths=(8, 14, 20, 26), widths=(0.25, 0.5, 1, 2, 4), num_examples=(50_000,), noise=0.01
)
TARGET = 0.2


def _grid(done: dict[tuple[float, float], int]) -> list[GridChain]:
    """The planted grid with so many levels of some networks trained; a level takes as long as its network is large."""
    return [
        GridChain(
            depth=depth,
            width=width,
            num_examples=50_000,
            level_cap=len(rows) - 1,
            seconds=depth * width**2,
            errors=tuple(rows["error"][: done.get((depth, width), 0)]),
            ended=done.get((depth, width), 0) >= len(rows),
        )
        for (depth, width), rows in FRAME.groupby(["depth", "width"])
    ]


def _table(done: dict[tuple[float, float], int]) -> Table | None:
    rows = [own[: done[size]] for size, own in FRAME.groupby(["depth", "width"]) if done.get(size)]
    return read(pd.concat(rows)) if rows else None


def _decision(done: dict[tuple[float, float], int], targets: tuple[float, ...] = (TARGET,)):
    return decide(_table(done), _grid(done), targets, confidence=0.5, law="eq2")


def _train(done: dict[tuple[float, float], int], step) -> None:
    size = step.chain.depth, step.chain.width
    errors = FRAME[(FRAME["depth"] == size[0]) & (FRAME["width"] == size[1])]["error"].tolist()
    done[size] = done.get(size, 0) + 1
    while (
        step.until_error is not None
        and done[size] < len(errors)
        and errors[done[size] - 1] <= step.until_error
    ):
        done[size] += 1


def test_it_begins_with_unpruned_networks_all_over_the_grid():
    found = _decision({})
    assert found.fit is None
    assert not found.known_within(ENOUGH)
    assert {step.reason for step in found.steps} == {Reason.START}
    sizes = {(step.chain.depth, step.chain.width) for step in found.steps}
    assert sizes >= {(8, 0.25), (8, 4), (26, 0.25), (26, 4)}
    assert all(step.until_error is None for step in found.steps)
    assert found.steps[0].chain.seconds == min(step.chain.seconds for step in found.steps)


def test_few_training_runs_lead_to_the_answer_of_the_grid():
    done: dict[tuple[float, float], int] = {}
    whole = choose(read(FRAME), target_error=TARGET, confidence=0.5, law="eq2").answer
    for _ in range(40):
        found = _decision(done)
        if found.known_within(ENOUGH) or not found.steps:
            break
        _train(done, found.steps[0])
    (state,) = found.states
    assert state.choice is not None
    assert state.choice.met
    assert state.choice.answer.stored_parameters == pytest.approx(whole.stored_parameters, rel=0.1)
    grid = {(chain.depth, chain.width): chain for chain in _grid({})}
    spent = sum(grid[size].seconds * levels for size, levels in done.items())
    assert spent < 0.1 * sum(chain.seconds * (chain.level_cap + 1) for chain in grid.values())
    assert sum(done.values()) < 0.25 * len(FRAME)
    low, high = state.sizes
    assert low < whole.stored_parameters * 1.1
    assert high > whole.stored_parameters / 1.1


def _with_few_examples(trained: int = 0) -> list[GridChain]:
    """The grid with its corners unpruned, and again on fewer examples, with so many levels of each chain trained."""
    done = {(8, 0.25): 1, (8, 4.0): 1, (26, 0.25): 1, (26, 4.0): 1, (14, 1.0): 1, (20, 1.0): 1}
    few = [
        replace(chain, num_examples=examples, errors=(0.5,) * trained, level_cap=3, ended=trained > 3)
        for chain in _grid({})
        for examples in (500, 1_000, 4_000)
    ]
    return [*_grid(done), *few]


def test_whole_curves_on_few_examples_show_the_shape_of_the_law():
    done = {(8, 0.25): 1, (8, 4.0): 1, (26, 0.25): 1, (26, 4.0): 1, (14, 1.0): 1, (20, 1.0): 1}
    found = decide(_table(done), _with_few_examples(), [TARGET], confidence=0.5, law="eq2")
    assert {step.reason for step in found.steps} == {Reason.LAW}
    assert {step.chain.num_examples for step in found.steps} == {1_000}  # the most that are few enough
    sizes = {(step.chain.depth, step.chain.width) for step in found.steps}
    assert sizes >= {(8, 0.25), (8, 4), (26, 0.25), (26, 4)}
    assert len(sizes) == 5
    for step in found.steps:
        assert step.until_error is not None
        assert step.until_error >= FRAME["error"].max()  # to the end
    after = decide(_table(done), _with_few_examples(trained=4), [TARGET], confidence=0.5, law="eq2")
    assert {step.reason for step in after.steps} == {Reason.FIRST_CURVE}
    assert {step.chain.num_examples for step in after.steps} == {50_000}
    alike = decide(
        _table(done), _with_few_examples(trained=4), [TARGET, 1.01 * TARGET], confidence=0.5, law="eq2"
    )
    assert len(alike.steps) == 1  # one curve serves targets that are about the same
    done[14, 1.0] = 40  # one curve is enough then, two without the others
    with_law, without = (
        decide(
            _table(done),
            [*_grid(done), *(chain for chain in others if chain.num_examples < 50_000)],
            [TARGET],
            confidence=0.5,
            law="eq2",
        )
        for others in (_with_few_examples(trained=4), [])
    )
    assert with_law.steps[0].reason is not Reason.FIRST_CURVE
    assert without.steps[0].reason is Reason.FIRST_CURVE


def test_a_decision_depends_on_what_was_trained_alone():
    done = {(8, 0.25): 1, (8, 4.0): 1, (26, 0.25): 1, (26, 4.0): 1, (14, 1.0): 12, (20, 1.0): 14}
    first, second = _decision(done), _decision(dict(reversed(done.items())))
    assert first.steps == second.steps
    assert [own.sizes for own in first.states] == [own.sizes for own in second.states]


def test_several_targets_share_a_grid_and_each_has_an_answer():
    done = {
        (8, 0.25): 1,
        (8, 4.0): 1,
        (26, 0.25): 1,
        (26, 4.0): 1,
        (14, 1.0): 1,
        (20, 2.0): 17,
        (14, 0.5): 17,
    }
    found = _decision(done, (0.15, 0.35))
    assert [own.target_error for own in found.states] == [0.15, 0.35]
    sizes = [own.choice.answer.stored_parameters for own in found.states if own.choice]
    assert len(sizes) == 2
    assert sizes[0] > sizes[1]


def test_a_chain_ends_once_its_error_is_well_above_the_targets_it_can_serve():
    assert stop_error([0.2], 0.1) == pytest.approx(0.23)
    assert stop_error([0.2], 0.19) == pytest.approx(1.6 * 0.19)
    assert stop_error([0.2, 0.8], 0.1) == pytest.approx(0.23)
    assert stop_error([0.2, 0.8], 0.1, highest_unpruned=0.11) == pytest.approx(0.92)
    assert stop_error([0.5], 0.01) == pytest.approx(0.575)


@pytest.mark.parametrize("unpruned", [0.05, 0.2, 0.4, 0.6])
def test_targets_are_errors_that_networks_can_reach(unpruned):
    """With an unpruned error of 0.4, four of five targets lay below it."""
    targets = frontier_targets([unpruned, min(2 * unpruned, 0.89)], 0.9)
    assert len(set(targets)) == 5
    assert unpruned < min(targets) < max(targets) < 0.9
    if unpruned < 0.18:
        assert (targets[0], targets[-1]) == (pytest.approx(1.25 * unpruned, rel=0.02), 0.45)


def test_what_is_over_is_never_proposed():
    done = {(8, 0.25): 1, (8, 4.0): 1, (26, 0.25): 1, (26, 4.0): 1, (14, 1.0): 1}
    grid = [replace(chain, ended=True) for chain in _grid(done)]
    assert decide(_table(done), grid, [TARGET]).steps == ()
    risen = replace(grid[0], ended=False, errors=(0.1, 0.3))
    assert Grid(chains=[risen], targets=[TARGET]).is_over(risen)
    assert not Grid(chains=[risen], targets=[0.4]).is_over(risen)


def test_trained_networks_answer_where_no_curve_rises():
    """The search used to end without an answer."""
    flat = FRAME[FRAME["level"] < 3].assign(error=lambda rows: 0.15 + 0.001 * rows["depth"] / rows["width"])
    grid = [
        GridChain(
            depth=depth,
            width=width,
            num_examples=50_000,
            level_cap=2,
            errors=tuple(rows["error"]),
            ended=True,
        )
        for (depth, width), rows in flat.groupby(["depth", "width"])
    ]
    found = decide(read(flat), grid, [TARGET, 0.1], confidence=0.5)
    assert found.steps == ()
    assert not found.known_within(ENOUGH)
    met, missed = (state.choice for state in found.states)
    assert (met.met, met.answer.source, met.answer.level) == (True, "measured", 2)
    assert not missed.met


def test_a_network_of_which_little_was_measured_still_shows_what_the_law_misses():
    """Networks whose unpruned error was known counted as fully known, so searches ended with answers 10% too small."""
    rows = read("cifar10-resnet-exact").frame
    rows = rows[rows["num_examples"].isin([1562, 50_000]) & (rows["replicate"] == 0)]
    chains = dict(tuple(rows.groupby(["depth", "width", "num_examples"])))
    done = dict.fromkeys(chains, 0)
    reasons = set()
    while not reasons - {Reason.START, Reason.LAW, Reason.FIRST_CURVE}:
        trained = {size: own[: done[size]] for size, own in chains.items()}
        grid = [
            GridChain(
                depth=size[0],
                width=size[1],
                num_examples=size[2],
                level_cap=len(chains[size]) - 1,
                errors=tuple(own["error"]),
            )
            for size, own in trained.items()
        ]
        table = read(pd.concat(trained.values())) if any(done.values()) else None
        first, *others = decide(table, grid, [TARGET], confidence=0.5).steps
        reasons = {first.reason}
        errors = chains[first.chain.size]["error"].tolist()
        past = (level for level, error in enumerate(errors, 1) if error > (first.until_error or 0))
        done[first.chain.size] = next(past, len(errors))
    gains = {step.chain.size: step.gain for step in (first, *others) if len(step.chain.errors) == 1}
    assert max(gains.values()) > 0.3
    assert len([gain for gain in gains.values() if gain > 0.1]) >= 2


def test_a_curve_is_finished_and_the_rest_comes_last():
    """Where no gain is expected, no chain that can be trained is left out."""
    sizes = [(chain.depth, chain.width) for chain in _grid({})]
    done = dict.fromkeys(sizes, 1) | {(8, 4.0): 30, (26, 4.0): 30, (8, 1.0): 20, (14, 0.5): 12}
    first = _decision(done)
    assert first.known_within(ENOUGH)
    assert [(step.reason, step.until_error) for step in first.steps] == [(Reason.SHAPE, math.inf)]
    assert first.likely_steps == first.steps
    done[first.steps[0].chain.depth, first.steps[0].chain.width] = 41
    after = _decision(done)
    reasons = [step.reason for step in after.steps]
    assert reasons == sorted(reasons, key=[Reason.LIKELY, Reason.REST].index)
    assert set(reasons) == {Reason.LIKELY, Reason.REST}
    assert len({step.chain for step in after.steps}) == len(sizes) - 1
    assert {step.reason for step in after.likely_steps} == {Reason.LIKELY}
    done |= {(step.chain.depth, step.chain.width): 41 for step in after.steps if step.reason is Reason.LIKELY}
    assert _decision(done).likely_steps == ()
    assert _decision(dict.fromkeys(sizes, 41)).steps == ()
