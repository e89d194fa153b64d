"""A chain that fails is reported, and the others go on."""

import dataclasses

import pytest
import torch
from fleet_digits import ANY, CPU, chain, jobs_of

from prunecast import data
from prunecast.errors import BusyError, DamagedError
from prunecast.fleet import ChainFailed, FleetOptions, LevelFinished, fleet_events
from prunecast.pruning import chain_folder, open_chain

BRIEF = {"epochs": 2, "rewind": 1.0}
BAD = 1


def jobs(cap=1, method="imp", recipe=BRIEF):
    specs = [chain(recipe=recipe, method=method, replicate=replicate) for replicate in (0, 1, 2)]
    return jobs_of(specs, cap=cap, dataset=data.load("digits"))


def events_of(own, store, opener=open_chain, options=ANY):
    return list(fleet_events(own, store, device=CPU, options=options, opener=opener))


def levels(events):
    return sorted((event.number, event.record.level) for event in events if isinstance(event, LevelFinished))


def spoilt(how):
    """Opens replicate 1 in a broken state."""

    def opener(spec, store, dataset):
        opened = open_chain(spec, store, dataset)
        return how(opened) if spec.replicate == BAD else opened

    return opener


def raising(opened):
    raise ValueError("no such network")


def with_a_method_that_prunes_nothing_sensible(opened):
    method = dataclasses.replace(opened.spec.method)
    object.__setattr__(method, "fraction", "a fifth")
    return dataclasses.replace(opened, spec=dataclasses.replace(opened.spec, method=method))


@pytest.mark.parametrize("how", [raising, with_a_method_that_prunes_nothing_sensible])
def test_a_chain_that_raises_when_opened_or_closed(tmp_path, how):
    own = jobs()
    events = events_of(own, tmp_path, spoilt(how))
    (failed,) = [event for event in events if isinstance(event, ChainFailed)]
    assert failed.number == BAD
    assert isinstance(failed.problem, ValueError | TypeError)
    assert levels(events) == [(0, 0), (0, 1), (2, 0), (2, 1)]
    assert levels(events_of(own, tmp_path)) == [(number, level) for number in range(3) for level in (0, 1)]


def test_a_chain_that_is_locked_and_a_damaged_one(tmp_path):
    own = jobs()
    folder = chain_folder(tmp_path, own[2].spec)
    folder.path.mkdir(parents=True)
    (folder.path / "records.json").write_text("{")
    with chain_folder(tmp_path, own[BAD].spec).locked():
        events = events_of(own, tmp_path)
    problems = {event.number: type(event.problem) for event in events if isinstance(event, ChainFailed)}
    assert problems == {BAD: BusyError, 2: DamagedError}
    assert levels(events) == [(0, 0), (0, 1)]


def with_a_tensor_more(opened):
    opened.untrained.register_buffer("more", torch.zeros(1))
    return opened


def test_the_plain_loop_does_not_report_levels_again(tmp_path):
    from_start = {"method": "synflow", "recipe": {"epochs": 2, "rewind": 0.0}}
    events_of(jobs(cap=0, **from_start), tmp_path)
    events = events_of(jobs(**from_start), tmp_path, spoilt(with_a_tensor_more))
    assert levels(events) == [(number, level) for number in range(3) for level in (0, 1)]
    assert events[-1].number == BAD


def test_what_a_kill_left_behind_of_an_ended_chain_is_tidied_up(tmp_path):
    own = jobs(cap=0)
    events_of(own, tmp_path)
    left = chain_folder(tmp_path, own[0].spec).start(0)
    left.write_bytes(b"")
    assert levels(events_of(own, tmp_path)) == [(number, 0) for number in range(3)]
    assert not left.exists()


def test_a_member_that_breaks_its_pack_is_left_to_the_plain_loop(tmp_path, caplog):
    events = events_of(jobs(), tmp_path, spoilt(with_a_tensor_more))
    assert levels(events) == [(number, level) for number in range(3) for level in (0, 1)]
    assert [event.number for event in events[-2:]] == [BAD, BAD]
    assert "A pack of 1 network failed" in caplog.text


def test_few_chains_open_at_once(tmp_path):
    events = events_of(jobs(), tmp_path, options=FleetOptions(most_packs=2, threads=1, most_chains=1))
    assert [event.number for event in events] == [0, 0, 1, 1, 2, 2]
