from functools import partial

import pytest
from fatal_family import raising
from small import BRIEF, on_processes, parsed, table

from prunecast.errors import PrunecastError
from prunecast.pruning import chain_folder
from prunecast.sweep import Busy, Failed, Progress, chain_statuses, executor_for, rows, run_plan, work

EXECUTORS = {
    "inline": work,
    "processes": on_processes(),
    "one process": on_processes("cpu"),
    "more processes than chains": on_processes(*["cpu"] * 6),
    "fleet": partial(work, packed=True),
    "a fleet in every process": on_processes(packed=True),
}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    store = tmp_path_factory.mktemp("unbroken")
    list(run_plan(parsed(BRIEF), store))
    return table(parsed(BRIEF), store)


@pytest.mark.parametrize("name", EXECUTORS)
def test_every_executor_gives_every_level_once(tmp_path, unbroken, name):
    plan = parsed(BRIEF)
    events = list(run_plan(plan, tmp_path, executor=EXECUTORS[name]))
    assert all(isinstance(event, Progress) for event in events)
    told = sorted((event.number, event.record.level) for event in events)
    assert told == [(number, level) for number in range(1, 5) for level in range(3)]
    assert {event.ended for event in events if event.record.level == 2} == {"level cap"}
    found = table(plan, tmp_path)
    if "fleet" in name:  # packed arithmetic rounds otherwise
        assert [row["nonzero"] for row in found] == [row["nonzero"] for row in unbroken]
    else:
        assert found == unbroken
    assert list(run_plan(plan, tmp_path, executor=EXECUTORS[name])) == []


@pytest.mark.parametrize("name", ["inline", "fleet"])
def test_a_raised_cap_goes_on_and_tells_only_what_is_new(tmp_path, name):
    list(run_plan(parsed(BRIEF), tmp_path, executor=EXECUTORS[name]))
    raised = parsed(BRIEF.replace("level_cap = 2", "level_cap = 4"))
    events = list(run_plan(raised, tmp_path, executor=EXECUTORS[name]))
    assert sorted((event.number, event.record.level) for event in events) == [
        (number, level) for number in range(1, 5) for level in (3, 4)
    ]


@pytest.mark.slow
def test_fleets_that_are_told_to_stop_store_where_their_chains_stand(tmp_path):
    text = BRIEF.replace("[100, 200]", "[50, 600]").replace("replicates = 2", "replicates = [0]")
    plan = parsed(text.replace("epochs = 2", "epochs = 100"))
    running = run_plan(plan, tmp_path, executor=on_processes("cpu", packed=True))
    assert next(running).number == 1
    folder = chain_folder(tmp_path, plan.chains[1].spec)
    assert not folder.checkpoint.exists()
    running.close()
    assert (folder.checkpoint.exists(), folder.records()) == (True, [])
    assert [own.state for own in chain_statuses(plan, tmp_path)] == ["begun", "waiting"]


@pytest.mark.slow
def test_a_fleet_bears_a_chain_that_raises_one_that_is_damaged_and_one_in_other_hands(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "fleet_family.py").write_text(raising("no such width"))
    text = BRIEF.replace('"digits_cnn"', '"fleet_family:small"').replace("width = 0.5", "width = [1, 2]")
    plan, store = parsed(text), tmp_path / "store"
    folders = [chain_folder(store, chain.spec) for chain in plan.chains]
    folders[1].path.mkdir(parents=True)
    (folders[1].path / "records.json").write_text("{")
    seen = []
    with folders[0].locked():
        running = run_plan(plan, store, executor=EXECUTORS["fleet"])
        while sum(isinstance(event, Progress) for event in seen) < 6:
            seen.append(next(running))
    seen += list(running)
    assert {event.number for event in seen if isinstance(event, Failed)} == {2, 5, 6, 7, 8}
    assert {event.number for event in seen if isinstance(event, Busy)} == {1}
    assert [own.state for own in chain_statuses(plan, store)] == [
        "ended",
        "damaged",
        *["ended"] * 2,
        *["failed"] * 4,
    ]
    assert (
        len(rows(parsed(text.replace("[1, 2]", "1").replace("replicates = 2", "replicates = [0]")), store))
        == 6
    )


def test_mistakes_are_named_before_anything_runs(tmp_path):
    with pytest.raises(PrunecastError, match="--jobs is 0; give 1 or more"):
        executor_for("cpu", 0)
    with pytest.raises(PrunecastError, match="no device 'gpu'; give cpu or cuda"):
        executor_for("gpu", 1)
    plan = parsed(
        BRIEF.replace('"digits"\ndepth', '"mine"\nloader = "arrays"\nroot = "gone.npz"\ndepth'), tmp_path
    )
    with pytest.raises(PrunecastError, match=r"reads its data from .*gone\.npz, which does not exist"):
        next(run_plan(plan, tmp_path))
    assert not (tmp_path / "chains").exists()
