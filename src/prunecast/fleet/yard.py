"""Where packs are built and kept: shapes, prototypes, runners to be used again, and the budget of widths."""

import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import torch

from prunecast.fleet.bench import EAGER
from prunecast.fleet.build import Builder
from prunecast.fleet.gates import MODULES
from prunecast.fleet.measure import measured_budget
from prunecast.fleet.members import Kind, Member, levels_left
from prunecast.fleet.options import BUDGET, CANDIDATES, ON_CPU, Options
from prunecast.fleet.pack import Pack, pack
from prunecast.fleet.runner import Runner
from prunecast.fleet.shapes import Shape, fitting, shape_of
from prunecast.fleet.streams import streams_left
from prunecast.pruning import Chain
from prunecast.spec import ChainSpec

LOG = logging.getLogger(__name__)
WASTE = 2.0
"""How many times as wide as its members an uncompiled pack may be before another shape is made."""
COMPILE_FROM = 10_000
"""Steps from which compiling a shape pays: it is done beside the training, but the device rests for seconds."""
SPARED_FROM = 400_000
"""Steps times widths of empty slots from which a narrower shape is compiled: they take three minutes on an H200."""


@dataclass(kw_only=True)
class _Site:
    """What is known about one kind of network."""

    shapes: list[Shape] = field(default_factory=list)
    prototypes: dict[Shape, Pack] = field(default_factory=dict)
    idle: dict[Shape, list[Runner]] = field(default_factory=dict)
    made: dict[Shape, int] = field(default_factory=dict)
    compiled: set[Shape] = field(default_factory=set)
    bytes: dict[Shape, int] = field(default_factory=dict)
    budget: float | None = None
    compiling: bool | None = None


