"""A fleet of fused packs, with kernels on the CPU, writes what the plain loop writes, up to rounding."""

import logging
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from cuda_on_cpu import HAS_COMPILER
from fleet_digits import CPU, chain, folders
from fused_packs import compile_for_cpu

from prunecast.data import from_arrays
from prunecast.fleet import ChainJob, FleetOptions, fleet_events, runner_pool
from prunecast.fleet.kernels import NoKernels
from prunecast.fleet.members import kind_of
from prunecast.pruning import StopRules, open_chain, run_chain

pytestmark = [
    pytest.mark.skipif(not HAS_COMPILER, reason="g++, which compiles the kernels, is missing"),
    pytest.mark.slow,
]
ONE_BY_ONE = FleetOptions(most_packs=1, budget=2.0, threads=1, smallest_group=16)
"""The kernels on the CPU are for one thread at a time."""
TESTS = 25
PACKS = "Packs of cifar_resnet of depth 8"
RECIPE = {"epochs": 2, "rewind": 0.5, "batch_size": 6, "learning_rate": 0.02, "precision": "bf16"}


def coloured(seed=0):
    """Four classes of small images that differ in their colour."""
    drawn = np.random.default_rng(seed)
    halves = {}
    for half, count in (("train", 30), ("test", TESTS)):
        labels = drawn.integers(0, 4, count)
        images = (
            drawn.integers(0, 120, (count, 32, 32, 3)) + 40 * (labels[:, None] == np.arange(3))[:, None, None]
        )
        halves |= {f"{half}_images": images.astype(np.uint8), f"{half}_labels": labels}
    return from_arrays(halves)


def jobs_of(widths, *, cap):
    dataset = coloured()
    own = {"family": "cifar_resnet", "dataset": "arrays", "depth": 8, "num_examples": 22}
    specs = [chain(**own, width=width, recipe=RECIPE) for width in widths]
    rules = StopRules(level_cap=cap, at_chance=0)
    return [ChainJob(spec=spec, rules=rules, dataset=lambda: dataset, keep_weights=True) for spec in specs]


def plain(jobs, store):
    return [list(run_chain(job.spec, store, job.dataset, rules=job.rules, keep_weights=True)) for job in jobs]


@pytest.fixture
def on_cpu(monkeypatch, caplog):
    """Lets packs be fused on the CPU; gives the ways in which packs were made."""
    ways, make = [], runner_pool.make_fused_runner
    monkeypatch.setattr(runner_pool, "FUSED_ON", ("cpu",))
    monkeypatch.setattr(runner_pool, "compiler", lambda device: compile_for_cpu)
    monkeypatch.setattr(runner_pool, "make_fused_runner", lambda *given: ways.append("fused") or make(*given))
    caplog.set_level(logging.INFO, "prunecast")
    return ways


def told(caplog):
    return [record.message for record in caplog.records if "are not fused" in record.message]


def test_a_fused_fleet_and_the_plain_loop_agree_and_go_on_from_each_other(tmp_path, on_cpu, caplog):
    jobs = jobs_of((0.5, 0.25), cap=1)
    wanted = plain(jobs, tmp_path / "plain")
    list(fleet_events(jobs, tmp_path / "fleet", device=CPU, options=ONE_BY_ONE))
    assert (on_cpu, told(caplog)) == (["fused"], [])
    got = [folder.records() for folder in folders(jobs, tmp_path / "fleet")]
    for ours, theirs in zip(got, wanted, strict=True):
        for record, expected in zip(ours, theirs, strict=True):
            same = ("level", "steps", "status", "density")
            assert [getattr(record, name) for name in same] == [getattr(expected, name) for name in same]
            assert record.loss == pytest.approx(expected.loss, rel=0.02)
            assert record.error == pytest.approx(expected.error, abs=1.5 / TESTS)
    more = jobs_of((0.5, 0.25), cap=2)
    for ours, theirs in zip(got, plain(more, tmp_path / "fleet"), strict=True):
        assert theirs[:2] == ours
        assert (theirs[2].status, theirs[2].density < ours[1].density) == (ours[1].status, True)


class Breaking:
    """Kernels that work for some steps, and then no more."""

    def __init__(self, steps):
        self.left = steps

    def __call__(self, source, macros):
        kernels = compile_for_cpu(source, macros)
        return SimpleNamespace(
            load=kernels.load, launch=lambda name, **given: self._launch(kernels, name, given)
        )

    def _launch(self, kernels, name, given):
        self.left -= name == "finish"
        if self.left < 0:
            raise ValueError("the kernel was wrong")
        kernels.launch(name, **given)


@pytest.mark.parametrize("steps", [1, 5])  # while the pack is built, and in the middle of a level
def test_a_fused_pack_that_fails_goes_on_in_another_mode(tmp_path, on_cpu, caplog, monkeypatch, steps):
    monkeypatch.setattr(runner_pool, "compiler", lambda device: breaking)
    breaking, jobs = Breaking(steps), jobs_of((0.5, 0.25), cap=0)
    ended = [done.ended for done in fleet_events(jobs, tmp_path, device=CPU, options=ONE_BY_ONE)]
    assert (ended, on_cpu) == (["level cap"] * 2, ["fused"])
    assert told(caplog) == [f"{PACKS} up to width 0.5 are not fused: the kernel was wrong"]


def pool_for(job, store, options=ONE_BY_ONE):
    one = open_chain(job.spec, store, job.dataset())
    pool = runner_pool.RunnerPool([job.spec], options)
    assert pool.add(kind_of(one), one)
    return kind_of(one), pool


def nothing(device):
    raise NoKernels("There is no compiler here.")


def broken(device):
    raise ValueError("the compiler was wrong")


@pytest.mark.parametrize(
    ("compiler", "widths", "words"),
    [
        (nothing, (0.5, 0.25), "up to width 0.5 are not fused: There is no compiler here."),
        (broken, (0.5, 0.25), "up to width 0.5 are not fused: the compiler was wrong"),
        (lambda device: compile_for_cpu, (8.0,), "up to width 8 are not fused: Module "),
    ],
)
def test_why_packs_are_not_fused_is_logged_once(
    on_cpu, caplog, monkeypatch, tmp_path, compiler, widths, words
):
    monkeypatch.setattr(runner_pool, "compiler", compiler)
    (job, *_) = jobs_of(widths, cap=0)
    kind, pool = pool_for(job, tmp_path)
    assert [pool.fuses(kind, widths) for _ in range(3)] == [False] * 3
    (message,) = told(caplog)
    assert message.startswith(f"{PACKS} {words}")


def test_a_width_that_is_too_wide_leaves_others_fused(on_cpu, tmp_path):
    (job, *_) = jobs_of((0.5,), cap=0)
    kind, pool = pool_for(job, tmp_path)
    assert [pool.fuses(kind, shape) for shape in ((8.0, 0.5), (1.0, 0.5), (0.5,))] == [False, True, True]
    kind, unasked = pool_for(job, tmp_path, replace(ONE_BY_ONE, fuse=False))
    assert not unasked.fuses(kind, (0.5,))
