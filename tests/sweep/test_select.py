import dataclasses
import itertools

import pytest
from small import BRIEF, parsed, table

from prunecast.errors import PrunecastError
from prunecast.pruning import StopRules, chain_folder
from prunecast.spec import ChainSpec, Select, left_out, method, pooled_noise, recipe
from prunecast.sweep import LeftOut, Progress, chain_statuses, run_plan
from prunecast.sweep.wording import error_rise_words

SPEC = ChainSpec(
    family="digits_cnn",
    dataset="digits",
    recipe=recipe("digits"),
    method=method("imp"),
    depth=3,
    width=1,
    num_examples=100,
)


def errors(table, noise=(0.99, 1.01), **changes):
    """Unpruned errors of (depth, width) pairs, with a replicate for every factor in `noise`."""
    return {
        dataclasses.replace(SPEC, depth=depth, width=width, replicate=replicate, **changes): mean * factor
        for (depth, width), mean in table.items()
        for replicate, factor in enumerate(noise)
    }


def sizes(found):
    return sorted({(spec.depth, spec.width) for spec in found})


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({(3, 1): 0.3, (3, 2): 0.2, (3, 4): 0.1}, []),
        ({(3, 1): 0.3, (3, 2): 0.2, (3, 4): 0.25, (3, 8): 0.1}, [(3, 4), (3, 8)]),
        ({(3, 1): 0.3, (4, 1): 0.4, (5, 1): 0.2}, [(4, 1), (5, 1)]),
        ({(3, 1): 0.2, (3, 2): 0.203, (3, 4): 0.202}, []),
        # Deeper hurts at width 1 only, so other widths keep their depth.
        ({(3, 1): 0.3, (4, 1): 0.4, (3, 2): 0.2, (4, 2): 0.19}, [(4, 1)]),
        # A rise in steps that are each within the noise is a rise from the lowest.
        ({(3, 1): 0.200, (3, 2): 0.2035, (3, 4): 0.207, (3, 8): 0.2105}, [(3, 4), (3, 8)]),
    ],
)
def test_networks_beyond_the_turning_point_are_left_out(table, expected):
    assert sizes(left_out(Select(), errors(table))) == expected


def test_dataset_sizes_are_judged_apart():
    small = errors({(3, 1): 0.3, (3, 2): 0.4}, num_examples=50)
    large = errors({(3, 1): 0.3, (3, 2): 0.2}, num_examples=100)
    found = left_out(Select(), {**small, **large})
    assert {spec.num_examples for spec in found} == {50}


def test_the_tolerance_is_the_noise_of_a_difference_of_means():
    assert pooled_noise([0.9, 5.0, 1.1, 0.0, 0.0], [0, 1, 0, 2, 2]) == pytest.approx(0.02**0.5)
    assert pooled_noise([5.0], [0]) is None
    for factor, out in ((0.99, []), (1.01, [(3, 2)])):
        limit = 0.1 * (1 + 2 * 0.05 * (1 / 1 + 1 / 1) ** 0.5 * factor)
        table = errors({(3, 1): 0.1, (3, 2): limit}, noise=(1,))
        assert sizes(left_out(Select(noise=0.05), table)) == out


def test_the_order_of_the_chains_does_not_matter():
    table = errors(
        {(depth, width): 1 / depth + (width - 2) ** 2 for depth in (3, 4, 5) for width in (1, 2, 4)}
    )
    found = left_out(Select(), table)
    for order in itertools.islice(itertools.permutations(table), 5):
        assert left_out(Select(), {spec: table[spec] for spec in reversed(order)}) == found
    assert sizes(found) == [(3, 4), (4, 4), (5, 4)]
    said = "; ".join(error_rise_words(reason) for reason in found.values())
    assert (
        "networks wider than width 2 have a larger unpruned error: 4.3333 at width 4, 0.3333 at width 2"
        in said
    )


SELECTING = BRIEF.replace("width = 0.5", "width = [0.5, 1, 2]").replace(
    "[recipe]", "[select]\nnoise = 0.0\n[recipe]"
)


def test_a_plan_trains_unpruned_networks_first_and_leaves_the_rest_out(tmp_path):
    plan = parsed(SELECTING)
    events = list(run_plan(plan, tmp_path))
    kinds = [type(event).__name__ for event in events]
    out = [event for event in events if isinstance(event, LeftOut)]
    assert kinds[:12] == ["Progress"] * 12
    assert all(event.record.level == 0 for event in events[:12])
    assert kinds[12 : 12 + len(out)] == ["LeftOut"] * len(out)
    numbers = {event.number for event in out}
    later = {event.number for event in events[12:] if isinstance(event, Progress)}
    assert later == set(range(1, 13)) - numbers
    again = [event for event in run_plan(plan, tmp_path) if isinstance(event, LeftOut)]
    assert again == out
    statuses = chain_statuses(plan, tmp_path)
    assert {own.number for own in statuses if own.state == "left out"} == numbers
    kept = [chain.spec.digest for number, chain in enumerate(plan.chains, 1) if number not in numbers]
    rows = table(plan, tmp_path)
    assert [row["spec"] for row in rows] == [digest for digest in kept for _ in range(3)]


def test_a_selection_stopped_at_any_event_goes_on_to_the_same_table(tmp_path):
    plan = parsed(SELECTING)
    whole = list(run_plan(plan, tmp_path / "whole"))
    for _ in range(len(whole) // 5):
        running = run_plan(plan, tmp_path / "stopped")
        for _ in zip(range(3), running, strict=False):
            pass
        running.close()
    list(run_plan(plan, tmp_path / "stopped"))
    assert table(plan, tmp_path / "stopped") == table(plan, tmp_path / "whole")
    left = [event for event in whole if isinstance(event, LeftOut)]
    for event in left:
        assert len(chain_folder(tmp_path / "stopped", event.chain.spec).records()) == 1
        assert event.chain.rules == StopRules(level_cap=2, at_chance=0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BRIEF.replace("replicates = 2", "select = true"), "select needs the noise of replicates"),
        (BRIEF + "[select]\nnoises = 1", "unknown key 'noises'; valid keys are tolerance, noise"),
        (BRIEF + "[select]\nnoise = -1", "noise is -1; give 0 or more"),
        (
            BRIEF.replace("depth = 3", 'depth = 3\nselect = "yes"'),
            "select is 'yes'; give true, false or a table",
        ),
    ],
)
def test_mistakes_in_a_selection_are_named(text, words):
    with pytest.raises(PrunecastError) as caught:
        parsed(text)
    assert words in str(caught.value)
