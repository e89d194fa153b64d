"""A fleet writes the same store as the plain loop, whichever networks share a pack."""

import contextlib
import dataclasses
import math
import signal
import threading
import time

import pytest
import torch
from fleet_digits import ANY, chain, doubled, fleet, folders, jobs_of, plain

from prunecast import families
from prunecast.fleet import FleetOptions, level, runner_pool
from prunecast.pruning import (
    chain_trainer,
    open_level,
    read_tensors,
    start_digest,
    store_start,
    train_level,
)
from prunecast.training import stepper

NEAR = {"loss"}
OTHER = {"seconds", "device", "code"}


def assert_same_store(jobs, one, other):
    for ours, theirs in zip(folders(jobs, one), folders(jobs, other), strict=True):
        mine, plainly = ours.records(), theirs.records()
        assert len(mine) == len(plainly)
        for record, expected in zip(mine, plainly, strict=True):
            for name in vars(expected):
                if name in NEAR and vars(expected)[name] is not None:
                    assert math.isclose(vars(record)[name], vars(expected)[name], rel_tol=1e-5)
                elif name not in OTHER:
                    assert vars(record)[name] == vars(expected)[name], (ours.path, record.level, name)
        names = sorted(path.name for path in theirs.path.glob("*.safetensors"))
        assert sorted(path.name for path in ours.path.glob("*.safetensors")) == names
        for name in names:
            assert_same_tensors(read_tensors(ours.path / name)[0], read_tensors(theirs.path / name)[0])


def assert_same_tensors(ours, theirs):
    assert list(ours) == list(theirs)
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, rtol=1e-9, atol=1e-9, equal_nan=True)


class Interrupted(BaseException):
    pass


@contextlib.contextmanager
def interrupted_when(condition):
    """Raise in the main thread, wherever it is, as Ctrl-C would."""

    def look(*_):
        if condition():
            raise Interrupted
        signal.setitimer(signal.ITIMER_REAL, 0.01)  # only now, so that a look never interrupts another

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try:
        with pytest.raises(Interrupted):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


MIXED = [
    *(chain(width=width, replicate=replicate) for width in (0.5, 0.25) for replicate in range(3)),
    chain(width=1.0, num_examples=60),
    chain(width=0.25, num_examples=60),
]


def test_mixed_widths_sizes_and_replicates(tmp_path):
    jobs = jobs_of(MIXED)
    plain(jobs, tmp_path / "plain")
    finished = list(fleet(jobs, tmp_path / "fleet"))
    assert len(finished) == 4 * len(jobs)
    assert sorted(done.number for done in finished if done.ended == "level cap") == list(range(len(jobs)))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")


MODERN = {
    "optimizer": "adamw",
    "learning_rate": 0.01,
    "weight_decay": 0.05,
    "weight_decay_on": "weights",
    "schedule": "cosine",
    "warmup": 1.0,
    "label_smoothing": 0.1,
    "gradient_clip": 0.5,
}


@pytest.mark.parametrize(
    ("method", "recipe"),
    [
        ("imp", MODERN),
        ("imp", {"schedule": "one-cycle", "gradient_clip": 0.5, "weight_decay_on": "weights"}),
        ("imp", {"loss": "torch.nn.functional:multi_margin_loss"}),
        ("imp", {"optimizer": "fleet_own:NORMALISED", "learning_rate": 0.03}),
        ("imp", {"loss": "fleet_own:SQUARED", "learning_rate": 0.03}),
        ("imp-rate-rewinding", {"optimizer": "adam", "learning_rate": 0.01}),
        ("imp-fine-tuning", {"warmup": 1.0, "validation_examples": 50}),
        ("synflow", {"rewind": 0.0, "steps": 7}),
        ("random", {"rewind": 0.0}),
    ],
)
def test_methods_and_recipes(tmp_path, method, recipe):
    jobs = jobs_of([chain(width=width, method=method, recipe=recipe) for width in (0.5, 0.25)], cap=2)
    plain(jobs, tmp_path / "plain")
    list(fleet(jobs, tmp_path / "fleet"))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")


