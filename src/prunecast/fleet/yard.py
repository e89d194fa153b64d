"""Where packs are built and kept: shapes, prototypes, runners to be used again, and the budget of widths."""

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from prunecast import families
from prunecast.fleet.bench import EAGER, PackBench, Programs, bench_of
from prunecast.fleet.host import HOST
from prunecast.fleet.members import Kind, Member, levels_left
from prunecast.fleet.options import BUDGET, CANDIDATES, ON_CPU, Options, best_budget
from prunecast.fleet.pack import Pack, pack
from prunecast.fleet.runner import Runner, compiled_programs, make_runner
from prunecast.fleet.shapes import Shape, fitting, shape_of
from prunecast.pruning import Chain
from prunecast.spec import ChainSpec
from prunecast.training import timeline

LOG = logging.getLogger(__name__)
WASTE = 2.0
"""How many times as wide as its members an uncompiled pack may be before another shape is made."""
COMPILE_FROM = 30_000
"""Steps from which compiling a shape, which takes about a minute, pays."""
SPARED_FROM = 400_000
"""Steps times widths of empty slots from which a narrower shape is compiled: they take three minutes on an H200."""


@dataclass(kw_only=True)
class _Site:
    """What is known about one kind of network."""

    shapes: list[Shape] = field(default_factory=list)
    prototypes: dict[Shape, Pack] = field(default_factory=dict)
    idle: dict[Shape, list[Runner]] = field(default_factory=dict)
    made: dict[Shape, int] = field(default_factory=dict)
    bytes: dict[Shape, int] = field(default_factory=dict)
    budget: float | None = None
    compiling: bool | None = None


