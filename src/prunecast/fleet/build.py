"""How packs come to be: networks that lend their shapes, prototypes, and runners with tensors of their own."""

from collections.abc import Sequence

import torch
from torch import nn

from prunecast import families
from prunecast.fleet.bench import EAGER, Programs, bench_of
from prunecast.fleet.gates import MODULES
from prunecast.fleet.members import Kind
from prunecast.fleet.options import Options
from prunecast.fleet.pack import Pack, pack
from prunecast.fleet.runner import Runner, compiled_programs, make_runner
from prunecast.fleet.shapes import Shape
from prunecast.spec import ChainSpec
from prunecast.training import timeline


class Builder:
    """Builds packs and their runners; its methods may be called from any thread."""

    def __init__(self, specs: Sequence[ChainSpec], options: Options) -> None:
        """Look at all specs, so that buffers are large enough for the longest epoch from the start."""
        self._options = options
        self._programs: Programs | None = None
        self._longest: dict[int, int] = {}
        for times in (timeline(spec.recipe, spec.num_examples) for spec in specs):
            self._longest[times.batch] = max(self._longest.get(times.batch, 0), times.epoch)

    def prototype(self, kind: Kind, shape: Shape, dtype: torch.dtype) -> Pack:
        """An empty pack, whose graph all runners of its shape share."""
        networks = {width: network(kind, width) for width in set(shape)}
        with MODULES.alone():
            return pack(
                [networks[width] for width in shape],
                image_shape=kind.dataset.train.image_shape,
                smallest_group=self._options.smallest_group,
                device=kind.dataset.train.labels.device,
                dtype=dtype,
                memory_format=torch.channels_last,
            )

    def runner(self, kind: Kind, prototype: Pack, *, compiled: bool) -> Runner:
        """An empty pack of its own with its steps, compiled or as they are written."""
        epoch = self._longest.get(kind.batch, 1)
        bench = bench_of(prototype.twin(), kind.recipe, kind.dataset.train, batch=kind.batch, epoch=epoch)
        if compiled:
            return make_runner(bench, prototype.module, self._compiled())
        return make_runner(bench, bench.pack.module, EAGER)

    def _compiled(self) -> Programs:
        if self._programs is None:
            self._programs = compiled_programs()
        return self._programs


def network(kind: Kind, width: float) -> nn.Module:
    """A network that lends its shapes to slots."""
    return families.build(
        kind.family,
        depth=kind.depth,
        width=width,
        num_classes=kind.dataset.num_classes,
        generator=torch.Generator().manual_seed(0),
        image_shape=kind.dataset.train.image_shape,
    )
