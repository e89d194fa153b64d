"""Jobs, members and events of a fleet, the properties by which members may share a pack, and their examples."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prunecast.data import Dataset, Draws, merged
from prunecast.fleet.step import compact
from prunecast.pruning import Chain, Checkpoint, Level, Record, Slicing, StopRules
from prunecast.spec import ChainSpec, Recipe
from prunecast.training import draw_epoch


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """Settings of a fleet."""

    most_packs: int = 6
    """Maximum number of packs in training at the same time, each on its own stream; two full packs keep a GPU busy."""
    budget: float | None = None
    """Total width of one pack; None measures on a GPU whether another size than the default is faster."""
    compile: bool | None = None
    """Whether to compile the steps before training; None does so where it saves time."""
    fuse: bool = True
    """Whether packs train with the package's own kernels on a GPU, where these support them."""
    smallest_group: int | None = 32
    """Minimum number of channels per group of a convolution; None leaves convolutions dense."""
    most_chains: int = 512
    """Maximum number of open chains."""
    most_width: float | None = None
    """Maximum total width of open chains; more are opened as others end. None opens as many as `most_chains` allows."""
    checkpoint_seconds: float = 300.0
    """Seconds between two checkpoints inside a level."""
    threads: int = 2
    """torch threads per host thread."""


@dataclass(frozen=True, kw_only=True)
class ChainJob:
    """A chain to be run to its end."""

    spec: ChainSpec
    rules: StopRules
    dataset: Callable[[], Dataset]
    """Returns the data on the device to train on; the device thread calls it if there is something to train."""
    keep_weights: bool = False


@dataclass(frozen=True, kw_only=True)
class LevelFinished:
    """A finished level of a job."""

    number: int
    """The job's place in the list."""
    record: Record
    ended: str
    """Why the chain ended with this level; empty while it continues."""


@dataclass(frozen=True, kw_only=True)
class ChainFailed:
    """A job that failed; the others continue. `problem` is a BusyError if another process has the chain."""

    number: int
    problem: Exception


@dataclass(frozen=True, kw_only=True)
class Member:
    """A chain with a level to train."""

    number: int
    """The job's place in the list."""
    job: ChainJob
    chain: Chain
    records: tuple[Record, ...]
    level: Level
    checkpoint: Checkpoint | None = None
    """The checkpoint of the level, if it was interrupted."""
    slicing: Slicing | None = None
    """The slicing that removes its lost channels; None if it has lost none."""

    @property
    def first(self) -> int:
        """The step to continue with."""
        return self.checkpoint.step if self.checkpoint else self.level.first

    @property
    def seconds(self) -> float:
        """Seconds already spent on the level."""
        return self.checkpoint.seconds if self.checkpoint else 0.0

    @property
    def width(self) -> float:
        """The network's width."""
        return self.chain.spec.width


@dataclass(frozen=True, kw_only=True)
class PackKind:
    """What networks must have in common so that one pack can serve all of them, one after the other."""

    family: str
    depth: int
    dataset: Dataset
    recipe: Recipe
    """Reduced to what a single step depends on; all other fields have fixed values."""
    batch: int

    @property
    def device(self) -> torch.device:
        """The device of the data and of all packs."""
        return self.dataset.train.labels.device


@dataclass(frozen=True, kw_only=True)
class LevelGroup:
    """What levels must have in common to be trained in one pack at the same time."""

    kind: PackKind
    recipe: Recipe
    num_examples: int
    begun: int
    """The step that the level begins with."""
    first: int
    """The step to continue with."""
    last: int


def kind_of(chain: Chain) -> PackKind:
    """The chain's kind. The length of its recipe, its learning rates and its initial weights do not matter."""
    spec = chain.spec
    irrelevant: dict[str, Any] = {
        "name": "",
        "steps": None,
        "validation_examples": 0,
        "checkpoint_steps": 1,
        "epochs": 1,
        "learning_rate": 1.0,
        "drops": (),
        "warmup": 0.0,
        "rewind": 0.0,
        "drop_factor": 1.0,
        "schedule": "step",
        "final_learning_rate": 0.0,
        "initial_weights": "he-uniform",
    }
    recipe = dataclasses.replace(spec.recipe, **irrelevant)
    return PackKind(
        family=spec.family,
        depth=spec.depth,
        dataset=chain.dataset,
        recipe=recipe,
        batch=chain.times.batch,
    )


def group_of(member: Member) -> LevelGroup:
    """The member's group at its present level."""
    level, spec = member.level, member.chain.spec
    recipe = dataclasses.replace(spec.recipe, name="", checkpoint_steps=1)
    return LevelGroup(
        kind=kind_of(member.chain),
        recipe=recipe,
        num_examples=spec.num_examples,
        begun=level.first,
        first=member.first,
        last=level.last,
    )


@dataclass(frozen=True, kw_only=True)
class EpochData:
    """Examples and augmentation of a pack's members in some epochs, on the host: (slots, positions, ...)."""

    order: Tensor
    draws: Draws | None


def draw_epochs(chains: Sequence[Chain | None], epochs: Sequence[int]) -> EpochData:
    """Draw every member's order and augmentation for several epochs, joined along the positions."""
    drawn = [draw_members(chains, epoch) for epoch in epochs]
    if len(drawn) == 1:
        return drawn[0]
    draws = [data.draws for data in drawn if data.draws is not None]
    return EpochData(
        order=torch.cat([data.order for data in drawn], dim=1),
        draws=merged(draws, lambda parts: torch.cat(parts, dim=1)) if draws else None,
    )


def draw_members(chains: Sequence[Chain | None], epoch: int) -> EpochData:
    """Draw every member's order and augmentation for one epoch; empty slots read example 0 at every step.

    Chains of the same replicate draw the same numbers, so these are drawn once.
    """
    drawn: dict[int, tuple[NDArray[np.int64], Draws | None]] = {}
    for chain in chains:
        if chain is not None and chain.spec.replicate not in drawn:
            spec, shape = chain.spec, chain.dataset.train.image_shape
            drawn[spec.replicate] = draw_epoch(
                spec.recipe, chain.times, spec.replicate, chain.examples, shape, epoch
            )
    of_slots = [None if chain is None else drawn[chain.spec.replicate] for chain in chains]
    order, draws = next(slot for slot in of_slots if slot is not None)
    orders = np.zeros((len(chains), len(order)), dtype=np.int32)
    for row, slot in zip(orders, of_slots, strict=True):
        if slot is not None:
            row[:] = slot[0]
    if draws is None:
        return EpochData(order=torch.from_numpy(orders), draws=None)
    empty = draws.map(torch.zeros_like)
    rows = [empty if slot is None or slot[1] is None else slot[1] for slot in of_slots]
    return EpochData(order=torch.from_numpy(orders), draws=merged(rows, _side_by_side))


def _side_by_side(rows: list[Tensor]) -> Tensor:
    return torch.stack([row.to(compact(row)) for row in rows])