class Yard:
    """All packs of a fleet; its methods may be called from any thread."""

    def __init__(self, specs: Sequence[ChainSpec], options: Options) -> None:
        """Look at all specs, so that buffers are large enough for the longest epoch from the start."""
        self._options = options
        self._sites: dict[Kind, _Site] = {}
        self._returned = threading.Condition()
        self._programs: Programs | None = None
        self.building = 0.0
        """Seconds spent on building packs: compiling, capturing, trying sizes out."""
        times = [timeline(spec.recipe, spec.num_examples) for spec in specs]
        self._longest: dict[int, int] = {}
        for own in times:
            self._longest[own.batch] = max(self._longest.get(own.batch, 0), own.epoch)

    def check(self, kind: Kind, chain: Chain) -> None:
        """Raise `Unpackable` where networks of this kind cannot be packed."""
        if kind not in self._sites:
            pack([chain.untrained], image_shape=chain.dataset.train.image_shape)
            with self._returned:  # others go through all sites
                self._sites[kind] = _Site()

    def budget(self, kind: Kind, members: Sequence[Member]) -> float:
        """The widths that one pack may add up to, measured where that makes a difference."""
        site = self._sites[kind]
        if site.budget is not None:
            return site.budget
        if kind.dataset.train.labels.device.type != "cuda":
            return self._options.budget or ON_CPU
        total = sum(member.width for member in members)
        useful = [size for size in CANDIDATES if size < 2 * total]
        if self._options.budget or len(useful) < 2:
            return self._options.budget or BUDGET
        site.budget = self._measured(kind, members, useful)
        return site.budget

    def shape(self, kind: Kind, members: Sequence[Member]) -> Shape:
        """The narrowest known shape that holds them, or a new one that just does where that pays."""
        first = members[0].level
        steps = max(1, first.last - first.first) * max(map(levels_left, members))
        with self._returned:
            site = self._sites[kind]
            if site.compiling is None:
                site.compiling = (
                    steps > COMPILE_FROM if self._options.compile is None else self._options.compile
                )
            own = shape_of(members)
            spare = SPARED_FROM / steps if site.compiling else (WASTE - 1) * sum(own)
            found = fitting(site.shapes, members, sum(own) + spare)
            if found is None:
                site.shapes.append(own)
            return found or own

    def shrink(self, kind: Kind, shape: Shape) -> None:
        """Give back what a pack too large for the memory took, and make smaller ones from now on."""
        with self._returned:
            site = self._sites[kind]
            site.budget = max(sum(shape) / 2, min(shape))
            site.shapes = [known for known in site.shapes if sum(known) < sum(shape)]
            self._drop_idle()
            LOG.warning(
                "A pack of width %g does not fit into the memory; trying %g.", sum(shape), site.budget
            )

    def give_up_compiling(self, kind: Kind, failure: Exception) -> bool:
        """Go on as it is written after a failure in compiled packs; False where nothing was compiled."""
        with self._returned:
            site = self._sites[kind]
            compiled, site.compiling = bool(site.compiling), False
            if compiled:
                self._drop_idle()
                LOG.warning("A compiled pack failed, so the fleet goes on uncompiled: %r", failure)
            return compiled and kind.dataset.train.labels.is_cuda

    @contextlib.contextmanager
    def runner(self, kind: Kind, shape: Shape, chain: Chain) -> Iterator[Runner]:
        """Lend an idle runner of this shape, or build one if the memory allows."""
        site = self._sites[kind]
        runner = self._borrow(site, kind, shape, chain)
        try:
            yield runner
        except BaseException:
            with self._returned:  # its tensors are in an unknown state
                site.made[shape] -= 1
                self._returned.notify_all()
            raise
        with self._returned:
            site.idle.setdefault(shape, []).append(runner)
            self._returned.notify_all()

    def clear(self) -> None:
        """Let go of all memory."""
        with self._returned:
            self._sites.clear()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def _borrow(self, site: _Site, kind: Kind, shape: Shape, chain: Chain) -> Runner:
        while True:
            if (idle := self._idle(site, shape)) is not None:
                return idle
            with HOST.compiling():  # so that the last one to build has told what it took
                if (idle := self._idle(site, shape)) is not None:
                    return idle
                room = self._room(site, kind, shape)
                if not room:
                    self._drop_idle()
                if room or not site.made.get(shape):
                    return self._build(site, kind, shape, chain)
            with self._returned:
                self._returned.wait_for(lambda: site.idle.get(shape), timeout=1.0)

    def _idle(self, site: _Site, shape: Shape) -> Runner | None:
        with self._returned:
            return site.idle[shape].pop() if site.idle.get(shape) else None

    def _room(self, site: _Site, kind: Kind, shape: Shape) -> bool:
        """Whether another runner of a shape fits, with as much again for evaluation.

        One of a shape never built is taken to be as large as the largest.
        """
        device = kind.dataset.train.labels.device
        if device.type != "cuda":
            return True
        free = torch.cuda.mem_get_info(device)[0]
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return free + unused > 2 * site.bytes.get(shape, max(site.bytes.values(), default=0))

    def _drop_idle(self) -> None:
        with self._returned:
            for site in self._sites.values():
                for shape, runners in site.idle.items():
                    site.made[shape] -= len(runners)
                    runners.clear()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _build(self, site: _Site, kind: Kind, shape: Shape, chain: Chain) -> Runner:
        began = time.perf_counter()
        device = kind.dataset.train.labels.device
        on_gpu = device.type == "cuda"
        before = _free(device)
        if shape not in site.prototypes:
            site.prototypes[shape] = self._prototype(kind, shape, chain)
        bench = self._bench(kind, site.prototypes[shape])
        if site.compiling and on_gpu:
            runner = make_runner(bench, site.prototypes[shape].module, self._compiled())
        else:
            runner = make_runner(bench, bench.pack.module, EAGER)
        with self._returned:
            site.made[shape] = site.made.get(shape, 0) + 1
        site.bytes[shape] = max(before - _free(device), site.bytes.get(shape, 0))
        seconds = time.perf_counter() - began
        self.building += seconds
        LOG.info(
            "A pack of %d networks, width %g, is ready after %.1f s%s.",
            len(shape),
            sum(shape),
            seconds,
            f" and takes {site.bytes[shape] / 2**30:.1f} GiB" if on_gpu else "",
        )
        return runner

    def _bench(self, kind: Kind, prototype: Pack) -> PackBench:
        epoch = self._longest.get(kind.batch, 1)
        return bench_of(prototype.twin(), kind.recipe, kind.dataset.train, batch=kind.batch, epoch=epoch)

    def _prototype(self, kind: Kind, shape: Shape, chain: Chain) -> Pack:
        networks = {width: self._network(kind, width) for width in set(shape)}
        with HOST.alone():
            return pack(
                [networks[width] for width in shape],
                image_shape=kind.dataset.train.image_shape,
                smallest_group=self._options.smallest_group,
                device=kind.dataset.train.labels.device,
                dtype=next(chain.untrained.parameters()).dtype,
                memory_format=torch.channels_last,
            )

    def _network(self, kind: Kind, width: float) -> nn.Module:
        """A network that lends its shapes to slots."""
        return families.build(
            kind.family,
            depth=kind.depth,
            width=width,
            num_classes=kind.dataset.num_classes,
            generator=torch.Generator().manual_seed(0),
            image_shape=kind.dataset.train.image_shape,
        )

    def _compiled(self) -> Programs:
        if self._programs is None:
            self._programs = compiled_programs()
        return self._programs

    def _measured(self, kind: Kind, members: Sequence[Member], useful: Sequence[float]) -> float:
        """Time a few sizes of packs, uncompiled; the usual one is kept unless another is clearly better."""
        began = time.perf_counter()
        widths = sorted((member.width for member in members), reverse=True)
        times: dict[float, float] = {}
        for size in useful:
            try:
                times[size] = self._time(kind, self._sample(widths, size), members[0].chain)
            except torch.OutOfMemoryError:
                break
        chosen = best_budget(times)
        self.building += time.perf_counter() - began
        told = ", ".join(f"{size:g}: {1e3 * seconds:.2f} ms" for size, seconds in times.items())
        LOG.info("Budget of widths %g (a step per unit of width takes %s).", chosen, told)
        return chosen

    def _sample(self, widths: Sequence[float], size: float) -> Shape:
        """Slots like the members, in their proportions, up to a total width."""
        shape: list[float] = []
        while sum(shape) < size:
            shape.append(widths[len(shape) % len(widths)])
        return tuple(sorted(shape, reverse=True))

    def _time(self, kind: Kind, shape: Shape, chain: Chain) -> float:
        """Seconds of a step over the widths of a pack."""
        with HOST.compiling():
            bench = self._bench(kind, self._prototype(kind, shape, chain))
            runner = make_runner(bench, bench.pack.module, EAGER)
        assert runner.stream is not None
        steps = min(len(runner.bench.rates), 24)
        seconds = []
        for _ in range(2):
            with runner.current():
                runner.bench.cursor.zero_()
                runner.stream.synchronize()
                began = time.perf_counter()
                runner.advance(steps)
                runner.stream.synchronize()
            seconds.append((time.perf_counter() - began) / steps / sum(shape))
        del runner
        torch.cuda.empty_cache()
        return min(seconds)


def _free(device: torch.device) -> int:
    """Bytes that nothing uses on a GPU; capturing empties the cache, so it must be empty before, too."""
    if device.type != "cuda":
        return 0
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info(device)[0]
