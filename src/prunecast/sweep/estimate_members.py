"""The chains of a plan as the fleet's scheduler sees them, with noise for data and nothing to train.

So the fleet's own code says which chains it can pack, and into packs of which shapes.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path

import numpy as np
import torch
from torch import nn

from prunecast import families
from prunecast.catalog import find_dataset
from prunecast.data import MOST_OF_DEVICE, Dataset
from prunecast.fleet import Job, Unpackable
from prunecast.fleet.members import Kind, Member, kind_of
from prunecast.fleet.ranks import Team, team_of
from prunecast.fleet.yard import Yard
from prunecast.pruning import Chain, Level, Pruned, chain_folder
from prunecast.spec import ChainSpec
from prunecast.sweep.cost import training_steps
from prunecast.sweep.estimate_timing import noise_like
from prunecast.sweep.grid import PlannedChain
from prunecast.training import timeline

LOG = logging.getLogger(__name__)
IMAGES = 4096
"""Images of noise that packs look up."""


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """Levels that are alike, of chains that train together."""

    kind: Kind
    members: tuple[Member, ...]
    levels: int


class Opener:
    """Opens chains of a plan on noise; chains on the same data share it."""

    def __init__(self, yard: Yard, device: torch.device) -> None:
        """Nothing is opened yet."""
        self._yard, self._device = yard, device
        self._noise: dict[tuple[object, ...], Dataset] = {}
        self._networks: dict[tuple[object, ...], nn.Module] = {}
        self._refused: set[Kind] = set()

    def open(self, planned: PlannedChain) -> Chain | None:
        """The chain, or None where it is no matter for a fleet: several devices, data that streams, channels mixed."""
        spec = planned.spec
        if planned.devices > 1 or not fits(spec, self._device):
            return None
        chain = self._chain(spec, planned.root)
        return chain if self._packable(chain) else None

    def _packable(self, chain: Chain) -> bool:
        kind = kind_of(chain)
        if kind in self._refused:
            return False
        try:
            self._yard.check(kind, chain)
        except Unpackable as reason:
            LOG.warning("%s of depth %d is reckoned alone: %s", kind.family, kind.depth, reason)
            self._refused.add(kind)
        return kind not in self._refused

    def _chain(self, spec: ChainSpec, root: Path | None) -> Chain:
        nobody: np.ndarray[tuple[int], np.dtype[np.int64]] = np.zeros(0, dtype=np.int64)
        place = (spec.loader or spec.dataset, root, spec.image_size)
        data = self._noise.get(place) or noise_like(spec, IMAGES, self._device)
        self._noise[place] = data
        which = (spec.family, spec.depth, *place)
        network = self._networks.get(which) or families.build(
            spec.family,
            depth=spec.depth,
            width=spec.width,
            num_classes=data.num_classes,
            generator=torch.Generator().manual_seed(0),
            image_shape=data.train.image_shape,
        )
        self._networks[which] = network
        return Chain(
            spec=spec,
            folder=chain_folder(Path(), spec),
            dataset=data,
            untrained=network,
            prunable=(),
            examples=nobody,
            validation=nobody,
            times=timeline(spec.recipe, spec.num_examples),
        )


def fits(spec: ChainSpec, device: torch.device) -> bool:
    """Whether a chain's data has room on the device; of own data that is not known, and taken to be so."""
    facts = find_dataset(spec.dataset, spec.loader)
    if facts is not None and facts.streamed and spec.loader in (None, facts.name):
        return False
    if facts is None or device.type != "cuda":
        return True
    shape = (3, spec.image_size, spec.image_size) if spec.image_size else facts.image_shape
    return facts.train_examples * prod(shape) <= MOST_OF_DEVICE * torch.cuda.mem_get_info(device)[0]


def teams(opened: Sequence[tuple[PlannedChain, Chain]]) -> list[list[Crowd]]:
    """Chains that train together, those with the most steps first, as the crowds of their levels."""
    found: dict[Team, list[tuple[PlannedChain, Chain]]] = {}
    for planned, chain in opened:
        found.setdefault(team_of(planned.spec), []).append((planned, chain))
    longest_first = sorted(found.values(), key=lambda own: -own[0][1].times.total)
    return [list(_crowds(own)) for own in longest_first]


def _crowds(chains: Sequence[tuple[PlannedChain, Chain]]) -> Iterator[Crowd]:
    """The same chains meet from one level cap to the next, but at level 0 they begin at the beginning."""
    bounds = sorted({0, 1} | {planned.rules.level_cap + 1 for planned, _ in chains})
    for level, following in pairwise(bounds):
        groups: dict[tuple[int, bool], list[Member]] = {}
        for number, (planned, chain) in enumerate(chains):
            if planned.rules.level_cap >= level:
                tuned = level > 0 and planned.spec.method.retraining == "fine-tuning"
                group = groups.setdefault((training_steps(planned.spec, level), tuned), [])
                group.append(_member(number, planned, chain, level))
        for members in groups.values():
            kind = kind_of(members[0].chain)
            yield Crowd(kind=kind, members=tuple(members), levels=following - level)


def _member(number: int, planned: PlannedChain, chain: Chain, level: int) -> Member:
    counts = Pruned(nonzero=0, alive=None, connected=None)
    last = training_steps(planned.spec, level)
    return Member(
        number=number,
        job=Job(spec=planned.spec, rules=planned.rules, dataset=lambda: chain.dataset),
        chain=chain,
        records=(),
        level=Level(level=level, masks={}, counts=counts, network={}, first=0, last=last),
    )