@pytest.mark.parametrize("method", ["imp", "synflow"])
def test_weights_that_the_function_makes(tmp_path, method):
    """Four replicates with weights, biases and buffers of their own share packs."""
    own = chain(family="fleet_own:projected", recipe={"initial_weights": "own", "rewind": 0.0}, method=method)
    specs = [dataclasses.replace(own, width=w, replicate=r) for w in (0.5, 0.25) for r in range(2)]
    jobs = jobs_of(specs, cap=2)
    plain(jobs, tmp_path / "plain")
    list(fleet(jobs, tmp_path / "fleet"))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")


@pytest.mark.parametrize("method", ["imp", "imp-rate-rewinding", "imp-fine-tuning"])
@pytest.mark.parametrize("trained", [True, False])
def test_chains_that_start_from_a_file(tmp_path, method, trained):
    specs = []
    for width in (0.5, 0.25):
        path = tmp_path / f"{width}.pt"
        generator = torch.Generator().manual_seed(1)
        sizes = {"depth": 3, "width": width, "num_classes": 10}
        torch.save(families.build("digits_cnn", **sizes, generator=generator).state_dict(), path)
        start = start_digest(path)
        for store in ("plain", "fleet"):
            store_start(tmp_path / store, path, start)
        specs += [chain(width=width, method=method, start=start, start_trained=trained)]
    jobs = jobs_of([*specs, chain(width=0.5, method=method)], cap=2)
    plain(jobs, tmp_path / "plain")
    list(fleet(jobs, tmp_path / "fleet"))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")


def test_losses_and_optimizers_that_may_mix_networks_train_them_one_by_one(tmp_path, caplog):
    recipes = [
        {"loss": "torch.nn.functional:multi_margin_loss"},
        {"optimizer": "fleet_own:NORMALISED"},
        MODERN,
    ]
    brief = [{**own, "epochs": 2, "rewind": 1.0} for own in recipes]
    jobs = jobs_of([chain(recipe=recipe, replicate=k) for recipe in brief for k in range(2)], cap=0)
    list(fleet(jobs, tmp_path))
    alone = sorted(record.getMessage() for record in caplog.records if "not packed" in record.getMessage())
    assert len(alone) == 2
    assert "The loss 'torch.nn.functional:multi_margin_loss' does not give a loss per example." in alone[0]
    assert "The optimizer 'fleet_own:NORMALISED' is not elementwise." in alone[1]


def test_chains_that_end_at_different_levels(tmp_path):
    jobs = [
        *jobs_of([chain(width=0.5)], cap=1, dataset=(digits := doubled())),
        *jobs_of([chain(width=0.25), chain(width=0.25, replicate=1)], cap=4, dataset=digits),
        *jobs_of([chain(width=0.0625)], cap=30, dataset=digits),
    ]
    plain(jobs, tmp_path / "plain")
    ends = {done.number: done.ended for done in fleet(jobs, tmp_path / "fleet") if done.ended}
    assert ends == {0: "level cap", 1: "level cap", 2: "level cap", 3: "disconnected"}
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")


def test_a_member_that_diverges_does_not_change_others(tmp_path):
    digits = doubled()
    specs = [chain(width=0.5), chain(width=0.25), chain(width=0.25, replicate=1)]
    jobs = jobs_of(specs, cap=2, dataset=digits)
    plain(jobs, tmp_path / "plain")

    def opener(spec, store, dataset):
        from fleet_digits import open_double

        opened = open_double(spec, store, dataset)
        if spec.replicate == 1:
            with torch.no_grad():  # its first update overflows
                opened.untrained.get_parameter(opened.prunable[-1]).fill_(1e200)
        return opened

    finished = list(fleet(jobs, tmp_path / "fleet", opener=opener))
    assert [(done.ended, done.record.status) for done in finished if done.number == 2] == [
        ("diverged", "diverged")
    ]
    assert_same_store(jobs[:2], tmp_path / "fleet", tmp_path / "plain")
    alone = opener(specs[2], tmp_path / "alone", digits)
    bench = chain_trainer(alone)
    end = train_level(alone, open_level(alone, []), bench, stepper(bench))
    (record,) = (done.record for done in finished if done.number == 2)
    assert (record.steps, record.seconds > 0) == (end.steps, end.diverged)
    assert record.steps < alone.times.total


