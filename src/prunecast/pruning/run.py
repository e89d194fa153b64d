"""One chain on one device, level by level: the plain loop that every faster way must equal.

A process group shares a chain: its first process calls `run_chain`, the others `follow_chain`.
"""

import copy
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from numpy.typing import NDArray

from prunecast.data import Dataset, Source
from prunecast.pruning.chain import Chain, built, open_chain
from prunecast.pruning.channels import Slicing, find_slicing
from prunecast.pruning.level import (
    Checkpoint,
    Level,
    Trained,
    close_level,
    open_level,
    read_checkpoint,
    write_checkpoint,
)
from prunecast.pruning.record import Record, StopRules, why_ended, within
from prunecast.pruning.store import chain_folder, write_packed
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
    settings,
    share_state,
    stepper,
    stretches,
    train,
)


def run_chain(
    spec: ChainSpec,
    store: Path,
    dataset: Callable[[], Dataset],
    *,
    rules: StopRules | None = None,
    keep_weights: bool = False,
    group: ProcessGroup = ALONE,
) -> Iterator[Record]:
    """Prune a network level by level and yield the record of each level; finished levels come from the store.

    `dataset` is called only if there is something to train; the device is that of its labels. Other processes cannot
    work on the chain while the iterator exists.
    """
    rules = rules or StopRules()
    folder = chain_folder(store, spec)
    with folder.taken(rules) as records:
        yield from within(records, rules)
        if why_ended(records, rules):
            return
        chain = open_chain(spec, store, dataset())
        trainer = chain_trainer(chain, group)
        advance = stepper(trainer)
        while not why_ended(records, rules):
            level = open_level(chain, records)
            if slicing := slicing_of(chain, level) if group.size == 1 else None:
                trainer = chain_trainer(chain, group, slicing)
                advance = stepper(trainer)
            with settings(spec.recipe.precision, trainer.cursor.device, spec.threads):
                end = train_level(chain, level, trainer, advance, slicing)
                records.append(close_level(chain, records, level, end, keep_weights=keep_weights))
            yield records[-1]


def slicing_of(chain: Chain, level: Level) -> Slicing | None:
    """The slicing for training a level on a smaller network; None if no channels were removed."""
    shape = chain.dataset.train.image_shape
    return find_slicing(chain.spec.method, chain.untrained, shape, level.masks, level.network)


def chain_trainer(chain: Chain, group: ProcessGroup = ALONE, slicing: Slicing | None = None) -> Trainer:
    """A trainer with a copy of the chain's network, which all levels use, or with a level's smaller network."""
    spec, data = chain.spec, chain.dataset
    model = slicing.small_network(chain.untrained) if slicing else copy.deepcopy(chain.untrained)
    return prepare(model, chain.prunable, spec.recipe, spec.replicate, data.train, chain.examples, group)


def train_level(
    chain: Chain,
    level: Level,
    trainer: Trainer,
    advance: Callable[[], None],
    slicing: Slicing | None = None,
) -> Trained:
    """Train a level from its checkpoint or its start, and write checkpoints on the way.

    With a `slicing`, the trainer has the smaller network; what is stored and returned is the whole one.
    """
    began = time.perf_counter()
    first, earlier = load_level(chain, level, trainer, slicing)
    share_level(trainer, first, level.last)

    def seconds() -> float:
        return earlier + time.perf_counter() - began

    for begin, end in stretches(chain.times, first, level.last):
        if begin == chain.times.rewind and level.level == 0:
            save_rewind(chain, level, trainer)
        if not math.isfinite(train(trainer, advance, begin, end)):
            return examine(chain, trainer, seconds, slicing, diverged_at=end - level.first)
        if end < level.last and checkpoint_due(chain.spec.recipe, chain.times, begin, end):
            so_far = Checkpoint(step=end, seconds=seconds(), state=state_of(trainer, slicing))
            write_checkpoint(chain, level, so_far)
    return examine(chain, trainer, seconds, slicing)


def state_of(trainer: Trainer, slicing: Slicing | None) -> State:
    """The trainer's state, as one of the whole network."""
    state = copy_state(trainer)
    return slicing.whole_state(state) if slicing else state


def share_level(trainer: Trainer, first: int = 0, last: int = 0) -> tuple[int, int]:
    """Give every process of the group the first one's state, first step and last step of a level."""
    steps = torch.tensor([first, last], device=trainer.cursor.device)
    trainer.group.copy_first([steps])
    share_state(trainer)
    return int(steps[0]), int(steps[1])


def examine(
    chain: Chain,
    trainer: Trainer,
    seconds: Callable[[], float],
    slicing: Slicing | None = None,
    diverged_at: int | None = None,
) -> Trained:
    """Evaluate a trained network, unless it diverged: at the step `diverged_at`, or because weights are not finite.

    All processes of a group have the same weights, so they come to the same result.
    """
    network = state_of(trainer, slicing).network
    device = device_name(trainer.cursor.device, trainer.group)
    if diverged_at is not None or not all(bool(tensor.isfinite().all()) for tensor in network.values()):
        return Trained(network=network, seconds=seconds(), device=device, diverged=True, steps=diverged_at)
    data = chain.dataset
    test = _score(trainer, data.test, np.arange(len(data.test)))
    train = _score(trainer, data.train, chain.examples)
    held_out = _score(trainer, data.train, chain.validation) if len(chain.validation) else None
    return Trained(
        network=network, seconds=seconds(), device=device, test=test, train=train, validation=held_out
    )


def _score(trainer: Trainer, source: Source, indices: NDArray[np.int64]) -> Score:
    return evaluate(trainer.model, source, torch.from_numpy(indices), trainer.recipe.precision, trainer.group)


def load_level(
    chain: Chain, level: Level, trainer: Trainer, slicing: Slicing | None = None
) -> tuple[int, float]:
    """Load the level's checkpoint or start into the trainer; return the next step and the seconds already spent."""
    found = read_checkpoint(chain, level)
    state, masks = found.state if found else State(network=level.network, optimizer_state={}), level.masks
    if slicing is not None:
        state, masks = slicing.small_state(state), slicing.small_masks(masks)
    set_state(trainer, state, masks)
    return (found.step, found.seconds) if found else (level.first, 0.0)


def save_rewind(chain: Chain, level: Level, trainer: Trainer) -> None:
    """Store the network at the rewind point, if the method goes back to it."""
    if chain.spec.method.retraining == "weight-rewinding":
        write_packed(chain.folder.rewind, copy_state(trainer).network, level.masks, 0)


def follow_chain(spec: ChainSpec, store: Path, dataset: Dataset, group: ProcessGroup) -> NoReturn:
    """Train every level together with the process that runs the chain, until this process is killed."""
    chain = built(spec, store, dataset)
    trainer = chain_trainer(chain, group)
    advance = stepper(trainer)
    while True:
        with settings(spec.recipe.precision, trainer.cursor.device, spec.threads):
            follow_level(chain, trainer, advance)


def follow_level(chain: Chain, trainer: Trainer, advance: Callable[[], None]) -> None:
    """Train one level with the same stretches, end and evaluations as `train_level`."""
    first, last = share_level(trainer)
    for begin, end in stretches(chain.times, first, last):
        if not math.isfinite(train(trainer, advance, begin, end)):
            return
    examine(chain, trainer, float)


def device_name(device: torch.device, group: ProcessGroup = ALONE) -> str:
    """The device in words, and how many of them a group has."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return name if group.size == 1 else f"{group.size} x {name}"