class Yard:
    """All packs of a fleet; its methods may be called from any thread."""

    def __init__(self, specs: Sequence[ChainSpec], options: Options) -> None:
        """Nothing is built yet."""
        self._options, self._builder = options, Builder(specs, options)
        self._sites: dict[Kind, _Site] = {}
        self._returned = threading.Condition()
        self._builders = 0
        """Threads that want to build a pack."""
        self._settled, self._cleared = True, False
        self._maker, self._compiler = self._thread("build"), self._thread("compile")
        self._improvements: list[Future[None]] = []
        self.building = 0.0
        """Seconds that streams waited for packs: building, capturing, trying sizes out."""
        self.compiling = 0.0
        """Seconds of compiling beside the training."""

    def _thread(self, name: str) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, name, initializer=lambda: torch.set_num_threads(self._options.threads))

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
        began, widths = time.perf_counter(), [member.width for member in members]
        dtype = next(members[0].chain.untrained.parameters()).dtype
        site.budget = measured_budget(self._builder, kind, widths, useful, dtype)
        self.building += time.perf_counter() - began
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

    def compiles(self, kind: Kind) -> bool:
        """Whether packs of a kind go on compiled: on a GPU where that pays, elsewhere where it is asked for."""
        on_gpu = kind.dataset.train.labels.device.type == "cuda"
        return bool(self._sites[kind].compiling) and (on_gpu or self._options.compile is True)

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
            try:
                yield runner
            finally:
                runner.rest()
        except BaseException:
            with self._returned:  # its tensors are in an unknown state
                site.made[shape] -= 1
                self._returned.notify_all()
            raise
        with self._returned:
            site.idle.setdefault(shape, []).append(runner)
            self._returned.notify_all()

    def settle(self, settled: bool) -> None:
        """Say whether this is a time to compile, which keeps chains from being opened."""
        with self._returned:
            self._settled = settled
            self._returned.notify_all()

    def catch_up(self) -> None:
        """Wait until everything that is worth it is compiled."""
        for improvement in self._improvements:
            improvement.result()

    def clear(self) -> None:
        """Let go of all memory."""
        with self._returned:
            self._cleared = True
            self._returned.notify_all()
        for thread in (self._maker, self._compiler):
            thread.shutdown(wait=True, cancel_futures=True)
        with self._returned:
            self._sites.clear()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def _borrow(self, site: _Site, kind: Kind, shape: Shape, chain: Chain) -> Runner:
        while True:
            if (idle := self._idle(site, shape)) is not None:
                return idle
            with self._wanting():
                made = self._maker.submit(self._obtain, site, kind, shape, chain).result()
            if made is not None:
                return made
            with self._returned:
                self._returned.wait_for(lambda: site.idle.get(shape), timeout=1.0)

    def _obtain(self, site: _Site, kind: Kind, shape: Shape, chain: Chain) -> Runner | None:
        """An idle runner or a new one, or nothing where the memory is full.

        One thread makes all packs, because the libraries remember their choices of algorithms by thread.
        """
        with MODULES.alone():  # so that the last one to build has told what it took
            if (idle := self._idle(site, shape)) is not None:
                return idle
            room = self._room(site, kind, shape)
            if not room:
                self._drop_idle()
            return self._build(site, kind, shape, chain) if room or not site.made.get(shape) else None

    @contextlib.contextmanager
    def _wanting(self) -> Iterator[None]:
        """Be counted among those who want to build."""
        with self._returned:
            self._builders += 1
        try:
            yield
        finally:
            with self._returned:
                self._builders -= 1
                self._returned.notify_all()

    def _idle(self, site: _Site, shape: Shape) -> Runner | None:
        with self._returned:
            return site.idle[shape].pop() if site.idle.get(shape) else None

    def _room(self, site: _Site, kind: Kind, shape: Shape) -> bool:
        """Whether another runner of a shape fits, with as much again for evaluation, and a stream is left for it.

        One of a shape never built is taken to be as large as the largest.
        """
        device = kind.dataset.train.labels.device
        if device.type != "cuda":
            return True
        if streams_left() < 2 * self._options.workers:  # those who train alone need some, too
            return False
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
        """A pack that can begin at once; steps that must be compiled first take over when they are ready."""
        began = time.perf_counter()
        device = kind.dataset.train.labels.device
        before = _free(device)
        if shape not in site.prototypes:
            dtype = next(chain.untrained.parameters()).dtype
            site.prototypes[shape] = self._builder.prototype(kind, shape, dtype)
        compiled = self.compiles(kind)
        later = compiled and shape not in site.compiled
        runner = self._builder.runner(kind, site.prototypes[shape], compiled=compiled and not later)
        site.bytes[shape] = max(before - _free(device), site.bytes.get(shape, 0))
        if later and self._room(site, kind, shape):
            self._improvements.append(
                self._compiler.submit(self._improve, site, kind, shape, weakref.ref(runner))
            )
        elif later:
            del runner  # there is no room for two
            runner = self._builder.runner(kind, site.prototypes[shape], compiled=True)
        with self._returned:
            site.made[shape] = site.made.get(shape, 0) + 1
        self.building += time.perf_counter() - began
        told = f" and takes {site.bytes[shape] / 2**30:.1f} GiB" if device.type == "cuda" else ""
        LOG.info("%s is ready after %.1f s%s.", _words(shape), time.perf_counter() - began, told)
        return runner

    def _improve(self, site: _Site, kind: Kind, shape: Shape, slow: "weakref.ref[Runner]") -> None:
        """Compile for a runner beside its training, when nobody is kept from opening chains or building packs."""
        with self._returned:
            self._returned.wait_for(lambda: self._cleared or (self._settled and not self._builders))
        runner = slow()
        if self._cleared or runner is None or not site.compiling or not self._room(site, kind, shape):
            return
        began = time.perf_counter()
        try:
            with MODULES.alone():
                faster = self._builder.runner(kind, site.prototypes[shape], compiled=True)
        except Exception as failure:
            LOG.warning("Packs go on uncompiled: %r", failure)
            site.compiling = False
            return
        self.compiling += time.perf_counter() - began
        if faster.programs is EAGER:  # it was told why
            site.compiling = False
            return
        site.compiled.add(shape)
        runner.faster = faster
        LOG.info("%s goes on compiled, after %.1f s.", _words(shape), time.perf_counter() - began)


def _words(shape: Shape) -> str:
    return f"A pack of {len(shape)} networks, width {sum(shape):g},"


def _free(device: torch.device) -> int:
    """Bytes that nothing uses on a GPU; capturing empties the cache, so it must be empty before, too."""
    if device.type != "cuda":
        return 0
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info(device)[0]
