"""Packs that a fleet compiles are reckoned compiled: one crew of a family is timed both ways and tells for others."""

import dataclasses
from collections import Counter

import pytest
import torch
from compiled_programs import compiled
from small import BRIEF, parsed

from prunecast.cli.show import plan as show_plan
from prunecast.fleet import build
from prunecast.fleet.bench import EAGER
from prunecast.fleet.options import Options
from prunecast.fleet.yard import Yard
from prunecast.sweep.cost import overview
from prunecast.sweep.estimate import Estimate, Share
from prunecast.sweep.estimate_compiled import AS_WRITTEN, Gain, compile_some, gain_of, gains_of
from prunecast.sweep.estimate_fleet import added_up, as_a_fleet
from prunecast.sweep.estimate_loads import loads_of, relatives
from prunecast.sweep.estimate_members import Opener, teams
from prunecast.sweep.estimate_packs import PackTiming

CPU = torch.device("cpu")
ONE = BRIEF.replace("[100, 200]", "64")
TWO = ONE.replace("depth = 3", "depth = [3, 4]")
COMPILING = Options(budget=4.0, compile=True)


@pytest.fixture
def calls(monkeypatch):
    """Calls of programs that torch.compile takes apart and puts together, without a compiler for C++."""
    counts = Counter()
    programs = compiled(counts)
    monkeypatch.setattr(build, "compiled_programs", lambda: programs)
    return counts


def loads_in(plan, options=COMPILING):
    yard = Yard([chain.spec for chain in plan.chains], options)
    opener = Opener(yard, CPU)
    return loads_of(teams([(chain, opener.open(chain)) for chain in plan.chains]), yard, options)


def timed(own, step=1.0, start=1.0):
    return PackTiming(crew=own, step=step, look=1.0, start=start)


def words(plan, found):
    fleet = Share(chains=len(plan.chains), training_runs=18, seconds=found.seconds)
    told = Estimate(device="cpu", packs=found.packs, fleet=fleet, overstated=found.overstated)
    return " ".join(show_plan(overview(plan), told, 1).split())


def test_one_crew_is_timed_compiled_and_the_others_are_scaled_by_what_that_gained(calls):
    plan = parsed(TWO)
    found = as_a_fleet(plan.chains, CPU, compiled=True)
    *written, one = found.packs
    assert [(own.crew.kind.depth, own.compiled) for own in found.packs] == [(4, False), (3, False), (4, True)]
    assert min(calls[name] for name in ("gather", "forward", "update")) > 0
    gain, compiling = one.step / written[0].step, max(0.0, one.start - written[0].start) / 4
    trained, seen = (4 + 2 * 4) / 2, 3 * (64 + 1197) / 2  # two depths side by side
    each = [own.start + trained * gain * own.step + seen * own.look for own in written]
    assert found.seconds == pytest.approx(sum(each) + compiling * (3 + 4), rel=1e-9)
    assert not found.overstated
    told = words(plan, found)
    assert "At most about " in told
    assert "scaled by what compiling gained where that was timed." in told


def test_where_compiling_fails_the_time_as_written_stands(monkeypatch, caplog):
    def refuse(*given):
        raise ValueError("no compiler")

    monkeypatch.setattr(build, "compiled_programs", lambda: dataclasses.replace(EAGER, forward=refuse))
    plan = parsed(ONE)
    assert_as_written(as_a_fleet(plan.chains, CPU, compiled=True), plan)
    assert "no compiler" in caplog.text


def assert_as_written(found, plan):
    (one,) = found.packs
    assert not one.compiled
    expected = one.start + 3 * (4 * one.step + (64 + 1197) * one.look)
    assert found.seconds == pytest.approx(expected, rel=1e-9)
    assert found.overstated
    told = words(plan, found)
    assert "At most about" not in told
    assert (
        "Nothing was compiled. - A fleet compiles packs with so many steps, which makes them faster." in told
    )


def test_without_patience_or_reason_nothing_is_compiled(calls):
    plan = parsed(ONE)
    assert_as_written(as_a_fleet(plan.chains, CPU, patience=0.0, compiled=True), plan)
    found = as_a_fleet(plan.chains, CPU)
    assert not found.overstated
    assert "Nothing was compiled." in words(plan, found)
    assert "A fleet compiles" not in words(plan, found)
    assert not calls


def test_the_family_with_the_most_work_comes_first_with_the_largest_crew_there_is_time_for(monkeypatch):
    monkeypatch.setattr(build, "compiled_programs", lambda: dataclasses.replace(EAGER))
    deep = parsed(ONE.replace("depth = 3", "depth = [3, 4, 5]"))
    flat = parsed(ONE.replace("epochs = 2", "epochs = 2\nbatch_size = 16"))
    loads = loads_in(flat) + loads_in(deep)
    builder = build.Builder([chain.spec for chain in (*flat.chains, *deep.chains)], COMPILING)
    timings = {load.crew: timed(load.crew) for load in loads}
    chosen, *_ = compile_some(loads, timings, builder, patience=4.01)  # of a second a layer
    assert (chosen.kind.depth, chosen.kind.batch) == (4, deep.chains[0].spec.recipe.batch_size)
    assert not compile_some(loads, timings, builder, patience=2.9)


def test_only_what_the_fleet_compiles_is_scaled_and_each_shape_is_compiled_once():
    loads = loads_in(parsed(TWO))
    others = loads_in(parsed(TWO.replace("epochs = 2", "epochs = 2\nbatch_size = 16")))
    assert all(load.compiled for load in loads)
    assert not any(load.compiled for load in loads_in(parsed(TWO), Options(budget=4.0)))
    (known,) = {load.crew for load in loads if load.crew.kind.depth == 4}
    timings = {load.crew: timed(load.crew, step=4.0) for load in loads + others}
    gains = gains_of(timings, {known: timed(known, step=1.0, start=9.0)})
    assert gains == {relatives(known): Gain(step=0.25, compiling=2.0)}
    assert {gain_of(load, gains) for load in loads} == {gains[relatives(known)]}
    written = [dataclasses.replace(load, compiled=False) for load in loads]
    assert {gain_of(load, gains) for load in written + others} == {AS_WRITTEN}
    trained, seen, built = 4 + 2 * 4, 3 * (64 + 1197), 2
    assert added_up(written, timings, gains) == pytest.approx(trained * 4.0 + seen + built)
    assert added_up(loads, timings, gains) == pytest.approx(trained * 1.0 + seen + built + 2.0 * (3 + 4))
    assert added_up(loads * 2, timings, gains) == pytest.approx(
        2 * (trained * 1.0 + seen) + built + 2.0 * (3 + 4)
    )
