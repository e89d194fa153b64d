"""How packs come to be: networks that lend their shapes, prototypes, and runners with tensors of their own."""

import logging
from collections.abc import Sequence

import torch
from torch import nn

from prunecast import families
from prunecast.fleet.bench import EAGER, Programs, bench_of
from prunecast.fleet.fused import Unfused, compiler, fused_step
from prunecast.fleet.fused.lower import lower
from prunecast.fleet.fused.prepare import variants
from prunecast.fleet.fused.step import refuse_recipe
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
LOADED_STEPS = 256
"""Steps whose examples a pack has room for at least: short epochs are loaded several at once."""
FUSED_ON = ("cuda",)
"""Kinds of devices with kernels of our own."""


class Builder:
    """Builds packs and their runners; its methods may be called from any thread."""

    def __init__(self, specs: Sequence[ChainSpec], options: Options, packs: int | None = None) -> None:
        """Look at all specs, so that buffers are large enough for the longest epoch from the start.

        `packs` are expected to train at once, as many as there are workers unless told.
        """
        self._options, self._packs = options, packs or options.workers
        self._programs: Programs | None = None
        self._longest: dict[int, int] = {}
        self._fusable: dict[tuple[Kind, float], bool] = {}
        """By the widest network of a pack: wide ones need more memory than a block of threads has."""
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
                device=kind.device,
                dtype=dtype,
                memory_format=torch.channels_last,
            )

    def runner(self, kind: Kind, shape: Shape, prototype: Pack, *, compiled: bool) -> Runner:
        """An empty pack of its own with its steps: fused where that can be, else compiled or as they are written."""
        epoch = max(self._longest.get(kind.batch, 1), LOADED_STEPS)
        bench = bench_of(prototype.twin(), kind.recipe, kind.dataset.train, batch=kind.batch, epoch=epoch)
        if self.fuses(kind, shape):
            try:
                step = fused_step(bench, compiler(bench.cursor.device), self._packs)
                return make_fused_runner(step, kind.dataset.test)
            except torch.OutOfMemoryError:
                raise
            except Exception as reason:
                self.give_up_fusing(kind, shape, reason)
        if compiled:
            return make_runner(bench, prototype.module, self._compiled())
        return make_runner(bench, bench.pack.module, EAGER)

    def fuses(self, kind: Kind, shape: Shape) -> bool:
        """Whether packs train by the package's own kernels, which start at once and need no compiling.

        What a kind is told once holds until it fails. Modules are traced, so nobody may hold a lock of the yard.
        """
        key = kind, max(shape)
        if not self._options.fuse or kind.device.type not in FUSED_ON:
            return False
        if key not in self._fusable:
            try:
                self._try_to_fuse(*key)
            except Exception as reason:  # of any kind: who forms packs asks, and must not end for this
                self.give_up_fusing(kind, shape, reason)
            else:
                self._fusable.setdefault(key, True)
        return self._fusable[key]

    def give_up_fusing(self, kind: Kind, shape: Shape, reason: Exception) -> None:
        """Let packs with networks as wide as the widest of these train in another way from now on."""
        self._fusable[kind, max(shape)] = False
        level = logging.INFO if isinstance(reason, Unfused | Unpackable) else logging.WARNING
        names = (kind.family, kind.depth, max(shape))
        LOG.log(level, "Packs of %s of depth %d up to width %g train without fused steps: %s", *names, reason)

    def _try_to_fuse(self, kind: Kind, width: float) -> None:
        """Raise what is in the way, as far as one network shows it."""
        refuse_recipe(kind.recipe)
        with MODULES.alone():
            one = pack([network(kind, width)], image_shape=kind.dataset.train.image_shape)
            program = lower(one, kind.dataset.train.image_shape)
        list(variants(program, kind.device))
        compiler(kind.device)("update.cu", {})

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
