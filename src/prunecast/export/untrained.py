"""Untrained networks that are timed so that `choose` can predict the latency of sizes that nobody trained.

Latency depends on layer shapes and not on the values of weights, so a network of any size can be built and timed
without training. The sizes are those that `choose` considers. Where channels are removed, each size is also timed at a
few densities, with the share of each group of channels that trained networks of other sizes have left there. Trained
sizes are timed in the same way, as if they were untrained: comparing these times with those of the trained networks
shows how far off such predictions are.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from torch import nn

from prunecast import families
from prunecast.choice import FEWEST_SIZES, size_grid
from prunecast.errors import PrunecastError
from prunecast.export.files import build
from prunecast.export.timing import Latencies, Timing, read_latencies, time_network
from prunecast.pruning import chain_folder, write_whole
from prunecast.spec import CHANNELS, ChainSpec
from prunecast.sweep import ChainStatus, image_facts
from prunecast.table import TIMED_WITH, UNTRAINED

Floats = NDArray[np.float64]
DENSITIES = 5
"""How many densities each size is timed at where channels are removed, the unpruned network among them."""


@dataclass(frozen=True, kw_only=True)
class GroupShares:
    """Which share of its groups of channels a trained size has left, by density."""

    depth: float
    width: float
    log_density: Floats
    """of every level, from the lowest up"""
    shares: Floats
    """by level and group"""

    def at(self, log_density: float, groups: int) -> Floats:
        """The log shares at a density; in a network with another number of groups, by their place among them."""
        own = [np.interp(log_density, self.log_density, np.log(share)) for share in self.shares.T]
        return np.asarray(np.interp(_places(groups), _places(len(own)), own))


def _places(groups: int) -> Floats:
    return (np.arange(groups) + 0.5) / groups


@dataclass(frozen=True, kw_only=True)
class UntrainedNetwork:
    """A network of a size that is timed without training."""

    depth: int
    width: float
    density: float
    multiply_adds: int
    bytes: int
    model: nn.Module
    image_shape: tuple[int, ...]


Place = tuple[str, ...]
"""An untrained network in its table: the values of the columns UNTRAINED."""


def time_untrained(
    networks: Iterable[UntrainedNetwork],
    how: Timing,
    before: Mapping[Place, Latencies] = MappingProxyType({}),
) -> Iterator[tuple[Place, Latencies]]:
    """Measure networks; those that were measured `before` are not measured again."""
    for network in networks:
        place = tuple(str(getattr(network, name)) for name in UNTRAINED)
        known = before.get(place)
        yield place, known or time_network(network.model, network.image_shape, how)


def write_untrained(found: Mapping[Place, Latencies], how: Timing, path: Path) -> None:
    """Write the latencies of untrained networks as CSV, atomically."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*UNTRAINED, TIMED_WITH, *how.columns])
    for place, latencies in found.items():
        writer.writerow([*place, how.name, *(own.milliseconds for own in latencies)])
    write_whole(path.absolute(), text.getvalue().encode(), wait=True)


def untrained_before(rows: Iterable[Mapping[str, str]], how: Timing) -> dict[Place, Latencies]:
    """The latencies in rows that a stopped run has written."""
    found = {tuple(row.get(name, "") for name in UNTRAINED): read_latencies(row, how) for row in rows}
    return {place: own for place, own in found.items() if own is not None}


def untrained_networks(chains: Sequence[ChainStatus], store: Path, sizes: str) -> Iterator[UntrainedNetwork]:
    """The networks of all sizes that `choose` considers; none where too few sizes were trained."""
    trained = {(own.chain.spec.depth, own.chain.spec.width): own for own in chains}
    if len(trained) < FEWEST_SIZES:
        return
    pruned = {
        (spec.depth, spec.width): own
        for own in chains
        if own.records[1:] and (spec := own.chain.spec).method.structure == CHANNELS
    }
    known = [_shares(own, store) for own in pruned.values()]
    first = next(iter(trained.values()))
    shape, num_classes = image_facts(first.chain)
    depths, widths = (sorted(set(axis)) for axis in zip(*trained, strict=True))
    for depth, width in size_grid(depths, widths, first.chain.spec.family, sizes):
        facts = {"depth": int(depth), "width": width, "num_classes": num_classes, "image_shape": shape}
        try:
            model = build({**vars(first.chain.spec), **facts})
        except PrunecastError:  # a function of a user, which may take only some widths
            continue
        others = [own for own in known if (own.depth, own.width) != (depth, width)]
        yield from _levels(model, int(depth), width, shape, others)


def _levels(
    model: nn.Module, depth: int, width: float, shape: tuple[int, ...], others: Sequence[GroupShares]
) -> Iterator[UntrainedNetwork]:
    """One size, unpruned and with what trained networks of other sizes have left."""
    whole = families.full_sizes(model, shape)
    if whole.multiply_adds is None:
        return
    unpruned = UntrainedNetwork(
        depth=depth,
        width=width,
        density=1.0,
        multiply_adds=whole.multiply_adds,
        bytes=whole.bytes,
        model=model,
        image_shape=shape,
    )
    yield unpruned
    if not others:
        return
    units, names = families.find_units(model, shape), families.prunable(model)
    counts = np.bincount(units.groups)
    distance = [np.log([depth / own.depth, width / own.width]) for own in others]
    nearness = [1 / max(float(away @ away), 1e-12) ** 2 for away in distance]
    lowest = float(np.median([own.log_density[0] for own in others]))
    for log_density in np.linspace(0, lowest, DENSITIES)[1:]:
        share = np.average([own.at(log_density, len(counts)) for own in others], axis=0, weights=nearness)
        left = np.clip(np.round(counts * np.exp(share)), 1, counts).astype(int)
        kept = units.first(dict(zip(units.names, left.tolist(), strict=True)))
        density = units.weights(names, kept) / units.weights(names, units.everything())
        costs = units.sizes(kept)
        yield replace(
            unpruned,
            density=density,
            multiply_adds=costs.multiply_adds or 0,
            bytes=costs.bytes,
            model=units.sliced(model, kept),
        )


def _shares(status: ChainStatus, store: Path) -> GroupShares:
    spec: ChainSpec = status.chain.spec
    shape, num_classes = image_facts(status.chain)
    units = families.find_units(
        build({**vars(spec), "num_classes": num_classes, "image_shape": shape}), shape
    )
    folder, shares, densities = chain_folder(store, spec), [], []
    for record in status.records[::-1]:
        kept = units.kept(folder.masks(record.level)) if record.level else units.everything()
        shares.append(np.bincount(units.groups[kept], minlength=len(units.names)) / np.bincount(units.groups))
        densities.append(record.density)
    return GroupShares(
        depth=spec.depth, width=spec.width, log_density=np.log(densities), shares=np.array(shares)
    )