def test_stopped_between_levels_and_continued_in_other_packs(tmp_path):
    jobs = jobs_of(MIXED[:6])
    plain(jobs, tmp_path / "plain")
    own = folders(jobs, tmp_path / "fleet")
    with interrupted_when(lambda: sum(len(folder.records()) for folder in own) >= 7):
        list(fleet(jobs, tmp_path / "fleet"))
    stored = sum(len(folder.records()) for folder in own)
    assert 7 <= stored < 24
    again = list(fleet(jobs[::-1], tmp_path / "fleet", FleetOptions(most_packs=1, budget=0.75, threads=1)))
    assert len(again) == 24
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")
    assert len(list(fleet(jobs, tmp_path / "fleet"))) == 24


def test_families_that_cannot_be_packed_train_alone_beside_packs(tmp_path):
    brief = {"epochs": 2, "rewind": 1.0}
    own = [chain(family="fleet_own:normalised_by_groups", recipe=brief, replicate=k) for k in range(3)]
    jobs = jobs_of([*own, chain(recipe=brief), chain(recipe=brief, width=1.0)], cap=2)
    plain(jobs, tmp_path / "plain")
    finished = list(fleet(jobs, tmp_path / "fleet"))
    for number in range(len(jobs)):
        assert [done.record.level for done in finished if done.number == number] == [0, 1, 2]
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")


@pytest.mark.parametrize("family", ["digits_cnn", "fleet_own:normalised_by_groups"])
@pytest.mark.parametrize("recipe", [{"epochs": 60, "rewind": 2.5}, {**MODERN, "epochs": 60}])
def test_stopped_inside_a_level_and_continued_by_either(tmp_path, recipe, family, monkeypatch):
    monkeypatch.setattr(runner_pool, "LOADED_STEPS", 16)
    sizes = enumerate((0.5, 0.25, 0.25))
    jobs = jobs_of(
        [chain(family=family, width=width, recipe=recipe, replicate=k) for k, width in sizes], cap=1
    )
    plain(jobs, tmp_path / "plain")
    begun = [folder.checkpoint for folder in folders(jobs, tmp_path / "fleet")]
    often, seen = dataclasses.replace(ANY, most_packs=3, checkpoint_seconds=0.0), [0]
    for pieces in (5, 4):
        paused = waits_to_be_stopped(monkeypatch, pieces)
        with interrupted_when(paused.is_set):
            list(fleet(jobs, tmp_path / "fleet", often))
        seen.append(_furthest(begun))
    monkeypatch.undo()
    assert 0 < seen[1] < seen[2] < 240
    plain(jobs[:1], tmp_path / "fleet")
    list(fleet(jobs, tmp_path / "fleet"))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")


def waits_to_be_stopped(monkeypatch, pieces):
    """Let the device wait before so many pieces of 16 steps have begun, until the fleet is told to stop."""
    paused, begun, usual = threading.Event(), [], level.LevelTraining._launches

    def launches(own, piece):
        begun.append(piece)
        while len(begun) == pieces and not own.stopping():
            paused.set()
            time.sleep(0.001)
        return usual(own, piece)

    monkeypatch.setattr(level.LevelTraining, "_launches", launches)
    return paused


def _furthest(checkpoints):
    """The most steps that a chain has stored; on a busy machine others may begin much later."""
    return max((read_tensors(path)[1]["step"] for path in checkpoints if path.exists()), default=0)
