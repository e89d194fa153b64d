"""How packs come to be: networks that lend their shapes, prototypes, and runners with tensors of their own."""

import logging
from collections.abc import Sequence

import torch
from torch import nn

from prunecast import families
from prunecast.fleet.bench import EAGER, Programs, bench_of
from prunecast.fleet.fused import NoKernels, Unfused, compiler, fused_step
from prunecast.fleet.fused.lower import lower
from prunecast.fleet.gates import MODULES
from prunecast.fleet.layout import Unpackable
from prunecast.fleet.members import Kind
from prunecast.fleet.options import Options
from prunecast.fleet.pack import Pack, pack
from prunecast.fleet.runner import Runner, compiled_programs, make_fused_runner, make_runner
from prunecast.fleet.shapes import Shape
from prunecast.spec import ChainSpec
from prunecast.training import timeline

LOG = logging.getLogger(__name__)


class Builder:
    """Builds packs and their runners; its methods may be called from any thread."""

    def __init__(self, specs: Sequence[ChainSpec], options: Options) -> None:
        """Look at all specs, so that buffers are large enough for the longest epoch from the start."""
        self._options = options
        self._programs: Programs | None = None
        self._longest: dict[int, int] = {}
        self._fusable: set[Kind] = set()
        self._unfused: dict[Kind, str] = {}
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
        if self.fuses(kind):
            try:
                step = fused_step(bench, compiler(bench.cursor.device))
                return make_fused_runner(step, kind.dataset.test)
            except (Unfused, NoKernels) as reason:
                self._unfused[kind] = str(reason)
                LOG.info("Packs train without fused steps: %s", reason)
        if compiled:
            return make_runner(bench, prototype.module, self._compiled())
        return make_runner(bench, bench.pack.module, EAGER)

    def fuses(self, kind: Kind) -> bool:
        """Whether packs of a kind train by the package's own kernels, which start at once and need no compiling."""
        on_gpu = kind.dataset.train.labels.device.type == "cuda"
        asked = self._options.fuse and on_gpu and kind.recipe.precision == "bf16"
        if asked and kind not in self._unfused and kind not in self._fusable:
            try:
                with MODULES.alone():
                    one = pack([network(kind, 1.0)], image_shape=kind.dataset.train.image_shape)
                lower(one, kind.dataset.train.image_shape)
            except (Unfused, Unpackable) as reason:
                self._unfused[kind] = str(reason)
            else:
                self._fusable.add(kind)
        return asked and kind in self._fusable and kind not in self._unfused

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
