"""The chain, level by level, alone on one device: the plain way that every faster one is compared with."""

import copy
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from prunecast.data import Dataset, Source
from prunecast.pruning.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from prunecast.pruning.level import Level, Trained, close_level, open_level
from prunecast.pruning.opened import Chain, open_chain
from prunecast.pruning.packed import write_packed
from prunecast.pruning.record import Record, StopRules, why_ended, within
from prunecast.pruning.store import chain_folder
from prunecast.spec import ChainSpec
from prunecast.training import (
    ALONE,
    ProcessGroup,
    Score,
    State,
    Trainer,
    checkpoint_due,
    copy_state,
    evaluate,
    prepare,
    set_state,
    share_state,
    stepper,
    stretches,
    train,
)
from prunecast.training.precision import settings


def run_chain(
    spec: ChainSpec,
    store: Path,
    dataset: Callable[[], Dataset],
    *,
    rules: StopRules | None = None,
    keep_weights: bool = False,
    group: ProcessGroup = ALONE,
) -> Iterator[Record]:
    """Prune a network level by level and yield each level's record, finished ones from the store.

    `dataset` is called only if there is something to train; the device is that of its labels. The chain is
    locked for other processes as long as the iterator lives. Of a group the first member calls this, and all
    others `follow_chain`.
    """
    rules = rules or StopRules()
    folder = chain_folder(store, spec)
    records = folder.records()
    if why_ended(records, rules) and not folder.stale(len(records)):
        yield from within(records, rules)
        return
    with folder.locked():
        records = folder.records()
        folder.tidy(len(records))
        yield from within(records, rules)
        if why_ended(records, rules):
            return
        chain = open_chain(spec, store, dataset())
        bench = bench_of(chain, group)
        advance = stepper(bench)
        while not why_ended(records, rules):
            level = open_level(chain, records)
            with settings(spec.recipe.precision, bench.cursor.device, spec.threads):
                end = train_level(chain, level, bench, advance)
                records.append(close_level(chain, records, level, end, keep_weights=keep_weights))
            yield records[-1]


def bench_of(chain: Chain, group: ProcessGroup = ALONE) -> Trainer:
    """A bench with a copy of the chain's network; every level is trained on the same one."""
    spec, data = chain.spec, chain.dataset
    model = copy.deepcopy(chain.untrained)
    return prepare(model, chain.prunable, spec.recipe, spec.replicate, data.train, chain.examples, group)


def train_level(chain: Chain, level: Level, bench: Trainer, advance: Callable[[], None]) -> Trained:
    """Train a level from where it was left, with checkpoints on the way."""
    began = time.perf_counter()
    first, earlier = take_up(chain, level, bench)
    share_level(bench, first, level.last)

    def seconds() -> float:
        return earlier + time.perf_counter() - began

    for begin, end in stretches(chain.times, first, level.last):
        if begin == chain.times.rewind and level.level == 0:
            save_rewind(chain, level, bench)
        if not math.isfinite(train(bench, advance, begin, end)):
            return _diverged(bench, seconds(), end - level.first)
        if end < level.last and checkpoint_due(chain.spec.recipe, chain.times, begin, end):
            so_far = Checkpoint(step=end, seconds=seconds(), state=copy_state(bench))
            write_checkpoint(chain, level, so_far)
    return examine(chain, bench, seconds)


def share_level(bench: Trainer, first: int = 0, last: int = 0) -> tuple[int, int]:
    """Make a level's start, its first step and its last that of the group's first member, for every member."""
    steps = torch.tensor([first, last], device=bench.cursor.device)
    bench.group.copy_first([steps])
    share_state(bench)
    return int(steps[0]), int(steps[1])


def examine(chain: Chain, bench: Trainer, seconds: Callable[[], float]) -> Trained:
    """Evaluate a trained network on all there is; members of a group hold the same bits, so they agree."""
    network = copy_state(bench).network
    if not all(bool(torch.isfinite(tensor).all()) for tensor in network.values()):
        return _diverged(bench, seconds())
    data = chain.dataset
    test = _score(bench, data.test, np.arange(len(data.test)))
    return Trained(
        network=network,
        diverged=False,
        test=test,
        train=_score(bench, data.train, chain.examples),
        validation=_score(bench, data.train, chain.validation) if len(chain.validation) else None,
        seconds=seconds(),
        device=device_name(bench.cursor.device, bench.group),
    )


def _score(bench: Trainer, source: Source, indices: NDArray[np.int64]) -> Score:
    return evaluate(bench.model, source, torch.from_numpy(indices), bench.recipe.precision, bench.group)


def _diverged(bench: Trainer, seconds: float, steps: int | None = None) -> Trained:
    return Trained(
        network=copy_state(bench).network,
        diverged=True,
        test=None,
        train=None,
        validation=None,
        seconds=seconds,
        device=device_name(bench.cursor.device, bench.group),
        steps=steps,
    )


def take_up(chain: Chain, level: Level, bench: Trainer) -> tuple[int, float]:
    """Set the bench to the level's checkpoint or start; return the step and the seconds already spent."""
    found = read_checkpoint(chain, level)
    set_state(bench, found.state if found else State(network=level.network, optimizer_state={}), level.masks)
    return (found.step, found.seconds) if found else (level.first, 0.0)


def save_rewind(chain: Chain, level: Level, bench: Trainer) -> None:
    """Store the network at the rewind point, where the method goes back to it."""
    if chain.spec.method.retraining == "weight-rewinding":
        write_packed(chain.folder.rewind, copy_state(bench).network, level.masks, 0)


def device_name(device: torch.device, group: ProcessGroup = ALONE) -> str:
    """The device in words, and how many of them a group has."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return name if group.size == 1 else f"{group.size} x {name}"
